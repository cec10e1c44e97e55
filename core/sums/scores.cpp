// Compute the score of each row for each class.
//
// Gaussian scores are computed in blocks of rows that are transposed, so that a vector holds one column of several rows: it is
// full whether there are two classes or a thousand, and every sum keeps its order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "words.hpp"

namespace tamis::sums {

namespace {

constexpr size_t kRows = 128;  // rows of a block: 20 columns of them fill half a first-level cache

// Parameters of the columns of each class: constant[k] + Σ log_peak[k, j] - Σ half[k, j] * (x[j] - mean[k, j])**2.
struct Gaussians {
  const double* mean;
  const double* half;  // of the precision
  const double* log_peak;
  const double* constant;
  size_t d;
  size_t classes;
};

// Write the transposed block (d, lanes) of some rows; return whether any value is missing (NaN).
static TAMIS_INLINE bool lay_side_by_side(const double* __restrict x, size_t rows, size_t d, size_t lanes, double* __restrict beside) {
  int64_t missing = 0;
  for (size_t i = 0; i < rows; i++) {
    for (size_t j = 0; j < d; j++) {
      const double v = x[i * d + j];
      beside[j * lanes + i] = v;
      missing |= v != v ? 1 : 0;
    }
  }
  return missing != 0;
}

// Write the scores of rows without missing values; return whether there are other rows, whose scores are NaN. `base` has the terms
// of each class that do not depend on the row.
TAMIS_FOR_EACH_PROCESSOR bool score_full_rows(const double* x, size_t n, const Gaussians& g, const double* base,
                                              double* __restrict beside, double* __restrict total, size_t lanes,
                                              double* __restrict scores) {
  const size_t d = g.d;
  bool has_missing = false;
  for (size_t start = 0; start < n; start += kRows) {
    const size_t rows = std::min(kRows, n - start);
    has_missing |= lay_side_by_side(x + start * d, rows, d, lanes, beside);
    for (size_t k = 0; k < g.classes; k++) {
      const double* mean = g.mean + k * d;
      const double* half = g.half + k * d;
      for (size_t i = 0; i < lanes; i++) total[i] = base[k];
      size_t j = 0;
      for (; j + 4 <= d; j += 4) {  // four columns at a time: the totals are loaded and stored a quarter as often
        const double* columns = beside + j * lanes;
        for (size_t i = 0; i < lanes; i++) {
          const double a = columns[i] - mean[j];
          const double b = columns[lanes + i] - mean[j + 1];
          const double c = columns[2 * lanes + i] - mean[j + 2];
          const double e = columns[3 * lanes + i] - mean[j + 3];
          double t = total[i] - (a * a) * half[j];
          t -= (b * b) * half[j + 1];
          t -= (c * c) * half[j + 2];
          total[i] = t - (e * e) * half[j + 3];
        }
      }
      for (; j < d; j++) {
        for (size_t i = 0; i < lanes; i++) {
          const double a = beside[j * lanes + i] - mean[j];
          total[i] -= (a * a) * half[j];
        }
      }
      for (size_t i = 0; i < rows; i++) scores[(start + i) * g.classes + k] = total[i];
    }
  }
  return has_missing;
}

// Add the terms of one row with missing values for `Width` classes, in the order of columns.
template <size_t Width>
static TAMIS_INLINE void score_classes(const double* row, const size_t* present, size_t count, const Gaussians& turned, size_t k,
                                double* scores) {
  double total[Width];
  for (size_t w = 0; w < Width; w++) total[w] = turned.constant[k + w];
  for (size_t c = 0; c < count; c++) {
    const double* log_peak = turned.log_peak + present[c] * turned.classes + k;
    for (size_t w = 0; w < Width; w++) total[w] += log_peak[w];
  }
  for (size_t c = 0; c < count; c++) {
    const double v = row[present[c]];
    const double* mean = turned.mean + present[c] * turned.classes + k;
    const double* half = turned.half + present[c] * turned.classes + k;
    for (size_t w = 0; w < Width; w++) {
      const double a = v - mean[w];
      total[w] -= (a * a) * half[w];
    }
  }
  for (size_t w = 0; w < Width; w++) scores[k + w] = total[w];
}

// Write the scores of rows with missing values; the parameters are (d, classes), to fill the vector units. `present` has room
// for d columns.
TAMIS_FOR_EACH_PROCESSOR void score_rows_with_gaps(const double* x, size_t n, const Gaussians& turned, size_t* present,
                                                   double* scores) {
  for (size_t i = 0; i < n; i++) {
    const double* row = x + i * turned.d;
    size_t count = 0;
    for (size_t j = 0; j < turned.d; j++) {
      present[count] = j;
      count += row[j] == row[j] ? 1 : 0;
    }
    if (count == turned.d) continue;
    double* out = scores + i * turned.classes;
    size_t k = 0;
    for (; k + 8 <= turned.classes; k += 8) score_classes<8>(row, present, count, turned, k, out);
    for (; k + 2 <= turned.classes; k += 2) score_classes<2>(row, present, count, turned, k, out);
    for (; k < turned.classes; k++) score_classes<1>(row, present, count, turned, k, out);
  }
}

std::vector<double> turn(const double* parameters, size_t classes, size_t d) {
  std::vector<double> turned(d * classes);
  for (size_t k = 0; k < classes; k++) {
    for (size_t j = 0; j < d; j++) turned[j * classes + k] = parameters[k * d + j];
  }
  return turned;
}

void write_gaussian_scores(const double* x, size_t n, const Gaussians& g, double* scores) {
  const size_t lanes = std::min(kRows, (n + 7) / 8 * 8);
  std::vector<double> memory(g.classes + g.d * lanes + lanes);
  double* base = memory.data();
  double* beside = base + g.classes;
  for (size_t k = 0; k < g.classes; k++) {
    base[k] = g.constant[k];
    for (size_t j = 0; j < g.d; j++) base[k] += g.log_peak[k * g.d + j];
  }
  if (!score_full_rows(x, n, g, base, beside, beside + g.d * lanes, lanes, scores)) return;
  const std::vector<double> mean = turn(g.mean, g.classes, g.d);
  const std::vector<double> half = turn(g.half, g.classes, g.d);
  const std::vector<double> log_peak = turn(g.log_peak, g.classes, g.d);
  std::vector<size_t> present(g.d);
  const Gaussians turned{mean.data(), half.data(), log_peak.data(), g.constant, g.d, g.classes};
  score_rows_with_gaps(x, n, turned, present.data(), scores);
}

void gaussian_scores(Input<double, 2> x, Input<double, 2> mean, Input<double, 2> precision, Input<double, 2> log_peak,
                     Input<double, 1> constant, Output<double, 2> scores) {
  const size_t n = x.shape(0);
  const size_t d = x.shape(1);
  const size_t classes = constant.shape(0);
  for (const auto* parameter : {&mean, &precision, &log_peak}) {
    require(parameter->shape(0) == classes && parameter->shape(1) == d, "got parameters of several sizes, expected one");
  }
  require(scores.shape(0) == n && scores.shape(1) == classes, "got rows and scores of several sizes, expected one");
  const WithoutLock without_lock(n * d * classes);
  std::vector<double> half(precision.data(), precision.data() + classes * d);
  for (double& value : half) value *= 0.5;
  const Gaussians gaussians{mean.data(), half.data(), log_peak.data(), constant.data(), d, classes};
  write_gaussian_scores(x.data(), n, gaussians, scores.data());
}

// The sums of `Width` classes over some rows of a table, in their order.
template <size_t Width>
static TAMIS_INLINE void add_classes(const double* const* rows, size_t count, const double* constant, size_t k, double* scores) {
  double total[Width];
  for (size_t w = 0; w < Width; w++) total[w] = constant[k + w];
  for (size_t c = 0; c < count; c++) {
    for (size_t w = 0; w < Width; w++) total[w] += rows[c][k + w];
  }
  for (size_t w = 0; w < Width; w++) scores[k + w] = total[w];
}

// `rows` has room for d rows of the table.
TAMIS_FOR_EACH_PROCESSOR void add_table_rows(const int64_t* codes, size_t n, size_t d, const int64_t* offsets,
                                             const double* table, const double* constant, size_t classes,
                                             const double** rows, double* scores) {
  for (size_t i = 0; i < n; i++) {
    size_t count = 0;
    for (size_t j = 0; j < d; j++) {
      const int64_t code = codes[i * d + j];
      rows[count] = table + static_cast<size_t>(code < 0 ? 0 : offsets[j] + code) * classes;
      count += code < 0 ? 0 : 1;
    }
    double* out = scores + i * classes;
    size_t k = 0;
    for (; k + 8 <= classes; k += 8) add_classes<8>(rows, count, constant, k, out);
    for (; k + 2 <= classes; k += 2) add_classes<2>(rows, count, constant, k, out);
    for (; k < classes; k++) add_classes<1>(rows, count, constant, k, out);
  }
}

// The caller checks the codes before, by `are_codes_within`.
void gather_scores(Input<int64_t, 2> codes, Input<int64_t, 1> offsets, Input<double, 2> table, Input<double, 1> constant,
                   Output<double, 2> scores) {
  const size_t n = codes.shape(0);
  const size_t d = codes.shape(1);
  const size_t classes = constant.shape(0);
  require(offsets.shape(0) == d + 1 && table.shape(1) == classes, "got codes, offsets and scores of several sizes");
  require(scores.shape(0) == n && scores.shape(1) == classes, "got rows and scores of several sizes, expected one");
  const WithoutLock without_lock(n * d * classes);
  std::vector<const double*> rows(d);
  add_table_rows(codes.data(), n, d, offsets.data(), table.data(), constant.data(), classes, rows.data(), scores.data());
}

// Return log Σ_k exp(scores[k]): infinite if the largest score is, NaN if any score is.
double log_sum(const double* scores, size_t count) {
  double largest = -std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < count; k++) largest = scores[k] > largest ? scores[k] : largest;
  if (std::isinf(largest)) {
    const bool has_nan = std::any_of(scores, scores + count, [](double score) { return score != score; });
    return has_nan ? std::numeric_limits<double>::quiet_NaN() : largest;
  }
  double total = 0.0;
  for (size_t k = 0; k < count; k++) total += std::exp(scores[k] - largest);
  return largest + std::log(total);
}

void log_sum_rows(Input<double, 2> scores, Output<double, 1> totals) {
  require(totals.shape(0) == scores.shape(0), "got rows and totals of several sizes, expected one");
  const size_t count = scores.shape(1);
  const WithoutLock without_lock(scores.size());
  for (size_t i = 0; i < scores.shape(0); i++) totals.data()[i] = log_sum(scores.data() + i * count, count);
}

}  // namespace

void bind_scores(nb::module_& m) {
  m.def("gaussian_scores", &gaussian_scores, nb::arg("x").noconvert(), nb::arg("mean").noconvert(),
        nb::arg("precision").noconvert(), nb::arg("log_peak").noconvert(), nb::arg("constant").noconvert(),
        nb::arg("scores").noconvert());
  m.def("gather_scores", &gather_scores, nb::arg("codes").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("table").noconvert(), nb::arg("constant").noconvert(), nb::arg("scores").noconvert());
  m.def("log_sum_rows", &log_sum_rows, nb::arg("scores").noconvert(), nb::arg("totals").noconvert());
}

}  // namespace tamis::sums
