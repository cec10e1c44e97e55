// Products of rows about a centre, and the choice of the variant of dense kernels that this processor can run.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "columns.hpp"
#include "common.hpp"
#include "dense/require.hpp"
#include "dense/variants.hpp"
#include "parts.hpp"

namespace tamis {

namespace {

// Calls `visit` with each variant that this processor can run, the fastest first.
template <class Visit>
void visit_variants(Visit visit) {
#if defined(TAMIS_HAS_AVX512)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    visit(avx512_variant);
  }
#endif
#if defined(TAMIS_HAS_AVX2)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) visit(avx2_variant);
#endif
  visit(baseline_variant);
}

const Variant* find_fastest() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
#endif
  const Variant* fastest = nullptr;
  visit_variants([&](const Variant& each) { fastest = fastest == nullptr ? &each : fastest; });
  return fastest;
}

std::atomic<const Variant*> chosen{find_fastest()};

// Return for each variant that can run its name, and whether it fuses products with sums.
nb::list list_variants() {
  nb::list names;
  visit_variants([&](const Variant& each) { names.append(nb::make_tuple(each.name, each.is_fused)); });
  return names;
}

// Use another variant from now on, for tests; return the name of the one that was used before.
const char* use_variant(const char* name) {
  const Variant* wanted = nullptr;
  visit_variants([&](const Variant& each) { wanted = std::strcmp(each.name, name) == 0 ? &each : wanted; });
  require(wanted != nullptr, "got a variant that this processor cannot run, expected one of variants()");
  return chosen.exchange(wanted)->name;
}

using Product = nb::ndarray<nb::numpy, double, nb::ndim<2>>;

// Σ w (x − c)(x − c)ᵀ (d, d) of the rows at places from start to stop; the lower triangle is 0.
Product multiply_centred_rows(const Input<double, 2>& values, const Input<double, 1>& centre, std::int64_t start,
                              std::int64_t stop, const Input<std::int64_t, 1>& order, const Input<double, 2>& weights,
                              const Input<double, 2>& extra) {
  const std::size_t rows = values.shape(0), p = values.shape(1), d = centre.shape(0);
  require_rows(start, stop, order.is_valid() ? order.shape(0) : rows);
  require(!weights.is_valid() || (weights.shape(0) == rows && weights.shape(1) == 1), "got weights, expected one per row");
  require(extra.is_valid() ? extra.shape(0) == rows && p + extra.shape(1) == d : p == d,
          "got a centre, expected one number per column");
  auto out = std::make_unique<double[]>(d * d);
  const CentredRows given = {
      values.data(),
      nullptr,
      extra.is_valid() ? extra.data() : nullptr,
      centre.data(),
      weights.is_valid() ? weights.data() : nullptr,
      order.is_valid() ? order.data() : nullptr,
      static_cast<std::int64_t>(rows),
      static_cast<std::int64_t>(p),
      static_cast<std::int64_t>(d),
      start,
      stop,
  };
  Outcome outcome;
  {
    nb::gil_scoped_release release;
    outcome = variant().multiply_centred(given, out.get());
  }
  require_done(outcome);
  nb::capsule owner(out.get(), [](void* numbers) noexcept { delete[] static_cast<double*>(numbers); });
  return Product(out.release(), {d, d}, owner);
}

// The product of each block of `block` rows from `start` to `stop`, without weights: (blocks, d(d+1)/2), packed upper triangles.
Product multiply_blocks(CentredRows given, std::size_t start, std::size_t stop, std::size_t block) {
  require_rows(static_cast<std::int64_t>(start), static_cast<std::int64_t>(stop), static_cast<std::size_t>(given.rows));
  require(block > 0, "got blocks without rows, expected at least one");
  const std::size_t d = static_cast<std::size_t>(given.all_columns), pairs = d * (d + 1) / 2;
  const std::size_t blocks = (stop - start) / block + ((stop - start) % block > 0 ? 1 : 0);
  auto out = std::make_unique<double[]>(blocks * pairs);
  Outcome outcome = Outcome::kDone;
  {
    nb::gil_scoped_release release;
    const auto products = std::make_unique<double[]>(d * d);
    for (std::size_t b = 0; b < blocks && outcome == Outcome::kDone; ++b) {
      given.start = static_cast<std::int64_t>(start + b * block);
      given.stop = static_cast<std::int64_t>(std::min(stop, start + (b + 1) * block));
      outcome = variant().multiply_centred(given, products.get());
      double* packed = out.get() + b * pairs;
      for (std::size_t i = 0; i < d; ++i) packed = std::copy(&products[i * d + i], &products[i * d] + d, packed);
    }
  }
  require_done(outcome);
  nb::capsule owner(out.get(), [](void* numbers) noexcept { delete[] static_cast<double*>(numbers); });
  return Product(out.release(), {blocks, pairs}, owner);
}

