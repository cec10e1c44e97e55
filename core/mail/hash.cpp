#include "hash.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "../bits.hpp"
#include "sorting.hpp"

namespace tamis::mail {

namespace {

constexpr int kKeyBits = 48;
constexpr std::size_t kGramSize = 5;
constexpr std::size_t kBlock = 8;   // Bytes of a token per step of the hash.
constexpr std::size_t kBlocks = 5;  // The hash depends on a token's length and on its first 40 bytes; of a pattern, on all bytes.
constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15;
constexpr std::uint64_t kFinalMultiplier = 0xD6E8FEB86659FD93;
constexpr std::uint64_t kPairSalt = kFinalMultiplier;  // For two words of the body with no other between them.
constexpr std::uint64_t kSubjectSalt = kMultiplier;    // For two words of the subject.
constexpr unsigned char kSpace = 32;                   // Bytes up to this one separate tokens.

enum View : std::uint64_t { kGrams, kHeaders, kWords, kPairs, kRelations };

constexpr std::uint64_t salt(View view) { return kMultiplier * (2 * static_cast<std::uint64_t>(view) + 1); }

// Returns the next eight bytes as a number, the first being the lowest; bytes after the end of the text count as zero.
std::uint64_t read_block(std::string_view text, std::size_t start) {
  std::uint64_t block = 0;
  if (start + kBlock <= text.size()) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    std::memcpy(&block, text.data() + start, kBlock);
#else
    const char* bytes = text.data() + start;
    for (std::size_t i = 0; i < kBlock; ++i) block |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
#endif
  } else {
    for (std::size_t i = 0; start + i < text.size(); ++i) {
      block |= std::uint64_t{static_cast<unsigned char>(text[start + i])} << 8 * i;
    }
  }
  return block;
}

// The lowest bytes of a block.
std::uint64_t take_bytes(std::uint64_t block, std::size_t size) {
  return size < kBlock ? block & ((std::uint64_t{1} << 8 * size) - 1) : block;
}

// Returns the number of bytes of a block before the first one that separates tokens.
std::size_t count_token_bytes(std::uint64_t block) {
  constexpr std::uint64_t low = 0x7f7f7f7f7f7f7f7f, high = 0x8080808080808080, above_space = 0x5f5f5f5f5f5f5f5f;
  // The highest bit of each byte is set where the byte is above 32: its other bits and 0x5f carry into it, or it was set.
  const std::uint64_t gaps = ~(((block & low) + above_space) | block) & high;
  if (gaps == 0) return kBlock;
  return find_lowest_bit(gaps) / 8;
}

std::uint64_t mix(std::uint64_t state, std::uint64_t block) {
  state = (state ^ block) * kMultiplier;
  return state ^ state >> 32;
}

// The tokens of a document, one after the other, and the hash state of each.
class TokenScanner {
 public:
  TokenScanner(std::string_view document, View view) : document_(document), salt_(salt(view)) {}

  // Go to the next token; false at the end.
  bool advance() {
    is_on_new_line = false;
    while (place_ < document_.size() && static_cast<unsigned char>(document_[place_]) <= kSpace) {
      is_on_new_line = is_on_new_line || document_[place_] == '\n';
      ++place_;
    }
    if (place_ == document_.size()) return false;
    start_ = place_;
    std::uint64_t blocks[kBlocks];  // The first ones: the hash begins with the length, which is known at the end.
    std::size_t count = 0, bytes = kBlock;
    while (bytes == kBlock) {
      const std::uint64_t block = read_block(document_, place_);
      bytes = count_token_bytes(block);
      if (bytes > 0 && count < kBlocks) blocks[count++] = take_bytes(block, bytes);
      place_ += bytes;
    }
    state = salt_ ^ (place_ - start_);
    for (std::size_t index = 0; index < count; ++index) state = mix(state, blocks[index]);
    return true;
  }

  std::string_view token() const { return document_.substr(start_, place_ - start_); }

  std::uint64_t state = 0;
  bool is_on_new_line = false;  // Whether a line break is before the token.

