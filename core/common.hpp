// Types of the NumPy arrays that bound functions take, and functions that are compiled for several processors.
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
// Arrays that a function writes to.
template <class T, int Dimensions>
using Output = nb::ndarray<T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;

}  // namespace tamis

// A function with this mark is compiled for three generations of x86-64, and the processor chooses one when the core is loaded.
// Functions that it calls are compiled so only if they are inlined. Results are the same: no operations are fused or reordered.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define TAMIS_FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TAMIS_FOR_EACH_PROCESSOR
#endif
