#include "bodies.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "numbers.hpp"
#include "pages.hpp"
#include "pages_search.hpp"
#include "styles.hpp"
#include "words.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kText = 12'000;      // Characters of a message whose words are read.
constexpr std::int64_t kTags = 250;        // Tags of a page that are interpreted.
constexpr std::size_t kPage = 200'000;     // Characters of a page that are read.
constexpr std::size_t kHiddenText = 5000;  // Characters of hidden text that are read.
constexpr std::size_t kHiddenWords = 200;
constexpr std::size_t kFirstLinks = 40;   // Links of a part that are read.
constexpr std::size_t kLaterLinks = 300;  // Links that are read if no earlier one has their host.
constexpr std::size_t kLink = 300;        // Characters of a link that are read.
constexpr std::size_t kParts = 40;
constexpr std::size_t kImageMarks = 4;  // Marks of the address of an image.
constexpr std::size_t kNumbers = 60;    // Numbers of a part that are read.
constexpr std::size_t kWords = 8;       // Words of the path of a link, or of the name of a file.

unsigned count_bits(std::uint64_t number) {
  unsigned bits = 0;
  for (; number != 0; number >>= 1) ++bits;
  return bits;
}

// Marks in order, separated by spaces. A space within a mark is an underscore, and NUL is a space.
class Marks {
 public:
  template <class... Pieces>
  void add(const Pieces&... pieces) {
    if (!marks_.empty()) marks_.push_back(U' ');
    (append(pieces), ...);
  }
  Text take() { return std::move(marks_); }

 private:
  void append(TextView piece) {
    for (const char32_t c : piece) marks_.push_back(c == U' ' ? U'_' : c == U'\0' ? U' ' : c);
  }
  void append(unsigned number) {
    char digits[12];
    std::size_t size = 0;
    do digits[size++] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    while (size > 0) marks_.push_back(static_cast<char32_t>(digits[--size]));
  }
  void append(std::string_view ascii) {
    const std::size_t size = marks_.size();
    marks_.resize(size + ascii.size());
    std::transform(ascii.begin(), ascii.end(), marks_.begin() + static_cast<std::ptrdiff_t>(size), [](char c) {
      return static_cast<char32_t>(c == ' ' ? '_' : c == '\0' ? ' ' : c);
    });
  }
  // A word in UTF-8, without spaces.
  void append(const std::string& word) {
    for (std::size_t place = 0; place < word.size();) {
      const auto lead = static_cast<unsigned char>(word[place++]);
      const int more = lead < 0xc0 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;  // Bytes that follow.
      char32_t c = more == 0 ? lead : lead & (0x3fu >> more);
      for (int i = 0; i < more && place < word.size(); ++i) {
        c = c << 6 | (static_cast<unsigned char>(word[place++]) & 0x3fu);
      }
      marks_.push_back(c);
    }
  }

  Text marks_;
};

// Calls `use` with each of the first `limit` runs of characters that belong together; a longer run than `longest` is
// cut into several, and what is shorter than `shortest` is none.
template <class Belongs, class Use>
void for_each_run(TextView text, std::size_t shortest, std::size_t longest, std::size_t limit, Belongs belongs,
                  Use use) {
  std::size_t count = 0;
  for (std::size_t place = 0; place < text.size() && count < limit;) {
    const std::size_t start = place;
    while (place < text.size() && place - start < longest && belongs(text[place])) ++place;
    if (place - start >= shortest) {
      use(text.substr(start, place - start));
      ++count;
    }
    if (place == start) ++place;
  }
}

// As `[\d.:\[\]a-fx]+$` matches.
bool is_numeric(TextView host) {
  if (!host.empty() && host.back() == U'\n') host.remove_suffix(1);
  return !host.empty() && std::all_of(host.begin(), host.end(), [](char32_t c) {
    return is_decimal(c) || c == U'.' || c == U':' || c == U'[' || c == U']' || (c >= U'a' && c <= U'f') || c == U'x';
  });
}

