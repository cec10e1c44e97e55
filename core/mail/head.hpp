// Returns the beginning of a raw header block, without values that are unique to a message: `tamis_mail.tokens.head`.
#pragma once

#include <string>
#include <string_view>

namespace tamis::mail {

std::string read_head(std::string_view raw);

}  // namespace tamis::mail
