// Finds tokens in folded text, and numbers them.
#include <nanobind/nanobind.h>

#include "characters.hpp"
#include "parts.hpp"
#include "tables.hpp"

namespace tamis::text {
namespace {

using Bytes = Input<uint8_t, 1>;
using Int64s = Input<int64_t, 1>;

// Return a bit per byte of 64: whether it belongs to a token, which no zero byte does.
inline uint64_t find_nonzero_bytes(const uint8_t* text) {
  constexpr uint64_t gather = 0x0102040810204080;  // times eight bytes of 0 or 1: their bits, in the highest byte
  uint64_t inside = 0;
  for (int k = 0; k < 8; ++k) {
    const uint64_t word = load_eight(text + 8 * k);
    const uint64_t ones = ((((word & kLowBits) + kLowBits) | word) & kHighBits) >> 7;
    inside |= (ones * gather >> 56) << (8 * k);
  }
  return inside;
}

// Return whether a token has fewer characters than `shortest`; tokens of scripts without spaces are never too short.
bool is_short(const uint8_t* token, int64_t length, int64_t shortest, const CellTable& cells) {
  int64_t count = 0;
  for (int64_t k = 0; k < length; ++k) count += !is_continuation(token[k]);
  if (count >= shortest) return false;
  const int32_t code = read_character(token, 0, length).code;
  return code < 0x80 || cells.find(code).kind() != kUnspaced;
}

// Writes the numbers of tokens in the order of the text. A token waits until its slot of the table is in the cache.
class NumberWriter {
 public:
  NumberWriter(TokenTable& table, const Output<int32_t, 1>& numbers)
      : table_(table), numbers_(numbers.data()), capacity_(numbers.size()) {}

  int64_t total() const { return static_cast<int64_t>(total_); }

  void put(const uint8_t* token, int64_t length, uint64_t key) {
    if (total_ == capacity_) refuse("got more tokens than there is room for");
    table_.prefetch_key(key);
    if (total_ >= kWaiting) number(total_ - kWaiting);
    waiting_[total_++ % kWaiting] = {token, length, key};
  }

  // Number the tokens that wait; return how many there are in all.
  int64_t finish() {
    for (uint64_t k = total_ < kWaiting ? 0 : total_ - kWaiting; k < total_; ++k) number(k);
    return total();
  }

 private:
  static constexpr uint64_t kWaiting = 16;

  struct Token {
    const uint8_t* text;
    int64_t length;
    uint64_t key;
  };

  void number(uint64_t position) {
    const Token token = waiting_[position % kWaiting];
    numbers_[position] = table_.number_of(token.text, token.length, token.key);
  }

