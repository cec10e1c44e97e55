#include "numbers.hpp"

#include <cstdint>
#include <cstring>

#include "../bits.hpp"
#include "../common.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kBlock = 32;  // Characters that are compared without a branch, so that vectors are used.

// Goes on from a place in steps of kBlock. Returns the first place after which one of kBlock characters may be a digit; if there is
// none, the place after which fewer than kBlock characters are left.
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

// The place of the first digit among the next eight bytes of ASCII; 8 if there is none.
std::size_t find_digit_of_eight(const char* text) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, text, 8);
  // A byte that is a digit, and no other byte of ASCII, becomes less than ten here: then 118 more do not reach its highest bit.
  const std::uint64_t digits = ~((bytes ^ 0x3030303030303030) + 0x7676767676767676) & 0x8080808080808080;
  return digits == 0 ? 8 : find_lowest_bit(digits) / 8;
#else
  std::size_t place = 0;
  while (place < 8 && !is_digit(static_cast<unsigned char>(text[place]))) ++place;
  return place;
#endif
}

// The first place of a digit at `place` or later, or the end.
std::size_t find_decimal(std::string_view text, std::size_t place) {
  const char* const data = text.data();
  // Numbers are often near each other.
  for (int step = 0; step < 4 && text.size() - place >= 8; ++step) {
    const std::size_t found = find_digit_of_eight(data + place);
    place += found;
    if (found < 8) return place;
  }
  place = find_block(data, place, text.size());
  while (text.size() - place >= 8) {
    const std::size_t found = find_digit_of_eight(data + place);
    place += found;
    if (found < 8) return place;
  }
  while (place < text.size() && !is_digit(static_cast<unsigned char>(text[place]))) ++place;
  return place;
}
std::size_t find_decimal(TextView text, std::size_t place) {
  while (place < text.size() && !is_decimal(text[place])) {
    ++place;
    if (text.size() - place < kBlock) continue;
    place = find_block(text.data(), place, text.size());
    for (std::size_t i = 0; i < kBlock && place < text.size() && !is_decimal(text[place]); ++i) ++place;
  }
  return place;
}

bool is_decimal_of(char c) { return is_digit(static_cast<unsigned char>(c)); }
bool is_decimal_of(char32_t c) { return is_decimal(c); }

template <class Char>
bool is_currency(Char c) {
  return c == Char{'$'} || c == Char{'#'} || (sizeof(Char) > 1 && (static_cast<char32_t>(c) == U'€' || static_cast<char32_t>(c) == U'£'));
}

// As `[\d.,:/-]`: the signs are those from comma to colon, and the digits are among these.
template <class Char>
bool continues_number(Char c) {
  return (c >= Char{','} && c <= Char{':'}) || (sizeof(Char) > 1 && is_decimal_of(c));
}

template <class Char>
NumberPlace find_first_number(View<Char> text, std::size_t first) {
  std::size_t place = find_decimal(text, first);
  if (place == text.size()) return {place, place};
  const std::size_t start = place > first && is_currency(text[place - 1]) ? place - 1 : place;
  do ++place;
  while (place < text.size() && continues_number(text[place]));
  if (place < text.size() && text[place] == Char{'%'}) ++place;
  return {start, place};
}

}  // namespace

NumberPlace find_number(TextView text, std::size_t place) { return find_first_number(text, place); }
NumberPlace find_number(std::string_view ascii, std::size_t place) { return find_first_number(ascii, place); }

}  // namespace tamis::mail
