#include "header_values.hpp"

#include <algorithm>

namespace tamis::mail {

namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::size_t kParameters = 100;
constexpr std::size_t kLongestName = 60;  // Characters of the name of a charset or parameter.

// As `str.lower` of a character of Latin-1.
char to_lower(char c) {
  const auto byte = static_cast<unsigned char>(c);
  const bool is_capital = (byte >= 'A' && byte <= 'Z') || (byte >= 0xc0 && byte <= 0xde && byte != 0xd7);
  return static_cast<char>(byte + (is_capital ? 32 : 0));
}

std::string lower_latin_1(std::string_view text) {
  std::string lowered(text);
  std::transform(lowered.begin(), lowered.end(), lowered.begin(), to_lower);
  return lowered;
}

bool is_latin_1_space(char c) { return is_space(static_cast<unsigned char>(c)); }

bool is_all_space(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_latin_1_space); }

bool is_small_alnum(char c) { return is_lower_alnum(static_cast<unsigned char>(c)); }

// As `[a-z0-9!#$&^_.+-]`.
bool is_type_character(char c) { return is_small_alnum(c) || std::string_view("!#$&^_.+-").find(c) != kNone; }

struct EncodedWord {
  std::size_t start = 0, end = 0;
  std::string_view charset, body;
  bool is_quoted = false;
};

// The next match of `=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*+)\?=` from a place on.
bool find_encoded_word(std::string_view value, std::size_t place, EncodedWord& word) {
  for (; (place = value.find("=?", place)) != kNone; ++place) {
    const std::size_t charset = place + 2;
    std::size_t end = charset;
    while (end < value.size() && end - charset < kLongestName && value[end] != '?' && !is_latin_1_space(value[end])) ++end;
    if (end == charset || value.size() - end < 3 || value[end] != '?' || value[end + 2] != '?') continue;
    const char kind = to_lower(value[end + 1]);
    if (kind != 'b' && kind != 'q') continue;
    const std::size_t body = end + 3;
    const std::size_t body_end = value.find('?', body);
    if (body_end == kNone) return false;  // A later word would have a question mark.
    if (body_end + 1 >= value.size() || value[body_end + 1] != '=') continue;
    word = {place, body_end + 2, value.substr(charset, end - charset), value.substr(body, body_end - body), kind == 'q'};
    return true;
  }
  return false;
}

void append_bytes(std::string_view value, const Charsets& charsets, Faults& faults, Text& text) {
  if (is_ascii_bytes(value)) {
    text.append(value.begin(), value.end());
  } else {
    text += charsets.decode(value, "", faults).first(kNowhere);
  }
}

// Decodes encoded words; neighbours of one charset are joined first, because a character may be split.
Text decode_words(std::string_view value, std::size_t words, const Charsets& charsets, Faults& faults) {
  Text text;
  std::string charset, data;
  std::size_t last = 0;
  const auto finish = [&] {
    if (!data.empty()) text += charsets.decode(data, charset, faults).first(kNowhere);
    data.clear();
  };
  EncodedWord word;
  for (std::size_t count = 0; count < words && find_encoded_word(value, last, word); ++count) {
    const std::string_view gap = value.substr(last, word.start - last);
    const std::string name = lower_latin_1(word.charset.substr(0, word.charset.find('*')));  // RFC 2231 adds a language.
    if (name != charset || (!gap.empty() && !is_all_space(gap))) finish();
    if (last == 0 || !is_all_space(gap)) append_bytes(gap, charsets, faults, text);
    data += word.is_quoted ? decode_escapes(word.body, true) : decode_base64(word.body, faults);
    charset = name;
    last = word.end;
  }
  finish();
  append_bytes(value.substr(last), charsets, faults, text);
  return text;
}

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029; }

bool is_printable(char32_t c) {
  return c < 128 ? c >= 0x20 && c < 0x7f : Py_UNICODE_ISPRINTABLE(static_cast<Py_UCS4>(c)) != 0;
}

// One match of the expression for a parameter, if there is one at this place; returns its end, or kNone.
std::size_t read_parameter(std::string_view text, std::size_t place, Parameters& parameters) {
  const auto skip = [&](char c) { place += place < text.size() && text[place] == c; };
  if (text[place] != ';' && text[place] != ' ') return kNone;
  ++place;
  skip(' ');
  const std::size_t name = place;
  while (place < text.size() && place - name < kLongestName && std::string_view("=;\" ").find(text[place]) == kNone) ++place;
  const std::size_t name_end = place;
  skip(' ');
  if (name_end == name || place == text.size() || text[place] != '=') return kNone;
  ++place;
  skip(' ');
  std::string value;
  if (place < text.size() && text[place] == '"') {
    ++place;
    while (place < text.size() && text[place] != '"') {
      if (text[place] == '\\') {
        if (place + 1 == text.size()) break;
        ++place;
      }
      value.push_back(text[place++]);
    }
    skip('"');
  } else {
    const std::size_t end = std::min(text.find_first_of(";\" ", place), text.size());
    value = text.substr(place, end - place);
    place = end;
  }
  parameters.emplace_back(lower_latin_1(text.substr(name, name_end - name)), std::move(value));
  return place;
}

}  // namespace

