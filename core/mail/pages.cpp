// Reads the tags of a page in one pass. No tree is built: a short stack of marks records the elements that hide text. No search
// goes back to text that was searched before, so that the time is linear in the size of the page, even if nothing is closed.
#include "pages.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "entities.hpp"
#include "pages_search.hpp"
#include "styles.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kLinks = 500;          // Links of a page, and images.
constexpr std::size_t kAddress = 2000;       // Characters of an address.
constexpr std::size_t kBeginning = 120;      // Characters of an address in the rest of a page: they have its host.
constexpr std::size_t kPointers = 4 * kLinks;  // Tags of the rest whose addresses are read.
constexpr std::size_t kRest = 30'000;        // Characters after the last interpreted tag that are read as text.
constexpr std::size_t kMarks = 30;           // Elements within each other that hide text or show it again.
constexpr std::size_t kQuoted = 20'000;      // Characters between quotes.
constexpr int kLinkPieces = 20;              // Pieces of text of a link that are compared with its address.
constexpr std::size_t kLongestKnownName = 10;

// ---- The elements of HTML ----

enum class Action : std::uint8_t { kPlain, kBreaks, kGaps, kPointsAt, kOdd };

struct Element {
  Action start = Action::kOdd;
  Action end = Action::kOdd;
  bool is_void = false;
  bool is_box = false;       // Whether its end tag closes all elements within.
  std::string_view address;  // The attribute that holds an address.
};

using Elements = std::unordered_map<std::string_view, Element>;

