// Exact sums of the values, squares and products of rows of floats, by group.
//
// Values are split into pieces (pieces.hpp); values that are too small for pieces, and sums of few rows or in many cells, are
// added digit by digit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "../dense/require.hpp"
#include "../dense/variants.hpp"
#include "pieces.hpp"
#include "words.hpp"

namespace tamis::sums {

namespace {

constexpr size_t kLanes = 64;               // columns that fill the vector units; several rows of fewer columns are treated as one
constexpr size_t kCells = 1 << 15;          // the pieces of so many cells fit a second-level cache
constexpr size_t kFewRows = 8;              // with at most so many rows per group, pieces are slower than digits
constexpr size_t kManyWords = 1 << 17;      // more words do not fit a second-level cache: rows are then taken group by group
constexpr size_t kAhead = 1 << 10;          // how many values ahead of the present one are fetched into the cache
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- The extents of columns ----

// For each column: the largest magnitude (0 if there is none), the smallest nonzero one (infinity if there is none), and 0 if all
// values are finite, NaN otherwise.
struct Extents {
  double* largest;
  double* smallest;
  double* broken;
};

static TAMIS_INLINE void extend(double value, double& largest, double& smallest, double& broken) {
  const double magnitude = std::fabs(value);
  broken += value - value;
  largest = magnitude > largest ? magnitude : largest;
  const double nonzero = magnitude > 0.0 ? magnitude : kInfinity;
  smallest = nonzero < smallest ? nonzero : smallest;
}

TAMIS_FOR_EACH_PROCESSOR void extend_all(const double* __restrict values, size_t n, size_t width, double* __restrict largest,
                                         double* __restrict smallest, double* __restrict broken) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {  // four rows at a time: the extents are loaded and stored a quarter as often
    const double* row = values + i * width;
    for (size_t k = 0; k < 4 * width; k += 8) prefetch_after(row, (kAhead + k) * sizeof(double));
    for (size_t j = 0; j < width; j++) {
      double high = largest[j], low = smallest[j], sum = broken[j];
      extend(row[j], high, low, sum);
      extend(row[width + j], high, low, sum);
      extend(row[2 * width + j], high, low, sum);
      extend(row[3 * width + j], high, low, sum);
      largest[j] = high;
      smallest[j] = low;
      broken[j] = sum;
    }
  }
  for (; i < n; i++) {
    const double* row = values + i * width;
    for (size_t j = 0; j < width; j++) extend(row[j], largest[j], smallest[j], broken[j]);
  }
}

// Return how many rows of m columns to treat as one row, so that the vector units are full.
size_t count_side_by_side(size_t n, size_t m) { return 0 < m && 4 * m <= kLanes && n >= kLanes ? kLanes / m : 1; }

void find_extents(const double* values, size_t n, size_t m, const Extents& out) {
  const size_t fold = count_side_by_side(n, m);
  const size_t width = fold * m;
  std::vector<double> wide(3 * width);
  double* largest = wide.data();
  double* smallest = largest + width;
  double* broken = smallest + width;
  std::fill(smallest, broken, kInfinity);
  extend_all(values, n / fold, width, largest, smallest, broken);
  extend_all(values + n / fold * width, n % fold, m, largest, smallest, broken);
  for (size_t j = 0; j < width; j++) {
    const size_t column = j % m;
    if (j < m) {
      out.largest[j] = largest[j];
      out.smallest[j] = smallest[j];
      out.broken[j] = broken[j];
    } else {
      out.largest[column] = std::max(out.largest[column], largest[j]);
      out.smallest[column] = std::min(out.smallest[column], smallest[j]);
      out.broken[column] += broken[j];
    }
  }
}

// Write the exponents that bound each column (2, m); return the largest, and the first column that is not finite, or -1.
nb::tuple write_exponents(const Extents& extents, size_t m, int64_t* bounds) {
  int highest = 0;
  int64_t first_broken = -1;
  for (size_t j = 0; j < m; j++) {
    int high = 0;
    int low = 0;
    if (extents.broken[j] != 0.0) {
      first_broken = first_broken < 0 ? static_cast<int64_t>(j) : first_broken;
    } else if (extents.largest[j] > 0.0) {
      std::frexp(extents.largest[j], &high);
      std::frexp(extents.smallest[j], &low);
      highest = std::max(highest, high);
    }
    bounds[j] = high;
    bounds[m + j] = low;
  }
  return nb::make_tuple(highest, first_broken);
}

Extents extents_at(double* memory, size_t m) { return {memory, memory + m, memory + 2 * m}; }

nb::tuple span(Input<double, 2> values, Output<int64_t, 2> bounds) {
  const size_t n = values.shape(0);
  const size_t m = values.shape(1);
  require(bounds.shape(0) == 2 && bounds.shape(1) == m, "got columns and bounds of several sizes, expected one");
  std::vector<double> memory(3 * m);
  const Extents extents = extents_at(memory.data(), m);
  {
    const WithoutLock without_lock(n * m);
    find_extents(values.data(), n, m, extents);
  }
  return write_exponents(extents, m, bounds.data());
}

void write_extents(Input<double, 2> values, Output<double, 2> extents) {
  const size_t m = values.shape(1);
  require(extents.shape(0) == 3 && extents.shape(1) == m, "got columns and extents of several sizes, expected one");
  const WithoutLock without_lock(values.size());
  find_extents(values.data(), values.shape(0), m, extents_at(extents.data(), m));
}

// Return what `span` returns, for rows in several chunks; `chunks` has the extents of each: (chunks, 3, m).
nb::tuple join_extents(Input<double, 3> chunks, Output<int64_t, 2> bounds) {
  const size_t m = chunks.shape(2);
  require(chunks.shape(1) == 3 && bounds.shape(0) == 2 && bounds.shape(1) == m, "got extents and bounds of several sizes");
  std::vector<double> memory(3 * m);
  const Extents all = extents_at(memory.data(), m);
  std::fill(all.smallest, all.smallest + m, kInfinity);
  for (size_t k = 0; k < chunks.shape(0); k++) {
    const double* chunk = chunks.data() + k * 3 * m;
    for (size_t j = 0; j < m; j++) {
      all.largest[j] = std::max(all.largest[j], chunk[j]);
      all.smallest[j] = std::min(all.smallest[j], chunk[m + j]);
      all.broken[j] += chunk[2 * m + j];
    }
  }
  return write_exponents(all, m, bounds.data());
}

// ---- Products of two floats, as two floats ----

// The rounding error of the product p = u * v (Dekker).
static TAMIS_INLINE double find_rounding(double u, double v, double p) {
  double t = kSplitter * u;
  const double u_high = t - (t - u);
  const double u_low = u - u_high;
  t = kSplitter * v;
  const double v_high = t - (t - v);
  const double v_low = v - v_high;
  return ((u_high * v_high - p) + u_high * v_low + u_low * v_high) + u_low * v_low;
}

TAMIS_FOR_EACH_PROCESSOR void multiply_rows(const double* __restrict x, const double* __restrict y, size_t n, size_t m,
                                            bool is_shared, double* __restrict product, double* __restrict rounding) {
  if (!is_shared) {
    for (size_t k = 0; k < n * m; k++) {
      product[k] = x[k] * y[k];
      rounding[k] = find_rounding(x[k], y[k], product[k]);
    }
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const double v = y[i];
    for (size_t j = 0; j < m; j++) {
      const double p = x[i * m + j] * v;
      product[i * m + j] = p;
      rounding[i * m + j] = find_rounding(x[i * m + j], v, p);
    }
  }
}

// Whether y has one column for all columns of x, and as many rows.
bool is_shared_column(const Input<double, 2>& x, const Input<double, 2>& y) {
  require(y.shape(0) == x.shape(0) && (y.shape(1) == x.shape(1) || y.shape(1) == 1), "got factors of several sizes");
  return y.shape(1) != x.shape(1);
}

void two_product(Input<double, 2> x, Input<double, 2> y, Output<double, 2> product, Output<double, 2> rounding) {
  const size_t n = x.shape(0);
  const size_t m = x.shape(1);
  const bool is_shared = is_shared_column(x, y);
  for (const auto* out : {&product, &rounding}) {
    require(out->shape(0) == n && out->shape(1) == m, "got factors and products of several sizes, expected one");
  }
  const WithoutLock without_lock(n * m);
  multiply_rows(x.data(), y.data(), n, m, is_shared, product.data(), rounding.data());
}

// ---- Sums ----

// Return exponents that bound columns (2, m), as `span` writes them, clipped to exponents that floats can have.
std::vector<int64_t> take_bounds(const Input<int64_t, 2>& bounds, size_t columns) {
  require(bounds.shape(0) == 2 && bounds.shape(1) == columns, "got columns and bounds of several sizes, expected one");
  std::vector<int64_t> taken(bounds.data(), bounds.data() + 2 * columns);
  for (int64_t& exponent : taken) exponent = std::clamp<int64_t>(exponent, -1100, 1100);
  return taken;
}

// Return the group of each row, or nullptr if all rows are one group.
const int64_t* take_group(const Input<int64_t, 1>& group, size_t n, int64_t groups) {
  require(groups >= 0 && (n == 0 || groups > 0), "got rows without groups, expected at least one");
  require(group.shape(0) == 0 || group.shape(0) == n, "got rows and groups of several sizes, expected one");
  return group.shape(0) > 0 ? group.data() : nullptr;
}

struct Extremes {
  int64_t high = 0;
  int64_t low = 0;
};

Extremes find_extremes(const std::vector<int64_t>& bounds) {
  Extremes extremes;
  const size_t m = bounds.size() / 2;
  for (size_t j = 0; j < m; j++) {
    extremes.high = std::max(extremes.high, bounds[j]);
    extremes.low = std::min(extremes.low, bounds[m + j]);
  }
  return extremes;
}

bool is_digitwise(size_t n, size_t m, size_t groups) { return n <= kFewRows * groups || groups * m > kCells; }

// Call add(row, cell) for the rows from `start` on, with the first cell of the row's group. If the words do not fit the cache,
// rows are taken group by group; they are then anywhere in memory, and are prefetched.
template <class Add>
void for_each_row(const Input<double, 2>& values, const int64_t* group, size_t groups, size_t start, const Words& words,
                  Add add) {
  const size_t n = values.shape(0);
  const size_t m = values.shape(1);
  if (group == nullptr || start > 0 || words.length * words.cells <= kManyWords) {
    for (size_t i = start; i < n; i++) add(i, group == nullptr ? 0 : static_cast<size_t>(group[i]) * m);
    return;
  }
  constexpr size_t kRowsAhead = 16;
  const std::vector<int64_t> order = sort_by_group(group, n, groups);
  for (size_t k = 0; k < n; k++) {
    const size_t ahead = static_cast<size_t>(order[std::min(k + kRowsAhead, n - 1)]);
    prefetch(group + ahead);
    prefetch(values.data() + ahead * m);
    const size_t i = static_cast<size_t>(order[k]);
    add(i, static_cast<size_t>(group[i]) * m);
  }
}

// Powers of two that scale columns below 1, and their exponents, for `fold` rows that are treated as one.
struct Scales {
  std::vector<int64_t> exponents;
  std::vector<double> factors;

