#include "relations.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <type_traits>
#include <unordered_map>

#include "names.hpp"
#include "words.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kLongestValue = 2000;  // Characters of a field that are read.
constexpr std::size_t kRepeated = 5;         // Fields of one name that are read.
constexpr std::size_t kLinks = 300;
constexpr std::size_t kLongestLink = 300;  // Characters of a link that are read.
constexpr std::size_t kParts = 20;
constexpr std::size_t kPage = 20000;  // Characters of a page that are searched for style sheets.
constexpr std::size_t kRaw = 10000;   // Bytes of the message that are searched for quoted-printable lines.
constexpr int kNested = 3;            // Comments are removed up to this depth of nesting.
constexpr int kBreaks = 50;           // Broken lines that are measured.
constexpr std::size_t kLongestLine = 100;

// Names that form a public suffix with a top-level domain of two letters, such as co.uk.
template <class Char>
bool is_second_level(View<Char> label) {
  static const Names names{"ac",  "asn",  "co",  "com", "edu", "firm", "gen", "go",  "gob", "gouv",
                           "gov", "gv",   "id",  "ind", "info", "ltd", "me",  "mil", "ne",  "net",
                           "nic", "nom",  "or",  "org", "plc",  "sch", "web"};
  return names.contains(label);
}

// Public suffixes of providers: each customer has a domain below them.
template <class Char>
bool is_shared(View<Char> domain) {
  static const Names names{
      "amazonaws.com", "appspot.com",     "azurewebsites.net", "blogspot.com",   "br.com",         "cloudfront.net",
      "cn.com",        "co.com",          "de.com",            "eu.com",         "firebaseapp.com", "github.io",
      "gitlab.io",     "glitch.me",       "googleapis.com",    "gr.com",         "herokuapp.com",  "jpn.com",
      "myshopify.com", "netlify.app",     "onmicrosoft.com",   "onrender.com",   "pages.dev",      "r2.dev",
      "repl.co",       "ru.com",          "sa.com",            "sharepoint.com", "uk.com",         "us.com",
      "vercel.app",    "web.app",         "weebly.com",        "windows.net",    "wixsite.com",    "wordpress.com",
      "workers.dev",   "za.com"};
  return names.contains(domain);
}

// Providers of free addresses: names below any top-level domain, and complete domains.
template <class Char>
bool is_free(View<Char> domain) {
  static const Names names{"aol",  "gmail", "gmx",     "googlemail", "hotmail", "icloud",
                           "live", "msn",   "outlook", "protonmail", "yahoo",   "yandex"};
  static const Names domains{"126.com",   "163.com",   "21cn.com",  "bk.ru",    "freenet.de", "inbox.ru",
                             "laposte.net", "libero.it", "list.ru",   "mac.com",  "mail.com",   "mail.ru",
                             "me.com",    "naver.com", "orange.fr", "posteo.de", "proton.me",  "qq.com",
                             "rediffmail.com", "sina.com", "t-online.de", "web.de", "wp.pl",    "ymail.com",
                             "zoho.com"};
  return domains.contains(domain) || names.contains(before_first(domain, '.'));
}

// The constructs of pages, each with the name that its token has and the index of its rarest character.
struct Style {
  std::string_view text, name;
  std::size_t rare;
};
constexpr std::array<Style, 7> kStyles{{{"@media", "@media", 0},
                                        {"@import", "@import", 0},
                                        {"@font-face", "@font-face", 0},
                                        {"mso-", "mso", 3},
                                        {"xmlns", "xmlns", 0},
                                        {"<script", "script", 0},
                                        {"<form", "form", 0}}};
constexpr std::string_view kDoctype = "<!doctype";
constexpr std::size_t kDoctypeWithin = 200;  // Characters of a page.

// The fields that are compared, and their names in ascending order.
enum FieldName : std::size_t {
  kAuthenticationResults, kCc, kDkimSignature, kErrorsTo, kFeedbackId, kFrom, kInReplyTo, kListId, kListUnsubscribe,
  kListUnsubscribePost, kMessageId, kMimeVersion, kPrecedence, kReferences, kReplyTo, kReturnPath, kSender, kSubject, kTo,
  kUserAgent, kXMailer, kXPriority
};
constexpr std::array<std::string_view, 22> kFieldNames{
    "authentication-results", "cc", "dkim-signature", "errors-to", "feedback-id", "from", "in-reply-to", "list-id",
    "list-unsubscribe", "list-unsubscribe-post", "message-id", "mime-version", "precedence", "references", "reply-to",
    "return-path", "sender", "subject", "to", "user-agent", "x-mailer", "x-priority"};
