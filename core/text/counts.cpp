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
      : n_numbers_(static_cast<uint64_t>(n_numbers)), indptr_(indptr.data()), indices_(indices.data()),
        counts_(counts.data()), capacity_(static_cast<int64_t>(std::min(indices.size(), counts.size()))) {
    if (indptr.size() != n_rows + 1) refuse("got an array of offsets to write of another length");
    if (n_numbers < 0) refuse("got a negative number of numbers");
    entries_.assign(n_numbers_, -1);
    indptr_[0] = 0;
  }

  int64_t total() const { return total_; }
  void prefetch_number(int32_t number) const {
    if (static_cast<uint32_t>(number) < n_numbers_) prefetch(entries_.data() + number);
  }

  void add(int32_t number, double count) {
    if (static_cast<uint32_t>(number) >= n_numbers_) refuse("got a number that is not below the number of numbers");
    int64_t& entry = entries_[static_cast<uint32_t>(number)];
    if (entry >= begin_) {
      counts_[entry] += count;
      return;
    }
    if (total_ == capacity_) refuse("got more counts than there is room for");
    entry = total_++;
    indices_[entry] = number;
    counts_[entry] = count;
  }

  void end_row() {
    *++indptr_ = total_;
    begin_ = total_;
  }

 private:
  uint64_t n_numbers_;
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
  constexpr int64_t ahead = 16;  // numbers whose entries are loaded in advance
  const int64_t size = static_cast<int64_t>(numbers.size());
  check_offsets(documents.data(), documents.size(), size);
  RowWriter rows(n_numbers, documents.size() - 1, indptr, indices, counts);
  for (size_t document = 0; document + 1 < documents.size(); ++document) {
    for (int64_t token = documents.data()[document]; token < documents.data()[document + 1]; ++token) {
      if (token + ahead < size) rows.prefetch_number(numbers.data()[token + ahead]);
      rows.add(numbers.data()[token], 1.0);
    }
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
  const uint64_t groups = ends.size() - 1;
  // The rows of a group, in their order, are order[bounds[g]], …, order[bounds[g + 1] - 1].
  std::vector<size_t> bounds(groups + 2), order(group.size());
  for (size_t row = 0; row < group.size(); ++row) {
    if (static_cast<uint64_t>(group.data()[row]) >= groups) refuse("got a group that is not below their number");
    ++bounds[group.data()[row] + 2];
  }
  for (size_t g = 2; g < bounds.size(); ++g) bounds[g] += bounds[g - 1];
  for (size_t row = 0; row < group.size(); ++row) order[bounds[group.data()[row] + 1]++] = row;
  RowWriter sums(n_numbers, groups, ends, numbers, values);
  for (size_t g = 0; g < groups; ++g) {
    for (size_t k = bounds[g]; k < bounds[g + 1]; ++k) {
      for (int64_t entry = indptr.data()[order[k]]; entry < indptr.data()[order[k] + 1]; ++entry) {
        sums.add(indices.data()[entry], counts.data()[entry]);
      }
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
  int64_t size = 0;
  ends.data()[0] = 0;
  for (size_t row = 0; row < n_rows; ++row) {
    const int64_t start = bounds[row];
    int64_t count = 0;
    for (int64_t entry = start; entry < bounds[row + 1]; ++entry) {
      const uint32_t number = static_cast<uint32_t>(indices.data()[entry]);
      if (number >= columns.size()) refuse("got a number that has no column");
      const int32_t column = columns.data()[number];
      if (column >= 0) words[count++] = static_cast<uint64_t>(column) << 32 | static_cast<uint64_t>(entry - start);
    }
    const uint64_t* const sorted = sort_words(words.get(), other.get(), count, n_bytes);
    int64_t before = -1;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t column = static_cast<int64_t>(sorted[k] >> 32);
      const int64_t entry = start + static_cast<int64_t>(sorted[k] & 0xFFFFFFFF);
      const double value = counts.data()[entry] * signs.data()[indices.data()[entry]];
      if (column == before) {  // two numbers of one column
        values.data()[size - 1] += value;
      } else {
        positions.data()[size] = static_cast<int32_t>(column);
        values.data()[size++] = value;
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
  const size_t n_columns = table.shape(1);
  if (sums.shape(0) > table.shape(0) || sums.shape(1) != numbers.size()) refuse("got tables of different shapes");
  for (size_t k = 0; k < numbers.size(); ++k) {
    if (static_cast<uint64_t>(numbers.data()[k]) >= n_columns) refuse("got a column that the table does not have");
  }
  for (size_t row = 0; row < sums.shape(0); ++row) {
    int64_t* const to = table.data() + row * n_columns;
    const int64_t* const from = sums.data() + row * numbers.size();
    for (size_t k = 0; k < numbers.size(); ++k) add_to(to[numbers.data()[k]], from[k]);
  }
}

// Round towards zero. What no integer equals becomes the least one, as in NumPy.
inline int64_t to_integer(double value) {
  constexpr double limit = 9223372036854775808.0;
  return value >= -limit && value < limit ? static_cast<int64_t>(value) : INT64_MIN;
}

// Add row d to row group[d] of a table, and number i to columns[i]; it is dropped if that is negative.
void add_rows(Int64s indptr, Int32s indices, Floats counts, Int32s columns, Int64s group, Output<int64_t, 2> table) {
  check_rows(indptr, indices, counts);
  if (group.size() + 1 != indptr.size()) refuse("got groups of another number of rows");
  const size_t n_columns = table.shape(1);
  for (size_t row = 0; row < group.size(); ++row) {
    if (static_cast<uint64_t>(group.data()[row]) >= table.shape(0)) refuse("got a row that the table does not have");
    int64_t* const sums = table.data() + static_cast<size_t>(group.data()[row]) * n_columns;
    for (int64_t entry = indptr.data()[row]; entry < indptr.data()[row + 1]; ++entry) {
      const uint32_t number = static_cast<uint32_t>(indices.data()[entry]);
      if (number >= columns.size()) refuse("got a number that has no column");
      const int32_t column = columns.data()[number];
      if (column < 0) continue;
      if (static_cast<uint32_t>(column) >= n_columns) refuse("got a column that the table does not have");
      add_to(sums[column], to_integer(counts.data()[entry]));
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
