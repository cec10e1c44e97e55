// Exact sums of the values and squares of columns of floats, by group, in one pass. Each column has a memory of its own, as in
// Arrow tables.
//
// Rows are taken in tiles that stay in the cache. The rows of a tile are sorted by group once, for all columns; the values of
// one group are then gathered from a column and added to lanes of pieces (lanes.hpp). The exponents that bound a column are
// found tile by tile: if a tile has larger values, the pieces so far are moved into words first.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "../columns.hpp"
#include "../dense/variants.hpp"
#include "pieces.hpp"
#include "words.hpp"

namespace tamis::sums {

namespace {

constexpr size_t kTile = 4096;  // rows: 16 columns of them are half of a second-level cache; places in a tile have 16 bits
constexpr size_t kSide = static_cast<size_t>(kLanes);  // values that are added side by side
// A lane adds at most so many values: a piece is at most 2**42 units of its grid, and a sum that begins at 1.5 * 2**52 units may
// change by at most 2**51 units.
constexpr int64_t kMost = 1 << 9;
// The number at which the sum of each plane of pieces begins.
constexpr double kStarts[6] = {kGrid1, 0.0, kGrid1, kGrid2, kGrid3, 0.0};
constexpr uint64_t kMagnitude = ~uint64_t{0} >> 1;   // all bits of a float but its sign
constexpr uint64_t kNotFinite = uint64_t{0x7ff} << 52;  // the bits of infinity: those of NaN are larger
constexpr int64_t kUnset = std::numeric_limits<int64_t>::min();

// The bits of the largest magnitude, and those of the smallest nonzero one, minus 1. The bits of positive floats, as integers,
// have the order of the floats.
struct Magnitudes {
  uint64_t largest = 0;
  uint64_t smallest = ~uint64_t{0};
};

static TAMIS_INLINE void extend(const double* __restrict x, size_t n, uint64_t* __restrict largest,
                                uint64_t* __restrict smallest) {
  for (size_t k = 0; k < n; k++) {
    uint64_t bits;
    std::memcpy(&bits, x + k, sizeof bits);
    const uint64_t magnitude = bits & kMagnitude;
    largest[k] = magnitude > largest[k] ? magnitude : largest[k];
    smallest[k] = magnitude - 1 < smallest[k] ? magnitude - 1 : smallest[k];  // zero minus 1 is the largest number
  }
}

TAMIS_FOR_EACH_PROCESSOR void find_magnitudes(const double* x, size_t n, Magnitudes& magnitudes) {
  uint64_t largest[kSide] = {};
  uint64_t smallest[kSide];
  for (size_t k = 0; k < kSide; k++) smallest[k] = ~uint64_t{0};
  size_t i = 0;
  for (; i + kSide <= n; i += kSide) extend(x + i, kSide, largest, smallest);
  extend(x + i, n - i, largest, smallest);
  for (size_t k = 0; k < kSide; k++) {
    magnitudes.largest = std::max(magnitudes.largest, largest[k]);
    magnitudes.smallest = std::min(magnitudes.smallest, smallest[k]);
  }
}

// The exponent of `frexp`: the magnitude with these bits is below 2**exponent.
int64_t to_exponent(uint64_t bits) {
  double magnitude;
  std::memcpy(&magnitude, &bits, sizeof magnitude);
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  return exponent;
}

void gather(const double* __restrict x, const uint16_t* __restrict places, size_t n, double* __restrict out) {
  for (size_t k = 0; k < n; k++) out[k] = x[places[k]];
}

size_t round_up(size_t n) { return (n + kSide - 1) / kSide * kSide; }

// The sums of some columns, while they are made.
class ColumnSums {
 public:
  ColumnSums(std::vector<const double*> columns, size_t n, const int64_t* group, size_t groups, bool has_squares)
      : columns_(std::move(columns)),
        n_(n),
        group_(group),
        groups_(groups),
        planes_(has_squares ? 6 : 2),
        pieces_(columns_.size() * groups * planes_ * kSide),
        scales_(columns_.size(), kUnset),
        added_(groups),
        starts_(groups + 1),
        places_(kTile + groups * kSide),
        values_(kTile + kSide) {
    for (size_t k = 0; k < pieces_.size(); k++) pieces_[k] = kStarts[k / kSide % planes_];
  }

  // Add all rows; return false if a value is not finite.
  bool add_rows() {
    for (size_t start = 0; start < n_; start += kTile) add_tile(start, std::min(kTile, n_ - start));
    if (first_broken_ >= 0) return false;
    for (size_t j = 0; j < columns_.size(); j++) flush_column(j);
    make_room();  // if all values are zero, nothing has made it
    settle(first_);
    if (planes_ > 2) settle(second_);
    return true;
  }

