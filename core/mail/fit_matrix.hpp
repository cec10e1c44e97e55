// The matrix of the fit of coefficients.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

// Adds `FitMatrix` to `tamis._core.mail`.
void bind_fit_matrix(nb::module_& m);

}  // namespace tamis::mail
