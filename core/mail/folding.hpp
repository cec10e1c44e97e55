// Text to normalised text in lower case, without invisible characters and look-alikes, and the names of the tricks that
// were used: `tamis_mail.message.folding`.
#pragma once

#include <vector>

#include "unicode.hpp"

namespace tamis::mail {

struct FoldedText {
  Text text;
  std::vector<Text> tricks;  // In ascending order.
};

FoldedText fold_text(TextView text);
// The text alone.
Text fold(TextView text);

}  // namespace tamis::mail
