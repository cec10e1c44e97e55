#include "common.hpp"
#include "parts.hpp"

namespace tamis {

void bind_sums(nb::module_& m) { (void)m; }

}  // namespace tamis
