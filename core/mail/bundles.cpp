// Encodes and decodes the parts of a bundle. The references are `encode_by_numpy` and `decode_by_numpy` of
// tamis_mail/store/bundle_arrays.py. Parts that are decoded are bytes at any address, aligned or not.
#include "bundles.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "../require.hpp"
#include "bundle_encoding.hpp"

namespace tamis::mail {

namespace {

enum Fault : int { kSound = 0, kHighParts = 1, kOrder = 2, kIndices = 3 };

using Bytes = Input<std::uint8_t, 1>;

// Returns some bytes as a number, the first byte being the lowest.
std::uint64_t read_number(const std::uint8_t* bytes, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t byte = 0; byte < size; ++byte) number |= std::uint64_t{bytes[byte]} << 8 * byte;
  return number;
}

int decode_keys(const Bytes& lows, const Bytes& highs, std::size_t low_bytes, const Output<std::uint64_t, 1>& keys) {
  const std::size_t n_keys = keys.shape(0), high_bits = count_high_bits(n_keys, low_bytes);
  std::size_t count = 0;
  for (std::size_t byte = 0; byte < highs.shape(0); ++byte) {
    for (unsigned bits = highs.data()[byte]; bits != 0; bits &= bits - 1) {
      unsigned lowest = 0;
      while (!(bits >> lowest & 1)) ++lowest;
      const std::size_t place = 8 * byte + lowest;
      if (count == n_keys || place >= high_bits) return kHighParts;
      const std::uint64_t low = read_number(lows.data() + count * low_bytes, low_bytes);
      keys.data()[count] = static_cast<std::uint64_t>(place - count) << 8 * low_bytes | low;
      ++count;
    }
  }
  if (count != n_keys) return kHighParts;
  for (std::size_t key = 1; key < n_keys; ++key) {
    if (keys.data()[key] <= keys.data()[key - 1]) return kOrder;
  }
  return kSound;
}

// Writes the keys, and the indices of all messages; returns 0, or the code of a fault (_FAULTS in bundle_arrays.py).
int decode_bundle(Bytes sizes, Bytes lows, Bytes highs, Bytes gaps, Bytes long_gaps, std::size_t low_bytes,
                  Output<std::uint64_t, 1> keys, Output<std::int64_t, 1> indices) {
  require_low_bytes(low_bytes);
  const std::size_t n_keys = keys.shape(0), features = indices.shape(0), messages = sizes.shape(0) / kGapBytes;
  require(lows.shape(0) == n_keys * low_bytes && gaps.shape(0) == features && sizes.shape(0) % kGapBytes == 0,
          "expected parts of matching sizes");
  std::uint64_t total = 0;
  for (std::size_t message = 0; message < messages; ++message) total += read_number(sizes.data() + kGapBytes * message, kGapBytes);
  const auto n_long = static_cast<std::size_t>(std::count(gaps.data(), gaps.data() + features, kLongGap));
  require(total == features && long_gaps.shape(0) == kGapBytes * n_long, "expected parts of matching sizes");
  const nb::gil_scoped_release unlocked;
  if (const int fault = decode_keys(lows, highs, low_bytes, keys); fault != kSound) return fault;
  const std::uint8_t *gap = gaps.data(), *long_gap = long_gaps.data();
  std::int64_t* index_of = indices.data();
  for (std::size_t message = 0; message < messages; ++message) {
    const std::uint64_t size = read_number(sizes.data() + kGapBytes * message, kGapBytes);
    std::uint64_t next = 0;  // The index after the last one; below 2**64, since there are fewer than 2**32 gaps.
    for (std::uint64_t feature = 0; feature < size; ++feature) {
      std::uint64_t step = *gap++;
      if (step == kLongGap) {
        step = read_number(long_gap, kGapBytes);
        long_gap += kGapBytes;
      }
      *index_of++ = static_cast<std::int64_t>(next + step);
      next += step + 1;
    }
    if (next > n_keys) return kIndices;
  }
  return kSound;
}

// Returns the parts of a bundle before the gaps, and the gaps.
nb::tuple encode_bundle(Input<std::uint64_t, 1> keys, Input<std::int64_t, 1> starts, Input<std::int64_t, 1> indices,
                        std::size_t low_bytes) {
  require_low_bytes(low_bytes);
  require(starts.shape(0) > 0, "expected the start of the first message");
  const std::size_t n_keys = keys.shape(0), messages = starts.shape(0) - 1, features = indices.shape(0);
  EncodedBundle bundle;
  {
    const nb::gil_scoped_release unlocked;
    bundle = encode_parts(keys.data(), n_keys, starts.data(), messages, indices.data(), features, low_bytes);
  }
  return nb::make_tuple(nb::bytes(bundle.head.data(), bundle.head.size()), nb::bytes(bundle.gaps.data(), bundle.gaps.size()));
}

}  // namespace

void bind_bundles(nb::module_& m) {
  m.def("decode_bundle", &decode_bundle, nb::arg("sizes").noconvert(), nb::arg("lows").noconvert(), nb::arg("highs").noconvert(),
        nb::arg("gaps").noconvert(), nb::arg("long_gaps").noconvert(), nb::arg("low_bytes"), nb::arg("keys").noconvert(),
        nb::arg("indices").noconvert());
  m.def("encode_bundle", &encode_bundle, nb::arg("keys").noconvert(), nb::arg("starts").noconvert(),
        nb::arg("indices").noconvert(), nb::arg("low_bytes"));
}

}  // namespace tamis::mail
