// Latent factors: a small ridge regression per row, and products of factors.
#pragma once

#include "../dense/symmetric.hpp"
#include "../dense/variants.hpp"

namespace {

constexpr int64_t kGathered = 256;   // Rows gathered at a time: they stay in the cache.
constexpr double kSteepest = 1e4;    // The largest condition number at which the equations in the entries are used.

// Memory for the equations of one row, reused by the next.
struct RowScratch {
  double* rows;      // (kGathered, width), zeros beyond the k columns
  double* sums;      // (width, width)
  double* b;         // (width,)
  double* inverses;  // (width,)
  double* scales;    // (k,)
  double* columns;   // (k, width)
};

// Writes to `rows` the entries' rows of the other side, times the root of their weights; adds the entries' right-hand side to b.
TAMIS_INLINE void gather(const tamis::RowEquations& given, int64_t begin, int64_t count, int64_t width,
                         double* TAMIS_RESTRICT rows, double* TAMIS_RESTRICT b) {
  const int64_t k = given.k;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = given.entries.indices[begin + i];
    const double weight = given.entries.weights[begin + i];
    const double root = sqrt(weight), pull = given.pulls[begin + i] - weight * given.other_offsets[place];
    const double* TAMIS_RESTRICT v = given.other + place * k;
    double* TAMIS_RESTRICT row = rows + i * width;
    for (int64_t j = 0; j < k; ++j) {
      row[j] = root * v[j];
      b[j] += pull * v[j];
    }
  }
}

// Solves a row of fewer entries than unknowns by equations in the entries:
// (D + BᵀB)⁻¹ Bᵀt = D⁻¹Bᵀ (I + B D⁻¹ Bᵀ)⁻¹ t, where B has the rows √w v. False if that would lose as many digits as
// the condition of these equations has.
inline bool solve_few(const tamis::RowEquations& given, int64_t row, const RowScratch& scratch, double* out) {
  const int64_t k = given.k, first = given.entries.indptr[row], count = given.entries.indptr[row + 1] - first;
  const int64_t* indices = given.entries.indices + first;
  const double* weights = given.entries.weights + first;
  const double* pulls = given.pulls + first;
  const double* ridge = given.ridge + row * k;
  const int64_t width = width_of(count + 1);
  double* TAMIS_RESTRICT columns = scratch.columns;
  double* TAMIS_RESTRICT sums = scratch.sums;
  for (int64_t j = 0; j < k; ++j) scratch.scales[j] = 1.0 / sqrt(ridge[j]);
  for (int64_t i = 0; i < count; ++i) {
    const double root = sqrt(weights[i]);
    const double* v = given.other + indices[i] * k;
    for (int64_t j = 0; j < k; ++j) columns[j * width + i] = root * v[j] * scratch.scales[j];
  }
  for (int64_t j = 0; j < k; ++j) fill(columns + j * width + count, width - count, 0.0);
  fill(sums, width * width, 0.0);
  add_products(columns, columns, width, k, sums);
  double condition = 1.0;
  for (int64_t i = 0; i < count; ++i) {
    double* diagonal = sums + i * width + i;
    condition += *diagonal;
    *diagonal += 1.0;
    const double root = sqrt(weights[i]);
    sums[i * width + count] = pulls[i] / root - root * given.other_offsets[indices[i]];
  }
  if (!(condition < kSteepest) || !factorize(sums, width, count, scratch.inverses)) return false;
  double* z = scratch.b;
  for (int64_t i = 0; i < count; ++i) z[i] = sums[i * width + count];
  solve_upper(sums, width, count, scratch.inverses, z);
  fill(out, k, 0.0);
  for (int64_t i = 0; i < count; ++i) {
    const double share = z[i] * sqrt(weights[i]);
    const double* TAMIS_RESTRICT v = given.other + indices[i] * k;
    double* TAMIS_RESTRICT solution = out;
    for (int64_t j = 0; j < k; ++j) solution[j] += share * v[j];
  }
  for (int64_t j = 0; j < k; ++j) out[j] /= ridge[j];
  return true;
}

TAMIS_INLINE bool are_positive(const double* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (!(numbers[i] > 0.0)) return false;
  }
  return true;
}

