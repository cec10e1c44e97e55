// The fields of a header block.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../common.hpp"

namespace tamis::mail {

struct RawField {
  std::string name;   // In lower case.
  std::string value;  // Unfolded; one byte per character, as Latin-1.
};

// Appends at most `room` fields of a block, with names and values truncated to their limits; returns false if a line is no field.
bool read_header_block(std::string_view block, std::size_t room, std::size_t longest_name, std::size_t longest_value,
                       std::vector<RawField>& fields);

// Adds `read_header_block` to `tamis._core.mail`.
void bind_header_block(nb::module_& m);

}  // namespace tamis::mail
