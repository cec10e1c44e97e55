// Visits the elements of several ascending lists of keys in ascending order.
//
// Keys are hashes of 48 bits, so that their highest bits divide them into parts of about the same size. Those of one part are
// taken from all lists, distributed by their next bits, and sorted by insertion, since few are out of order then: all of that in
// the first-level cache.
// Keys that a sender chooses, so that they share these bits, are sorted in the ordinary way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../require.hpp"
#include "sorting.hpp"

namespace tamis::mail {

constexpr int kMergedKeyBits = 48;  // KEY_BITS of tamis_mail/features/hashing.py
constexpr int kListBits = 64 - kMergedKeyBits;

struct KeyRange {
  const std::uint64_t *begin, *end;
};

// Sorts distinct numbers, of which the bits above `bits` are the same.
class NumberSorter {
 public:
  void sort(std::vector<std::uint64_t>& numbers, std::size_t size, int bits) {
    constexpr std::size_t kFew = 24;
    constexpr std::size_t kLargeBucket = 24;
    if (size <= kFew) {
      sort_by_insertion(numbers.data(), size);
      return;
    }
    int digit_bits = 1;
    while (size >> digit_bits > 1) ++digit_bits;
    digit_bits = std::min(digit_bits, bits);
    const int shift = bits - digit_bits;
    const std::uint64_t mask = (std::uint64_t{1} << digit_bits) - 1;
    places_.assign(mask + 2, 0);
    for (std::size_t index = 0; index < size; ++index) ++places_[(numbers[index] >> shift & mask) + 1];
    for (std::size_t bucket = 1; bucket < places_.size(); ++bucket) places_[bucket] += places_[bucket - 1];
    if (sorted_.size() < numbers.size()) sorted_.resize(numbers.size());
    for (std::size_t index = 0; index < size; ++index) {
      const std::uint64_t number = numbers[index];
      sorted_[places_[number >> shift & mask]++] = number;
    }
    numbers.swap(sorted_);
    std::uint64_t* const number = numbers.data();
    exchange_neighbours(number, size);
    for (std::size_t index = 1; index < size; ++index) {
      if (number[index - 1] <= number[index]) continue;  // Most are in order. Equal keys are in the order of their lists.
      const std::uint64_t bucket = number[index] >> shift;
      std::size_t begin = index - 1, end = index + 1;
      while (begin > 0 && number[begin - 1] >> shift == bucket) --begin;
      while (end < size && number[end] >> shift == bucket) ++end;
      if (end - begin > kLargeBucket) {
        std::sort(number + begin, number + end);
      } else {
        sort_by_insertion(number + begin, end - begin);
      }
      index = end - 1;
    }
  }

 private:
  static void sort_by_insertion(std::uint64_t* numbers, std::size_t size) {
    for (std::size_t index = 1; index < size; ++index) {
      const std::uint64_t number = numbers[index];
      std::size_t place = index;
      for (; place > 0 && numbers[place - 1] > number; --place) numbers[place] = numbers[place - 1];
      numbers[place] = number;
    }
  }

  std::vector<std::uint32_t> places_;
  std::vector<std::uint64_t> sorted_;
};

// Calls `visit(key, list)` for each element of fewer than 2**16 lists, in ascending order of keys and then of lists.
template <class Visit>
void merge_ascending(std::vector<KeyRange> lists, Visit visit) {
  constexpr std::size_t kPart = 2048;  // Elements of a part: few of each list, of which there are hundreds.
  require(lists.size() >> kListBits == 0, "expected fewer than 65536 lists");
  std::size_t size = 0;
  for (const KeyRange& list : lists) {
    size += static_cast<std::size_t>(list.end - list.begin);
    require(list.begin == list.end || list.end[-1] >> kMergedKeyBits == 0, "expected keys below 2**48");
  }
  require(size >> 32 == 0, "expected fewer than 2**32 keys");
  std::uint64_t smallest = ~std::uint64_t{0}, largest = 0;
  for (const KeyRange& list : lists) {
    if (list.begin == list.end) continue;
    smallest = std::min(smallest, *list.begin);
    largest = std::max(largest, list.end[-1]);
  }
  if (size == 0) return;
  int part_bits = 0;  // The parts have 2**part_bits keys.
  while ((largest - smallest) >> part_bits > size / kPart) ++part_bits;
  NumberSorter sorter;
  std::size_t room = 4 * kPart;
  std::vector<std::uint64_t> numbers(room);
  for (std::uint64_t part = smallest >> part_bits; part <= largest >> part_bits; ++part) {
    const std::uint64_t bound = (part + 1) << part_bits;
    std::size_t count = 0;
    for (std::size_t list = 0; list < lists.size(); ++list) {
      const std::uint64_t* key = lists[list].begin;
      const std::uint64_t* const end = lists[list].end;
      std::uint64_t* all = numbers.data();
      for (; key != end && *key < bound; ++key) {
        if (count == room) {
          numbers.resize(room *= 2);
          all = numbers.data();
        }
        all[count++] = *key << kListBits | list;
      }
      lists[list].begin = key;
    }
    sorter.sort(numbers, count, part_bits + kListBits);
    const std::uint64_t* const number = numbers.data();
    for (std::size_t index = 0; index < count; ++index) {
      visit(number[index] >> kListBits, static_cast<std::size_t>(number[index] & ((std::uint64_t{1} << kListBits) - 1)));
    }
  }
}

}  // namespace tamis::mail
