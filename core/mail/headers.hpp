// Computes the tokens of header fields. The reference is `tamis_mail.tokens.headers`.
#pragma once

#include <string>
#include <vector>

#include "fields.hpp"

namespace tamis::mail {

// Returns the tokens of the header fields, in order, in UTF-8, separated by spaces.
std::string read_headers(const std::vector<Field>& fields);

}  // namespace tamis::mail
