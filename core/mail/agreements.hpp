// Computes tokens that say whether servers, sender, recipient and text of a message agree, and how late it was. The reference is
// `tamis_mail.tokens.agreements`.
#pragma once

#include <string>

#include "fields.hpp"
#include "hash.hpp"

namespace tamis::mail {

class Agreements {
 public:
  // Reads the fields. The words of the body must be told to `search` before the tokens are written.
  Agreements(const SelectedFields& fields, WordSearch& search);
  // Appends the tokens, in order, each with a space before it.
  void append_tokens(const WordSearch& search, std::string& document) const;
  // The words of the subject with its beginning and its end, separated by spaces.
  const std::string& subject() const { return subject_; }

 private:
  void read_subject(const Field* field, WordSearch& search);

  std::string of_fields_, delay_, subject_;
  std::size_t subject_words_ = 0;
};

}  // namespace tamis::mail
