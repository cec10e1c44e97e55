// For models that learn and predict row by row: add one row to exact sums, and compute moments from exact sums. Each function does
// in one call what several others do, because for one row the calls take longer than the arithmetic.
#include <algorithm>
#include <cmath>

#include "words.hpp"

namespace tamis::sums {

namespace {

constexpr int64_t kFarthestOfSums = 1000;  // words: no sum of products of three floats has one beyond 160
constexpr int64_t kKeep = 8;               // words of a scaled sum that are kept: _KEEP in stats/exact.py
constexpr size_t kDigits = 6;              // a product of three significands has 159 bits, and is shifted by up to 31

// The digits of a number; |weight * value**power| is the number times 2**unit.
struct Term {
  uint64_t digits[kDigits];
  int64_t unit;
};

void multiply_digits(uint64_t (&digits)[kDigits], uint64_t factor) {
  uint64_t product[kDigits] = {};
  for (size_t half = 0; half < 2; half++) {
    const uint64_t digit = half == 0 ? factor & kMask : factor >> kBits;
    uint64_t carry = 0;
    for (size_t j = 0; j + half < kDigits; j++) {
      const uint64_t total = digits[j] * digit + product[j + half] + carry;
      product[j + half] = total & kMask;
      carry = total >> kBits;
    }
  }
  std::copy(product, product + kDigits, digits);
}

Term make_term(double weight, double value, int64_t power) {
  // A weight of 1 is written as the integer 1, so that sums of counts stay one word long.
  const Integer factor = weight == 1.0 ? Integer{1, 0} : to_integer(weight);
  Term term = {{factor.integer & kMask, factor.integer >> kBits}, factor.unit};
  for (int64_t i = 0; i < power; i++) {
    const Integer number = to_integer(value);
    multiply_digits(term.digits, number.integer);
    term.unit += number.unit;
  }
  return term;
}

Words view_sums(const Input<int64_t, 2>& words, int64_t low) {
  require(words.shape(0) > 0, "got sums without words, expected at least one plane of them");
  require(-kFarthestOfSums <= low && low <= kFarthestOfSums && words.shape(0) <= 2 * kFarthestOfSums,
          "got sums that no floats have, expected positions up to 1000 words from the binary point");
  return {const_cast<int64_t*>(words.data()), words.shape(0), words.shape(1), low};
}

nb::tuple add_row(Input<int64_t, 2> given, int64_t low, int64_t start, Input<double, 1> values, double weight, int64_t power) {
  const Words sums = view_sums(given, low);
  const size_t d = values.shape(0);
  require(start >= 0 && static_cast<size_t>(start) <= sums.cells && d <= sums.cells - static_cast<size_t>(start),
          "got a row outside of the sums, expected cells that they have");
  require(power >= 0 && power <= 2 && std::isfinite(weight), "got another power or weight, expected 0 to 2, and a finite one");
  const double* x = values.data();
  int64_t lowest = low;
  int64_t highest = low + static_cast<int64_t>(sums.length);
  for (size_t j = 0; j < d; j++) {
    require(!std::isinf(x[j]), "got an infinite value, expected finite values, or NaN for those that are missing");
    if (std::isnan(x[j]) || (x[j] == 0.0 && power > 0)) continue;
    const int64_t position = make_term(weight, x[j], power).unit >> kLogBits;
    lowest = std::min(lowest, position);
    highest = std::max(highest, position + static_cast<int64_t>(kDigits));
  }
  OwnedWords words(static_cast<size_t>(highest - lowest) + 1, sums.cells, lowest);
  std::copy(sums.data, sums.data + sums.length * sums.cells, words.data + static_cast<size_t>(low - lowest) * sums.cells);
  for (size_t j = 0; j < d; j++) {
    if (std::isnan(x[j]) || (x[j] == 0.0 && power > 0)) continue;
    const Term term = make_term(weight, x[j], power);
    const bool is_negative = (weight < 0.0) != (x[j] < 0.0 && power == 1);
    const int shift = static_cast<int>(term.unit & (kBits - 1));
    const int64_t position = (term.unit >> kLogBits) - lowest;
    uint64_t carry = 0;
    for (size_t k = 0; k < kDigits; k++) {
      const uint64_t shifted = (term.digits[k] << shift) | carry;
      carry = shifted >> kBits;
      add_digit(words, static_cast<size_t>(start) + j, position + static_cast<int64_t>(k), shifted & kMask, is_negative);
    }
  }
  settle(words);
  return to_python(std::move(words));
}

// The sums, and after them the sum over all groups of d cells each, if there is room for it.
OwnedWords with_pooled(const Words& sums, size_t d, size_t cells) {
  OwnedWords words(sums.length + 2, cells, sums.low);
  for (size_t j = 0; j < sums.length; j++) {
    const int64_t* from = sums.data + j * sums.cells;
    int64_t* to = words.data + j * cells;
    std::copy(from, from + sums.cells, to);
    if (cells == sums.cells) continue;
    for (size_t c = 0; c < sums.cells; c++) add_to(to[sums.cells + c % d], static_cast<uint64_t>(from[c]));
  }
  settle(words);
  return words;
}

OwnedWords subtract(const Words& a, const Words& b) {
  const int64_t low = std::min(a.low, b.low);
  const int64_t high = std::max(a.low + static_cast<int64_t>(a.length), b.low + static_cast<int64_t>(b.length));
  OwnedWords words(static_cast<size_t>(high - low) + 1, a.cells, low);
  std::copy(a.data, a.data + a.length * a.cells, words.data + static_cast<size_t>(a.low - low) * a.cells);
  int64_t* to = words.data + static_cast<size_t>(b.low - low) * b.cells;
  for (size_t c = 0; c < b.length * b.cells; c++) add_to(to[c], 0 - static_cast<uint64_t>(b.data[c]));
  settle(words);
  return words;
}

// Weight, mean and scatter about the mean of each cell. If the output has room for d cells more, these are the moments of all
// groups of d cells together, and a fourth row is the mean less that of all groups.
void describe_moments(Input<int64_t, 2> weight_words, int64_t weight_low, Input<int64_t, 2> first_words, int64_t first_low,
                      Input<int64_t, 2> second_words, int64_t second_low, int64_t columns, Output<double, 2> moments) {
  const Words given[3] = {view_sums(weight_words, weight_low), view_sums(first_words, first_low),
                          view_sums(second_words, second_low)};
  const size_t own = given[0].cells, cells = moments.shape(1), d = columns < 0 ? 0 : static_cast<size_t>(columns);
  require(given[1].cells == own && given[2].cells == own, "got sums of several sizes, expected one");
  const bool is_pooled = cells != own;
  require(!is_pooled || (d > 0 && own % d == 0 && cells == own + d), "got room for other groups than the sums have");
  require(moments.shape(0) == (is_pooled ? 4 : 3),
          "got room for other moments, expected weight, mean and scatter of each cell, and the shift if groups are pooled");
  if (cells == 0) return;
  double* total = moments.data();
  double* mean = total + cells;
  double* scatter = mean + cells;
  const WithoutLock without_lock(32 * cells);
  const OwnedWords weight = with_pooled(given[0], d, cells), first = with_pooled(given[1], d, cells),
                   second = with_pooled(given[2], d, cells);
  std::vector<double> centre(cells), about(cells), rest(cells), unused(cells);
  read_words(weight, total, unused.data());
  read_words(first, mean, unused.data());
  for (size_t c = 0; c < cells; c++) {
    mean[c] /= total[c];
    centre[c] = std::isfinite(mean[c]) ? mean[c] : 0.0;
  }
  // Sums are shifted exactly to a float next to the mean: Σ(x − c)² = Σx² − (2c Σx − W c²), and Σ(x − c) = Σx − W c.
  const OwnedWords weighed = multiply_words(weight, centre.data(), kKeep);
  const OwnedWords weighed_twice = multiply_words(weighed, centre.data(), kKeep);
  std::vector<double> twice(cells);
  for (size_t c = 0; c < cells; c++) twice[c] = 2.0 * centre[c];
  const OwnedWords doubled = multiply_words(first, twice.data(), kKeep);
  read_words(subtract(second, subtract(doubled, weighed_twice)), about.data(), unused.data());
  read_words(subtract(first, weighed), rest.data(), unused.data());
  for (size_t c = 0; c < cells; c++) {
    const double square = total[c] != 0.0 ? rest[c] * rest[c] / total[c] : 0.0;
    scatter[c] = about[c] - square;
    if (total[c] > 0.0) scatter[c] = std::max(scatter[c], 0.0);
  }
  if (!is_pooled) return;
  double* shift = scatter + cells;
  for (size_t c = 0; c < own; c++) centre[c] = centre[own + c % d];
  read_words(subtract(first, multiply_words(weight, centre.data(), kKeep)), shift, unused.data());
  for (size_t c = 0; c < cells; c++) shift[c] = total[c] != 0.0 ? shift[c] / total[c] : 0.0;
}

}  // namespace

void bind_one_row(nb::module_& m) {
  m.def("add_row", &add_row, nb::arg("words").noconvert(), nb::arg("low"), nb::arg("start"), nb::arg("values").noconvert(),
        nb::arg("weight"), nb::arg("power"));
  m.def("describe_moments", &describe_moments, nb::arg("weight").noconvert(), nb::arg("weight_low"), nb::arg("first").noconvert(),
        nb::arg("first_low"), nb::arg("second").noconvert(), nb::arg("second_low"), nb::arg("columns"),
        nb::arg("moments").noconvert());
}

}  // namespace tamis::sums
