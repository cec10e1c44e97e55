// Computes the tokens of relations, which say whether parts of a message agree. The reference is `tamis_mail.tokens.relations`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "fields.hpp"
#include "message.hpp"

namespace tamis::mail {

// The properties of a part of a message (`tamis_mail.message.Part`) that relations use.
struct PartFacts {
  Text kind;
  Text encoding;
  std::size_t size = 0;      // Characters of its text.
  std::vector<Text> styles;  // Names of the constructs of style sheets and pages that its text contains.
};

// The properties of the first parts of a message that relations use.
std::vector<PartFacts> describe_parts(const std::vector<Part>& parts);

// The properties of a message and its body, besides the header fields, that relations use.
struct MessageFacts {
  std::string_view raw;
  const std::vector<PartFacts>& parts;
  const std::vector<Text>& links;
  const std::vector<Text>& images;
  std::size_t hidden_words;
};

// Returns the tokens of a message, in UTF-8, separated by spaces.
std::string read_relations(const std::vector<Field>& fields, const MessageFacts& message);

// Returns the registrable domain of a host.
Text find_domain(TextView host);
std::string find_domain(std::string_view host);
// The same for a host in lower case, of which the domain is a part.
TextView find_lowered_domain(TextView host);
std::string_view find_lowered_domain(std::string_view host);

// Returns the largest power of two that is not above a number, with a plus sign; "0" for 0.
std::string describe_size(std::size_t number);

}  // namespace tamis::mail
