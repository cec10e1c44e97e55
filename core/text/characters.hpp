// Reads and writes UTF-8, one character at a time, and looks characters up in an alphabet.
#pragma once

#include <algorithm>

#include "../common.hpp"
#include "bytes.hpp"

namespace tamis::text {

// The classes of characters; `reference.py` says what they mean.
enum CharacterClass : uint32_t { kBreak, kWord, kMark, kUnspaced, kSkip };

constexpr uint8_t kSpace = 0x20;
constexpr int32_t kReplacement = 0xFFFD;

struct Character {
  int32_t code;  // -1: a byte that is not UTF-8
  int32_t length;  // bytes
};

inline bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// Read the character at `place`, which must be before `stop`.
inline Character read_character(const uint8_t* text, int64_t place, int64_t stop) {
  constexpr Character invalid = {-1, 1};
  const uint8_t lead = text[place];
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xC2 || lead > 0xF4) return invalid;
  const int32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length > stop - place) return invalid;
  int32_t code = lead & (0x7F >> length);
  for (int32_t k = 1; k < length; ++k) {
    if (!is_continuation(text[place + k])) return invalid;
    code = code << 6 | (text[place + k] & 0x3F);
  }
  const int32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  if (code < least || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return invalid;
  return {code, length};
}

inline bool is_white_space(int32_t code) {
  if (code < 0x80) return code == kSpace || (code >= 9 && code <= 13) || (code >= 28 && code <= 31);
  if (code < 0x2000) return code == 0x85 || code == 0xA0 || code == 0x1680;
  return code <= 0x200A || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

// The class (3 bits) of a character, and the length (5 bits; 0: unchanged) and the offset of its folded form in the pool.
struct Cell {
  uint32_t bits;

  uint32_t kind() const { return bits & 7; }
  uint32_t length() const { return bits >> 3 & 31; }
  uint32_t offset() const { return bits >> 8; }
};

// The cell of each character: `blocks` has the block of each 256 characters, `cells` 256 cells per block.
class CellTable {
 public:
  CellTable(const Input<int32_t, 1>& blocks, const Input<uint32_t, 1>& cells)
      : blocks_(blocks.data()), cells_(cells.data()), count_(cells.size()) {
    if (blocks.size() <= 0x10FFFF >> 8) refuse("got an alphabet that lacks blocks of characters");
  }

  Cell find(int32_t code) const {
    const uint64_t index = uint64_t{static_cast<uint32_t>(blocks_[code >> 8])} * 256 + (code & 255);
    if (index >= count_) refuse("got an alphabet with a block that lies outside of its cells");
    return {cells_[index]};
  }

 private:
  const int32_t* blocks_;
  const uint32_t* cells_;
  uint64_t count_;
};

}  // namespace tamis::text
