// The header fields of a message and the addresses in them.
#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unicode.hpp"

namespace tamis::mail {

// A field; what it refers to is kept by the owner of the message.
struct Field {
  std::string_view name;  // UTF-8
  // The value, as far as it is read: bytes if it is ASCII, text otherwise.
  std::string_view ascii;
  TextView text;
  bool is_ascii = false;

  // Calls `use` with the value, in the form that it has.
  template <class Use>
  auto visit(Use use) const {
    return is_ascii ? use(ascii) : use(text);
  }
  std::size_t size() const { return is_ascii ? ascii.size() : text.size(); }
};

// Fields whose names and values are kept with them.
class FieldList {
 public:
  FieldList() = default;
  FieldList(FieldList&&) = default;
  FieldList& operator=(FieldList&&) = default;
  void add(std::string_view name, Text value);
  // Adds a field of which the name and the value are kept elsewhere.
  void add_view(std::string_view name, std::string_view ascii) { fields_.push_back({name, ascii, {}, true}); }
  void add_view(std::string_view name, Text value) {
    texts_.push_back(std::move(value));
    fields_.push_back({name, {}, texts_.back(), false});
  }
  void reserve(std::size_t count) { fields_.reserve(count); }
  const std::vector<Field>& all() const { return fields_; }

 private:
  std::vector<Field> fields_;
  std::list<std::string> bytes_;
  std::list<Text> texts_;
};

// Returns the first fields of a message; `headers` is a sequence of pairs of str (`Message.headers`).
FieldList read_fields(nb::handle headers);

// The first field of some names, and the oldest Received fields: `tamis_mail.tokens.headers.select_fields`.
struct SelectedFields {
  const Field* message_id = nullptr;
  const Field* from = nullptr;
  const Field* to = nullptr;
  const Field* cc = nullptr;
  const Field* reply_to = nullptr;
  const Field* return_path = nullptr;
  const Field* subject = nullptr;
  const Field* date = nullptr;
  const Field* content_type = nullptr;
  std::array<const Field*, 3> hops{};  // Of the first `hop_count`, the last one is the oldest.
  std::size_t hop_count = 0;
};
constexpr std::size_t kSelectedValue = 2000;  // Characters of a selected field that are read.

SelectedFields select_fields(const std::vector<Field>& fields);

// Returns the start and the end of each address in a value: `tamis_mail.tokens.headers.find_addresses`.
using Place = std::pair<std::size_t, std::size_t>;
std::vector<Place> find_addresses(TextView value);
std::vector<Place> find_addresses(std::string_view value);
// Returns a value with a space in place of each of its addresses, which are those of `find_addresses`.
Text remove_addresses(TextView value, const std::vector<Place>& addresses);
std::string remove_addresses(std::string_view value, const std::vector<Place>& addresses);

// Returns the first `limit` matches of `[class]{least,most}`, from left to right; `is_member` tells the class.
template <class Char, class Predicate>
std::vector<View<Char>> find_runs(View<Char> text, Predicate is_member, std::size_t least, std::size_t most,
                                  std::size_t limit = kNowhere) {
  std::vector<View<Char>> runs;
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
template <class Char, class Predicate>
std::size_t count_members(View<Char> text, std::size_t start, Predicate is_member, std::size_t most) {
  std::size_t size = 0;
  while (size < most && start + size < text.size() && is_member(text[start + size])) ++size;
  return size;
}

// As `[\w.\-]`.
inline bool is_domain_character(char32_t c) {
  return c < 128 ? is_ascii_class(c, character_class::kDomain) : is_word(c);
}
// As `\b` before a word character at this place.
template <class Char>
bool begins_word(View<Char> text, std::size_t place) {
  return place == 0 || !is_word(text[place - 1]);
}

}  // namespace tamis::mail