  int64_t first_broken() const { return first_broken_; }
  int64_t highest() const { return high_; }
  OwnedWords& first() { return first_; }
  OwnedWords& second() { return second_; }

 private:
  void add_tile(size_t start, size_t rows) {
    sort_tile(start, rows);
    for (size_t j = 0; j < columns_.size(); j++) {
      const double* x = columns_[j] + start;
      Magnitudes magnitudes;
      find_magnitudes(x, rows, magnitudes);
      if (j + 1 < columns_.size()) {  // load the next column into the cache meanwhile
        for (size_t i = 0; i < rows; i += 8) prefetch(columns_[j + 1] + start + i);
      }
      if (magnitudes.largest >= kNotFinite) {
        const int64_t column = static_cast<int64_t>(j);
        first_broken_ = first_broken_ < 0 ? column : std::min(first_broken_, column);
      }
      // After a value that is not finite, further tiles are only searched for the first column with such values.
      if (first_broken_ >= 0 || magnitudes.largest == 0) continue;
      const int64_t low = to_exponent(magnitudes.smallest + 1);
      fit_scale(j, to_exponent(magnitudes.largest), low);
      const bool is_deep = scales_[j] - low > 30;
      if (is_deep) push_small(j, x, start, rows);
      add_column(j, x, rows, is_deep);
    }
  }

  // Find the place of each row of a tile, group by group. The places of a group begin at a multiple of kSide.
  void sort_tile(size_t start, size_t rows) {
    std::vector<size_t>& starts = starts_;
    if (group_ == nullptr) {
      std::fill(starts.begin() + 1, starts.end(), round_up(rows));
    } else {
      counts_.assign(groups_, 0);
      for (size_t i = 0; i < rows; i++) counts_[static_cast<size_t>(group_[start + i])]++;
      for (size_t g = 0; g < groups_; g++) starts[g + 1] = starts[g] + round_up(counts_[g]);
      ends_.assign(starts.begin(), starts.end() - 1);
      for (size_t i = 0; i < rows; i++) places_[ends_[static_cast<size_t>(group_[start + i])]++] = static_cast<uint16_t>(i);
    }
    for (size_t g = 0; g < groups_; g++) {
      const int64_t added = static_cast<int64_t>((starts[g + 1] - starts[g]) / kSide);
      if (added_[g] + added > kMost) {
        for (size_t j = 0; j < columns_.size(); j++) flush(j, g);
        added_[g] = 0;
      }
      added_[g] += added;
    }
  }

  // Make pieces of column j fit magnitudes from 2**(low - 1) to 2**high.
  void fit_scale(size_t j, int64_t high, int64_t low) {
    const int64_t scale = std::max(high, kFaint);
    if (scale > scales_[j]) {
      flush_column(j);
      scales_[j] = scale;
    }
    high_ = std::max(high_, high);
    low_ = std::min(low_, low);
  }

  double factor(size_t j) const { return std::ldexp(1.0, static_cast<int>(-scales_[j])); }

  double* pieces(size_t j, size_t g) { return pieces_.data() + (j * groups_ + g) * planes_ * kSide; }

  // Add the values that are too small for pieces.
  void push_small(size_t j, const double* x, size_t start, size_t rows) {
    const double scale = factor(j);
    make_room();
    for (size_t i = 0; i < rows; i++) {
      if (x[i] != 0.0 && std::fabs(x[i] * scale) < kDepth) {
        const size_t cell = (group_ == nullptr ? 0 : static_cast<size_t>(group_[start + i])) * columns_.size() + j;
        push(first_, cell, x[i], 0);
        if (planes_ > 2) push_product(second_, cell, x[i], x[i]);
      }
    }
  }

  void add_column(size_t j, const double* x, size_t rows, bool is_deep) {
    const double scale = factor(j);
    const auto add = (planes_ > 2 ? variant().add_powers : variant().add_values)[is_deep];
    if (group_ == nullptr) {
      const size_t whole = rows / kSide * kSide;
      add(x, static_cast<int64_t>(whole), scale, pieces(j, 0));
      std::copy(x + whole, x + rows, values_.begin());
      add_run(add, rows - whole, scale, pieces(j, 0));
      return;
    }
    for (size_t g = 0; g < groups_; g++) {
      gather(x, places_.data() + starts_[g], counts_[g], values_.data());
      add_run(add, counts_[g], scale, pieces(j, g));
    }
  }

