#include "agreements.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "dates.hpp"
#include "folding.hpp"
#include "relations.hpp"
#include "words.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kSubject = 1000;  // Characters of the subject that are read.
constexpr std::size_t kSubjectWords = 40;
constexpr std::size_t kNameWords = 3;  // Words of From that are looked for in the text.
constexpr std::size_t kDate = 300;     // Characters of a date that are read.

constexpr std::array<std::string_view, 2> kHopNames{" oldest-hop", " second-hop"};
struct Remark {
  std::string_view name, sign;
};
constexpr std::array<Remark, 3> kRemarks{{{"forged", "forged"}, {"unknown", "unknown"}, {"recipient", "for <"}}};

std::string_view say(bool is_true) { return is_true ? "yes" : "no"; }

// The text of a field in one form; nothing if there is no field.
template <class Char>
String<Char> lower_field(const Field* field) {
  if (field == nullptr) return {};
  if constexpr (sizeof(Char) == 1) {
    return lower(first(field->ascii, kSelectedValue));
  } else {
    return field->is_ascii ? widen(lower(first(field->ascii, kSelectedValue))) : lower(first(field->text, kSelectedValue));
  }
}

// Whether the body may have a word with this character, and as it is: those of ASCII have only letters, digits and two signs.
bool is_of_body(char32_t c) { return c >= 128 || is_lower_alnum(c) || c == U'$' || c == U'!'; }

template <class Char>
void search_word(WordSearch& search, WantedKind kind, View<Char> word) {
  if (word.empty() || !std::all_of(word.begin(), word.end(), is_of_body)) return;
  if constexpr (sizeof(Char) == 1) {
    search.add(kind, word);
  } else {
    search.add(kind, to_utf8(word));
  }
}

// Calls `use` with each of the first `limit` words of a text, as `str.split` finds them.
template <class Char, class Use>
void for_each_piece(View<Char> text, std::size_t limit, Use use) {
  std::size_t place = 0;
  for (std::size_t count = 0; count < limit; ++count) {
    while (place < text.size() && is_space(text[place])) ++place;
    if (place == text.size()) return;
    const std::size_t start = place;
    while (place < text.size() && !is_space(text[place])) ++place;
    use(text.substr(start, place - start));
  }
}

// Calls `use` with each host in a text in lower case: `(?<![a-z0-9\-])[a-z0-9\-]++(?:\.[a-z0-9\-]++)++`.
template <class Char, class Use>
void for_each_host(View<Char> text, Use use) {
  const auto is_label = [text](std::size_t at) {
    return at < text.size() && (is_lower_alnum(static_cast<char32_t>(text[at])) || text[at] == Char{'-'});
  };
  std::size_t place = 0;  // Where a label may begin.
  for (std::size_t dot; (dot = text.find(Char{'.'}, place)) != kNowhere;) {
    std::size_t start = dot, end = dot;
    while (start > place && is_label(start - 1)) --start;
    while (start < dot && end < text.size() && text[end] == Char{'.'} && is_label(end + 1)) {
      end += 2;
      while (is_label(end)) ++end;
    }
    if (end > dot) use(text.substr(start, end - start));
    place = std::max(end, dot + 1);
  }
}

// Reads the fields that are compared with each other; they have text of one form: bytes if all of them are ASCII, or code points.
template <class Char>
class FieldReader {
 public:
  FieldReader(const SelectedFields& fields, WordSearch& search, std::string& tokens)
      : search_(search), tokens_(tokens), hop_count_(fields.hop_count) {
    for (std::size_t index = 0; index < hop_count_; ++index) {
      hop_texts_[index] = lower_field<Char>(fields.hops[index]);
      hops_[index] = before_first(View<Char>(hop_texts_[index]), Char{';'});
    }
    for (std::size_t age = 0; age < std::min(kHopNames.size(), hop_count_); ++age) {
      describe_hop(kHopNames[age], hops_[hop_count_ - 1 - age]);
    }
    const String<Char> from = lower_field<Char>(fields.from), to = lower_field<Char>(fields.to), cc = lower_field<Char>(fields.cc);
    const String<Char> no_domain = from_ascii<Char>("none");
    View<Char> own = no_domain;
    if (const auto senders = find_addresses(View<Char>(from)); !senders.empty()) {
      own = find_lowered_domain(after_last(cut(View<Char>(from), senders.back().first, senders.back().second), Char{'@'}));
    }
    describe_route(own, lower_field<Char>(fields.message_id), lower_field<Char>(fields.return_path), no_domain);
    describe_recipients(to, cc);
    for_each_piece(View<Char>(to), kNowhere, [this](View<Char> word) { search_word(search_, kWordOfTo, word); });
    search_word(search_, kLabelOfSender, before_first(own, Char{'.'}));
    for_each_piece(View<Char>(from), kNameWords,
                   [this](View<Char> word) { search_word(search_, kWordOfFrom, strip(word, ",")); });
  }

