#include "agreements.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "dates.hpp"
#include "folding.hpp"
#include "relations.hpp"
#include "words.hpp"

namespace tamis::mail {

namespace {

// The same limits as in the reference.
constexpr std::size_t kSubject = 1000;  // Characters of the subject that are read.
constexpr std::size_t kSubjectWords = 40;
constexpr std::size_t kNameWords = 3;  // Words of From that are searched for in the text.
constexpr std::size_t kDate = 300;     // Characters of a date that are read.

// The sizes of groups of tokens.
constexpr std::size_t kHopNames = 2;       // The oldest hop and the second oldest are described.
constexpr std::size_t kRelationsOfHop = 13;  // No claim, or a name of one of four kinds in one of three relations.
constexpr std::size_t kRemarks = 8;        // Of three remarks, each may be there.
constexpr std::size_t kNumberSizes = 12;   // Of recipients, of which there are fewer than 2^11.
constexpr std::size_t kDelaySizes = 40;    // Of minutes between the years 1971 and 9999.
// The number of the first token of each group.
constexpr std::size_t kHop = 0;
constexpr std::size_t kSays = kHop + kHopNames * kRelationsOfHop;
constexpr std::size_t kRoute = kSays + kHopNames * kRemarks;
constexpr std::size_t kMessageId = kRoute + 2;
constexpr std::size_t kReturnPath = kMessageId + 4;
constexpr std::size_t kHopRecipient = kReturnPath + 4;
constexpr std::size_t kRecipientInText = kHopRecipient + 3 * kNumberSizes;
constexpr std::size_t kSenderInText = kRecipientInText + 4;
constexpr std::size_t kFromInText = kSenderInText + 2;
constexpr std::size_t kSubjectInText = kFromInText + 2;
constexpr std::size_t kNoDelay = kSubjectInText + 5;
constexpr std::size_t kDelay = kNoDelay + 3;
constexpr std::size_t kSentHour = kDelay + 2 * kDelaySizes;
constexpr std::size_t kSentSeconds = kSentHour + 7;
constexpr std::size_t kTokens = kSentSeconds + 2;

// Returns the bit length of a number: numbers that `describe_size` describes in the same way have the same.
std::size_t find_size(std::uint64_t number) {
  std::size_t bits = 0;
  for (; number != 0; number >>= 1) ++bits;
  return bits;
}

// The texts and the features of all tokens, by number.
struct Vocabulary {
  std::array<std::string, kTokens> texts;
  std::array<std::uint64_t, kTokens> features;

  Vocabulary() {
    std::size_t count = 0;
    const auto add = [&](std::string text) { texts[count++] = std::move(text); };
    const auto size_of = [](std::size_t bits) { return bits == 0 ? std::string("0") : describe_size(std::size_t{1} << (bits - 1)); };
    const std::array<std::string, kHopNames> hops{"oldest-hop", "second-hop"};
    for (const std::string& hop : hops) {
      add(hop + ":no-claim");
      for (const char* kind : {"word", "number", "domain", "address"}) {
        for (const char* relation : {"unnamed", "same", "other"}) add(hop + ":" + kind + "=" + relation);
      }
    }
    for (const std::string& hop : hops) {
      for (const char* remarks : {"nothing", "forged", "unknown", "forged+unknown", "recipient", "forged+recipient",
                                  "unknown+recipient", "forged+unknown+recipient"}) {
        add(hop + "-says:" + remarks);
      }
    }
    for (const char* relation : {"lacks-sender", "has-sender"}) add(std::string("route:") + relation);
    for (const char* name : {"message-id", "return-path"}) {
      for (const char* relation : {"not-in-route,other", "in-route,other", "not-in-route,own", "in-route,own"}) {
        add(std::string(name) + "-domain:" + relation);
      }
    }
    for (const char* relation : {"unknown", "not-addressed", "addressed"}) {
      for (std::size_t bits = 0; bits < kNumberSizes; ++bits) add(std::string("hop-recipient:") + relation + "," + size_of(bits));
    }
    for (const char* found : {"no", "local-part", "word", "local-part+word"}) add(std::string("recipient-in-text:") + found);
    for (const char* found : {"no", "yes"}) add(std::string("sender-in-text:") + found);
    for (const char* found : {"no", "yes"}) add(std::string("from-in-text:") + found);
    for (int quarters = 0; quarters <= 4; ++quarters) add("subject-in-text:" + std::to_string(quarters) + "/4");
    for (const char* missing : {"dates", "date", "hop-date"}) add(std::string("delay:no-") + missing);
    for (const char* sign : {"", "-"}) {
      for (std::size_t bits = 0; bits < kDelaySizes; ++bits) add(std::string("delay:") + sign + size_of(bits) + "min");
    }
    for (int hour = 0; hour <= 24; hour += 4) add("sent-hour:" + std::to_string(hour) + "-" + std::to_string(hour + 3));
    for (const char* seconds : {"zero", "other"}) add(std::string("sent-seconds:") + seconds);
    std::transform(texts.begin(), texts.end(), features.begin(), [](const std::string& text) { return hash_relation(text); });
  }

