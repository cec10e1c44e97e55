// Tiles of small matrices that stay in registers: products, and the parts of a Cholesky decomposition.
//
// Matrices are (rows, width) in C order, with a width of whole blocks of eight columns. BLAS packs what it multiplies and
// searches for the best way to do it, which for 50 × 50 costs more than the product; here rows are read where they lie. Each
// entry is a sum of fused products in the order of the rows, so that its bits do not depend on the shape of a tile.
#pragma once

#include <math.h>

#include "vectors.hpp"

namespace {

// Adds sign · LᵀR to the tile of `sums` at row i and column j, where L and R have `count` rows.
template <int Rows, int Vectors>
TAMIS_INLINE void add_tile(const double* left, const double* right, int64_t width, int64_t count, double sign, double* sums,
                           int64_t i, int64_t j) {
  Vector tile[Rows][Vectors];
  TAMIS_UNROLL
  for (int a = 0; a < Rows; ++a) {
    TAMIS_UNROLL
    for (int b = 0; b < Vectors; ++b) tile[a][b] = Vector::zero();
  }
  const double* own = left + i;
  const double* other = right + j;
  for (int64_t n = 0; n < count; ++n, own += width, other += width) {
    Vector vectors[Vectors];
    TAMIS_UNROLL
    for (int b = 0; b < Vectors; ++b) vectors[b] = Vector::load(other + b * Vector::kLanes);
    TAMIS_UNROLL
    for (int a = 0; a < Rows; ++a) {
      const Vector number = Vector::broadcast(own[a]);
      TAMIS_UNROLL
      for (int b = 0; b < Vectors; ++b) tile[a][b] = tile[a][b].plus_product(number, vectors[b]);
    }
  }
  const Vector factor = Vector::broadcast(sign);
  TAMIS_UNROLL
  for (int a = 0; a < Rows; ++a) {
    TAMIS_UNROLL
    for (int b = 0; b < Vectors; ++b) {
      double* place = sums + (i + a) * width + j + b * Vector::kLanes;
      Vector::load(place).plus_product(factor, tile[a][b]).store(place);
    }
  }
}

// Replaces the block on the diagonal at i by its upper Cholesky factor, and writes one over the factor's diagonal.
TAMIS_INLINE void factorize_corner(double* sums, int64_t width, int64_t i, double* inverses) {
  double* corner = sums + i * width + i;
  Vector rows[kBlock][kParts];
  TAMIS_UNROLL
  for (int q = 0; q < kBlock; ++q) {
    TAMIS_UNROLL
    for (int b = 0; b < kParts; ++b) rows[q][b] = Vector::load(corner + q * width + b * Vector::kLanes);
  }
  TAMIS_UNROLL
  for (int p = 0; p < kBlock; ++p) {
    double* row = corner + p * width;
    rows[p][p / Vector::kLanes].store(row + p / Vector::kLanes * Vector::kLanes);
    const double inverse = 1.0 / sqrt(row[p]);
    inverses[i + p] = inverse;
    const Vector scale = Vector::broadcast(inverse);
    TAMIS_UNROLL
    for (int b = static_cast<int>(p / Vector::kLanes); b < kParts; ++b) {
      rows[p][b] = rows[p][b].times(scale);
      rows[p][b].store(row + b * Vector::kLanes);
    }
    TAMIS_UNROLL
    for (int q = p + 1; q < kBlock; ++q) {
      const Vector share = Vector::broadcast(row[q]);
      // Vectors that lie wholly below the diagonal are never read.
      TAMIS_UNROLL
      for (int b = static_cast<int>(q / Vector::kLanes); b < kParts; ++b) {
        rows[q][b] = rows[q][b].minus_product(share, rows[p][b]);
      }
    }
  }
}

// Replaces the tile at row i and column j, beside a corner that is factorized, by its part of the upper Cholesky factor.
template <int Vectors>
TAMIS_INLINE void factorize_side(double* sums, int64_t width, int64_t i, int64_t j, const double* inverses) {
  const double* corner = sums + i * width + i;
  double* side = sums + i * width + j;
  Vector rows[kBlock][Vectors];
  TAMIS_UNROLL
  for (int q = 0; q < kBlock; ++q) {
    TAMIS_UNROLL
    for (int b = 0; b < Vectors; ++b) rows[q][b] = Vector::load(side + q * width + b * Vector::kLanes);
  }
  TAMIS_UNROLL
  for (int p = 0; p < kBlock; ++p) {
    const Vector scale = Vector::broadcast(inverses[i + p]);
    TAMIS_UNROLL
    for (int b = 0; b < Vectors; ++b) {
      rows[p][b] = rows[p][b].times(scale);
      rows[p][b].store(side + p * width + b * Vector::kLanes);
    }
    TAMIS_UNROLL
    for (int q = p + 1; q < kBlock; ++q) {
      const Vector share = Vector::broadcast(corner[p * width + q]);
      TAMIS_UNROLL
      for (int b = 0; b < Vectors; ++b) rows[q][b] = rows[q][b].minus_product(share, rows[p][b]);
    }
  }
}

// Writes to `products` the product of each of Rows rows from i on with x, of the columns beyond the row's own corner.
template <int Rows>
TAMIS_INLINE void multiply_rest(const double* upper, int64_t width, int64_t i, int64_t first_column, const double* x,
                                double* products) {
  Vector sums[Rows][kParts];
  TAMIS_UNROLL
  for (int a = 0; a < Rows; ++a) {
    TAMIS_UNROLL
    for (int b = 0; b < kParts; ++b) sums[a][b] = Vector::zero();
  }
  for (int64_t n = first_column; n < width; n += kBlock) {
    TAMIS_UNROLL
    for (int b = 0; b < kParts; ++b) {
      const Vector vector = Vector::load(x + n + b * Vector::kLanes);
      TAMIS_UNROLL
      for (int a = 0; a < Rows; ++a) {
        sums[a][b] = sums[a][b].plus_product(Vector::load(upper + (i + a) * width + n + b * Vector::kLanes), vector);
      }
    }
  }
  TAMIS_UNROLL
  for (int a = 0; a < Rows; ++a) products[a] = add_lanes(sums[a]);
}

// The product of two vectors of k numbers: eight sums side by side, added in a fixed order.
TAMIS_INLINE double multiply_vectors(const double* left, const double* right, int64_t k) {
  Vector sums[kParts];
  TAMIS_UNROLL
  for (int b = 0; b < kParts; ++b) sums[b] = Vector::zero();
  int64_t c = 0;
  for (; c + kBlock <= k; c += kBlock) {
    TAMIS_UNROLL
    for (int b = 0; b < kParts; ++b) {
      const int64_t at = c + b * Vector::kLanes;
      sums[b] = sums[b].plus_product(Vector::load(left + at), Vector::load(right + at));
    }
  }
  if (c < k) {
    TAMIS_UNROLL
    for (int b = 0; b < kParts; ++b) {
      const int64_t at = c + b * Vector::kLanes;
      if (at < k) {
        const int64_t count = k - at < Vector::kLanes ? k - at : Vector::kLanes;
        sums[b] = sums[b].plus_product(Vector::load_first(left + at, count), Vector::load_first(right + at, count));
      }
    }
  }
  return add_lanes(sums);
}

}  // namespace
