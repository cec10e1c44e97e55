// The expectation step of Gaussians: responsibilities of classes for rows, and sums of products of the rows by class.
//
// Rows are taken in tiles that stay in the cache, transposed, so that a vector holds one column of several rows. Log-densities,
// responsibilities and products are computed from the tile, and memory is read once. Sums have eight lanes on every processor
// (row i adds to lane i % 8), so that all processors that fuse products give the same bits.
#pragma once

#include <math.h>
#include <string.h>

#include "symmetric.hpp"
#include "variants.hpp"

namespace {

constexpr int64_t kTileOfRows = 128;   // 17 columns of them are half of a first-level cache
constexpr int64_t kSumOfRows = 4096;   // rows whose products are summed in lanes, before these are added
constexpr double kLeastExponent = -708.0;  // what is below has an exponential of less than any normal float, and counts as 0

// e**x for x up to 0, to about an ulp: 2**n e**r with x = n log 2 + r, and e**r by its series up to r**13.
TAMIS_INLINE double exponential(double x) {
  constexpr double kLog2E = 1.4426950408889634, kLog2High = 6.93147180369123816490e-01, kLog2Low = 1.90821492927058770002e-10;
  constexpr double kRounding = 1.5 * 0x1p52;  // adding it rounds to a whole number, which the last bits then hold
  const double kept = x < kLeastExponent ? kLeastExponent : x;  // NaN stays
  const double rounded = kept * kLog2E + kRounding;
  const double n = rounded - kRounding;
  const double r = (kept - n * kLog2High) - n * kLog2Low;
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * (r * r) + r;
  sum = sum + 1.0;
  uint64_t bits, power;
  memcpy(&bits, &sum, sizeof bits);
  memcpy(&power, &rounded, sizeof power);
  bits += power << 52;
  memcpy(&sum, &bits, sizeof sum);
  return x < kLeastExponent ? 0.0 : sum;
}

// The log-densities (classes, kTileOfRows) of `Classes` classes from k on. `terms` has for each column i its linear term and the
// quadratic terms of the columns from i on, each for all of these classes, after their constants.
template <int Classes>
void score_class_tile(const double* TAMIS_RESTRICT x, int64_t d, const double* TAMIS_RESTRICT terms,
                      double* TAMIS_RESTRICT joint) {
  constexpr int kSide = Vector::kScoreVectors;
  for (int64_t row = 0; row < kTileOfRows; row += kSide * Vector::kLanes) {
    const double* term = terms;
    Vector total[Classes][kSide];
    TAMIS_UNROLL
    for (int c = 0; c < Classes; ++c) {
      TAMIS_UNROLL
      for (int v = 0; v < kSide; ++v) total[c][v] = Vector::broadcast(term[c]);
    }
    term += Classes;
    for (int64_t i = 0; i < d; ++i) {
      Vector inner[Classes][kSide];
      TAMIS_UNROLL
      for (int c = 0; c < Classes; ++c) {
        TAMIS_UNROLL
        for (int v = 0; v < kSide; ++v) inner[c][v] = Vector::broadcast(term[c]);
      }
      term += Classes;
      for (int64_t j = i; j < d; ++j) {
        Vector column[kSide];
        TAMIS_UNROLL
        for (int v = 0; v < kSide; ++v) column[v] = Vector::load(x + j * kTileOfRows + row + v * Vector::kLanes);
        TAMIS_UNROLL
        for (int c = 0; c < Classes; ++c) {
          const Vector factor = Vector::broadcast(term[c]);
          TAMIS_UNROLL
          for (int v = 0; v < kSide; ++v) inner[c][v] = inner[c][v].plus_product(factor, column[v]);
        }
        term += Classes;
      }
      TAMIS_UNROLL
      for (int v = 0; v < kSide; ++v) {
        const Vector column = Vector::load(x + i * kTileOfRows + row + v * Vector::kLanes);
        TAMIS_UNROLL
        for (int c = 0; c < Classes; ++c) total[c][v] = total[c][v].plus_product(inner[c][v], column);
      }
    }
    TAMIS_UNROLL
    for (int c = 0; c < Classes; ++c) {
      TAMIS_UNROLL
      for (int v = 0; v < kSide; ++v) total[c][v].store(joint + c * kTileOfRows + row + v * Vector::kLanes);
    }
  }
}

constexpr int kClassTile = 4;  // classes whose log-densities are computed together

// The number of terms of one class.
TAMIS_INLINE int64_t count_terms(int64_t d) { return 1 + d + d * (d + 1) / 2; }

template <int Classes>
TAMIS_INLINE void score_classes(const double* x, int64_t d, const double* terms, int64_t classes, int64_t k, double* joint) {
  for (; k + Classes <= classes; k += Classes) {
    score_class_tile<Classes>(x, d, terms + k * count_terms(d), joint + k * kTileOfRows);
  }
  if constexpr (Classes > 1) score_classes<Classes - 1>(x, d, terms, classes, k, joint);
}

// Writes the terms of all classes in the order in which `score_classes` reads them.
inline void arrange_terms(const tamis::GaussianRows& given, double* terms) {
  const int64_t d = given.columns;
  for (int64_t k = 0; k < given.classes;) {
    const int64_t tile = given.classes - k < kClassTile ? given.classes - k : kClassTile;
    for (int64_t c = 0; c < tile; ++c) *terms++ = given.constant[k + c];
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t c = 0; c < tile; ++c) *terms++ = given.linear[(k + c) * d + i];
      for (int64_t j = i; j < d; ++j) {
        for (int64_t c = 0; c < tile; ++c) *terms++ = (i == j ? 1.0 : 2.0) * given.quadratic[((k + c) * d + i) * d + j];
      }
    }
    k += tile;
  }
}

