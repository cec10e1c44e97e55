// Products of many rows of few columns about a centre: Σ w (x − c)(x − c)ᵀ.
#pragma once

#include "symmetric.hpp"
#include "variants.hpp"

namespace {

// Writes `count` rows from `begin` on, minus the centre, of columns that have memory of their own each.
TAMIS_INLINE void centre_columns(const tamis::CentredRows& given, int64_t begin, int64_t count, double* TAMIS_RESTRICT rows,
                                 int64_t width) {
  for (int64_t j = 0; j < given.columns; ++j) {
    const double* TAMIS_RESTRICT column = given.apart[j] + begin;
    const double centre = given.centre[j];
    for (int64_t i = 0; i < count; ++i) rows[i * width + j] = column[i] - centre;
  }
}

tamis::Outcome multiply_centred(const tamis::CentredRows& given, double* out) {
  constexpr int64_t kPiece = 64;  // Rows minus the centre at a time: they stay in the cache.
  const int64_t p = given.columns, d = given.all_columns, width = width_of(d);
  const bool weighted = given.weights != nullptr;
  Scratch scratch(width >= (int64_t{1} << 27) ? INT64_MAX : width * (width + 2 * kPiece));
  if (scratch.is_missing()) return tamis::Outcome::kNoMemory;
  double* sums = scratch.take(width * width);
  double* rows = scratch.take(kPiece * width);
  double* weighed = weighted ? scratch.take(kPiece * width) : rows;
  fill(sums, width * width, 0.0);
  fill(rows, kPiece * width, 0.0);
  const double* TAMIS_RESTRICT centre = given.centre;
  for (int64_t begin = given.start; begin < given.stop; begin += kPiece) {
    const int64_t count = given.stop - begin < kPiece ? given.stop - begin : kPiece;
    if (given.apart != nullptr) {
      centre_columns(given, begin, count, rows, width);
      add_products(rows, rows, width, count, sums);
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = given.order == nullptr ? begin + i : given.order[begin + i];
      if (place < 0 || place >= given.rows) return tamis::Outcome::kPlaceOutside;
      double* TAMIS_RESTRICT row = rows + i * width;
      const double* TAMIS_RESTRICT values = given.values + place * p;
      for (int64_t j = 0; j < p; ++j) row[j] = values[j] - centre[j];
      if (d > p) {
        const double* TAMIS_RESTRICT extra = given.extra + place * (d - p);
        for (int64_t j = p; j < d; ++j) row[j] = extra[j - p] - centre[j];
      }
      if (weighted) {
        double* product = weighed + i * width;
        const Vector weight = Vector::broadcast(given.weights[place]);
        for (int64_t j = 0; j < width; j += Vector::kLanes) Vector::load(row + j).times(weight).store(product + j);
      }
    }
    add_products(weighed, rows, width, count, sums);
  }
  for (int64_t i = 0; i < d; ++i) {
    for (int64_t j = i; j < d; ++j) out[i * d + j] = sums[i * width + j];
  }
  return tamis::Outcome::kDone;
}

}  // namespace