 private:
  // Adds tokens of a hop: whether the claimed name has the domain of the known one, and what else the server says.
  void describe_hop(std::string_view name, View<Char> hop) {
    const View<Char> claim = find_lowered_domain(find_claim(hop)), named = find_lowered_domain(find_name(hop));
    tokens_.append(name).push_back(':');
    if (claim.empty()) {
      tokens_.append("no-claim");
    } else {
      const bool has_point = claim.find(Char{'.'}) != kNowhere;
      bool is_number = claim.find_first_not_of(Char{'.'}) != kNowhere;
      for (const Char c : claim) is_number = is_number && (c == Char{'.'} || is_decimal(c));
      tokens_.append(has_point ? (is_number ? "address=" : "domain=") : (is_number ? "number=" : "word="));
      tokens_.append(named.empty() ? "unnamed" : claim == named ? "same" : "other");
    }
    tokens_.append(name).append("-says:");
    const std::size_t size = tokens_.size();
    for (const Remark& remark : kRemarks) {
      if (find_ascii(hop, remark.sign) == kNowhere) continue;
      if (tokens_.size() > size) tokens_.push_back('+');
      tokens_.append(remark.name);
    }
    if (tokens_.size() == size) tokens_.append("nothing");
  }

  // `from \[?+([\w.\-]++)` at the beginning.
  static View<Char> find_claim(View<Char> hop) {
    constexpr std::string_view beginning = "from ";
    if (!is_at(hop, 0, beginning)) return {};
    const std::size_t start = beginning.size() + is_at(hop, beginning.size(), "[");
    return cut(hop, start, start + count_members(hop, start, is_domain_character, kNowhere));
  }

  // The first `\(([\w.\-]++) ?+\[`.
  static View<Char> find_name(View<Char> hop) {
    for (std::size_t place = hop.find(Char{'('}); place != kNowhere; place = hop.find(Char{'('}, place)) {
      const std::size_t start = ++place;
      place += count_members(hop, start, is_domain_character, kNowhere);
      if (place > start && is_at(hop, place + is_at(hop, place, " "), "[")) return hop.substr(start, place - start);
    }
    return {};
  }

  // Adds tokens that compare the hosts of all hops with the domains of From, Message-ID and Return-Path.
  void describe_route(View<Char> own, const String<Char>& message_id, const String<Char>& return_path, View<Char> no_domain) {
    const auto find_own_domain = [no_domain](View<Char> value) {
      const View<Char> host = strip(after_last(value, Char{'@'}), " <>");
      return find_lowered_domain(host.empty() ? no_domain : host);
    };
    const std::array<View<Char>, 3> domains{own, find_own_domain(message_id), find_own_domain(return_path)};
    std::array<bool, 3> is_in_route{};
    for (std::size_t index = 0; index < hop_count_; ++index) {
      for_each_host(hops_[index], [&](View<Char> host) {
        for (std::size_t i = 0; i < domains.size(); ++i) {  // The domain of a host is the end of its name.
          if (is_in_route[i] || host.size() < domains[i].size() ||
              host.compare(host.size() - domains[i].size(), domains[i].size(), domains[i]) != 0) {
            continue;
          }
          is_in_route[i] = find_lowered_domain(host) == domains[i];
        }
      });
    }
    tokens_.append(is_in_route[0] ? " route:has-sender" : " route:lacks-sender");
    constexpr std::array<std::string_view, 3> names{"", " message-id-domain:", " return-path-domain:"};
    for (std::size_t i = 1; i < domains.size(); ++i) {
      tokens_.append(names[i]).append(is_in_route[i] ? "in-route," : "not-in-route,");
      tokens_.append(domains[i] == own ? "own" : "other");
    }
  }

  // Adds the token that compares To and Cc with the recipients that the hops name.
  void describe_recipients(View<Char> to, View<Char> cc) {
    std::vector<View<Char>> recipients;
    for (const View<Char> value : {to, cc}) {
      for (const auto& [start, end] : find_addresses(value)) recipients.push_back(cut(value, start, end));
    }
    std::sort(recipients.begin(), recipients.end());
    recipients.erase(std::unique(recipients.begin(), recipients.end()), recipients.end());
    bool is_known = false, is_addressed = false;
    for (std::size_t index = 0; index < hop_count_; ++index) {
      const View<Char> hop = hops_[index];
      std::size_t end = 0;
      for (std::size_t start = 0; (start = find_ascii(hop, "for <", end)) != kNowhere;) {
        start += 5;
        end = hop.find(Char{'>'}, start);
        if (end == kNowhere) break;
        if (end == start) continue;
        is_known = true;
        is_addressed =
            is_addressed || std::binary_search(recipients.begin(), recipients.end(), hop.substr(start, end - start));
      }
    }
    tokens_.append(" hop-recipient:").append(!is_known ? "unknown," : is_addressed ? "addressed," : "not-addressed,");
    tokens_.append(describe_size(recipients.size()));
    for (const View<Char> address : recipients) search_word(search_, kLocalPart, before_first(address, Char{'@'}));
  }

