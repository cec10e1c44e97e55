#include "headers.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "names.hpp"
#include "words.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kWords = 40;  // Words of a field that are read.
constexpr std::size_t kAddresses = 20;
constexpr std::size_t kLongestValue = 5000;  // Characters of a field that are read.
constexpr std::size_t kAllValues = 100000;   // Characters of all fields that are read.
constexpr std::size_t kHops = 3;             // The oldest Received lines that are read.
constexpr std::size_t kHostsOfHop = 8;

enum class Kind { kPlain, kAddress, kPresence, kSubject, kIdentity, kDate, kContent, kProduct };

Kind find_kind(std::string_view name) {
  static const std::unordered_map<std::string_view, Kind> kinds = [] {
    std::unordered_map<std::string_view, Kind> map{
        {"subject", Kind::kSubject},     {"message-id", Kind::kIdentity},
        {"date", Kind::kDate},           {"content-type", Kind::kContent},
        {"x-mailer", Kind::kProduct},    {"content-disposition", Kind::kContent},
        {"user-agent", Kind::kProduct},  {"x-mimeole", Kind::kProduct},
        {"organization", Kind::kProduct}};
    for (const char* address :
         {"bcc", "cc", "delivered-to", "disposition-notification-to", "envelope-to", "errors-to", "from", "reply-to",
          "resent-from", "resent-to", "return-path", "sender", "to", "x-envelope-from", "x-original-to", "x-sender"}) {
      map[address] = Kind::kAddress;
    }
    // Signatures, keys and faces differ in every message: only their presence is used.
    for (const char* presence :
         {"arc-authentication-results", "arc-message-signature", "arc-seal", "autocrypt", "delivery-date",
          "dkim-signature", "domainkey-signature", "face", "in-reply-to", "openpgp", "references", "resent-date",
          "resent-message-id", "thread-index", "x-face", "x-gm-message-state", "x-google-dkim-signature",
          "x-google-smtp-source", "x-message-info", "x-microsoft-exchange-diagnostics",
          "x-ms-exchange-transport-crosstenantheadersstamped", "x-original-date", "x-pgp-key", "x-received"}) {
      map[presence] = Kind::kPresence;
    }
    return map;
  }();
  static const NameFilter filter = [] {
    NameFilter names;
    for (const auto& entry : kinds) names.add(entry.first);
    return names;
  }();
  if (!filter.may_contain(name)) return Kind::kPlain;
  const auto entry = kinds.find(name);
  return entry == kinds.end() ? Kind::kPlain : entry->second;
}

// Writes tokens with spaces between them. The tokens of a field are a group, which is separated from the next one even
// if it is empty.
class TokenWriter {
 public:
  void begin_group() {
    separate();
    is_first_ = true;
  }
  void end_group() { is_first_ = false; }

  // Begin a token; its other parts are added to `bytes`.
  std::string& begin(std::string_view name, std::string_view sign) {
    separate();
    return bytes.append(name).append(sign);
  }
  template <class Char>
  void add(std::string_view name, std::string_view sign, View<Char> text) {
    append_utf8(begin(name, sign), text);
  }
  template <class Char>
  void add(std::string_view name, std::string_view sign, const String<Char>& text) {
    append_utf8(begin(name, sign), View<Char>(text));
  }

  std::string bytes;

 private:
  void separate() {
    if (!is_first_) bytes.push_back(' ');
    is_first_ = false;
  }

  bool is_first_ = true;
};

std::size_t bit_length(std::size_t number) {
  std::size_t bits = 0;
  for (; number; number >>= 1) ++bits;
  return bits;
}

// Each run of letters as one `a`, and each run of digits as one `9`.
template <class Char>
String<Char> describe_shape(View<Char> text) {
  String<Char> shape;
  for (std::size_t place = 0; place < text.size(); ++place) {
    const Char c = text[place], before = place > 0 ? text[place - 1] : Char{0};
    if (is_lower_letter(c)) {
      if (!is_lower_letter(before)) shape.push_back('a');
    } else if (is_digit(c)) {
      if (!is_digit(before)) shape.push_back('9');
    } else {
      shape.push_back(c);
    }
  }
  return shape;
}

