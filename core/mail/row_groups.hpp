// Rows with the same view and the same counts: `group_counts` of tamis_mail/verdict/arrays.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tamis::mail {

// Finds the groups of rows, in the order of their first members.
class RowGroups {
 public:
  // Row i has the view views[i] and the counts from counts[i * labels] on.
  RowGroups(const std::uint8_t* views, const std::int64_t* counts, std::size_t labels)
      : view_of_(views), count_of_(counts), labels_(labels), slots_(kFirstSlots, -1) {}

  // The group of a row; `firsts` has the first row of each group.
  std::int64_t find(std::size_t row, std::int64_t* firsts) {
    std::size_t slot = find_slot(row, firsts);
    if (slots_[slot] < 0) {
      if (2 * (size_ + 1) > slots_.size()) {
        grow(firsts);
        slot = find_slot(row, firsts);
      }
      firsts[size_] = static_cast<std::int64_t>(row);
      slots_[slot] = static_cast<std::int64_t>(size_++);
    }
    return slots_[slot];
  }

  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kFirstSlots = 1 << 12;

  bool are_equal(std::size_t left, std::size_t right) const {
    const std::int64_t* counts = count_of_ + left * labels_;
    return view_of_[left] == view_of_[right] && std::equal(counts, counts + labels_, count_of_ + right * labels_);
  }

  std::uint64_t hash(std::size_t row) const {
    constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15;
    std::uint64_t state = view_of_[row];
    for (std::size_t label = 0; label < labels_; ++label) {
      state = (state ^ state >> 32 ^ static_cast<std::uint64_t>(count_of_[row * labels_ + label])) * kMultiplier;
    }
    return state ^ state >> 32;
  }

  // The slot of the group of a row, or the empty slot where it belongs.
  std::size_t find_slot(std::size_t row, const std::int64_t* firsts) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash(row) & mask;
    while (slots_[slot] >= 0 && !are_equal(static_cast<std::size_t>(firsts[slots_[slot]]), row)) slot = (slot + 1) & mask;
    return slot;
  }

  void grow(const std::int64_t* firsts) {
    slots_.assign(2 * slots_.size(), -1);
    for (std::size_t group = 0; group < size_; ++group) {
      slots_[find_slot(static_cast<std::size_t>(firsts[group]), firsts)] = static_cast<std::int64_t>(group);
    }
  }

  const std::uint8_t* view_of_;
  const std::int64_t* count_of_;
  std::size_t labels_;
  std::vector<std::int64_t> slots_;  // Groups by their hashes; -1 where there is none.
  std::size_t size_ = 0;
};

}  // namespace tamis::mail
