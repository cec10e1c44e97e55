// The fields of a header block.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "../common.hpp"

namespace tamis::mail {

struct RawField {
  std::string_view name;   // In lower case.
  std::string_view value;  // Unfolded; one byte per character, as Latin-1.
};

// Fields and the memory that holds their names, and the values that were folded. Other values are in the block itself, which the
// caller keeps.
struct RawFields {
  std::vector<RawField> fields;
  std::shared_ptr<char[]> memory;
};

// Reads at most `room` fields of a block, with names and values truncated to their limits; returns false if a line is no field.
bool read_header_block(std::string_view block, std::size_t room, std::size_t longest_name, std::size_t longest_value,
                       RawFields& fields);

// Adds `read_header_block` to `tamis._core.mail`.
void bind_header_block(nb::module_& m);

}  // namespace tamis::mail
