// Exact sums of entries that say to which cell they belong: those of sparse rows, and codes of categories.
//
// If there are few cells, they stay in the cache, and every thread adds its rows to a copy of them. If there are many, rows are
// taken group by group, and divided into chunks that may begin within a group: such a chunk adds its rows of that group to
// separate words, which are added to the others at the end. `src/tamis/_kernels/compiled.py` starts the threads.
//
// Numbers are first added as integers, at 3 ns per entry, while it is checked that they are integers whose sums fit 64 bits. If
// they are not, these sums are discarded, and the numbers are added again, digit by digit.
//
// The caller checks indices, codes and groups before, by the functions `are_…_within`.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "words.hpp"

namespace tamis::sums {

namespace {

constexpr size_t kFewCells = 1 << 17;  // so many cells stay in a second-level cache: rows in their own order are twice as fast
constexpr int64_t kTooLarge = int64_t{1} << 62;  // stands for a number that is no integer, or too large a one

// ---- Checks ----

template <class Index>
static TAMIS_INLINE uint64_t find_largest(const Index* places, size_t n) {
  using Unsigned = std::make_unsigned_t<Index>;
  Unsigned largest = 0;  // a negative place is a large unsigned number
  for (size_t i = 0; i < n; i++) largest = std::max(largest, static_cast<Unsigned>(places[i]));
  return largest;
}

TAMIS_FOR_EACH_PROCESSOR uint64_t find_largest_32(const int32_t* places, size_t n) { return find_largest(places, n); }
TAMIS_FOR_EACH_PROCESSOR uint64_t find_largest_64(const int64_t* places, size_t n) { return find_largest(places, n); }

// Whether all places are at least 0 and below the size.
template <class Index>
bool are_within(Input<Index, 1> places, int64_t size) {
  const size_t n = places.shape(0);
  const WithoutLock without_lock(n);
  if (n == 0) return true;
  if constexpr (sizeof(Index) == 4) {
    return find_largest_32(places.data(), n) < static_cast<uint64_t>(std::max<int64_t>(size, 0));
  } else {
    return find_largest_64(places.data(), n) < static_cast<uint64_t>(std::max<int64_t>(size, 0));
  }
}

TAMIS_FOR_EACH_PROCESSOR bool are_in_order(const int64_t* numbers, size_t n) {
  int64_t has_step_back = 0;
  for (size_t i = 1; i < n; i++) has_step_back |= numbers[i] < numbers[i - 1] ? 1 : 0;
  return has_step_back == 0;
}

// Whether indptr divides so many entries, or fewer, into rows: row i has the entries from indptr[i] to indptr[i + 1].
bool are_rows_within(Input<int64_t, 1> indptr, int64_t entries) {
  const size_t n = indptr.shape(0);
  const WithoutLock without_lock(n);
  return n > 0 && 0 <= indptr.data()[0] && indptr.data()[n - 1] <= entries && are_in_order(indptr.data(), n);
}

TAMIS_FOR_EACH_PROCESSOR bool are_below(const int64_t* __restrict codes, size_t n, size_t d, const int64_t* __restrict limits) {
  int64_t beyond = 0;
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < d; j++) beyond |= codes[i * d + j] >= limits[j] ? 1 : 0;
  }
  return beyond == 0;
}

// Whether the cells offsets[j] + codes[i, j] are below `cells` where the code is not negative.
bool are_codes_within(Input<int64_t, 2> codes, Input<int64_t, 1> offsets, int64_t cells) {
  const size_t n = codes.shape(0);
  const size_t d = codes.shape(1);
  require(offsets.shape(0) == d + 1, "got codes and offsets of several sizes, expected one");
  std::vector<int64_t> limits(d);
  for (size_t j = 0; j < d; j++) {
    const int64_t offset = offsets.data()[j];
    if (offset < 0) return false;
    limits[j] = offset > cells ? 0 : cells - offset;
  }
  if (offsets.data()[d] < 0) return false;
  const WithoutLock without_lock(n * d);
  return are_below(codes.data(), n, d, limits.data());
}