// The loops have functions of their own, because compilers believe `__restrict` of parameters, not of variables.
inline void raise_largest(const double* TAMIS_RESTRICT joint, double* TAMIS_RESTRICT largest) {
  for (int64_t i = 0; i < kTileOfRows; ++i) largest[i] = joint[i] > largest[i] ? joint[i] : largest[i];
}

inline void add_exponentials(double* TAMIS_RESTRICT joint, const double* TAMIS_RESTRICT largest, double* TAMIS_RESTRICT density) {
  for (int64_t i = 0; i < kTileOfRows; ++i) {
    joint[i] = exponential(joint[i] - largest[i]);
    density[i] += joint[i];
  }
}

inline void multiply_rows(double* TAMIS_RESTRICT joint, const double* TAMIS_RESTRICT factors) {
  for (int64_t i = 0; i < kTileOfRows; ++i) joint[i] *= factors[i];
}

// Turns log-densities (classes, kTileOfRows) of `count` rows into weighted responsibilities, 0 for rows beyond them; returns
// Σ w log p(row), where p(row) is that of the most probable class if `hard`. `work` has room for 3 numbers per row.
inline double compute_responsibilities(double* joint, int64_t classes, int64_t count, const double* weights, bool hard,
                                       double* work) {
  double* largest = work;
  double* density = work + kTileOfRows;
  double* factors = density + kTileOfRows;
  memcpy(largest, joint, kTileOfRows * sizeof(double));
  for (int64_t k = 1; k < classes; ++k) raise_largest(joint + k * kTileOfRows, largest);
  fill(density, kTileOfRows, hard ? 1.0 : 0.0);
  if (hard) {
    for (int64_t i = 0; i < kTileOfRows; ++i) {
      bool is_free = true;  // the first of the most probable classes has the row
      for (int64_t k = 0; k < classes; ++k) {
        const bool is_best = is_free && joint[k * kTileOfRows + i] == largest[i];
        is_free = is_free && !is_best;
        joint[k * kTileOfRows + i] = is_best ? 1.0 : 0.0;
      }
      if (is_free) joint[i] = NAN;  // no class has it, because a log-density is NaN
    }
  } else {
    for (int64_t k = 0; k < classes; ++k) add_exponentials(joint + k * kTileOfRows, largest, density);
  }
  for (int64_t i = 0; i < count; ++i) factors[i] = (weights == nullptr ? 1.0 : weights[i]) / density[i];
  for (int64_t i = count; i < kTileOfRows; ++i) {
    factors[i] = largest[i] = 0.0;
    density[i] = 1.0;
  }
  for (int64_t k = 0; k < classes; ++k) multiply_rows(joint + k * kTileOfRows, factors);
  double lanes[kBlock], sum = 0.0;
  if (weights != nullptr) {
    for (int64_t i = 0; i < count; ++i) sum += weights[i] * (largest[i] + log(density[i]));
    return sum;
  }
  // The logarithm of a product of 16 densities, each from 1 to the number of classes, stands for 16 logarithms.
  fill(lanes, kBlock, 0.0);
  for (int64_t i = 0; i < kTileOfRows; i += kBlock) {
    for (int64_t lane = 0; lane < kBlock; ++lane) lanes[lane] += largest[i + lane];
  }
  for (int64_t lane = 0; lane < kBlock; ++lane) sum += lanes[lane];
  fill(lanes, kBlock, 1.0);
  for (int64_t i = 0; i < kTileOfRows; i += kBlock) {
    for (int64_t lane = 0; lane < kBlock; ++lane) lanes[lane] *= density[i + lane];
  }
  for (int64_t lane = 0; lane < kBlock; ++lane) sum += log(lanes[lane]);
  return sum;
}

