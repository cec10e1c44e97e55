// The raw value of a header field to its text, or to its value and parameters: `tamis_mail.message.fields`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "charsets.hpp"

namespace tamis::mail {

constexpr std::size_t kDecodedWords = 100;  // Encoded words of a value that are decoded.

// Whether the text of a value is more than the value itself: it has an encoded word, or other characters than printable ASCII.
bool must_be_decoded(std::string_view value);
// The text of a field; `words` encoded words of it are decoded.
Text decode_value(std::string_view value, std::size_t words, const Charsets& charsets, Faults& faults);

// The media type of a Content-Type, or nothing.
std::string find_media_type(std::string_view value);
// The first word of a value, in lower case.
std::string find_first_word(std::string_view value);

using Parameters = std::vector<std::pair<std::string, std::string>>;  // Names in lower case, and raw values.

Parameters read_parameters(std::string_view value);
// The text of a parameter; nothing if there is none.
Text decode_parameter(const Parameters& parameters, std::string_view name, std::size_t words, const Charsets& charsets,
                      Faults& faults);

}  // namespace tamis::mail
