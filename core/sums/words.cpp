// Carry, add, scale and read sums of words.
#include "words.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tamis::sums {

namespace {

constexpr int64_t kDeepest = -71;  // DEEPEST in reference.py: scaling drops the words below this position

constexpr size_t kBlock = 512;  // cells whose words stay in a first-level cache from one plane to the next

// Carry what words have beyond a digit to the next plane, for all planes but the last.
TAMIS_FOR_EACH_PROCESSOR void carry_planes(int64_t* words, size_t length, size_t cells) {
  for (size_t start = 0; start < cells; start += kBlock) {
    const size_t stop = std::min(cells, start + kBlock);
    for (size_t j = 0; j + 1 < length; j++) {
      int64_t* __restrict plane = words + j * cells;
      int64_t* __restrict next = plane + cells;
      for (size_t c = start; c < stop; c++) {
        const int64_t raw = plane[c];
        plane[c] = raw & static_cast<int64_t>(kMask);
        add_to(next[c], static_cast<uint64_t>(raw >> kBits));
      }
    }
  }
}

TAMIS_FOR_EACH_PROCESSOR void add_plane(int64_t* __restrict to, const int64_t* __restrict from, size_t cells, bool subtract) {
  const uint64_t sign = subtract ? ~uint64_t{0} : 1;
  for (size_t c = 0; c < cells; c++) add_to(to[c], sign * static_cast<uint64_t>(from[c]));
}

// Whether a plane only repeats the sign of the plane below it.
bool is_spare(const int64_t* plane, const int64_t* below, size_t cells) {
  for (size_t c = 0; c < cells; c++) {
    if (plane[c] != -(below[c] >> (kBits - 1))) return false;
  }
  return true;
}

bool is_zero(const int64_t* plane, size_t cells) {
  return std::all_of(plane, plane + cells, [](int64_t word) { return word == 0; });
}

// The planes of words that are needed, from first to before last, and the position of the first.
struct Planes {
  size_t first;
  size_t last;
  int64_t low;
};

// Carry in place what words have beyond a digit; the last plane must have room for the sign.
Planes carry(const Words& words) {
  const size_t cells = words.cells;
  auto plane = [&words, cells](size_t j) { return words.data + j * cells; };
  carry_planes(words.data, words.length, cells);
  size_t last = words.length;
  while (last > 1 && is_spare(plane(last - 1), plane(last - 2), cells)) {
    last--;
    int64_t* top = plane(last - 1);
    for (size_t c = 0; c < cells; c++) top[c] -= (top[c] >> (kBits - 1)) * (int64_t{1} << kBits);
  }
  size_t first = 0;
  while (first + 1 < last && is_zero(plane(first), cells)) first++;
  const bool is_nothing = last - first == 1 && is_zero(plane(first), cells);
  return {first, last, is_nothing ? 0 : words.low + static_cast<int64_t>(first)};
}

// Write |number| of one cell as digits; return how many there are up to the last that is not zero.
size_t write_magnitude(const int64_t* cell, size_t length, size_t cells, uint64_t* digits) {
  const bool is_negative = cell[(length - 1) * cells] < 0;
  uint64_t borrow = 0;
  size_t size = 0;
  for (size_t j = 0; j < length; j++) {
    uint64_t digit = static_cast<uint64_t>(cell[j * cells]);
    if (is_negative) {
      digit = 0 - digit - borrow;
      borrow = digit >> 63;
    }
    digits[j] = digit & kMask;
    if (digits[j] != 0) size = j + 1;
  }
  return size;
}

// Write number * factor * 2**shift as `length + 4` digits; return how many there are up to the last that is not zero.
size_t write_product(const uint64_t* number, size_t length, uint64_t factor, int shift, uint64_t* product) {
  const uint64_t lower = factor & kMask;
  const uint64_t upper = factor >> kBits;
  uint64_t before = 0;  // the digit before this one, which is multiplied by the upper half of the factor
  uint64_t carry = 0;
  uint64_t beyond = 0;  // the bits that the shift moves into the next digit
  size_t size = 0;
  for (size_t j = 0; j < length + 4; j++) {
    const uint64_t digit = j < length ? number[j] : 0;
    const uint64_t a = digit * lower;
    const uint64_t b = before * upper;
    const uint64_t total = (a & kMask) + (b & kMask) + carry;
    carry = (a >> kBits) + (b >> kBits) + (total >> kBits);
    before = digit;
    const uint64_t shifted = ((total & kMask) << shift) | beyond;
    product[j] = shifted & kMask;
    beyond = shifted >> kBits;
    if (product[j] != 0) size = j + 1;
  }
  return size;
}

// value * 2**exponent, where |value| is zero or from 2**-64 to 2**64. std::ldexp takes three times as long.
double scale(double value, int64_t exponent) {
  if (-900 <= exponent && exponent <= 900) {  // neither the power nor the product leaves the normal range
    const uint64_t pattern = static_cast<uint64_t>(exponent + 1023) << 52;
    double power;
    std::memcpy(&power, &pattern, sizeof power);
    return value * power;
  }
  return std::ldexp(value, static_cast<int>(std::clamp<int64_t>(exponent, -3000, 3000)));
}

}  // namespace

