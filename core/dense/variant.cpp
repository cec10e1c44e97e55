// One variant of the kernels, for the processors that this file is compiled for. See variants.hpp.
#include "variants.hpp"

#include "../factors/rows.hpp"
#include "../sums/lanes.hpp"
#include "centred.hpp"
#include "responsibilities.hpp"

namespace tamis {

#if defined(TAMIS_VARIANT_AVX512)
#define TAMIS_VARIANT avx512_variant
#define TAMIS_VARIANT_NAME "AVX-512"
static_assert(Vector::kLanes == 8, "expected to be compiled for AVX-512");
#elif defined(TAMIS_VARIANT_AVX2)
#define TAMIS_VARIANT avx2_variant
#define TAMIS_VARIANT_NAME "AVX2"
static_assert(Vector::kLanes == 4, "expected to be compiled for AVX2");
#else
#define TAMIS_VARIANT baseline_variant
#define TAMIS_VARIANT_NAME "baseline"
#endif

extern const Variant TAMIS_VARIANT;
const Variant TAMIS_VARIANT = {
    TAMIS_VARIANT_NAME, Vector::kIsFused, multiply_centred, sum_responsible, solve_rows, sum_row_squares, multiply_pairs,
    {add_values<false>, add_values<true>}, {add_powers<false>, add_powers<true>},
};

}  // namespace tamis
