// Hashes tokens by MurmurHash3 (32 bits), which scikit-learn and Vowpal Wabbit use, too.
#include "bytes.hpp"
#include "parts.hpp"

namespace tamis::text {
namespace {

inline uint32_t rotate(uint32_t word, int bits) { return word << bits | word >> (32 - bits); }
inline uint32_t scramble(uint32_t word) { return rotate(word * 0xCC9E2D51u, 15) * 0x1B873593u; }

// Return the hash of a token, which is followed by eight bytes that may be read.
inline uint32_t hash_token(const uint8_t* token, int64_t length, uint32_t seed) {
  uint32_t state = seed;
  int64_t k = 0;
  for (; k + 4 <= length; k += 4) {
    state ^= scramble(static_cast<uint32_t>(load_eight(token + k)));
    state = rotate(state, 13) * 5 + 0xE6546B64u;
  }
  if (k < length) {
    state ^= scramble(static_cast<uint32_t>(load_eight(token + k)) & ((uint32_t{1} << (8 * (length - k))) - 1));
  }
  state ^= static_cast<uint32_t>(length);
  state = (state ^ state >> 16) * 0x85EBCA6Bu;
  state = (state ^ state >> 13) * 0xC2B2AE35u;
  return state ^ state >> 16;
}

void hash_tokens(Input<uint8_t, 1> text, Input<int64_t, 1> starts, Input<int64_t, 1> lengths, uint32_t seed,
                 Output<uint32_t, 1> hashes) {
  if (lengths.size() != starts.size() || hashes.size() != starts.size()) refuse("got arrays of different lengths");
  const TokenTexts tokens = {text.data(), static_cast<int64_t>(text.size()), starts.data(), lengths.data()};
  uint32_t* const out = hashes.data();
  for (int64_t token = 0, count = static_cast<int64_t>(starts.size()); token < count; ++token) {
    out[token] = hash_token(tokens.at(token), tokens.lengths[token], seed);
  }
}

}  // namespace

void bind_hashes(nb::module_& m) {
  m.def("hash_tokens", hash_tokens, nb::arg("text").noconvert(), nb::arg("starts").noconvert(),
        nb::arg("lengths").noconvert(), nb::arg("seed"), nb::arg("hashes").noconvert(),
        nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace tamis::text