template <class Use>
void for_each_word(std::string_view words, Use use) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    use(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

Elements make_elements() {
  Elements elements;
  const auto set_actions = [&elements](std::string_view names, Action action) {
    for_each_word(names, [&](std::string_view name) { elements[name].start = elements[name].end = action; });
  };
  set_actions(
      "a abbr acronym area audio b base bdi bdo big blink body cite code data del dfn em embed font frame head html i "
      "iframe img input ins kbd label link map mark meta nobr noscript o:p object param picture q s samp small source "
      "span st1:city st1:place strike strong sub sup svg tbody tfoot thead time tt u var video wbr",
      Action::kPlain);
  set_actions(
      "address article aside blockquote br button caption center dd details dialog dir div dl dt fieldset figcaption "
      "figure footer form h1 h2 h3 h4 h5 h6 header hr legend li main menu nav ol optgroup option p pre section select "
      "summary table textarea title tr ul xmp",
      Action::kBreaks);
  set_actions("td th", Action::kGaps);
  const std::pair<const char*, const char*> pointers[] = {{"a", "href"},    {"area", "href"},  {"form", "action"}, {"frame", "src"},
                                                          {"iframe", "src"}, {"img", "src"}, {"input", "src"}};
  for (const auto& [name, address] : pointers) {
    elements[name].start = Action::kPointsAt;
    elements[name].address = address;
  }
  elements["a"].end = Action::kPointsAt;
  for_each_word("area base br col embed hr img input link meta param source track wbr",
                [&](std::string_view name) { elements[name].is_void = true; });
  for_each_word("table tr td div body center ul ol blockquote section",
                [&](std::string_view name) { elements[name].is_box = true; });
  return elements;
}

// The elements by the letters of their names, which are two numbers. A name that is none of them meets an empty place soon.
class ElementTable {
 public:
  ElementTable() {
    for (const auto& [name, element] : make_elements()) {
      const auto [low, high] = number_letters(name);
      std::size_t place = find_place(low, high);
      while (places_[place].high != 0) place = (place + 1) % kPlaces;
      places_[place] = {low, high, element};
    }
  }

  template <class Char>
  const Element& find(View<Char> name) const {
    static const Element unknown;
    if (name.size() > kLongestKnownName) return unknown;
    const auto [low, high] = number_letters(name);
    for (std::size_t place = find_place(low, high); places_[place].high != 0; place = (place + 1) % kPlaces) {
      if (places_[place].low == low && places_[place].high == high) return places_[place].element;
    }
    return unknown;
  }

 private:
  static constexpr std::size_t kBits = 10, kPlaces = std::size_t{1} << kBits;
  struct Place {
    std::uint64_t low = 0;
    std::uint32_t high = 0;  // Two letters, and the size of the name, which is not zero.
    Element element;
  };

  // The first eight letters; the others, and the number of them all. A character outside of ASCII becomes a sign that is in no name.
  template <class Char>
  static std::pair<std::uint64_t, std::uint32_t> number_letters(View<Char> name) {
    std::uint64_t low = 0, high = name.size() << 16;
    for (std::size_t index = 0; index < name.size(); ++index) {
      const auto c = static_cast<char32_t>(name[index]);
      (index < 8 ? low : high) |= std::uint64_t{c < 128 ? c : 127} << index % 8 * 8;
    }
    return {low, static_cast<std::uint32_t>(high)};
  }
  static std::size_t find_place(std::uint64_t low, std::uint32_t high) {
    return static_cast<std::size_t>((low ^ std::uint64_t{high} << 40) * 0x9E3779B97F4A7C15 >> (64 - kBits));
  }

  std::array<Place, kPlaces> places_;
};

template <class Char>
const Element& find_element(View<Char> name) {
  static const ElementTable elements;
  return elements.find(name);
}

// Whether an element without an end tag ends where an element of a name begins.
template <class Char>
bool is_closed_by(View<Char> open, View<Char> name) {
  if (is_one_of(name, {"dt", "dd"})) return is_one_of(open, {"dt", "dd"});
  return open == name && is_one_of(name, {"p", "li", "option"});
}

// ---- Tags ----

struct Tag {
  std::size_t start;
  std::size_t name_end;
  std::size_t attributes_end;
  std::size_t end;  // After the closing sign, if there is one.
};

// The end of attributes: the next angle bracket that is not between quotes. A quote that is not closed within
// `kQuoted` characters is a character like others.
template <class Char>
std::size_t find_attributes_end(View<Char> text, std::size_t place) {
  while (place < text.size()) {
    const Char c = text[place];
    if (c == '<' || c == '>') break;
    ++place;
    if (c == '"' || c == '\'') {
      const std::size_t quote = find_character(text.substr(0, std::min(text.size(), place + kQuoted + 1)), c, place);
      if (quote != kNowhere) place = quote + 1;
    }
  }
  return place;
}

// Returns the first tag at `place` or later.
template <class Char>
std::optional<Tag> find_tag(View<Char> text, std::size_t place) {
  for (; (place = find_character(text, '<', place)) != kNowhere; ++place) {
    std::size_t end = place + 1;
    if (end >= text.size()) break;
    const Char sign = text[end];
    if (!is_ascii_letter(sign) && sign != '/' && sign != '!' && sign != '?') continue;
    const auto ends_name = [](char32_t c) {
      return c == '<' || c == '>' || c == '/' || c == '"' || c == '\'' || is_space(c);
    };
    ++end;
    while (end < text.size() && !ends_name(text[end])) ++end;
    Tag tag{place, end, find_attributes_end(text, end), 0};
    tag.end = tag.attributes_end + (tag.attributes_end < text.size() && text[tag.attributes_end] == '>');
    return tag;
  }
  return std::nullopt;
}

template <class Char>
String<Char> replace_tags(View<Char> text) {
  String<Char> rest;
  std::size_t last = 0;
  while (const auto tag = find_tag(text, last)) {
    rest += text.substr(last, tag->start - last);
    rest.push_back(' ');
    last = tag->end;
  }
  rest += text.substr(last);
  return rest;
}

// ---- What is removed before tags are read ----

// Replaces the content of `data:` addresses: 200 characters or more of it, after a media type of up to 60.
template <class Char>
void remove_data(String<Char>& text) {
  const auto is_type = [](char32_t c) {
    return is_ascii_letter(c) || c == '/' || c == '+' || c == '.' || c == '-';
  };
  const auto is_content = [](char32_t c) {
    return is_ascii_alnum(c) || c == ';' || c == '=' || c == ',' || c == '+' || c == '/' || c == '%' ||
           c == '-' || is_space(c);
  };
  constexpr std::size_t kType = 60, kShortest = 200;
  const View<Char> view(text);
  String<Char> rest;
  std::size_t last = 0;
  for (std::size_t place = 0; (place = find_ascii_part(view, "data:", place, 4)) != kNowhere;) {
    const std::size_t start = place += 5;  // Of the media type.
    std::size_t type_end = start, plain_start = start;  // All type characters from there on are content characters.
    while (type_end < view.size() && type_end - start < kType && is_type(view[type_end])) {
      if (view[type_end++] == '.') plain_start = type_end;
    }
    std::size_t end = type_end;
    while (end < view.size() && is_content(view[end])) ++end;
    if (end - plain_start < kShortest) continue;
    // The content needs characters that might belong to the type.
    type_end = std::min(type_end, end - kShortest);
    rest += view.substr(last, type_end - last);
    last = place = end;
  }
  if (last == 0) return;
  rest += view.substr(last);
  text = std::move(rest);
}

// Replaces style sheets, scripts and XML of conditional comments by spaces, up to their end tags.
template <class Char>
String<Char> remove_unseen(View<Char> text) {
  String<Char> rest;
  std::size_t last = 0;
  for (std::size_t place = 0; (place = find_character(text, '<', place)) != kNowhere;) {
    const std::size_t start = place++;
    for (const std::string_view name : {"style", "xml", "script"}) {
      const std::size_t name_end = place + name.size();
      if (!is_at_in_any_case(text, place, name) || name_end >= text.size() ||
          !(is_ascii_space(text[name_end]) || text[name_end] == '>')) {
        continue;
      }
      std::size_t end = name_end;
      while ((end = find_character(text, '<', end)) != kNowhere &&
             !(is_at(text, end + 1, "/") && is_at_in_any_case(text, end + 2, name))) {
        ++end;
      }
      rest += text.substr(last, start - last);
      rest.push_back(' ');
      last = place = std::min(end, text.size());
      break;
    }
  }
  rest += text.substr(last);
  return rest;
}

// Whether a tag within a word is closed at once, as in `v<b></b>iagra`.
template <class Char>
bool has_split_word(View<Char> text) {
  constexpr std::size_t kLongestName = 12, kAttributes = 100;
  for (std::size_t start = 0; (start = find_character(text, '<', start)) != kNowhere; ++start) {
    if (start == 0 || !is_ascii_letter(text[start - 1])) continue;
    const std::size_t name = start + 1;
    std::size_t close = name;
    while (close < text.size() && close - name <= kLongestName + kAttributes && text[close] != '<' &&
           text[close] != '>') {
      ++close;
    }
    if (!is_at(text, close, "></")) continue;
    std::size_t end = close + 3;
    while (end < text.size() && end - close - 3 <= kLongestName && is_ascii_letter(text[end])) ++end;
    const std::size_t size = end - close - 3;
    if (size < 1 || size > kLongestName || !is_at(text, end, ">")) continue;
    if (name + size <= close && close - name - size <= kAttributes &&
        text.substr(name, size) == text.substr(close + 3, size) && end + 1 < text.size() &&
        is_ascii_letter(text[end + 1])) {
      return true;
    }
  }
  return false;
}

// ---- Addresses ----

// The value of an attribute, given in lower case, among the attributes of a tag; nothing if it is not there.
template <class Char>
std::optional<View<Char>> find_attribute(View<Char> attributes, std::string_view wanted) {
  const auto is_name = [](char32_t c) { return is_ascii_letter(c) || c == ':' || c == '_' || c == '-'; };
  for (std::size_t place = 0; place < attributes.size();) {
    if (!is_name(attributes[place])) {
      ++place;
      continue;
    }
    const std::size_t start = place;
    while (place < attributes.size() && is_name(attributes[place])) ++place;
    const View<Char> name = attributes.substr(start, place - start);
    std::size_t value = skip_ascii_spaces(attributes, place);
    if (!is_at(attributes, value, "=")) continue;
    value = skip_ascii_spaces(attributes, value + 1);
    if (value >= attributes.size()) continue;
    const Char quote = attributes[value];
    std::size_t end = value;
    if (quote == '"' || quote == '\'') {
      end = std::min(find_character(attributes, quote, ++value), attributes.size());
      place = std::min(end + 1, attributes.size());
    } else {
      const auto ends = [](char32_t c) { return is_ascii_space(c) || c == '"' || c == '\'' || c == '>'; };
      while (end < attributes.size() && !ends(attributes[end])) ++end;
      if (end == value) continue;
      place = end;
    }
    if (name.size() == wanted.size() && is_at_in_any_case(name, 0, wanted)) {
      return attributes.substr(value, end - value);
    }
  }
  return std::nullopt;
}

template <class Char>
Text clean_address(View<Char> address) {
  Text cleaned(address.begin(), address.end());
  decode_entities(cleaned);
  cleaned.erase(std::remove_if(cleaned.begin(), cleaned.end(), is_space), cleaned.end());
  if (is_at_in_any_case(cleaned, 0, U"data:") && cleaned.size() > 60) cleaned.resize(60);
  return cleaned;
}

// The end of the host that begins at a place, or `kNowhere`: up to ten labels and a top-level domain of letters.
std::size_t find_host_end(TextView text, std::size_t place) {
  const auto is_label = [](char32_t c) { return is_lower_alnum(c) || c == U'_' || c == U'-'; };
  int labels = 0;
  for (; labels < 10; ++labels) {
    std::size_t end = place;
    while (end < text.size() && end - place <= 63 && is_label(text[end])) ++end;
    if (end == place || end - place > 63 || !is_at(text, end, U".")) break;
    place = end + 1;
  }
  if (labels == 0) return kNowhere;
  std::size_t end = place;
  while (end < text.size() && is_lower_letter(text[end])) ++end;
  if (end - place < 2 || end - place > 20) return kNowhere;
  if (end == text.size()) return end;
  const char32_t next = text[end];
  const bool is_end = next == U'/' || next == U':' || next == U'?' || next == U'#' || is_ascii_space(next);
  return is_end ? end : kNowhere;
}

// The host at the beginning of an address or of a link's text, without `www.`; empty if there is none.
Text find_host(TextView address) {
  const Text text = lower(strip(address));
  const std::size_t scheme = is_at(text, 0, U"http://") ? 7 : is_at(text, 0, U"https://") ? 8 : 0;
  const auto skip_user = [&text](std::size_t place) {
    std::size_t end = place;
    const auto belongs = [](char32_t c) {
      return !is_ascii_space(c) && c != U'/' && c != U'@' && c != U'<' && c != U'>';
    };
    while (end < text.size() && end - place < 100 && belongs(text[end])) ++end;
    return is_at(text, end, U"@") ? end + 1 : kNowhere;
  };
  // With a scheme and without one, with the name of a user and without one.
  for (const std::size_t start : {scheme, std::size_t{0}}) {
    for (const std::size_t host : {skip_user(start), start}) {
      const std::size_t end = host == kNowhere ? kNowhere : find_host_end(text, host);
      if (end == kNowhere) continue;
      const Text name = text.substr(host, end - host);
      return starts_with(name, U"www.") ? name.substr(4) : name;
    }
  }
  return {};
}

bool is_subdomain(TextView host, TextView parent) {
  return host.size() > parent.size() && host[host.size() - parent.size() - 1] == U'.' &&
         host.substr(host.size() - parent.size()) == parent;
}

// Endings of file names that look like hosts: report.pdf.
bool is_file_ending(TextView ending) {
  return is_one_of(ending, {U"pdf", U"htm", U"html", U"txt", U"doc", U"docx", U"xls", U"xlsx", U"ppt", U"pptx", U"jpg",
                            U"jpeg", U"png", U"gif", U"zip", U"exe", U"rar", U"csv", U"php", U"js", U"css"});
}

// Whether the text of a link is a host other than its address's host, a parent or a subdomain of it.
template <class Char>
bool differs(View<Char> shown, TextView address) {
  shown = first(strip(shown), 300);
  if (find_character(shown, '.') == kNowhere || find_character(shown, ' ') != kNowhere ||
      !(is_at_in_any_case(address, 0, "http:") || is_at_in_any_case(address, 0, "https:"))) {
    return false;
  }
  const Text text(shown.begin(), shown.end());
  const Text text_host = find_host(text), address_host = find_host(address);
  if (text_host.empty() || (is_file_ending(after_last(text_host, U'.')) && !has_part(text, U"//")) ||
      find_character(text, U'@') != kNowhere) {
    return false;
  }
  return !(text_host == address_host || is_subdomain(text_host, address_host) ||
           is_subdomain(address_host, text_host));
}

// ---- Text ----

// Whether a text holds only spaces, and references to spaces and invisible characters.
template <class Char>
bool is_blank(View<Char> text) {
  // As the flag IGNORECASE of Python compares: two more characters are an i, and one is an s.
  const auto fold = [](char32_t c) {
    return c == 0x130 || c == 0x131 ? U'i' : c == 0x17f ? U's' : to_ascii_lower(c);
  };
  const auto find_end = [&text, &fold](std::size_t place, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      std::size_t i = 0;
      const std::size_t end = std::min(name.size(), text.size() - place);
      while (i < end && fold(static_cast<char32_t>(text[place + i])) == static_cast<unsigned char>(name[i])) ++i;
      if (i == name.size()) return place + i;
    }
    return kNowhere;
  };
  for (std::size_t place = 0; place < text.size();) {
    if (is_space(text[place])) {
      ++place;
      continue;
    }
    if (text[place] != '&') return false;
    ++place;
    if (is_at(text, place, "#")) {
      const bool is_hexadecimal = is_at(text, place + 1, "x") || is_at(text, place + 1, "X");
      place += is_hexadecimal ? 2 : 1;
      while (is_at(text, place, "0")) ++place;
      // A number such as 200b is read as 20, and what follows is not blank.
      place = is_hexadecimal
                  ? find_end(place, {"20", "a0", "ad", "34f", "feff"})
                  : find_end(place, {"32",   "160",  "173",  "847",  "8192", "8193", "8194", "8195", "8196",
                                     "8197", "8198", "8199", "8200", "8201", "8202", "8203", "8204", "8205",
                                     "8206", "8207", "65279"});
    } else {
      place = find_end(place, {"nbsp", "zwnj", "zwj", "shy", "ensp", "emsp", "thinsp", "lrm", "rlm"});
    }
    if (place == kNowhere) return false;
    place += is_at(text, place, ";");
  }
  return true;
}

