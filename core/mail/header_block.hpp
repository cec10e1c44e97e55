// The fields of a header block.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

// Adds `read_header_block` to `tamis._core.mail`.
void bind_header_block(nb::module_& m);

}  // namespace tamis::mail
