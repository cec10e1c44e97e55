// Normalises text to lower case without invisible characters and look-alikes, and notes which tricks were used. The reference is
// `tamis_mail.message.folding`.
#pragma once

#include <vector>

#include "unicode.hpp"

namespace tamis::mail {

template <class Char>
struct Folded {
  String<Char> text;
  std::vector<Text> tricks;  // In ascending order.
};
using FoldedText = Folded<char32_t>;

FoldedText fold_text(TextView text);
Folded<char> fold_text(std::string_view ascii);
// The same without the tricks.
Text fold(TextView text);
inline std::string fold(std::string_view ascii) { return lower(ascii); }

}  // namespace tamis::mail