template <class Char>
bool is_all_space(View<Char> text) {
  return std::all_of(text.begin(), text.end(), is_space);
}

// One space between words and one line break between blocks.
template <class Char>
void normalise_lines(String<Char>& text) {
  const auto is_space_at = [&text](std::size_t place) { return is_space(static_cast<char32_t>(text[place])); };
  std::size_t end = 0;  // The end of the normalised text, which is never longer than the text that was read.
  for (std::size_t place = 0; place < text.size();) {
    Char separator = ' ';
    for (; place < text.size() && is_space_at(place); ++place) separator = text[place] == '\n' ? '\n' : separator;
    if (place == text.size()) break;
    if (end > 0) text[end++] = separator;
    // Words with one space between them. Both are one case: no processor could predict where a word ends.
    bool is_gap = false;
    do {
      text[end++] = text[place++];
      if (place == text.size()) break;
      const bool is_lone_space = (text[place] == ' ') & (place + 1 < text.size()) & !is_space_at(std::min(place + 1, text.size() - 1));
      is_gap = is_space_at(place) & !is_lone_space;
    } while (!is_gap);
  }
  text.resize(end);
}

// Decodes references in the text of a page, and normalises its spaces. Returns whether letters were written as numbers.
bool finish_text(Text text, AnyText& finished) {
  const bool has_hidden_letters = decode_entities(text);
  normalise_lines(text);
  finished = std::move(text);
  return has_hidden_letters;
}
bool finish_text(std::string ascii, AnyText& finished) {
  const std::optional<bool> has_hidden_letters = decode_ascii_entities(ascii);
  if (!has_hidden_letters) return finish_text(widen(ascii), finished);
  normalise_lines(ascii);
  finished = std::move(ascii);
  return *has_hidden_letters;
}

