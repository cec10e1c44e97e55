// Folds the characters of documents.
#include "characters.hpp"
#include "parts.hpp"

namespace tamis::text {
namespace {

struct Alphabet {
  CellTable cells;
  const uint8_t* pool;
  int64_t pool_size;
  const int64_t* pairs;  // sorted: character << 21 | mark
  const int64_t* composed;
  int64_t n_pairs;

  // Return the folded form of a character, which is unchanged if its cell has none.
  const uint8_t* find_form(Cell cell, const uint8_t* itself, int64_t& length) const {
    if (cell.length() == 0) return itself;
    if (cell.offset() + cell.length() > static_cast<uint64_t>(pool_size)) {
      refuse("got an alphabet with a folded form outside of its pool");
    }
    length = cell.length();
    return pool + cell.offset();
  }

  // Return the character that Unicode composes of a character and a mark; -1 if there is none.
  int64_t compose(int32_t character, int32_t mark) const {
    if (character < 0) return -1;
    const int64_t key = int64_t{character} << 21 | mark;
    const int64_t* at = std::lower_bound(pairs, pairs + n_pairs, key);
    return at == pairs + n_pairs || *at != key ? -1 : composed[at - pairs];
  }
};

// Writes folded text. Each write checks that there is room, because the alphabet comes from the caller.
class Writer {
 public:
  Writer(uint8_t* out, int64_t capacity) : out_(out), capacity_(capacity) {}

  int64_t size() const { return size_; }
  uint8_t last() const { return out_[size_ - 1]; }

  void put_byte(uint8_t byte) {
    reserve(1);
    out_[size_++] = byte;
  }

  void put_bytes(const uint8_t* bytes, int64_t count) {
    reserve(count);
    for (int64_t k = 0; k < count; ++k) out_[size_ + k] = bytes[k];
    size_ += count;
  }

  // Write again what was written from `start` on.
  void repeat_from(int64_t start) {
    const int64_t count = size_ - start - 1;  // without the zero byte between
    put_bytes(out_ + start, count);
  }

  void put_character(int32_t code) {
    if (code < 0x80) {
      put_byte(static_cast<uint8_t>(code));
      return;
    }
    const int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    reserve(length);
    for (int k = length - 1; k > 0; --k, code >>= 6) out_[size_ + k] = static_cast<uint8_t>(0x80 | (code & 0x3F));
    out_[size_] = static_cast<uint8_t>((0xF00 >> length & 0xFF) | code);
    size_ += length;
  }

  // Write ASCII text by a table of 128 bytes, eight bytes at a time; return how much of it was written.
  int64_t put_ascii(const uint8_t* bytes, int64_t count, const uint8_t* table) {
    int64_t done = 0;
    const int64_t most = std::min(count, capacity_ - size_) - 8;
    uint8_t* const out = out_ + size_;
    for (; done <= most && (load_eight(bytes + done) & kHighBits) == 0; done += 8) {
      for (int64_t k = done; k < done + 8; ++k) out[k] = table[bytes[k]];
    }
    size_ += done;
    return done;
  }

  // Replace the last character, which was written at `begin` or later, by itself and a mark, if they compose.
  bool compose(int32_t mark, int64_t begin, const Alphabet& alphabet) {
    int64_t start = size_ - 1;
    while (start > begin && is_continuation(out_[start])) --start;
    const int64_t together = alphabet.compose(read_character(out_, start, size_).code, mark);
    if (together < 0 || together > 0x10FFFF) return false;
    size_ = start;
    put_character(static_cast<int32_t>(together));
    return true;
  }

  // Write a mark together with the character before it, or by itself if it may stand `alone`.
  void put_mark(Cell cell, const uint8_t* itself, int64_t length, int64_t begin, const Alphabet& alphabet, bool alone) {
    const uint8_t* form = alphabet.find_form(cell, itself, length);
    for (int64_t i = 0; i < length;) {
      const Character mark = read_character(form, i, length);
      if (mark.code < 0) refuse("got an alphabet with a folded form that is not UTF-8");
      if (!compose(mark.code, begin, alphabet) && alone) put_character(mark.code);
      i += mark.length;
    }
  }

  void put_folded(Cell cell, const uint8_t* itself, int64_t length, const Alphabet& alphabet) {
    const uint8_t* form = alphabet.find_form(cell, itself, length);
    put_bytes(form, length);
  }

  // Write the zero bytes that follow a text.
  void pad() { std::memset(out_ + size_, 0, kTextPadding); }

 private:
  void reserve(int64_t count) {
    if (count > capacity_ - size_) refuse("got an alphabet that lengthens a text by more than was provided for");
  }

