// Turns numbers of tokens into keys of pairs, rows of counts, and sums.
#include <algorithm>
#include <memory>
#include <vector>

#include "bytes.hpp"
#include "parts.hpp"

namespace tamis::text {
namespace {

using Int32s = Input<int32_t, 1>;
using Int64s = Input<int64_t, 1>;
using Floats = Input<double, 1>;

// Write left << 32 | right for the i-th number on the left and the (i + shift)-th on the right, in each document.
int64_t make_pair_keys(Int32s left, Int64s left_documents, Int32s right, Int64s right_documents, int64_t shift,
                       Output<uint64_t, 1> keys, Output<int64_t, 1> documents) {
  check_offsets(left_documents.data(), left_documents.size(), static_cast<int64_t>(left.size()));
  check_offsets(right_documents.data(), right_documents.size(), static_cast<int64_t>(right.size()));
  if (left_documents.size() < right_documents.size() || documents.size() != right_documents.size() ||
      keys.size() < right.size() || shift < 0) {
    refuse("got arrays of different lengths, or a negative shift");
  }
  int64_t total = 0;
  documents.data()[0] = 0;
  for (size_t document = 0; document + 1 < right_documents.size(); ++document) {
    const int64_t start = right_documents.data()[document], stop = right_documents.data()[document + 1];
    const int64_t count = shift < stop - start ? stop - start - shift : 0;
    const int64_t first = left_documents.data()[document];
    if (count > static_cast<int64_t>(left.size()) - first) refuse("got a document with too few numbers on the left");
    const int32_t* const lefts = left.data() + first;
    const int32_t* const rights = right.data() + (stop - count);
    uint64_t* const out = keys.data() + total;
    for (int64_t k = 0; k < count; ++k) {
      out[k] = uint64_t{static_cast<uint32_t>(lefts[k])} << 32 | static_cast<uint32_t>(rights[k]);
    }
    total += count;
    documents.data()[document + 1] = total;
  }
  return total;
}

// Adds up counts by number, one row after the other; within a row, numbers are in the order of their first occurrence.
class RowWriter {
 public:
  RowWriter(int64_t n_numbers, size_t n_rows, const Output<int64_t, 1>& indptr, const Output<int32_t, 1>& indices,
            const Output<double, 1>& counts)
      : indptr_(indptr.data()), indices_(indices.data()), counts_(counts.data()),
        capacity_(static_cast<int64_t>(std::min(indices.size(), counts.size()))) {
    if (indptr.size() != n_rows + 1) refuse("got an array of offsets to write of another length");
    if (n_numbers < 0) refuse("got a negative number of numbers");
    entries_.assign(static_cast<size_t>(n_numbers), -1);
    indptr_[0] = 0;
  }

  int64_t total() const { return total_; }

  // Add the counts of several numbers to the row. `find_count` returns the count of the k-th number.
  template <class FindCount>
  void add(const int32_t* numbers, int64_t size, FindCount find_count) {
    // Local variables stay in registers. Members would not: for the compiler, a write to an array could change them.
    int32_t* const indices = indices_;
    double* const counts = counts_;
    int64_t* const entries = entries_.data();
    const uint64_t n_numbers = entries_.size();
    const int64_t capacity = capacity_, begin = begin_;
    int64_t total = total_;
    for (int64_t k = 0; k < size; ++k) {
      const int32_t number = numbers[k];
      if (static_cast<uint32_t>(number) >= n_numbers) refuse("got a number that is not below the number of numbers");
      if (total == capacity) refuse("got more counts than there is room for");
      // Without branches, because the processor cannot predict which numbers are new: masks choose between two values.
      const int64_t known = entries[number], is_new = -static_cast<int64_t>(known < begin);
      const int64_t entry = known ^ ((known ^ total) & is_new);
      uint64_t bits;
      std::memcpy(&bits, counts + (known & ~is_new), sizeof bits);
      bits &= ~static_cast<uint64_t>(is_new);
      double before;  // the count before; 0 if the number is new
      std::memcpy(&before, &bits, sizeof before);
      entries[number] = entry;
      indices[entry] = number;
      counts[entry] = before + find_count(k);
      total -= is_new;
    }
    total_ = total;
  }

  void end_row() {
    *++indptr_ = total_;
    begin_ = total_;
  }