// ---- The order of rows ----

// Return the indices of the rows sorted by group if there are many cells; otherwise nothing, for their own order.
std::vector<int64_t> sort_rows(const int64_t* group, size_t n, size_t groups, size_t columns) {
  if (group == nullptr || groups * columns <= kFewCells) return {};
  return sort_by_group(group, n, groups);
}

// Divide rows, in their order, into `count` chunks with about as many entries each; return the bounds.
std::vector<int64_t> find_cuts(const int64_t* indptr, size_t n, const int64_t* order, size_t count) {
  std::vector<int64_t> cuts(count + 1, static_cast<int64_t>(n));
  cuts[0] = 0;
  const uint64_t entries = static_cast<uint64_t>(indptr[n] - indptr[0]);
  uint64_t seen = 0;
  size_t k = 1;
  for (size_t row = 0; row < n; row++) {
    for (; k < count && seen >= entries / count * k; k++) cuts[k] = static_cast<int64_t>(row);
    const size_t i = order == nullptr ? row : static_cast<size_t>(order[row]);
    seen += static_cast<uint64_t>(indptr[i + 1] - indptr[i]);
  }
  return cuts;
}

// ---- Sums ----

// The weights, groups and order of rows, and the part of them to add.
struct Chunk {
  const double* weights;  // of each row; nullptr if all are 1
  const int64_t* group;   // of each row; nullptr if all are one group
  const int64_t* order;   // the index of the row at each place; nullptr if rows are in order
  size_t start;           // the first place to add
  // The place after the last one.
  size_t stop;
};

// Where a chunk adds its rows: those of the group `shared`, in which it begins, to `apart`, and the others to `words`.
struct Target {
  Words words;
  Words apart;
  int64_t shared;
  size_t columns;
};

// The bits that are set in some value and in some weight, and the sum of magnitudes: they tell whether all numbers are integers
// whose sums fit 64 bits.
struct Sizes {
  uint64_t value_bits = 0;
  uint64_t weight_bits = 1;
  uint64_t total = 0;
};

template <class Index>
struct Sparse {
  const int64_t* indptr;
  const Index* indices;
  const double* values;
};

struct Codes {
  const int64_t* codes;
  const int64_t* offsets;
  size_t d;
};

// Return the integer that a number equals, or kTooLarge.
static TAMIS_INLINE int64_t to_whole(double value) {
  if (!(std::fabs(value) < 0x1p62)) return kTooLarge;
  const int64_t integer = static_cast<int64_t>(value);
  return static_cast<double>(integer) == value ? integer : kTooLarge;
}

static TAMIS_INLINE uint64_t bits_of(int64_t integer) { return static_cast<uint64_t>(integer ^ (integer >> 63)); }

static TAMIS_INLINE uint64_t magnitude_of(uint64_t amount) { return amount >> 63 != 0 ? 0 - amount : amount; }

static TAMIS_INLINE size_t row_at(const Chunk& chunk, size_t k) {
  return chunk.order == nullptr ? k : static_cast<size_t>(chunk.order[k]);
}

static TAMIS_INLINE int64_t group_of(const Chunk& chunk, size_t i) { return chunk.group == nullptr ? 0 : chunk.group[i]; }

// The parameters are copies: if they were references, the compiler would load them again after each write to words.
template <class Index>
Sizes add_integers(const Sparse<Index> rows, const Chunk chunk, const Target target) {
  Sizes sizes;
  for (size_t k = chunk.start; k < chunk.stop; k++) {
    const size_t i = row_at(chunk, k);
    const int64_t g = group_of(chunk, i);
    int64_t* cells =
        g == target.shared ? target.apart.data : target.words.data + static_cast<size_t>(g) * target.columns;
    const int64_t weight = chunk.weights == nullptr ? 1 : to_whole(chunk.weights[i]);
    sizes.weight_bits |= bits_of(weight);
    const size_t end = static_cast<size_t>(rows.indptr[i + 1]);
    for (size_t e = static_cast<size_t>(rows.indptr[i]); e < end; e++) {
      const int64_t value = to_whole(rows.values[e]);
      sizes.value_bits |= bits_of(value);
      const uint64_t amount = static_cast<uint64_t>(weight) * static_cast<uint64_t>(value);
      sizes.total += magnitude_of(amount);
      add_to(cells[static_cast<size_t>(rows.indices[e])], amount);
    }
  }
  return sizes;
}

