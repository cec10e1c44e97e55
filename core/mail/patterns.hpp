// Computes the patterns of header fields. The reference is `tamis_mail.tokens.patterns`.
#pragma once

#include <string>

#include "fields.hpp"
#include "hops.hpp"

namespace tamis::mail {

// Returns the distinct tokens of patterns, in UTF-8, separated by spaces.
std::string read_patterns(const SelectedFields& fields, const Hops& hops);

}  // namespace tamis::mail
