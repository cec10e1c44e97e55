// Messages that are read together, and what was read of them. Python holds a batch and asks for its parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "canonical.hpp"

namespace tamis::mail {

struct MessageBatch {
  std::vector<std::string> canonical;
  std::vector<Digest> digests;
  std::vector<std::vector<std::uint64_t>> features;  // Of each message, in ascending order; empty until they are read.
};

}  // namespace tamis::mail
