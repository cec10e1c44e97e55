// The features of messages → sums by message and view: `_sum_views` and `sum_coefficients` of tamis_mail/verdict/arrays.py.
//
// Feature j belongs to message owners[j]. Features are added one after the other, so that the sums have the same bits as those of
// NumPy's `bincount`.
#include "scoring.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../require.hpp"

namespace tamis::mail {

namespace {

using Indices = Input<std::int64_t, 1>;

void require_below(const Indices& indices, std::size_t bound) {
  const std::int64_t* index = indices.data();
  std::uint64_t largest = 0;  // A negative index is too large.
  for (std::size_t place = 0; place < indices.shape(0); ++place) {
    largest = std::max(largest, static_cast<std::uint64_t>(index[place]));
  }
  if (indices.shape(0) > 0 && largest >= bound) refuse("an index is outside of its array");
}

// Feature j has row rows[j]; a row has a view, a weight, and says whether it is familiar. Writes the sums of the weights
// (messages, views), the numbers of features (messages, views), and the numbers of those that are familiar (messages,).
void sum_views(Indices rows, Indices owners, Indices views, Input<double, 1> weights, Input<std::uint8_t, 1> is_familiar,
               Output<double, 2> sums, Output<std::int64_t, 2> sizes, Output<double, 1> familiar) {
  const std::size_t features = rows.shape(0), all_rows = views.shape(0), messages = sums.shape(0), n_views = sums.shape(1);
  require(owners.shape(0) == features && weights.shape(0) == all_rows && is_familiar.shape(0) == all_rows &&
              sizes.shape(0) == messages && sizes.shape(1) == n_views && familiar.shape(0) == messages,
          "expected arrays of matching sizes");
  require_below(rows, all_rows);
  require_below(owners, messages);
  require_below(views, n_views);
  const std::int64_t *row_of = rows.data(), *owner_of = owners.data(), *view_of = views.data();
  const double* weight_of = weights.data();
  const std::uint8_t* flag_of = is_familiar.data();
  double *sum = sums.data(), *count = familiar.data();
  std::int64_t* size = sizes.data();
  const nb::gil_scoped_release unlocked;
  std::fill(sum, sum + messages * n_views, 0.0);
  std::fill(size, size + messages * n_views, 0);
  std::fill(count, count + messages, 0.0);
  for (std::size_t feature = 0; feature < features; ++feature) {
    const auto row = static_cast<std::size_t>(row_of[feature]), owner = static_cast<std::size_t>(owner_of[feature]);
    const std::size_t cell = owner * n_views + static_cast<std::size_t>(view_of[row]);
    sum[cell] += weight_of[row];
    ++size[cell];
    count[owner] += flag_of[row] ? 1.0 : 0.0;
  }
}

// Writes the sum over a message's features of value / √n, where n is the number of those of one view.
void sum_coefficients(Indices views, Indices owners, Input<double, 1> values, std::size_t n_views, Output<double, 1> sums) {
  const std::size_t features = views.shape(0), messages = sums.shape(0);
  require(owners.shape(0) == features && values.shape(0) == features, "expected arrays of matching sizes");
  require(n_views <= 64, "expected at most 64 views");
  require_below(views, n_views);
  require_below(owners, messages);
  const std::int64_t *view_of = views.data(), *owner_of = owners.data();
  const double* value_of = values.data();
  double* sum = sums.data();
  const nb::gil_scoped_release unlocked;
  std::vector<double> roots(messages * n_views, 0.0);
  const auto find_cell = [&](std::size_t feature) {
    return static_cast<std::size_t>(owner_of[feature]) * n_views + static_cast<std::size_t>(view_of[feature]);
  };
  for (std::size_t feature = 0; feature < features; ++feature) roots[find_cell(feature)] += 1.0;
  for (double& root : roots) root = std::sqrt(root);
  std::fill(sum, sum + messages, 0.0);
  for (std::size_t feature = 0; feature < features; ++feature) {
    sum[owner_of[feature]] += value_of[feature] / roots[find_cell(feature)];
  }
}

}  // namespace

void bind_scoring(nb::module_& m) {
  m.def("sum_views", &sum_views, nb::arg("rows").noconvert(), nb::arg("owners").noconvert(), nb::arg("views").noconvert(),
        nb::arg("weights").noconvert(), nb::arg("is_familiar").noconvert(), nb::arg("sums").noconvert(),
        nb::arg("sizes").noconvert(), nb::arg("familiar").noconvert());
  m.def("sum_coefficients", &sum_coefficients, nb::arg("views").noconvert(), nb::arg("owners").noconvert(),
        nb::arg("values").noconvert(), nb::arg("n_views"), nb::arg("sums").noconvert());
}

}  // namespace tamis::mail
