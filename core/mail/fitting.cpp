// Products of a sparse matrix with a vector: `SparseRows` of tamis_mail/verdict/fitting.py.
//
// The entries of row i are those from starts[i] to starts[i + 1]. They are added one after the other, so that the sums have
// the same bits as those of NumPy's `bincount`.
#include "fitting.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "../require.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kRows = 4;  // Rows that are summed at the same time: an addition need not wait for the one before it.

using Starts = Input<std::int64_t, 1>;
using Columns = Input<std::int32_t, 1>;
using Floats = Input<double, 1>;

// A negative column is the largest.
TAMIS_FOR_EACH_PROCESSOR std::uint32_t find_largest(const std::int32_t* columns, std::size_t entries) {
  std::uint32_t largest = 0;
  for (std::size_t entry = 0; entry < entries; ++entry) largest = std::max(largest, static_cast<std::uint32_t>(columns[entry]));
  return largest;
}

// Refuses a matrix that does not fit its entries or the vectors.
void check_matrix(const Starts& starts, const Columns& columns, const Floats& values, std::size_t rows, std::size_t features) {
  const std::size_t entries = columns.shape(0);
  bool is_valid = values.shape(0) == entries && starts.shape(0) == rows + 1 && starts.data()[0] == 0 &&
                  static_cast<std::uint64_t>(starts.data()[rows]) == entries;
  for (std::size_t row = 0; is_valid && row < rows; ++row) is_valid = starts.data()[row] <= starts.data()[row + 1];
  if (!is_valid || (entries > 0 && find_largest(columns.data(), entries) >= features)) refuse("an entry is outside of the matrix");
}

// sums[i] = Σ values[e] * vector[columns[e]] over the entries e of row i.
void multiply_rows(Starts starts, Columns columns, Floats values, Floats vector, Output<double, 1> sums) {
  const std::size_t rows = sums.shape(0);
  check_matrix(starts, columns, values, rows, vector.shape(0));
  const std::int64_t* start = starts.data();
  const std::int32_t* column = columns.data();
  const double *value = values.data(), *factor = vector.data();
  const nb::gil_scoped_release unlocked;
  for (std::size_t first = 0; first < rows; first += kRows) {
    const std::size_t count = std::min(kRows, rows - first);
    std::array<double, kRows> totals{};
    std::int64_t shortest = 0;  // Entries that all of these rows have.
    if (count == kRows) {
      shortest = start[first + 1] - start[first];
      for (std::size_t row = 1; row < kRows; ++row) shortest = std::min(shortest, start[first + row + 1] - start[first + row]);
      for (std::int64_t place = 0; place < shortest; ++place) {
        for (std::size_t row = 0; row < kRows; ++row) {
          const std::int64_t entry = start[first + row] + place;
          totals[row] += value[entry] * factor[column[entry]];
        }
      }
    }
    for (std::size_t row = 0; row < count; ++row) {
      for (std::int64_t entry = start[first + row] + shortest; entry < start[first + row + 1]; ++entry) {
        totals[row] += value[entry] * factor[column[entry]];
      }
      sums.data()[first + row] = totals[row];
    }
  }
}

// sums[j] = Σ values[e] * vector[i] over the entries e of column j, where i is the row of e.
void multiply_columns(Starts starts, Columns columns, Floats values, Floats vector, Output<double, 1> sums) {
  const std::size_t rows = vector.shape(0), features = sums.shape(0);
  check_matrix(starts, columns, values, rows, features);
  const std::int64_t* start = starts.data();
  const std::int32_t* column = columns.data();
  const double* value = values.data();
  double* sum = sums.data();
  const nb::gil_scoped_release unlocked;
  std::fill(sum, sum + features, 0.0);
  for (std::size_t row = 0; row < rows; ++row) {
    const double factor = vector.data()[row];
    for (std::int64_t entry = start[row]; entry < start[row + 1]; ++entry) sum[column[entry]] += value[entry] * factor;
  }
}

}  // namespace

void bind_fitting(nb::module_& m) {
  m.def("multiply_rows", &multiply_rows, nb::arg("starts").noconvert(), nb::arg("columns").noconvert(),
        nb::arg("values").noconvert(), nb::arg("vector").noconvert(), nb::arg("sums").noconvert());
  m.def("multiply_columns", &multiply_columns, nb::arg("starts").noconvert(), nb::arg("columns").noconvert(),
        nb::arg("values").noconvert(), nb::arg("vector").noconvert(), nb::arg("sums").noconvert());
}

}  // namespace tamis::mail
