// The features of messages → the sums by view from which messages are judged.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

// Adds `sum_views`, `sum_coefficients` and `group_counts` to `tamis._core.mail`.
void bind_scoring(nb::module_& m);

}  // namespace tamis::mail