 private:
  int64_t* indptr_;
  int32_t* indices_;
  double* counts_;
  int64_t capacity_;
  int64_t total_ = 0;
  int64_t begin_ = 0;             // of this row
  std::vector<int64_t> entries_;  // the entry that last counted each number; -1: none
};

int64_t count_numbers(Int32s numbers, Int64s documents, int64_t n_numbers, Output<int64_t, 1> indptr,
                      Output<int32_t, 1> indices, Output<double, 1> counts) {
  check_offsets(documents.data(), documents.size(), static_cast<int64_t>(numbers.size()));
  RowWriter rows(n_numbers, documents.size() - 1, indptr, indices, counts);
  const int64_t* const bounds = documents.data();
  for (size_t document = 0; document + 1 < documents.size(); ++document) {
    rows.add(numbers.data() + bounds[document], bounds[document + 1] - bounds[document], [](int64_t) { return 1.0; });
    rows.end_row();
  }
  return rows.total();
}

void check_rows(const Int64s& indptr, const Int32s& indices, const Floats& counts) {
  check_offsets(indptr.data(), indptr.size(), static_cast<int64_t>(std::min(indices.size(), counts.size())));
}

// Sum the rows of each group.
int64_t sum_groups(Int64s indptr, Int32s indices, Floats counts, Int64s group, int64_t n_numbers,
                   Output<int64_t, 1> ends, Output<int32_t, 1> numbers, Output<double, 1> values) {
  check_rows(indptr, indices, counts);
  if (group.size() + 1 != indptr.size()) refuse("got groups of another number of rows");
  if (ends.size() == 0) refuse("got no room for the offsets of groups");
  const size_t groups = ends.size() - 1, n_rows = group.size();
  const int64_t* const group_of = group.data();
  // The rows of a group, in their order, are order[bounds[g]], …, order[bounds[g + 1] - 1].
  std::vector<size_t> bounds(groups + 2), order(n_rows);
  for (size_t row = 0; row < n_rows; ++row) {
    if (static_cast<uint64_t>(group_of[row]) >= groups) refuse("got a group that is not below their number");
    ++bounds[group_of[row] + 2];
  }
  for (size_t g = 2; g < bounds.size(); ++g) bounds[g] += bounds[g - 1];
  for (size_t row = 0; row < n_rows; ++row) order[bounds[group_of[row] + 1]++] = row;
  RowWriter sums(n_numbers, groups, ends, numbers, values);
  for (size_t g = 0; g < groups; ++g) {
    for (size_t k = bounds[g]; k < bounds[g + 1]; ++k) {
      const int64_t start = indptr.data()[order[k]], stop = indptr.data()[order[k] + 1];
      const double* const row_counts = counts.data() + start;
      sums.add(indices.data() + start, stop - start, [=](int64_t entry) { return row_counts[entry]; });
    }
    sums.end_row();
  }
  return sums.total();
}

// Sort words by their upper halves, which have so many bytes, and keep the order of equal ones. The result is in `words`
// or in `other`, which is returned.
uint64_t* sort_words(uint64_t* words, uint64_t* other, int64_t count, int n_bytes) {
  constexpr int64_t few = 24;  // so few words are sorted faster by insertion
  if (count < few) {
    for (int64_t k = 1; k < count; ++k) {
      const uint64_t word = words[k];
      int64_t at = k;
      for (; at > 0 && words[at - 1] > word; --at) words[at] = words[at - 1];
      words[at] = word;
    }
    return words;
  }
  for (int byte = 0; byte < n_bytes; ++byte) {
    const int shift = 32 + 8 * byte;
    uint32_t places[257] = {};
    for (int64_t k = 0; k < count; ++k) ++places[(words[k] >> shift & 0xFF) + 1];
    for (int k = 0; k < 256; ++k) places[k + 1] += places[k];
    for (int64_t k = 0; k < count; ++k) other[places[words[k] >> shift & 0xFF]++] = words[k];
    std::swap(words, other);
  }
  return words;
}

// Move number i to columns[i], times signs[i], or drop it if that is negative; sort rows by column.
int64_t arrange(Int64s indptr, Int32s indices, Floats counts, Int32s columns, Floats signs, Output<int64_t, 1> ends,
                Output<int32_t, 1> positions, Output<double, 1> values) {
  check_rows(indptr, indices, counts);
  if (signs.size() != columns.size() || ends.size() != indptr.size()) refuse("got arrays of different lengths");
  const size_t n_rows = indptr.size() - 1;
  const int64_t* const bounds = indptr.data();
  if (static_cast<size_t>(bounds[n_rows] - bounds[0]) > std::min(positions.size(), values.size())) {
    refuse("got less room than the rows need");
  }
  int32_t last_column = 0;
  for (size_t k = 0; k < columns.size(); ++k) last_column = std::max(last_column, columns.data()[k]);
  const int n_bytes = last_column >> 24 ? 4 : last_column >> 16 ? 3 : last_column >> 8 ? 2 : last_column ? 1 : 0;
  int64_t longest = 0;
  for (size_t row = 0; row < n_rows; ++row) longest = std::max(longest, bounds[row + 1] - bounds[row]);
  if (longest > 0xFFFFFFFF) refuse("got a row of more numbers than can be sorted");
  const auto words = std::make_unique<uint64_t[]>(longest), other = std::make_unique<uint64_t[]>(longest);
  const int32_t *const number_of = indices.data(), *const column_of = columns.data();
  const double *const count_of = counts.data(), *const sign_of = signs.data();
  const uint64_t n_numbers = columns.size();
  int32_t* const out_columns = positions.data();
  double* const out_values = values.data();
  int64_t size = 0;
  ends.data()[0] = 0;
  for (size_t row = 0; row < n_rows; ++row) {
    const int64_t start = bounds[row], stop = bounds[row + 1];
    uint64_t* const unsorted = words.get();
    int64_t count = 0;
    for (int64_t entry = start; entry < stop; ++entry) {
      const uint32_t number = static_cast<uint32_t>(number_of[entry]);
      if (number >= n_numbers) refuse("got a number that has no column");
      const int32_t column = column_of[number];
      if (column >= 0) unsorted[count++] = static_cast<uint64_t>(column) << 32 | static_cast<uint64_t>(entry - start);
    }
    const uint64_t* const sorted = sort_words(unsorted, other.get(), count, n_bytes);
    int64_t before = -1;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t column = static_cast<int64_t>(sorted[k] >> 32);
      const int64_t entry = start + static_cast<int64_t>(sorted[k] & 0xFFFFFFFF);
      const double value = count_of[entry] * sign_of[number_of[entry]];
      if (column == before) {  // two numbers of one column
        out_values[size - 1] += value;
      } else {
        out_columns[size] = static_cast<int32_t>(column);
        out_values[size++] = value;
        before = column;
      }
    }
    ends.data()[row + 1] = size;
  }
  return size;
}

// Sums wrap around, as those of NumPy do.
inline void add_to(int64_t& sum, int64_t value) {
  sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(value));
}