  TokenTable& table_;
  int32_t* numbers_;
  uint64_t capacity_;
  uint64_t total_ = 0;
  Token waiting_[kWaiting];
};

// Number the words between zero bytes.
int64_t read_words(TokenTable& table, Bytes folded, Int64s offsets, int64_t shortest, Input<int32_t, 1> blocks,
                   Input<uint32_t, 1> cells, Output<int32_t, 1> numbers, Output<int64_t, 1> documents) {
  const uint8_t* const text = folded.data();
  check_offsets(offsets.data(), offsets.size(), static_cast<int64_t>(folded.size()) - kTextPadding);
  shortest = std::clamp<int64_t>(shortest, 0, static_cast<int64_t>(folded.size()));
  const CellTable cell_table(blocks, cells);
  if (documents.size() != offsets.size()) refuse("got an array of offsets to write of another length");
  documents.data()[0] = 0;
  NumberWriter writer(table, numbers);
  const uint64_t seed = table.seed();
  for (size_t document = 0; document + 1 < offsets.size(); ++document) {
    int64_t i = offsets.data()[document], start = i;
    const int64_t stop = offsets.data()[document + 1];
    uint64_t carry = 0;  // whether a token continues from the 64 bytes before
    for (; i < stop || carry; i += 64) {
      uint64_t inside = 0;
      if (i < stop) {
        inside = find_nonzero_bytes(text + i);
        if (stop - i < 64) inside &= (uint64_t{1} << (stop - i)) - 1;
      }
      uint64_t edges = inside ^ (inside << 1 | carry);
      carry = inside >> 63;
      while (edges != 0) {
        const auto at = static_cast<int>(find_lowest_bit(edges));
        edges &= edges - 1;
        if (inside >> at & 1) {
          start = i + at;
          continue;
        }
        const int64_t length = i + at - start;
        const uint64_t key = make_key(text + start, length, seed);
        bool drop = length < shortest;
        if (length < 4 * shortest && (length > 7 || (key & kHighBits) != 0)) {  // few tokens need this call
          drop = is_short(text + start, length, shortest, cell_table);
        }
        if (!drop) writer.put(text + start, length, key);
      }
    }
    documents.data()[document + 1] = writer.total();
  }
  return writer.finish();
}

// Number the n-grams of characters, or of words with the spaces around them.
int64_t read_grams(TokenTable& table, Bytes folded, Int64s offsets, int64_t least, int64_t most, bool within,
                   Output<int32_t, 1> numbers, Output<int64_t, 1> documents) {
  const uint8_t* const text = folded.data();
  check_offsets(offsets.data(), offsets.size(), static_cast<int64_t>(folded.size()) - kTextPadding);
  if (least < 1) refuse("got n-grams of no characters, expected at least one");
  // No n-gram is longer than the text.
  least = std::min(least, static_cast<int64_t>(folded.size()));
  most = std::min(most, static_cast<int64_t>(folded.size()));
  if (documents.size() != offsets.size()) refuse("got an array of offsets to write of another length");
  documents.data()[0] = 0;
  NumberWriter writer(table, numbers);
  const uint64_t seed = table.seed();
  std::vector<int64_t> starts;  // of the characters of a document, and its end
  // Number the n-grams of the characters first, …, last - 1; a shorter stretch is one n-gram.
  const auto number_grams = [&](int64_t first, int64_t last, int64_t n) {
    do {
      const int64_t start = starts[first], length = starts[std::min(first + n, last)] - start;
      writer.put(text + start, length, make_key(text + start, length, seed));
      ++first;
    } while (first + n <= last);
  };
  for (size_t document = 0; document + 1 < offsets.size(); ++document) {
    const int64_t begin = offsets.data()[document], stop = offsets.data()[document + 1];
    starts.clear();
    for (int64_t i = begin; i < stop; ++i) {
      if (i == begin || !is_continuation(text[i])) starts.push_back(i);
    }
    const int64_t count = static_cast<int64_t>(starts.size());
    starts.push_back(stop);
    if (!within) {
      for (int64_t n = least; n <= std::min(most, count); ++n) number_grams(0, count, n);
    }
    for (int64_t first = 0; within && first + 1 < count;) {  // from one space to the next
      int64_t last = first + 1;
      while (last + 1 < count && text[starts[last]] != kSpace) ++last;
      for (int64_t n = least; n <= most; ++n) {
        number_grams(first, last + 1, n);
        if (last + 1 - first <= n) break;
      }
      first = last;
    }
    documents.data()[document + 1] = writer.total();
  }
  return writer.finish();
}

// Number tokens whose keys are given.
void number_tokens(TokenTable& table, Bytes text, Int64s starts, Int64s lengths, Input<uint64_t, 1> keys,
                   Output<int32_t, 1> numbers) {
  const int64_t count = static_cast<int64_t>(keys.size());
  if (starts.size() != keys.size() || lengths.size() != keys.size() || numbers.size() != keys.size()) {
    refuse("got tokens and numbers of different lengths");
  }
  const TokenTexts tokens = {text.data(), static_cast<int64_t>(text.size()), starts.data(), lengths.data()};
  const uint64_t* const key_of = keys.data();
  NumberWriter writer(table, numbers);
  for (int64_t token = 0; token < count; ++token) writer.put(tokens.at(token), tokens.lengths[token], key_of[token]);
  writer.finish();
}

void write_tokens(const TokenTable& table, Output<uint8_t, 1> text, Output<int64_t, 1> starts,
                  Output<int64_t, 1> lengths, Output<uint64_t, 1> keys) {
  const size_t count = static_cast<size_t>(table.count());
  if (text.size() < static_cast<size_t>(table.text_size()) || starts.size() != count || lengths.size() != count ||
      keys.size() != count) {
    refuse("got arrays for tokens of other lengths");
  }
  table.write(text.data(), starts.data(), lengths.data(), keys.data());
}

}  // namespace

void bind_tokens(nb::module_& m) {
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<TokenTable>(m, "TokenTable")
      .def(nb::init<int64_t, uint64_t>(), nb::arg("size"), nb::arg("seed"))
      .def_prop_ro("count", &TokenTable::count)
      .def_prop_ro("text_size", &TokenTable::text_size)
      .def("read_words", read_words, nb::arg("folded").noconvert(), nb::arg("offsets").noconvert(), nb::arg("shortest"),
           nb::arg("blocks").noconvert(), nb::arg("cells").noconvert(), nb::arg("numbers").noconvert(),
           nb::arg("documents").noconvert(), Unlocked())
      .def("read_grams", read_grams, nb::arg("folded").noconvert(), nb::arg("offsets").noconvert(), nb::arg("least"),
           nb::arg("most"), nb::arg("within"), nb::arg("numbers").noconvert(), nb::arg("documents").noconvert(),
           Unlocked())
      .def("number_tokens", number_tokens, nb::arg("text").noconvert(), nb::arg("starts").noconvert(),
           nb::arg("lengths").noconvert(), nb::arg("keys").noconvert(), nb::arg("numbers").noconvert(), Unlocked())
      .def("write", write_tokens, nb::arg("text").noconvert(), nb::arg("starts").noconvert(),
           nb::arg("lengths").noconvert(), nb::arg("keys").noconvert());
}

}  // namespace tamis::text
