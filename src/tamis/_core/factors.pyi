"""See core/factors.cpp."""
