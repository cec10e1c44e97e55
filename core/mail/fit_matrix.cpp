// A sparse matrix with few different values per row, its products, and the steps of Newton's method: `SparseRows`, `make_design` and
// `solve` of tamis_mail/verdict/fitting.py, with the same bits. tests/mail/verdict/test_fit_matrix.py keeps them equal.
//
// A column has a slot, and all entries of a row whose columns have the same slot have one value. So an entry is its column alone,
// which is a third of the memory that a product reads.
#include "fit_matrix.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../require.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kSlots = 4;
constexpr int kColumnBits = 30;
constexpr std::uint32_t kColumnMask = (std::uint32_t{1} << kColumnBits) - 1;
constexpr int kRowBits = 29;  // Of what is known of a row while the matrix is made, below its slot or kSlots.
constexpr std::uint32_t kLeftOut = (std::uint32_t{1} << kRowBits) - 1;
constexpr std::size_t kRows = 4;  // Rows that are summed at the same time: an addition need not wait for the one before it.

// As NumPy adds the elements of an array.
double sum_pairwise(const double* values, std::size_t size) {
  constexpr std::size_t kLanes = 8, kBlock = 128;
  if (size < kLanes) {
    double sum = size > 0 ? values[0] : 0.0;
    for (std::size_t index = 1; index < size; ++index) sum += values[index];
    return sum;
  }
  if (size <= kBlock) {
    std::array<double, kLanes> sums;
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] = values[lane];
    std::size_t index = kLanes;
    for (; index < size - size % kLanes; index += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += values[index + lane];
    }
    double sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; index < size; ++index) sum += values[index];
    return sum;
  }
  std::size_t half = size / 2;
  half -= half % kLanes;
  return sum_pairwise(values, half) + sum_pairwise(values + half, size - half);  // The depth is that of the logarithm.
}

class FitMatrix {
 public:
  // The entries of row i are those from starts[i] to starts[i + 1].
  FitMatrix(Input<std::int64_t, 1> starts, Input<std::int32_t, 1> columns, Input<double, 1> values, Input<std::uint8_t, 1> slots) {
    require(starts.shape(0) > 0 && values.shape(0) == columns.shape(0), "expected arrays of matching sizes");
    const std::size_t rows = starts.shape(0) - 1, entries = columns.shape(0), features = slots.shape(0);
    require(entries <= UINT32_MAX && rows <= UINT32_MAX && features <= kColumnMask, "expected fewer than 2**30 columns");
    bool is_valid = starts.data()[0] == 0 && static_cast<std::uint64_t>(starts.data()[rows]) == entries;
    for (std::size_t row = 0; is_valid && row < rows; ++row) is_valid = starts.data()[row] <= starts.data()[row + 1];
    for (std::size_t entry = 0; is_valid && entry < entries; ++entry) {
      is_valid = static_cast<std::uint64_t>(columns.data()[entry]) < features;
    }
    if (!is_valid) refuse("an entry is outside of the matrix");
    for (std::size_t column = 0; column < features; ++column) require(slots.data()[column] < kSlots, "expected at most four slots");
    const nb::gil_scoped_release unlocked;
    starts_.assign(starts.data(), starts.data() + rows + 1);
    values_.resize(rows);
    columns_.resize(entries);
    slots_.assign(slots.data(), slots.data() + features);
    for (std::size_t row = 0; row < rows; ++row) {
      std::array<bool, kSlots> is_set{};
      for (std::size_t entry = starts_[row]; entry < starts_[row + 1]; ++entry) {
        const auto column = static_cast<std::uint32_t>(columns.data()[entry]);
        const std::size_t slot = slots_[column];
        const double value = values.data()[entry];
        if (is_set[slot] && !(values_[row][slot] == value)) refuse("the entries of a slot have several values");
        is_set[slot] = true;
        values_[row][slot] = value;
        columns_[entry] = column | static_cast<std::uint32_t>(slot) << kColumnBits;
      }
    }
  }