bool is_ascii_text(TextView text) { return is_ascii(text); }
bool is_ascii_text(std::string_view) { return true; }
Text to_text(Text text) { return text; }
Text to_text(std::string ascii) { return widen(ascii); }

template <class Char>
constexpr Char kSpaces[] = {' ', '\n'};
template <class Char>
constexpr View<Char> kBlank(kSpaces<Char>, 1);
template <class Char>
constexpr View<Char> kLineBreak(kSpaces<Char> + 1, 1);

// ---- The reader ----

// The reasons why text is not shown, and the background if an element around the text has one.
struct State {
  bool is_hidden = false;
  bool is_tiny = false;
  bool is_thin = false;
  bool is_same_colour = false;
  std::optional<Colour> background;

  bool operator==(const State& other) const {
    return is_hidden == other.is_hidden && is_tiny == other.is_tiny && is_thin == other.is_thin &&
           is_same_colour == other.is_same_colour && background == other.background;
  }
  bool is_shown() const { return !(is_hidden || is_tiny || is_thin || is_same_colour); }
};

// An element that hides text or shows it again.
template <class Char>
struct Mark {
  String<Char> name;
  std::int64_t count;  // The number of open elements of its name, itself included.
  std::int64_t boxes;
  State before;
};

template <class Char>
class PageReader {
 public:
  void remove_comments(String<Char>& page);
  void remove_scripts(String<Char>& page);
  void look_for_split_words(View<Char> text) {
    if (has_split_word(first(text, kRest))) page_.tricks.add(Trick::kSplitWords);
  }
  Page read(View<Char> text, std::int64_t tags);

