// The NFKC form of a text is that of its characters one by one, if none of them combines with the one before it, and so
// is its case folding. Each character is asked of Python once, so that no table of Unicode is needed here.
#include "folding.hpp"

#include <array>
#include <memory>
#include <vector>

namespace tamis::mail {

namespace {

struct Range {
  char32_t first, last;
};

template <std::size_t Size>
bool is_in(const Range (&ranges)[Size], char32_t c) {
  for (const Range& range : ranges) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

// Characters that are folded one by one. No character of them is a mark or a Hangul vowel, alone or decomposed:
// tests/mail/message/test_folding.py looks at all of them. Full-width and mathematical letters are tricks.
constexpr Range kUsual[] = {
    {0x80, 0xac},       {0xae, 0x2ff},     {0x370, 0x482},     {0x48a, 0x52f},     {0x5d0, 0x5ea},
    {0x621, 0x64a},     {0x660, 0x669},    {0x2000, 0x200a},   {0x2010, 0x2029},   {0x202f, 0x205f},
    {0x20a0, 0x20cf},   {0x2100, 0x24b5},  {0x24ea, 0x2bff},   {0x3000, 0x3029},   {0x3030, 0x3098},
    {0x309b, 0x312f},   {0x3190, 0x321d},  {0x3220, 0x325f},   {0x3280, 0x9fff},   {0xac00, 0xd7a3},
    {0xe000, 0xfaff},   {0xff01, 0xff20},  {0xff3b, 0xff40},   {0xff5b, 0xff9d},   {0xffe0, 0xffee},
    {0xfffc, 0xfffd},   {0x1f000, 0x1f12f}, {0x1f14a, 0x1faff}, {0x20000, 0x2ffff},
};
// Characters that are not seen, and are removed; `kTags` too, but they are none of those that part letters.
constexpr Range kInvisible[] = {
    {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},   {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180e},
    {0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
};
constexpr Range kTags{0xe0000, 0xe007f};
constexpr Range kZeroWidth[] = {{0x200b, 0x200f}, {0x2060, 0x2064}, {0xfeff, 0xfeff}};
// Letters of scripts whose words need no invisible characters.
constexpr Range kLetters[] = {{U'A', U'Z'}, {U'a', U'z'}, {0xc0, 0x24f}, {0x370, 0x52f}};

bool is_greek_or_cyrillic(char32_t c) { return c >= 0x370 && c <= 0x52f; }

// What is known of a character outside of ASCII: a character that it folds to, or the number of a longer text plus
// `kLong`, or one of these.
constexpr std::uint32_t kUnknown = 0, kUnusual = 0xffffffff, kRemoved = 0xfffffffe, kLong = 0x80000000;
constexpr std::size_t kBlock = 256;

class Foldings {
 public:
  std::uint32_t find(char32_t c) {
    std::unique_ptr<Block>& block = blocks_[c / kBlock];
    if (!block) block = std::make_unique<Block>();
    std::uint32_t& known = (*block)[c % kBlock];
    if (known == kUnknown) known = ask(c);
    return known;
  }
  const Text& long_text(std::uint32_t found) const { return long_texts_[found - kLong]; }

 private:
  using Block = std::array<std::uint32_t, kBlock>;

  std::uint32_t ask(char32_t c) {
    if (is_in(kInvisible, c) || (c >= kTags.first && c <= kTags.last)) return kRemoved;
    if (!is_in(kUsual, c)) return kUnusual;
    const nb::object normalize = nb::module_::import_("unicodedata").attr("normalize");
    Text folded = to_text(nb::object(normalize("NFKC", to_str(TextView(&c, 1))).attr("casefold")()));
    if (folded.size() == 1 && folded[0] != 0) return folded[0];
    long_texts_.push_back(std::move(folded));
    return kLong + static_cast<std::uint32_t>(long_texts_.size() - 1);
  }

  std::array<std::unique_ptr<Block>, 0x110000 / kBlock> blocks_;
  std::vector<Text> long_texts_;
};

Foldings& foldings() {
  static Foldings* known = new Foldings();  // Never deleted: Python may end later than C++'s own objects.
  return *known;
}

bool is_letter_at(TextView text, std::size_t place) { return place < text.size() && is_in(kLetters, text[place]); }

bool has_mixed_scripts(TextView text) {
  for (std::size_t place = 1; place < text.size(); ++place) {
    if ((is_greek_or_cyrillic(text[place]) && is_lower_letter(text[place - 1])) ||
        (is_greek_or_cyrillic(text[place - 1]) && is_lower_letter(text[place]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<UsualText> fold_usual_text(TextView text) {
  UsualText folded;
  folded.text.reserve(text.size() + text.size() / 8);
  Foldings& known = foldings();
  bool has_invisible = false;
  for (const char32_t c : text) {
    if (c < 128) {
      folded.text.push_back(is_ascii_class(c, character_class::kUpper) ? c + 32 : c);
      continue;
    }
    const std::uint32_t found = known.find(c);
    if (found == kUnusual) return std::nullopt;
    if (found == kRemoved) {
      has_invisible = true;
    } else if (found >= kLong) {
      folded.text += known.long_text(found);
    } else {
      folded.text.push_back(found);
    }
  }
  for (std::size_t place = 1; has_invisible && place < text.size(); ++place) {
    if (text[place] < 128 || !is_in(kInvisible, text[place]) || !is_letter_at(text, place - 1)) continue;
    if (text[place] == 0xad && is_letter_at(text, place + 1)) folded.has_soft_hyphens = true;
    if (!is_in(kZeroWidth, text[place])) continue;
    std::size_t end = place + 1;
    while (end < text.size() && is_in(kInvisible, text[end])) ++end;
    if (is_letter_at(text, end)) folded.has_zero_width = true;
  }
  if (has_mixed_scripts(folded.text)) return std::nullopt;
  return folded;
}

}  // namespace tamis::mail
