"""The common part of `tamis watch imap` and `tamis watch maildir`: learn from the owner's moves, and sort.

`mailbox.Mailbox` is the interface of an account; `watcher.Watcher` is the loop; `lessons` has the rules by
which a move teaches a label; `memory` stores the state between two passes, and between two runs.
"""
