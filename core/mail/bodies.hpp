// Reads the body of a message: its words in order, and marks (tokens for hosts, files, structure, hidden words and tricks). The
// reference is `tamis_mail.tokens.body`, of which versions 2 and 3 are read here; tests/mail/tokens/test_compiled_pages.py compares
// the two.
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
  std::int64_t hidden = 0;  // The number of hidden words.
};

// Reads the body of a `tamis_mail.message.Message`: all of its parts, because mail programs differ in which they show.
// `version` is that of the tokens: since version 3, numbers are among the marks.
Body read_body(const Message& message, int version);

}  // namespace tamis::mail
