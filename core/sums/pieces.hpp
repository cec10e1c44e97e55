// Split floats into pieces that add without rounding, so that exact sums are loops of vector instructions.
//
// Values within 2**31 of the largest of their column are split, not rounded: scaled so that the largest is below 1, and with
// s = 1.5 * 2**(52 - 42 t), the float (v + s) - s is v rounded to a multiple of 2**(-42 t), and the remainder is exact. Such
// pieces add without error over 2**11 rows, in whatever order, and the loop over columns becomes vector code. Smaller values
// are added digit by digit.
//
// This file is also compiled for several generations of processors (../dense/variant.cpp), so it takes no inline function from
// the standard library.
#pragma once

#include <math.h>
#include <stdint.h>

#include "../compiler.hpp"

namespace tamis::sums {

constexpr int64_t kRows = 1 << 11;          // pieces are at most 2**42 units, so the sum of this many is at most 2**53
constexpr double kDepth = 0x1p-31;          // of the largest value: what is smaller has bits below the grids of the pieces
constexpr double kSplitter = 134217729.0;   // 2**27 + 1: cuts a significand of 53 bits into two halves (Veltkamp)
constexpr double kGrid1 = 1.5 * 0x1p10, kGrid2 = 1.5 * 0x1p-32, kGrid3 = 1.5 * 0x1p-74;
constexpr int64_t kFaint = -1000;           // the lowest exponent of a largest value that can be scaled up to 1

// Add a scaled value, which is not too small, to its two pieces.
static TAMIS_INLINE void split_value(double v, double& first, double& second) {
  const double a = (v + kGrid1) - kGrid1;
  first += a;
  second += v - a;
}

// Add a scaled product p and its rounding error e to their four pieces.
static TAMIS_INLINE void split_product(double p, double e, double& first, double& second, double& third, double& fourth) {
  const double a = (p + kGrid1) - kGrid1;
  p -= a;
  const double b = (p + kGrid2) - kGrid2;
  const double c = (e + kGrid2) - kGrid2;
  e -= c;
  const double d = (e + kGrid3) - kGrid3;
  first += a;
  second += b + c;
  third += (p - b) + d;
  fourth += e - d;
}

static TAMIS_INLINE double scale_value(double value, double factor) {
  const double v = value * factor;
  return fabs(v) >= kDepth ? v : 0.0;
}

// The rounding error of the square p = v * v.
static TAMIS_INLINE double find_square_rounding(double v, double p) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fma(v, v, -p);
#else
  const double t = kSplitter * v;
  const double x = t - (t - v);
  const double y = v - x;
  return ((x * x - p) + 2.0 * x * y) + y * y;
#endif
}

// Add a scaled value to the pieces of the sum of values, and its square to those of the sum of squares.
static TAMIS_INLINE void split_powers(double v, double& a, double& b, double& c, double& d, double& e, double& f) {
  split_value(v, a, b);
  const double p = v * v;
  split_product(p, find_square_rounding(v, p), c, d, e, f);
}

}  // namespace tamis::sums