  // Add the first n of the gathered values.
  template <class Add>
  void add_run(Add add, size_t n, double scale, double* pieces) {
    std::fill(values_.begin() + static_cast<std::ptrdiff_t>(n), values_.begin() + static_cast<std::ptrdiff_t>(round_up(n)), 0.0);
    add(values_.data(), static_cast<int64_t>(round_up(n)), scale, pieces);
  }

  void flush_column(size_t j) {
    for (size_t g = 0; g < groups_; g++) flush(j, g);
  }

  // Move the pieces of a cell into words.
  void flush(size_t j, size_t g) {
    if (scales_[j] == kUnset) return;
    make_room();
    double* from = pieces(j, g);
    for (size_t k = 0; k < planes_; k++, from += kSide) {
      const bool is_first = k < 2;
      for (size_t lane = 0; lane < kSide; lane += 4) {  // the sum of four is at most 2**53 units
        double sum = 0.0;
        for (size_t each = lane; each < lane + 4; each++) {
          sum += from[each] - kStarts[k];
          from[each] = kStarts[k];
        }
        if (sum != 0.0) push(is_first ? first_ : second_, g * columns_.size() + j, sum, (is_first ? 1 : 2) * scales_[j]);
      }
    }
  }

  // Make words with room for sums of all magnitudes that were seen, and move the sums into them.
  void make_room() {
    if (room_high_ == high_ && room_low_ == low_) return;
    widen(first_, high_, low_ - 53);
    if (planes_ > 2) widen(second_, 2 * high_, 2 * low_ - 106);
    room_high_ = high_;
    room_low_ = low_;
  }

  void widen(OwnedWords& words, int64_t high, int64_t low) {
    OwnedWords wider = make_words(high, low, n_, groups_, columns_.size());
    if (words.cells > 0) {
      std::copy(words.data, words.data + words.length * words.cells,
                wider.data + static_cast<size_t>(words.low - wider.low) * wider.cells);
    }
    words = std::move(wider);
  }

  std::vector<const double*> columns_;
  size_t n_;
  const int64_t* group_;
  size_t groups_;
  size_t planes_;
  std::vector<double> pieces_;    // (columns, groups, planes, kSide)
  std::vector<int64_t> scales_;   // of each column: its pieces are those of values times 2**-scale
  std::vector<int64_t> added_;    // of each group: the values that a lane of its pieces has added
  std::vector<size_t> starts_;    // of each group: its first place in the tile
  std::vector<size_t> counts_;    // of each group: its rows in the tile
  std::vector<size_t> ends_;
  std::vector<uint16_t> places_;  // the rows of the tile, group by group
  std::vector<double> values_;    // of one column and one group
  OwnedWords first_ = make_words(0, 0, 0, 0, 0);
  OwnedWords second_ = make_words(0, 0, 0, 0, 0);
  int64_t high_ = 0, low_ = 0;    // exponents that bound all values so far
  int64_t room_high_ = kUnset, room_low_ = kUnset;  // those that the words have room for
  int64_t first_broken_ = -1;     // the first column that is not finite
};

nb::tuple deposit_columns(const nb::list& given, Input<int64_t, 1> group, int64_t groups, int64_t power) {
  const Columns columns(given);
  require(groups > 0, "got no groups, expected at least one");
  const size_t most_cells = SIZE_MAX / (6 * kSide * sizeof(double));
  if (!columns.values.empty() && static_cast<size_t>(groups) > most_cells / columns.values.size()) throw std::bad_alloc();
  require(group.shape(0) == 0 || group.shape(0) == columns.rows, "got rows and groups of several sizes, expected one");
  ColumnSums sums(columns.values, columns.rows, group.shape(0) > 0 ? group.data() : nullptr, static_cast<size_t>(groups),
                  power > 1);
  bool is_finite = false;
  {
    const WithoutLock without_lock(columns.rows * columns.values.size());
    is_finite = sums.add_rows();
  }
  nb::list words;
  if (is_finite) {
    words.append(to_python(std::move(sums.first())));
    if (power > 1) words.append(to_python(std::move(sums.second())));
  }
  return nb::make_tuple(nb::tuple(words), is_finite ? sums.highest() : 0, sums.first_broken());
}

}  // namespace

void bind_columns(nb::module_& m) {
  m.def("deposit_columns", &deposit_columns, nb::arg("columns"), nb::arg("group").noconvert(), nb::arg("groups"),
        nb::arg("power"));
}

}  // namespace tamis::sums
