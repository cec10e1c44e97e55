// Computes tokens that say whether servers, sender, recipient and text of a message agree, and how late it was. The reference is
// `tamis_mail.tokens.agreements`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fields.hpp"
#include "hash.hpp"
#include "hops.hpp"

namespace tamis::mail {

// The tokens of a message, as numbers: all possible tokens are in one table.
class AgreementTokens {
 public:
  void add(std::size_t token) { tokens_[count_++] = static_cast<std::uint16_t>(token); }
  const std::uint16_t* begin() const { return tokens_.data(); }
  const std::uint16_t* end() const { return tokens_.data() + count_; }

 private:
  std::array<std::uint16_t, 16> tokens_;  // A message has at most 15.
  std::size_t count_ = 0;
};

class Agreements {
 public:
  // Reads the fields, which must outlive this object, and adds the words that are wanted to `search`, which must then see the words
  // of the body. After that, one of the next two functions may be called, once.
  Agreements(const SelectedFields& fields, const Hops& hops, WordSearch& search);
  // Returns the tokens, in order, with a space before each.
  std::string take_tokens(const WordSearch& search);
  // Adds the features of the tokens to `hasher`.
  void add_features(const WordSearch& search, FeatureHasher& hasher);
  // The words of the subject with its beginning and its end, separated by spaces.
  const std::string& subject() const { return subject_; }

 private:
  void read_subject(WordSearch& search);
  void compare_text(const WordSearch& search);

  const SelectedFields& fields_;
  AgreementTokens tokens_;
  std::string subject_;
  std::size_t subject_words_ = 0;
};

}  // namespace tamis::mail
