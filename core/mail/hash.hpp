// Computes the features of tokens. The reference is `tamis_mail.features.hashing`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../common.hpp"

namespace tamis::mail {

// The documents of a message (`tamis_mail.tokens.Tokens`).
struct Documents {
  std::string_view head, headers, words, marks, relations;
};

// Words of which is found out whether the body has them, while its words are hashed.
class WordSearch {
 public:
  // Adds a word in UTF-8 and returns its number; equal words have the same.
  std::size_t add(std::string_view word);
  bool has_found(std::size_t number) const { return words_[number].is_found; }
  // Tells of a word of the body and of the state of its hash.
  void see(std::uint64_t state, std::string_view word) {
    if (firsts_[state % kBuckets] != 0) compare(state, word);
  }
  // Tells of all words of a document.
  void see_all(std::string_view document);

 private:
  static constexpr std::size_t kBuckets = 512;
  struct Word {
    std::uint64_t state;
    std::size_t start, size;  // Of its bytes in `bytes_`.
    std::uint32_t next;       // The next word in the same bucket: its number and one, or 0.
    bool is_found;
  };

  std::string_view text_of(const Word& word) const { return std::string_view(bytes_).substr(word.start, word.size); }
  void compare(std::uint64_t state, std::string_view word);

  std::array<std::uint32_t, kBuckets> firsts_{};  // The first word of each bucket that is not found yet, in the same form.
  std::vector<Word> words_;
  std::string bytes_;
};

// Computes the features of the documents of a message, one after the other. There is one at a time in each thread.
class FeatureHasher {
 public:
  // `version` is that of the tokens; `bytes` is the size of all documents, about.
  FeatureHasher(int version, std::size_t bytes);
  void add_head(std::string_view head);
  void add_headers(std::string_view headers);
  void add_marks(std::string_view marks);
  void add_relations(std::string_view relations);
  // Also tells `search` of all words, if there is one.
  void add_words(std::string_view words, WordSearch* search = nullptr);
  // Returns the distinct features of all that was added, in ascending order.
  std::vector<std::uint64_t> finish();

 private:
  int view_bits_;
};

// Returns the distinct features of a message in ascending order.
std::vector<std::uint64_t> hash_tokens(const Documents& documents, int version);

// Returns eight little-endian bytes per feature. The caller holds the interpreter's lock.
nb::bytes pack_features(const std::vector<std::uint64_t>& features);

}  // namespace tamis::mail
