// The features of messages → the entries of a sparse matrix: `make_design` of tamis_mail/verdict/fitting.py.
#include "fitting.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../require.hpp"

namespace tamis::mail {

namespace {

using Starts = Input<std::int64_t, 1>;
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
}

}  // namespace tamis::mail
