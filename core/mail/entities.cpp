#include "entities.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>

#include "pages_search.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kLongestDecimal = 8, kLongestHexadecimal = 7, kLongestName = 32;
constexpr std::size_t kLongestOldName = 6;  // Letters of a name of HTML 4, which needs no semicolon.

struct Entity {
  std::string_view name;
  char32_t character;
};
// Frequent names. They need no semicolon, and `&nbsp;` becomes a space.
constexpr Entity kUsual[] = {
    {"nbsp", U' '},        {"amp", U'&'},         {"lt", U'<'},          {"gt", U'>'},          {"quot", U'"'},
    {"apos", U'\''},       {"copy", U'\u00a9'},   {"reg", U'\u00ae'},    {"trade", U'\u2122'},  {"mdash", U'\u2014'},
    {"ndash", U'\u2013'},  {"lsquo", U'\u2018'},  {"rsquo", U'\u2019'},  {"ldquo", U'\u201c'},  {"rdquo", U'\u201d'},
    {"hellip", U'\u2026'}, {"bull", U'\u2022'},   {"middot", U'\u00b7'}, {"euro", U'\u20ac'},   {"pound", U'\u00a3'},
    {"shy", U'\u00ad'},    {"zwnj", U'\u200c'},   {"zwj", U'\u200d'},    {"raquo", U'\u00bb'},  {"laquo", U'\u00ab'},
    {"eacute", U'\u00e9'}, {"egrave", U'\u00e8'}, {"agrave", U'\u00e0'}, {"ccedil", U'\u00e7'}, {"auml", U'\u00e4'},
    {"ouml", U'\u00f6'},   {"uuml", U'\u00fc'},   {"szlig", U'\u00df'},  {"oacute", U'\u00f3'}, {"aacute", U'\u00e1'},
    {"iacute", U'\u00ed'}, {"ntilde", U'\u00f1'},
};
// Windows-1252 from 128 to 159, as browsers read these numbers; codes that it does not have become U+FFFD.
constexpr char32_t kWindows[] = {
    0x20ac, 0xfffd, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0xfffd,
    0x017d, 0xfffd, 0xfffd, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a,
    0x0153, 0xfffd, 0x017e, 0x0178,
};

using Names = std::unordered_map<std::string, Text>;

// All names of HTML 5, with their semicolons, from Python's own table on first use.
const Names& html5_names() {
  // No local static with an initialiser: its lock and the interpreter's could wait for each other during the import.
  static std::atomic<const Names*> loaded = nullptr;
  if (loaded == nullptr) {
    const nb::gil_scoped_acquire locked;
    auto names = std::make_unique<Names>();
    const nb::dict table = nb::module_::import_("html.entities").attr("html5");
    for (const auto& [name, characters] : table) names->emplace(to_utf8(to_text(name)), to_text(characters));
    if (loaded == nullptr) loaded = names.release();
  }
  return *loaded;
}

char32_t character_of(std::uint32_t code) {
  if (code == 160 || code < 32) return U' ';
  if (code >= 128 && code < 160) return kWindows[code - 128];
  return code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? U'\ufffd' : static_cast<char32_t>(code);
}

// Appends characters; false if they are not ASCII and the text is.
bool append_characters(Text& text, TextView characters) {
  text += characters;
  return true;
}
bool append_characters(std::string& text, TextView characters) {
  if (!is_ascii(characters)) return false;
  text.append(characters.begin(), characters.end());
  return true;
}

// Appends the character of a name, or the reference itself (from `&` to the semicolon, if there is one).
template <class Char>
bool append_named(String<Char>& decoded, View<Char> reference) {
  const bool has_semicolon = reference.back() == ';';
  char letters[kLongestName + 1];
  std::size_t size = 0;
  for (const Char c : reference.substr(1)) letters[size++] = static_cast<char>(c);
  const std::string_view name(letters, size - has_semicolon);
  for (const Entity& entity : kUsual) {
    if (entity.name == name) return append_characters(decoded, TextView(&entity.character, 1));
  }
  const Names& names = html5_names();
  if (has_semicolon) {
    if (const auto found = names.find(std::string(letters, size)); found != names.end()) {
      return append_characters(decoded, found->second);
    }
  }
  // Without a semicolon, the longest HTML 4 name at the beginning: &copy2026.
  for (std::size_t length = name.size() < kLongestOldName ? name.size() : kLongestOldName; length > 1; --length) {
    if (const auto found = names.find(std::string(name.substr(0, length))); found != names.end()) {
      const bool is_possible = append_characters(decoded, found->second);
      decoded += reference.substr(length + 1);
      return is_possible;
    }
  }
  decoded += reference;
  return true;
}

int hexadecimal_value(char32_t c) {
  if (is_digit(c)) return static_cast<int>(c - U'0');
  c = to_ascii_lower(c);
  return c >= U'a' && c <= U'f' ? static_cast<int>(c - U'a') + 10 : -1;
}

// Returns whether numbers stood for letters or digits; nothing if a character has not the form of the text.
template <class Char>
std::optional<bool> decode(String<Char>& text) {
  std::size_t start = find_character(text, '&');
  if (start == kNowhere) return false;
  const View<Char> view(text);
  String<Char> decoded;
  decoded.reserve(text.size());
  bool has_hidden_letters = false;
  std::size_t last = 0;
  for (; start != kNowhere; start = find_character(view, '&', start)) {
    std::size_t end = start + 1;  // The end of the number or name.
    std::uint32_t code = 0;
    bool is_number = false;
    if (end < view.size() && view[end] == '#') {
      ++end;
      const bool is_hexadecimal = end < view.size() && (view[end] == 'x' || view[end] == 'X');
      if (is_hexadecimal) ++end;
      const std::size_t first = end, longest = is_hexadecimal ? kLongestHexadecimal : kLongestDecimal;
      for (; end < view.size() && end - first < longest; ++end) {
        const int digit = hexadecimal_value(view[end]);
        if (digit < 0 || (digit > 9 && !is_hexadecimal)) break;
        code = code * (is_hexadecimal ? 16 : 10) + static_cast<std::uint32_t>(digit);
      }
      is_number = end > first;
    } else if (end < view.size() && is_ascii_letter(view[end])) {
      while (end < view.size() && end - start <= kLongestName && is_ascii_alnum(view[end])) ++end;
    }
    if (!is_number && (end - start < 3 || view[start + 1] == '#')) {  // A name has two letters at least.
      ++start;
      continue;
    }
    if (end < view.size() && view[end] == ';') ++end;
    decoded += view.substr(last, start - last);
    if (is_number) {
      const char32_t character = character_of(code);
      has_hidden_letters = has_hidden_letters || is_ascii_alnum(character);
      if (!append_characters(decoded, TextView(&character, 1))) return std::nullopt;
    } else if (!append_named(decoded, view.substr(start, end - start))) {
      return std::nullopt;
    }
    last = start = end;
  }
  decoded += view.substr(last);
  text = std::move(decoded);
  return has_hidden_letters;
}

}  // namespace

bool decode_entities(Text& text) { return *decode(text); }
std::optional<bool> decode_ascii_entities(std::string& ascii) { return decode(ascii); }

}  // namespace tamis::mail
