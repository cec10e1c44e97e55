// Small symmetric matrices, tile by tile: sums of products, their Cholesky decomposition, and the solution x of A x = b.
//
// A matrix has a width of whole blocks and holds its upper triangle; b is its column n, beyond the n columns of A.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "tiles.hpp"

namespace {

// Return the number of columns, rounded up to whole blocks.
TAMIS_INLINE int64_t width_of(int64_t columns) { return (columns + kBlock - 1) / kBlock * kBlock; }

// Scratch memory, aligned to a cache line; there is none (`data` is null) if the system has not enough.
class Scratch {
 public:
  explicit Scratch(int64_t count) {
    constexpr uint64_t kLine = 64;
    // A count that would overflow is more than any machine has.
    allocation_ = count < (int64_t{1} << 56) ? malloc(static_cast<size_t>(count) * sizeof(double) + kLine) : nullptr;
    const uint64_t skip = (kLine - reinterpret_cast<uintptr_t>(allocation_) % kLine) % kLine;
    data_ = allocation_ == nullptr ? nullptr : reinterpret_cast<double*>(static_cast<char*>(allocation_) + skip);
  }
  ~Scratch() { free(allocation_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // The next `count` numbers of those that were asked for.
  double* take(int64_t count) {
    double* first = data_ + taken_;
    taken_ += count;
    return first;
  }
  bool is_missing() const { return data_ == nullptr; }

 private:
  void* allocation_;
  double* data_;
  int64_t taken_ = 0;
};

TAMIS_INLINE void fill(double* to, int64_t count, double number) {
  for (int64_t i = 0; i < count; ++i) to[i] = number;
}

template <int Vectors>
TAMIS_INLINE void add_tiles(const double* left, const double* right, int64_t width, int64_t count, double sign, double* sums,
                            int64_t i, int64_t j) {
  constexpr int64_t kColumns = Vectors * Vector::kLanes;
  for (; j + kColumns <= width; j += kColumns) add_tile<Vector::kTileRows, Vectors>(left, right, width, count, sign, sums, i, j);
  if constexpr (Vectors > 1) add_tiles<Vectors - 1>(left, right, width, count, sign, sums, i, j);
}

// Adds sign · LᵀR, where L and R have `count` rows, to the row of tiles of `sums` that begins on the diagonal at i.
void add_to_tile_row(const double* left, const double* right, int64_t width, int64_t count, double sign, double* sums,
                     int64_t i) {
  add_tiles<Vector::kTileVectors>(left, right, width, count, sign, sums, i, i);
}

// Adds the upper triangle of LᵀR, where L and R are (count, width), to `sums` (width, width).
inline void add_products(const double* left, const double* right, int64_t width, int64_t count, double* sums) {
  for (int64_t i = 0; i < width; i += Vector::kTileRows) add_to_tile_row(left, right, width, count, 1.0, sums, i);
}

template <int Vectors>
TAMIS_INLINE void factorize_sides(double* sums, int64_t width, int64_t i, int64_t j, const double* inverses) {
  constexpr int64_t kColumns = Vectors * Vector::kLanes;
  for (; j + kColumns <= width; j += kColumns) factorize_side<Vectors>(sums, width, i, j, inverses);
  if constexpr (Vectors > 1) factorize_sides<Vectors - 1>(sums, width, i, j, inverses);
}

// Computes A = UᵀU and U⁻ᵀ b in place, and one over the diagonal of U; false if A is not positive definite.
// Numbers below the diagonal, in the rows from n on, and in `inverses` from n on have no meaning.
inline bool factorize(double* sums, int64_t width, int64_t n, double* inverses) {
  for (int64_t i = 0; i < n; i += kBlock) {
    for (int64_t row = i; row < i + kBlock; row += Vector::kTileRows) {
      add_to_tile_row(sums, sums, width, i, -1.0, sums, row);
    }
    factorize_corner(sums, width, i, inverses);
    for (int64_t p = i; p < i + kBlock && p < n; ++p) {
      if (!(sums[p * width + p] > 0.0)) return false;
    }
    factorize_sides<Vector::kSideVectors>(sums, width, i, i + kBlock, inverses);
  }
  return true;
}

// Computes U⁻¹ x in place; x is (width,), and its numbers from n on become 0.
inline void solve_upper(const double* upper, int64_t width, int64_t n, const double* inverses, double* x) {
  double later[kBlock];
  fill(x + n, width - n, 0.0);
  for (int64_t i = (n - 1) / kBlock * kBlock; n > 0 && i >= 0; i -= kBlock) {
    for (int64_t a = 0; a < kBlock; a += Vector::kTileRows) {
      multiply_rest<Vector::kTileRows>(upper, width, i + a, i + kBlock, x, later + a);
    }
    const int64_t last = i + kBlock < n ? i + kBlock : n;
    for (int64_t p = last - 1; p >= i; --p) {
      double rest = x[p] - later[p - i];
      for (int64_t q = p + 1; q < last; ++q) rest -= upper[p * width + q] * x[q];
      x[p] = rest * inverses[p];
    }
  }
}

}  // namespace