// Add column i of `sums` to column numbers[i] of a table with at least as many rows.
void add_columns(Input<int64_t, 2> sums, Int64s numbers, Output<int64_t, 2> table) {
  const size_t n_columns = table.shape(1), count = numbers.size();
  if (sums.shape(0) > table.shape(0) || sums.shape(1) != count) refuse("got tables of different shapes");
  const int64_t* const column_of = numbers.data();
  for (size_t k = 0; k < count; ++k) {
    if (static_cast<uint64_t>(column_of[k]) >= n_columns) refuse("got a column that the table does not have");
  }
  for (size_t row = 0; row < sums.shape(0); ++row) {
    int64_t* const to = table.data() + row * n_columns;
    const int64_t* const from = sums.data() + row * count;
    for (size_t k = 0; k < count; ++k) add_to(to[column_of[k]], from[k]);
  }
}

// Round towards zero. NaN and numbers out of range become the lowest integer, as in NumPy.
inline int64_t to_integer(double value) {
  constexpr double limit = 9223372036854775808.0;
  return value >= -limit && value < limit ? static_cast<int64_t>(value) : INT64_MIN;
}

// Add row d to row group[d] of a table, and number i to columns[i]; it is dropped if that is negative.
void add_rows(Int64s indptr, Int32s indices, Floats counts, Int32s columns, Int64s group, Output<int64_t, 2> table) {
  check_rows(indptr, indices, counts);
  if (group.size() + 1 != indptr.size()) refuse("got groups of another number of rows");
  const size_t n_columns = table.shape(1), n_numbers = columns.size();
  const int32_t *const number_of = indices.data(), *const column_of = columns.data();
  const double* const count_of = counts.data();
  for (size_t row = 0; row < group.size(); ++row) {
    const uint64_t to = static_cast<uint64_t>(group.data()[row]);
    if (to >= table.shape(0)) refuse("got a row that the table does not have");
    int64_t* const sums = table.data() + to * n_columns;
    const int64_t stop = indptr.data()[row + 1];
    for (int64_t entry = indptr.data()[row]; entry < stop; ++entry) {
      const uint32_t number = static_cast<uint32_t>(number_of[entry]);
      if (number >= n_numbers) refuse("got a number that has no column");
      const int32_t column = column_of[number];
      if (column < 0) continue;
      if (static_cast<uint32_t>(column) >= n_columns) refuse("got a column that the table does not have");
      add_to(sums[column], to_integer(count_of[entry]));
    }
  }
}

}  // namespace

void bind_counts(nb::module_& m) {
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  m.def("make_pair_keys", make_pair_keys, nb::arg("left").noconvert(), nb::arg("left_documents").noconvert(),
        nb::arg("right").noconvert(), nb::arg("right_documents").noconvert(), nb::arg("shift"),
        nb::arg("keys").noconvert(), nb::arg("documents").noconvert(), Unlocked());
  m.def("count_numbers", count_numbers, nb::arg("numbers").noconvert(), nb::arg("documents").noconvert(),
        nb::arg("n_numbers"), nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
        nb::arg("counts").noconvert(), Unlocked());
  m.def("sum_groups", sum_groups, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
        nb::arg("counts").noconvert(), nb::arg("group").noconvert(), nb::arg("n_numbers"), nb::arg("ends").noconvert(),
        nb::arg("numbers").noconvert(), nb::arg("values").noconvert(), Unlocked());
  m.def("arrange", arrange, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
        nb::arg("counts").noconvert(), nb::arg("columns").noconvert(), nb::arg("signs").noconvert(),
        nb::arg("ends").noconvert(), nb::arg("positions").noconvert(), nb::arg("values").noconvert(), Unlocked());
  m.def("add_columns", add_columns, nb::arg("sums").noconvert(), nb::arg("numbers").noconvert(),
        nb::arg("table").noconvert(), Unlocked());
  m.def("add_rows", add_rows, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
        nb::arg("counts").noconvert(), nb::arg("columns").noconvert(), nb::arg("group").noconvert(),
        nb::arg("table").noconvert(), Unlocked());
}

}  // namespace tamis::text