template <class Index>
void add_digits(const Sparse<Index> rows, const Chunk chunk, const Target target) {
  for (size_t k = chunk.start; k < chunk.stop; k++) {
    const size_t i = row_at(chunk, k);
    const int64_t g = group_of(chunk, i);
    const Words& words = g == target.shared ? target.apart : target.words;
    const size_t cell = g == target.shared ? 0 : static_cast<size_t>(g) * target.columns;
    const size_t end = static_cast<size_t>(rows.indptr[i + 1]);
    for (size_t e = static_cast<size_t>(rows.indptr[i]); e < end; e++) {
      const size_t place = cell + static_cast<size_t>(rows.indices[e]);
      if (chunk.weights != nullptr) {
        push_product(words, place, rows.values[e], chunk.weights[i]);
      } else {
        push(words, place, rows.values[e], 0);
      }
    }
  }
}

Sizes add_integers(const Codes rows, const Chunk chunk, const Target target) {
  Sizes sizes;
  for (size_t k = chunk.start; k < chunk.stop; k++) {
    const size_t i = row_at(chunk, k);
    const int64_t g = group_of(chunk, i);
    int64_t* cells =
        g == target.shared ? target.apart.data : target.words.data + static_cast<size_t>(g) * target.columns;
    const int64_t amount = chunk.weights == nullptr ? 1 : to_whole(chunk.weights[i]);
    sizes.value_bits |= bits_of(amount);
    sizes.total += rows.d * magnitude_of(static_cast<uint64_t>(amount));
    const int64_t* row = rows.codes + i * rows.d;
#if defined(__GNUC__)
#pragma GCC unroll 4
#endif
    for (size_t j = 0; j < rows.d; j++) {
      if (row[j] >= 0) add_to(cells[static_cast<size_t>(rows.offsets[j] + row[j])], static_cast<uint64_t>(amount));
    }
  }
  return sizes;
}

void add_digits(const Codes rows, const Chunk chunk, const Target target) {
  for (size_t k = chunk.start; k < chunk.stop; k++) {
    const size_t i = row_at(chunk, k);
    const int64_t g = group_of(chunk, i);
    const Words& words = g == target.shared ? target.apart : target.words;
    const size_t cell = g == target.shared ? 0 : static_cast<size_t>(g) * target.columns;
    const double weight = chunk.weights == nullptr ? 1.0 : chunk.weights[i];
    const int64_t* row = rows.codes + i * rows.d;
    for (size_t j = 0; j < rows.d; j++) {
      if (row[j] >= 0) push(words, cell + static_cast<size_t>(rows.offsets[j] + row[j]), weight, 0);
    }
  }
}

// Whether all were integers, and sums of so many of them cannot have overflowed int64.
bool are_right(const Sizes& sizes, size_t entries) {
  return bit_length(sizes.value_bits) + bit_length(sizes.weight_bits) + bit_length(entries) <= 62;
}

// Settle one plane of integers, whose magnitudes add up to `total` at most.
OwnedWords settle_integers(OwnedWords&& words, uint64_t total) {
  const auto fits = [](int64_t word) { return -kHalf <= word && word < kHalf; };
  if (total < static_cast<uint64_t>(kHalf) || std::all_of(words.data, words.data + words.cells, fits)) return std::move(words);
  OwnedWords wide(2, words.cells, 0);
  std::copy(words.data, words.data + words.cells, wide.data);
  settle(wide);
  return wide;
}

