// The entries of a run of counts: `find_widths` and `encode_entries` of tamis_mail/store/tables.py.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

// Adds `find_widths` and `encode_entries` to `tamis._core.mail`.
void bind_count_entries(nb::module_& m);

}  // namespace tamis::mail
