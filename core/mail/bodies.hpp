// The parts of a message to its words in order, and marks: hosts, files, shape, hidden words and tricks. Version 2 of
// `tamis_mail.tokens.body`, which says what is meant; tests/mail/tokens/test_compiled_pages.py keeps the two equal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "message.hpp"

namespace tamis::mail {

struct Body {
  std::string words;  // UTF-8; the words of each part, and line breaks between the parts.
  Text marks;         // Separated by spaces.
  std::vector<Text> links;
  std::vector<Text> images;
  std::int64_t hidden = 0;  // Hidden words.
};

// Reads all parts of a `tamis_mail.message.Message`, because mail programs differ in which they show.
Body read_body(const Message& message);

}  // namespace tamis::mail
