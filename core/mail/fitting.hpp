// Products of a sparse matrix with vectors, for the fit of the coefficients of features.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

void bind_fitting(nb::module_& m);

}  // namespace tamis::mail
