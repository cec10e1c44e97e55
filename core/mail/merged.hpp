// The features of many messages, merged, and their sums.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

// Adds `MergedFeatures` and `FeatureSum` to `tamis._core.mail`.
void bind_merged(nb::module_& m);

}  // namespace tamis::mail