constexpr std::array<FieldName, 5> kAddressFields{kReplyTo, kReturnPath, kSender, kMessageId, kErrorsTo};
constexpr std::array<FieldName, 7> kPresent{kFeedbackId, kListId, kMimeVersion, kPrecedence, kUserAgent, kXMailer, kXPriority};
constexpr std::array<std::string_view, 8> kReplies{"re:", "fw:", "fwd:", "aw:", "wg:", "sv:", "tr:", "rv:"};
constexpr std::array<std::string_view, 5> kMethods{"spf", "dkim", "dmarc", "arc", "iprev"};

// The values of a field that is repeated.
template <class Char>
class Values {
 public:
  void add(View<Char> value) {
    if (count_ < kRepeated) values_[count_++] = value;
  }
  const View<Char>* begin() const { return values_.data(); }
  const View<Char>* end() const { return begin() + count_; }
  bool empty() const { return count_ == 0; }

 private:
  std::array<View<Char>, kRepeated> values_;
  std::size_t count_ = 0;
};

// The values of the fields that are compared.
template <class Char>
class Fields {
 public:
  void add(std::string_view name, View<Char> value) {
    static const NameFilter filter = [] {
      NameFilter names;
      for (const std::string_view one : kFieldNames) names.add(one);
      return names;
    }();
    if (!filter.may_contain(name)) return;
    const auto place = std::lower_bound(kFieldNames.begin(), kFieldNames.end(), name);
    if (place == kFieldNames.end() || *place != name) return;
    values_[static_cast<std::size_t>(place - kFieldNames.begin())].add(mail::first(value, kLongestValue));
  }
  const Values<Char>& all(FieldName name) const { return values_[name]; }
  bool has(FieldName name) const { return !all(name).empty(); }
  View<Char> first(FieldName name) const { return has(name) ? *all(name).begin() : View<Char>(); }

 private:
  std::array<Values<Char>, kFieldNames.size()> values_;
};

// Returns the registrable domain of a host in lower case, which is a part of it.
template <class Char>
View<Char> find_registrable(View<Char> host) {
  const View<Char> name = strip(host, ".");
  // The last labels, from the end: label i is name[starts[i]:ends[i]].
  std::array<std::size_t, 4> starts{}, ends{};
  std::size_t count = 0;
  for (std::size_t end = name.size(); count < starts.size();) {
    const std::size_t dot = end == 0 ? kNowhere : name.rfind('.', end - 1);
    starts[count] = dot == kNowhere ? 0 : dot + 1;
    ends[count++] = end;
    if (dot == kNowhere) break;
    end = dot;
  }
  const auto label = [&](std::size_t index) { return cut(name, starts[index], ends[index]); };
  const auto last = [&](std::size_t labels) { return name.substr(starts[std::min(labels, count) - 1]); };
  if (is_all_decimal(label(0))) return last(4);  // A numeric address.
  if (is_shared(last(2)) || (label(0).size() == 2 && count > 1 && is_second_level(label(1)))) return last(3);
  return last(2);
}

