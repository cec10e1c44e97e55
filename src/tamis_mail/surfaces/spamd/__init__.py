"""The protocol of SpamAssassin's spamd, for clients such as spamc, Exim, Evolution, KMail and isbg."""
