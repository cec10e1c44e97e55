// Encodes and decodes the features of some messages, in the format of tamis_mail/store/bundles.py.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

void bind_bundles(nb::module_& m);

}  // namespace tamis::mail
