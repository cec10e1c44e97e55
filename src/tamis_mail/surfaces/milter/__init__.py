"""The milter protocol, by which Postfix and Sendmail ask a filter before they accept a message."""
