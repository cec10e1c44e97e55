// Reads messages, given as bytes: their digests, headings, dates and features.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

constexpr int kNewestVersion = 3;  // Of the tokens.
// Refuses a version of the tokens that only Python reads.
void require_compiled_version(int version);

// Adds `CanonicalForm` and `MessageReader` to `tamis._core.mail`.
void bind_reading(nb::module_& m);

}  // namespace tamis::mail
