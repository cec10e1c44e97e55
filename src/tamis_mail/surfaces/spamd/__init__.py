"""The protocol of SpamAssassin's spamd, for its client spamc and others.

The others are the mail server Exim, the mail programs Evolution and KMail, and isbg, which filters mail of
IMAP accounts.
"""
