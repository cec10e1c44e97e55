// Reads text eight bytes at a time, and checks that tokens and documents lie within their arrays.
#pragma once

#include <cstdint>
#include <cstring>

#include "../bits.hpp"
#include "../compiler.hpp"
#include "../require.hpp"

namespace tamis::text {

constexpr uint64_t kHighBits = 0x8080808080808080;
constexpr uint64_t kLowBits = 0x7F7F7F7F7F7F7F7F;

// A token may be read up to the next multiple of eight bytes, and folded text 64 bytes at a time: so many bytes follow.
constexpr int64_t kTokenPadding = 8;
constexpr int64_t kTextPadding = 72;

// Return eight bytes as a number: the first byte is the lowest.
inline uint64_t load_eight(const uint8_t* place) {
  uint64_t word;
  std::memcpy(&word, place, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

// Return whether two tokens have the same bytes. Both are followed by eight bytes that may be read.
inline bool has_same_bytes(const uint8_t* left, const uint8_t* right, int64_t length) {
  if (length < 8) {
    const uint64_t mask = (uint64_t{1} << (8 * length)) - 1;
    return ((load_eight(left) ^ load_eight(right)) & mask) == 0;
  }
  for (int64_t k = 0; k + 8 <= length; k += 8) {
    if (load_eight(left + k) != load_eight(right + k)) return false;
  }
  return load_eight(left + length - 8) == load_eight(right + length - 8);
}

// Refuse offsets that do not divide the first `end` elements of an array into parts.
inline void check_offsets(const int64_t* offsets, size_t count, int64_t end) {
  if (count == 0) refuse("got no offsets, expected one more than there are documents");
  int64_t before = 0;
  for (size_t k = 0; k < count; ++k) {
    if (offsets[k] < before) refuse("got offsets that decrease, expected increasing ones");
    before = offsets[k];
  }
  if (before > end) refuse("got offsets beyond the end of the array");
}

// Texts of tokens in an array; `at` refuses a token that does not lie in it.
struct TokenTexts {
  const uint8_t* text;
  int64_t size;  // of the array, with the bytes that follow the tokens
  const int64_t* starts;
  const int64_t* lengths;

  const uint8_t* at(int64_t token) const {
    const int64_t start = starts[token], length = lengths[token];
    if (start < 0 || length < 0 || length > size - kTokenPadding || start > size - kTokenPadding - length) {
      refuse("got a token outside of its text, which must end in zero bytes");
    }
    return text + start;
  }
};

}  // namespace tamis::text
