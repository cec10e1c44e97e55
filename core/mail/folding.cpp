#include "folding.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../compiler.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kMarks = 20;  // Consecutive marks that are kept: normalising is quadratic in their number.

// A sentence of eighteen letters in one character, and its usual short form.
constexpr char32_t kSentence = 0xfdfa;
constexpr TextView kShortSentence = U"\u0635\u0644\u0639\u0645";

// Letters that look like Latin ones, in lower case.
struct LookAlikes {
  TextView letters;
  std::string_view latin;
};
constexpr std::array<LookAlikes, 2> kLookAlikes{{
    {U"\u0430\u0431\u0432\u0433\u0435\u0437\u0456\u0457\u0458\u043a\u043c\u043d\u043e\u0440\u0441\u0442"
     U"\u0443\u0445\u0455\u0501\u051b\u051d\u04bb\u04cf\u044c",
     "a6bre3iijkmhopctyxsdqwhlb"},
    {U"\u03b1\u03b2\u03b3\u03b5\u03b6\u03b7\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9\u03f2",
     "abyeznikvoptuxwc"},
}};

bool is_between(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

// Characters outside of ASCII that are normalised one by one: none of them is a mark, joins with a character before it,
// or becomes something that does (tests/mail/tokens/test_compiled.py looks at all). Full-width and mathematical letters
// are not among them, because they are tricks.
bool is_usual(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  constexpr Range ranges[] = {
      {0x80, 0xac},     {0xae, 0x2ff},      {0x370, 0x482},     {0x48a, 0x52f},     {0x5d0, 0x5ea},   {0x621, 0x64a},
      {0x660, 0x669},   {0x2000, 0x200a},   {0x2010, 0x2029},   {0x202f, 0x205f},   {0x20a0, 0x20cf}, {0x2100, 0x24b5},
      {0x24ea, 0x2bff}, {0x3000, 0x3029},   {0x3030, 0x3098},   {0x309b, 0x312f},   {0x3190, 0x321d}, {0x3220, 0x325f},
      {0x3280, 0x9fff}, {0xac00, 0xd7a3},   {0xe000, 0xfaff},   {0xff01, 0xff20},   {0xff3b, 0xff40}, {0xff5b, 0xff9d},
      {0xffe0, 0xffee}, {0xfffc, 0xfffd},   {0x1f000, 0x1f12f}, {0x1f14a, 0x1faff}, {0x20000, 0x2ffff}};
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [c](const Range& range) { return is_between(c, range.first, range.last); });
}

// Usual characters that normalising and folding case leave as they are, so that Python need not be asked for each of them:
// kana, ideographs and syllables of Hangul.
bool is_unchanged(char32_t c) {
  return is_between(c, 0x3041, 0x3096) || is_between(c, 0x30a1, 0x30fa) || is_between(c, 0x3400, 0x9fff) ||
         is_between(c, 0xac00, 0xd7a3) || c == 0xfffd;
}

bool is_invisible_sign(char32_t c) {
  if (c < 0x34f) return c == 0xad;
  return c == 0x34f || c == 0x61c || c == 0x115f || c == 0x1160 || c == 0x17b4 || c == 0x17b5 ||
         is_between(c, 0x180b, 0x180e) || is_between(c, 0x200b, 0x200f) || is_between(c, 0x202a, 0x202e) ||
         is_between(c, 0x2060, 0x206f) || is_between(c, 0xfe00, 0xfe0f) || c == 0xfeff;
}

bool is_invisible(char32_t c) { return is_invisible_sign(c) || is_between(c, 0xe0000, 0xe007f); }

bool is_zero_width(char32_t c) {
  return is_between(c, 0x200b, 0x200f) || is_between(c, 0x2060, 0x2064) || c == 0xfeff;
}

// Letters of scripts whose words need no invisible characters.
bool is_letter(char32_t c) {
  return is_between(c, U'A', U'Z') || is_between(c, U'a', U'z') || is_between(c, 0xc0, 0x24f) ||
         is_between(c, 0x370, 0x52f);
}

