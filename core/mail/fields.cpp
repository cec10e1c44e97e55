#include "fields.hpp"

#include <algorithm>

#include "../require.hpp"

namespace tamis::mail {

namespace {

constexpr Py_ssize_t kFields = 200;         // Fields of a message that are read.
constexpr std::size_t kLongestValue = 5000;  // Characters of a field that are read.
constexpr std::size_t kLongestLocal = 100;   // Characters before an at sign that belong to an address.
constexpr std::size_t kLongestDomain = 200;

bool is_local(char32_t c) { return c < 128 ? is_ascii_class(c, character_class::kLocal) : !is_space(c); }

template <class Char>
std::vector<Place> find_all_addresses(View<Char> value) {
  std::vector<Place> places;
  std::size_t end = 0;  // Of the last address: the next one begins after it.
  for (std::size_t at = value.find('@'); at != kNowhere; at = value.find('@', at)) {
    const std::size_t size = count_members(value, at + 1, is_domain_character, kLongestDomain);
    if (size > 0) {
      const std::size_t earliest = std::max(end, at - std::min(at, kLongestLocal));
      std::size_t start = at;
      while (start > earliest && is_local(value[start - 1])) --start;
      if (start < at) {
        end = at + 1 + size;
        places.emplace_back(start, end);
      }
    }
    at += 1 + size;
  }
  return places;
}

template <class Char>
String<Char> remove_all_addresses(View<Char> value, const std::vector<Place>& addresses) {
  String<Char> rest;
  rest.reserve(value.size() + 1);
  std::size_t last = 0;
  for (const auto& [start, end] : addresses) {
    rest.append(value, last, start - last);
    rest.push_back(' ');
    last = end;
  }
  return rest.append(value, last);
}

}  // namespace

void FieldList::add(std::string_view name, Text value) {
  bytes_.emplace_back(name);
  const std::string_view kept = bytes_.back();
  if (is_ascii(value)) {
    bytes_.push_back(to_utf8(value));
    add_view(kept, bytes_.back());
  } else {
    add_view(kept, std::move(value));
  }
}

FieldList read_fields(nb::handle headers) {
  const nb::tuple pairs(nb::borrow(headers));
  FieldList fields;
  const auto count = std::min<std::size_t>(pairs.size(), kFields);
  fields.reserve(count);
  for (std::size_t index = 0; index < count; ++index) {
    const nb::tuple pair(nb::borrow(pairs[index]));
    if (pair.size() != 2) refuse("a header field is a pair of name and value");
    fields.add(to_utf8(to_text(pair[0])), to_text(pair[1], kLongestValue));
  }
  return fields;
}

SelectedFields select_fields(const std::vector<Field>& fields) {
  SelectedFields selected;
  const auto take = [](const Field*& place, const Field& field, std::string_view name) {
    if (place == nullptr && field.name == name) place = &field;
  };
  for (const Field& field : fields) {
    switch (field.name.size()) {
      case 2:
        take(selected.to, field, "to");
        take(selected.cc, field, "cc");
        break;
      case 4:
        take(selected.from, field, "from");
        take(selected.date, field, "date");
        break;
      case 7:
        take(selected.subject, field, "subject");
        break;
      case 8:
        take(selected.reply_to, field, "reply-to");
        if (field.name == "received") {
          if (selected.hop_count == selected.hops.size()) {
            std::move(selected.hops.begin() + 1, selected.hops.end(), selected.hops.begin());
            --selected.hop_count;
          }
          selected.hops[selected.hop_count++] = &field;
        }
        break;
      case 10:
        take(selected.message_id, field, "message-id");
        break;
      case 11:
        take(selected.return_path, field, "return-path");
        break;
      case 12:
        take(selected.content_type, field, "content-type");
        break;
      default:
        break;
    }
  }
  return selected;
}

std::vector<Place> find_addresses(TextView value) { return find_all_addresses(value); }
std::vector<Place> find_addresses(std::string_view value) { return find_all_addresses(value); }
Text remove_addresses(TextView value, const std::vector<Place>& addresses) { return remove_all_addresses(value, addresses); }
std::string remove_addresses(std::string_view value, const std::vector<Place>& addresses) {
  return remove_all_addresses(value, addresses);
}

}  // namespace tamis::mail
