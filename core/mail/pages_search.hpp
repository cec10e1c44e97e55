// Searching in text, for the readers of pages: characters, words in either case, and classes of ASCII characters.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "search.hpp"
#include "unicode.hpp"

namespace tamis::mail {

// As `\s` in a regular expression with the flag ASCII. (`is_space` is `\s` without it.)
inline bool is_ascii_space(char32_t c) { return c == U' ' || (c >= U'\t' && c <= U'\r'); }
// As `[a-zA-Z]`.
inline bool is_ascii_letter(char32_t c) { return (c | 32) >= U'a' && (c | 32) <= U'z'; }
// As `[a-zA-Z0-9]`.
inline bool is_ascii_alnum(char32_t c) { return is_ascii_letter(c) || is_digit(c); }
// As `\w` in a regular expression with the flag ASCII.
inline bool is_ascii_word(char32_t c) { return is_ascii_alnum(c) || c == U'_'; }
inline char32_t to_ascii_lower(char32_t c) { return c >= U'A' && c <= U'Z' ? c + 32 : c; }

template <class Char>
std::size_t skip_ascii_spaces(View<Char> text, std::size_t place) {
  while (place < text.size() && is_ascii_space(text[place])) ++place;
  return place;
}
template <class Char>
std::size_t skip_spaces(View<Char> text, std::size_t place) {
  while (place < text.size() && is_space(text[place])) ++place;
  return place;
}
inline std::size_t skip_spaces(TextView text, std::size_t place) {
  while (place < text.size() && is_space(text[place])) ++place;
  return place;
}

// The first place of a character at `place` or later, or `kNowhere`.
inline std::size_t find_character(TextView text, char32_t character, std::size_t place = 0) {
  constexpr std::size_t kBlock = 32;  // Characters that are compared without a branch, so that vectors are used.
  const char32_t* data = text.data();
  if (place < text.size() && data[place] == character) return place;
  for (; place + kBlock <= text.size(); place += kBlock) {
    std::uint32_t is_there = 0;
    for (std::size_t i = 0; i < kBlock; ++i) is_there |= static_cast<std::uint32_t>(data[place + i] == character);
    if (is_there != 0) break;
  }
  for (; place < text.size(); ++place) {
    if (data[place] == character) return place;
  }
  return kNowhere;
}

inline std::size_t find_character(std::string_view text, char character, std::size_t place = 0) {
  return text.find(character, place);
}

// Whether a part, which is in lower case, is at a place of the text, whatever the case of the text's ASCII letters.
inline bool is_at_in_any_case(TextView text, std::size_t place, TextView part) {
  if (place > text.size() || text.size() - place < part.size()) return false;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (to_ascii_lower(text[place + i]) != part[i]) return false;
  }
  return true;
}
inline bool is_at_in_any_case(std::string_view ascii, std::size_t place, std::string_view part) {
  if (place > ascii.size() || ascii.size() - place < part.size()) return false;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (to_ascii_lower(static_cast<unsigned char>(ascii[place + i])) != static_cast<unsigned char>(part[i])) return false;
  }
  return true;
}

inline bool is_at_in_any_case(TextView text, std::size_t place, std::string_view part) {
  if (place > text.size() || text.size() - place < part.size()) return false;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (to_ascii_lower(text[place + i]) != static_cast<unsigned char>(part[i])) return false;
  }
  return true;
}

// The first place of a short part at `place` or later, or `kNowhere`. The character of the part that is `rare` in text is
// searched for.
inline std::size_t find_part(TextView text, TextView part, std::size_t place = 0, std::size_t rare = 0) {
  place += rare;
  while ((place = find_character(text, part[rare], place)) != kNowhere && !is_at(text, place - rare, part)) ++place;
  return place == kNowhere ? kNowhere : place - rare;
}
// The same for a part of ASCII characters, in text of either form.
inline std::size_t find_ascii_part(std::string_view text, std::string_view part, std::size_t place = 0, std::size_t = 0) {
  return find_bytes(text, part, place);
}
inline std::size_t find_ascii_part(TextView text, std::string_view part, std::size_t place = 0, std::size_t rare = 0) {
  place += rare;
  const auto beginning = static_cast<char32_t>(part[rare]);
  while ((place = find_character(text, beginning, place)) != kNowhere && !is_at(text, place - rare, part)) ++place;
  return place == kNowhere ? kNowhere : place - rare;
}
inline bool has_part(TextView text, TextView part) { return find_part(text, part) != kNowhere; }

// Whether a text equals one of ASCII, or one of a few.
inline bool equals(std::string_view text, std::string_view other) { return text == other; }
inline bool equals(TextView text, std::string_view other) { return text.size() == other.size() && is_at(text, 0, other); }
inline bool is_one_of(TextView text, std::initializer_list<TextView> texts) {
  for (const TextView other : texts) {
    if (text == other) return true;
  }
  return false;
}
template <class Char>
bool is_one_of(View<Char> text, std::initializer_list<std::string_view> texts) {
  for (const std::string_view other : texts) {
    if (equals(text, other)) return true;
  }
  return false;
}

}  // namespace tamis::mail