bool is_greek_or_cyrillic(char32_t c) { return is_between(c, 0x370, 0x52f); }

struct Tricks {
  bool full_width = false, math_letters = false, mixed_script = false, soft_hyphen = false, spaced_out = false,
       zero_width = false;
};

constexpr std::size_t kBlock = 64;  // Places that are searched without a branch, so that vectors are used.

// Returns the first place, in steps of kBlock, of which one of the next kBlock places has a character that three others at
// distances of two repeat, and one between that differs; if there is none, one with fewer than kBlock places before `end`.
template <class Char>
TAMIS_INLINE std::size_t find_repeated_sign(const Char* text, std::size_t place, std::size_t end) {
  using Bits = std::make_unsigned_t<Char>;  // As wide as the characters, for the vectors.
  for (; end - place >= kBlock; place += kBlock) {
    const Char* here = text + place;
    Bits is_there = 0;
    for (std::size_t i = 0; i < kBlock; ++i) {
      is_there = static_cast<Bits>(is_there | ((here[i] == here[i + 2]) & (here[i] == here[i + 4]) & (here[i] == here[i + 6]) &
                                               (here[i] != here[i + 1])));
    }
    if (is_there != 0) return place;
  }
  return place;
}
TAMIS_FOR_EACH_PROCESSOR std::size_t find_spaced_block(const char* text, std::size_t place, std::size_t end) {
  return find_repeated_sign(text, place, end);
}
TAMIS_FOR_EACH_PROCESSOR std::size_t find_spaced_block(const char32_t* text, std::size_t place, std::size_t end) {
  return find_repeated_sign(text, place, end);
}

// Whether five letters stand alone with the same sign between them: v i a g r. The letters are `[a-z]`, the signs
// ` ._*-`, and no letter or digit comes before or after them.
template <class Char>
bool has_spaced_word(View<Char> text) {
  if (text.size() < 9) return false;
  const std::size_t end = text.size() - 7;
  std::size_t block_end = 0;  // Of the places that are looked at one by one.
  for (std::size_t place = 1; place < end; ++place) {
    if (place >= block_end) {
      place = find_spaced_block(text.data(), place, end);
      block_end = place + kBlock;
      if (place >= end) return false;
    }
    const Char sign = text[place];
    if (text[place + 2] != sign) continue;  // Most places end here.
    if (sign != ' ' && sign != '.' && sign != '_' && sign != '*' && sign != '-') continue;
    if (text[place + 4] == sign && text[place + 6] == sign &&
        is_lower_letter(text[place - 1]) && is_lower_letter(text[place + 1]) && is_lower_letter(text[place + 3]) &&
        is_lower_letter(text[place + 5]) && is_lower_letter(text[place + 7]) &&
        (place < 2 || !is_lower_alnum(text[place - 2])) &&
        (place + 8 >= text.size() || !is_lower_alnum(text[place + 8]))) {
      return true;
    }
  }
  return false;
}

void find_invisible_tricks(TextView text, Tricks& tricks) {
  for (std::size_t place = 1; place + 1 < text.size(); ++place) {
    if (!is_invisible_sign(text[place]) || !is_letter(text[place - 1])) continue;
    if (text[place] == 0xad) tricks.soft_hyphen = tricks.soft_hyphen || is_letter(text[place + 1]);
    if (is_zero_width(text[place])) {
      std::size_t next = place + 1;
      while (next < text.size() && is_invisible_sign(text[next])) ++next;
      tricks.zero_width = tricks.zero_width || (next < text.size() && is_letter(text[next]));
    }
  }
}

nb::object import_unicode_data(const char* function) { return nb::module_::import_("unicodedata").attr(function); }

