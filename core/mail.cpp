#include "common.hpp"
#include "mail/fields.hpp"
#include "parts.hpp"

namespace tamis {

void bind_mail(nb::module_& m) { mail::bind_fields(m); }

}  // namespace tamis
