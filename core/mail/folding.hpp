// Normalises text to lower case without invisible characters and look-alikes, and notes which tricks were used. The reference is
// `tamis_mail.message.folding`.
#pragma once

#include <vector>

#include "unicode.hpp"

namespace tamis::mail {

struct FoldedText {
  Text text;
  std::vector<Text> tricks;  // In ascending order.
};

FoldedText fold_text(TextView text);
// The same without the tricks.
Text fold(TextView text);

}  // namespace tamis::mail