 private:
  void read_tag(View<Char> text, const Tag& tag, View<Char> after);
  void follow(View<Char> name, const Element& element, bool is_end);
  void close_before(View<Char> name);
  void enter(const State& state);
  void style(View<Char> name, bool is_end, View<Char> attributes);
  void note_hidden(View<Char> text);
  void point(View<Char> name, bool is_end, const Element& element, View<Char> attributes);
  void point_all(View<Char> text);
  std::optional<Text> record(View<Char> name, const Element& element, View<Char> attributes, std::size_t longest);
  void append_visible(View<Char> text);
  // Returns where the text that follows belongs.
  void append(View<Char> text) {
    if (state_.is_shown()) {
      append_visible(text);
    } else {
      hidden_ += text;
    }
  }

  struct Link {
    Text address;
    std::size_t start;  // The start of its text.
    std::size_t end;    // The end of the first kLinkPieces pieces of its text, once there are so many.
    int pieces;
  };

  Page page_;  // Its texts are added at the end.
  String<Char> visible_, hidden_, outlook_;
  String<Char> name_;  // The name of the tag that is read, in lower case.
  std::vector<Mark<Char>> marks_;
  // Elements that are open, by name, since the first mark. A hostile page cannot make a map slow as it can a hash table.
  std::map<String<Char>, std::int64_t, std::less<>> counts_;
  std::int64_t boxes_ = 0;  // The number of those whose end tag closes all elements within.
  State state_;
  Colour background_ = kWhite;   // The background of the page.
  bool has_background_ = false;  // Whether an element has a background, whose extent is unknown without a tree.
  std::optional<Link> link_;
};

