// Finds the messages of an mbox.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

// Adds `split_mbox` to `tamis._core.mail`.
void bind_mbox(nb::module_& m);

}  // namespace tamis::mail
