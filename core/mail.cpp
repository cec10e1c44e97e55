#include "common.hpp"
#include "parts.hpp"

namespace tamis {

void bind_mail(nb::module_& m) { (void)m; }

}  // namespace tamis