// Removes comments; the content of conditional comments is text for Outlook.
template <class Char>
void PageReader<Char>::remove_comments(String<Char>& page) {
  const View<Char> text(page);
  String<Char> rest;
  std::size_t last = 0;
  for (std::size_t start; (start = find_ascii_part(text, "<!--", last, 1)) != kNowhere;) {
    const std::size_t end = find_ascii_part(text, "-->", start + 2, 2);  // `<!-->` is a complete comment.
    if (end == kNowhere) {
      page_.tricks.add(Trick::kNoClose);
      break;
    }
    rest += text.substr(last, start - last);
    last = end + 3;
    if (start > 0 && is_alpha(text[start - 1]) && last < text.size() && is_alpha(text[last])) {
      page_.tricks.add(Trick::kSplitWords);
    }
    if (!is_at(text, start + 4, "[if")) continue;
    const String<Char> comment = replace_tags<Char>(remove_unseen(after_first(text.substr(start + 4, end - start - 4), '>')));
    std::size_t copied = 0;
    for (std::size_t place; (place = find_ascii_part(comment, "<![endif]", copied)) != kNowhere; copied = place + 9) {
      outlook_.append(comment, copied, place - copied);
      outlook_.push_back(' ');
    }
    outlook_.append(comment, copied);
    outlook_.push_back('\n');
  }
  if (last == 0) return;
  rest += text.substr(last);
  page = std::move(rest);
}

// Removes scripts and styles, from tag to end tag.
template <class Char>
void PageReader<Char>::remove_scripts(String<Char>& page) {
  constexpr std::string_view kNames[] = {"script", "style"};
  const View<Char> text(page);
  String<Char> rest;
  std::size_t last = 0, start = 0;
  bool is_changed = false;
  std::string_view open;  // The name of the element that is open.
  for (std::size_t place = 0; (place = find_character(text, '<', place)) != kNowhere;) {
    const std::size_t tag = place++;
    const bool is_end = is_at(text, place, "/");
    if (is_end) ++place;
    for (const std::string_view name : kNames) {
      const std::size_t name_end = place + name.size();
      if (!is_at_in_any_case(text, place, name) || name_end >= text.size() ||
          !(is_ascii_space(text[name_end]) || text[name_end] == '>' || text[name_end] == '/')) {
        continue;
      }
      const std::size_t close = find_character(text, '>', name_end);
      place = close == kNowhere ? text.size() : close + 1;
      if (is_end && name == open) {
        has_background_ = has_background_ || find_ascii_part(text.substr(start, tag - start), "background") != kNowhere;
        last = place;
        open = {};
      } else if (open.empty() && !is_end) {
        rest += text.substr(last, tag - last);
        is_changed = true;
        open = name;
        start = place;
        if (name == kNames[0]) page_.tricks.add(Trick::kScript);
      }
      break;
    }
  }
  if (open.empty()) {
    if (is_changed) rest += text.substr(last);
  } else {
    page_.tricks.add(Trick::kNoClose);
  }
  if (is_changed) page = std::move(rest);
}

template <class Char>
Page PageReader<Char>::read(View<Char> text, std::int64_t tags) {
  std::optional<Tag> tag = tags < 0 ? std::nullopt : find_tag(text, 0);
  std::int64_t count = 0;
  const auto is_last = [&] { return !tag || (tags > 0 && count >= tags); };
  // The text before a tag is a piece of its own, even if it is empty, and the text after the last tag is the rest.
  View<Char> before = is_last() ? text : text.substr(0, tag->start);
  std::optional<Tag> open;
  const auto use = [&](View<Char> piece) {
    if (open) {
      read_tag(text, *open, piece);
    } else {
      append_visible(piece);
    }
  };
  while (!is_last()) {
    use(before);
    open = tag;
    ++count;
    tag = find_tag(text, open->end);
    before = text.substr(open->end, is_last() ? kNowhere : tag->start - open->end);
  }
  if (count >= tags) {
    page_.tricks.add(Trick::kManyTags);
    const String<Char> rest = replace_tags(first(before, kRest));
    use(rest);
    point_all(before);
  } else {
    use(before);
  }
  if (finish_text(std::move(visible_), page_.visible)) page_.tricks.add(Trick::kEntityLetters);
  finish_text(std::move(hidden_), page_.hidden);
  finish_text(std::move(outlook_), page_.outlook);
  return std::move(page_);
}

