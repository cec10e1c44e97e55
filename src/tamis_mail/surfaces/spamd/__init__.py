"""The protocol of SpamAssassin's spamd, for spamc, Exim, Evolution, KMail and isbg."""