template <class Char>
void add_hosts(std::string_view name, std::string_view sign, View<Char> domain, TokenWriter& tokens) {
  for (const View<Char> host : find_hosts(domain)) tokens.add(name, sign, host);
}

template <class Char>
void read_address(std::string_view name, View<Char> whole, TokenWriter& tokens) {
  const String<Char> folded = fold(whole);
  const View<Char> value = first(folded, kLongestValue);
  const std::vector<Place> addresses = find_addresses(value);
  if (addresses.size() != 1) tokens.begin(name, "~") += std::to_string(bit_length(addresses.size()));
  for (std::size_t index = 0; index < std::min(addresses.size(), kAddresses); ++index) {
    const View<Char> address = cut(value, addresses[index].first, addresses[index].second);
    tokens.add(name, ":", address);
    add_hosts(name, ":@", after_last(address, '@'), tokens);
  }
  const View<Char> beginning = first(value, 1000);
  const String<Char> rest = remove_addresses(beginning, beginning.size() == value.size() ? addresses : find_addresses(beginning));
  for (const View<Char> word : find_runs(View<Char>(rest), is_word, 2, 40, kWords)) tokens.add(name, ":", word);
}

// The domains of a signature: `\bd=([\w.\-]{1,200})`.
template <class Char>
void read_presence(std::string_view name, View<Char> value, TokenWriter& tokens) {
  if (find_ascii(value, "d=") == kNowhere) return;
  const String<Char> lowered = lower(value);
  const View<Char> text = lowered;
  for (std::size_t place = find_ascii(text, "d="); place != kNowhere; place = find_ascii(text, "d=", place)) {
    const std::size_t size =
        begins_word(text, place) ? count_members(text, place + 2, is_domain_character, 200) : 0;
    if (size > 0) add_hosts(name, ":@", text.substr(place + 2, size), tokens);
    place += size > 0 ? 2 + size : 1;
  }
}

template <class Char>
void read_subject(std::string_view name, View<Char> value, TokenWriter& tokens) {
  const View<Char> beginning = first(value, 1000);
  const Folded<Char> folded = fold_text(beginning);
  for (const std::string& word : split_words(folded.text, kWords)) tokens.begin(name, ":") += word;
  for (const Text& trick : folded.tricks) tokens.add(name, "~", trick);
  const auto is_mark = [](char32_t c) { return c == '!' || c == '?' || c == '$'; };
  for (const View<Char> marks : find_runs(beginning, is_mark, 1, kNowhere)) tokens.add(name, ":", marks);
  const auto letters = std::count_if(value.begin(), value.end(), is_alpha);
  if (letters > 5 && std::count_if(value.begin(), value.end(), is_upper) * 2 > letters) tokens.begin(name, "~loud");
}

// The shape of a message id, which identifies the program that made it.
template <class Char>
void read_identity(std::string_view name, View<Char> value, TokenWriter& tokens) {
  const String<Char> lowered = lower(strip(value, " <>"));
  const View<Char> identity = first(lowered, 300);
  String<Char> shape = describe_shape(before_last(identity, '@'));
  shape.erase(std::remove(shape.begin(), shape.end(), ' '), shape.end());
  tokens.add(name, "~", first(shape, kLongestToken));
  add_hosts(name, ":@", after_last(identity, '@'), tokens);
}

// The zones of a date: `[+\-]\d{4}|\b[a-z]{3,4}\b\)?$`.
template <class Char>
void read_date(std::string_view name, View<Char> value, TokenWriter& tokens) {
  const String<Char> lowered = lower(first(value, 200));
  const View<Char> text = lowered;
  const auto is_end = [text](std::size_t place) {
    return place == text.size() || (place + 1 == text.size() && text[place] == '\n');
  };
  for (std::size_t place = 0; place < text.size();) {
    std::size_t end = 0;
    if (text[place] == '+' || text[place] == '-') {
      if (count_members(text, place + 1, is_decimal, 4) == 4) end = place + 5;
    } else if (is_lower_letter(text[place]) && begins_word(text, place)) {
      const std::size_t letters = place + count_members(text, place, is_lower_letter, 4);
      if (letters >= place + 3 && (letters == text.size() || !is_word(text[letters]))) {
        const bool has_bracket = letters < text.size() && text[letters] == ')';
        if (is_end(letters + has_bracket)) end = letters + has_bracket;
      }
    }
    if (end > 0) tokens.add(name, ":", cut(text, place, end));
    place = end > 0 ? end : place + 1;
  }
}