bool is_address_of_numbers(TextView host) {
  bool has_digit = false;
  for (const char32_t c : host) {
    if (c == U'.') continue;
    if (!is_decimal(c)) return false;
    has_digit = true;
  }
  return has_digit;
}

// Calls `use` with the parts of each mark of a link in lower case: its form, its host and parent domains, and the words
// of its path.
template <class Use>
void describe_link(TextView link, Use use) {
  TextView rest;
  const std::size_t colon = find_part(link, U"://");
  if (colon != kNowhere) {
    rest = link.substr(colon + 3);
  } else if (starts_with(link, U"www.")) {
    rest = link;
  } else {
    const TextView scheme = first(before_first(link, U':'), 12);
    use(U"url~", is_all_alpha(scheme) ? scheme : TextView(U"relative"));
    return;
  }
  TextView place = before_first(before_first(rest, U'/'), U'?');
  if (find_character(place, U'@') != kNowhere) {
    use(U"url~", U"user");
    place = after_last(place, U'@');
  }
  if (find_character(place, U'%') != kNowhere) use(U"url~", U"percent");
  const TextView host = before_first(place, U':');
  if (!after_first(place, U':').empty()) use(U"url~", U"port");
  if (is_numeric(host)) use(U"url~", U"number");
  if (has_part(host, U"xn--")) use(U"url~", U"punycode");
  for (const TextView name : is_address_of_numbers(host) ? find_networks(host) : find_hosts(host)) use(U"url:", name);
  for_each_run(first(after_first(rest, U'/'), 200), 3, 30, kWords, is_lower_letter,
               [&use](TextView word) { use(U"url/", word); });
}

// The scheme and the host of a link: what precedes the third slash.
TextView find_place(TextView link) {
  std::size_t slash = find_character(link, U'/');
  for (int i = 0; i < 2 && slash != kNowhere; ++i) slash = find_character(link, U'/', slash + 1);
  return link.substr(0, slash);
}

// The first distinct links, and later ones that lead to other hosts.
template <class Links>
std::vector<TextView> select_links(const Links& links) {
  std::vector<TextView> distinct;
  std::set<TextView> known;
  for (const TextView link : links) {
    if (distinct.size() == kLaterLinks) break;
    if (known.insert(link).second) distinct.push_back(link);
  }
  if (distinct.size() <= kFirstLinks) return distinct;
  std::vector<TextView> selected(distinct.begin(), distinct.begin() + kFirstLinks);
  std::set<TextView> places;
  for (const TextView link : selected) places.insert(find_place(link));
  for (std::size_t i = kFirstLinks; i < distinct.size(); ++i) {
    if (places.insert(find_place(distinct[i])).second) selected.push_back(distinct[i]);
  }
  return selected;
}

// The addresses in folded text that begin with http://, https:// or www., up to 400 characters after that.
template <class Char>
std::vector<View<Char>> find_links(View<Char> text) {
  const auto belongs = [](char32_t c) {
    return !(c == U'<' || c == U'>' || c == U'"' || c == U'\'' || c == U'(' || c == U')' || c == U'[' || c == U']' ||
             is_space(c));
  };
  // Where the next scheme begins, and the next www. The signs within them are rarer than their letters.
  const auto find_scheme = [text](std::size_t place) {
    for (std::size_t sign = place; (sign = find_ascii_part(text, "://", sign)) != kNowhere; ++sign) {
      if (sign >= place + 4 && is_at(text, sign - 4, "http")) return sign - 4;
      if (sign >= place + 5 && is_at(text, sign - 5, "https")) return sign - 5;
    }
    return kNowhere;
  };
  const auto find_www = [text](std::size_t place) { return find_ascii_part(text, "www.", place, 3); };
  std::vector<View<Char>> links;
  std::size_t scheme = find_scheme(0), www = find_www(0);
  while (scheme != kNowhere || www != kNowhere) {
    const bool is_scheme = scheme < www;
    const std::size_t start = is_scheme ? scheme : www;
    const std::size_t address = start + (!is_scheme ? 4 : text[start + 4] == 's' ? 8 : 7);
    std::size_t end = address;
    while (end < text.size() && end - address < 400 && belongs(text[end])) ++end;
    const bool is_link = end > address;
    if (is_link) links.push_back(text.substr(start, end - start));
    const std::size_t next = is_link ? end : start + 1;
    if (scheme < next) scheme = find_scheme(next);
    if (www < next) www = find_www(next);
  }
  return links;
}

