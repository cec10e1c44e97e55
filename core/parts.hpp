// Each part of the core adds its functions to a submodule of its own.
#pragma once

#include "common.hpp"

namespace tamis {

void bind_sums(nb::module_& m);
void bind_text(nb::module_& m);
void bind_dense(nb::module_& m);
void bind_factors(nb::module_& m);
void bind_mail(nb::module_& m);

}  // namespace tamis
