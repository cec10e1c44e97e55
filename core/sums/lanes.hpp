// Add values to the pieces (pieces.hpp) of their sum and of the sum of their squares, many lanes at a time.
//
// A sum of pieces begins at the constant s of its grid, not at 0. So adding v also rounds v to the grid, and the difference of
// the sum after and before is what was added. That saves an addition per piece. The sums of the last grids, which need no
// rounding, begin at 0.
#pragma once

#include "../dense/variants.hpp"
#include "pieces.hpp"

namespace {

// Add a number to a sum, rounded to its grid; return the remainder.
TAMIS_INLINE double add_rounded(double number, double& sum) {
  const double before = sum;
  sum = before + number;
  return number - (sum - before);
}

// The loops are functions of their own, because compilers heed `__restrict` for parameters, not for variables.
template <bool IsDeep>
TAMIS_INLINE void add_value_lanes(const double* TAMIS_RESTRICT x, double factor, double* TAMIS_RESTRICT a,
                                  double* TAMIS_RESTRICT b) {
  for (int64_t k = 0; k < tamis::kLanes; ++k) {
    const double v = IsDeep ? tamis::sums::scale_value(x[k], factor) : x[k] * factor;
    b[k] += add_rounded(v, a[k]);
  }
}

template <bool IsDeep>
TAMIS_INLINE void add_power_lanes(const double* TAMIS_RESTRICT x, double factor, double* TAMIS_RESTRICT a,
                                  double* TAMIS_RESTRICT b, double* TAMIS_RESTRICT c, double* TAMIS_RESTRICT d,
                                  double* TAMIS_RESTRICT e, double* TAMIS_RESTRICT f) {
  for (int64_t k = 0; k < tamis::kLanes; ++k) {
    const double v = IsDeep ? tamis::sums::scale_value(x[k], factor) : x[k] * factor;
    b[k] += add_rounded(v, a[k]);
    const double p = v * v;
    const double rounding = tamis::sums::find_square_rounding(v, p);
    const double rest = add_rounded(add_rounded(p, c[k]), d[k]);
    const double rounding_rest = add_rounded(rounding, d[k]);
    e[k] += rest;  // a multiple of the third grid
    f[k] += add_rounded(rounding_rest, e[k]);
  }
}

template <bool IsDeep>
void add_values(const double* values, int64_t n, double factor, double* pieces) {
  for (int64_t i = 0; i < n; i += tamis::kLanes) {
    add_value_lanes<IsDeep>(values + i, factor, pieces, pieces + tamis::kLanes);
  }
}

template <bool IsDeep>
void add_powers(const double* values, int64_t n, double factor, double* pieces) {
  using tamis::kLanes;
  for (int64_t i = 0; i < n; i += kLanes) {
    add_power_lanes<IsDeep>(values + i, factor, pieces, pieces + kLanes, pieces + 2 * kLanes, pieces + 3 * kLanes,
                            pieces + 4 * kLanes, pieces + 5 * kLanes);
  }
}

}  // namespace
