#include "canonical.hpp"

#include <algorithm>

#include "search.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::size_t kLargest = 50'000'000;  // Bytes of a message that are used …
constexpr std::size_t kLargestRaw = 2 * kLargest;  // … and that are read.
constexpr std::size_t kHeader = std::size_t{1} << 20;  // Bytes of a header that are searched for volatile fields.
constexpr std::size_t kFields = 10'000;  // Fields of a header that are compared by name.
constexpr int kHeaders = 1000;  // Consecutive headers of volatile fields only.
constexpr std::size_t kQuotedLines = 100'000;  // Lines that are changed.
constexpr std::size_t kLongestName = 80;  // Bytes of a name that are compared.
constexpr std::size_t kFilteredSize = 64;  // Bytes of a name that is looked up in any case.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kBeginnings[] = {"x-", "content-length", "lines", "status"};  // Of all volatile fields.

char to_lower(char byte) { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte; }

bool is_at(std::string_view text, std::size_t place, std::string_view part) {
  return place <= text.size() && text.compare(place, part.size(), part) == 0;
}

// Whether a part, which is in lower case, is at this place in any case.
bool is_at_in_any_case(std::string_view text, std::size_t place, std::string_view part) {
  return place <= text.size() && part.size() <= text.size() - place &&
         std::equal(part.begin(), part.end(), text.begin() + static_cast<std::ptrdiff_t>(place),
                    [](char left, char right) { return left == to_lower(right); });
}

// As `text.replace(part, "\n")`.
std::string replace_by_line_break(const std::string& text, std::string_view part) {
  std::string replaced;
  replaced.reserve(text.size());
  std::size_t last = 0;
  for (std::size_t place = 0; (place = find_bytes(text, part, last)) != kNone; last = place + part.size()) {
    replaced.append(text, last, place - last).push_back('\n');
  }
  return replaced.append(text, last);
}

// Removes the quotes of lines that begin with ">From ", with any number of ">".
std::string remove_quotes(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  std::size_t last = 0, changes = 0;
  for (std::size_t line = 0; changes < kQuotedLines;) {
    std::size_t end = line;  // The end of the quotes.
    while (end < text.size() && text[end] == '>') ++end;
    if (end > line && is_at(text, end, "From ")) {
      plain.append(text.substr(last, line - last));
      last = end;
      ++changes;
    }
    const std::size_t line_break = text.find('\n', end);
    if (line_break == kNone) break;
    line = line_break + 1;
  }
  return plain.append(text.substr(last));
}

// Returns the place after blank lines, postmarks and byte order marks, of text without carriage returns: `envelope_end`.
std::size_t find_envelope_end(std::string_view text, std::size_t place = 0) {
  while (place < text.size()) {
    if (text[place] == '\n') {
      ++place;
    } else if (is_at(text, place, kByteOrderMark)) {
      place += kByteOrderMark.size();
    } else {
      const std::size_t from = std::min(text.find_first_not_of('>', place), text.size());
      if (!is_at(text, from, "From ")) return place;
      const std::size_t line_break = text.find('\n', from);
      place = line_break == kNone ? text.size() : line_break + 1;
    }
  }
  return place;
}

// Returns the place of the colon of the field that begins at `start`, if the field may be volatile; kNone otherwise.
std::size_t find_candidate(std::string_view block, std::size_t start) {
  for (const std::string_view beginning : kBeginnings) {
    if (!is_at_in_any_case(block, start, beginning)) continue;
    const std::size_t rest = start + beginning.size();
    const std::size_t end = block.substr(rest, kLongestName + 1).find_first_of("\n:");
    if (end != kNone && block[rest + end] == ':') return rest + end;
  }
  return kNone;
}

