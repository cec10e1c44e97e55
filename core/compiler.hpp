// Extensions that compilers name differently. This file includes nothing: dense/vectors.hpp says why.
#pragma once

// A function with this mark is inlined wherever it is called, also into one that is compiled for several processors.
#if defined(__GNUC__)
#define TAMIS_INLINE inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define TAMIS_INLINE __forceinline
#else
#define TAMIS_INLINE inline
#endif

namespace tamis {

// Load memory that will be read soon into the cache.
static TAMIS_INLINE void prefetch(const void* memory) {
#if defined(__GNUC__)
  __builtin_prefetch(memory);
#else
  (void)memory;
#endif
}

}  // namespace tamis
