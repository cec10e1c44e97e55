// Merges ascending lists of keys to the distinct keys, with the index of each element among these (`merge_lists` of
// tamis_mail/store/bundle_arrays.py); finds the places of keys in an ascending list (`find_keys` of
// tamis_mail/features/arrays.py); sums tables of counts, and adds the counts of some keys (`CountTable.total` and `add_counts` of
// tamis_mail/store/tables.py).
//
// To merge lists, the number of an element's list is put into the bits that its key does not use, and these numbers are
// sorted by the highest bits of the keys, digit by digit. Keys are hashes, so few have these bits in common and are still out of
// order; they are sorted by comparison, so that keys which a sender chooses cost no more than an ordinary sort.
#include "key_lists.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "../require.hpp"

namespace tamis::mail {

namespace {

constexpr int kListBits = 16;  // 64 - KEY_BITS of tamis_mail/features/hashing.py
constexpr std::uint64_t kListMask = (std::uint64_t{1} << kListBits) - 1;
constexpr int kDigitBits = 12;
constexpr std::size_t kDigits = 2;  // The highest digits, by which numbers are distributed.
constexpr int kRestBits = 64 - static_cast<int>(kDigits) * kDigitBits;  // Of a number, below these digits.
constexpr std::size_t kDigitValues = std::size_t{1} << kDigitBits;

std::size_t find_digit(std::uint64_t number, std::size_t digit) {
  return number >> (kRestBits + static_cast<int>(digit) * kDigitBits) & (kDigitValues - 1);
}

// Sorts numbers; those of each list are in ascending order before.
void sort_numbers(std::vector<std::uint64_t>& numbers) {
  std::array<std::vector<std::uint32_t>, kDigits> counts;
  for (auto& of_digit : counts) of_digit.assign(kDigitValues, 0);
  for (const std::uint64_t number : numbers) {
    for (std::size_t digit = 0; digit < kDigits; ++digit) ++counts[digit][find_digit(number, digit)];
  }
  std::vector<std::uint64_t> sorted(numbers.size());
  for (std::size_t digit = 0; digit < kDigits; ++digit) {
    std::vector<std::uint32_t>& places = counts[digit];
    std::uint32_t place = 0;
    for (std::uint32_t& count : places) place += std::exchange(count, place);
    for (const std::uint64_t number : numbers) sorted[places[find_digit(number, digit)]++] = number;
    numbers.swap(sorted);
  }
  for (std::size_t index = 1; index < numbers.size(); ++index) {
    if (numbers[index] >= numbers[index - 1]) continue;
    const std::uint64_t digits = numbers[index] >> kRestBits;
    std::size_t begin = index - 1, end = index + 1;
    while (begin > 0 && numbers[begin - 1] >> kRestBits == digits) --begin;
    while (end < numbers.size() && numbers[end] >> kRestBits == digits) ++end;
    std::sort(numbers.data() + begin, numbers.data() + end);
    index = end - 1;
  }
}

// Puts the keys of lists and the numbers of their lists together. Sets the place of the first element of each list.
std::vector<std::uint64_t> number_keys(const Input<std::uint64_t, 1>& keys, const Input<std::int64_t, 1>& sizes,
                                       std::vector<std::size_t>& places) {
  const std::size_t count = keys.shape(0), lists = sizes.shape(0);
  if (lists > kListMask) refuse("expected fewer than 65536 lists");
  if (count >> 32 > 0) refuse("expected fewer than 2**32 keys");
  places.resize(lists);
  std::vector<std::uint64_t> numbers(count);
  std::size_t begin = 0;
  for (std::size_t list = 0; list < lists; ++list) {
    const auto size = static_cast<std::uint64_t>(sizes.data()[list]);  // A negative size becomes too large a number.
    if (size > count - begin) refuse("the lists have more elements than there are keys");
    places[list] = begin;
    const std::size_t end = begin + static_cast<std::size_t>(size);
    for (; begin < end; ++begin) numbers[begin] = keys.data()[begin] << kListBits | list;
  }
  if (begin != count) refuse("the lists have fewer elements than there are keys");
  return numbers;
}

// Writes the distinct keys, in ascending order, and the indices; returns the number of distinct keys.
std::size_t merge_lists(Input<std::uint64_t, 1> keys, Input<std::int64_t, 1> sizes, Output<std::uint64_t, 1> distinct,
                        Output<std::int64_t, 1> indices) {
  const std::size_t count = keys.shape(0);
  if (distinct.shape(0) != count || indices.shape(0) != count) refuse("expected one place per key");
  std::vector<std::size_t> places;  // The place of the next element of each list.
  std::vector<std::uint64_t> numbers = number_keys(keys, sizes, places);
  const nb::gil_scoped_release unlocked;
  sort_numbers(numbers);
  std::size_t n_distinct = 0;
  for (const std::uint64_t number : numbers) {
    const std::uint64_t key = number >> kListBits;
    if (n_distinct == 0 || distinct.data()[n_distinct - 1] != key) distinct.data()[n_distinct++] = key;
    const std::size_t list = number & kListMask;
    indices.data()[places[list]++] = static_cast<std::int64_t>(n_distinct - 1);
  }
  return n_distinct;
}

// Calls `use(index, place)` for each key that is in an ascending list, and `miss(index)` for the others. The keys ascend, too, so
// each is searched from the place of the one before it, in steps that double.
template <class Use, class Miss>
void search_keys(const std::uint64_t* stored, std::size_t size, const std::uint64_t* key, std::size_t count, Use use, Miss miss) {
  std::size_t begin = 0;  // All elements before it are smaller than the key.
  for (std::size_t index = 0; index < count; ++index) {
    if (index > 0 && key[index] < key[index - 1]) begin = 0;
    std::size_t step = 1;
    while (begin + step < size && stored[begin + step] < key[index]) {
      begin += step;
      step *= 2;
    }
    const std::size_t end = std::min(size, begin + step + 1);
    begin = static_cast<std::size_t>(std::lower_bound(stored + begin, stored + end, key[index]) - stored);
    if (begin < size && stored[begin] == key[index]) {
      use(index, begin);
    } else {
      miss(index);
    }
  }
}

// Writes the place of each key in an ascending list, or -1 if it is not in the list.
void find_keys(Input<std::uint64_t, 1> list, Input<std::uint64_t, 1> keys, Output<std::int64_t, 1> places) {
  const std::size_t count = keys.shape(0);
  if (places.shape(0) != count) refuse("expected one place per key");
  std::int64_t* place_of = places.data();
  const nb::gil_scoped_release unlocked;
  search_keys(
      list.data(), list.shape(0), keys.data(), count,
      [=](std::size_t index, std::size_t place) { place_of[index] = static_cast<std::int64_t>(place); },
      [=](std::size_t index) { place_of[index] = -1; });
}

// Adds the counts of those keys that are in an ascending list; the list may have fewer labels.
template <class T>
void add_counts(Input<std::uint64_t, 1> list, Input<T, 2> list_counts, Input<std::uint64_t, 1> keys,
                Output<std::int64_t, 2> counts) {
  const std::size_t labels = list_counts.shape(1), all_labels = counts.shape(1);
  if (list_counts.shape(0) != list.shape(0) || counts.shape(0) != keys.shape(0)) refuse("expected one row of counts per key");
  if (labels > all_labels) refuse("expected no more labels than there are");
  const T* stored = list_counts.data();
  std::int64_t* count = counts.data();
  const nb::gil_scoped_release unlocked;
  search_keys(
      list.data(), list.shape(0), keys.data(), keys.shape(0),
      [=](std::size_t index, std::size_t place) {
        for (std::size_t label = 0; label < labels; ++label) {
          // Without a sign, because a damaged store may have counts that overflow.
          std::int64_t& total = count[index * all_labels + label];
          total = static_cast<std::int64_t>(static_cast<std::uint64_t>(total) +
                                            static_cast<std::uint64_t>(std::int64_t{stored[place * labels + label]}));
        }
      },
      [](std::size_t) {});
}

// Writes the sum of tables, whose keys ascend, and leaves out rows of zeros; returns the number of entries, or -1 if the keys of
// a table do not ascend, or are larger than the number of a feature.
std::int64_t sum_tables(Input<std::uint64_t, 1> keys, Input<std::int64_t, 1> sizes, Input<std::int64_t, 2> counts,
                        Output<std::uint64_t, 1> total_keys, Output<std::int64_t, 2> total_counts) {
  const std::size_t size = keys.shape(0), labels = counts.shape(1);
  if (counts.shape(0) != size || total_keys.shape(0) != size || total_counts.shape(0) != size ||
      total_counts.shape(1) != labels) {
    refuse("expected one row of counts per key");
  }
  std::vector<std::size_t> places;  // The place of the next entry of each table.
  std::vector<std::uint64_t> numbers = number_keys(keys, sizes, places);
  const nb::gil_scoped_release unlocked;
  sort_numbers(numbers);
  const std::uint64_t* const key = keys.data();
  const std::int64_t* const count = counts.data();
  std::uint64_t* const total_key = total_keys.data();
  std::int64_t* const total = total_counts.data();
  std::size_t n_total = 0;
  for (std::size_t index = 0; index < size;) {
    const std::uint64_t current = numbers[index] >> kListBits;
    std::int64_t* const row = total + n_total * labels;
    std::fill(row, row + labels, 0);
    for (; index < size && numbers[index] >> kListBits == current; ++index) {
      const std::size_t place = places[numbers[index] & kListMask]++;
      if (key[place] != current) return -1;
      // Without a sign, because a damaged store may have counts that overflow.
      for (std::size_t label = 0; label < labels; ++label) {
        row[label] = static_cast<std::int64_t>(static_cast<std::uint64_t>(row[label]) +
                                               static_cast<std::uint64_t>(count[place * labels + label]));
      }
    }
    total_key[n_total] = current;
    n_total += std::any_of(row, row + labels, [](std::int64_t number) { return number != 0; });
  }
  return static_cast<std::int64_t>(n_total);
}

}  // namespace

void bind_key_lists(nb::module_& m) {
  m.def("merge_lists", &merge_lists, nb::arg("keys").noconvert(), nb::arg("sizes").noconvert(), nb::arg("distinct").noconvert(),
        nb::arg("indices").noconvert());
  m.def("find_keys", &find_keys, nb::arg("list").noconvert(), nb::arg("keys").noconvert(), nb::arg("places").noconvert());
  const auto bind_add_counts = [&m](auto function) {
    m.def("add_counts", function, nb::arg("stored").noconvert(), nb::arg("stored_counts").noconvert(),
          nb::arg("keys").noconvert(), nb::arg("counts").noconvert());
  };
  bind_add_counts(&add_counts<std::int8_t>);
  bind_add_counts(&add_counts<std::int16_t>);
  bind_add_counts(&add_counts<std::int32_t>);
  bind_add_counts(&add_counts<std::int64_t>);
  m.def("sum_tables", &sum_tables, nb::arg("keys").noconvert(), nb::arg("sizes").noconvert(), nb::arg("counts").noconvert(),
        nb::arg("total_keys").noconvert(), nb::arg("total_counts").noconvert());
}

}  // namespace tamis::mail