template <class Char>
void PageReader<Char>::append_visible(View<Char> text) {
  visible_ += text;
  if (link_ && ++link_->pieces == kLinkPieces) link_->end = visible_.size();
}

template <class Char>
void PageReader<Char>::read_tag(View<Char> text, const Tag& tag, View<Char> after) {
  const View<Char> given = text.substr(tag.start + 1, tag.name_end - tag.start - 1);
  if (is_ascii_text(given)) {
    name_.resize(given.size());
    std::transform(given.begin(), given.end(), name_.begin(), to_ascii_lower);
  } else {
    name_ = lower(given);
  }
  const bool is_end = name_[0] == '/';
  const View<Char> name = View<Char>(name_).substr(is_end);
  const View<Char> attributes = text.substr(tag.name_end, tag.attributes_end - tag.name_end);
  const Element& element = find_element(name);
  switch (is_end ? element.end : element.start) {
    case Action::kPlain: break;
    case Action::kBreaks: append(kLineBreak<Char>); break;
    case Action::kGaps: append(kBlank<Char>); break;
    case Action::kPointsAt: point(name, is_end, element, attributes); break;
    case Action::kOdd: {
      const String<Char>& out = state_.is_shown() ? visible_ : hidden_;
      if (!after.empty() && is_alpha(after[0]) && !out.empty() && is_alpha(out.back()) && name_[0] != '!') {
        page_.tricks.add(Trick::kSplitWords);
      }
      break;
    }
  }
  if (tag.end == tag.attributes_end) page_.tricks.add(Trick::kNoClose);
  if (!marks_.empty()) follow(name, element, is_end);
  if (attributes.size() > 4 && (is_end || !element.is_void) && may_have_effect(attributes)) {
    style(name, is_end, attributes);
  }
  if (after.empty()) return;
  append(after);
  if (!state_.is_shown() && !is_all_space(after)) note_hidden(after);
}

// Counts open elements since the first mark, and removes the marks of closed elements.
template <class Char>
void PageReader<Char>::follow(View<Char> name, const Element& element, bool is_end) {
  if (!is_end) {
    close_before(name);
    if (element.is_void) return;
    const auto found = counts_.find(name);
    if (found == counts_.end()) {
      counts_.emplace(name, 1);
    } else {
      ++found->second;
    }
    boxes_ += element.is_box;
    return;
  }
  boxes_ -= element.is_box;
  const auto found = counts_.find(name);
  if (found != counts_.end() && found->second != 0) --found->second;
  const std::int64_t count = found == counts_.end() ? 0 : found->second;
  for (std::size_t place = 0; place < marks_.size(); ++place) {
    const Mark<Char>& mark = marks_[place];
    if (boxes_ < mark.boxes || (mark.name == name && count < mark.count)) {
      enter(mark.before);
      marks_.resize(place);
      break;
    }
  }
}

// Removes the marks of elements without an end tag that end where an element of this name begins.
template <class Char>
void PageReader<Char>::close_before(View<Char> name) {
  while (!marks_.empty() && is_closed_by<Char>(marks_.back().name, name) && boxes_ == marks_.back().boxes) {
    const Mark<Char> mark = std::move(marks_.back());
    marks_.pop_back();
    --counts_[mark.name];
    enter(mark.before);
  }
}

// Begins or ends to hide text; hidden pieces of text are on lines of their own.
template <class Char>
void PageReader<Char>::enter(const State& state) {
  if (state_.is_shown() && !state.is_shown()) hidden_.push_back('\n');
  state_ = state;
}

