// Tokens to features: `tamis_mail.features.hashing`, which says what the numbers mean.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "../common.hpp"

namespace tamis::mail {

// The documents of a message (`tamis_mail.tokens.Tokens`).
struct Documents {
  std::string_view head, headers, words, marks, relations;
};

// The distinct features of a message in ascending order; `view_bits` is 2 for tokens of version 1, and 3 for version 2.
std::vector<std::uint64_t> hash_tokens(const Documents& documents, int view_bits);

// Eight little-endian bytes per feature. It needs the lock of the interpreter.
nb::bytes pack_features(const std::vector<std::uint64_t>& features);

}  // namespace tamis::mail