struct Exponents {
  int64_t high = 0;
  int64_t low = 0;
};

// Return the exponents of the largest and of the smallest nonzero magnitude.
Exponents find_exponents(const double* values, size_t n) {
  double largest = 0.0;
  double smallest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < n; i++) {
    const double magnitude = std::fabs(values[i]);
    largest = magnitude > largest ? magnitude : largest;
    if (magnitude > 0.0) smallest = magnitude < smallest ? magnitude : smallest;
  }
  if (largest == 0.0) return {};
  int high;
  int low;
  std::frexp(largest, &high);
  std::frexp(smallest, &low);
  return {high, low};
}

// Numbers to be multiplied; if there are none, each is 1.
struct Factors {
  const double* data;
  size_t size;
};

// The position and the number of words per cell.
struct Window {
  int64_t low;
  size_t length;
};

Window find_window(const Factors& values, const Factors& weights, size_t entries) {
  int64_t high = bit_length(entries);
  int64_t low = 0;
  for (const Factors* factors : {&values, &weights}) {
    if (factors->size == 0) continue;
    const Exponents exponents = find_exponents(factors->data, factors->size);
    high += std::max<int64_t>(exponents.high, 0);
    low += std::min<int64_t>(exponents.low, 0) - 53;
  }
  const int64_t position = low >> kLogBits;
  return {position, static_cast<size_t>((high >> kLogBits) + 1 - position)};
}

// ---- Functions that Python calls ----

using Ints = Input<int64_t, 1>;
using Floats = Input<double, 1>;

nb::object to_array(std::vector<int64_t>&& numbers) {
  auto* moved = new std::vector<int64_t>(std::move(numbers));
  nb::capsule owner(moved, [](void* memory) noexcept { delete static_cast<std::vector<int64_t>*>(memory); });
  return nb::cast(nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>(moved->data(), {moved->size()}, owner));
}

void check_rows(size_t n, size_t weights, const Ints& group, int64_t groups, int64_t columns) {
  require(weights == 0 || weights == n, "got rows and weights of several sizes, expected one");
  require(group.shape(0) == 0 || group.shape(0) == n, "got rows and groups of several sizes, expected one");
  require(groups >= 0 && columns >= 0 && (n == 0 || groups > 0), "got rows without groups, expected at least one");
  if (columns > 0 && static_cast<uint64_t>(groups) > SIZE_MAX / static_cast<uint64_t>(columns)) throw std::bad_alloc();
}

const int64_t* data_or_null(const Ints& array) { return array.shape(0) > 0 ? array.data() : nullptr; }
const double* data_or_null(const Floats& array) { return array.shape(0) > 0 ? array.data() : nullptr; }

Factors to_factors(const Floats& array) { return {array.data(), array.shape(0)}; }

template <class Index>
Sparse<Index> take_sparse(const Ints& indptr, const Input<Index, 1>& indices, const Floats& values) {
  require(indptr.shape(0) > 0, "got no beginning of the first row, expected at least one number");
  require(indices.shape(0) == values.shape(0), "got indices and values of several sizes, expected one");
  return {indptr.data(), indices.data(), values.data()};
}

Codes take_codes(const Input<int64_t, 2>& codes, const Ints& offsets) {
  require(offsets.shape(0) == codes.shape(1) + 1, "got codes and offsets of several sizes, expected one");
  return {codes.data(), offsets.data(), codes.shape(1)};
}