  // The matrix of a fit: message i has the features j from starts[i] to starts[i + 1], and feature j has row rows[j] and the view
  // views[rows[j]]. The view says which slot the row has, or kSlots if such rows are left out. Rows that are there more than once
  // are columns, in their order, and are marked; a message has the value 1 / √n for each of its n features of a view.
  template <class Row>
  FitMatrix(Input<Row, 1> rows, Input<std::int64_t, 1> starts, Input<std::uint8_t, 1> views, Input<std::uint8_t, 1> slots_of_views,
            Output<std::uint8_t, 1> is_used) {
    const std::size_t all_rows = views.shape(0), features = rows.shape(0);
    require(starts.shape(0) > 0 && is_used.shape(0) == all_rows, "expected arrays of matching sizes");
    require(features <= UINT32_MAX && all_rows < kLeftOut, "expected fewer than 2**29 rows");
    const std::size_t messages = starts.shape(0) - 1;
    const Row* const row_of = rows.data();
    const std::int64_t* const start = starts.data();
    bool is_valid = start[0] == 0 && static_cast<std::uint64_t>(start[messages]) == features;
    for (std::size_t message = 0; is_valid && message < messages; ++message) is_valid = start[message] <= start[message + 1];
    std::make_unsigned_t<Row> largest = 0;
    for (std::size_t feature = 0; feature < features; ++feature) {
      largest = std::max(largest, static_cast<std::make_unsigned_t<Row>>(row_of[feature]));
    }
    is_valid = is_valid && (features == 0 || largest < all_rows);
    for (std::size_t row = 0; is_valid && row < all_rows; ++row) is_valid = views.data()[row] < slots_of_views.shape(0);
    if (!is_valid) refuse("an index is outside of its array");
    for (std::size_t view = 0; view < slots_of_views.shape(0); ++view) {
      require(slots_of_views.data()[view] <= kSlots, "expected at most four slots");
    }
    const nb::gil_scoped_release unlocked;
    std::vector<std::uint8_t> counts(all_rows, 0);  // Of each row; two stands for more, too.
    for (std::size_t feature = 0; feature < features; ++feature) {
      std::uint8_t& count = counts[static_cast<std::size_t>(row_of[feature])];
      count = static_cast<std::uint8_t>(count + (count < 2));
    }
    std::vector<std::uint32_t> facts(all_rows);  // The column of each row, or kLeftOut, and its slot in the highest bits.
    for (std::size_t row = 0; row < all_rows; ++row) {
      const std::uint8_t slot = slots_of_views.data()[views.data()[row]];
      const bool is_column = counts[row] > 1 && slot < kSlots;
      is_used.data()[row] = is_column;
      facts[row] = (is_column ? static_cast<std::uint32_t>(slots_.size()) : kLeftOut) | static_cast<std::uint32_t>(slot) << kRowBits;
      if (is_column) slots_.push_back(slot);
    }
    starts_.reserve(messages + 1);
    starts_.push_back(0);
    values_.resize(messages);
    std::vector<std::uint32_t> entries;  // Of one message.
    for (std::size_t message = 0; message < messages; ++message) {
      std::array<std::uint32_t, kSlots + 1> sizes{};
      entries.resize(static_cast<std::size_t>(start[message + 1] - start[message]));
      std::size_t count = 0;
      for (std::int64_t feature = start[message]; feature < start[message + 1]; ++feature) {
        const std::uint32_t fact = facts[static_cast<std::size_t>(row_of[feature])], slot = fact >> kRowBits;
        ++sizes[slot];
        entries[count] = (fact & kLeftOut) | slot << kColumnBits;  // The next one takes the place of one that is left out.
        count += (fact & kLeftOut) != kLeftOut;
      }
      columns_.insert(columns_.end(), entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(count));
      starts_.push_back(static_cast<std::uint32_t>(columns_.size()));
      for (std::size_t slot = 0; slot < kSlots; ++slot) {
        values_[message][slot] = 1.0 / std::sqrt(std::max(static_cast<double>(sizes[slot]), 1.0));
      }
    }
  }

  std::size_t count_columns() const { return slots_.size(); }
  std::size_t count_entries() const { return columns_.size(); }

  // Writes where the entries of each row begin, and where the last ones end.
  void write_starts(Output<std::int64_t, 1> starts) const {
    require(starts.shape(0) == starts_.size(), "expected a place per row, and one more");
    std::copy(starts_.begin(), starts_.end(), starts.data());
  }

  // Writes the column and the value of each entry.
  void write_entries(Output<std::int32_t, 1> columns, Output<double, 1> values) const {
    require(columns.shape(0) == columns_.size() && values.shape(0) == columns_.size(), "expected a place per entry");
    for (std::size_t row = 0; row < values_.size(); ++row) {
      for (std::size_t entry = starts_[row]; entry < starts_[row + 1]; ++entry) {
        columns.data()[entry] = static_cast<std::int32_t>(columns_[entry] & kColumnMask);
        values.data()[entry] = values_[row][columns_[entry] >> kColumnBits];
      }
    }
  }

