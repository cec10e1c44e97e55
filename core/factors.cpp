// The kernels of latent factors: many small ridge regressions, products of factors, and the largest of many scores.
#include <limits>
#include <vector>

#include "common.hpp"
#include "dense/require.hpp"
#include "dense/variants.hpp"
#include "parts.hpp"

namespace tamis {

namespace {

// Every index of an entry, and every bound of a row, is checked by the caller (`tamis._kernels.factors`).
Entries read_entries(const Input<std::int64_t, 1>& indptr, const Input<std::int64_t, 1>& indices,
                     const Input<double, 1>& weights, const Input<double, 1>& numbers, std::int64_t start,
                     std::int64_t stop, std::size_t rows) {
  require(indptr.shape(0) == rows + 1, "got bounds of entries, expected one more than there are rows");
  require_rows(start, stop, rows);
  require(weights.shape(0) == indices.shape(0) && numbers.shape(0) == indices.shape(0),
          "got entries of several sizes, expected one");
  return {indptr.data(), indices.data(), weights.data()};
}

void solve_all_rows(const Input<std::int64_t, 1>& indptr, const Input<std::int64_t, 1>& indices,
                    const Input<double, 1>& weights, const Input<double, 1>& pulls, const Input<double, 2>& other_factors,
                    const Input<double, 2>& ridge, const Input<double, 2>& base, const Input<double, 1>& pull,
                    const Input<double, 2>& noise, const Input<double, 1>& other_offsets, std::int64_t start,
                    std::int64_t stop, const Output<double, 2>& out) {
  const std::size_t n = ridge.shape(0), k = ridge.shape(1);
  const Entries entries = read_entries(indptr, indices, weights, pulls, start, stop, n);
  require(other_factors.shape(1) == k && other_offsets.shape(0) == other_factors.shape(0) && pull.shape(0) == k &&
              out.shape(0) == n && out.shape(1) == k,
          "got rows of several sizes, expected one");
  require((base.size() == 0 || (base.shape(0) == k && base.shape(1) == k)) &&
              (noise.size() == 0 || (noise.shape(0) == n && noise.shape(1) == k)),
          "got equations of several sizes, expected one");
  const RowEquations given = {
      entries,
      pulls.data(),
      other_factors.data(),
      other_offsets.data(),
      ridge.data(),
      base.size() == 0 ? nullptr : base.data(),
      pull.data(),
      noise.size() == 0 ? nullptr : noise.data(),
      static_cast<std::int64_t>(k),
      start,
      stop,
  };
  require_done(variant().solve_rows(given, out.data()));
}

void sum_squares(const Input<std::int64_t, 1>& indptr, const Input<std::int64_t, 1>& indices,
                 const Input<double, 1>& weights, const Input<double, 1>& targets, const Input<double, 2>& rows,
                 const Input<double, 2>& other_rows, std::int64_t start, std::int64_t stop, const Output<double, 1>& out) {
  const Entries entries = read_entries(indptr, indices, weights, targets, start, stop, rows.shape(0));
  require(rows.shape(1) > 0 && rows.shape(1) == other_rows.shape(1) && out.shape(0) == rows.shape(0),
          "got rows of several sizes, expected one");
  const std::int64_t k = static_cast<std::int64_t>(rows.shape(1)) - 1;
  variant().sum_row_squares({entries, targets.data(), rows.data(), other_rows.data(), k, start, stop}, out.data());
}

void multiply_row_pairs(const Input<double, 2>& left, const Input<double, 2>& right, const Input<std::int64_t, 1>& i,
                        const Input<std::int64_t, 1>& j, std::int64_t start, std::int64_t stop,
                        const Output<double, 1>& out) {
  require(left.shape(1) == right.shape(1) && i.shape(0) == j.shape(0) && out.shape(0) == i.shape(0),
          "got pairs of several sizes, expected one");
  require_rows(start, stop, i.shape(0));
  variant().multiply_pairs(left.data(), right.data(), static_cast<std::int64_t>(left.shape(1)), i.data(), j.data(), start,
                           stop, out.data());
}

// The places of the largest scores of each row, largest first and of equal scores the first; −1 where there are too few.
void find_top_rows(const Input<double, 2>& scores, std::int64_t start, std::int64_t stop,
                   const Output<std::int64_t, 2>& out) {
  require(out.shape(0) == scores.shape(0), "got rows of several sizes, expected one");
  require_rows(start, stop, scores.shape(0));
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  const std::size_t m = scores.shape(1), count = out.shape(1);
  if (count == 0) return;
  std::vector<double> best(count);
  for (std::int64_t row = start; row < stop; ++row) {
    const double* given = scores.data() + static_cast<std::size_t>(row) * m;
    std::int64_t* places = out.data() + static_cast<std::size_t>(row) * count;
    std::size_t held = 0;
    double least = kNone;  // Once as many are held as are wanted, the smallest of them.
    for (std::size_t j = 0; j < m; ++j) {
      const double score = given[j];
      if (!(score > least)) continue;
      std::size_t place = held < count ? held : count - 1;
      // Equal scores stay before it, because they came first.
      for (; place > 0 && best[place - 1] < score; --place) {
        best[place] = best[place - 1];
        places[place] = places[place - 1];
      }
      best[place] = score;
      places[place] = static_cast<std::int64_t>(j);
      if (held < count) ++held;
      if (held == count) least = best[count - 1];
    }
    for (std::size_t j = held; j < count; ++j) places[j] = -1;
  }
}

}  // namespace

void bind_factors(nb::module_& m) {
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  m.def("solve_rows", &solve_all_rows, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
        nb::arg("weights").noconvert(), nb::arg("pulls").noconvert(), nb::arg("other_factors").noconvert(),
        nb::arg("ridge").noconvert(), nb::arg("base").noconvert(), nb::arg("pull").noconvert(),
        nb::arg("noise").noconvert(), nb::arg("other_offsets").noconvert(), nb::arg("start"), nb::arg("stop"),
        nb::arg("out").noconvert(), Unlocked());
  m.def("row_squares", &sum_squares, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
        nb::arg("weights").noconvert(), nb::arg("targets").noconvert(), nb::arg("rows").noconvert(),
        nb::arg("other_rows").noconvert(), nb::arg("start"), nb::arg("stop"), nb::arg("out").noconvert(), Unlocked());
  m.def("top_rows", &find_top_rows, nb::arg("scores").noconvert(), nb::arg("start"), nb::arg("stop"),
        nb::arg("out").noconvert(), Unlocked());
  m.def("dot_pairs", &multiply_row_pairs, nb::arg("left").noconvert(), nb::arg("right").noconvert(),
        nb::arg("i").noconvert(), nb::arg("j").noconvert(), nb::arg("start"), nb::arg("stop"), nb::arg("out").noconvert(),
        Unlocked());
}

}  // namespace tamis
