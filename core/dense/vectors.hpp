// One vector of doubles, as wide as the processor's registers that this file is compiled for.
//
// All that follows, here and in the files that include this one, is compiled once per generation of processors and lives in an
// anonymous namespace. It must call no inline function or template of the standard library: the linker keeps one copy of
// such a function, and might keep the one with instructions that an older processor does not have.
#pragma once

#include <stdint.h>

#include "../compiler.hpp"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#endif

// Tiles stay in registers only if everything is inlined and the loops over their vectors are unrolled completely.
#if defined(__GNUC__)
#define TAMIS_RESTRICT __restrict__
#if defined(__clang__)
#define TAMIS_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TAMIS_UNROLL _Pragma("GCC unroll 16")
#endif
#elif defined(_MSC_VER)
#define TAMIS_RESTRICT __restrict
#define TAMIS_UNROLL
#else
#define TAMIS_RESTRICT
#define TAMIS_UNROLL
#endif

namespace {

// Matrices are processed in blocks of so many rows and columns on every processor, whatever the width of its vectors, so that
// all processors that fuse products give the same bits.
constexpr int64_t kBlock = 8;

#if defined(__AVX512F__) && defined(__AVX512DQ__)

struct Vector {
  __m512d value;

  static constexpr int64_t kLanes = 8;
  static constexpr bool kIsFused = true;
  // Of the 32 registers of AVX-512 a tile of products takes 24.
  static constexpr int kTileRows = 8, kTileVectors = 3, kSideVectors = 3;
  // Log-densities of four classes take 16 for two vectors of rows; sums by class take 24.
  static constexpr int kScoreVectors = 2, kSumRows = 4, kSumColumns = 6;

  static TAMIS_INLINE Vector zero() { return {_mm512_setzero_pd()}; }
  static TAMIS_INLINE Vector load(const double* from) { return {_mm512_loadu_pd(from)}; }
  static TAMIS_INLINE Vector load_first(const double* from, int64_t count) {
    return {_mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1u), from)};
  }
  static TAMIS_INLINE Vector broadcast(double number) { return {_mm512_set1_pd(number)}; }
  TAMIS_INLINE void store(double* to) const { _mm512_storeu_pd(to, value); }
  TAMIS_INLINE Vector times(Vector other) const { return {_mm512_mul_pd(value, other.value)}; }
  TAMIS_INLINE Vector plus_product(Vector a, Vector b) const { return {_mm512_fmadd_pd(a.value, b.value, value)}; }
  TAMIS_INLINE Vector minus_product(Vector a, Vector b) const { return {_mm512_fnmadd_pd(a.value, b.value, value)}; }
};

TAMIS_INLINE double add_lanes(const Vector (&parts)[1]) {
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(parts[0].value), _mm512_extractf64x4_pd(parts[0].value, 1));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#elif defined(__AVX2__) && defined(__FMA__)

struct Vector {
  __m256d value;

  static constexpr int64_t kLanes = 4;
  static constexpr bool kIsFused = true;
  // Of 16 registers a tile of products takes 12.
  static constexpr int kTileRows = 4, kTileVectors = 3, kSideVectors = 1;
  static constexpr int kScoreVectors = 1, kSumRows = 2, kSumColumns = 2;

  static TAMIS_INLINE Vector zero() { return {_mm256_setzero_pd()}; }
  static TAMIS_INLINE Vector load(const double* from) { return {_mm256_loadu_pd(from)}; }
  static TAMIS_INLINE Vector load_first(const double* from, int64_t count) {
    const __m256i lanes = _mm256_set_epi64x(3, 2, 1, 0);
    return {_mm256_maskload_pd(from, _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), lanes))};
  }
  static TAMIS_INLINE Vector broadcast(double number) { return {_mm256_set1_pd(number)}; }
  TAMIS_INLINE void store(double* to) const { _mm256_storeu_pd(to, value); }
  TAMIS_INLINE Vector times(Vector other) const { return {_mm256_mul_pd(value, other.value)}; }
  TAMIS_INLINE Vector plus_product(Vector a, Vector b) const { return {_mm256_fmadd_pd(a.value, b.value, value)}; }
  TAMIS_INLINE Vector minus_product(Vector a, Vector b) const { return {_mm256_fnmadd_pd(a.value, b.value, value)}; }
};