// Describe how lines were broken and escapes were written, which differs from program to program.
std::vector<std::string> describe_encoding(const MessageFacts& message) {
  std::vector<std::string> tokens;
  if (std::none_of(message.parts.begin(), message.parts.end(),
                   [](const PartFacts& part) { return part.encoding == U"quoted-printable"; })) {
    return tokens;
  }
  constexpr std::size_t nowhere = std::string_view::npos;
  const std::string_view raw = message.raw.substr(0, kRaw);
  const std::size_t blank_line = raw.find("\n\n");
  const std::size_t begin = blank_line == nowhere ? 0 : blank_line;
  std::size_t longest = 0;
  std::size_t end = raw.find("=\n", begin);
  for (int line = 0; line < kBreaks && end != nowhere; ++line) {
    const std::size_t earliest = std::max(begin, end - std::min(end, kLongestLine));
    const std::size_t line_break = raw.substr(earliest, end - earliest).rfind('\n');
    longest = std::max(longest, line_break == nowhere ? kLongestLine : end - earliest - line_break);
    end = raw.find("=\n", end + 1);
  }
  if (longest > 0) {
    tokens.push_back("quoted-printable:lines=" + std::to_string(longest));
  } else {
    tokens.emplace_back("quoted-printable:short-lines");
  }
  // `=(?:[0-9][a-f]|[a-f][0-9a-f])`
  const auto is_small = [](char byte) { return byte >= 'a' && byte <= 'f'; };
  const auto is_number = [](char byte) { return byte >= '0' && byte <= '9'; };
  for (std::size_t place = begin; (place = raw.find('=', place)) != nowhere && place + 2 < raw.size(); ++place) {
    const char high = raw[place + 1], low = raw[place + 2];
    if ((is_number(high) && is_small(low)) || (is_small(high) && (is_small(low) || is_number(low)))) {
      tokens.emplace_back("quoted-printable:lower-case");
      break;
    }
  }
  return tokens;
}

// The sequences of `characters` that are searched for are short.
template <class Char>
std::size_t find_first_of(View<Char> text, std::string_view characters, std::size_t place = 0) {
  while (place < text.size() && std::none_of(characters.begin(), characters.end(), [c = text[place]](char one) {
           return c == static_cast<Char>(one);
         })) {
    ++place;
  }
  return place < text.size() ? place : kNowhere;
}

// Describes the relations of a message whose fields have text of one form: bytes if all of them are ASCII, or code points.
template <class Char>
class RelationReader {
 public:
  using Text = String<Char>;
  using TextView = View<Char>;
  using Tokens = std::vector<Text>;

  static std::string read(const std::vector<Field>& all_fields, const MessageFacts& message) {
    Fields<Char> fields;
    std::list<Text> widened;
    for (const Field& field : all_fields) {
      if constexpr (std::is_same_v<Char, char>) {
        fields.add(field.name, field.ascii);
      } else {
        fields.add(field.name, field.is_ascii ? widened.emplace_back(widen(field.ascii)) : field.text);
      }
    }
    Tokens tokens;
    tokens.reserve(64);  // Most messages have half as many.
    const Text own = describe_sender(fields, tokens);
    compare_addresses(fields, own, tokens);
    describe_authentication(fields, own, tokens);
    describe_recipients(fields, own, tokens);
    for (const FieldName name : kPresent) {
      if (fields.has(name)) add_ascii(tokens, "has:", kFieldNames[name]);
    }
    describe_parts(message, tokens);
    describe_links(message, own, tokens);
    for (const std::string& token : describe_encoding(message)) add(tokens, token);
    std::string document;
    for (auto token = tokens.begin(); token != tokens.end(); ++token) {  // A few dozen, and a few hundred at most.
      std::replace(token->begin(), token->end(), Char{' '}, Char{'_'});
      if (std::find(tokens.begin(), token, *token) != token) continue;
      if (token != tokens.begin()) document.push_back(' ');
      append_utf8(document, *token);
    }
    return document;
  }

 private:
  static void add(Tokens& tokens, std::string_view beginning, TextView end = {}) {
    Text& token = tokens.emplace_back();
    token.reserve(beginning.size() + end.size());
    token.append(beginning.begin(), beginning.end()).append(end);
  }
  static void add_ascii(Tokens& tokens, std::string_view beginning, std::string_view end) {
    add(tokens, beginning, TextView(from_ascii<Char>(end)));
  }
  // Text in the form of the fields.
  static Text to_form(mail::TextView text) { return Text(text.begin(), text.end()); }

  static void find_domains(TextView value, std::vector<Text>& domains) {
    for (const auto& [start, end] : find_addresses(value)) {
      domains.push_back(find_domain(after_last(cut(value, start, end), '@')));
    }
  }

  static void compare(Tokens& tokens, std::string_view name, const std::vector<Text>& domains, TextView own) {
    const auto same = static_cast<std::size_t>(std::count(domains.begin(), domains.end(), own));
    add_ascii(tokens, name,
              domains.empty()          ? ":none"
              : same == domains.size() ? ":own-domain"
              : same > 0               ? ":mixed"
                                       : ":other-domain");
  }