// The distinct hosts after an @ in folded text: up to seven labels, the last of which begins with a letter and has two
// letters at least.
template <class Char>
std::vector<View<Char>> find_mail_hosts(View<Char> text) {
  const auto is_label = [](char32_t c) { return is_lower_alnum(c) || c == U'-'; };
  constexpr std::size_t kLabel = 63;
  std::vector<View<Char>> hosts;
  std::set<View<Char>> known;
  for (std::size_t place = 0; (place = find_character(text, '@', place)) != kNowhere;) {
    const std::size_t start = ++place;
    std::size_t host_end = start;
    for (int labels = 0; labels <= 6; ++labels) {
      const std::size_t label = place;
      while (place < text.size() && is_label(text[place])) ++place;
      const std::size_t size = place - label;
      if (labels > 0 && size >= 2 && is_lower_letter(text[label])) host_end = label + std::min(size, kLabel);
      if (size < 1 || size > kLabel || !is_at(text, place, ".")) break;
      ++place;
    }
    place = std::max(host_end, start);
    const View<Char> host = text.substr(start, host_end - start);
    if (!host.empty() && known.insert(host).second) hosts.push_back(host);
  }
  return hosts;
}

// Whether bytes are ASCII and neither a page nor a style sheet, which have two braces at least.
bool is_plain(std::string_view bytes) {
  const std::size_t brace = bytes.find('{');
  const bool may_have_rules = brace != std::string_view::npos && bytes.find('{', brace + 1) != std::string_view::npos;
  if (may_have_rules || !is_ascii_bytes(bytes)) return false;
  const std::size_t start = skip_spaces(bytes, 0);
  return start == bytes.size() || bytes[start] != '<';
}

// Whether a text is a page, whatever its part says.
bool looks_like_page(TextView text) {
  const TextView beginning = first(text, 200);
  const std::size_t start = skip_spaces(beginning, 0);
  if (start >= beginning.size() || beginning[start] != U'<') return false;
  const TextView searched = first(text, 1000);
  for (std::size_t place = 0; (place = find_character(searched, U'<', place)) != kNowhere; ++place) {
    if (is_at_in_any_case(searched, place, U"<html")) return true;
  }
  return false;
}

TextView view_text(const Text& text) { return text; }
std::string_view view_text(const std::string& ascii) { return ascii; }

// The patterns of the numbers of a part, each once.
template <class Char>
class NumberPatterns {
 public:
  // Returns the pattern of a number, its first characters with 9 for each digit; nothing if an earlier number had the same pattern.
  View<Char> add(View<Char> number) {
    number = first(number, kLongestToken);
    Char* const pattern = known_.data() + count_ * kLongestToken;
    std::uint32_t hash = 0;
    for (std::size_t i = 0; i < number.size(); ++i) {
      pattern[i] = is_digit(number[i]) ? Char{'9'} : number[i];
      hash = (hash ^ static_cast<std::uint32_t>(pattern[i])) * 0x9e3779b1u;
    }
    const View<Char> added(pattern, number.size());
    std::size_t slot = hash >> 25;
    for (; slots_[slot] != 0; slot = (slot + 1) % slots_.size()) {
      const std::size_t place = slots_[slot] - 1u;
      if (added == View<Char>(known_.data() + place * kLongestToken, sizes_[place])) return {};
    }
    sizes_[count_] = static_cast<std::uint8_t>(number.size());
    slots_[slot] = static_cast<std::uint8_t>(++count_);
    return added;
  }

 private:
  std::array<Char, kNumbers * kLongestToken> known_;
  std::array<std::uint8_t, kNumbers> sizes_;
  std::array<std::uint8_t, 128> slots_{};  // By a hash: 1 + the place of a pattern, or 0. More than twice kNumbers.
  std::size_t count_ = 0;
};