CentredRows describe_rows(const double* values, const double* const* apart, const double* centre, std::size_t rows,
                          std::size_t columns) {
  const std::int64_t width = static_cast<std::int64_t>(columns);
  return {values, apart, nullptr, centre, nullptr, nullptr, static_cast<std::int64_t>(rows), width, width, 0, 0};
}

Product multiply_row_blocks(const Input<double, 2>& values, const Input<double, 1>& centre, std::size_t start,
                            std::size_t stop, std::size_t block) {
  require(values.shape(1) == centre.shape(0), "got a centre, expected one number per column");
  return multiply_blocks(describe_rows(values.data(), nullptr, centre.data(), values.shape(0), values.shape(1)), start, stop,
                         block);
}

Product multiply_column_blocks(const nb::list& given, const Input<double, 1>& centre, std::size_t start, std::size_t stop,
                               std::size_t block) {
  const Columns columns(given);
  require(columns.values.size() == centre.shape(0), "got a centre, expected one number per column");
  return multiply_blocks(
      describe_rows(nullptr, columns.values.data(), centre.data(), columns.rows, columns.values.size()), start, stop, block);
}

// Σ r [x, 1][x, 1]ᵀ by class (classes, d + 1, d + 1), and Σ w log p(row), of the rows from start to stop.
nb::tuple sum_responsible_rows(const Input<double, 2>& rows, std::int64_t start, std::int64_t stop,
                               const Input<double, 1>& weights, const Input<double, 1>& origin,
                               const Input<double, 1>& constant, const Input<double, 2>& linear,
                               const Input<double, 3>& quadratic, bool hard) {
  const std::size_t d = rows.shape(1), classes = constant.shape(0), width = d + 1;
  require_rows(start, stop, rows.shape(0));
  require(classes > 0, "got no classes, expected at least one");
  require(!weights.is_valid() || weights.shape(0) == rows.shape(0), "got weights, expected one per row");
  require(origin.shape(0) == d, "got an origin, expected one number per column");
  require(linear.shape(0) == classes && linear.shape(1) == d && quadratic.shape(0) == classes && quadratic.shape(1) == d &&
              quadratic.shape(2) == d,
          "got parameters of several sizes, expected one");
  auto out = std::make_unique<double[]>(classes * width * width);
  const GaussianRows given = {
      rows.data(),
      weights.is_valid() ? weights.data() : nullptr,
      origin.data(),
      constant.data(),
      linear.data(),
      quadratic.data(),
      static_cast<std::int64_t>(d),
      static_cast<std::int64_t>(classes),
      start,
      stop,
      hard,
  };
  double log_likelihood = 0.0;
  Outcome outcome;
  {
    nb::gil_scoped_release release;
    outcome = variant().sum_responsible(given, out.get(), &log_likelihood);
  }
  require_done(outcome);
  nb::capsule owner(out.get(), [](void* numbers) noexcept { delete[] static_cast<double*>(numbers); });
  using Sums = nb::ndarray<nb::numpy, double, nb::ndim<3>>;
  return nb::make_tuple(Sums(out.release(), {classes, width, width}, owner), log_likelihood);
}

}  // namespace

const Variant& variant() { return *chosen.load(std::memory_order_relaxed); }

void bind_dense(nb::module_& m) {
  m.def("multiply_centred", &multiply_centred_rows, nb::arg("values").noconvert(), nb::arg("centre").noconvert(),
        nb::arg("start"), nb::arg("stop"), nb::arg("order").noconvert().none(), nb::arg("weights").noconvert().none(),
        nb::arg("extra").noconvert().none());
  m.def("multiply_row_blocks", &multiply_row_blocks, nb::arg("values").noconvert(), nb::arg("centre").noconvert(),
        nb::arg("start"), nb::arg("stop"), nb::arg("block"));
  m.def("multiply_column_blocks", &multiply_column_blocks, nb::arg("columns"), nb::arg("centre").noconvert(), nb::arg("start"),
        nb::arg("stop"), nb::arg("block"));
  m.def("sum_responsible", &sum_responsible_rows, nb::arg("rows").noconvert(), nb::arg("start"), nb::arg("stop"),
        nb::arg("weights").noconvert().none(), nb::arg("origin").noconvert(), nb::arg("constant").noconvert(),
        nb::arg("linear").noconvert(), nb::arg("quadratic").noconvert(), nb::arg("hard"));
  m.def("variants", &list_variants);
  m.def("use_variant", &use_variant, nb::arg("name"));
}

}  // namespace tamis
