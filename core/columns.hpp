// Columns of a table, each in a memory of its own.
#pragma once

#include <cstddef>
#include <vector>

#include "common.hpp"
#include "require.hpp"

namespace tamis {

// The columns of a list: arrays of one dimension and of one size, to which this holds references.
struct Columns {
  std::vector<Input<double, 1>> arrays;
  std::vector<const double*> values;
  std::size_t rows = 0;

  explicit Columns(const nb::list& given) {
    for (const nb::handle each : given) {
      Input<double, 1> array;
      require(nb::try_cast(each, array, false), "got a column of another type, expected an array of float64 in one piece");
      arrays.push_back(array);
      require(values.empty() || array.shape(0) == rows, "got columns of several sizes, expected one");
      rows = arrays.back().shape(0);
      values.push_back(arrays.back().data());
    }
  }
};

}  // namespace tamis
