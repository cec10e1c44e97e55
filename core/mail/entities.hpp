// Character references to text, as browsers decode them: `tamis_mail.message.entities`.
#pragma once

#include "unicode.hpp"

namespace tamis::mail {

// Decodes the references of a text in place; returns whether ASCII letters or digits were written as numbers.
bool decode_entities(Text& text);

}  // namespace tamis::mail