  Scales(const int64_t* high, size_t m, size_t fold) : exponents(m * fold), factors(m * fold) {
    for (size_t j = 0; j < m * fold; j++) {
      exponents[j] = std::max(high[j % m], kFaint);
      factors[j] = std::ldexp(1.0, static_cast<int>(-exponents[j]));
    }
  }
};

// Whether a column has a value that is more than `most` bits below its largest.
bool is_deep(const std::vector<int64_t>& exponents, const int64_t* low, size_t m, int64_t most) {
  for (size_t j = 0; j < m; j++) {
    if (exponents[j] - low[j] > most) return true;
  }
  return false;
}

// Sums of pieces that are not in words yet: (groups, planes, width), and the number of rows that each group has added.
struct Pieces {
  size_t planes;
  size_t width;
  std::vector<double> sums;
  std::vector<int64_t> count;

  Pieces(size_t groups, size_t planes, size_t width)
      : planes(planes), width(width), sums(groups * planes * width), count(groups) {}
};

// Move the sums of some planes of pieces into the cells of a group.
void flush_planes(double* pieces, size_t planes, const std::vector<int64_t>& exponents, int power, const Words& words,
                  size_t cell, size_t columns) {
  const size_t width = exponents.size();
  for (size_t k = 0; k < planes; k++) {
    for (size_t j = 0; j < width; j++) {
      push(words, cell + j % columns, pieces[k * width + j], power * exponents[j]);
      pieces[k * width + j] = 0.0;
    }
  }
}

// Rows of a table of floats, and the groups that they belong to (nullptr for one).
struct Rows {
  const double* values;
  size_t n;
  size_t width;    // columns of a row, or of several rows that are treated as one
  size_t columns;  // of one row
  const int64_t* group;
  bool is_deep;    // whether there are values that are too small for pieces
};

void push_small_values(const Rows& rows, const double* row, const Scales& scales, size_t cell, const Words& words) {
  for (size_t j = 0; j < rows.width; j++) {
    if (std::fabs(row[j] * scales.factors[j]) < kDepth) push(words, cell + j % rows.columns, row[j], 0);
  }
}

TAMIS_FOR_EACH_PROCESSOR void sum_values(const Rows& rows, const Scales& scales, Pieces& pieces, const Words& words) {
  const size_t width = rows.width;
  const double* __restrict factors = scales.factors.data();
  for (size_t i = 0; i < rows.n; i++) {
    const double* __restrict row = rows.values + i * width;
    const size_t g = rows.group == nullptr ? 0 : static_cast<size_t>(rows.group[i]);
    double* __restrict first = pieces.sums.data() + g * 2 * width;
    double* __restrict second = first + width;
    for (size_t j = 0; j < width; j++) split_value(scale_value(row[j], factors[j]), first[j], second[j]);
    if (rows.is_deep) push_small_values(rows, row, scales, g * rows.columns, words);
    if (++pieces.count[g] == kRows) {
      flush_planes(first, 2, scales.exponents, 1, words, g * rows.columns, rows.columns);
      pieces.count[g] = 0;
    }
  }
}

void push_small_powers(const Rows& rows, const double* row, const Scales& scales, size_t cell, const Words& words,
                       const Words& squares) {
  for (size_t j = 0; j < rows.width; j++) {
    if (std::fabs(row[j] * scales.factors[j]) < kDepth) {
      push(words, cell + j % rows.columns, row[j], 0);
      push_product(squares, cell + j % rows.columns, row[j], row[j]);
    }
  }
}

void flush_powers(double* pieces, const Scales& scales, const Words& words, const Words& squares, size_t cell, size_t columns) {
  flush_planes(pieces, 2, scales.exponents, 1, words, cell, columns);
  flush_planes(pieces + 2 * scales.factors.size(), 4, scales.exponents, 2, squares, cell, columns);
}

// The loops over rows are functions of their own, because compilers heed `__restrict` for parameters, not for variables.
static TAMIS_INLINE void add_row_powers(const double* __restrict row, const double* __restrict factors, size_t width,
                                 double* __restrict a, double* __restrict b, double* __restrict c, double* __restrict d,
                                 double* __restrict e, double* __restrict f) {
  for (size_t j = 0; j < width; j++) split_powers(scale_value(row[j], factors[j]), a[j], b[j], c[j], d[j], e[j], f[j]);
}

TAMIS_FOR_EACH_PROCESSOR void sum_powers(const Rows& rows, const Scales& scales, Pieces& pieces, const Words& words,
                                         const Words& squares) {
  const size_t width = rows.width;
  const double* __restrict factors = scales.factors.data();
  for (size_t i = 0; i < rows.n; i++) {
    const double* __restrict row = rows.values + i * width;
    const size_t g = rows.group == nullptr ? 0 : static_cast<size_t>(rows.group[i]);
    double* piece = pieces.sums.data() + g * 6 * width;
    add_row_powers(row, factors, width, piece, piece + width, piece + 2 * width, piece + 3 * width, piece + 4 * width,
                   piece + 5 * width);
    if (rows.is_deep) push_small_powers(rows, row, scales, g * rows.columns, words, squares);
    if (++pieces.count[g] == kRows) {
      flush_powers(piece, scales, words, squares, g * rows.columns, rows.columns);
      pieces.count[g] = 0;
    }
  }
}

static TAMIS_INLINE void add_row_products(const double* __restrict row, const double* __restrict factors,
                                   const double* __restrict scaled, size_t width, double* __restrict a, double* __restrict b,
                                   double* __restrict c, double* __restrict d) {
  for (size_t j = 0; j < width; j++) {
    const double v = scaled[j];
    double u = row[j] * factors[j];
    u = std::fabs(u * v) >= kDepth * kDepth ? u : 0.0;
    const double p = u * v;
    split_product(p, find_rounding(u, v, p), a[j], b[j], c[j], d[j]);
  }
}

TAMIS_FOR_EACH_PROCESSOR void sum_products(const Rows& rows, const double* y, bool is_shared, const double* x_factors,
                                           const double* y_factors, const std::vector<int64_t>& exponents, double* beside,
                                           Pieces& pieces, const Words& words) {
  const size_t m = rows.columns;
  for (size_t i = 0; i < rows.n; i++) {
    const double* __restrict row = rows.values + i * m;
    const double* other = is_shared ? y + i : y + i * m;
    double* __restrict scaled = beside;
    const size_t g = rows.group == nullptr ? 0 : static_cast<size_t>(rows.group[i]);
    double* piece = pieces.sums.data() + g * 4 * m;
    if (is_shared) {
      const double v = other[0] * y_factors[0];
      for (size_t j = 0; j < m; j++) scaled[j] = v;
    } else {
      for (size_t j = 0; j < m; j++) scaled[j] = other[j] * y_factors[j];
    }
    add_row_products(row, x_factors, scaled, m, piece, piece + m, piece + 2 * m, piece + 3 * m);
    if (rows.is_deep) {
      for (size_t j = 0; j < m; j++) {
        if (std::fabs(row[j] * x_factors[j] * scaled[j]) < kDepth * kDepth) {
          push_product(words, g * m + j, row[j], other[is_shared ? 0 : j]);
        }
      }
    }
    if (++pieces.count[g] == kRows) {
      flush_planes(piece, 4, exponents, 1, words, g * m, m);
      pieces.count[g] = 0;
    }
  }
}

nb::tuple deposit(Input<double, 2> values, Input<int64_t, 2> given_bounds, Input<int64_t, 1> given_group, int64_t group_count) {
  const size_t n = values.shape(0);
  const size_t m = values.shape(1);
  const std::vector<int64_t> bounds = take_bounds(given_bounds, m);
  const int64_t* group = take_group(given_group, n, group_count);
  const size_t groups = static_cast<size_t>(group_count);
  const Extremes extremes = find_extremes(bounds);
  OwnedWords words = make_words(extremes.high, extremes.low - 53, n, groups, m);
  const double* x = values.data();
  {
    const WithoutLock without_lock(n * m + words.cells);
    size_t done = 0;
    if (m > 0 && !is_digitwise(n, m, groups)) {
      const size_t fold = group == nullptr ? count_side_by_side(n, m) : 1;
      const Scales scales(bounds.data(), m, fold);
      Pieces pieces(groups, 2, fold * m);
      sum_values({x, n / fold, fold * m, m, group, is_deep(scales.exponents, &bounds[m], m, 30)}, scales, pieces, words);
      for (size_t g = 0; g < groups; g++) {
        flush_planes(pieces.sums.data() + g * 2 * fold * m, 2, scales.exponents, 1, words, g * m, m);
      }
      done = n - n % fold;
    }
    const Words sums = words;
    for_each_row(values, group, groups, done, words, [=](size_t i, size_t cell) {
      for (size_t j = 0; j < m; j++) push(sums, cell + j, x[i * m + j], 0);
    });
    settle(words);
  }
  return to_python(std::move(words));
}

nb::tuple deposit_powers(Input<double, 2> values, Input<int64_t, 2> given_bounds, Input<int64_t, 1> given_group,
                         int64_t group_count) {
  const size_t n = values.shape(0);
  const size_t m = values.shape(1);
  const std::vector<int64_t> bounds = take_bounds(given_bounds, m);
  const int64_t* group = take_group(given_group, n, group_count);
  const size_t groups = static_cast<size_t>(group_count);
  const Extremes extremes = find_extremes(bounds);
  OwnedWords words = make_words(extremes.high, extremes.low - 53, n, groups, m);
  OwnedWords squares = make_words(2 * extremes.high, 2 * extremes.low - 106, n, groups, m);
  const double* x = values.data();
  {
    const WithoutLock without_lock(n * m + words.cells);
    size_t done = 0;
    if (m > 0 && !is_digitwise(n, m, groups)) {
      const size_t fold = group == nullptr ? count_side_by_side(n, m) : 1;
      const Scales scales(bounds.data(), m, fold);
      Pieces pieces(groups, 6, fold * m);
      const Rows rows{x, n / fold, fold * m, m, group, is_deep(scales.exponents, &bounds[m], m, 30)};
      sum_powers(rows, scales, pieces, words, squares);
      for (size_t g = 0; g < groups; g++) {
        flush_powers(pieces.sums.data() + g * 6 * fold * m, scales, words, squares, g * m, m);
      }
      done = n - n % fold;
    }
    const Words first = words;
    const Words second = squares;
    for_each_row(values, group, groups, done, squares, [=](size_t i, size_t cell) {
      for (size_t j = 0; j < m; j++) {
        push(first, cell + j, x[i * m + j], 0);
        push_product(second, cell + j, x[i * m + j], x[i * m + j]);
      }
    });
    settle(words);
    settle(squares);
  }
  const int64_t low = words.low;
  const int64_t square_low = squares.low;
  return nb::make_tuple(to_array(std::move(words)), low, to_array(std::move(squares)), square_low);
}

nb::tuple deposit_products(Input<double, 2> x_values, Input<int64_t, 2> given_x_bounds, Input<double, 2> y_values,
                           Input<int64_t, 2> given_y_bounds, Input<int64_t, 1> given_group, int64_t group_count) {
  const size_t n = x_values.shape(0);
  const size_t m = x_values.shape(1);
  const bool is_shared = is_shared_column(x_values, y_values);
  const size_t y_columns = y_values.shape(1);
  const std::vector<int64_t> x_bounds = take_bounds(given_x_bounds, m);
  const std::vector<int64_t> y_bounds = take_bounds(given_y_bounds, y_columns);
  const int64_t* group = take_group(given_group, n, group_count);
  const size_t groups = static_cast<size_t>(group_count);
  std::vector<int64_t> bounds(2 * m);
  for (size_t j = 0; j < m; j++) {
    const size_t k = is_shared ? 0 : j;
    bounds[j] = x_bounds[j] + y_bounds[k];
    bounds[m + j] = x_bounds[m + j] + y_bounds[y_columns + k];
  }
  const Extremes extremes = find_extremes(bounds);
  OwnedWords words = make_words(extremes.high, extremes.low - 106, n, groups, m);
  const double* x = x_values.data();
  const double* y = y_values.data();
  {
    const WithoutLock without_lock(n * m + words.cells);
    if (m > 0 && !is_digitwise(n, m, groups)) {
      Scales x_scales(x_bounds.data(), m, 1);
      const Scales y_scales(y_bounds.data(), y_columns, 1);
      for (size_t j = 0; j < m; j++) x_scales.exponents[j] += y_scales.exponents[is_shared ? 0 : j];
      const Rows rows{x, n, m, m, group, is_deep(x_scales.exponents, &bounds[m], m, 60)};
      Pieces pieces(groups, 4, m);
      std::vector<double> beside(m);
      sum_products(rows, y, is_shared, x_scales.factors.data(), y_scales.factors.data(), x_scales.exponents, beside.data(),
                   pieces, words);
      for (size_t g = 0; g < groups; g++) {
        flush_planes(pieces.sums.data() + g * 4 * m, 4, x_scales.exponents, 1, words, g * m, m);
      }
    } else {
      const Words sums = words;
      for_each_row(x_values, group, groups, 0, words, [=](size_t i, size_t cell) {
        for (size_t j = 0; j < m; j++) push_product(sums, cell + j, x[i * m + j], is_shared ? y[i] : y[i * m + j]);
      });
    }
    settle(words);
  }
  return to_python(std::move(words));
}

// ---- Sums of rows that are read from memory once ----

constexpr size_t kTileCells = 1 << 14;  // an eighth of a second-level cache

// The sums of rows, by group, while they are made. Rows are taken in tiles that stay in the cache while their extents are found
// and their values added. Where values grow, the pieces so far are moved into words first.
class RowSums {
 public:
  RowSums(size_t n, size_t m, const int64_t* group, size_t groups, bool has_squares)
      : n_(n),
        m_(m),
        group_(group),
        groups_(groups),
        planes_(has_squares ? 6 : 2),
        fold_(group == nullptr ? count_side_by_side(n, m) : 1),
        extents_(3 * m),
        scales_(std::vector<int64_t>(m, kFaint).data(), m, fold_),
        pieces_(groups, planes_, fold_ * m) {}

