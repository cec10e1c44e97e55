// Exact sums: integers in base 2**32, and how a float or a product of two is added to one.
//
// The digits of all numbers are an array of (length, cells) words and a position `low`; the number in cell c is the sum of
// words[j, c] * 2**(32 * (low + j)). While sums are made, a word may hold more than a digit. *Settled* words are the
// canonical form: every word but the last lies in [0, 2**32), the last is signed and lies in [-2**31, 2**31), and no
// plane of words could be dropped at either end.
//
// Words are added as unsigned integers, whose overflow is defined: no input can make it happen before 2**30 rows.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "../common.hpp"
#include "../compiler.hpp"
#include "../require.hpp"

namespace tamis::sums {

void bind_words(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_columns(nb::module_& m);
void bind_scatter(nb::module_& m);
void bind_scores(nb::module_& m);
void bind_one_row(nb::module_& m);

constexpr int kBits = 32;
constexpr int kLogBits = 5;  // 2**5 bits per word
constexpr uint64_t kMask = 0xffffffffu;
constexpr int64_t kHalf = int64_t{1} << 31;
constexpr int64_t kFarthest = int64_t{1} << 40;  // positions beyond this are refused, so that none overflows

// A view of words whose memory belongs to a NumPy array or to OwnedWords.
struct Words {
  int64_t* data;
  size_t length;
  size_t cells;
  int64_t low;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Words with memory of their own, zeroed if `are_zero`: the system zeroes large memory when a page is first written to.
struct OwnedWords : Words {
  std::unique_ptr<int64_t, Free> memory;

  OwnedWords(size_t length, size_t cells, int64_t low, bool are_zero = true) : Words{nullptr, length, cells, low} {
    if (cells > 0 && length > SIZE_MAX / sizeof(int64_t) / cells) throw std::bad_alloc();
    const size_t count = length * cells > 0 ? length * cells : 1;
    void* words = are_zero ? std::calloc(count, sizeof(int64_t)) : std::malloc(count * sizeof(int64_t));
    memory.reset(static_cast<int64_t*>(words));
    if (!memory) throw std::bad_alloc();
    data = memory.get();
  }
};

// Return zero words with room for sums of `rows` numbers below 2**high that are multiples of 2**low.
OwnedWords make_words(int64_t high, int64_t low, size_t rows, size_t groups, size_t columns);

// Bring words, whose last plane has room for the sign, to the canonical form.
void settle(OwnedWords& words);

// Return the settled products of cells and finite factors; of each product, `keep` words from the highest on are exact.
OwnedWords multiply_words(const Words& words, const double* factors, int64_t keep);

// Write each number, correctly rounded to a float, and the rounding error.
void read_words(const Words& words, double* value, double* rest);

// Return a NumPy array that takes over the memory of the words; `to_python` also returns their position.
nb::object to_array(OwnedWords&& words);
nb::tuple to_python(OwnedWords&& words);

// Return the indices of the rows, sorted by group: then the cells of a group are in the cache while its rows are added.
std::vector<int64_t> sort_by_group(const int64_t* group, size_t n, size_t groups);

// Release the interpreter's lock if there are many cells. To release and take it takes as long as a few hundred cells.
class WithoutLock {
 public:
  explicit WithoutLock(size_t cells) {
    if (cells > 5000) release_.emplace();
  }

 private:
  std::optional<nb::gil_scoped_release> release_;
};

// Return the position of words; refuse one that a computation could take out of the range of int64.
inline int64_t check_position(int64_t low) {
  require(-kFarthest <= low && low <= kFarthest, "got words at a position beyond 2**40, expected one that floats reach");
  return low;
}

inline int bit_length(uint64_t number) {
#if defined(__GNUC__)
  return number == 0 ? 0 : 64 - __builtin_clzll(number);
#else
  int length = 0;
  for (; number != 0; number >>= 1) length++;
  return length;
#endif
}

static TAMIS_INLINE void add_to(int64_t& word, uint64_t amount) {
  word = static_cast<int64_t>(static_cast<uint64_t>(word) + amount);
}

// |value| is integer * 2**unit.
struct Integer {
  uint64_t integer;
  int64_t unit;
};

static TAMIS_INLINE Integer to_integer(double value) {
  uint64_t pattern;
  std::memcpy(&pattern, &value, sizeof pattern);
  const uint64_t exponent = (pattern >> 52) & 2047;
  const uint64_t fraction = pattern & ((uint64_t{1} << 52) - 1);
  if (exponent == 0) return {fraction, -1074};
  return {fraction | (uint64_t{1} << 52), static_cast<int64_t>(exponent) - 1075};
}

// Add a digit, with the sign of the number, to word j of a cell. If j is outside of the words, the digit is zero, because there
// is room for all bits of a number; nothing is written then.
static TAMIS_INLINE void add_digit(const Words& words, size_t cell, int64_t j, uint64_t digit, bool is_negative) {
  const size_t plane = static_cast<size_t>(j);  // a negative one is large
  if (digit != 0 && plane < words.length) add_to(words.data[plane * words.cells + cell], is_negative ? 0 - digit : digit);
}

// Add value * 2**exponent to a cell.
static TAMIS_INLINE void push(const Words& words, size_t cell, double value, int64_t exponent) {
  const Integer number = to_integer(value);
  const int64_t unit = number.unit + exponent;
  const int shift = static_cast<int>(unit & (kBits - 1));
  const int64_t j = (unit >> kLogBits) - words.low;
  const uint64_t bottom = (number.integer & kMask) << shift;
  const uint64_t upper = (number.integer >> kBits) << shift;
  const bool is_negative = value < 0.0;
  add_digit(words, cell, j, bottom & kMask, is_negative);
  add_digit(words, cell, j + 1, (bottom >> kBits) + (upper & kMask), is_negative);
  add_digit(words, cell, j + 2, upper >> kBits, is_negative);
}

// Add the exact product to a cell.
static TAMIS_INLINE void push_product(const Words& words, size_t cell, double x, double y) {
  const Integer a = to_integer(x);
  const Integer b = to_integer(y);
  if (a.integer == 0 || b.integer == 0) return;
  const int shift = static_cast<int>((a.unit + b.unit) & (kBits - 1));
  const int64_t j = ((a.unit + b.unit) >> kLogBits) - words.low;
  const uint64_t bottom = (a.integer & kMask) * (b.integer & kMask);
  const uint64_t middle = (a.integer & kMask) * (b.integer >> kBits) + (a.integer >> kBits) * (b.integer & kMask);
  const uint64_t top = (a.integer >> kBits) * (b.integer >> kBits);
  const uint64_t second = (bottom >> kBits) + (middle & kMask);
  const uint64_t third = (second >> kBits) + (middle >> kBits) + (top & kMask);
  const uint64_t fourth = (third >> kBits) + (top >> kBits);
  const uint64_t digits[5] = {bottom & kMask, second & kMask, third & kMask, fourth, 0};
  const bool is_negative = (x < 0.0) != (y < 0.0);
  uint64_t carry = 0;
  for (int k = 0; k < 5; k++) {
    const uint64_t shifted = (digits[k] << shift) | carry;
    carry = shifted >> kBits;
    add_digit(words, cell, j + k, shifted & kMask, is_negative);
  }
}

}  // namespace tamis::sums
