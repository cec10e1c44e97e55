// What compilers name differently. It includes nothing: the variants of dense kernels must take no function from a header that
// another file compiles for another processor.
#pragma once

// The function is inlined wherever it is called, also into one that is compiled for several processors.
#if defined(__GNUC__)
#define TAMIS_INLINE inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define TAMIS_INLINE __forceinline
#else
#define TAMIS_INLINE inline
#endif

namespace tamis {

// Load memory into the cache that will be read soon.
static TAMIS_INLINE void prefetch(const void* memory) {
#if defined(__GNUC__)
  __builtin_prefetch(memory);
#else
  (void)memory;
#endif
}

}  // namespace tamis
