// Searches bytes for a short part.
#pragma once

#include <cstddef>
#include <string_view>

namespace tamis::mail {

// As `text.find(part, place)` for a short part of two bytes or more. Its first and its last byte are compared at 64 places at once:
// std::string_view::find stops at each first byte, and mail is full of line breaks.
std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t place = 0);

}  // namespace tamis::mail