bool has_combining_marks(TextView text) {
  const nb::gil_scoped_acquire locked;
  const nb::object combining = import_unicode_data("combining");
  Text signs(text);
  std::sort(signs.begin(), signs.end());
  signs.erase(std::unique(signs.begin(), signs.end()), signs.end());
  return std::any_of(signs.begin(), signs.end(),
                     [&](char32_t c) { return c >= 128 && nb::cast<int>(combining(to_str(TextView(&c, 1)))) != 0; });
}

// Keep only the first of many marks in sequence: signs outside of ASCII that are neither letters, digits nor spaces.
Text limit_marks(TextView text) {
  Text limited;
  std::size_t marks = 0;
  for (const char32_t c : text) {
    marks = c >= 128 && !is_word(c) && !is_space(c) ? marks + 1 : 0;
    if (marks <= kMarks) limited.push_back(c);
  }
  return limited;
}

// Remove invisible characters and excess marks, and note the tricks.
Text remove_disguise(TextView whole, Tricks& tricks) {
  Text text;
  text.reserve(whole.size());
  for (char32_t c : whole) {
    if (c >= 0xad && is_invisible(c)) continue;
    tricks.full_width = tricks.full_width || is_between(c, 0xff21, 0xff3a) || is_between(c, 0xff41, 0xff5a);
    tricks.math_letters = tricks.math_letters || is_between(c, 0x1d400, 0x1d7ff) || is_between(c, 0x24b6, 0x24e9) ||
                          is_between(c, 0x1f130, 0x1f149);
    // The only letters that normalising makes marks of, and marks are counted here.
    if (c == 0xff9e || c == 0xff9f) c = c - 0xff9e + 0x3099;
    text.push_back(c);
  }
  if (text.size() < whole.size()) find_invisible_tricks(whole, tricks);
  Text limited = limit_marks(text);
  if (limited.size() < text.size() && (has_combining_marks(whole) || has_combining_marks(text))) text.swap(limited);
  if (text.find(kSentence) == kNowhere) return text;
  Text shortened;
  for (const char32_t c : text) {
    if (c == kSentence) {
      shortened.append(kShortSentence);
    } else {
      shortened.push_back(c);
    }
  }
  return shortened;
}

// NFKC and casefold, by Python's own tables.
Text normalize(TextView text) {
  const nb::gil_scoped_acquire locked;
  const nb::object normalized = import_unicode_data("normalize")("NFKC", to_str(text));
  return to_text(nb::object(normalized.attr("casefold")()));
}

// The normalised forms of usual characters. Each is asked of Python once, when it is first seen.
class NormalizedCharacters {
 public:
  // What stands for a character: another one, the number of a longer text plus kLong, or one of these.
  static constexpr std::uint32_t kUnusual = 0xffffffff, kRemoved = 0xfffffffe, kLong = 0x80000000;

  std::uint32_t find(char32_t c) {
    if (is_unchanged(c)) return c;
    if (c > 0x10ffff) return kUnusual;
    std::unique_ptr<Block>& block = blocks_[c / kBlock];
    if (!block) block = std::make_unique<Block>();
    std::uint32_t& known = (*block)[c % kBlock];
    if (known == 0) known = ask(c);
    return known;
  }
  TextView long_text(std::uint32_t number) const { return long_texts_[number - kLong]; }

 private:
  static constexpr std::size_t kBlock = 256;
  using Block = std::array<std::uint32_t, kBlock>;

  std::uint32_t ask(char32_t c) {
    if (is_invisible(c)) return kRemoved;
    if (!is_usual(c)) return kUnusual;
    Text text = normalize(TextView(&c, 1));
    if (text.size() == 1) return text[0];
    long_texts_.push_back(std::move(text));
    return kLong + static_cast<std::uint32_t>(long_texts_.size() - 1);
  }

  std::array<std::unique_ptr<Block>, 0x110000 / kBlock> blocks_;
  std::vector<Text> long_texts_;
};

