// A message and its links to tokens that say whether its parts agree: `tamis_mail.tokens.relations`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "fields.hpp"

namespace tamis::mail {

// What is used of a part of a message (`tamis_mail.message.Part`).
struct PartFacts {
  Text kind;
  Text encoding;
  std::size_t size = 0;     // Characters of its text.
  std::vector<Text> styles;  // Names of the constructs of style sheets and pages that its text contains.
};

// What is used of a message and its body.
struct MessageFacts {
  std::vector<PartFacts> parts;  // The first ones.
  std::string_view raw;
  std::vector<Text> links;   // The first ones, and of each only the beginning, as of `images`.
  std::vector<Text> images;
  std::size_t hidden_words = 0;
};

// Read what is used of a message; `raw` is bytes, which must outlive the result, and the others are sequences.
MessageFacts read_facts(nb::bytes raw, nb::handle parts, nb::handle links, nb::handle images, std::size_t hidden_words);

// The tokens of a message, in UTF-8, separated by spaces.
std::string read_relations(const std::vector<Field>& fields, const MessageFacts& message);

// The part of a host that somebody registered.
Text find_domain(TextView host);

}  // namespace tamis::mail
