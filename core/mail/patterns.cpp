#include "patterns.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace tamis::mail {

namespace {

constexpr std::size_t kValue = 80;    // Characters of the value of a field, and of a boundary, that are read.
constexpr std::size_t kPattern = 40;  // Characters of the pattern of a field.
constexpr std::size_t kHop = 80;      // Characters of the pattern of a Received field.
constexpr std::size_t kSlack = 16;    // Characters that may be written behind a pattern.
constexpr std::size_t kRun = 9;       // Longer runs of a boundary are written with this length.

constexpr std::uint8_t kOther = 0, kUpper = 1, kLower = 2, kDigit = 3;  // Classes of characters.
struct Sign {
  std::uint8_t character_class = kOther;
  char sign = 0;  // In a pattern.
};
constexpr std::size_t kAscii = 128;
constexpr std::array<Sign, kAscii> kSigns = [] {
  std::array<Sign, kAscii> signs{};
  for (std::size_t code = 0; code < kAscii; ++code) {
    const bool is_upper = code >= 'A' && code <= 'Z', is_lower = code >= 'a' && code <= 'z';
    const bool is_number = code >= '0' && code <= '9';
    signs[code].character_class = is_upper ? kUpper : is_lower ? kLower : is_number ? kDigit : kOther;
    signs[code].sign = is_upper      ? 'A'
                       : is_lower    ? 'a'
                       : is_number   ? '9'
                       : code == ' ' ? '_'
                       : code == '_' ? '0'
                                     : static_cast<char>(code);
  }
  return signs;
}();

// The sign of a character in a pattern, and its class.
std::pair<char, std::uint8_t> look_up(char c) {
  const Sign& sign = kSigns[static_cast<unsigned char>(c) % kAscii];
  return {sign.sign, sign.character_class};
}
std::pair<char32_t, std::uint8_t> look_up(char32_t c) {
  if (c >= kAscii) return {c, kOther};
  return {static_cast<char32_t>(kSigns[c].sign), kSigns[c].character_class};
}

// The characters of a pattern.
template <class Char>
struct Pattern {
  std::array<Char, 2 * kValue + kSlack> characters;
  std::size_t size = 0;

  void add(Char c) { characters[size++] = c; }
  View<Char> view() const { return {characters.data(), size}; }
};

// Writes each run of letters as one sign, and no digits.
template <class Char>
void write_runs(View<Char> value, Pattern<Char>& pattern) {
  std::uint8_t before = kOther;
  Char* end = pattern.characters.data();  // Not `size`: the compiler would take each write for a possible change of it.
  for (const Char c : first(value, kValue)) {
    const auto [sign, character_class] = look_up(c);
    // Without a branch, which no processor could predict.
    *end = sign;
    end += (character_class == kOther) | ((character_class != before) & (character_class != kDigit));
    before = character_class;
  }
  pattern.size = std::min(static_cast<std::size_t>(end - pattern.characters.data()), kPattern);
}

// Writes each run of letters or digits as one sign and, if it is longer than 1, its length.
template <class Char>
void write_lengths(View<Char> value, Pattern<Char>& pattern) {
  const View<Char> text = first(value, kValue);
  for (std::size_t place = 0; place < text.size();) {
    const auto [sign, character_class] = look_up(text[place]);
    std::size_t length = 1;
    if (character_class != kOther) {
      while (place + length < text.size() && look_up(text[place + length]).second == character_class) ++length;
    }
    pattern.add(sign);
    if (length > 1) pattern.add(static_cast<Char>('0' + std::min(length, kRun)));
    place += length;
  }
}

// Copies text[start:end] of a hop, but at most kHop characters; returns the end of the copy. Up to kSlack characters may be written
// where it is shorter.
template <class Char>
Char* copy(const Hop<Char>& hop, std::size_t start, std::size_t end, Char* target) {
  const std::size_t size = std::min(end - start, kHop);
  if constexpr (sizeof(Char) == 1) {
    if (size <= kSlack) {  // Most words and gaps: what is copied in addition is overwritten.
      std::memcpy(target, hop.text.data() + start, kSlack);
      return target + size;
    }
  }
  return std::copy_n(hop.text.data() + start, size, target);
}

// Writes a hop with `x` in place of each word that has a point or a digit.
template <class Char>
void write_hop(const Hop<Char>& hop, Pattern<Char>& pattern) {
  Char* const characters = pattern.characters.data();
  Char* const limit = characters + kHop;
  Char* end = characters;
  std::size_t last = 0;  // The end of the last word.
  for (const HopWord& word : hop.words) {
    end = copy(hop, last, word.start, end);
    last = word.end;
    if (end >= limit) break;
    if (word.has_point_or_digit) {
      *end++ = Char{'x'};
    } else {
      end = copy(hop, word.start, word.end, end);
    }
    if (end >= limit) break;
  }
  if (end < limit) end = copy(hop, last, hop.text.size(), end);
  const std::size_t size = std::min(static_cast<std::size_t>(end - characters), kHop);
  for (std::size_t place = 0; place < size; ++place) {
    const Char c = characters[place];
    characters[place] = c == Char{' '} ? Char{'_'} : c == Char{'_'} ? Char{'0'} : c;
  }
  pattern.size = size;
}

class PatternWriter {
 public:
  PatternWriter() {
    tokens_.reserve(1000);
    repeatable_.reserve(8);
  }