OwnedWords multiply_words(const Words& words, const double* factors, int64_t keep) {
  int64_t lowest = 1 << 30;
  int64_t highest = -(1 << 30);
  for (size_t c = 0; c < words.cells; c++) {
    require(std::isfinite(factors[c]), "got a factor that is not finite, expected finite factors");
    if (factors[c] == 0.0) continue;
    const int64_t position = to_integer(factors[c]).unit >> kLogBits;
    lowest = std::min(lowest, position);
    highest = std::max(highest, position);
  }
  if (lowest > highest) return OwnedWords(1, words.cells, 0);
  OwnedWords out(words.length + 5 + static_cast<size_t>(highest - lowest), words.cells, words.low + lowest);
  std::vector<uint64_t> number(words.length);
  std::vector<uint64_t> product(words.length + 4);
  for (size_t c = 0; c < words.cells; c++) {
    const Integer factor = to_integer(factors[c]);
    size_t size = write_magnitude(words.data + c, words.length, words.cells, number.data());
    if (factor.integer == 0 || size == 0) continue;
    const bool is_negative = (factors[c] < 0.0) != (words.data[(words.length - 1) * words.cells + c] < 0);
    const int64_t offset = (factor.unit >> kLogBits) - lowest;
    const int shift = static_cast<int>(factor.unit & (kBits - 1));
    size = write_product(number.data(), words.length, factor.integer, shift, product.data());
    const int64_t floor = std::max(offset + static_cast<int64_t>(size) - keep, kDeepest - out.low);
    const bool is_one = std::fabs(factors[c]) == 1.0;  // a factor of 1 or -1 drops no words
    for (size_t j = 0; j < size; j++) {
      const int64_t plane = static_cast<int64_t>(j) + offset;
      if (!is_one && plane < floor) continue;
      const int64_t digit = static_cast<int64_t>(product[j]);
      out.data[static_cast<size_t>(plane) * words.cells + c] = is_negative ? -digit : digit;
    }
  }
  settle(out);
  return out;
}

void read_words(const Words& words, double* value, double* rest) {
  std::vector<uint64_t> digits(words.length);
  for (size_t c = 0; c < words.cells; c++) {
    value[c] = rest[c] = 0.0;
    const size_t size = write_magnitude(words.data + c, words.length, words.cells, digits.data());
    if (size == 0) continue;
    uint64_t window[5] = {0, 0, 0, 0, 0};
    for (size_t k = 0; k < std::min<size_t>(5, size); k++) window[k] = digits[size - 1 - k];
    bool has_more = false;
    for (size_t j = 0; j + 5 < size; j++) has_more |= digits[j] != 0;
    const int back = bit_length(window[0]);
    const int shift = kBits - back;
    // The first 64 bits of the number, and the 64 after them.
    const uint64_t upper = (((window[0] << kBits) | window[1]) << shift) | (window[2] >> back);
    const uint64_t lower = (((window[2] << kBits) | window[3]) << shift) | (window[4] >> back);
    const double high = static_cast<double>(upper | (lower != 0 || has_more ? 1 : 0));
    double tail = static_cast<double>(upper & 2047);
    if (high != static_cast<double>(upper & ~uint64_t{2047})) tail -= 2048.0;
    const int64_t unit = kBits * (words.low + static_cast<int64_t>(size) - 3) + back;
    const double sign = words.data[(words.length - 1) * words.cells + c] < 0 ? -1.0 : 1.0;
    value[c] = scale(sign * high, unit);
    if (std::isfinite(value[c])) rest[c] = scale(sign * (tail + static_cast<double>(lower) * 0x1p-64), unit);
  }
}