// Pushes a mark if an element hides its content or shows it again.
template <class Char>
void PageReader<Char>::style(View<Char> name, bool is_end, View<Char> attributes) {
  const Effect effect = find_effect(to_text(lower(attributes)));
  State after = state_;
  after.is_hidden = after.is_hidden || effect.is_hidden || effect.is_visible == false;
  after.is_tiny = effect.is_tiny.value_or(after.is_tiny);
  after.is_thin = effect.is_thin.value_or(after.is_thin);
  if (equals(name, "body") && !is_end) {
    background_ = effect.background.value_or(background_);
  } else if (effect.background) {
    after.is_same_colour = false;
    has_background_ = has_background_ || !is_same_colour(*effect.background, background_);
    after.background = effect.background;
  }
  if (effect.has_image) {
    after.is_same_colour = false;
    after.background.reset();
    has_background_ = true;
  }
  if (effect.colour) {
    if (effect.background) {
      after.is_same_colour = is_same_colour(*effect.colour, *effect.background);
    } else if (after.background) {
      after.is_same_colour = is_same_colour(*effect.colour, *after.background);
    } else {
      after.is_same_colour = !has_background_ && is_same_colour(*effect.colour, background_);
    }
  }
  if (is_end || after == state_ || marks_.size() >= kMarks) return;
  if (marks_.empty()) {
    counts_.clear();
    boxes_ = 0;
  }
  const std::int64_t count = counts_.emplace(name, 1).first->second;
  marks_.push_back(Mark<Char>{String<Char>(name), count, boxes_, state_});
  enter(after);
}

template <class Char>
void PageReader<Char>::note_hidden(View<Char> text) {
  if (is_blank(text)) return;
  page_.tricks.add(Trick::kHiddenText);
  if (state_.is_tiny) page_.tricks.add(Trick::kTinyFont);
  if (state_.is_same_colour) page_.tricks.add(Trick::kInvisibleInk);
}

// Records the address of a tag, and whether the text of a link names another host than its address.
template <class Char>
void PageReader<Char>::point(View<Char> name, bool is_end, const Element& element, View<Char> attributes) {
  const bool is_link = equals(name, "a");
  if (link_ && is_link) {
    const std::size_t end = link_->pieces < kLinkPieces ? visible_.size() : link_->end;
    if (differs(View<Char>(visible_).substr(link_->start, end - link_->start), link_->address)) {
      page_.tricks.add(Trick::kLinkMismatch);
    }
    link_.reset();
  }
  if (is_end) return;
  if (equals(name, "form") || equals(name, "iframe")) {
    page_.tricks.add(equals(name, "form") ? Trick::kForm : Trick::kIframe);
    append_visible(kLineBreak<Char>);
  }
  std::optional<Text> address = record(name, element, attributes, kAddress);
  if (is_link && address) link_ = Link{std::move(*address), visible_.size(), 0, 0};
}

// Records the addresses of all tags of a text.
template <class Char>
void PageReader<Char>::point_all(View<Char> text) {
  std::set<View<Char>> known;
  std::size_t count = 0;
  for (std::size_t place = 0; count < kPointers && (place = find_character(text, '<', place)) != kNowhere;) {
    const std::size_t start = place++;
    std::size_t name_end = place;
    while (name_end < text.size() && name_end - place <= kLongestKnownName && is_ascii_letter(text[name_end])) {
      ++name_end;
    }
    if (name_end >= text.size() || !(is_ascii_space(text[name_end]) || text[name_end] == '/')) continue;
    const String<Char> name = lower(text.substr(place, name_end - place));
    const Element& element = find_element<Char>(name);
    if (element.address.empty()) continue;
    place = find_attributes_end(text, name_end);
    ++count;
    if (known.insert(text.substr(start, place - start)).second) {
      record(name, element, text.substr(name_end, place - name_end), kBeginning);
    }
  }
}

// Records the address among the attributes of a tag, and returns it; nothing if there is none.
template <class Char>
std::optional<Text> PageReader<Char>::record(View<Char> name, const Element& element, View<Char> attributes,
                                             std::size_t longest) {
  const std::optional<View<Char>> value = find_attribute(attributes, element.address);
  if (!value) return std::nullopt;
  Text address = clean_address(first(*value, longest));
  std::vector<Text>& places = equals(name, "img") || equals(name, "input") ? page_.images : page_.links;
  if (!address.empty() && places.size() < kLinks) places.push_back(address);
  return address;
}

template <class Char>
Page read_page_of(String<Char> text, std::int64_t tags) {
  if (text.size() > kLongestPage) text.resize(kLongestPage);
  for (Char& c : text) c = c == '\n' ? ' ' : c;
  if (find_character(text, '\0') != kNowhere) text.erase(std::remove(text.begin(), text.end(), '\0'), text.end());
  remove_data(text);
  PageReader<Char> reader;
  reader.remove_comments(text);
  reader.remove_scripts(text);
  reader.look_for_split_words(text);
  return reader.read(text, tags);
}

}  // namespace

Page read_page(Text text, std::int64_t tags) { return read_page_of(std::move(text), tags); }
Page read_page(std::string ascii, std::int64_t tags) { return read_page_of(std::move(ascii), tags); }

}  // namespace tamis::mail
