// A batch: messages that are read together, with their canonical forms, digests and features. Python holds it and asks for parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "digest.hpp"

namespace tamis::mail {

struct MessageBatch {
  std::vector<std::string> canonical;
  std::vector<Digest> digests;
  std::vector<std::vector<std::uint64_t>> features;  // Of each message, in ascending order; empty until they are computed.
};

}  // namespace tamis::mail
