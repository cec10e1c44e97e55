#include "numbers.hpp"

#include <cstdint>

#include "../common.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kBlock = 32;  // Characters that are compared without a branch, so that vectors are used.

// Returns the first place, in steps of kBlock, of which the next kBlock places may have a digit; if there is none, one with fewer
// than kBlock places before the end.
TAMIS_FOR_EACH_PROCESSOR std::size_t find_block(const char* text, std::size_t place, std::size_t size) {
  for (; size - place >= kBlock; place += kBlock) {
    std::uint8_t has_digit = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      has_digit = static_cast<std::uint8_t>(has_digit | (static_cast<std::uint8_t>(text[place + i] - '0') < 10));
    }
    if (has_digit != 0) break;
  }
  return place;
}
TAMIS_FOR_EACH_PROCESSOR std::size_t find_block(const char32_t* text, std::size_t place, std::size_t size) {
  for (; size - place >= kBlock; place += kBlock) {
    std::uint32_t may_be_digit = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      const char32_t c = text[place + i];
      may_be_digit |= static_cast<std::uint32_t>(c - U'0' < 10) | static_cast<std::uint32_t>(c >= 128);
    }
    if (may_be_digit != 0) break;
  }
  return place;
}

bool is_decimal_of(char c) { return is_digit(static_cast<unsigned char>(c)); }
bool is_decimal_of(char32_t c) { return is_decimal(c); }

template <class Char>
bool is_currency(Char c) {
  return c == Char{'$'} || c == Char{'#'} || (sizeof(Char) > 1 && (static_cast<char32_t>(c) == U'€' || static_cast<char32_t>(c) == U'£'));
}

template <class Char>
bool continues_number(Char c) {
  return is_decimal_of(c) || c == Char{'.'} || c == Char{','} || c == Char{':'} || c == Char{'/'} || c == Char{'-'};
}

template <class Char>
NumberPlace find_first_number(View<Char> text, std::size_t place) {
  const std::size_t first = place;
  while (place < text.size() && !is_decimal_of(text[place])) {
    ++place;
    if (text.size() - place >= kBlock) {
      place = find_block(text.data(), place, text.size());
      for (std::size_t i = 0; i < kBlock && place < text.size() && !is_decimal_of(text[place]); ++i) ++place;
    }
  }
  if (place == text.size()) return {place, place};
  const std::size_t start = place > first && is_currency(text[place - 1]) ? place - 1 : place;
  while (place < text.size() && continues_number(text[place])) ++place;
  if (place < text.size() && text[place] == Char{'%'}) ++place;
  return {start, place};
}

}  // namespace

NumberPlace find_number(TextView text, std::size_t place) { return find_first_number(text, place); }
NumberPlace find_number(std::string_view ascii, std::size_t place) { return find_first_number(ascii, place); }

}  // namespace tamis::mail
