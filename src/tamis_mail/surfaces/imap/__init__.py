"""IMAP: `tamis watch imap` and `tamis setup imap`."""