  uint8_t* out_;
  int64_t capacity_;
  int64_t size_ = 0;
};

void fold_words_of(const uint8_t* text, int64_t i, int64_t stop, const uint8_t* small, const Alphabet& alphabet,
                   Writer& writer) {
  const int64_t begin = writer.size();
  int64_t run = 0;     // the number of UNSPACED characters in a row
  int64_t before = 0;  // the offset of the last of them
  while (i < stop) {
    if (run == 0) {
      i += writer.put_ascii(text + i, stop - i, small);
      if (i == stop) break;
    }
    if (text[i] < 0x80) {
      const uint8_t letter = small[text[i]];
      if (run > 0 && letter != 0) writer.put_byte(0);
      run = 0;
      writer.put_byte(letter);
      ++i;
      continue;
    }
    const Character character = read_character(text, i, stop);
    const Cell cell = character.code < 0 ? Cell{kBreak} : alphabet.cells.find(character.code);
    const bool inside = writer.size() > begin && writer.last() != 0;
    switch (cell.kind()) {
      case kBreak:
        writer.put_byte(0);
        run = 0;
        break;
      case kUnspaced:
        if ((run == 0 && inside) || run > 1) writer.put_byte(0);
        if (run > 1) writer.repeat_from(before);
        before = writer.size();
        writer.put_folded(cell, text + i, character.length, alphabet);
        ++run;
        break;
      case kMark:
        if (inside) writer.put_mark(cell, text + i, character.length, begin, alphabet, run == 0);
        break;
      case kSkip:
        break;
      default:
        if (run > 0) writer.put_byte(0);
        run = 0;
        writer.put_folded(cell, text + i, character.length, alphabet);
    }
    i += character.length;
  }
}

void fold_characters_of(const uint8_t* text, int64_t i, int64_t stop, bool within, const Alphabet& alphabet,
                        Writer& writer) {
  const int64_t begin = writer.size();
  if (within) writer.put_byte(kSpace);
  while (i < stop) {
    const Character character = read_character(text, i, stop);
    if (character.code < 0) {
      writer.put_character(kReplacement);
    } else if (is_white_space(character.code)) {
      if (writer.size() == begin || writer.last() != kSpace) writer.put_byte(kSpace);
    } else {
      const Cell cell = alphabet.cells.find(character.code);
      if (cell.kind() == kMark && writer.size() > begin) {
        writer.put_mark(cell, text + i, character.length, begin, alphabet, true);
      } else if (cell.kind() != kSkip) {
        writer.put_folded(cell, text + i, character.length, alphabet);
      }
    }
    i += character.length;
  }
  if (within && writer.last() != kSpace) writer.put_byte(kSpace);
}

using Bytes = Input<uint8_t, 1>;
using Int64s = Input<int64_t, 1>;

// Fold each document by a function (start, stop, alphabet, writer); return the length of the folded text.
template <class Function>
int64_t fold_documents(const Bytes& text, const Int64s& offsets, const Input<int32_t, 1>& blocks,
                       const Input<uint32_t, 1>& cells, const Bytes& pool, const Int64s& pairs, const Int64s& composed,
                       const Output<uint8_t, 1>& out, const Output<int64_t, 1>& places, Function fold) {
  check_offsets(offsets.data(), offsets.size(), text.size());
  if (pairs.size() != composed.size()) refuse("got pairs and composed characters of different lengths");
  if (places.size() != offsets.size()) refuse("got an array of offsets to write of another length");
  if (out.size() < kTextPadding) refuse("got no room for the zero bytes after the text");
  const Alphabet alphabet = {{blocks, cells}, pool.data(), static_cast<int64_t>(pool.size()), pairs.data(),
                             composed.data(), static_cast<int64_t>(pairs.size())};
  Writer writer(out.data(), static_cast<int64_t>(out.size()) - kTextPadding);
  places.data()[0] = 0;
  for (size_t document = 0; document + 1 < offsets.size(); ++document) {
    fold(offsets.data()[document], offsets.data()[document + 1], alphabet, writer);
    places.data()[document + 1] = writer.size();
  }
  writer.pad();
  return writer.size();
}

int64_t fold_words(Bytes text, Int64s offsets, Bytes small, Input<int32_t, 1> blocks, Input<uint32_t, 1> cells,
                   Bytes pool, Int64s pairs, Int64s composed, Output<uint8_t, 1> out, Output<int64_t, 1> places) {
  if (small.size() != 128) refuse("got an alphabet without the 128 characters of ASCII");
  return fold_documents(text, offsets, blocks, cells, pool, pairs, composed, out, places,
                        [&](int64_t start, int64_t stop, const Alphabet& alphabet, Writer& writer) {
                          fold_words_of(text.data(), start, stop, small.data(), alphabet, writer);
                        });
}

int64_t fold_characters(Bytes text, Int64s offsets, Input<int32_t, 1> blocks, Input<uint32_t, 1> cells, Bytes pool,
                        Int64s pairs, Int64s composed, bool within, Output<uint8_t, 1> out, Output<int64_t, 1> places) {
  return fold_documents(text, offsets, blocks, cells, pool, pairs, composed, out, places,
                        [&](int64_t start, int64_t stop, const Alphabet& alphabet, Writer& writer) {
                          fold_characters_of(text.data(), start, stop, within, alphabet, writer);
                        });
}

}  // namespace

void bind_fold(nb::module_& m) {
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  m.def("fold_words", fold_words, nb::arg("text").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("small").noconvert(), nb::arg("blocks").noconvert(), nb::arg("cells").noconvert(),
        nb::arg("pool").noconvert(), nb::arg("pairs").noconvert(), nb::arg("composed").noconvert(),
        nb::arg("out").noconvert(), nb::arg("places").noconvert(), Unlocked());
  m.def("fold_characters", fold_characters, nb::arg("text").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("blocks").noconvert(), nb::arg("cells").noconvert(), nb::arg("pool").noconvert(),
        nb::arg("pairs").noconvert(), nb::arg("composed").noconvert(), nb::arg("within").noconvert(),
        nb::arg("out").noconvert(), nb::arg("places").noconvert(), Unlocked());
}

}  // namespace tamis::text
