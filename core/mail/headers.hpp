// Header fields to tokens: `tamis_mail.tokens.headers`, which says what they mean.
#pragma once

#include <string>
#include <vector>

#include "fields.hpp"

namespace tamis::mail {

// The tokens of the header fields, in order, in UTF-8, separated by spaces.
std::string read_headers(const std::vector<Field>& fields);

}  // namespace tamis::mail
