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

// Do so for memory so many bytes behind `start`, which may lie beyond the end of an array.
static TAMIS_INLINE void prefetch_after(const void* start, unsigned long long bytes) {
#if defined(__GNUC__)
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<__UINTPTR_TYPE__>(start) + bytes));
#else
  (void)start, (void)bytes;
#endif
}

}  // namespace tamis