  // Whether a name contains one of the words, or all of them contain the name.
  static bool is_like(const std::vector<TextView>& words, TextView name) {
    Text all;
    for (const TextView word : words) {
      if (word.size() > 3 && contains(name, word)) return true;
      all.append(word);
    }
    return name.size() > 3 && contains(all, name);
  }

  // Add tokens of From, and return its domain.
  static Text describe_sender(const Fields<Char>& fields, Tokens& tokens) {
    const Text sender = fold(fields.first(kFrom));
    const std::vector<Place> addresses = find_addresses(TextView(sender));
    std::vector<Text> domains;
    for (const auto& [start, end] : addresses) domains.push_back(find_domain(after_last(cut(TextView(sender), start, end), '@')));
    const Text own = domains.empty() ? Text() : domains.back();
    if (own.empty()) {
      add(tokens, "from:no-domain");
    } else {
      add(tokens, "from:tld=", first(after_last(own, '.'), 20));
    }
    const Text names = remove_addresses(TextView(sender), addresses);
    const auto is_name_letter = [](char32_t c) { return is_alnum(c) && !is_decimal(c); };
    const std::vector<TextView> words = find_runs(TextView(names), is_name_letter, 3, 30);
    if (words.empty()) {
      add(tokens, "name:none");
    } else if (is_free(TextView(own))) {  // A provider of free addresses.
      const Place last = addresses.back();
      const TextView local = before_first(cut(sender, last.first, last.second), '@');
      add(tokens, is_like(words, local) ? "name:like-address" : "name:unlike-address");
    } else {
      add(tokens, is_like(words, before_first(own, '.')) ? "name:like-domain" : "name:unlike-domain");
    }
    if (domains.size() > 1) {  // The name is an address, too.
      domains.pop_back();
      compare(tokens, "name-address", domains, own);
    }
    if (is_free(TextView(own))) add(tokens, "from:free-mail");
    return own;
  }

  // Returns the host of a link; empty if it has none.
  static TextView find_host(TextView link) {
    link = first(link, kLongestLink);
    const std::size_t colon = find_ascii(link, "://");
    if (colon == kNowhere || !is_all_alpha(link.substr(0, colon))) return {};
    const TextView host = before_first(link.substr(colon + 3), '/');
    bool is_plain = true, has_letter = false;
    for (const char32_t c : host) {
      is_plain = is_plain && (c == '.' || is_alnum(c));
      has_letter = has_letter || c != '.';
    }
    if (is_plain && has_letter) return host;
    return before_first(after_last(host.substr(0, find_first_of(host, "?#\\")), '@'), ':');
  }

  static void compare_addresses(const Fields<Char>& fields, TextView own, Tokens& tokens) {
    for (const FieldName name : kAddressFields) {
      std::vector<Text> domains;
      for (const TextView value : fields.all(name)) find_domains(value, domains);
      compare(tokens, kFieldNames[name], domains, own);
      const auto has_free_mail = [](TextView domain) { return is_free(domain); };
      if (name == kReplyTo && !is_free(own) && std::any_of(domains.begin(), domains.end(), has_free_mail)) {
        add(tokens, "reply-to:free-mail");
      }
    }
    Text unsubscribe;
    bool is_first = true;
    for (const TextView value : fields.all(kListUnsubscribe)) {
      if (!is_first) unsubscribe.push_back(' ');
      unsubscribe.append(value);
      is_first = false;
    }
    std::replace(unsubscribe.begin(), unsubscribe.end(), '<', ' ');
    std::replace(unsubscribe.begin(), unsubscribe.end(), '>', ' ');
    unsubscribe = lower(unsubscribe);
    std::vector<Text> domains;
    find_domains(unsubscribe, domains);
    for (const TextView word : split_at_spaces(unsubscribe)) {
      const TextView host = find_host(word);
      if (!host.empty()) domains.push_back(find_domain(host));
    }
    compare(tokens, "unsubscribe", domains, own);
    if (fields.has(kListUnsubscribePost)) add(tokens, "unsubscribe:one-click");
  }

