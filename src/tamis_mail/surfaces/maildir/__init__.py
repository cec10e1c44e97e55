"""`tamis watch maildir`: a Maildir, with its subfolders, as a mailbox that is watched."""
