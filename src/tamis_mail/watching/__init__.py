"""What `tamis watch imap` and `tamis watch maildir` share: learn from the owner's acts, and sort new mail.

`mailbox.Mailbox` is what a surface provides; `watcher.Watcher` is the loop; `lessons` has the rules; `memory`
remembers between two passes, and between two runs.
"""
