#include "hops.hpp"

#include <algorithm>
#include <cstring>

#include "../bits.hpp"
#include "../common.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kBlock = 64;  // Characters of a block: one bit each in a mask.
constexpr std::size_t kBefore = 8;  // Bytes that may be read before the text in lower case.
constexpr std::size_t kBlocks = kSelectedValue / kBlock + 2;
constexpr std::string_view kForged = "forged", kUnknown = "unknown";

// Properties of characters, as bits.
enum Property : unsigned { kOfWord, kPointOrDigit, kPoint, kUnderscore, kLetterGOrK, kProperties };
// The letters g and k are rare, and are in "forged" and "unknown": these words are searched for at them.
using Masks = std::array<std::array<std::uint64_t, kBlocks>, kProperties>;  // Bits of the characters of each block.

// Writes a text in lower case, and the properties of its characters, in a loop without branches.
TAMIS_FOR_EACH_PROCESSOR void find_properties(const char* __restrict text, std::size_t size, char* __restrict lowered,
                                              std::uint8_t* __restrict properties) {
  for (std::size_t place = 0; place < size; ++place) {
    const auto c = static_cast<std::uint8_t>(text[place]);
    const auto small = static_cast<std::uint8_t>(c | 32);
    const auto letter = static_cast<std::uint8_t>(small - 'a'), digit = static_cast<std::uint8_t>(c - '0');
    const int is_letter = letter < 26, is_digit = digit < 10, is_point = c == '.', is_underscore = c == '_', is_hyphen = c == '-';
    const int is_g_or_k = (small == 'g') + (small == 'k');
    lowered[place] = static_cast<char>(is_letter != 0 ? small : c);
    properties[place] = static_cast<std::uint8_t>((is_letter + is_digit + is_point + is_underscore + is_hyphen) << kOfWord |
                                                  (is_point + is_digit) << kPointOrDigit | is_point << kPoint |
                                                  is_underscore << kUnderscore | is_g_or_k << kLetterGOrK);
  }
}

// The bits of one property of 64 characters.
std::uint64_t collect_bits(const std::uint8_t* properties, Property property) {
  std::uint64_t mask = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  for (unsigned eight = 0; eight < 8; ++eight) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, properties + 8 * eight, 8);
    // The product moves the lowest bit of byte i to bit 56 + i; no two bits meet.
    const std::uint64_t bits = (bytes >> property & 0x0101010101010101) * 0x0102040810204080 >> 56;
    mask |= bits << 8 * eight;
  }
#else
  for (std::size_t place = 0; place < kBlock; ++place) {
    mask |= static_cast<std::uint64_t>(properties[place] >> property & 1) << place;
  }
#endif
  return mask;
}

// Whether a character of text[start:end], which is not empty, has a property.
bool has_any(const std::array<std::uint64_t, kBlocks>& masks, std::size_t start, std::size_t end) {
  const std::size_t first = start / kBlock, last = (end - 1) / kBlock;
  const std::uint64_t from = ~std::uint64_t{0} << start % kBlock, to = ~std::uint64_t{0} >> (kBlock - 1 - (end - 1) % kBlock);
  if (first == last) return (masks[first] & from & to) != 0;
  std::uint64_t found = (masks[first] & from) | (masks[last] & to);
  for (std::size_t block = first + 1; block < last; ++block) found |= masks[block];
  return found != 0;
}

// Divides a text of ASCII of at most kSelectedValue characters; `bytes` is the memory for it.
void divide(std::string_view text, std::string& bytes, Hop<char>& hop) {
  const std::size_t blocks = text.size() / kBlock + 1, padded = blocks * kBlock;
  // The text, the text in lower case, and the properties, each with zeros to the end of the last block.
  if (bytes.empty()) bytes.resize(kBefore + 3 * kBlocks * kBlock + kBlock);
  char* const copy = bytes.data();
  char* const lowered = copy + padded + kBefore;
  auto* const properties = reinterpret_cast<std::uint8_t*>(lowered + padded);
  std::copy(text.begin(), text.end(), copy);
  std::memset(copy + text.size(), 0, padded - text.size());
  find_properties(copy, padded, lowered, properties);
  hop.text = {copy, text.size()};
  hop.lowered = {lowered, text.size()};
  Masks masks;
  for (std::size_t block = 0; block < blocks; ++block) {
    for (unsigned property = 0; property < kProperties; ++property) {
      masks[property][block] = collect_bits(properties + block * kBlock, static_cast<Property>(property));
    }
  }
  std::uint64_t before = 0;  // Whether the last character of the block before belongs to a word.
  std::uint64_t point = 0;   // Whether it is a point.
  std::size_t start = 0;
  bool is_in_word = false;
  hop.words.clear();
  for (std::size_t block = 0; block < blocks; ++block) {  // The bits change where a word begins or ends.
    const std::uint64_t mask = masks[kOfWord][block];
    for (std::uint64_t changes = mask ^ (mask << 1 | before); changes != 0; changes &= changes - 1) {
      const std::size_t place = block * kBlock + find_lowest_bit(changes);
      if (is_in_word) hop.words.push_back({static_cast<std::uint32_t>(start), static_cast<std::uint32_t>(place)});
      start = place;
      is_in_word = !is_in_word;
    }
    before = mask >> (kBlock - 1);
    const std::uint64_t points = masks[kPoint][block];
    masks[kUnderscore][block] |= points & (points << 1 | point);  // Two points side by side are as unusual.
    point = points >> (kBlock - 1);
  }
  for (HopWord& word : hop.words) {
    word.has_point = has_any(masks[kPoint], word.start, word.end);
    word.has_point_or_digit = has_any(masks[kPointOrDigit], word.start, word.end);
    word.is_unusual = has_any(masks[kUnderscore], word.start, word.end);
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::uint64_t letters = masks[kLetterGOrK][block]; letters != 0; letters &= letters - 1) {
      const std::size_t place = block * kBlock + find_lowest_bit(letters);
      if (place >= 3 && is_at(hop.lowered, place - 3, kForged)) hop.has_forged = true;
      if (place >= 2 && is_at(hop.lowered, place - 2, kUnknown)) hop.has_unknown = true;
    }
  }
}

}  // namespace

void divide_hop(TextView text, Hop<char32_t>& hop) {
  hop.text = hop.lowered = text;
  hop.words.clear();
  for (std::size_t place = 0; place < text.size(); ++place) {
    HopWord word;
    word.start = static_cast<std::uint32_t>(place);
    for (; place < text.size() && is_domain_character(text[place]); ++place) {
      const bool is_point = text[place] == U'.';
      word.has_point |= is_point;
      word.has_point_or_digit |= is_point || is_decimal(text[place]);
    }
    word.end = static_cast<std::uint32_t>(place);
    word.is_unusual = true;
    if (word.end > word.start) hop.words.push_back(word);
  }
  hop.has_forged = find_ascii(text, kForged) != kNowhere;
  hop.has_unknown = find_ascii(text, kUnknown) != kNowhere;
}

Hops::Memory& Hops::find_memory() {
  thread_local Memory memory;
  return memory;
}

Hops::Hops(const SelectedFields& fields) : memory_(find_memory()) {
  for (std::size_t index = 0; index < fields.hop_count; ++index) {
    Hop<char>& hop = memory_.hops[index];
    hop.has_forged = hop.has_unknown = false;
    const Field& field = *fields.hops[index];
    divide(field.is_ascii ? before_first(first(field.ascii, kSelectedValue), ';') : std::string_view(), memory_.bytes[index], hop);
  }
}

}  // namespace tamis::mail
