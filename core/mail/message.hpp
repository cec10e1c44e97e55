// A parsed message, of which tokens are read: `tamis_mail.message.Message`.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "charsets.hpp"
#include "dates.hpp"
#include "fields.hpp"

namespace tamis::mail {

struct Part {
  Text kind;
  Text charset;
  Text encoding;
  Text name;
  Text disposition;
  std::uint64_t size = 0;  // The number of bytes after decoding.
  Characters text;         // The beginning of the text, as far as it is read …
  std::size_t characters = 0;  // … and the number of characters of the whole text.
};

struct Message {
  std::string_view raw;
  FieldList fields;            // The first fields …
  std::shared_ptr<char[]> memory;  // … and the memory of their names and values that are not in `raw`.
  std::vector<Part> parts;
  Text shape;
  std::vector<Text> faults;
  DateReader date;
};

// A message that Python has parsed; `raw` keeps its bytes alive.
Message to_message(nb::handle message, nb::bytes& raw);

std::vector<Part> to_parts(nb::handle parts);

// Parses canonical bytes: `tamis_mail.message.parse`. Throws LeftToPython where only that function can.
Message parse_message(std::string_view canonical, const Charsets& charsets);

}  // namespace tamis::mail