namespace {

// A view of words that are only read.
Words view(const Input<int64_t, 2>& words, int64_t low) {
  return {const_cast<int64_t*>(words.data()), words.shape(0), words.shape(1), check_position(low)};
}

void copy_words(const Words& from, const Words& to) {
  if (from.length * from.cells > 0) std::memcpy(to.data, from.data, from.length * from.cells * sizeof(int64_t));
}

nb::tuple settle_copy(Input<int64_t, 2> given, int64_t low) {
  const Words words = view(given, low);
  OwnedWords wide(words.length + 2, words.cells, low, false);
  {
    const WithoutLock without_lock(words.length * words.cells);
    copy_words(words, wide);
    std::fill_n(wide.data + words.length * words.cells, 2 * words.cells, 0);
    settle(wide);
  }
  return to_python(std::move(wide));
}

// Settle an array in place; return which of its planes are needed, from first to before last, and the position of the first.
nb::tuple settle_in_place(Output<int64_t, 2> words, int64_t low) {
  require(words.shape(0) > 0, "got sums without words, expected at least one plane of them");
  Planes planes;
  {
    const WithoutLock without_lock(words.size());
    planes = carry({words.data(), words.shape(0), words.shape(1), check_position(low)});
  }
  return nb::make_tuple(planes.first, planes.last, planes.low);
}

nb::tuple combine(Input<int64_t, 2> a_words, int64_t a_low, Input<int64_t, 2> b_words, int64_t b_low, int64_t sign) {
  const Words a = view(a_words, a_low);
  const Words b = view(b_words, b_low);
  require(a.cells == b.cells, "got sums of several sizes, expected one");
  const int64_t low = std::min(a_low, b_low);
  const size_t a_start = static_cast<size_t>(a_low - low);
  const size_t b_start = static_cast<size_t>(b_low - low);
  OwnedWords words(std::max(a_start + a.length, b_start + b.length) + 1, a.cells, low);
  {
    const WithoutLock without_lock(words.length * words.cells);
    copy_words(a, {words.data + a_start * a.cells, a.length, a.cells, a_low});
    add_plane(words.data + b_start * b.cells, b.data, b.length * b.cells, sign < 0);
    settle(words);
  }
  return to_python(std::move(words));
}

nb::tuple multiply(Input<int64_t, 2> given, int64_t low, Input<double, 1> factors, int64_t keep) {
  const Words words = view(given, low);
  require(factors.shape(0) == words.cells, "got sums and factors of several sizes, expected one");
  require(words.length > 0, "got sums without words, expected at least one plane of them");
  std::optional<OwnedWords> product;
  {
    const WithoutLock without_lock(words.length * words.cells);
    product.emplace(multiply_words(words, factors.data(), std::clamp<int64_t>(keep, 0, kFarthest)));
  }
  return to_python(std::move(*product));
}

void read(Input<int64_t, 2> given, int64_t low, Output<double, 1> value, Output<double, 1> rest) {
  const Words words = view(given, low);
  require(value.shape(0) == words.cells && rest.shape(0) == words.cells, "got sums and results of several sizes");
  require(words.length > 0, "got sums without words, expected at least one plane of them");
  const WithoutLock without_lock(words.length * words.cells);
  read_words(words, value.data(), rest.data());
}

}  // namespace

OwnedWords make_words(int64_t high, int64_t low, size_t rows, size_t groups, size_t columns) {
  for (; rows > 0; rows >>= 1) high++;
  const int64_t position = low >> kLogBits;
  if (columns > 0 && groups > SIZE_MAX / columns) throw std::bad_alloc();
  return OwnedWords(static_cast<size_t>((high >> kLogBits) + 1 - position), groups * columns, position);
}

void settle(OwnedWords& words) {
  const Planes planes = carry(words);
  const size_t length = planes.last - planes.first;
  if (length < words.length && words.cells > 0) {
    // A copy instead of realloc, which would return pages to the system that the next call needs again.
    const size_t size = length * words.cells * sizeof(int64_t);
    std::unique_ptr<int64_t, Free> settled(static_cast<int64_t*>(std::malloc(size)));
    if (!settled) throw std::bad_alloc();
    std::memcpy(settled.get(), words.data + planes.first * words.cells, size);
    words.memory = std::move(settled);
    words.data = words.memory.get();
  }
  words.length = length;
  words.low = planes.low;
}

std::vector<int64_t> sort_by_group(const int64_t* group, size_t n, size_t groups) {
  std::vector<size_t> place(groups + 1);
  for (size_t i = 0; i < n; i++) place[static_cast<size_t>(group[i]) + 1]++;
  for (size_t g = 0; g < groups; g++) place[g + 1] += place[g];
  std::vector<int64_t> order(n);
  for (size_t i = 0; i < n; i++) order[place[static_cast<size_t>(group[i])]++] = static_cast<int64_t>(i);
  return order;
}

nb::object to_array(OwnedWords&& words) {
  const size_t shape[2] = {words.length, words.cells};
  nb::capsule owner(words.data, [](void* memory) noexcept { std::free(memory); });
  (void)words.memory.release();
  return nb::cast(nb::ndarray<nb::numpy, int64_t, nb::ndim<2>>(words.data, 2, shape, owner));
}

nb::tuple to_python(OwnedWords&& words) {
  const int64_t low = words.low;
  return nb::make_tuple(to_array(std::move(words)), low);
}

void bind_words(nb::module_& m) {
  m.def("settle", &settle_copy, nb::arg("words").noconvert(), nb::arg("low"));
  m.def("settle_in_place", &settle_in_place, nb::arg("words").noconvert(), nb::arg("low"));
  m.def("combine", &combine, nb::arg("a").noconvert(), nb::arg("a_low"), nb::arg("b").noconvert(), nb::arg("b_low"),
        nb::arg("sign"));
  m.def("multiply", &multiply, nb::arg("words").noconvert(), nb::arg("low"), nb::arg("factors").noconvert(), nb::arg("keep"));
  m.def("read", &read, nb::arg("words").noconvert(), nb::arg("low"), nb::arg("value").noconvert(), nb::arg("rest").noconvert());
}

}  // namespace tamis::sums
