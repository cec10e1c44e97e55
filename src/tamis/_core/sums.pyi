"""See core/sums.cpp."""
