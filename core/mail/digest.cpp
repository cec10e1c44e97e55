#include "digest.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../common.hpp"
#include "../compiler.hpp"

namespace tamis::mail {

namespace {

// As in RFC 7693.
constexpr std::uint64_t kStart[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                                     0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
constexpr std::uint8_t kOrders[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};
constexpr std::size_t kBlock = 128;

// Returns the number of eight bytes, the first being the lowest.
TAMIS_INLINE std::uint64_t load_word(const char* bytes) {
  std::uint64_t word = 0;
  for (int byte = 0; byte < 8; ++byte) {  // Compilers make one instruction of this loop.
    word |= std::uint64_t{static_cast<unsigned char>(bytes[byte])} << 8 * byte;
  }
  return word;
}

// Word is a number, or a vector of the numbers of several texts.
template <class Word>
TAMIS_INLINE void mix(Word& a, Word& b, Word& c, Word& d, const Word& x, const Word& y) {
  a += b + x;
  d ^= a;
  d = d >> 32 | d << 32;
  c += d;
  b ^= c;
  b = b >> 24 | b << 40;
  a += b + y;
  d ^= a;
  d = d >> 16 | d << 48;
  c += d;
  b ^= c;
  b = b >> 63 | b << 1;
}

template <class Word>
TAMIS_INLINE void mix_all(Word (&v)[16], const Word (&words)[16]) {
#if defined(__GNUC__)
#pragma GCC unroll 12
#endif
  for (const auto& order : kOrders) {  // Unrolled, the places of the words are constants.
    mix(v[0], v[4], v[8], v[12], words[order[0]], words[order[1]]);
    mix(v[1], v[5], v[9], v[13], words[order[2]], words[order[3]]);
    mix(v[2], v[6], v[10], v[14], words[order[4]], words[order[5]]);
    mix(v[3], v[7], v[11], v[15], words[order[6]], words[order[7]]);
    mix(v[0], v[5], v[10], v[15], words[order[8]], words[order[9]]);
    mix(v[1], v[6], v[11], v[12], words[order[10]], words[order[11]]);
    mix(v[2], v[7], v[8], v[13], words[order[12]], words[order[13]]);
    mix(v[3], v[4], v[9], v[14], words[order[14]], words[order[15]]);
  }
}

// A text, block by block.
class TextDigest {
 public:
  TextDigest() = default;
  TextDigest(const std::string& text, Digest& digest) : text_(&text), digest_(&digest) {
    std::copy(std::begin(kStart), std::end(kStart), state);
    state[0] ^= 0x01010000 ^ sizeof(Digest);  // No key, and the length of the digest.
  }

  // Goes to the next block. The last one may be empty, and bytes after the end of the text count as zero.
  void advance() {
    const std::size_t rest = text_->size() - bytes;
    if (rest > kBlock) {
      block = text_->data() + bytes;
      bytes += kBlock;
    } else {
      std::memset(last_, 0, kBlock);
      std::memcpy(last_, text_->data() + bytes, rest);
      block = last_;
      bytes += rest;
      is_last = true;
    }
  }
  void write() const {
    for (std::size_t byte = 0; byte < digest_->size(); ++byte) {
      (*digest_)[byte] = static_cast<char>(state[byte / 8] >> 8 * (byte % 8));
    }
  }

  std::uint64_t state[8] = {};
  const char* block = nullptr;
  std::size_t bytes = 0;  // Of the text, up to the end of the block.
  bool is_last = false;

 private:
  const std::string* text_ = nullptr;
  Digest* digest_ = nullptr;
  char last_[kBlock] = {};
};

void compress(TextDigest& text) {
  std::uint64_t words[16], v[16];
  for (std::size_t index = 0; index < 16; ++index) words[index] = load_word(text.block + 8 * index);
  for (std::size_t index = 0; index < 8; ++index) {
    v[index] = text.state[index];
    v[index + 8] = kStart[index];
  }
  v[12] ^= text.bytes;
  if (text.is_last) v[14] = ~v[14];
  mix_all(v, words);
  for (std::size_t index = 0; index < 8; ++index) text.state[index] ^= v[index] ^ v[index + 8];
}

void finish(TextDigest& text) {
  while (!text.is_last) {
    text.advance();
    compress(text);
  }
  text.write();
}

// Several texts at once need large registers, and so a function that is compiled for each processor.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define TAMIS_HAS_LANES
constexpr std::size_t kLanes = 8;
constexpr std::size_t kFewest = 3;  // Fewer texts are faster one after the other.
typedef std::uint64_t Lanes __attribute__((vector_size(8 * kLanes)));

bool has_vectors() { return __builtin_cpu_supports("avx2"); }

// Compresses the present blocks of all texts.
TAMIS_FOR_EACH_PROCESSOR void compress_all(TextDigest (&texts)[kLanes]) {
  Lanes words[16], v[16], state[8];
  for (std::size_t index = 0; index < 16; ++index) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) words[index][lane] = load_word(texts[lane].block + 8 * index);
  }
  for (std::size_t index = 0; index < 8; ++index) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) state[index][lane] = texts[lane].state[index];
    v[index] = state[index];
    v[index + 8] = Lanes{} + kStart[index];
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    v[12][lane] ^= texts[lane].bytes;
    v[14][lane] ^= texts[lane].is_last ? ~std::uint64_t{0} : 0;
  }
  mix_all(v, words);
  for (std::size_t index = 0; index < 8; ++index) {
    state[index] ^= v[index] ^ v[index + 8];
    for (std::size_t lane = 0; lane < kLanes; ++lane) texts[lane].state[index] = state[index][lane];
  }
}
#endif

}  // namespace

std::vector<Digest> make_digests(const std::vector<std::string>& texts) {
  std::vector<Digest> digests(texts.size());
  std::size_t next = 0;
#if defined(TAMIS_HAS_LANES)
  if (texts.size() >= kLanes && has_vectors()) {
    TextDigest lanes[kLanes];
    std::size_t size = 0;  // The number of lanes with a text.
    for (; size < kLanes; ++size, ++next) lanes[size] = TextDigest(texts[next], digests[next]);
    while (size >= kFewest) {
      for (std::size_t lane = 0; lane < size; ++lane) lanes[lane].advance();
      for (std::size_t lane = size; lane < kLanes; ++lane) lanes[lane].block = lanes[0].block;  // Its result is not used.
      compress_all(lanes);
      for (std::size_t lane = 0; lane < size;) {
        if (!lanes[lane].is_last) {
          ++lane;
          continue;
        }
        lanes[lane].write();
        if (next < texts.size()) {
          lanes[lane] = TextDigest(texts[next], digests[next]);
          ++next;
          ++lane;
        } else {
          lanes[lane] = lanes[--size];
        }
      }
    }
    for (std::size_t lane = 0; lane < size; ++lane) finish(lanes[lane]);
  }
#endif
  for (; next < texts.size(); ++next) {
    TextDigest text(texts[next], digests[next]);
    finish(text);
  }
  return digests;
}

}  // namespace tamis::mail
