// Each file of this folder adds its functions to `tamis._core.text`.
#pragma once

#include "../common.hpp"

namespace tamis::text {

void bind_fold(nb::module_& m);
void bind_tokens(nb::module_& m);
void bind_numbers(nb::module_& m);
void bind_counts(nb::module_& m);
void bind_hashes(nb::module_& m);

}  // namespace tamis::text