  // sums[i] = Σ value * vector[column] over the entries of row i, one after the other.
  void multiply(Input<double, 1> vector, Output<double, 1> sums) const {
    require(vector.shape(0) == slots_.size() && sums.shape(0) == values_.size(), "expected vectors of matching sizes");
    const nb::gil_scoped_release unlocked;
    for (std::size_t first = 0; first < values_.size(); first += kRows) {
      const std::size_t count = std::min(kRows, values_.size() - first);
      multiply_rows(first, count, vector.data(), sums.data() + first);
    }
  }

  // sums[j] = Σ value * vector[row] over the entries of column j, one after the other, and squares[j] = Σ value² * squared_vector[row].
  void multiply_transposed(Input<double, 1> vector, Input<double, 1> squared_vector, Output<double, 1> sums,
                           Output<double, 1> squares) const {
    const std::size_t rows = values_.size(), features = slots_.size();
    require(vector.shape(0) == rows && squared_vector.shape(0) == rows && sums.shape(0) == features && squares.shape(0) == features,
            "expected vectors of matching sizes");
    const nb::gil_scoped_release unlocked;
    std::vector<std::array<double, 2>> pairs(features);  // An entry changes both sums of its column.
    for (std::size_t row = 0; row < rows; ++row) {
      std::array<std::array<double, 2>, kSlots> products;
      for (std::size_t slot = 0; slot < kSlots; ++slot) {
        const double value = values_[row][slot];
        products[slot] = {value * vector.data()[row], value * value * squared_vector.data()[row]};
      }
      for (std::size_t place = starts_[row]; place < starts_[row + 1]; ++place) {
        std::array<double, 2>& pair = pairs[columns_[place] & kColumnMask];
        const std::array<double, 2>& product = products[columns_[place] >> kColumnBits];
        pair[0] += product[0];
        pair[1] += product[1];
      }
    }
    for (std::size_t column = 0; column < features; ++column) {
      sums.data()[column] = pairs[column][0];
      squares.data()[column] = pairs[column][1];
    }
  }

  // Solves (XᵀWX + λ) step = gradient by conjugate gradients.
  void solve(Input<double, 1> curvature, Input<double, 1> diagonal, Input<double, 1> gradient, double precision, double forcing,
             std::size_t products, Output<double, 1> steps) const {
    const std::size_t features = slots_.size(), rows = values_.size();
    require(curvature.shape(0) == rows && diagonal.shape(0) == features && gradient.shape(0) == features && steps.shape(0) == features,
            "expected vectors of matching sizes");
    const nb::gil_scoped_release unlocked;
    double* const step = steps.data();
    std::fill(step, step + features, 0.0);
    std::vector<double> residual(gradient.data(), gradient.data() + features), scaled(features), image(features), terms(features);
    for (std::size_t j = 0; j < features; ++j) {
      scaled[j] = residual[j] / diagonal.data()[j];
      terms[j] = residual[j] * scaled[j];
    }
    std::vector<double> direction = scaled;
    double product = sum_pairwise(terms.data(), features);
    const double tolerance = forcing * product;
    for (std::size_t number = 0; number < products && product > tolerance; ++number) {
      std::fill(image.begin(), image.end(), 0.0);
      for (std::size_t first = 0; first < rows; first += kRows) {  // XᵀWX, while the entries of these rows are in the cache.
        const std::size_t count = std::min(kRows, rows - first);
        std::array<double, kRows> scores;
        multiply_rows(first, count, direction.data(), scores.data());
        for (std::size_t row = 0; row < count; ++row) {
          add_row(first + row, curvature.data()[first + row] * scores[row], image.data());
        }
      }
      for (std::size_t j = 0; j < features; ++j) {
        image[j] += precision * direction[j];
        terms[j] = direction[j] * image[j];
      }
      const double length = product / sum_pairwise(terms.data(), features);
      for (std::size_t j = 0; j < features; ++j) {
        step[j] += length * direction[j];
        residual[j] -= length * image[j];
        scaled[j] = residual[j] / diagonal.data()[j];
        terms[j] = residual[j] * scaled[j];
      }
      const double previous = product;
      product = sum_pairwise(terms.data(), features);
      const double share = product / previous;
      for (std::size_t j = 0; j < features; ++j) direction[j] = scaled[j] + share * direction[j];
    }
  }

