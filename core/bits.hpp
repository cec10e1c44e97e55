// The lowest bit of a number.
#pragma once

#include <cstdint>

#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace tamis {

// Return the index of the lowest bit that is set; there must be one.
inline unsigned find_lowest_bit(std::uint64_t bits) {
#if defined(__GNUC__)
  return static_cast<unsigned>(__builtin_ctzll(bits));
#elif defined(_MSC_VER) && defined(_WIN64)
  unsigned long index;
  _BitScanForward64(&index, bits);
  return index;
#else
  unsigned index = 0;
  for (; !(bits & 1); bits >>= 1) ++index;
  return index;
#endif
}

}  // namespace tamis
