#include "hash.hpp"

#include <algorithm>
#include <cstddef>

namespace tamis::mail {

namespace {

constexpr int kKeyBits = 48;
constexpr std::size_t kGramSize = 5;
constexpr std::size_t kBlock = 8;          // Bytes of a token that are mixed in at once.
constexpr std::size_t kHashedBytes = 40;   // A token is known by its length and its first 40 bytes.
constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15;
constexpr std::uint64_t kFinalMultiplier = 0xD6E8FEB86659FD93;
constexpr std::uint64_t kPairSalt = kFinalMultiplier;  // For two words with no other between them.
constexpr unsigned char kSpace = 32;                   // Bytes up to this one separate tokens.

enum View : std::uint64_t { kGrams, kHeaders, kWords, kPairs, kRelations };

constexpr std::uint64_t salt(View view) { return kMultiplier * (2 * static_cast<std::uint64_t>(view) + 1); }

// The number of at most eight bytes, of which the first is the lowest.
std::uint64_t read_block(const char* bytes, std::size_t size) {
  std::uint64_t block = 0;
  if (size == kBlock) {  // Compilers make one instruction of this loop.
    for (std::size_t i = 0; i < kBlock; ++i) block |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
    return block;
  }
  for (std::size_t i = 0; i < size; ++i) block |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
  return block;
}

std::uint64_t mix(std::uint64_t state, std::uint64_t block) {
  state = (state ^ block) * kMultiplier;
  return state ^ state >> 32;
}

std::uint64_t hash_token(const char* token, std::size_t size, View view) {
  std::uint64_t state = salt(view) ^ size;
  const std::size_t used = std::min(size, kHashedBytes);
  for (std::size_t start = 0; start < used; start += kBlock) {
    state = mix(state, read_block(token + start, std::min(kBlock, used - start)));
  }
  return state;
}

std::uint64_t make_feature(std::uint64_t state, View view, int view_bits) {
  state = (state ^ state >> 29) * kFinalMultiplier;
  return state >> (64 - kKeyBits + view_bits) << view_bits | view;
}

bool is_gap(char byte) { return static_cast<unsigned char>(byte) <= kSpace; }

void add_grams(std::string_view head, int view_bits, std::vector<std::uint64_t>& features) {
  for (std::size_t start = 0; start + kGramSize <= head.size(); ++start) {
    const std::uint64_t state = mix(salt(kGrams) ^ kGramSize, read_block(head.data() + start, kGramSize));
    // A bit of the hash selects every second gram, because they overlap.
    if (state & 1) features.push_back(make_feature(state, kGrams, view_bits));
  }
}

void add_tokens(std::string_view document, View view, int view_bits, std::vector<std::uint64_t>& features) {
  for (std::size_t place = 0; place < document.size();) {
    if (is_gap(document[place])) {
      ++place;
      continue;
    }
    const std::size_t start = place;
    while (place < document.size() && !is_gap(document[place])) ++place;
    features.push_back(make_feature(hash_token(document.data() + start, place - start, view), view, view_bits));
  }
}

// Words, and pairs of neighbours on one line.
void add_words(std::string_view words, int view_bits, std::vector<std::uint64_t>& features) {
  bool has_left = false;  // Whether the word before is on the same line.
  std::uint64_t left = 0;
  for (std::size_t place = 0; place < words.size();) {
    if (is_gap(words[place])) {
      if (words[place] == '\n') has_left = false;
      ++place;
      continue;
    }
    const std::size_t start = place;
    while (place < words.size() && !is_gap(words[place])) ++place;
    const std::uint64_t state = hash_token(words.data() + start, place - start, kWords);
    features.push_back(make_feature(state, kWords, view_bits));
    if (has_left) features.push_back(make_feature((left ^ kPairSalt) * kMultiplier + state, kPairs, view_bits));
    left = state;
    has_left = true;
  }
}

}  // namespace

std::vector<std::uint64_t> hash_tokens(const Documents& documents, int view_bits) {
  std::vector<std::uint64_t> features;
  features.reserve(1024);
  add_grams(documents.head, view_bits, features);
  add_tokens(documents.headers, kHeaders, view_bits, features);
  add_tokens(documents.marks, kWords, view_bits, features);
  add_tokens(documents.relations, kRelations, view_bits, features);
  add_words(documents.words, view_bits, features);
  std::sort(features.begin(), features.end());
  features.erase(std::unique(features.begin(), features.end()), features.end());
  return features;
}

}  // namespace tamis::mail
