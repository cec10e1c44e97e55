"""See core/text.cpp."""
