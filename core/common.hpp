// Types of the arrays that cross the border to Python, and the choice of instructions by processor.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>

namespace tamis {

namespace nb = nanobind;

// Arrays that are only read: NumPy arrays in C order, read-only ones too. Every argument of a bound function is declared with
// `.noconvert()`, so that an array of another type or order is refused instead of copied.
template <class T, int Dimensions>
using Input = nb::ndarray<const T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;
// Arrays that are written to.
template <class T, int Dimensions>
using Output = nb::ndarray<T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;

}  // namespace tamis

// A function with this mark is compiled for three generations of x86-64, and the processor chooses one when the core is loaded.
// Only what is inlined into it is compiled so. Results are the same, because nothing is fused or reordered.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define TAMIS_FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TAMIS_FOR_EACH_PROCESSOR
#endif
