// Folded text to words, in any script: `tamis_mail.tokens.words`.
#pragma once

#include <string>
#include <vector>

#include "folding.hpp"
#include "unicode.hpp"

namespace tamis::mail {

constexpr std::size_t kLongestToken = 40;  // Letters of a token: only the beginning of a longer one is used.

// The words of folded text, in UTF-8, separated by spaces.
std::string separate_words(TextView text);
// The first words of folded text, at most `limit`, each in UTF-8 and cut to the letters of a token.
std::vector<std::string> split_words(TextView text, std::size_t limit);

// A host and its parent domains, without the top-level domain: parts of `name`.
std::vector<TextView> find_hosts(TextView name);
// A numeric address and its networks: parts of `address`.
std::vector<TextView> find_networks(TextView address);

}  // namespace tamis::mail
