// Memory of megabytes that is written once. Linux is asked for pages of two megabytes for it: memory that is touched for the first
// time costs more than what is written there, if it comes in pages of four kilobytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tamis::mail {

constexpr std::size_t kLargePage = std::size_t{1} << 21;

// Returns memory that is not initialised, for std::free.
inline void* allocate_large(std::size_t bytes) {
  void* memory = nullptr;
#if defined(__linux__)
  if (bytes >= kLargePage) {
    if (bytes > std::numeric_limits<std::size_t>::max() - kLargePage) throw std::bad_alloc();
    bytes = (bytes + kLargePage - 1) / kLargePage * kLargePage;
    memory = std::aligned_alloc(kLargePage, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
  }
#endif
  memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// Whether this process keeps the memory that it frees, see `keep_freed_memory`.
inline std::atomic<bool> is_memory_kept{false};

// Lets this process keep what it frees, up to a gigabyte, for what it allocates next: for a process that ends after one command.
// Otherwise megabytes go back to Linux, and come again page by page. Without the C library of GNU it does nothing.
inline void keep_freed_memory() {
#if defined(__GLIBC__)
  is_memory_kept = mallopt(M_MMAP_THRESHOLD, 32 << 20) == 1 && mallopt(M_TRIM_THRESHOLD, 1 << 30) == 1;
#endif
}

// Lets the next 31 MB that this thread allocates lie in large pages, if the process keeps the memory that it frees. The C library
// has one region of memory for each thread, which it enlarges by a few kilobytes at a time: here it does so at once.
inline void reserve_large_pages() {
#if defined(__GLIBC__)
  constexpr std::size_t bytes = std::size_t{31} << 20;  // Blocks of 32 MB would be no part of the region.
  if (!is_memory_kept) return;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) return;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t begin = (address + kLargePage - 1) / kLargePage * kLargePage, end = (address + bytes) / kLargePage * kLargePage;
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  std::free(memory);
#endif
}

// The allocator of a vector whose elements are not initialised when it grows, so that they are written once.
template <class T>
struct LargeAllocator {
  using value_type = T;

  LargeAllocator() = default;
  template <class Other>
  LargeAllocator(const LargeAllocator<Other>&) noexcept {}

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(allocate_large(count * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t) noexcept { std::free(memory); }
  template <class Other>
  void construct(Other* place) noexcept {
    ::new (static_cast<void*>(place)) Other;
  }
  template <class Other, class... Arguments>
  void construct(Other* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) Other(std::forward<Arguments>(arguments)...);
  }
  friend bool operator==(const LargeAllocator&, const LargeAllocator&) { return true; }
  friend bool operator!=(const LargeAllocator&, const LargeAllocator&) { return false; }
};

// A vector whose new elements have no value until they are written.
template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace tamis::mail