  // The domains of a signature: `\bd\s?=\s?([\w.\-]{1,200}+)`.
  static void find_signers(TextView text, std::vector<Text>& signers) {
    for (std::size_t place = 0; (place = text.find('d', place)) != kNowhere;) {
      std::size_t end = place + 1;
      std::size_t size = 0;
      if (begins_word(text, place)) {
        end += count_members(text, end, is_space, 1);
        if (is_at(text, end, "=")) {
          end += 1;
          end += count_members(text, end, is_space, 1);
          size = count_members(text, end, is_domain_character, 200);
        }
      }
      if (size > 0) signers.push_back(find_domain(text.substr(end, size)));
      place = size > 0 ? end + size : place + 1;
    }
  }

  // Replace comments and quoted strings by a space: `\([^()]*+\)|\"[^\"]*+\"`.
  static Text remove_comments(TextView text) {
    Text rest;
    for (std::size_t place = 0; place < text.size();) {
      std::size_t end = kNowhere;
      if (text[place] == '(') {
        end = find_first_of(text, "()", place + 1);
        if (end != kNowhere && text[end] == '(') end = kNowhere;
      } else if (text[place] == '"') {
        end = text.find('"', place + 1);
      }
      if (end == kNowhere) {
        rest.push_back(text[place++]);
      } else {
        rest.push_back(' ');
        place = end + 1;
      }
    }
    return rest;
  }

  // Add the token of one result: `\s*+(spf|dkim|dmarc|arc|iprev)\s?=\s?([a-z]{2,12})`.
  static void read_result(TextView text, Tokens& tokens) {
    std::size_t place = count_members(text, 0, is_space, kNowhere);
    for (const std::string_view method : kMethods) {
      if (!is_at(text, place, method)) continue;
      place += method.size();
      place += count_members(text, place, is_space, 1);
      if (!is_at(text, place, "=")) return;
      place += 1;
      place += count_members(text, place, is_space, 1);
      const std::size_t size = count_members(text, place, is_lower_letter, 12);
      if (size >= 2) add(tokens, std::string("auth:").append(method).append("="), text.substr(place, size));
      return;
    }
  }

  // Adds tokens of the signatures, and of the authentication results of the user's own server. That server adds its results at the
  // top; results further down may come from any server, even the sender's.
  static void describe_authentication(const Fields<Char>& fields, TextView own, Tokens& tokens) {
    std::vector<Text> signers;
    for (const TextView value : fields.all(kDkimSignature)) find_signers(lower(value), signers);
    compare(tokens, "dkim", signers, own);
    if (std::find(signers.begin(), signers.end(), own) != signers.end()) add(tokens, "dkim:some-own-domain");
    Text results = lower(fields.first(kAuthenticationResults));
    for (int depth = 0; depth < kNested; ++depth) results = remove_comments(results);
    const std::vector<TextView> pieces = split_at(results, ';');
    const std::size_t before = tokens.size();
    for (std::size_t index = 1; index < std::min<std::size_t>(pieces.size(), 20); ++index) {
      read_result(pieces[index], tokens);
    }
    if (tokens.size() == before) add(tokens, "auth:none");
  }

  static void describe_recipients(const Fields<Char>& fields, TextView own, Tokens& tokens) {
    std::vector<Text> recipients;
    for (const FieldName name : {kTo, kCc}) {
      for (const TextView value : fields.all(name)) {
        const Text lowered = lower(value);
        for (const auto& [start, end] : find_addresses(lowered)) recipients.emplace_back(lowered, start, end - start);
      }
    }
    add_ascii(tokens, "recipients:", describe_size(recipients.size()));
    if (std::any_of(recipients.begin(), recipients.end(),
                    [own](const Text& address) { return find_domain(after_last(address, '@')) == own; })) {
      add(tokens, "recipients:own-domain");
    }
    const Text subject = fold(fields.first(kSubject));
    for (std::size_t index = 0; index < std::min<std::size_t>(recipients.size(), 5); ++index) {
      const TextView local = before_last(recipients[index], '@');
      if (local.size() > 2 && contains(subject, local)) {
        add(tokens, "subject:names-recipient");
        break;
      }
    }
    if (std::any_of(kReplies.begin(), kReplies.end(), [&](std::string_view reply) { return is_at(subject, 0, reply); })) {
      const bool is_reply = fields.has(kReferences) || fields.has(kInReplyTo);
      add(tokens, is_reply ? "subject:answers-message" : "subject:answers-nothing");
    }
    if (std::any_of(subject.begin(), subject.end(),
                    [](char32_t c) { return (c >= 0x2190 && c <= 0x2bff) || c >= 0x1f000; })) {
      add(tokens, "subject:symbols");
    }
  }