  void add_runs(std::string_view name, const Field* field) {
    if (field == nullptr) return;
    field->visit([&](auto value) {
      Pattern<typename decltype(value)::value_type> pattern;
      write_runs(value, pattern);
      write_token(name, pattern.view());
    });
  }

  // The boundaries: `boundary=\"?+([^\";]++)`.
  void add_boundaries(const Field* field) {
    if (field == nullptr) return;
    field->visit([this](auto value) {
      constexpr std::string_view name = "boundary=";
      const auto text = first(value, kSelectedValue);
      for (std::size_t place = find_ascii(text, name); place != kNowhere; place = find_ascii(text, name, place)) {
        place += name.size();
        if (is_at(text, place, "\"")) ++place;
        const std::size_t start = place;
        while (place < text.size() && text[place] != '"' && text[place] != ';') ++place;
        if (place == start) continue;
        Pattern<typename decltype(value)::value_type> pattern;
        write_lengths(cut(text, start, place), pattern);
        add_distinct("pattern:boundary=", pattern.view());
      }
    });
  }

  template <class Char>
  void add_hop(const Hop<Char>& hop) {
    Pattern<Char> pattern;
    write_hop(hop, pattern);
    add_distinct("pattern:hop=", pattern.view());
  }

  std::string take() {
    if (has_surrogates_) replace_surrogates();
    return std::move(tokens_);
  }

 private:
  template <class Char>
  void write_token(std::string_view name, View<Char> pattern) {
    if (!tokens_.empty()) tokens_.push_back(' ');
    tokens_.append(name);
    append(pattern);
  }

  // Writes the token, unless there is an equal one.
  template <class Char>
  void add_distinct(std::string_view name, View<Char> pattern) {
    const std::size_t size = tokens_.size();
    write_token(name, pattern);
    const std::size_t start = size + (size > 0);
    const std::string_view token = std::string_view(tokens_).substr(start);
    for (const auto& [other, other_size] : repeatable_) {
      if (token == std::string_view(tokens_).substr(other, other_size)) {
        tokens_.resize(size);
        return;
      }
    }
    repeatable_.emplace_back(start, token.size());
  }

  void append(std::string_view ascii) { tokens_.append(ascii); }
  // A lone surrogate becomes a question mark at the end. Until then it is written as three bytes of its own, because tokens with
  // different surrogates, or with a question mark, are not repetitions of each other.
  void append(TextView text) {
    for (const char32_t c : text) {
      if (c >= 0xd800 && c <= 0xdfff) {
        has_surrogates_ = true;
        tokens_.push_back('\xed');
        tokens_.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
        tokens_.push_back(static_cast<char>(0x80 | (c & 0x3f)));
      } else {
        append_utf8(tokens_, TextView(&c, 1));
      }
    }
  }
  void replace_surrogates() {
    std::string replaced;
    for (std::size_t place = 0; place < tokens_.size(); ++place) {
      const bool is_surrogate =
          tokens_[place] == '\xed' && place + 1 < tokens_.size() && static_cast<unsigned char>(tokens_[place + 1]) >= 0xa0;
      replaced.push_back(is_surrogate ? '?' : tokens_[place]);
      place += is_surrogate ? 2 : 0;
    }
    tokens_ = std::move(replaced);
  }

  std::string tokens_;
  std::vector<std::pair<std::size_t, std::size_t>> repeatable_;  // The start and the size of each token that may be repeated.
  bool has_surrogates_ = false;
};

}  // namespace

std::string read_patterns(const SelectedFields& fields, const Hops& hops) {
  PatternWriter writer;
  writer.add_runs("pattern:message-id=", fields.message_id);
  writer.add_runs("pattern:from=", fields.from);
  writer.add_runs("pattern:to=", fields.to);
  writer.add_runs("pattern:reply-to=", fields.reply_to);
  writer.add_runs("pattern:return-path=", fields.return_path);
  writer.add_runs("pattern:subject=", fields.subject);
  writer.add_runs("pattern:date=", fields.date);
  writer.add_boundaries(fields.content_type);
  for (std::size_t index = 0; index < fields.hop_count; ++index) {
    if (fields.hops[index]->is_ascii) {
      writer.add_hop(hops[index]);
    } else {
      Hop<char32_t> hop;
      divide_hop(before_first(first(fields.hops[index]->text, kSelectedValue), U';'), hop);
      writer.add_hop(hop);
    }
  }
  return writer.take();
}

}  // namespace tamis::mail