  static const Vocabulary& get() {
    static const Vocabulary vocabulary;
    return vocabulary;
  }
};

constexpr std::string_view kFrom = "from ", kFor = "for ";

// Texts of fields in lower case.
template <class Char>
class LowerCase {
 public:
  // Returns the text of a field; nothing if there is no field.
  View<Char> add(const Field* field) {
    if (field == nullptr) return {};
    const std::string_view ascii = first(field->ascii, kSelectedValue);
    return texts_.emplace_back(field->is_ascii ? widen(lower(ascii)) : lower(first(field->text, kSelectedValue)));
  }

 private:
  std::list<Text> texts_;
};

// The same for fields of ASCII, in memory that the thread uses again for its next message.
template <>
class LowerCase<char> {
 public:
  LowerCase() { bytes_.resize(kFields * kSelectedValue); }
  std::string_view add(const Field* field) {
    if (field == nullptr) return {};
    const std::string_view ascii = first(field->ascii, kSelectedValue);
    char* const lowered = bytes_.data() + size_;
    for (std::size_t i = 0; i < ascii.size(); ++i) {
      lowered[i] = static_cast<char>(ascii[i] + (ascii[i] >= 'A' && ascii[i] <= 'Z' ? 32 : 0));
    }
    size_ += ascii.size();
    return {lowered, ascii.size()};
  }

 private:
  static constexpr std::size_t kFields = 5;  // From, To, Cc, Message-ID and Return-Path.
  static thread_local std::string bytes_;
  std::size_t size_ = 0;
};
thread_local std::string LowerCase<char>::bytes_;

// Whether a word of the body may have this character: of ASCII, these are only small letters, digits and two signs.
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

// Reads the fields that are compared with each other, all as bytes if all of them are ASCII, and otherwise all as code points.
template <class Char>
class FieldReader {
 public:
  FieldReader(const SelectedFields& fields, const Hops& hops, WordSearch& search, AgreementTokens& tokens)
      : search_(search), tokens_(tokens) {
    LowerCase<Char> lowered;
    const View<Char> from = lowered.add(fields.from), to = lowered.add(fields.to), cc = lowered.add(fields.cc);
    domains_[kOwn] = kNoDomain;
    if (const auto senders = find_addresses(from); !senders.empty()) {
      domains_[kOwn] = find_lowered_domain(after_last(cut(from, senders.back().first, senders.back().second), Char{'@'}));
    }
    domains_[kOfMessageId] = find_own_domain(lowered.add(fields.message_id));
    domains_[kOfReturnPath] = find_own_domain(lowered.add(fields.return_path));
    find_recipients(to, cc);
    std::transform(domains_.begin(), domains_.end(), endings_.begin(), read_ending);
    for (std::size_t age = 0; age < fields.hop_count; ++age) {
      const std::size_t index = fields.hop_count - 1 - age;
      if constexpr (sizeof(Char) == 1) {
        read_hop(age, hops[index]);
      } else {
        Hop<char32_t> hop;
        divide_hop(before_first(lowered.add(fields.hops[index]), U';'), hop);
        read_hop(age, hop);
      }
    }
    describe_route();
    for_each_piece(to, kNowhere, [this](View<Char> word) { search_word(search_, kWordOfTo, word); });
    search_word(search_, kLabelOfSender, before_first(domains_[kOwn], Char{'.'}));
    for_each_piece(from, kNameWords, [this](View<Char> word) { search_word(search_, kWordOfFrom, strip(word, ",")); });
  }

 private:
  static constexpr Char kNone[] = {'n', 'o', 'n', 'e'};
  static constexpr View<Char> kNoDomain{kNone, 4};
  enum Domain : std::size_t { kOwn, kOfMessageId, kOfReturnPath, kDomains };

  static View<Char> find_own_domain(View<Char> value) {
    const View<Char> host = strip(after_last(value, Char{'@'}), " <>");
    return find_lowered_domain(host.empty() ? kNoDomain : host);
  }

  // The distinct addresses in To and Cc, in order.
  void find_recipients(View<Char> to, View<Char> cc) {
    for (const View<Char> value : {to, cc}) {
      for (const auto& [start, end] : find_addresses(value)) recipients_.push_back(cut(value, start, end));
    }
    std::sort(recipients_.begin(), recipients_.end());
    recipients_.erase(std::unique(recipients_.begin(), recipients_.end()), recipients_.end());
    for (const View<Char> address : recipients_) search_word(search_, kLocalPart, before_first(address, Char{'@'}));
  }