template <class Char>
void read_content(std::string_view name, View<Char> value, TokenWriter& tokens) {
  const String<Char> lowered = lower(value);
  const std::vector<View<Char>> pieces = split_at(first(lowered, 1000), ';');
  String<Char> kind(first(strip(pieces[0]), 60));
  std::replace(kind.begin(), kind.end(), ' ', '_');
  tokens.add(name, ":", kind);
  for (std::size_t index = 1; index < std::min<std::size_t>(pieces.size(), 20); ++index) {
    const View<Char> key = strip(before_first(pieces[index], '='));
    String<Char> parameter_value(strip(after_first(pieces[index], '='), " \t\"'"));
    if (key.size() == 8 && is_at(key, 0, "boundary")) parameter_value = describe_shape(View<Char>(parameter_value));
    // The name counts among the 80 characters of this token. Names that come here are ASCII.
    String<Char> token = from_ascii<Char>(name);
    token.push_back(':');
    token.append(key).push_back('=');
    token.append(parameter_value);
    token.resize(std::min<std::size_t>(token.size(), 80));
    std::replace(token.begin(), token.end(), ' ', '_');
    std::replace(token.begin(), token.end(), '\t', '_');
    tokens.add("", "", token);
  }
}

// `[\w$!][\w.@+\-$!/=]{0,60}`
template <class Char>
void read_plain(std::string_view name, View<Char> value, TokenWriter& tokens) {
  const auto is_beginning = [](char32_t c) { return c == '$' || c == '!' || is_word(c); };
  const auto is_member = [](char32_t c) {
    switch (c) {
      case '.': case '@': case '+': case '-': case '$': case '!': case '/': case '=':
        return true;
      default:
        return is_word(c);
    }
  };
  const String<Char> folded = fold(first(value, 2000));
  const View<Char> text = folded;
  std::size_t words = 0;
  for (std::size_t place = 0; place < text.size() && words < kWords;) {
    if (!is_beginning(text[place])) {
      ++place;
      continue;
    }
    const std::size_t size = 1 + count_members(text, place + 1, is_member, 60);
    tokens.add(name, ":", first(text.substr(place, size), kLongestToken));
    ++words;
    place += size;
  }
}

// The name of a program as one token, and its words.
template <class Char>
void read_product(std::string_view name, View<Char> value, TokenWriter& tokens) {
  const String<Char> lowered = lower(value);
  std::string& token = tokens.begin(name, "=");
  bool is_first = true;
  for (const View<Char> word : split_at_spaces(first(lowered, 100))) {
    if (!is_first) token.push_back('_');
    is_first = false;
    append_utf8(token, word);
  }
  read_plain(name, value, tokens);
}

template <class Char>
void read_field(std::string_view name, View<Char> value, TokenWriter& tokens) {
  switch (find_kind(name)) {
    case Kind::kAddress: return read_address(name, value, tokens);
    case Kind::kPresence: return read_presence(name, value, tokens);
    case Kind::kSubject: return read_subject(name, value, tokens);
    case Kind::kIdentity: return read_identity(name, value, tokens);
    case Kind::kDate: return read_date(name, value, tokens);
    case Kind::kContent: return read_content(name, value, tokens);
    case Kind::kProduct: return read_product(name, value, tokens);
    case Kind::kPlain: return read_plain(name, value, tokens);
  }
}

