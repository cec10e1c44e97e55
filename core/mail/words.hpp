// Divides folded text into words, in any script. The reference is `tamis_mail.tokens.words`.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "folding.hpp"
#include "unicode.hpp"

namespace tamis::mail {

constexpr std::size_t kLongestToken = 40;  // Letters of a token: only the beginning of a longer one is used.

// Returns the words of folded text, in UTF-8, separated by spaces.
std::string separate_words(TextView text);
std::string separate_words(std::string_view ascii);
// Returns the first `limit` words of folded text, each in UTF-8 and truncated to kLongestToken letters.
std::vector<std::string> split_words(TextView text, std::size_t limit);
std::vector<std::string> split_words(std::string_view ascii, std::size_t limit);
// Calls `use` with each of the first `limit` words of what `separate_words` returned.
template <class Use>
void for_each_word(std::string_view separated, std::size_t limit, Use use) {
  for (std::size_t place = 0, count = 0; count < limit; ++count) {
    while (place < separated.size() && separated[place] == ' ') ++place;
    if (place == separated.size()) return;
    const std::size_t end = std::min(separated.find(' ', place), separated.size());
    use(separated.substr(place, end - place));
    place = end;
  }
}

// Returns a host and its parent domains, without the top-level domain: they are parts of `name`.
std::vector<TextView> find_hosts(TextView name);
std::vector<std::string_view> find_hosts(std::string_view name);
// Returns a numeric address and its networks: they are parts of `address`.
std::vector<TextView> find_networks(TextView address);
std::vector<std::string_view> find_networks(std::string_view address);

}  // namespace tamis::mail