// Add all rows in this thread: `entries` values, each times the weight of its row.
template <class Rows>
nb::tuple deposit_here(const Rows& rows, size_t n, size_t entries, const Factors& values, const Floats& weights,
                       const Ints& group, int64_t group_count, int64_t column_count) {
  check_rows(n, weights.shape(0), group, group_count, column_count);
  const size_t groups = static_cast<size_t>(group_count);
  const size_t columns = static_cast<size_t>(column_count);
  std::optional<OwnedWords> settled;
  {
    const WithoutLock without_lock(entries + groups * columns);
    const std::vector<int64_t> order = sort_rows(data_or_null(group), n, groups, columns);
    const Chunk chunk{data_or_null(weights), data_or_null(group), order.empty() ? nullptr : order.data(), 0, n};
    OwnedWords integers(1, groups * columns, 0);
    const Sizes sizes = add_integers(rows, chunk, Target{integers, integers, -1, columns});
    if (are_right(sizes, entries)) {
      settled.emplace(settle_integers(std::move(integers), sizes.total));
    } else {
      const Window window = find_window(values, to_factors(weights), entries);
      settled.emplace(window.length, groups * columns, window.low);
      add_digits(rows, chunk, Target{*settled, *settled, -1, columns});
      settle(*settled);
    }
  }
  return to_python(std::move(*settled));
}

template <class Index>
nb::tuple deposit_sparse(Ints indptr, Input<Index, 1> indices, Floats values, Floats weights, Ints group, int64_t groups,
                         int64_t columns) {
  const Sparse<Index> rows = take_sparse(indptr, indices, values);
  return deposit_here(rows, indptr.shape(0) - 1, values.shape(0), to_factors(values), weights, group, groups, columns);
}

nb::tuple deposit_codes(Input<int64_t, 2> codes, Ints offsets, Floats weights, Ints group, int64_t groups) {
  const Codes rows = take_codes(codes, offsets);
  const int64_t columns = offsets.data()[rows.d];
  return deposit_here(rows, codes.shape(0), codes.size(), Factors{nullptr, 0}, weights, group, groups, columns);
}

nb::object sort_rows_of(Ints group, int64_t groups, int64_t columns) {
  check_rows(group.shape(0), 0, group, groups, columns);
  std::vector<int64_t> order;
  {
    const WithoutLock without_lock(group.shape(0));
    order = sort_rows(data_or_null(group), group.shape(0), static_cast<size_t>(groups), static_cast<size_t>(columns));
  }
  return to_array(std::move(order));
}

nb::object cut_rows(Ints indptr, Ints order, int64_t count) {
  require(indptr.shape(0) > 0 && 0 < count && count <= 1 << 20, "got no rows to cut, or no number of chunks");
  const size_t n = indptr.shape(0) - 1;
  require(order.shape(0) == 0 || order.shape(0) == n, "got rows and an order of several sizes, expected one");
  std::vector<int64_t> cuts;
  {
    const WithoutLock without_lock(n);
    cuts = find_cuts(indptr.data(), n, data_or_null(order), static_cast<size_t>(count));
  }
  return to_array(std::move(cuts));
}

nb::tuple find_window_of(Floats values, Floats weights, int64_t entries) {
  const Window window = find_window(to_factors(values), to_factors(weights), static_cast<size_t>(entries));
  return nb::make_tuple(window.low, window.length);
}

// Add one chunk of rows, at the places from start to stop. If `low` is None, numbers are added as integers to one plane of words.
template <class Rows>
nb::object add_chunk(const Rows& rows, size_t n, const Floats& weights, const Ints& group, const Ints& order, int64_t start,
                     int64_t stop, const Output<int64_t, 2>& words, const Output<int64_t, 2>& apart, int64_t shared,
                     std::optional<int64_t> low) {
  const size_t columns = apart.shape(1);
  const int64_t groups = columns > 0 ? static_cast<int64_t>(words.shape(1) / columns) : 1;
  check_rows(n, weights.shape(0), group, groups, static_cast<int64_t>(columns));
  require(order.shape(0) == 0 || order.shape(0) == n, "got rows and an order of several sizes, expected one");
  require(0 <= start && start <= stop && stop <= static_cast<int64_t>(n), "got a chunk beyond the rows");
  require(words.shape(0) == apart.shape(0) && words.shape(0) > 0, "got words of several lengths, expected one");
  const int64_t position = check_position(low.value_or(0));
  const Chunk chunk{data_or_null(weights), data_or_null(group), data_or_null(order), static_cast<size_t>(start),
                    static_cast<size_t>(stop)};
  const Target target{{words.data(), words.shape(0), words.shape(1), position},
                      {apart.data(), apart.shape(0), columns, position}, shared, columns};
  Sizes sizes;
  {
    nb::gil_scoped_release without_lock;
    if (low.has_value()) {
      add_digits(rows, chunk, target);
    } else {
      sizes = add_integers(rows, chunk, target);
    }
  }
  return nb::make_tuple(sizes.value_bits, sizes.weight_bits, sizes.total);
}