  WordSearch& search_;
  std::string& tokens_;
  std::size_t hop_count_;
  std::array<String<Char>, 3> hop_texts_;
  std::array<View<Char>, 3> hops_;  // Without their dates.
};

std::optional<SentTime> read_time(const Field* field) {
  if (field == nullptr) return std::nullopt;
  return field->visit([](auto value) { return parse_sent_time(first(value, kDate)); });
}

// The date after the last semicolon of a hop.
std::optional<SentTime> read_hop_time(const Field& hop) {
  return hop.visit([](auto whole) -> std::optional<SentTime> {
    const auto value = first(whole, kSelectedValue);
    const std::size_t semicolon = value.rfind(';');
    if (semicolon == kNowhere) return std::nullopt;
    return parse_sent_time(first(value.substr(semicolon + 1), kDate));
  });
}

// The time from Date to the oldest hop with a date, and the time of day in Date.
std::string describe_delay(const SelectedFields& fields) {
  const std::optional<SentTime> sent = read_time(fields.date);
  std::optional<SentTime> arrived;
  for (std::size_t index = fields.hop_count; index > 0 && !arrived; --index) arrived = read_hop_time(*fields.hops[index - 1]);
  if (!sent || !arrived) return std::string(" delay:no-").append(sent ? "hop-date" : arrived ? "date" : "dates");
  const std::int64_t late = arrived->seconds - sent->seconds, hour = sent->hour / 4 * 4;
  std::string tokens = late < 0 ? " delay:-" : " delay:";
  tokens.append(describe_size(static_cast<std::size_t>(late < 0 ? -late : late) / 60)).append("min sent-hour:");
  tokens.append(std::to_string(hour)).append("-").append(std::to_string(hour + 3));
  return tokens.append(" sent-seconds:").append(sent->second != 0 ? "other" : "zero");
}

}  // namespace

Agreements::Agreements(const SelectedFields& fields, WordSearch& search) : delay_(describe_delay(fields)) {
  const auto is_ascii_field = [](const Field* field) { return field == nullptr || field->is_ascii; };
  const bool is_all_ascii = is_ascii_field(fields.from) && is_ascii_field(fields.to) && is_ascii_field(fields.cc) &&
                            is_ascii_field(fields.message_id) && is_ascii_field(fields.return_path) &&
                            std::all_of(fields.hops.begin(), fields.hops.end(), is_ascii_field);
  of_fields_.reserve(400);
  if (is_all_ascii) {
    FieldReader<char>(fields, search, of_fields_);
  } else {
    FieldReader<char32_t>(fields, search, of_fields_);
  }
  read_subject(fields.subject, search);
}

void Agreements::read_subject(const Field* field, WordSearch& search) {
  subject_ = "^";
  if (field != nullptr) {
    const std::string separated = field->visit([](auto value) {
      const auto folded = fold(first(value, kSubject));
      return separate_words(decltype(value)(folded));
    });
    for_each_word(separated, kSubjectWords, [&](std::string_view word) {
      search.add(kWordOfSubject, word);
      subject_.append(" ").append(word);
      ++subject_words_;
    });
  }
  subject_.append(" $");
}

void Agreements::append_tokens(const WordSearch& search, std::string& document) const {
  const bool has_local = search.count_found(kLocalPart) > 0, has_word = search.count_found(kWordOfTo) > 0;
  document.append(of_fields_).append(" recipient-in-text:");
  document.append(has_local ? (has_word ? "local-part+word" : "local-part") : (has_word ? "word" : "no"));
  document.append(" sender-in-text:").append(say(search.count_found(kLabelOfSender) > 0));
  document.append(" from-in-text:").append(say(search.count_found(kWordOfFrom) > 0));
  // As `round`: a half becomes the even number beside it.
  const std::size_t found = 4 * search.count_found(kWordOfSubject), words = std::max<std::size_t>(subject_words_, 1);
  std::size_t quarters = found / words;
  const std::size_t rest = 2 * (found % words);
  if (rest > words || (rest == words && quarters % 2 == 1)) ++quarters;
  document.append(" subject-in-text:").append(std::to_string(quarters)).append("/4").append(delay_);
}

}  // namespace tamis::mail
