// Reads HTML: visible text, hidden text, links, images, and the tricks that were used. The reference is edition 2 of
// `tamis_mail.message.html`; tests/mail/tokens/test_compiled_pages.py compares the two.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "unicode.hpp"

namespace tamis::mail {

// In the order of their names.
enum class Trick : unsigned {
  kEntityLetters, kForm, kHiddenText, kIframe, kInvisibleInk, kLinkMismatch, kManyTags, kNoClose, kScript, kSplitWords,
  kTinyFont,
};
constexpr TextView kTrickNames[] = {
    U"entity-letters", U"form",     U"hidden-text", U"iframe",      U"invisible-ink", U"link-mismatch",
    U"many-tags",      U"no-close", U"script",      U"split-words", U"tiny-font",
};

class Tricks {
 public:
  void add(Trick trick) { bits_ |= 1u << static_cast<unsigned>(trick); }
  // Calls `use` with the name of each trick, in ascending order.
  template <class Use>
  void for_each_name(Use use) const {
    for (unsigned i = 0; i < sizeof(kTrickNames) / sizeof(kTrickNames[0]); ++i) {
      if (bits_ >> i & 1u) use(kTrickNames[i]);
    }
  }

 private:
  unsigned bits_ = 0;
};

// Text of ASCII as bytes, or any text as code points.
using AnyText = std::variant<std::string, Text>;

struct Page {
  AnyText visible;
  AnyText hidden;
  std::vector<Text> links;
  std::vector<Text> images;
  Tricks tricks;
  AnyText outlook;  // Text that only Outlook shows.
};

constexpr std::size_t kLongestPage = std::size_t{1} << 21;  // Characters of a page that are read.

// Reads a page; any text is accepted. After `tags` tags, the rest is read as text without tags.
Page read_page(Text text, std::int64_t tags);
Page read_page(std::string ascii, std::int64_t tags);

}  // namespace tamis::mail