template <class Index>
nb::object add_sparse(Ints indptr, Input<Index, 1> indices, Floats values, Floats weights, Ints group, Ints order,
                      int64_t start, int64_t stop, Output<int64_t, 2> words, Output<int64_t, 2> apart, int64_t shared,
                      std::optional<int64_t> low) {
  const Sparse<Index> rows = take_sparse(indptr, indices, values);
  return add_chunk(rows, indptr.shape(0) - 1, weights, group, order, start, stop, words, apart, shared, low);
}

nb::object add_codes(Input<int64_t, 2> codes, Ints offsets, Floats weights, Ints group, Ints order, int64_t start, int64_t stop,
                     Output<int64_t, 2> words, Output<int64_t, 2> apart, int64_t shared, std::optional<int64_t> low) {
  const Codes rows = take_codes(codes, offsets);
  return add_chunk(rows, codes.shape(0), weights, group, order, start, stop, words, apart, shared, low);
}

template <class Index>
void bind_sparse(nb::module_& m) {
  m.def("deposit_sparse", &deposit_sparse<Index>, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
        nb::arg("values").noconvert(), nb::arg("weights").noconvert(), nb::arg("group").noconvert(), nb::arg("groups"),
        nb::arg("columns"));
  m.def("add_sparse", &add_sparse<Index>, nb::arg("indptr").noconvert(), nb::arg("indices").noconvert(),
        nb::arg("values").noconvert(), nb::arg("weights").noconvert(), nb::arg("group").noconvert(),
        nb::arg("order").noconvert(), nb::arg("start"), nb::arg("stop"), nb::arg("words").noconvert(),
        nb::arg("apart").noconvert(), nb::arg("shared"), nb::arg("low").none());
}

}  // namespace

void bind_scatter(nb::module_& m) {
  m.def("are_within", &are_within<int64_t>, nb::arg("places").noconvert(), nb::arg("size"));
  m.def("are_within", &are_within<int32_t>, nb::arg("places").noconvert(), nb::arg("size"));
  m.def("are_rows_within", &are_rows_within, nb::arg("indptr").noconvert(), nb::arg("entries"));
  m.def("are_codes_within", &are_codes_within, nb::arg("codes").noconvert(), nb::arg("offsets").noconvert(), nb::arg("cells"));
  m.def("sort_rows", &sort_rows_of, nb::arg("group").noconvert(), nb::arg("groups"), nb::arg("columns"));
  m.def("cut_rows", &cut_rows, nb::arg("indptr").noconvert(), nb::arg("order").noconvert(), nb::arg("count"));
  m.def("find_window", &find_window_of, nb::arg("values").noconvert(), nb::arg("weights").noconvert(), nb::arg("entries"));
  bind_sparse<int32_t>(m);
  bind_sparse<int64_t>(m);
  m.def("deposit_codes", &deposit_codes, nb::arg("codes").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("weights").noconvert(), nb::arg("group").noconvert(), nb::arg("groups"));
  m.def("add_codes", &add_codes, nb::arg("codes").noconvert(), nb::arg("offsets").noconvert(), nb::arg("weights").noconvert(),
        nb::arg("group").noconvert(), nb::arg("order").noconvert(), nb::arg("start"), nb::arg("stop"),
        nb::arg("words").noconvert(), nb::arg("apart").noconvert(), nb::arg("shared"), nb::arg("low").none());
}

}  // namespace tamis::sums