TAMIS_INLINE double add_lanes(const Vector (&parts)[2]) {
  const __m256d four = _mm256_add_pd(parts[0].value, parts[1].value);
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#elif defined(__aarch64__) && defined(__ARM_NEON)

struct Vector {
  float64x2_t value;

  static constexpr int64_t kLanes = 2;
  static constexpr bool kIsFused = true;
  // Of 32 registers a tile of products takes 16.
  static constexpr int kTileRows = 4, kTileVectors = 4, kSideVectors = 2;
  static constexpr int kScoreVectors = 2, kSumRows = 2, kSumColumns = 2;

  static TAMIS_INLINE Vector zero() { return {vdupq_n_f64(0.0)}; }
  static TAMIS_INLINE Vector load(const double* from) { return {vld1q_f64(from)}; }
  static TAMIS_INLINE Vector load_first(const double* from, int64_t count) {
    if (count >= kLanes) return load(from);
    return {count > 0 ? vsetq_lane_f64(from[0], vdupq_n_f64(0.0), 0) : vdupq_n_f64(0.0)};
  }
  static TAMIS_INLINE Vector broadcast(double number) { return {vdupq_n_f64(number)}; }
  TAMIS_INLINE void store(double* to) const { vst1q_f64(to, value); }
  TAMIS_INLINE Vector times(Vector other) const { return {vmulq_f64(value, other.value)}; }
  TAMIS_INLINE Vector plus_product(Vector a, Vector b) const { return {vfmaq_f64(value, a.value, b.value)}; }
  TAMIS_INLINE Vector minus_product(Vector a, Vector b) const { return {vfmsq_f64(value, a.value, b.value)}; }
};

TAMIS_INLINE double add_lanes(const Vector (&parts)[4]) {
  const float64x2_t low = vaddq_f64(parts[0].value, parts[2].value), high = vaddq_f64(parts[1].value, parts[3].value);
  const float64x2_t two = vaddq_f64(low, high);
  return vgetq_lane_f64(two, 0) + vgetq_lane_f64(two, 1);
}

#elif defined(__SSE2__) || defined(_M_X64)

// Processors before 2013 cannot fuse a product with a sum: each is rounded.
struct Vector {
  __m128d value;

  static constexpr int64_t kLanes = 2;
  static constexpr bool kIsFused = false;
  // Of 16 registers a tile of products takes 8, and the products before they are added take more.
  static constexpr int kTileRows = 4, kTileVectors = 2, kSideVectors = 1;
  static constexpr int kScoreVectors = 1, kSumRows = 1, kSumColumns = 2;

  static TAMIS_INLINE Vector zero() { return {_mm_setzero_pd()}; }
  static TAMIS_INLINE Vector load(const double* from) { return {_mm_loadu_pd(from)}; }
  static TAMIS_INLINE Vector load_first(const double* from, int64_t count) {
    return {count >= kLanes ? _mm_loadu_pd(from) : count > 0 ? _mm_load_sd(from) : _mm_setzero_pd()};
  }
  static TAMIS_INLINE Vector broadcast(double number) { return {_mm_set1_pd(number)}; }
  TAMIS_INLINE void store(double* to) const { _mm_storeu_pd(to, value); }
  TAMIS_INLINE Vector times(Vector other) const { return {_mm_mul_pd(value, other.value)}; }
  TAMIS_INLINE Vector plus_product(Vector a, Vector b) const { return {_mm_add_pd(value, _mm_mul_pd(a.value, b.value))}; }
  TAMIS_INLINE Vector minus_product(Vector a, Vector b) const { return {_mm_sub_pd(value, _mm_mul_pd(a.value, b.value))}; }
};

TAMIS_INLINE double add_lanes(const Vector (&parts)[4]) {
  const __m128d low = _mm_add_pd(parts[0].value, parts[2].value), high = _mm_add_pd(parts[1].value, parts[3].value);
  const __m128d two = _mm_add_pd(low, high);
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#else

// Any other processor: arrays of numbers, which the compiler may vectorize.
struct Vector {
  double value;

  static constexpr int64_t kLanes = 1;
  static constexpr bool kIsFused = false;
  static constexpr int kTileRows = 4, kTileVectors = 2, kSideVectors = 1;
  static constexpr int kScoreVectors = 1, kSumRows = 1, kSumColumns = 2;

  static TAMIS_INLINE Vector zero() { return {0.0}; }
  static TAMIS_INLINE Vector load(const double* from) { return {*from}; }
  static TAMIS_INLINE Vector load_first(const double* from, int64_t count) { return {count > 0 ? *from : 0.0}; }
  static TAMIS_INLINE Vector broadcast(double number) { return {number}; }
  TAMIS_INLINE void store(double* to) const { *to = value; }
  TAMIS_INLINE Vector times(Vector other) const { return {value * other.value}; }
  TAMIS_INLINE Vector plus_product(Vector a, Vector b) const { return {value + a.value * b.value}; }
  TAMIS_INLINE Vector minus_product(Vector a, Vector b) const { return {value - a.value * b.value}; }
};

TAMIS_INLINE double add_lanes(const Vector (&parts)[8]) {
  double four[4];
  for (int i = 0; i < 4; ++i) four[i] = parts[i].value + parts[i + 4].value;
  return (four[0] + four[2]) + (four[1] + four[3]);
}

#endif

// The number of vectors that make a row of a block.
constexpr int kParts = static_cast<int>(kBlock / Vector::kLanes);

}  // namespace