 private:
  std::string_view document_;
  std::uint64_t salt_;
  std::size_t start_ = 0, place_ = 0;  // Of the token, and after it.
};

// Calls `use` with the state of the hash of each token of a document, which depends on all of its bytes.
template <class Use>
void hash_completely(std::string_view document, View view, Use use) {
  for (std::size_t place = 0; place < document.size();) {
    const std::size_t start = place;
    std::size_t bytes = kBlock;
    while (bytes == kBlock) {
      bytes = count_token_bytes(read_block(document, place));
      place += bytes;
    }
    const std::string_view token = document.substr(start, place - start);
    if (token.empty()) {
      ++place;
      continue;
    }
    std::uint64_t state = salt(view) ^ token.size();
    for (std::size_t block = 0; block < token.size(); block += kBlock) state = mix(state, read_block(token, block));
    use(state);
  }
}

std::uint64_t make_feature(std::uint64_t state, View view, int view_bits) {
  state = (state ^ state >> 29) * kFinalMultiplier;
  return state >> (64 - kKeyBits + view_bits) << view_bits | view;
}

void add_grams(std::string_view head, int view_bits, std::vector<std::uint64_t>& features) {
  if (head.size() < kGramSize) return;
  std::size_t size = features.size();
  features.resize(size + head.size() - kGramSize + 1);
  for (std::size_t start = 0; start + kGramSize <= head.size(); ++start) {
    const std::uint64_t gram = take_bytes(read_block(head, start), kGramSize);
    const std::uint64_t state = mix(salt(kGrams) ^ kGramSize, gram);
    // A bit of the hash selects every second gram, because they overlap. No processor could predict it: each gram is written,
    // and the next one takes the place of one that is not selected.
    features[size] = make_feature(state, kGrams, view_bits);
    size += state & 1;
  }
  features.resize(size);
}

void add_tokens(std::string_view document, View view, int view_bits, std::vector<std::uint64_t>& features) {
  TokenScanner token(document, view);
  while (token.advance()) features.push_back(make_feature(token.state, view, view_bits));
}

// Adds words, and pairs of neighbours on one line. Calls `see` with the scanner at each word.
template <class See>
void add_words_and_pairs(std::string_view words, int view_bits, See see, std::vector<std::uint64_t>& features) {
  TokenScanner word(words, kWords);
  std::uint64_t left = 0;
  for (bool has_left = false; word.advance(); has_left = true) {
    see(word);
    features.push_back(make_feature(word.state, kWords, view_bits));
    if (has_left && !word.is_on_new_line) {
      features.push_back(make_feature((left ^ kPairSalt) * kMultiplier + word.state, kPairs, view_bits));
    }
    left = word.state;
  }
}

// The distinct numbers in ascending order. Their highest bits are those of a hash, so that they divide the numbers into
// buckets of about one each, and few numbers are out of order after that. A sender may choose words with the same bits: large
// buckets are sorted in the ordinary way.
std::vector<std::uint64_t> sort_distinct(const std::vector<std::uint64_t>& numbers, std::vector<std::uint32_t>& places,
                                         std::vector<std::uint64_t>& sorted) {
  constexpr std::uint32_t kLargeBucket = 32;
  if (numbers.empty()) return {};
  int bits = 0;
  while (numbers.size() >> bits > 1) ++bits;
  const int shift = kKeyBits - bits;
  places.assign((std::size_t{1} << bits) + 1, 0);  // Of the next number of each bucket.
  for (const std::uint64_t number : numbers) ++places[(number >> shift) + 1];
  std::uint32_t largest = 0, sum = 0;
  for (std::uint32_t& place : places) {
    largest = std::max(largest, place);
    place = sum += place;
  }
  sorted.resize(std::max(sorted.size(), numbers.size()));
  std::uint64_t* const all = sorted.data();
  for (const std::uint64_t number : numbers) all[places[number >> shift]++] = number;
  if (largest > kLargeBucket) {
    std::uint32_t start = 0;
    for (const std::uint32_t end : places) {  // Each place is the end of its bucket now; the last one has no bucket.
      if (end - start > kLargeBucket) std::sort(all + start, all + end);
      start = end;
    }
  }
  exchange_neighbours(all, numbers.size());
  std::size_t count = 1;
  std::uint64_t last = all[0];  // As all[count - 1]. To load what was just stored would take most of the time.
  for (std::size_t index = 1; index < numbers.size(); ++index) {  // Insertion sort; equal numbers are left out.
    const std::uint64_t number = all[index];
    if (number < last) {  // In few large buckets.
      std::size_t place = count;
      while (place > 0 && all[place - 1] > number) --place;
      if (place > 0 && all[place - 1] == number) continue;
      for (std::size_t moved = count; moved > place; --moved) all[moved] = all[moved - 1];
      all[place] = number;
      ++count;
    } else {  // Without a branch: a third of the numbers are equal to the last one, and no processor could predict which.
      all[count] = number;
      count += number != last;
      last = number;
    }
  }
  return {all, all + count};
}

}  // namespace

void WordSearch::add(WantedKind kind, std::string_view word) {
  TokenScanner scanner(word, kWords);
  scanner.advance();
  std::uint32_t& first = firsts_[scanner.state % kBuckets];
  for (std::uint32_t place = first; place != 0; place = words_[place - 1].next) {
    Word& one = words_[place - 1];
    if (one.state == scanner.state && text_of(one) == word) {
      ++one.counts[kind];
      return;
    }
  }
  words_.push_back({scanner.state, bytes_.size(), word.size(), {}, first});
  words_.back().counts[kind] = 1;
  bytes_.append(word);
  first = static_cast<std::uint32_t>(words_.size());
}

