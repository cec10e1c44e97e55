"""a labelled mailbox → how well it can be sorted, in numbers and pictures, and a rule that sorts it better.

All is done in memory, by the counts that a store would hold and the arithmetic that a store is judged by;
nobody's store is touched. Counts subtract: a fold, or a single message, is judged by all but itself for the
price of having counted once.
"""
