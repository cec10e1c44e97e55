// Text to words, in any script: `tamis_mail.tokens.words`, and the folding of text (`tamis_mail.message.fold_text`).
#pragma once

#include <string>
#include <vector>

#include "unicode.hpp"

namespace tamis::mail {

constexpr std::size_t kLongestToken = 40;  // Letters of a token: only the beginning of a longer one is used.

struct FoldedText {
  Text text;
  std::vector<Text> tricks;  // In ascending order.
};

// Normalised text in lower case without invisible characters and look-alikes, and the tricks. ASCII is folded here;
// other text by the Python function, which uses the tables of `unicodedata`.
FoldedText fold_text(TextView text);

// The words of folded text, in UTF-8, separated by spaces.
std::string separate_words(TextView text);
// The first words of folded text, at most `limit`, each in UTF-8 and cut to the letters of a token.
std::vector<std::string> split_words(TextView text, std::size_t limit);

// A host and its parent domains, without the top-level domain: parts of `name`.
std::vector<TextView> find_hosts(TextView name);
// A numeric address and its networks: parts of `address`.
std::vector<TextView> find_networks(TextView address);

}  // namespace tamis::mail
