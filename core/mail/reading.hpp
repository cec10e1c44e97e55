// Reads messages, given as bytes: their digests, headings, dates and features.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

// Adds `CanonicalForm` and `MessageReader` to `tamis._core.mail`.
void bind_reading(nb::module_& m);

}  // namespace tamis::mail