 private:
  // The products of at most kRows rows with a vector.
  void multiply_rows(std::size_t first, std::size_t count, const double* vector, double* sums) const {
    const std::uint32_t* column = columns_.data();
    std::array<double, kRows> totals{};
    std::size_t shortest = 0;  // Entries that all of these rows have.
    if (count == kRows) {
      shortest = starts_[first + 1] - starts_[first];
      for (std::size_t row = 1; row < kRows; ++row) {
        shortest = std::min<std::size_t>(shortest, starts_[first + row + 1] - starts_[first + row]);
      }
      for (std::size_t place = 0; place < shortest; ++place) {
        for (std::size_t row = 0; row < kRows; ++row) {
          const std::uint32_t entry = column[starts_[first + row] + place];
          totals[row] += values_[first + row][entry >> kColumnBits] * vector[entry & kColumnMask];
        }
      }
    }
    for (std::size_t row = 0; row < count; ++row) {
      for (std::size_t place = starts_[first + row] + shortest; place < starts_[first + row + 1]; ++place) {
        totals[row] += values_[first + row][column[place] >> kColumnBits] * vector[column[place] & kColumnMask];
      }
      sums[row] = totals[row];
    }
  }

  // Adds a row times a factor.
  void add_row(std::size_t row, double factor, double* sums) const {
    std::array<double, kSlots> products;
    for (std::size_t slot = 0; slot < kSlots; ++slot) products[slot] = values_[row][slot] * factor;
    for (std::size_t place = starts_[row]; place < starts_[row + 1]; ++place) {
      sums[columns_[place] & kColumnMask] += products[columns_[place] >> kColumnBits];
    }
  }

  std::vector<std::uint32_t> starts_;
  std::vector<std::array<double, kSlots>> values_;  // Of each row, by slot.
  std::vector<std::uint32_t> columns_;              // Of each entry, with its slot in the highest bits.
  std::vector<std::uint8_t> slots_;                 // Of each column.
};

}  // namespace

void bind_fit_matrix(nb::module_& m) {
  nb::class_<FitMatrix>(m, "FitMatrix")
      .def(nb::init<Input<std::int64_t, 1>, Input<std::int32_t, 1>, Input<double, 1>, Input<std::uint8_t, 1>>(),
           nb::arg("starts").noconvert(), nb::arg("columns").noconvert(), nb::arg("values").noconvert(),
           nb::arg("slots").noconvert())
      .def(nb::init<Input<std::int32_t, 1>, Input<std::int64_t, 1>, Input<std::uint8_t, 1>, Input<std::uint8_t, 1>,
                    Output<std::uint8_t, 1>>(),
           nb::arg("rows").noconvert(), nb::arg("starts").noconvert(), nb::arg("views").noconvert(),
           nb::arg("slots_of_views").noconvert(), nb::arg("is_used").noconvert())
      .def(nb::init<Input<std::int64_t, 1>, Input<std::int64_t, 1>, Input<std::uint8_t, 1>, Input<std::uint8_t, 1>,
                    Output<std::uint8_t, 1>>(),
           nb::arg("rows").noconvert(), nb::arg("starts").noconvert(), nb::arg("views").noconvert(),
           nb::arg("slots_of_views").noconvert(), nb::arg("is_used").noconvert())
      .def("__len__", &FitMatrix::count_entries)
      .def("count_columns", &FitMatrix::count_columns)
      .def("write_starts", &FitMatrix::write_starts, nb::arg("starts").noconvert())
      .def("write_entries", &FitMatrix::write_entries, nb::arg("columns").noconvert(), nb::arg("values").noconvert())
      .def("multiply", &FitMatrix::multiply, nb::arg("vector").noconvert(), nb::arg("sums").noconvert())
      .def("multiply_transposed", &FitMatrix::multiply_transposed, nb::arg("vector").noconvert(),
           nb::arg("squared_vector").noconvert(), nb::arg("sums").noconvert(), nb::arg("squares").noconvert())
      .def("solve", &FitMatrix::solve, nb::arg("curvature").noconvert(), nb::arg("diagonal").noconvert(),
           nb::arg("gradient").noconvert(), nb::arg("precision"), nb::arg("forcing"), nb::arg("products"),
           nb::arg("step").noconvert());
}

}  // namespace tamis::mail