  // Add `count` rows, of which `start` come before; false if a value is not finite: there are no sums then.
  bool add_rows(const double* values, size_t start, size_t count) {
    const size_t tile = std::max<size_t>(1, kTileCells / std::max<size_t>(1, m_ * fold_)) * fold_;
    for (size_t i = 0; i < count; i += tile) {
      const size_t rows = std::min(tile, count - i);
      if (!add_tile(values + i * m_, group_ == nullptr ? nullptr : group_ + start + i, rows)) return false;
    }
    return true;
  }

  void finish() {
    flush();
    make_room();  // where there are no rows, nothing has asked for it
    settle(first_);
    if (planes_ > 2) settle(second_);
  }

  int64_t highest() const { return high_; }
  OwnedWords& first() { return first_; }
  OwnedWords& second() { return second_; }

 private:
  bool add_tile(const double* values, const int64_t* group, size_t rows) {
    const Extents extents = extents_at(extents_.data(), m_);
    find_extents(values, rows, m_, extents);
    bool grows = false, is_deep = false;
    for (size_t j = 0; j < m_; j++) {
      if (extents.broken[j] != 0.0) return false;
      if (extents.largest[j] == 0.0) continue;
      int high = 0, low = 0;
      std::frexp(extents.largest[j], &high);
      std::frexp(extents.smallest[j], &low);
      high_ = std::max<int64_t>(high_, high);
      low_ = std::min<int64_t>(low_, low);
      grows = grows || high > scales_.exponents[j];
      is_deep = is_deep || std::max<int64_t>(high, scales_.exponents[j]) - low > 30;
    }
    if (grows) {
      flush();
      std::vector<int64_t> largest(scales_.exponents.begin(), scales_.exponents.begin() + static_cast<std::ptrdiff_t>(m_));
      for (size_t j = 0; j < m_; j++) {
        int high = 0;
        if (extents.largest[j] > 0.0) std::frexp(extents.largest[j], &high);
        if (extents.largest[j] > 0.0) largest[j] = std::max<int64_t>(largest[j], high);
      }
      scales_ = Scales(largest.data(), m_, fold_);
    }
    make_room();
    const Rows given{values, rows / fold_, fold_ * m_, m_, group, is_deep};
    if (planes_ > 2) {
      sum_powers(given, scales_, pieces_, first_, second_);
    } else {
      sum_values(given, scales_, pieces_, first_);
    }
    for (size_t k = (rows - rows % fold_) * m_; k < rows * m_; k++) {
      push(first_, k % m_, values[k], 0);
      if (planes_ > 2) push_product(second_, k % m_, values[k], values[k]);
    }
    return true;
  }

