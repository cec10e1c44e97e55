// Compresses bytes to a zlib stream.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

// Adds `compress_bytes` to `tamis._core.mail`.
void bind_deflate(nb::module_& m);

}  // namespace tamis::mail