bool must_be_decoded(std::string_view value) {
  for (std::size_t place = 0; place < value.size(); ++place) {
    const char c = value[place];
    if (c < ' ' || c > '~' || (c == '=' && place + 1 < value.size() && value[place + 1] == '?')) return true;
  }
  return false;
}

Text decode_value(std::string_view value, std::size_t words, const Charsets& charsets, Faults& faults) {
  Text text;
  if (words > 0 && value.find("=?") != kNone) {
    text = decode_words(value, words, charsets, faults);
  } else {
    append_bytes(value, charsets, faults, text);
  }
  if (std::all_of(text.begin(), text.end(), is_printable)) return text;
  const auto end = std::remove(text.begin(), text.end(), U'\0');
  if (end != text.end()) faults.add(Fault::kNul);
  text.erase(end, text.end());
  Text printable;
  for (std::size_t place = 0; place < text.size(); ++place) {
    if (!is_control(text[place])) {
      printable.push_back(text[place]);
    } else if (place == 0 || !is_control(text[place - 1])) {
      printable.push_back(U' ');  // For a run of controls.
    }
  }
  return printable;
}

std::string find_media_type(std::string_view value) {
  const std::string text = lower_latin_1(value.substr(0, 200));
  std::size_t place = !text.empty() && (text[0] == ' ' || text[0] == '"' || text[0] == '\'') ? 1 : 0;
  const auto read_name = [&](bool may_be_star) -> std::string {
    const std::size_t start = place;
    if (place == text.size() || !(is_small_alnum(text[place]) || (may_be_star && text[place] == '*'))) return {};
    ++place;
    while (place < text.size() && place - start < 61 && is_type_character(text[place])) ++place;
    return text.substr(start, place - start);
  };
  const auto skip_space = [&] { place += place < text.size() && text[place] == ' '; };
  const std::string type = read_name(false);
  skip_space();
  if (type.empty() || place == text.size() || text[place] != '/') return {};
  ++place;
  skip_space();
  const std::string subtype = read_name(true);
  return subtype.empty() ? std::string() : type + "/" + subtype;
}

std::string find_first_word(std::string_view value) {
  const std::string text = lower_latin_1(value.substr(0, 200));
  const auto start = std::find_if(text.begin(), text.end(), is_small_alnum);
  auto end = start;
  const auto belongs = [](char c) { return is_small_alnum(c) || c == '.' || c == '_' || c == '+' || c == '-'; };
  while (end != text.end() && end - start < 41 && belongs(*end)) ++end;
  return std::string(start, end);
}

Parameters read_parameters(std::string_view value) {
  Parameters parameters;
  if (value.find('=') == kNone) return parameters;
  std::string text;
  text.reserve(value.size());
  for (const char c : value) {  // A run of white space is one space.
    const bool is_blank = c == ' ' || (c >= '\t' && c <= '\r');
    if (!is_blank) {
      text.push_back(c);
    } else if (text.empty() || text.back() != ' ') {
      text.push_back(' ');
    }
  }
  for (std::size_t place = 0; place < text.size() && parameters.size() < kParameters;) {
    const std::size_t end = read_parameter(text, place, parameters);
    place = end == kNone ? place + 1 : end;
  }
  return parameters;
}

Text decode_parameter(const Parameters& parameters, std::string_view name, std::size_t words, const Charsets& charsets,
                      Faults& faults) {
  const std::string* plain = nullptr;
  bool is_repeated = false;
  for (const auto& [key, value] : parameters) {
    if (key == name) {
      is_repeated = is_repeated || plain != nullptr;
      plain = plain != nullptr ? plain : &value;
    } else if (key.size() > name.size() && key.compare(0, name.size(), name) == 0 && key[name.size()] == '*') {
      throw LeftToPython();  // In pieces, by RFC 2231.
    }
  }
  if (is_repeated) faults.add(Fault::kDuplicateParameter);
  return plain == nullptr ? Text() : decode_value(*plain, words, charsets, faults);
}

}  // namespace tamis::mail
