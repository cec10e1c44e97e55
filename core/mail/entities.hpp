// Decodes character references as browsers do. The reference is `tamis_mail.message.entities`.
#pragma once

#include <optional>
#include <string>

#include "unicode.hpp"

namespace tamis::mail {

// Decodes the character references of a text in place; returns whether any stood for an ASCII letter or digit as a number.
bool decode_entities(Text& text);
// The same for text of ASCII. If a reference stands for another character, nothing is returned, and the text is as it was.
std::optional<bool> decode_ascii_entities(std::string& ascii);

}  // namespace tamis::mail