  static void describe_parts(const MessageFacts& message, Tokens& tokens) {
    std::size_t plain = 0, html = 0;
    for (const PartFacts& part : message.parts) {
      if (!part.encoding.empty()) {
        const std::string kind = to_utf8(first(part.kind, 20));
        add(tokens, "encoding:" + kind + "=", TextView(to_form(first(part.encoding, 16))));
      }
      if (part.kind == U"text/plain") plain += part.size;
      if (part.kind == U"text/html") html += part.size;
      for (const mail::Text& style : part.styles) add(tokens, "page:", TextView(to_form(style)));
    }
    if (plain > 0 && html > 0) {
      add(tokens, "plain-text:" + std::to_string(8 * plain / (plain + html)) + "/8");
    }
    add_ascii(tokens, "hidden-text:", describe_size(message.hidden_words));
  }

  // Whether a text begins with these letters of ASCII, which are in lower case; no other letter becomes one of them.
  static bool begins_with(TextView text, std::string_view letters) {
    const auto is_letter = [](char letter, char32_t c) {
      return (c >= 'A' && c <= 'Z' ? c + 32 : c) == static_cast<char32_t>(letter);
    };
    return text.size() >= letters.size() && std::equal(letters.begin(), letters.end(), text.begin(), is_letter);
  }

  // Adds the domain of a host; neighbours among the links often have the same host.
  static void add_domain(TextView host, Text& last_host, std::vector<Text>& domains) {
    if (!domains.empty() && host == last_host) {
      domains.push_back(domains.back());
    } else {
      domains.push_back(find_domain(host));
      last_host = host;
    }
  }

  static void describe_links(const MessageFacts& message, TextView own, Tokens& tokens) {
    std::vector<Text> domains;
    Text last_host;
    bool has_numeric = false;
    std::size_t unencrypted = 0;
    for (std::size_t index = 0; index < std::min(message.links.size(), kLinks); ++index) {
      const Text link = to_form(first(message.links[index], kLongestLink));
      if (begins_with(link, "http:")) ++unencrypted;
      const TextView host = find_host(link);
      if (host.empty()) continue;
      add_domain(host, last_host, domains);
      // `host.replace(".", "").isdecimal()`
      const auto is_numeric = [](char32_t c) { return c == '.' || is_decimal(c); };
      has_numeric = has_numeric || (host.find_first_not_of('.') != kNowhere &&
                                    std::all_of(host.begin(), host.end(), is_numeric));
    }
    std::unordered_map<TextView, std::size_t> counts;
    for (const Text& domain : domains) ++counts[domain];
    compare(tokens, "links", domains, own);
    add_ascii(tokens, "link-domains:", describe_size(counts.size()));
    if (!domains.empty()) {
      // The domain with the most links; the first of these if there are several.
      TextView most = domains[0];
      for (const Text& domain : domains) {
        if (counts[domain] > counts[most]) most = domain;
      }
      add(tokens, "links:tld=", first(after_last(most, '.'), 20));
      compare(tokens, "most-links", {Text(most)}, own);
      if (counts.count(own) > 0) add(tokens, "links:some-own-domain");
      if (has_numeric) add(tokens, "links:numeric-address");
      if (unencrypted > 0) add(tokens, unencrypted == domains.size() ? "links:all-http" : "links:some-http");
    }
    std::vector<Text> image_domains;
    Text last_image_host;
    bool has_attached = false;
    for (std::size_t index = 0; index < std::min(message.images.size(), kLinks); ++index) {
      const Text image = to_form(first(message.images[index], kLongestLink));
      has_attached = has_attached || begins_with(image, "cid:");
      const TextView host = find_host(image);
      if (!host.empty()) add_domain(host, last_image_host, image_domains);
    }
    compare(tokens, "images", image_domains, own);
    if (!image_domains.empty() && !domains.empty()) {
      const bool is_link = std::any_of(image_domains.begin(), image_domains.end(),
                                       [&](const Text& domain) { return counts.count(domain) > 0; });
      add(tokens, is_link ? "images:as-links" : "images:elsewhere");
    }
    if (has_attached) add(tokens, "images:attached");
  }

};

