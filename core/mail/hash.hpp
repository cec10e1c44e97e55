// Computes the features of tokens. The reference is `tamis_mail.features.hashing`.
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

// Returns the distinct features of a message in ascending order; `view_bits` is 2 for tokens of version 1, and 3 for version 2.
std::vector<std::uint64_t> hash_tokens(const Documents& documents, int view_bits);

// Returns eight little-endian bytes per feature. The caller holds the interpreter's lock.
nb::bytes pack_features(const std::vector<std::uint64_t>& features);

}  // namespace tamis::mail
