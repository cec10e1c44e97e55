// Checks of what bound functions of dense kernels and of factors are given.
#pragma once

#include <new>

#include "../require.hpp"
#include "variants.hpp"

namespace tamis {

inline void require_rows(std::int64_t start, std::int64_t stop, std::size_t rows) {
  require(0 <= start && start <= stop && static_cast<std::size_t>(stop) <= rows, "got rows outside of the array, expected inside");
}

inline void require_done(Outcome outcome) {
  if (outcome == Outcome::kNoMemory) throw std::bad_alloc();
  require(outcome == Outcome::kDone, "got places outside of the rows, expected inside");
}

}  // namespace tamis
