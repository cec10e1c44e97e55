// The sources of nanobind, as one file.
#include <nb_combined.cpp>
