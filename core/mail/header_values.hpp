// Decodes the raw value of a header field: its text, or its value and parameters. The reference is `tamis_mail.message.fields`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "charsets.hpp"

namespace tamis::mail {

constexpr std::size_t kDecodedWords = 100;  // Encoded words of a value that are decoded.

// Returns whether a value must be decoded: it has an encoded word, or characters other than printable ASCII.
bool must_be_decoded(std::string_view value);
// Returns the text of a field, with its first `words` encoded words decoded.
Text decode_value(std::string_view value, std::size_t words, const Charsets& charsets, Faults& faults);

// Returns the media type of a Content-Type, or nothing.
std::string find_media_type(std::string_view value);
// Returns the first word of a value, in lower case.
std::string find_first_word(std::string_view value);

using Parameters = std::vector<std::pair<std::string, std::string>>;  // Names in lower case, and raw values.

Parameters read_parameters(std::string_view value);
// Returns the text of a parameter; nothing if there is none.
Text decode_parameter(const Parameters& parameters, std::string_view name, std::size_t words, const Charsets& charsets,
                      Faults& faults);

}  // namespace tamis::mail
