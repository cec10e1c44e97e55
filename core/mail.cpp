#include "common.hpp"
#include "mail/header_block.hpp"
#include "parts.hpp"

namespace tamis {

void bind_mail(nb::module_& m) { mail::bind_header_block(m); }

}  // namespace tamis