  // Reads a hop, given how many hops are older; the two oldest ones are described.
  void read_hop(std::size_t age, const Hop<Char>& hop) {
    const View<Char> text = hop.lowered;
    // The claimed name: `from \[?+([\w.\-]++)` at the beginning.
    const std::size_t claim_start = !is_at(text, 0, kFrom) ? kNowhere : kFrom.size() + is_at(text, kFrom.size(), "[");
    View<Char> claimed, found;
    for (const HopWord& word : hop.words) {
      const View<Char> characters = text.substr(word.start, word.end - word.start);
      if (word.start == claim_start) claimed = characters;
      // The name that the server found: the first `\(([\w.\-]++) ?+\[`.
      if (word.start > 0 && text[word.start - 1] == Char{'('} && found.empty() &&
          is_at(text, word.end + is_at(text, word.end, " "), "[")) {
        found = characters;
      }
      if (word.has_point) read_hosts(characters, word.is_unusual);
    }
    const bool has_recipient = read_recipients(text);
    if (age >= kHopNames) return;
    tokens_.add(kHop + age * kRelationsOfHop + compare_names(claimed, found));
    tokens_.add(kSays + age * kRemarks + hop.has_forged + 2 * hop.has_unknown + 4 * has_recipient);
  }

  // Reads each recipient between "for <" and ">"; returns whether the hop has "for <".
  bool read_recipients(View<Char> text) {
    bool has_recipient = false;
    std::size_t next = 0;  // Where the next one may begin.
    for (std::size_t place = 0; (place = text.find(Char{'<'}, place)) != kNowhere; ++place) {
      if (place < kFor.size() || !is_at(text, place - kFor.size(), kFor)) continue;
      has_recipient = true;
      if (place - kFor.size() < next) continue;
      const std::size_t end = text.find(Char{'>'}, place);
      if (end == kNowhere) break;
      next = end;
      if (end == place + 1) continue;
      names_recipient_ = true;
      const View<Char> recipient = cut(text, place + 1, end);
      is_addressed_ = is_addressed_ || std::binary_search(recipients_.begin(), recipients_.end(), recipient);
    }
    return has_recipient;
  }

  // Searches for the domains of the fields among the hosts in a word with a point.
  void read_hosts(View<Char> word, bool is_unusual) {
    const auto read_host = [this](View<Char> host) {
      for (std::size_t i = 0; i < kDomains; ++i) {  // The domain of a host is the end of its name.
        const View<Char> domain = domains_[i];
        if (is_in_route_[i] || host.size() < domain.size() || host.substr(host.size() - domain.size()) != domain) continue;
        is_in_route_[i] = find_lowered_domain(host) == domain;
      }
    };
    if (is_unusual) return for_each_host(word, read_host);
    // The whole word is a host, but for a point at its beginning or its end.
    if (word.back() == Char{'.'}) word.remove_suffix(1);
    if (!may_end_with_domain(word)) return;
    if (!word.empty() && word.front() == Char{'.'}) word.remove_prefix(1);
    if (word.find(Char{'.'}) != kNowhere) read_host(word);
  }

  // Returns the last four characters as one number, to which each contributes 16 bits; 0 if there are fewer.
  static std::uint64_t read_ending(View<Char> name) {
    if (name.size() < 4) return 0;
    std::uint64_t ending = 0;
    for (std::size_t i = name.size() - 4; i < name.size(); ++i) ending = ending << 16 | static_cast<std::uint16_t>(name[i]);
    return ending;
  }

  // Whether a word may end with one of the domains.
  bool may_end_with_domain(View<Char> word) const {
    const std::uint64_t ending = read_ending(word);
    return std::any_of(endings_.begin(), endings_.end(), [ending](std::uint64_t one) { return one == 0 || one == ending; });
  }

  // Returns a number below kRelationsOfHop: of which kind the claimed name is, and whether its domain is that of the name that the
  // server found.
  static std::size_t compare_names(View<Char> claimed, View<Char> found) {
    claimed = find_lowered_domain(claimed);
    found = find_lowered_domain(found);
    if (claimed.empty()) return 0;
    const bool has_point = claimed.find(Char{'.'}) != kNowhere;
    bool is_number = claimed.find_first_not_of(Char{'.'}) != kNowhere;
    for (const Char c : claimed) is_number = is_number && (c == Char{'.'} || is_decimal(c));
    return 1 + 3 * (is_number + 2 * has_point) + (found.empty() ? 0 : claimed == found ? 1 : 2);
  }

