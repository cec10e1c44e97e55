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
  std::string_view head, headers, words, marks, relations, patterns, subject;
};

// The kinds of words that are searched for in the body: parts of addresses of recipients, words of To, the first label of the
// sender's domain, words of From, and words of the subject.
enum WantedKind : std::size_t { kLocalPart, kWordOfTo, kLabelOfSender, kWordOfFrom, kWordOfSubject, kWantedKinds };

// Words that are searched for in the body while its words are hashed.
class WordSearch {
 public:
  WordSearch() {
    words_.reserve(32);
    bytes_.reserve(256);
  }
  // Adds a word in UTF-8; a word that is added twice counts twice.
  void add(WantedKind kind, std::string_view word);
  // The number of words of a kind that were seen.
  std::size_t count_found(WantedKind kind) const { return found_[kind]; }
  // Takes a word of the body, and the state of its hash, and compares it with the words that are searched for.
  void see(std::uint64_t state, std::string_view word) {
    if (firsts_[state % kBuckets] != 0) compare(state, word);
  }
  // The same for all words of a document.
  void see_all(std::string_view document);

 private:
  static constexpr std::size_t kBuckets = 512;
  struct Word {
    std::uint64_t state;
    std::size_t start, size;  // Of its bytes in `bytes_`.
    std::array<std::uint32_t, kWantedKinds> counts;
    std::uint32_t next;  // 1 + the place of the next word in the same bucket, or 0.
  };

  std::string_view text_of(const Word& word) const { return std::string_view(bytes_).substr(word.start, word.size); }
  void compare(std::uint64_t state, std::string_view word);

  std::array<std::uint32_t, kBuckets> firsts_{};  // Of each bucket, 1 + the place of the first word that was not seen yet, or 0.
  std::array<std::size_t, kWantedKinds> found_{};
  std::vector<Word> words_;
  std::string bytes_;
};

// Computes the features of the documents of a message, one after the other. A thread may have one such object at a time, because
// they share its memory.
class FeatureHasher {
 public:
  struct Memory;

  // `version` is that of the tokens; `bytes` is the size of the head and the words, for which memory is reserved.
  FeatureHasher(int version, std::size_t bytes);
  void add_head(std::string_view head);
  void add_headers(std::string_view headers);
  void add_marks(std::string_view marks);
  void add_relations(std::string_view relations);
  void add_feature(std::uint64_t feature);
  void add_patterns(std::string_view patterns);
  void add_subject(std::string_view subject);
  // Also shows all words to `search`, if there is one.
  void add_words(std::string_view words, WordSearch* search = nullptr);
  // Returns the distinct features of all that was added, in ascending order.
  std::vector<std::uint64_t> finish();

 private:
  int view_bits_;
  Memory& memory_;  // Of the thread.
};

// Returns the feature of a token of relations, for tokens since version 2.
std::uint64_t hash_relation(std::string_view token);

// Returns the distinct features of a message in ascending order.
std::vector<std::uint64_t> hash_tokens(const Documents& documents, int version);

// Returns eight little-endian bytes per feature. The caller holds the interpreter's lock.
nb::bytes pack_features(const std::vector<std::uint64_t>& features);

}  // namespace tamis::mail
