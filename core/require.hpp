// Checks of arguments; a failed check raises ValueError in Python.
#pragma once

#include <stdexcept>

namespace tamis {

// Not inlined, so that the code of the loops that call it stays short.
#if defined(__GNUC__)
__attribute__((noinline, cold))
#endif
[[noreturn]] inline void refuse(const char* message) {
  throw std::invalid_argument(message);
}

inline void require(bool holds, const char* message) {
  if (!holds) refuse(message);
}

}  // namespace tamis