// Normalise a text whose characters are all usual or invisible; false for others.
bool normalize_usual(TextView text, Text& normalized, Tricks& tricks) {
  thread_local NormalizedCharacters known;
  normalized.reserve(text.size() + text.size() / 8);
  bool has_invisible = false;
  for (std::size_t place = 0; place < text.size();) {
    const std::size_t start = place, size = normalized.size();
    while (place < text.size() && text[place] < 128) ++place;
    normalized.append(text, start, place - start);
    for (std::size_t index = size; index < normalized.size(); ++index) {  // A loop without branches.
      const char32_t c = normalized[index];
      normalized[index] = c + (c >= U'A' && c <= U'Z' ? 32 : 0);
    }
    if (place == text.size()) break;
    const std::uint32_t form = known.find(text[place++]);
    if (form == NormalizedCharacters::kUnusual) return false;
    if (form == NormalizedCharacters::kRemoved) {
      has_invisible = true;
    } else if (form >= NormalizedCharacters::kLong) {
      normalized.append(known.long_text(form));
    } else {
      normalized.push_back(form);
    }
  }
  if (has_invisible) find_invisible_tricks(text, tricks);
  return true;
}

// Replace look-alikes in words of mixed scripts; a word is unchanged if one of its letters has no Latin look-alike.
void replace_look_alikes(Text& text, Tricks& tricks) {
  std::uint32_t has_look_alike = 0;
  for (const char32_t c : text) has_look_alike |= static_cast<std::uint32_t>(is_greek_or_cyrillic(c));  // Without branches.
  if (has_look_alike == 0) return;
  for (std::size_t start = 0; start < text.size();) {
    std::size_t end = start;
    bool has_latin = false, has_other = false;
    for (; end < text.size(); ++end) {
      const bool is_latin = is_lower_letter(text[end]), is_other = is_greek_or_cyrillic(text[end]);
      if (!is_latin && !is_other) break;
      has_latin = has_latin || is_latin;
      has_other = has_other || is_other;
    }
    if (has_latin && has_other) {
      tricks.mixed_script = true;
      Text word = text.substr(start, end - start);
      for (char32_t& c : word) {
        for (const LookAlikes& script : kLookAlikes) {
          const std::size_t index = script.letters.find(c);
          if (index != kNowhere) c = static_cast<unsigned char>(script.latin[index]);
        }
      }
      if (is_ascii(word)) std::copy(word.begin(), word.end(), text.begin() + static_cast<std::ptrdiff_t>(start));
    }
    start = end + 1;
  }
}

Text fold_other(TextView text, Tricks& tricks) {
  Text folded;
  if (!normalize_usual(text, folded, tricks)) folded = normalize(remove_disguise(text, tricks));
  replace_look_alikes(folded, tricks);
  return folded;
}

}  // namespace

FoldedText fold_text(TextView text) {
  Tricks tricks;
  FoldedText folded{is_ascii(text) ? lower(text) : fold_other(text, tricks), {}};
  tricks.spaced_out = has_spaced_word(TextView(folded.text));
  for (const auto& [is_used, name] : std::initializer_list<std::pair<bool, TextView>>{
           {tricks.full_width, U"full-width"},   {tricks.math_letters, U"math-letters"},
           {tricks.mixed_script, U"mixed-script"}, {tricks.soft_hyphen, U"soft-hyphen"},
           {tricks.spaced_out, U"spaced-out"},   {tricks.zero_width, U"zero-width"}}) {
    if (is_used) folded.tricks.emplace_back(name);
  }
  return folded;
}

Folded<char> fold_text(std::string_view ascii) {
  Folded<char> folded{lower(ascii), {}};
  if (has_spaced_word(std::string_view(folded.text))) folded.tricks.emplace_back(U"spaced-out");
  return folded;
}

Text fold(TextView text) {
  Tricks tricks;
  return is_ascii(text) ? lower(text) : fold_other(text, tricks);
}

}  // namespace tamis::mail
