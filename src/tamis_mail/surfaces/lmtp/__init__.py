"""A filter between a mail server and its delivery, by LMTP: Postfix before it, Dovecot after it."""
