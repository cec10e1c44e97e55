// Computes tokens that say whether servers, sender, recipient and text of a message agree, and how late it was. The reference is
// `tamis_mail.tokens.agreements`.
#pragma once

#include <string>

#include "fields.hpp"
#include "hash.hpp"
#include "hops.hpp"

namespace tamis::mail {

class Agreements {
 public:
  // Reads the fields, which must outlive this object. The words of the body must be told to `search` before the tokens are taken.
  Agreements(const SelectedFields& fields, const Hops& hops, WordSearch& search);
  // Returns the tokens, in order, with a space before each.
  std::string take_tokens(const WordSearch& search);
  // The words of the subject with its beginning and its end, separated by spaces.
  const std::string& subject() const { return subject_; }

 private:
  void read_subject(WordSearch& search);

  const SelectedFields& fields_;
  std::string tokens_, subject_;
  std::size_t subject_words_ = 0;
};

}  // namespace tamis::mail
