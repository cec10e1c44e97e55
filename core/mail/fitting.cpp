// Products of a sparse matrix with a vector: `SparseRows` of tamis_mail/verdict/fitting.py. And the features of messages → the
// entries of that matrix: `make_design` there.
//
// The entries of row i are those from starts[i] to starts[i + 1]. They are added one after the other, so that the sums have
// the same bits as those of NumPy's `bincount`.
#include "fitting.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

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

using Indices = Input<std::int64_t, 1>;
using Flags = Input<std::uint8_t, 1>;

// Refuses rows that have no view, and views that have no flag.
void check_views(const Indices& rows, const Indices& views, const Flags& is_in_layer) {
  const auto is_below = [](const Indices& indices, std::size_t bound) {
    return std::all_of(indices.data(), indices.data() + indices.shape(0),
                       [bound](std::int64_t index) { return static_cast<std::uint64_t>(index) < bound; });
  };
  if (!is_below(rows, views.shape(0)) || !is_below(views, is_in_layer.shape(0))) refuse("an index is outside of its array");
}

// Marks the rows of the layer's views that are there more than once, and returns how often they are there in all.
std::size_t find_repeated(Indices rows, Indices views, Flags is_in_layer, Output<std::uint8_t, 1> is_used) {
  const std::size_t all_rows = views.shape(0);
  require(is_used.shape(0) == all_rows, "expected arrays of matching sizes");
  require(rows.shape(0) <= UINT32_MAX, "expected fewer than 2**32 features");
  check_views(rows, views, is_in_layer);
  const nb::gil_scoped_release unlocked;
  std::vector<std::uint32_t> counts(all_rows, 0);
  for (std::size_t feature = 0; feature < rows.shape(0); ++feature) ++counts[static_cast<std::size_t>(rows.data()[feature])];
  std::size_t entries = 0;
  for (std::size_t row = 0; row < all_rows; ++row) {
    const bool is_repeated = counts[row] > 1 && is_in_layer.data()[views.data()[row]] != 0;
    is_used.data()[row] = is_repeated;
    entries += is_repeated ? counts[row] : 0;
  }
  return entries;
}

// Writes the entries of the matrix: 1 / √n for each feature of a message whose row is used, where n is the number of the
// message's features of that view. Message i has the features j from starts[i] to starts[i + 1], and feature j has row rows[j].
void make_design(Indices rows, Starts starts, Indices views, Flags is_in_layer, Flags is_used, Output<std::int64_t, 1> entry_starts,
                 Output<std::int32_t, 1> columns, Output<double, 1> values) {
  const std::size_t all_rows = views.shape(0), n_views = is_in_layer.shape(0), entries = columns.shape(0);
  require(starts.shape(0) > 0 && entry_starts.shape(0) == starts.shape(0) && is_used.shape(0) == all_rows &&
              values.shape(0) == entries,
          "expected arrays of matching sizes");
  require(all_rows <= INT32_MAX, "expected fewer than 2**31 rows");
  check_views(rows, views, is_in_layer);
  const std::size_t messages = starts.shape(0) - 1;
  const std::int64_t *start = starts.data(), *row_of = rows.data(), *view_of = views.data();
  bool is_valid = start[0] == 0 && static_cast<std::uint64_t>(start[messages]) == rows.shape(0);
  for (std::size_t message = 0; is_valid && message < messages; ++message) is_valid = start[message] <= start[message + 1];
  if (!is_valid) refuse("a message is outside of its array");
  bool has_room = true;
  {
    const nb::gil_scoped_release unlocked;
    std::vector<std::int32_t> numbers(all_rows);  // The column of each row, or -1.
    std::int32_t n_columns = 0;
    for (std::size_t row = 0; row < all_rows; ++row) numbers[row] = is_used.data()[row] != 0 ? n_columns++ : -1;
    std::vector<double> sizes(n_views);
    std::size_t entry = 0;
    entry_starts.data()[0] = 0;
    for (std::size_t message = 0; message < messages && has_room; ++message) {
      std::fill(sizes.begin(), sizes.end(), 0.0);
      for (std::int64_t feature = start[message]; feature < start[message + 1]; ++feature) {
        sizes[static_cast<std::size_t>(view_of[row_of[feature]])] += 1.0;
      }
      for (double& size : sizes) size = 1.0 / std::sqrt(std::max(size, 1.0));
      for (std::int64_t feature = start[message]; feature < start[message + 1]; ++feature) {
        const std::int64_t row = row_of[feature];
        if (numbers[static_cast<std::size_t>(row)] < 0) continue;
        if (entry == entries) {
          has_room = false;
          break;
        }
        columns.data()[entry] = numbers[static_cast<std::size_t>(row)];
        values.data()[entry++] = sizes[static_cast<std::size_t>(view_of[row])];
      }
      entry_starts.data()[message + 1] = static_cast<std::int64_t>(entry);
    }
    has_room = has_room && entry == entries;
  }
  if (!has_room) refuse("expected a place per entry");
}

}  // namespace

void bind_fitting(nb::module_& m) {
  m.def("find_repeated", &find_repeated, nb::arg("rows").noconvert(), nb::arg("views").noconvert(),
        nb::arg("is_in_layer").noconvert(), nb::arg("is_used").noconvert());
  m.def("make_design", &make_design, nb::arg("rows").noconvert(), nb::arg("starts").noconvert(), nb::arg("views").noconvert(),
        nb::arg("is_in_layer").noconvert(), nb::arg("is_used").noconvert(), nb::arg("entry_starts").noconvert(),
        nb::arg("columns").noconvert(), nb::arg("values").noconvert());
  m.def("multiply_rows", &multiply_rows, nb::arg("starts").noconvert(), nb::arg("columns").noconvert(),
        nb::arg("values").noconvert(), nb::arg("vector").noconvert(), nb::arg("sums").noconvert());
  m.def("multiply_columns", &multiply_columns, nb::arg("starts").noconvert(), nb::arg("columns").noconvert(),
        nb::arg("values").noconvert(), nb::arg("vector").noconvert(), nb::arg("sums").noconvert());
}

}  // namespace tamis::mail
