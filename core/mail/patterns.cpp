#include "patterns.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tamis::mail {

namespace {

constexpr std::size_t kValue = 80;    // Characters of a value whose pattern is made.
constexpr std::size_t kPattern = 40;  // Characters of the pattern of a field.
constexpr std::size_t kHop = 80;      // Characters of the pattern of a Received field.
constexpr std::size_t kRun = 9;       // The length of a longer run of a boundary counts as this one.

constexpr std::uint8_t kOther = 0, kUpper = 1, kLower = 2, kDigit = 3;  // Classes of characters.
struct Sign {
  std::uint8_t character_class = kOther;
  char sign = 0;  // In a pattern.
  // For Received fields: whether it belongs to a word, and whether the word is replaced.
  bool is_of_word = false, is_point_or_digit = false;
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
    signs[code].is_point_or_digit = code == '.' || is_number;
    signs[code].is_of_word = is_upper || is_lower || is_number || code == '.' || code == '_' || code == '-';
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

bool is_of_word(char c) { return kSigns[static_cast<unsigned char>(c) % kAscii].is_of_word; }
bool is_of_word(char32_t c) { return c < kAscii ? kSigns[c].is_of_word : is_word(c); }
bool is_point_or_digit(char c) { return kSigns[static_cast<unsigned char>(c) % kAscii].is_point_or_digit; }
bool is_point_or_digit(char32_t c) { return c < kAscii ? kSigns[c].is_point_or_digit : is_decimal(c); }

// The characters of a pattern.
template <class Char>
struct Pattern {
  std::array<Char, std::max(2 * kValue, kHop)> characters;
  std::size_t size = 0;

  void add(Char c) { characters[size++] = c; }
  View<Char> view() const { return {characters.data(), size}; }
};

// Each run of letters as one sign, without digits.
template <class Char>
void write_runs(View<Char> value, Pattern<Char>& pattern) {
  std::uint8_t before = kOther;
  for (const Char c : first(value, kValue)) {
    const auto [sign, character_class] = look_up(c);
    // Without a branch, which no processor could predict.
    pattern.characters[pattern.size] = sign;
    pattern.size += (character_class == kOther) | ((character_class != before) & (character_class != kDigit));
    before = character_class;
  }
  pattern.size = std::min(pattern.size, kPattern);
}

// Each run of letters or digits as one sign and its length.
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

// What a server wrote, with `x` in place of each word that has a point or a digit.
template <class Char>
void write_hop(View<Char> hop, Pattern<Char>& pattern) {
  const auto write = [&pattern](Char c) {
    pattern.add(c == Char{' '} ? Char{'_'} : c == Char{'_'} ? Char{'0'} : c);
  };
  for (std::size_t place = 0; place < hop.size() && pattern.size < kHop && hop[place] != Char{';'};) {
    const std::size_t start = place;
    bool is_replaced = false;
    while (place < hop.size() && is_of_word(hop[place])) is_replaced |= is_point_or_digit(hop[place++]);
    if (place == start) {
      write(hop[place++]);
    } else if (is_replaced) {
      pattern.add(Char{'x'});
    } else {
      for (std::size_t at = start; at < place && pattern.size < kHop; ++at) write(hop[at]);
    }
  }
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
        add_distinct("boundary", pattern.view());
      }
    });
  }

  void add_hop(const Field& hop) {
    hop.visit([this](auto value) {
      Pattern<typename decltype(value)::value_type> pattern;
      write_hop(first(value, kSelectedValue), pattern);
      add_distinct("hop", pattern.view());
    });
  }

  std::string take() {
    if (has_surrogates_) replace_surrogates();
    return std::move(tokens_);
  }

 private:
  template <class Char>
  void write_token(std::string_view name, View<Char> pattern) {
    if (!tokens_.empty()) tokens_.push_back(' ');
    tokens_.append("pattern:").append(name).push_back('=');
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
  // A lone surrogate is written as three bytes of its own until all tokens are there: then it becomes a question mark, which it
  // must not equal before.
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
  std::vector<std::pair<std::size_t, std::size_t>> repeatable_;  // The start and the size of tokens that may be repeated.
  bool has_surrogates_ = false;
};

}  // namespace

std::string read_patterns(const SelectedFields& fields) {
  PatternWriter writer;
  writer.add_runs("message-id", fields.message_id);
  writer.add_runs("from", fields.from);
  writer.add_runs("to", fields.to);
  writer.add_runs("reply-to", fields.reply_to);
  writer.add_runs("return-path", fields.return_path);
  writer.add_runs("subject", fields.subject);
  writer.add_runs("date", fields.date);
  writer.add_boundaries(fields.content_type);
  for (std::size_t index = 0; index < fields.hop_count; ++index) writer.add_hop(*fields.hops[index]);
  return writer.take();
}

}  // namespace tamis::mail
