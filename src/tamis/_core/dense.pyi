"""See core/dense.cpp."""
