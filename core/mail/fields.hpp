// The header fields of a message and the addresses in them, for headers.cpp and relations.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "unicode.hpp"

namespace tamis::mail {

struct Field {
  std::string name;  // UTF-8
  Text value;        // Its beginning, as far as it is read.
};

// Returns the first fields of a message; `headers` is a sequence of pairs of str (`Message.headers`).
std::vector<Field> read_fields(nb::handle headers);

// Returns the start and the end of each address in a value: `tamis_mail.tokens.headers.find_addresses`.
using Place = std::pair<std::size_t, std::size_t>;
std::vector<Place> find_addresses(TextView value);
// Returns the value with a space in place of each address.
Text remove_addresses(TextView value);

// Returns the first `limit` matches of `[class]{least,most}`, from left to right; `is_member` tells the class.
template <class Predicate>
std::vector<TextView> find_runs(TextView text, Predicate is_member, std::size_t least, std::size_t most,
                                std::size_t limit = kNowhere) {
  std::vector<TextView> runs;
  for (std::size_t place = 0; place < text.size() && runs.size() < limit;) {
    const std::size_t start = place;
    while (place < text.size() && place - start < most && is_member(text[place])) ++place;
    if (place - start >= least) {
      runs.push_back(text.substr(start, place - start));
    } else if (place == start) {
      ++place;
    }
  }
  return runs;
}

// Returns the number of characters from `start` on that belong to a class, at most `most`.
template <class Predicate>
std::size_t count_members(TextView text, std::size_t start, Predicate is_member, std::size_t most) {
  std::size_t size = 0;
  while (size < most && start + size < text.size() && is_member(text[start + size])) ++size;
  return size;
}

// As `[\w.\-]`.
inline bool is_domain_character(char32_t c) { return c == U'.' || c == U'-' || is_word(c); }
// As `\b` before a word character at this place.
inline bool begins_word(TextView text, std::size_t place) { return place == 0 || !is_word(text[place - 1]); }

}  // namespace tamis::mail