  // Move the pieces so far into words.
  void flush() {
    const size_t width = fold_ * m_;
    for (size_t g = 0; g < groups_; g++) {
      if (pieces_.count[g] == 0) continue;
      double* from = pieces_.sums.data() + g * planes_ * width;
      flush_planes(from, 2, scales_.exponents, 1, first_, g * m_, m_);
      if (planes_ > 2) flush_planes(from + 2 * width, 4, scales_.exponents, 2, second_, g * m_, m_);
      pieces_.count[g] = 0;
    }
  }

  // Let the words hold sums of all magnitudes that were seen.
  void make_room() {
    if (has_room_ && room_high_ == high_ && room_low_ == low_) return;
    widen(first_, high_, low_ - 53);
    if (planes_ > 2) widen(second_, 2 * high_, 2 * low_ - 106);
    has_room_ = true;
    room_high_ = high_;
    room_low_ = low_;
  }

  void widen(OwnedWords& words, int64_t high, int64_t low) {
    OwnedWords wider = make_words(high, low, n_, groups_, m_);
    if (words.cells > 0) {
      std::copy(words.data, words.data + words.length * words.cells,
                wider.data + static_cast<size_t>(words.low - wider.low) * wider.cells);
    }
    words = std::move(wider);
  }

  size_t n_, m_;
  const int64_t* group_;
  size_t groups_, planes_;
  size_t fold_;  // the number of rows that are laid side by side
  std::vector<double> extents_;
  Scales scales_;
  Pieces pieces_;
  OwnedWords first_ = make_words(0, 0, 0, 0, 0);
  OwnedWords second_ = make_words(0, 0, 0, 0, 0);
  int64_t high_ = 0, low_ = 0;            // exponents that bound all values so far
  int64_t room_high_ = 0, room_low_ = 0;  // those that the words have room for
  bool has_room_ = false;
};

nb::tuple deposit_rows(Input<double, 2> values, Input<int64_t, 1> given_group, int64_t group_count, int64_t power) {
  const size_t n = values.shape(0);
  const size_t m = values.shape(1);
  const int64_t* group = take_group(given_group, n, group_count);
  const size_t groups = static_cast<size_t>(group_count);
  if (m > 0 && groups > SIZE_MAX / (6 * kLanes * sizeof(double)) / m) throw std::bad_alloc();
  RowSums sums(n, m, group, groups, power > 1);
  bool is_finite = false;
  {
    const WithoutLock without_lock(n * m);
    is_finite = sums.add_rows(values.data(), 0, n);
    if (is_finite) sums.finish();
  }
  nb::list words;
  if (is_finite) {
    words.append(to_python(std::move(sums.first())));
    if (power > 1) words.append(to_python(std::move(sums.second())));
  }
  return nb::make_tuple(nb::tuple(words), is_finite ? sums.highest() : 0, is_finite);
}

// The sums of all rows, and the products about a centre of each block of so many of them (blocks, m(m+1)/2), packed. A block
// stays in the cache between the two.
nb::tuple deposit_row_blocks(Input<double, 2> values, Input<double, 1> centre, size_t block) {
  const size_t n = values.shape(0);
  const size_t m = values.shape(1);
  require(centre.shape(0) == m, "got a centre, expected one number per column");
  require(block > 0, "got blocks without rows, expected at least one");
  const size_t pairs = m * (m + 1) / 2, blocks = n / block + (n % block > 0 ? 1 : 0);
  auto out = std::make_unique<double[]>(blocks * pairs);
  RowSums sums(n, m, nullptr, 1, false);
  const int64_t width = static_cast<int64_t>(m);
  CentredRows given = {values.data(), nullptr, nullptr, centre.data(), nullptr, nullptr, static_cast<int64_t>(n), width, width,
                       0, 0};
  bool is_finite = true;
  Outcome outcome = Outcome::kDone;
  {
    const nb::gil_scoped_release release;
    const auto products = std::make_unique<double[]>(m * m);
    double* packed = out.get();
    // Rows that are laid side by side are whole ones of each block, but for the last.
    for (size_t start = 0; start < n && is_finite && outcome == Outcome::kDone; start += block) {
      const size_t count = std::min(block, n - start);
      is_finite = sums.add_rows(values.data() + start * m, start, count);
      given.start = static_cast<int64_t>(start);
      given.stop = static_cast<int64_t>(start + count);
      if (is_finite) outcome = variant().multiply_centred(given, products.get());
      for (size_t i = 0; i < m; i++) packed = std::copy(&products[i * m + i], &products[i * m] + m, packed);
    }
    if (is_finite) sums.finish();
  }
  require_done(outcome);
  nb::capsule owner(out.get(), [](void* numbers) noexcept { delete[] static_cast<double*>(numbers); });
  const nb::ndarray<nb::numpy, double, nb::ndim<2>> products(out.release(), {blocks, pairs}, owner);
  nb::list words;
  if (is_finite) words.append(to_python(std::move(sums.first())));
  return nb::make_tuple(nb::tuple(words), is_finite ? sums.highest() : 0, is_finite, products);
}

}  // namespace

