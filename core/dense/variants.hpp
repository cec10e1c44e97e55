// The kernels of small dense matrices, of factors and of exact sums of columns, each compiled for several generations of processors.
//
// `variant.cpp` is compiled once per variant, with the flags of that generation; the best that this processor has is chosen
// when the core is loaded. Variants that fuse products with sums give the same bits; the one that cannot, agrees to rounding.
#pragma once

#include <stdint.h>

namespace tamis {

enum class Outcome { kDone, kNoMemory, kPlaceOutside };

// The rows at the places from `start` to `stop`, their centre, and what they are multiplied by.
struct CentredRows {
  const double* values;    // (rows, columns), or null
  const double* const* apart;  // or columns (rows,), each in memory of its own; without order, weights and extra columns
  const double* extra;     // (rows, all_columns − columns): further columns of the same rows; null if there are none
  const double* centre;    // (all_columns,)
  const double* weights;   // (rows,), or null
  const int64_t* order;    // the row at each place, or null: they are in order
  int64_t rows, columns, all_columns, start, stop;
};

// Rows from `start` to `stop`, and Gaussians by class: log p(row, class) = constant + linear · x + xᵀ quadratic x, for x = row − origin.
struct GaussianRows {
  const double* rows;       // (rows, columns)
  const double* weights;    // (rows,), or null
  const double* origin;     // (columns,)
  const double* constant;   // (classes,)
  const double* linear;     // (classes, columns)
  const double* quadratic;  // (classes, columns, columns), symmetric
  int64_t columns, classes, start, stop;
  bool hard;                // whether a row belongs to its most probable class alone
};

// Entries of each row, from indptr[row] to indptr[row + 1]: the index of a row of the other side, and a weight.
struct Entries {
  const int64_t* indptr;
  const int64_t* indices;
  const double* weights;
};

// A ridge regression per row.
struct RowEquations {
  Entries entries;
  const double* pulls;          // of each entry
  const double* other;          // (others, k)
  const double* other_offsets;  // (others,)
  const double* ridge;          // (rows, k)
  const double* base;           // (k, k), or null
  const double* pull;           // (k,)
  const double* noise;          // (rows, k), or null
  int64_t k, start, stop;
};

// The targets of entries, and the factors of both sides; the last number of each row is its offset.
struct RowTargets {
  Entries entries;
  const double* targets;  // of each entry
  const double* rows;     // (rows, k + 1)
  const double* other;    // (others, k + 1)
  int64_t k, start, stop;
};

struct Variant {
  const char* name;
  bool is_fused;
  Outcome (*multiply_centred)(const CentredRows& given, double* out);         // (all_columns, all_columns), upper triangle
  // Σ r [x, 1][x, 1]ᵀ by class (classes, columns + 1, columns + 1), for responsibilities r, and Σ w log p(row); if that is not
  // finite, the sums have no meaning.
  Outcome (*sum_responsible)(const GaussianRows& given, double* out, double* log_likelihood);
  Outcome (*solve_rows)(const RowEquations& given, double* out);              // (rows, k)
  void (*sum_row_squares)(const RowTargets& given, double* out);              // (rows,)
  // The products of rows left[i[n]] and right[j[n]], for n from start to stop; 0 where either index is negative.
  void (*multiply_pairs)(const double* left, const double* right, int64_t k, const int64_t* i, const int64_t* j,
                         int64_t start, int64_t stop, double* out);
  // Adds n values, a multiple of kLanes, times a power of two, to the pieces (2, kLanes) of their sum. The second function
  // leaves out values that are too small for pieces.
  void (*add_values[2])(const double* values, int64_t n, double factor, double* pieces);
  // Adds them to the pieces (6, kLanes) of their sum and of that of their squares.
  void (*add_powers[2])(const double* values, int64_t n, double factor, double* pieces);
};

constexpr int64_t kLanes = 32;  // values that are added side by side: they fill the vector units

extern const Variant baseline_variant;
#if defined(TAMIS_HAS_AVX2)
extern const Variant avx2_variant;
#endif
#if defined(TAMIS_HAS_AVX512)
extern const Variant avx512_variant;
#endif

// The variant in use.
const Variant& variant();

}  // namespace tamis
