// The compiled core of tamis: one extension module, `tamis._core`. `tamis.compiled` loads it, and the
// compiled kernels under `tamis._kernels` call its parts.
#include "common.hpp"
#include "parts.hpp"

namespace {

const char* name_processor() {
#if defined(__x86_64__) && defined(__GNUC__)
  return __builtin_cpu_supports("avx512f") ? "AVX-512" : __builtin_cpu_supports("avx2") ? "AVX2" : "x86-64";
#elif defined(__aarch64__)
  return "ARM with NEON";
#else
  return "any processor";
#endif
}

}  // namespace

NB_MODULE(_core, m) {
  tamis::nb::set_leak_warnings(false);  // Modules keep readers of messages until the interpreter ends.
  m.attr("processor") = name_processor();
  auto add = [&m](const char* name, void (*bind)(tamis::nb::module_&)) {
    tamis::nb::module_ part = m.def_submodule(name);
    bind(part);
  };
  add("sums", tamis::bind_sums);
  add("text", tamis::bind_text);
  add("dense", tamis::bind_dense);
  add("factors", tamis::bind_factors);
  add("mail", tamis::bind_mail);
}
