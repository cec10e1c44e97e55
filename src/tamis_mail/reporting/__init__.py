"""a labelled mailbox → an evaluation of the filter in numbers and charts, and a rule tuned to the mailbox.

Everything happens in memory, with the counts and the arithmetic of a store; no store is changed. Counts can
be subtracted, so each fold, or each message, is judged by all others after one pass over the mail.
"""