// Adds r x_i x_j to the lanes of Left columns from i on and Right columns from j on: (width, width, kBlock).
template <int Left, int Right>
void add_lane_tile(const double* TAMIS_RESTRICT x, const double* TAMIS_RESTRICT r, int64_t width, int64_t i, int64_t j,
                   double* TAMIS_RESTRICT lanes) {
  Vector sums[Left][Right][kParts];
  TAMIS_UNROLL
  for (int a = 0; a < Left; ++a) {
    TAMIS_UNROLL
    for (int b = 0; b < Right; ++b) {
      TAMIS_UNROLL
      for (int p = 0; p < kParts; ++p) {
        sums[a][b][p] = Vector::load(lanes + ((i + a) * width + j + b) * kBlock + p * Vector::kLanes);
      }
    }
  }
  for (int64_t row = 0; row < kTileOfRows; row += kBlock) {
    TAMIS_UNROLL
    for (int p = 0; p < kParts; ++p) {
      const int64_t at = row + p * Vector::kLanes;
      const Vector weight = Vector::load(r + at);
      Vector right[Right];
      TAMIS_UNROLL
      for (int b = 0; b < Right; ++b) right[b] = Vector::load(x + (j + b) * kTileOfRows + at);
      TAMIS_UNROLL
      for (int a = 0; a < Left; ++a) {
        const Vector left = Vector::load(x + (i + a) * kTileOfRows + at).times(weight);
        TAMIS_UNROLL
        for (int b = 0; b < Right; ++b) sums[a][b][p] = sums[a][b][p].plus_product(left, right[b]);
      }
    }
  }
  TAMIS_UNROLL
  for (int a = 0; a < Left; ++a) {
    TAMIS_UNROLL
    for (int b = 0; b < Right; ++b) {
      TAMIS_UNROLL
      for (int p = 0; p < kParts; ++p) {
        sums[a][b][p].store(lanes + ((i + a) * width + j + b) * kBlock + p * Vector::kLanes);
      }
    }
  }
}

template <int Left, int Right>
TAMIS_INLINE void add_lane_tiles(const double* x, const double* r, int64_t width, int64_t i, int64_t j, double* lanes) {
  for (; j + Right <= width; j += Right) add_lane_tile<Left, Right>(x, r, width, i, j, lanes);
  if constexpr (Right > 1) add_lane_tiles<Left, Right - 1>(x, r, width, i, j, lanes);
}

// Adds the upper triangle of Σ r x xᵀ, where x is (width, kTileOfRows), to lanes; what is below the diagonal has no meaning.
template <int Left>
TAMIS_INLINE void add_lane_rows(const double* x, const double* r, int64_t width, int64_t i, double* lanes) {
  for (; i + Left <= width; i += Left) add_lane_tiles<Left, Vector::kSumColumns>(x, r, width, i, i, lanes);
  if constexpr (Left > 1) add_lane_rows<Left - 1>(x, r, width, i, lanes);
}

