// Finds the numbers in a text, with their signs. The reference is `_list_numbers` of `tamis_mail.tokens.body`.
#pragma once

#include <cstddef>

#include "unicode.hpp"

namespace tamis::mail {

// A number that was found: text[start:end]. There is none if both are equal.
struct NumberPlace {
  std::size_t start = 0, end = 0;
};

// Returns the first match of `[$€£#]?\d[\d.,:/-]*%?` at `place` or later.
NumberPlace find_number(TextView text, std::size_t place);
NumberPlace find_number(std::string_view ascii, std::size_t place);

}  // namespace tamis::mail