Page read_part_as_page(const Part& part) {
  const auto bytes = part.text.first_bytes(kPage);
  return bytes && is_ascii_bytes(*bytes) ? read_page(std::string(*bytes), kTags) : read_page(part.text.first(kPage), kTags);
}

class BodyReader {
 public:
  explicit BodyReader(int version) : version_(version) {}
  Body read(const Message& message);

 private:
  void read_file(const Part& part);
  void read_text(const Part& part, bool is_first);
  AnyText read_visible(const Part& part);
  template <class Char>
  void read_numbers(View<Char> text);
  void read_declared_numbers(const Part& part);
  template <class Char>
  void read_words(View<Char> text, std::size_t first_link, bool is_first);
  void describe_page(const Page& page);
  template <class Char>
  std::size_t read_hidden(View<Char> text, TextView kind);

  int version_;
  Body body_;
  Marks marks_;
  std::size_t room_ = kText;  // Characters whose words are still read.
};

Body BodyReader::read(const Message& message) {
  marks_.add(TextView(U"shape:"), first(message.shape, 100));
  marks_.add(TextView(U"size~"), count_bits(message.raw.size()));
  for (const Text& fault : message.faults) marks_.add(TextView(U"fault~"), fault);
  std::size_t count = 0;
  bool is_first = true;
  for (const Part& part : message.parts) {
    if (++count > kParts) break;
    marks_.add(TextView(U"part:"), part.kind);
    if (!part.charset.empty()) marks_.add(TextView(U"charset:"), first(part.charset, kLongestToken));
    if (!part.name.empty()) read_file(part);
    if (part.characters == 0) continue;
    if (room_ == 0) {
      if (version_ > 2) read_declared_numbers(part);
      continue;
    }
    read_text(part, is_first);
    is_first = false;
  }
  const std::size_t start = std::min(body_.words.find_first_not_of(" \n"), body_.words.size());
  body_.words.erase(0, start);
  body_.words.resize(body_.words.find_last_not_of(" \n") + 1);
  body_.marks = marks_.take();
  return std::move(body_);
}

void BodyReader::read_file(const Part& part) {
  const Text name = lower(part.name);
  const TextView low = first(name, 200);
  const TextView stem = before_last(low, U'.'), ending = after_last(low, U'.');
  for_each_run(stem, 2, 40, kWords, is_alnum, [this](TextView word) { marks_.add(TextView(U"file:"), word); });
  if (!ending.empty()) marks_.add(TextView(U"file:."), first(ending, 12));
  if (find_character(stem, U'.') != kNowhere) {
    marks_.add(TextView(U"file:."), first(after_last(stem, U'.'), 12), TextView(U"."), first(ending, 12));
  }
  marks_.add(TextView(U"file~"), part.disposition, TextView(U"~"), count_bits(part.size));
}

// Adds the words, links and images of a part to the body.
void BodyReader::read_text(const Part& part, bool is_first) {
  const std::size_t first_link = body_.links.size();
  // Most text is ASCII without a page or a style sheet: it is read where it is.
  if (const auto bytes = part.text.first_bytes(kText); bytes && part.kind != U"text/html" && is_plain(*bytes)) {
    if (version_ > 2) read_numbers(*bytes);
    read_words(*bytes, first_link, is_first);
    return;
  }
  AnyText visible = read_visible(part);
  if (const Text* text = std::get_if<Text>(&visible); text != nullptr && is_ascii(*text)) visible = to_utf8(*text);
  std::visit([&](const auto& text) { read_words(view_text(text), first_link, is_first); }, visible);
}

