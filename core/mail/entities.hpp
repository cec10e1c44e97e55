// Decodes character references as browsers do. The reference is `tamis_mail.message.entities`.
#pragma once

#include "unicode.hpp"

namespace tamis::mail {

// Decodes the character references of a text in place; returns whether any stood for an ASCII letter or digit as a number.
bool decode_entities(Text& text);

}  // namespace tamis::mail