// A Received line up to its date, in lower case, without queue numbers: `\bid [^ ;]+`.
template <class Char>
String<Char> tidy_hop(View<Char> hop) {
  const String<Char> lowered = lower(before_first(hop, ';'));
  const View<Char> text = lowered;
  String<Char> tidied;
  tidied.reserve(text.size());
  std::size_t last = 0;  // The place after the last queue number.
  for (std::size_t place = find_ascii(text, "id "); place != kNowhere; place = find_ascii(text, "id ", place)) {
    const auto is_queue_character = [](char32_t c) { return c != ' ' && c != ';'; };
    const std::size_t size = begins_word(text, place) ? count_members(text, place + 3, is_queue_character, kNowhere) : 0;
    if (size > 0) {
      tidied.append(text.substr(last, place - last));
      last = place + 3 + size;
    }
    place += size > 0 ? 3 + size : 1;
  }
  return tidied.append(text.substr(last));
}

// The hosts of a Received line: `[a-z0-9_\-]{1,63}\.[a-z0-9_.\-]{2,190}`.
template <class Char>
std::vector<View<Char>> find_hosts_of_hop(View<Char> text) {
  const auto is_label = [](char32_t c) { return is_lower_alnum(c) || c == '_' || c == '-'; };
  const auto is_host = [is_label](char32_t c) { return c == '.' || is_label(c); };
  std::vector<View<Char>> hosts;
  std::size_t place = 0;  // Where the next label may begin.
  while (hosts.size() < kHostsOfHop) {
    const std::size_t dot = text.find('.', place);
    if (dot == kNowhere) break;
    std::size_t start = dot;
    while (start > place && is_label(text[start - 1])) --start;
    const std::size_t size = start < dot ? count_members(text, dot + 1, is_host, 190) : 0;
    if (size >= 2) {
      hosts.push_back(cut(text, std::max(start, dot - std::min<std::size_t>(dot, 63)), dot + 1 + size));
      place = dot + 1 + size;
    } else {
      place = dot + 1;  // No match begins before this dot.
    }
  }
  return hosts;
}

template <class Char>
void read_hop(View<Char> text, TokenWriter& tokens) {
  for (const View<Char> host : find_hosts_of_hop(text)) {
    if (std::all_of(host.begin(), host.end(), [](char32_t c) { return c == '.' || is_digit(c); })) {
      for (const View<Char> part : find_networks(host)) tokens.add("received", ":", part);
    } else if (strip(host, ".").find('.') != kNowhere) {
      add_hosts("received", ":", host, tokens);
    }
  }
  // `\bwith (\w{2,12})`
  for (std::size_t place = find_ascii(text, "with "); place != kNowhere; place = find_ascii(text, "with ", place)) {
    const std::size_t size = begins_word(text, place) ? count_members(text, place + 5, is_word, 12) : 0;
    if (size >= 2) tokens.add("received", ":with-", text.substr(place + 5, size));
    place += size >= 2 ? 5 + size : 1;
  }
}

}  // namespace

std::string read_headers(const std::vector<Field>& fields) {
  TokenWriter tokens;
  std::string_view previous;
  std::vector<Field> hops;
  std::size_t room = kAllValues;
  for (Field field : fields) {
    const std::size_t limit = std::min(kLongestValue, room);
    field.ascii = first(field.ascii, limit);
    field.text = first(field.text, limit);
    room -= field.size();
    if (field.name == "received") {
      hops.push_back(field);
      if (previous == field.name) continue;
    } else {
      tokens.begin_group();
      field.visit([&](auto value) { read_field(field.name, value, tokens); });
      tokens.end_group();
    }
    tokens.begin(previous, ">").append(field.name);
    previous = field.name;
  }
  tokens.begin(previous, ">");
  tokens.begin("received", "~") += std::to_string(hops.size());
  for (std::size_t index = hops.size() - std::min(hops.size(), kHops); index < hops.size(); ++index) {
    tokens.begin_group();
    hops[index].visit([&tokens](auto hop) {
      const auto tidied = tidy_hop(hop);
      read_hop(decltype(hop)(tidied), tokens);
    });
    tokens.end_group();
  }
  return std::move(tokens.bytes);
}

}  // namespace tamis::mail
