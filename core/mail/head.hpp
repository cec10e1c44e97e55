// The raw header block to its beginning, without values that are unique: `tamis_mail.tokens.head`.
#pragma once

#include <string>
#include <string_view>

namespace tamis::mail {

std::string read_head(std::string_view raw);

}  // namespace tamis::mail
