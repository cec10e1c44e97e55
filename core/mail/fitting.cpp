// Products of a sparse matrix, given by its nonzero entries, with a vector: `SparseRows` of tamis_mail/verdict/fitting.py.
//
// Entries are added one after the other, in the order in which they are given. So the sums have the same bits as those of
// NumPy's `bincount`.
#include "fitting.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tamis::mail {

namespace {

// sums[targets[i]] += values[i] * vector[sources[i]] for each entry i, after the sums were set to zero.
void multiply_entries(Input<std::int64_t, 1> targets, Input<std::int64_t, 1> sources, Input<double, 1> values,
                      Input<double, 1> vector, Output<double, 1> sums) {
  const std::size_t count = targets.shape(0);
  if (sources.shape(0) != count || values.shape(0) != count) throw nb::value_error("expected one value per entry");
  const std::size_t n_vector = vector.shape(0), n_sums = sums.shape(0);
  const std::int64_t *target = targets.data(), *source = sources.data();
  const double *value = values.data(), *factor = vector.data();
  double* sum = sums.data();
  bool is_inside = true;
  {
    const nb::gil_scoped_release unlocked;
    std::fill(sum, sum + n_sums, 0.0);
    for (std::size_t entry = 0; entry < count && is_inside; ++entry) {
      const auto to = static_cast<std::uint64_t>(target[entry]), from = static_cast<std::uint64_t>(source[entry]);
      is_inside = to < n_sums && from < n_vector;
      if (is_inside) sum[to] += value[entry] * factor[from];
    }
  }
  if (!is_inside) throw nb::index_error("an entry is outside of the matrix");
}

}  // namespace

void bind_fitting(nb::module_& m) {
  m.def("multiply_entries", &multiply_entries, nb::arg("targets").noconvert(), nb::arg("sources").noconvert(),
        nb::arg("values").noconvert(), nb::arg("vector").noconvert(), nb::arg("sums").noconvert());
}

}  // namespace tamis::mail