void bind_rows(nb::module_& m) {
  m.def("span", &span, nb::arg("values").noconvert(), nb::arg("bounds").noconvert());
  m.def("write_extents", &write_extents, nb::arg("values").noconvert(), nb::arg("extents").noconvert());
  m.def("join_extents", &join_extents, nb::arg("chunks").noconvert(), nb::arg("bounds").noconvert());
  m.def("two_product", &two_product, nb::arg("x").noconvert(), nb::arg("y").noconvert(), nb::arg("product").noconvert(),
        nb::arg("rounding").noconvert());
  m.def("deposit", &deposit, nb::arg("values").noconvert(), nb::arg("bounds").noconvert(), nb::arg("group").noconvert(),
        nb::arg("groups"));
  m.def("deposit_powers", &deposit_powers, nb::arg("values").noconvert(), nb::arg("bounds").noconvert(),
        nb::arg("group").noconvert(), nb::arg("groups"));
  m.def("deposit_rows", &deposit_rows, nb::arg("values").noconvert(), nb::arg("group").noconvert(), nb::arg("groups"),
        nb::arg("power"));
  m.def("deposit_row_blocks", &deposit_row_blocks, nb::arg("values").noconvert(), nb::arg("centre").noconvert(),
        nb::arg("block"));
  m.def("deposit_products", &deposit_products, nb::arg("x").noconvert(), nb::arg("x_bounds").noconvert(),
        nb::arg("y").noconvert(), nb::arg("y_bounds").noconvert(), nb::arg("group").noconvert(), nb::arg("groups"));
}

}  // namespace tamis::sums