// The place of a character, or `size`.
template <class Character>
std::size_t find_character(const Character* text, std::size_t start, std::size_t size, char character) {
  if constexpr (sizeof(Character) == 1) {
    const void* place = start < size ? std::memchr(text + start, character, size - start) : nullptr;
    return place == nullptr ? size : static_cast<std::size_t>(static_cast<const Character*>(place) - text);
  } else {
    return static_cast<std::size_t>(std::find(text + start, text + size, static_cast<Character>(character)) - text);
  }
}

// The names of the styles of a page, in the order of kStyles, and `doctype`.
template <class Character>
std::vector<Text> find_styles(const Character* text, std::size_t size) {
  const auto is_equal = [](char left, Character right) { return static_cast<Character>(left) == right; };
  std::array<bool, kStyles.size()> has{};
  for (std::size_t begin = 0, end = 0; begin < kStyles.size(); begin = end) {  // Styles with the same rarest character.
    const std::size_t rare = kStyles[begin].rare;
    const char character = kStyles[begin].text[rare];
    while (end < kStyles.size() && kStyles[end].rare == rare && kStyles[end].text[rare] == character) ++end;
    std::size_t missing = end - begin;
    for (std::size_t place = rare; missing > 0 && (place = find_character(text, place, size, character)) < size; ++place) {
      const std::size_t start = place - rare;
      for (std::size_t index = begin; index < end; ++index) {
        const std::string_view part = kStyles[index].text;
        if (has[index] || part.size() > size - start || !std::equal(part.begin(), part.end(), text + start, is_equal)) continue;
        has[index] = true;
        --missing;
      }
    }
  }
  std::vector<Text> names;
  for (std::size_t index = 0; index < kStyles.size(); ++index) {
    if (has[index]) names.push_back(widen(kStyles[index].name));
  }
  const Text beginning = lower(Text(text, text + std::min(size, kDoctypeWithin)));
  if (beginning.find(widen(kDoctype)) != kNowhere) names.push_back(U"doctype");
  return names;
}

}  // namespace

std::vector<PartFacts> describe_parts(const std::vector<Part>& parts) {
  std::vector<PartFacts> facts;
  for (std::size_t index = 0; index < std::min(parts.size(), kParts); ++index) {
    const Part& part = parts[index];
    facts.push_back({part.kind, part.encoding, part.characters, {}});
    if (part.kind != U"text/html") continue;
    const std::size_t size = std::min(part.text.size(), kPage);
    facts.back().styles = part.text.visit([size](const auto* characters) { return find_styles(characters, size); });
  }
  return facts;
}

Text find_domain(TextView host) { return Text(find_registrable<char32_t>(lower(host))); }
std::string find_domain(std::string_view host) { return std::string(find_registrable<char>(lower(host))); }
TextView find_lowered_domain(TextView host) { return find_registrable(host); }
std::string_view find_lowered_domain(std::string_view host) { return find_registrable(host); }

std::string describe_size(std::size_t number) {
  if (number == 0) return "0";
  std::size_t power = 1;
  while (number >>= 1) power <<= 1;
  return std::to_string(power) + "+";
}

std::string read_relations(const std::vector<Field>& fields, const MessageFacts& message) {
  const auto is_all_ascii = [](const std::vector<Text>& texts) { return std::all_of(texts.begin(), texts.end(), is_ascii); };
  const bool has_ascii_facts =
      std::all_of(fields.begin(), fields.end(), [](const Field& field) { return field.is_ascii; }) &&
      std::all_of(message.parts.begin(), message.parts.end(),
                  [](const PartFacts& part) { return is_ascii(part.kind) && is_ascii(part.encoding); }) &&
      is_all_ascii(message.links) && is_all_ascii(message.images);
  return has_ascii_facts ? RelationReader<char>::read(fields, message) : RelationReader<char32_t>::read(fields, message);
}

}  // namespace tamis::mail
