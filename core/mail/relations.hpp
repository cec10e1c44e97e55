// A message and its links to tokens that say whether its parts agree: `tamis_mail.tokens.relations`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "fields.hpp"
#include "message.hpp"

namespace tamis::mail {

// What is used of a part of a message (`tamis_mail.message.Part`).
struct PartFacts {
  Text kind;
  Text encoding;
  std::size_t size = 0;      // Characters of its text.
  std::vector<Text> styles;  // Names of the constructs of style sheets and pages that its text contains.
};

// What is used of the first parts of a message.
std::vector<PartFacts> describe_parts(const std::vector<Part>& parts);

// What is used of a message and its body, besides the header fields.
struct MessageFacts {
  std::string_view raw;
  const std::vector<PartFacts>& parts;
  const std::vector<Text>& links;
  const std::vector<Text>& images;
  std::size_t hidden_words;
};

// The tokens of a message, in UTF-8, separated by spaces.
std::string read_relations(const std::vector<Field>& fields, const MessageFacts& message);

// The part of a host that somebody registered.
Text find_domain(TextView host);

}  // namespace tamis::mail