// Writes `count` rows minus the origin, transposed: (columns, kTileOfRows); rows beyond them are 0.
inline void transpose_rows(const double* TAMIS_RESTRICT rows, int64_t count, int64_t d, const double* TAMIS_RESTRICT origin,
                           double* TAMIS_RESTRICT x) {
  for (int64_t i = 0; i < count; ++i) {
    const double* row = rows + i * d;
    for (int64_t j = 0; j < d; j += 8) tamis::prefetch_after(row, (kTileOfRows * d + j) * sizeof(double));  // of the next tile
    for (int64_t j = 0; j < d; ++j) x[j * kTileOfRows + i] = row[j] - origin[j];
  }
  for (int64_t j = 0; j < d; ++j) fill(x + j * kTileOfRows + count, kTileOfRows - count, 0.0);
}

tamis::Outcome sum_responsible(const tamis::GaussianRows& given, double* out, double* log_likelihood) {
  const int64_t d = given.columns, width = d + 1, classes = given.classes;
  constexpr int64_t kMost = int64_t{1} << 26;  // more would be more than any machine has
  if (d >= kMost / 64 || classes >= kMost) return tamis::Outcome::kNoMemory;
  const double wanted = static_cast<double>(classes) * (static_cast<double>(count_terms(d)) + kTileOfRows +
                        static_cast<double>(width) * static_cast<double>(width) * kBlock);
  if (wanted > 0x1p50) return tamis::Outcome::kNoMemory;
  const int64_t cells = classes * width * width;
  Scratch scratch(cells * kBlock + (width + classes + 3) * kTileOfRows + classes * count_terms(d));
  if (scratch.is_missing()) return tamis::Outcome::kNoMemory;
  double* lanes = scratch.take(cells * kBlock);
  double* x = scratch.take(width * kTileOfRows);
  double* joint = scratch.take(classes * kTileOfRows);
  double* work = scratch.take(3 * kTileOfRows);
  double* terms = scratch.take(classes * count_terms(d));
  arrange_terms(given, terms);
  fill(out, cells, 0.0);
  fill(x + d * kTileOfRows, kTileOfRows, 1.0);
  *log_likelihood = 0.0;
  for (int64_t begin = given.start; begin < given.stop; begin += kSumOfRows) {
    const int64_t end = given.stop - begin < kSumOfRows ? given.stop : begin + kSumOfRows;
    fill(lanes, cells * kBlock, 0.0);
    for (int64_t row = begin; row < end; row += kTileOfRows) {
      const int64_t count = end - row < kTileOfRows ? end - row : kTileOfRows;
      transpose_rows(given.rows + row * d, count, d, given.origin, x);
      score_classes<kClassTile>(x, d, terms, classes, 0, joint);
      *log_likelihood += compute_responsibilities(joint, classes, count, given.weights == nullptr ? nullptr : given.weights + row,
                                                  given.hard, work);
      for (int64_t k = 0; k < classes; ++k) {
        add_lane_rows<Vector::kSumRows>(x, joint + k * kTileOfRows, width, 0, lanes + k * width * width * kBlock);
      }
    }
    // A row with a gap makes this NaN: no more is to be computed then.
    if (!(*log_likelihood - *log_likelihood == 0.0)) break;
    for (int64_t k = 0; k < classes; ++k) {
      for (int64_t i = 0; i < width; ++i) {
        for (int64_t j = i; j < width; ++j) {
          const int64_t cell = (k * width + i) * width + j;
          Vector parts[kParts];
          for (int p = 0; p < kParts; ++p) parts[p] = Vector::load(lanes + cell * kBlock + p * Vector::kLanes);
          out[cell] += add_lanes(parts);
        }
      }
    }
  }
  for (int64_t k = 0; k < classes; ++k) {
    for (int64_t i = 0; i < width; ++i) {
      for (int64_t j = 0; j < i; ++j) out[(k * width + i) * width + j] = out[(k * width + j) * width + i];
    }
  }
  return tamis::Outcome::kDone;
}

}  // namespace
