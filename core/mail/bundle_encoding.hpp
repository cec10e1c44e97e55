// Encodes distinct keys, and the indices of messages into them, as the parts of a bundle: `encode_by_numpy` of
// tamis_mail/store/bundle_arrays.py is the reference.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "../require.hpp"

namespace tamis::mail {

constexpr int kBundleKeyBits = 48;  // KEY_BITS of tamis_mail/features/hashing.py
constexpr std::uint8_t kLongGap = 255;
constexpr std::size_t kGapBytes = 4;

inline void require_low_bytes(std::size_t low_bytes) {
  require(low_bytes >= 3 && low_bytes <= 5, "expected low parts of 3, 4 or 5 bytes");
}

// The number of bits of all high parts in unary.
inline std::size_t count_high_bits(std::size_t keys, std::size_t low_bytes) {
  return keys + (std::size_t{1} << (kBundleKeyBits - 8 * static_cast<int>(low_bytes)));
}

struct EncodedBundle {
  std::string head;  // The parts before the gaps.
  std::string gaps;
};

// Message i has the indices from starts[i] to starts[i + 1], in ascending order.
template <class Index>
EncodedBundle encode_parts(const std::uint64_t* keys, std::size_t n_keys, const Index* starts, std::size_t messages,
                           const Index* indices, std::size_t features, std::size_t low_bytes) {
  EncodedBundle bundle{std::string(kGapBytes * messages + n_keys * low_bytes + (count_high_bits(n_keys, low_bytes) + 7) / 8, '\0'),
                       std::string(features, '\0')};
  std::string long_gaps;
  const auto write_number = [](char* bytes, std::uint64_t number, std::size_t size) {
    for (std::size_t byte = 0; byte < size; ++byte) bytes[byte] = static_cast<char>(number >> 8 * byte & 0xff);
  };
  require(starts[0] == 0 && static_cast<std::uint64_t>(starts[messages]) == features, "expected the starts of all messages");
  char* size_bytes = bundle.head.data();
  char* low_parts = size_bytes + kGapBytes * messages;
  char* high_parts = low_parts + n_keys * low_bytes;
  for (std::size_t key = 0; key < n_keys; ++key) {
    const std::uint64_t number = keys[key];
    require(number >> kBundleKeyBits == 0, "expected keys below 2**48");
    write_number(low_parts + key * low_bytes, number, low_bytes);
    const std::size_t place = static_cast<std::size_t>(number >> 8 * low_bytes) + key;
    high_parts[place / 8] = static_cast<char>(high_parts[place / 8] | 1 << place % 8);
  }
  for (std::size_t message = 0; message < messages; ++message) {
    const auto begin = static_cast<std::int64_t>(starts[message]), end = static_cast<std::int64_t>(starts[message + 1]);
    require(begin <= end && static_cast<std::uint64_t>(end) <= features && end - begin <= INT32_MAX,
            "expected the starts of all messages");
    write_number(size_bytes + kGapBytes * message, static_cast<std::uint64_t>(end - begin), kGapBytes);
    std::int64_t next = 0;
    for (std::int64_t feature = begin; feature < end; ++feature) {
      const auto index = static_cast<std::int64_t>(indices[feature]);
      require(index >= next && index <= INT32_MAX, "expected ascending indices");
      const std::int64_t gap = index - next;
      bundle.gaps[static_cast<std::size_t>(feature)] = static_cast<char>(std::min<std::int64_t>(gap, kLongGap));
      if (gap >= kLongGap) {
        long_gaps.resize(long_gaps.size() + kGapBytes);
        write_number(long_gaps.data() + long_gaps.size() - kGapBytes, static_cast<std::uint64_t>(gap), kGapBytes);
      }
      next = index + 1;
    }
  }
  bundle.gaps += long_gaps;
  return bundle;
}

}  // namespace tamis::mail