  // Adds tokens that compare all hops with From, Message-ID, Return-Path, To and Cc.
  void describe_route() {
    const auto compare_domain = [this](Domain domain) {
      return static_cast<std::size_t>(is_in_route_[domain] + 2 * (domains_[domain] == domains_[kOwn]));
    };
    tokens_.add(kRoute + is_in_route_[kOwn]);
    tokens_.add(kMessageId + compare_domain(kOfMessageId));
    tokens_.add(kReturnPath + compare_domain(kOfReturnPath));
    tokens_.add(kHopRecipient + (!names_recipient_ ? 0 : is_addressed_ ? 2 : 1) * kNumberSizes + find_size(recipients_.size()));
  }

  WordSearch& search_;
  AgreementTokens& tokens_;
  std::array<View<Char>, kDomains> domains_;
  std::array<bool, kDomains> is_in_route_{};
  std::array<std::uint64_t, kDomains> endings_{};  // Of the domains, by `read_ending`.
  std::vector<View<Char>> recipients_;
  // Whether a hop names a recipient, and whether one of these is in To or Cc.
  bool names_recipient_ = false, is_addressed_ = false;
};

std::optional<SentTime> read_time(const Field* field) {
  if (field == nullptr) return std::nullopt;
  return field->visit([](auto value) { return parse_sent_time(first(value, kDate)); });
}

// Reads the date after the last semicolon of a hop.
std::optional<SentTime> read_hop_time(const Field& hop) {
  return hop.visit([](auto whole) -> std::optional<SentTime> {
    const auto value = first(whole, kSelectedValue);
    const std::size_t semicolon = value.rfind(';');
    if (semicolon == kNowhere) return std::nullopt;
    return parse_sent_time(first(value.substr(semicolon + 1), kDate));
  });
}

// Adds tokens of the time from Date to the oldest hop with a date, and of the time of day in Date.
void describe_delay(const SelectedFields& fields, AgreementTokens& tokens) {
  const std::optional<SentTime> sent = read_time(fields.date);
  std::optional<SentTime> arrived;
  for (std::size_t index = fields.hop_count; index > 0 && !arrived; --index) arrived = read_hop_time(*fields.hops[index - 1]);
  if (!sent || !arrived) return tokens.add(kNoDelay + (sent ? 2 : arrived ? 1 : 0));
  const std::int64_t late = arrived->seconds - sent->seconds;
  tokens.add(kDelay + (late < 0 ? kDelaySizes : 0) + find_size(static_cast<std::uint64_t>(late < 0 ? -late : late) / 60));
  tokens.add(kSentHour + static_cast<std::size_t>(sent->hour / 4));
  tokens.add(kSentSeconds + (sent->second != 0));
}

}  // namespace

Agreements::Agreements(const SelectedFields& fields, const Hops& hops, WordSearch& search) : fields_(fields) {
  const auto is_ascii_field = [](const Field* field) { return field == nullptr || field->is_ascii; };
  const bool is_all_ascii = is_ascii_field(fields.from) && is_ascii_field(fields.to) && is_ascii_field(fields.cc) &&
                            is_ascii_field(fields.message_id) && is_ascii_field(fields.return_path) &&
                            std::all_of(fields.hops.begin(), fields.hops.end(), is_ascii_field);
  if (is_all_ascii) {
    FieldReader<char>(fields, hops, search, tokens_);
  } else {
    FieldReader<char32_t>(fields, hops, search, tokens_);
  }
  read_subject(search);
}

void Agreements::read_subject(WordSearch& search) {
  subject_ = "^";
  if (fields_.subject != nullptr) {
    const std::string separated = fields_.subject->visit([](auto value) {
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

// Adds tokens that say which words of the fields the body repeats, and those of the delay.
void Agreements::compare_text(const WordSearch& search) {
  const auto has_found = [&search](WantedKind kind) { return static_cast<std::size_t>(search.count_found(kind) > 0); };
  tokens_.add(kRecipientInText + has_found(kLocalPart) + 2 * has_found(kWordOfTo));
  tokens_.add(kSenderInText + has_found(kLabelOfSender));
  tokens_.add(kFromInText + has_found(kWordOfFrom));
  // As Python's `round`: a half is rounded to the even number.
  const std::size_t found = 4 * search.count_found(kWordOfSubject), words = std::max<std::size_t>(subject_words_, 1);
  std::size_t quarters = found / words;
  const std::size_t rest = 2 * (found % words);
  if (rest > words || (rest == words && quarters % 2 == 1)) ++quarters;
  tokens_.add(kSubjectInText + quarters);
  describe_delay(fields_, tokens_);
}

std::string Agreements::take_tokens(const WordSearch& search) {
  compare_text(search);
  std::string document;
  for (const std::uint16_t token : tokens_) document.append(" ").append(Vocabulary::get().texts[token]);
  return document;
}

void Agreements::add_features(const WordSearch& search, FeatureHasher& hasher) {
  compare_text(search);
  const Vocabulary& vocabulary = Vocabulary::get();
  for (const std::uint16_t token : tokens_) hasher.add_feature(vocabulary.features[token]);
}

}  // namespace tamis::mail