tamis::Outcome solve_rows(const tamis::RowEquations& given, double* out) {
  const int64_t k = given.k, width = width_of(k + 1);  // The right-hand side is a column.
  if (given.start >= given.stop || k == 0) return tamis::Outcome::kDone;
  Scratch memory(width >= (int64_t{1} << 26) ? INT64_MAX : width * (kGathered + width + 3 + k));
  if (memory.is_missing()) return tamis::Outcome::kNoMemory;
  RowScratch scratch;
  scratch.rows = memory.take(kGathered * width);
  scratch.sums = memory.take(width * width);
  scratch.b = memory.take(width);
  scratch.inverses = memory.take(width);
  scratch.scales = memory.take(width);
  scratch.columns = memory.take(k * width);
  fill(scratch.rows, kGathered * width, 0.0);
  double* sums = scratch.sums;
  double* b = scratch.b;
  bool is_plain = given.base == nullptr && given.noise == nullptr;
  for (int64_t j = 0; j < k; ++j) is_plain = is_plain && given.pull[j] == 0.0;
  for (int64_t row = given.start; row < given.stop; ++row) {
    const int64_t first = given.entries.indptr[row], last = given.entries.indptr[row + 1];
    const double* ridge = given.ridge + row * k;
    double* solution = out + row * k;
    const bool has_few = is_plain && 2 * (last - first) <= k && are_positive(ridge, k) &&
                         are_positive(given.entries.weights + first, last - first);
    if (has_few && solve_few(given, row, scratch, solution)) continue;
    fill(sums, width * width, 0.0);
    memcpy(b, given.pull, static_cast<size_t>(k) * sizeof(double));
    for (int64_t begin = first; begin < last; begin += kGathered) {
      const int64_t count = last - begin < kGathered ? last - begin : kGathered;
      gather(given, begin, count, width, scratch.rows, b);
      add_products(scratch.rows, scratch.rows, width, count, sums);
    }
    if (given.base != nullptr) {
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = i; j < k; ++j) sums[i * width + j] += given.base[i * k + j];
      }
    }
    for (int64_t j = 0; j < k; ++j) {
      sums[j * width + j] += ridge[j];
      sums[j * width + k] = b[j];
    }
    if (!factorize(sums, width, k, scratch.inverses)) {
      fill(solution, k, NAN);
      continue;
    }
    for (int64_t j = 0; j < k; ++j) b[j] = sums[j * width + k];
    if (given.noise != nullptr) {
      for (int64_t j = 0; j < k; ++j) b[j] += given.noise[row * k + j];
    }
    solve_upper(sums, width, k, scratch.inverses, b);
    memcpy(solution, b, static_cast<size_t>(k) * sizeof(double));
  }
  return tamis::Outcome::kDone;
}

void sum_row_squares(const tamis::RowTargets& given, double* out) {
  constexpr int64_t kMostCopied = 512;
  alignas(64) double copy[kMostCopied];
  const int64_t k = given.k;
  for (int64_t row = given.start; row < given.stop; ++row) {
    const double* own = given.rows + row * (k + 1);
    if (k < kMostCopied) {  // A copy that begins at a cache line is read faster, and it is read for each entry.
      memcpy(copy, own, static_cast<size_t>(k + 1) * sizeof(double));
      own = copy;
    }
    double total = 0.0;
    for (int64_t n = given.entries.indptr[row]; n < given.entries.indptr[row + 1]; ++n) {
      const double* v = given.other + given.entries.indices[n] * (k + 1);
      const double residual = given.targets[n] - (own[k] + v[k] + multiply_vectors(own, v, k));
      total += given.entries.weights[n] * residual * residual;
    }
    out[row] = total;
  }
}

void multiply_pairs(const double* left, const double* right, int64_t k, const int64_t* i, const int64_t* j, int64_t start,
                    int64_t stop, double* out) {
  for (int64_t n = start; n < stop; ++n) {
    out[n] = i[n] >= 0 && j[n] >= 0 ? multiply_vectors(left + i[n] * k, right + j[n] * k, k) : 0.0;
  }
}

}  // namespace
