// Text as Python has it: strings of code points, with Python's own classes of characters.
//
// A Python str may have any code point, also lone surrogates and NUL, and so may a `Text`. CPython itself decides which characters
// are letters, digits or spaces, so that the core and the reference in Python agree under every version of Unicode. For ASCII,
// which most mail is, there is a table. Callers of functions that take or return a Python object hold the interpreter's lock; all
// other functions take it themselves if they need it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../common.hpp"

namespace tamis::mail {

using Text = std::u32string;
using TextView = std::u32string_view;
constexpr std::size_t kNowhere = TextView::npos;

namespace character_class {
constexpr std::uint8_t kLetter = 1, kDigit = 2, kSpace = 4, kUpper = 8, kLower = 16;
// The classes of the 128 characters of ASCII. `str.isspace` counts the separators 0x1c to 0x1f among the spaces.
struct Table {
  std::uint8_t classes[128] = {};
  constexpr Table() {
    for (int code = 'a'; code <= 'z'; ++code) classes[code] = kLetter | kLower;
    for (int code = 'A'; code <= 'Z'; ++code) classes[code] = kLetter | kUpper;
    for (int code = '0'; code <= '9'; ++code) classes[code] = kDigit;
    for (int code = 0x09; code <= 0x0d; ++code) classes[code] = kSpace;
    for (int code = 0x1c; code <= 0x20; ++code) classes[code] = kSpace;
  }
};
inline constexpr Table kAscii;
}  // namespace character_class

inline bool is_ascii_class(char32_t c, std::uint8_t classes) {
  return (character_class::kAscii.classes[c] & classes) != 0;
}

// As `str.isalpha`, `str.isalnum`, `str.isspace`, `str.isupper` and `str.isdecimal` of one character.
inline bool is_alpha(char32_t c) {
  return c < 128 ? is_ascii_class(c, character_class::kLetter) : Py_UNICODE_ISALPHA(static_cast<Py_UCS4>(c)) != 0;
}
inline bool is_alnum(char32_t c) {
  return c < 128 ? is_ascii_class(c, character_class::kLetter | character_class::kDigit)
                 : Py_UNICODE_ISALNUM(static_cast<Py_UCS4>(c)) != 0;
}
inline bool is_space(char32_t c) {
  return c < 128 ? is_ascii_class(c, character_class::kSpace) : Py_UNICODE_ISSPACE(static_cast<Py_UCS4>(c)) != 0;
}
inline bool is_upper(char32_t c) {
  return c < 128 ? is_ascii_class(c, character_class::kUpper) : Py_UNICODE_ISUPPER(static_cast<Py_UCS4>(c)) != 0;
}
inline bool is_decimal(char32_t c) {
  return c < 128 ? is_ascii_class(c, character_class::kDigit) : Py_UNICODE_ISDECIMAL(static_cast<Py_UCS4>(c)) != 0;
}
// As `\w` in a regular expression on str. There `\s` is `is_space` and `\d` is `is_decimal`.
inline bool is_word(char32_t c) { return c == U'_' || is_alnum(c); }

// As `[a-z]`, `[0-9]` and `[a-z0-9]`.
inline bool is_lower_letter(char32_t c) { return c >= U'a' && c <= U'z'; }
inline bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
inline bool is_lower_alnum(char32_t c) { return is_lower_letter(c) || is_digit(c); }

// As the same methods of a whole str: false for an empty one.
bool is_all_alpha(TextView text);
bool is_all_alnum(TextView text);
bool is_all_decimal(TextView text);
// True for an empty text, too.
bool is_ascii(TextView text);

// The code points of a Python str; TypeError for another object. The second form reads only text[:limit].
Text to_text(nb::handle text);
Text to_text(nb::handle text, std::size_t limit);
nb::str to_str(TextView text);
// As `text.encode("utf-8", "replace")`: a lone surrogate becomes a question mark.
void append_utf8(std::string& bytes, TextView text);
std::string to_utf8(TextView text);
// Bytes that are ASCII, as text.
Text widen(std::string_view ascii);

// As `str.lower`.
Text lower(TextView text);
// As `str.strip()`, and as `str.strip(characters)` for ASCII characters.
TextView strip(TextView text);
TextView strip(TextView text, std::string_view characters);
// As `str.split()`, and as `str.split(separator)`.
std::vector<TextView> split_at_spaces(TextView text);
std::vector<TextView> split_at(TextView text, char32_t separator);
// As text[start:] and text[start:end] for numbers that are not negative, and text[:limit].
inline TextView cut(TextView text, std::size_t start, std::size_t end = kNowhere) {
  start = start < text.size() ? start : text.size();
  return text.substr(start, end > start ? end - start : 0);
}
inline TextView first(TextView text, std::size_t limit) { return text.substr(0, limit); }
inline bool starts_with(TextView text, TextView beginning) { return text.substr(0, beginning.size()) == beginning; }
// As `text.startswith(part, place)`.
inline bool is_at(TextView text, std::size_t place, TextView part) {
  return place <= text.size() && text.substr(place, part.size()) == part;
}
// As `text.partition(separator)[0]` and [2], and as `text.rpartition(separator)[0]` and [2].
TextView before_first(TextView text, char32_t separator);
TextView after_first(TextView text, char32_t separator);
TextView before_last(TextView text, char32_t separator);
TextView after_last(TextView text, char32_t separator);
// Whether a text contains a part, in time that is linear in both (std::u32string::find is quadratic at worst).
bool contains(TextView text, TextView part);

}  // namespace tamis::mail
