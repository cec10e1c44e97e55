// Merges lists of keys of features, finds keys in a list, and adds tables of counts.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

void bind_key_lists(nb::module_& m);

}  // namespace tamis::mail
