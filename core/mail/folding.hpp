// Text outside of ASCII to normalised text in lower case: the frequent cases of `tamis_mail.message.fold_text`.
#pragma once

#include <optional>

#include "unicode.hpp"

namespace tamis::mail {

struct UsualText {
  Text text;
  bool has_soft_hyphens = false;  // Between letters.
  bool has_zero_width = false;    // Characters without width between letters.
};

// Folds a text whose characters can be folded one by one; nothing for other text: with combining marks, full-width or
// mathematical letters, Latin letters beside Greek or Cyrillic ones, or some rarer scripts.
std::optional<UsualText> fold_usual_text(TextView text);

}  // namespace tamis::mail