// Returns the text of a part that is shown; its links and images are added to the body.
AnyText BodyReader::read_visible(const Part& part) {
  if (part.kind != U"text/html") {
    const Text text = part.text.first(kText);
    if (!looks_like_page(text)) {
      Text shown = remove_style_sheet(text);
      if (version_ > 2) read_numbers(TextView(shown));
      return shown;
    }
  }
  Page page = read_part_as_page(part);
  describe_page(page);
  std::move(page.links.begin(), page.links.end(), std::back_inserter(body_.links));
  std::move(page.images.begin(), page.images.end(), std::back_inserter(body_.images));
  std::visit([](auto& text) { text.resize(std::min(text.size(), kText)); }, page.visible);
  if (version_ > 2) {
    if (part.kind == U"text/html") {
      std::visit([this](const auto& text) { read_numbers(view_text(text)); }, page.visible);
    } else {  // A part that only looks like a page is read as one, but its numbers are those of the whole text.
      read_declared_numbers(part);
    }
  }
  return std::move(page.visible);
}

// Reads the numbers in the text of a part by its declared type: of a page, in what is visible.
void BodyReader::read_declared_numbers(const Part& part) {
  if (part.kind == U"text/html") {
    Page page = read_part_as_page(part);
    std::visit([this](const auto& text) { read_numbers(first(view_text(text), kText)); }, page.visible);
  } else {
    read_numbers(TextView(remove_style_sheet(part.text.first(kText))));
  }
}

template <class Char>
void BodyReader::read_numbers(View<Char> text) {
  NumberPatterns<Char> patterns;
  std::size_t place = 0;
  for (std::size_t count = 0; count < kNumbers; ++count) {
    const NumberPlace number = find_number(text, place);
    if (number.start == number.end) return;
    place = number.end;
    if (const View<Char> pattern = patterns.add(cut(text, number.start, number.end)); !pattern.empty()) {
      marks_.add(std::string_view("number:"), pattern);
    }
  }
}

template <class Char>
void BodyReader::read_words(View<Char> text, std::size_t first_link, bool is_first) {
  const Folded<Char> folded = fold_text(text);
  const View<Char> view = folded.text;
  for (const Text& trick : folded.tricks) marks_.add(TextView(U"trick~"), trick);
  for (const View<Char> link : find_links(view)) body_.links.emplace_back(link.begin(), link.end());
  const std::vector<TextView> links(body_.links.begin() + static_cast<std::ptrdiff_t>(first_link), body_.links.end());
  for (const TextView link : select_links(links)) {
    const Text low = lower(first(link, kLink));
    describe_link(low, [this](TextView kind_of_mark, TextView value) { marks_.add(kind_of_mark, value); });
  }
  for (const View<Char> address : find_mail_hosts(view)) {
    for (const View<Char> host : find_hosts(address)) marks_.add(TextView(U"mail:@"), host);
  }
  if (!is_first) body_.words.push_back('\n');
  body_.words += separate_words(first(view, room_));
  room_ -= std::min(room_, view.size());
}

void BodyReader::describe_page(const Page& page) {
  page.tricks.for_each_name([this](TextView trick) { marks_.add(TextView(U"trick~"), trick); });
  marks_.add(TextView(U"images~"), count_bits(page.images.size()));
  marks_.add(TextView(U"links~"), count_bits(page.links.size()));
  for (const TextView image : select_links(page.images)) {
    const Text low = lower(first(image, kLink));
    std::size_t count = 0;
    describe_link(low, [this, &count](TextView kind, TextView value) {
      if (count++ < kImageMarks) marks_.add(TextView(U"image:"), kind, value);
    });
  }
  const auto count_hidden = [this](const auto& text) { return read_hidden(view_text(text), U"hidden:"); };
  body_.hidden += static_cast<std::int64_t>(std::visit(count_hidden, page.hidden));
  std::visit([this](const auto& text) { read_hidden(view_text(text), U"outlook:"); }, page.outlook);
}

// Adds marks for the words of hidden text, and returns how many there are.
template <class Char>
std::size_t BodyReader::read_hidden(View<Char> text, TextView kind) {
  if (text.empty()) return 0;
  const std::vector<std::string> words = split_words(fold_text(first(text, kHiddenText)).text, kHiddenWords);
  for (const std::string& word : words) marks_.add(kind, word);
  return words.size();
}

}  // namespace

Body read_body(const Message& message, int version) { return BodyReader(version).read(message); }

}  // namespace tamis::mail