// Removes volatile fields from a header, and postmarks that are at its beginning after that.
std::string remove_volatile_fields(std::string_view header, const VolatileFields& volatile_fields) {
  std::string block = "\n";  // So that every field has a line break before it.
  block.append(header.substr(0, kHeader));
  const std::string_view text = block;
  std::string rest;
  std::size_t last = 0;  // Where the part that is not copied yet begins.
  std::size_t candidates = 0;
  for (std::size_t line_break = 0; line_break != kNone;) {
    std::size_t name = line_break + 1;
    while (is_at(text, name, kByteOrderMark)) name += kByteOrderMark.size();
    const std::size_t colon = find_candidate(text, name);
    std::size_t next = text.find('\n', colon == kNone ? name : colon + 1);
    if (colon != kNone) {
      if (candidates++ == kFields) break;
      if (volatile_fields.contains(text.substr(name, colon - name))) {
        while (next != kNone && next + 1 < text.size() && (text[next + 1] == ' ' || text[next + 1] == '\t')) {
          next = text.find('\n', next + 1);
        }
        rest.append(text.substr(last, line_break - last));
        last = next == kNone ? text.size() : next;
      }
    }
    line_break = next;
  }
  if (last == 0) return std::string(header.substr(find_envelope_end(header)));
  rest.append(text.substr(last)).append(header.substr(std::min(header.size(), kHeader)));
  const std::string_view remaining = std::string_view(rest).substr(std::min<std::size_t>(rest.size(), 1));
  return std::string(remaining.substr(find_envelope_end(remaining)));
}

}  // namespace

VolatileFields::VolatileFields(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!name.empty() && name.back() == '*') {
      const std::string prefix = name.substr(0, name.size() - 1);
      prefixes_.insert(prefix);
      prefix_sizes_.push_back(prefix.size());
      if (prefix.size() < kFilteredSize) add_lengths(prefix, ~std::uint64_t{0} << prefix.size());
    } else {
      names_.insert(name);
      if (name.size() < kFilteredSize) add_lengths(name, std::uint64_t{1} << name.size());
    }
  }
  std::sort(prefix_sizes_.begin(), prefix_sizes_.end());
  prefix_sizes_.erase(std::unique(prefix_sizes_.begin(), prefix_sizes_.end()), prefix_sizes_.end());
}

void VolatileFields::add_lengths(std::string_view name, std::uint64_t lengths) {
  if (name.size() > 2) {
    lengths_[static_cast<unsigned char>(name[2])] |= lengths;
  } else {
    for (std::uint64_t& all : lengths_) all |= lengths;
  }
}

bool VolatileFields::contains(std::string_view name) const {
  if (name.size() > kLongestName) return false;
  std::string plain(name);
  plain.resize(plain.find_last_not_of(" \t") + 1);
  std::transform(plain.begin(), plain.end(), plain.begin(), to_lower);
  // A field that was renamed: X-Old-X-Spam-Flag.
  while (is_at(plain, 0, "x-old-") && !is_at(plain, 0, "x-old-spam")) plain.erase(0, 6);
  if (plain.size() > 2 && plain.size() < kFilteredSize &&
      (lengths_[static_cast<unsigned char>(plain[2])] >> plain.size() & 1) == 0) {
    return false;
  }
  if (names_.count(plain) > 0) return true;
  return std::any_of(prefix_sizes_.begin(), prefix_sizes_.end(), [&](std::size_t size) {
    return size <= plain.size() && prefixes_.count(plain.substr(0, size)) > 0;
  });
}

std::string make_canonical(std::string_view raw, const VolatileFields& volatile_fields) {
  std::string changed;
  raw = raw.substr(0, kLargestRaw);
  if (raw.find('\r') != kNone) {
    changed = replace_by_line_break(std::string(raw), "\r\r\n");
    changed = replace_by_line_break(changed, "\r\n");
    std::replace(changed.begin(), changed.end(), '\r', '\n');
    raw = changed;
  }
  std::string unquoted;
  if (find_bytes(raw, ">From ") != kNone) {
    unquoted = remove_quotes(raw);
    raw = unquoted;
  }
  std::size_t end = 0;
  for (int count = 0; count < kHeaders; ++count) {  // Once, unless a header holds volatile fields only.
    const std::size_t start = find_envelope_end(raw, end);
    const std::size_t blank_line = find_bytes(raw, "\n\n", start);
    end = blank_line == kNone ? raw.size() : blank_line + 1;
    std::string canonical = remove_volatile_fields(raw.substr(start, end - start), volatile_fields);
    if (canonical.empty() && end < raw.size()) continue;
    canonical.append(raw.substr(end));
    canonical.resize(std::min(canonical.size(), kLargest));
    canonical.resize(canonical.find_last_not_of('\n') + 1);
    return canonical;
  }
  return {};
}

}  // namespace tamis::mail
