// Refusal of arguments: Python gets a ValueError.
#pragma once

#include <stdexcept>

namespace tamis {

// It is never inlined, so that the loops that call it stay short.
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