void WordSearch::compare(std::uint64_t state, std::string_view word) {
  for (std::uint32_t* link = &firsts_[state % kBuckets]; *link != 0;) {
    Word& one = words_[*link - 1];
    if (one.state == state && text_of(one) == word) {
      for (std::size_t kind = 0; kind < kWantedKinds; ++kind) found_[kind] += one.counts[kind];
      *link = one.next;  // It is not searched for again.
      return;
    }
    link = &one.next;
  }
}

void WordSearch::see_all(std::string_view document) {
  TokenScanner word(document, kWords);
  while (word.advance()) see(word.state, word.token());
}

// Memory that a thread uses again for its next message; after a large message it is freed.
struct FeatureHasher::Memory {
  std::vector<std::uint64_t> features, sorted;
  std::vector<std::uint32_t> places;

  static Memory& of_thread() {
    thread_local Memory memory;
    return memory;
  }
  void shrink() {
    constexpr std::size_t kMost = std::size_t{1} << 17;  // Features; most messages have a thousand.
    if (features.capacity() > kMost) *this = Memory();
  }
};

FeatureHasher::FeatureHasher(int version, std::size_t bytes) : view_bits_(version == 1 ? 2 : 3), memory_(Memory::of_thread()) {
  memory_.features.clear();
  memory_.features.reserve(1024 + bytes / 2);
}

void FeatureHasher::add_head(std::string_view head) { add_grams(head, view_bits_, memory_.features); }

void FeatureHasher::add_headers(std::string_view headers) { add_tokens(headers, kHeaders, view_bits_, memory_.features); }

void FeatureHasher::add_marks(std::string_view marks) { add_tokens(marks, kWords, view_bits_, memory_.features); }

void FeatureHasher::add_relations(std::string_view relations) {
  add_tokens(relations, kRelations, view_bits_, memory_.features);
}

void FeatureHasher::add_feature(std::uint64_t feature) { memory_.features.push_back(feature); }

void FeatureHasher::add_patterns(std::string_view patterns) {
  hash_completely(patterns, kRelations, [this](std::uint64_t state) {
    memory_.features.push_back(make_feature(state, kRelations, view_bits_));
  });
}

void FeatureHasher::add_subject(std::string_view subject) {
  TokenScanner word(subject, kWords);
  if (!word.advance()) return;
  for (std::uint64_t left = word.state; word.advance(); left = word.state) {
    const std::uint64_t state = (left ^ kSubjectSalt) * kMultiplier + word.state;
    memory_.features.push_back(make_feature(state, kPairs, view_bits_));
  }
}

void FeatureHasher::add_words(std::string_view words, WordSearch* search) {
  if (search == nullptr) {
    add_words_and_pairs(words, view_bits_, [](const TokenScanner&) {}, memory_.features);
  } else {
    const auto see = [search](const TokenScanner& word) { search->see(word.state, word.token()); };
    add_words_and_pairs(words, view_bits_, see, memory_.features);
  }
}

std::vector<std::uint64_t> FeatureHasher::finish() {
  std::vector<std::uint64_t> distinct = sort_distinct(memory_.features, memory_.places, memory_.sorted);
  memory_.shrink();
  return distinct;
}

std::uint64_t hash_relation(std::string_view token) {
  TokenScanner scanner(token, kRelations);
  scanner.advance();
  return make_feature(scanner.state, kRelations, 3);
}

std::vector<std::uint64_t> hash_tokens(const Documents& documents, int version) {
  FeatureHasher hasher(version, documents.head.size() + documents.words.size());
  hasher.add_head(documents.head);
  hasher.add_headers(documents.headers);
  hasher.add_marks(documents.marks);
  hasher.add_relations(documents.relations);
  hasher.add_patterns(documents.patterns);
  hasher.add_subject(documents.subject);
  hasher.add_words(documents.words);
  return hasher.finish();
}

nb::bytes pack_features(const std::vector<std::uint64_t>& features) {
  const nb::bytes packed =
      nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(8 * features.size())));
  if (!packed.is_valid()) throw nb::python_error();
  char* bytes = PyBytes_AS_STRING(packed.ptr());
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  if (!features.empty()) std::memcpy(bytes, features.data(), 8 * features.size());
#else
  for (const std::uint64_t feature : features) {
    for (int byte = 0; byte < 8; ++byte) *bytes++ = static_cast<char>(feature >> 8 * byte & 0xff);
  }
#endif
  return packed;
}

}  // namespace tamis::mail
