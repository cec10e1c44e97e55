// Text as Python has it: strings of code points, with Python's own classes of characters.
//
// A Python str may have any code point, also lone surrogates and NUL, and so may a `Text`. CPython itself decides which characters
// are letters, digits or spaces, so that the core and the reference in Python agree under every version of Unicode. For ASCII,
// which most mail is, there is a table. Callers of functions that take or return a Python object hold the interpreter's lock; all
// other functions take it themselves if they need it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "../common.hpp"

namespace tamis::mail {

using Text = std::u32string;
using TextView = std::u32string_view;
constexpr std::size_t kNowhere = TextView::npos;

// Text of ASCII characters alone may also be held as bytes: a quarter of the memory. Functions for both forms are templates, or
// have an overload for bytes, which must be ASCII.
template <class Char>
using String = std::basic_string<Char>;
template <class Char>
using View = std::basic_string_view<Char>;

namespace character_class {
constexpr std::uint8_t kLetter = 1, kDigit = 2, kSpace = 4, kUpper = 8, kLower = 16;
constexpr std::uint8_t kWord = 32;    // As `\w`.
constexpr std::uint8_t kDomain = 64;  // As `[\w.\-]`.
constexpr std::uint8_t kLocal = 128;  // May be in an address before the at sign.
// The classes of the 128 characters of ASCII. `str.isspace` counts the separators 0x1c to 0x1f among the spaces.
struct Table {
  std::uint8_t classes[128] = {};
  constexpr Table() {
    for (int code = 'a'; code <= 'z'; ++code) classes[code] = kLetter | kLower;
    for (int code = 'A'; code <= 'Z'; ++code) classes[code] = kLetter | kUpper;
    for (int code = '0'; code <= '9'; ++code) classes[code] = kDigit;
    for (int code = 0x09; code <= 0x0d; ++code) classes[code] = kSpace;
    for (int code = 0x1c; code <= 0x20; ++code) classes[code] = kSpace;
    for (int code = 0; code < 128; ++code) {
      const bool is_word = code == '_' || (classes[code] & (kLetter | kDigit)) != 0;
      bool is_local = (classes[code] & kSpace) == 0;
      for (const char other : {'<', '>', '"', '\'', '(', ')', ',', ':', ';', '@', '[', ']'}) is_local = is_local && code != other;
      if (is_word) classes[code] |= kWord;
      if (is_word || code == '.' || code == '-') classes[code] |= kDomain;
      if (is_local) classes[code] |= kLocal;
    }
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
inline bool is_word(char32_t c) {
  return c < 128 ? is_ascii_class(c, character_class::kWord) : Py_UNICODE_ISALNUM(static_cast<Py_UCS4>(c)) != 0;
}

// As `[a-z]`, `[0-9]` and `[a-z0-9]`.
inline bool is_lower_letter(char32_t c) { return c >= U'a' && c <= U'z'; }
inline bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
inline bool is_lower_alnum(char32_t c) { return is_lower_letter(c) || is_digit(c); }

// As the same methods of a whole str: false for an empty one.
bool is_all_alpha(TextView text);
bool is_all_alpha(std::string_view ascii);
bool is_all_alnum(TextView text);
bool is_all_decimal(TextView text);
bool is_all_decimal(std::string_view ascii);
// True for an empty text, too.
bool is_ascii(TextView text);

// The code points of a Python str; TypeError for another object. The second form reads only text[:limit].
Text to_text(nb::handle text);
Text to_text(nb::handle text, std::size_t limit);
nb::str to_str(TextView text);
// As `text.encode("utf-8", "replace")`: a lone surrogate becomes a question mark.
void append_utf8(std::string& bytes, TextView text);
inline void append_utf8(std::string& bytes, std::string_view ascii) { bytes.append(ascii); }
std::string to_utf8(TextView text);
// Bytes that are ASCII, as text.
Text widen(std::string_view ascii);
// The same in a form that is named.
template <class Char>
String<Char> from_ascii(std::string_view ascii) {
  return String<Char>(ascii.begin(), ascii.end());
}

// As `str.lower`.
Text lower(TextView text);
std::string lower(std::string_view ascii);
// As `str.strip()`, and as `str.strip(characters)` for ASCII characters.
TextView strip(TextView text);
std::string_view strip(std::string_view ascii);
TextView strip(TextView text, std::string_view characters);
std::string_view strip(std::string_view ascii, std::string_view characters);
// As `str.split()`, and as `str.split(separator)`.
std::vector<TextView> split_at_spaces(TextView text);
std::vector<std::string_view> split_at_spaces(std::string_view ascii);
std::vector<TextView> split_at(TextView text, char32_t separator);
std::vector<std::string_view> split_at(std::string_view ascii, char separator);
// As text[start:] and text[start:end] for numbers that are not negative, and text[:limit].
inline TextView cut(TextView text, std::size_t start, std::size_t end = kNowhere) {
  start = start < text.size() ? start : text.size();
  return text.substr(start, end > start ? end - start : 0);
}
inline std::string_view cut(std::string_view ascii, std::size_t start, std::size_t end = kNowhere) {
  start = start < ascii.size() ? start : ascii.size();
  return ascii.substr(start, end > start ? end - start : 0);
}
inline TextView first(TextView text, std::size_t limit) { return text.substr(0, limit); }
inline std::string_view first(std::string_view ascii, std::size_t limit) { return ascii.substr(0, limit); }
inline bool starts_with(TextView text, TextView beginning) { return text.substr(0, beginning.size()) == beginning; }
inline bool starts_with(std::string_view text, std::string_view beginning) {
  return text.substr(0, beginning.size()) == beginning;
}
// As `text.startswith(part, place)`.
inline bool is_at(TextView text, std::size_t place, TextView part) {
  return place <= text.size() && text.substr(place, part.size()) == part;
}
inline bool is_at(TextView text, std::size_t place, std::string_view part) {
  if (place > text.size() || text.size() - place < part.size()) return false;
  for (std::size_t index = 0; index < part.size(); ++index) {
    if (text[place + index] != static_cast<unsigned char>(part[index])) return false;
  }
  return true;
}
inline bool is_at(std::string_view text, std::size_t place, std::string_view part) {
  return place <= text.size() && text.substr(place, part.size()) == part;
}
// As `text.find(part, place)` for a part of ASCII characters, of which there is one at least.
inline std::size_t find_ascii(TextView text, std::string_view part, std::size_t place = 0) {
  const auto beginning = static_cast<char32_t>(part[0]);
  while ((place = text.find(beginning, place)) != kNowhere && !is_at(text, place, part)) ++place;
  return place;
}
inline std::size_t find_ascii(std::string_view text, std::string_view part, std::size_t place = 0) {
  return text.find(part, place);
}
// As `text.partition(separator)[0]` and [2], and as `text.rpartition(separator)[0]` and [2].
template <class Char>
View<Char> take_before(View<Char> text, Char separator) {
  return text.substr(0, text.find(separator));
}
template <class Char>
View<Char> take_after(View<Char> text, Char separator) {
  const std::size_t place = text.find(separator);
  return place == kNowhere ? View<Char>() : text.substr(place + 1);
}
template <class Char>
View<Char> take_before_last(View<Char> text, Char separator) {
  const std::size_t place = text.rfind(separator);
  return place == kNowhere ? View<Char>() : text.substr(0, place);
}
template <class Char>
View<Char> take_after_last(View<Char> text, Char separator) {
  const std::size_t place = text.rfind(separator);
  return place == kNowhere ? text : text.substr(place + 1);
}
inline TextView before_first(TextView text, char32_t separator) { return take_before(text, separator); }
inline TextView after_first(TextView text, char32_t separator) { return take_after(text, separator); }
inline TextView before_last(TextView text, char32_t separator) { return take_before_last(text, separator); }
inline TextView after_last(TextView text, char32_t separator) { return take_after_last(text, separator); }
inline std::string_view before_first(std::string_view ascii, char separator) { return take_before(ascii, separator); }
inline std::string_view after_first(std::string_view ascii, char separator) { return take_after(ascii, separator); }
inline std::string_view before_last(std::string_view ascii, char separator) { return take_before_last(ascii, separator); }
inline std::string_view after_last(std::string_view ascii, char separator) { return take_after_last(ascii, separator); }
// Whether a text contains a part, in time that is linear in both (std::u32string::find is quadratic at worst).
bool contains(TextView text, TextView part);
bool contains(std::string_view text, std::string_view part);

}  // namespace tamis::mail
