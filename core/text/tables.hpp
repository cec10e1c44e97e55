// Hash tables from keys to numbers, by linear probing: a key is in the first slot that was free for it.
//
// The key of a token of up to seven bytes has its bytes, the first lowest, and its length in the highest byte. The key of a
// longer token is a hash, whose highest byte is 255; such tokens are compared by their bytes as well.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "bytes.hpp"

namespace tamis::text {

constexpr uint64_t kLongKey = uint64_t{255} << 56;

// Return the key of a token. `seed` is odd, and random in each process, so that nobody can prepare tokens that collide.
inline uint64_t make_key(const uint8_t* token, int64_t length, uint64_t seed) {
  if (length < 8) {
    const uint64_t mask = (uint64_t{1} << (8 * length)) - 1;
    return (load_eight(token) & mask) | static_cast<uint64_t>(length) << 56;
  }
  uint64_t key = static_cast<uint64_t>(length) * seed;
  for (int64_t k = 0; k + 8 <= length; k += 8) {
    key = (key ^ load_eight(token + k)) * seed;
    key ^= key >> 29;
  }
  key = (key ^ load_eight(token + length - 8)) * seed;
  return key >> 8 | kLongKey;
}

// A slot of a table. In an array of NumPy, it is two elements of type uint64.
struct Slot {
  uint64_t key;
  uint64_t end;  // the number of the key plus one; 0: the slot is free
};

// The slots of a table, whose number is a power of two.
struct Slots {
  int bits;
  uint64_t seed;

  uint64_t count() const { return uint64_t{1} << bits; }
  uint64_t first(uint64_t key) const { return key * seed >> (64 - bits); }
  uint64_t next(uint64_t at) const { return (at + 1) & (count() - 1); }

  // Insert a key. There must be a free slot.
  void insert(Slot* slots, uint64_t key, uint64_t number) const {
    uint64_t at = first(key);
    while (slots[at].end != 0) at = next(at);
    slots[at] = {key, number + 1};
  }
};

// Memory of free slots. Large tables get huge pages where the system has them, because accesses are to many pages.
class SlotMemory {
 public:
  explicit SlotMemory(uint64_t count) : slots_(allocate(count), &std::free) {
    if (!slots_) throw std::bad_alloc();
  }

  Slot* get() const { return slots_.get(); }

 private:
  static Slot* allocate(uint64_t count) {
#if defined(__linux__)
    constexpr size_t large = size_t{1} << 21;
    const size_t bytes = count * sizeof(Slot);
    if (bytes >= large) {
      void* memory = std::aligned_alloc(large, bytes);  // a power of two, and so a multiple of `large`
      if (memory == nullptr) return nullptr;
      (void)madvise(memory, bytes, MADV_HUGEPAGE);
      return static_cast<Slot*>(std::memset(memory, 0, bytes));
    }
#endif
    return static_cast<Slot*>(std::calloc(count, sizeof(Slot)));
  }

  std::unique_ptr<Slot, decltype(&std::free)> slots_;
};

// A table that grows: at most half of its slots are used.
class GrowingSlots {
 public:
  GrowingSlots(int bits, uint64_t seed) : layout_{bits, seed}, memory_(layout_.count()) {}

  const Slots& layout() const { return layout_; }
  Slot* get() const { return memory_.get(); }
  bool is_full(uint64_t used) const { return used >= layout_.count() / 2; }
  void prefetch_key(uint64_t key) const { prefetch(get() + layout_.first(key)); }

  // Double the number of slots, and insert the keys (number → key) again.
  template <class FindKey>
  void grow(uint64_t used, FindKey find_key) {
    layout_.bits += 1;
    memory_ = SlotMemory(layout_.count());
    for (uint64_t number = 0; number < used; ++number) layout_.insert(get(), find_key(number), number);
  }

 private:
  Slots layout_;
  SlotMemory memory_;
};

inline int count_bits(uint64_t value) {
  int bits = 0;
  for (; value != 0; value >>= 1) ++bits;
  return bits;
}

// Distinct tokens, numbered by first occurrence. Their bytes are copied to a text of their own.
class TokenTable {
 public:
  // `size` is the length of the text that tokens will be read from: it decides only how often the table must grow.
  TokenTable(int64_t size, uint64_t seed) : slots_(std::max(8, count_bits(std::max<int64_t>(size, 0) / 64)), seed) {
    ends_.push_back(0);
  }

  uint64_t seed() const { return slots_.layout().seed; }
  int64_t count() const { return static_cast<int64_t>(keys_.size()); }
  int64_t text_size() const { return ends_.back(); }
  void prefetch_key(uint64_t key) const { slots_.prefetch_key(key); }

  // Return the number of a token, a new one if it is not known.
  int32_t number_of(const uint8_t* token, int64_t length, uint64_t key) {
    const Slots& layout = slots_.layout();
    const Slot* const slots = slots_.get();
    for (uint64_t at = layout.first(key);; at = layout.next(at)) {
      const Slot slot = slots[at];
      if (slot.end == 0) return add(token, length, key, at);
      if (slot.key == key && (key < kLongKey || is_token(slot.end - 1, token, length))) {
        return static_cast<int32_t>(slot.end - 1);
      }
    }
  }

  // Copy the tokens to arrays of the lengths `text_size` and `count`.
  void write(uint8_t* text, int64_t* starts, int64_t* lengths, uint64_t* keys) const {
    std::copy_n(text_.data(), text_size(), text);
    for (int64_t token = 0; token < count(); ++token) {
      starts[token] = ends_[token];
      lengths[token] = ends_[token + 1] - ends_[token];
      keys[token] = keys_[token];
    }
  }

 private:
  bool is_token(uint64_t number, const uint8_t* token, int64_t length) const {
    const int64_t start = ends_[number];
    return ends_[number + 1] - start == length && has_same_bytes(text_.data() + start, token, length);
  }

  int32_t add(const uint8_t* token, int64_t length, uint64_t key, uint64_t at) {
    const uint64_t number = keys_.size();
    if (number >= std::numeric_limits<int32_t>::max()) refuse("got more distinct tokens than can be numbered");
    const int64_t start = ends_.back(), end = start + length;
    if (static_cast<size_t>(end + kTokenPadding) > text_.size()) text_.resize(2 * (end + kTokenPadding) + 4096);
    std::memcpy(text_.data() + start, token, static_cast<size_t>(length));
    keys_.push_back(key);
    ends_.push_back(end);
    if (slots_.is_full(number)) {
      slots_.grow(number + 1, [&](uint64_t k) { return keys_[k]; });
    } else {
      slots_.get()[at] = {key, number + 1};
    }
    return static_cast<int32_t>(number);
  }

  GrowingSlots slots_;
  std::vector<uint8_t> text_;
  std::vector<int64_t> ends_;  // the end of each token in the text, after a zero
  std::vector<uint64_t> keys_;
};

}  // namespace tamis::text
