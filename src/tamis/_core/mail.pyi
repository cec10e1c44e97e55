"""See core/mail.cpp."""
