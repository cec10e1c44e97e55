// The features of messages → sums by message and view: `_sum_views` and `sum_coefficients` of tamis_mail/verdict/arrays.py. And
// rows of counts → groups of equal ones: `group_counts` there.
//
// Message i has the features j from begins[i] to ends[i], and feature j has row rows[j]. Features are added one after the other, so
// that the sums have the same bits as those of NumPy's `bincount`. Rows have 4 or 8 bytes each: those of a fit are millions.
#include "scoring.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../require.hpp"
#include "row_groups.hpp"

namespace tamis::mail {

namespace {

using Indices = Input<std::int64_t, 1>;
using Views = Input<std::uint8_t, 1>;  // Of rows, or of groups of rows.

// A negative index is the largest.
template <class T>
void require_below(const Input<T, 1>& indices, std::size_t bound) {
  std::make_unsigned_t<T> largest = 0;
  const T* const index = indices.data();
  for (std::size_t place = 0; place < indices.shape(0); ++place) {
    largest = std::max(largest, static_cast<std::make_unsigned_t<T>>(index[place]));
  }
  if (indices.shape(0) > 0 && largest >= bound) refuse("an index is outside of its array");
}

void require_ranges(const Indices& begins, const Indices& ends, std::size_t messages, std::size_t features) {
  require(begins.shape(0) == messages && ends.shape(0) == messages, "expected arrays of matching sizes");
  for (std::size_t message = 0; message < messages; ++message) {
    const std::int64_t begin = begins.data()[message], end = ends.data()[message];
    if (begin < 0 || begin > end || static_cast<std::uint64_t>(end) > features) refuse("a message is outside of its array");
  }
}

// A row belongs to a group, which has a view, a weight, and says whether it is known. Writes the sums of the weights, the numbers of
// features, and the numbers of those that are known, each (messages, views).
template <class Row>
void sum_views(Input<Row, 1> rows, Input<std::int32_t, 1> groups, Indices begins, Indices ends, Views views, Input<double, 1> weights,
               Input<std::uint8_t, 1> is_known, Output<double, 2> sums, Output<std::int64_t, 2> sizes,
               Output<std::int64_t, 2> known) {
  const std::size_t n_groups = views.shape(0), messages = sums.shape(0), n_views = sums.shape(1);
  require(weights.shape(0) == n_groups && is_known.shape(0) == n_groups && sizes.shape(0) == messages &&
              sizes.shape(1) == n_views && known.shape(0) == messages && known.shape(1) == n_views,
          "expected arrays of matching sizes");
  require_ranges(begins, ends, messages, rows.shape(0));
  require_below(rows, groups.shape(0));
  require_below(groups, n_groups);
  require_below(views, n_views);
  struct Group {  // What is read of a group lies together.
    double weight;
    std::uint32_t view, is_known;
  };
  const Row* const row_of = rows.data();
  const std::int32_t* const group_of = groups.data();
  double* sum = sums.data();
  std::int64_t *size = sizes.data(), *count = known.data();
  const nb::gil_scoped_release unlocked;
  std::vector<Group> facts(n_groups);
  for (std::size_t group = 0; group < n_groups; ++group) {
    facts[group] = {weights.data()[group], views.data()[group], is_known.data()[group] != 0};
  }
  std::fill(sum, sum + messages * n_views, 0.0);
  std::fill(size, size + messages * n_views, 0);
  std::fill(count, count + messages * n_views, 0);
  for (std::size_t message = 0; message < messages; ++message) {
    for (std::int64_t feature = begins.data()[message]; feature < ends.data()[message]; ++feature) {
      const Group& group = facts[static_cast<std::size_t>(group_of[row_of[feature]])];
      sum[group.view] += group.weight;
      ++size[group.view];
      count[group.view] += group.is_known;
    }
    sum += n_views;
    size += n_views;
    count += n_views;
  }
}

// Writes the sum over a message's features of value / √n, where n is the number of those of one view.
void sum_coefficients(Indices rows, Indices begins, Indices ends, Views views, Input<double, 1> values, std::size_t n_views,
                      Output<double, 1> sums) {
  const std::size_t all_rows = views.shape(0), messages = sums.shape(0);
  require(values.shape(0) == all_rows, "expected arrays of matching sizes");
  require(n_views <= 64, "expected at most 64 views");
  require_ranges(begins, ends, messages, rows.shape(0));
  require_below(rows, all_rows);
  require_below(views, n_views);
  const std::int64_t* row_of = rows.data();
  const std::uint8_t* view_of = views.data();
  const double* value_of = values.data();
  const nb::gil_scoped_release unlocked;
  std::vector<double> roots(n_views);
  for (std::size_t message = 0; message < messages; ++message) {
    const std::int64_t begin = begins.data()[message], end = ends.data()[message];
    std::fill(roots.begin(), roots.end(), 0.0);
    for (std::int64_t feature = begin; feature < end; ++feature) roots[view_of[row_of[feature]]] += 1.0;
    for (double& root : roots) root = std::sqrt(root);
    double sum = 0.0;
    for (std::int64_t feature = begin; feature < end; ++feature) {
      const std::int64_t row = row_of[feature];
      // Most features have none, and would add nothing but a division.
      if (value_of[row] != 0.0) sum += value_of[row] / roots[view_of[row]];
    }
    sums.data()[message] = sum;
  }
}

// Writes the group of each row, and the first row of each group; returns the number of groups.
std::size_t group_counts(Views views, Input<std::int64_t, 2> counts, Output<std::int32_t, 1> groups,
                         Output<std::int64_t, 1> firsts) {
  const std::size_t rows = views.shape(0);
  require(counts.shape(0) == rows && groups.shape(0) == rows && firsts.shape(0) == rows, "expected arrays of matching sizes");
  require(rows <= INT32_MAX, "expected fewer than 2**31 rows");
  std::int32_t* group_of = groups.data();
  std::int64_t* first_of = firsts.data();
  const nb::gil_scoped_release unlocked;
  RowGroups found(views.data(), counts.data(), counts.shape(1));
  for (std::size_t row = 0; row < rows; ++row) group_of[row] = static_cast<std::int32_t>(found.find(row, first_of));
  return found.size();
}

}  // namespace

void bind_scoring(nb::module_& m) {
  const auto bind_sum_views = [&m](auto function) {
    m.def("sum_views", function, nb::arg("rows").noconvert(), nb::arg("groups").noconvert(), nb::arg("begins").noconvert(),
          nb::arg("ends").noconvert(), nb::arg("views").noconvert(), nb::arg("weights").noconvert(),
          nb::arg("is_known").noconvert(), nb::arg("sums").noconvert(), nb::arg("sizes").noconvert(), nb::arg("known").noconvert());
  };
  bind_sum_views(&sum_views<std::int32_t>);
  bind_sum_views(&sum_views<std::int64_t>);
  m.def("sum_coefficients", &sum_coefficients, nb::arg("rows").noconvert(), nb::arg("begins").noconvert(),
        nb::arg("ends").noconvert(), nb::arg("views").noconvert(), nb::arg("values").noconvert(), nb::arg("n_views"),
        nb::arg("sums").noconvert());
  m.def("group_counts", &group_counts, nb::arg("views").noconvert(), nb::arg("counts").noconvert(),
        nb::arg("groups").noconvert(), nb::arg("firsts").noconvert());
}

}  // namespace tamis::mail
