// Lists of the keys of features, one per message, to their distinct keys.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

void bind_key_lists(nb::module_& m);

}  // namespace tamis::mail
