// The part `tamis._core.sums`: exact sums of floats, and scores of rows. `src/tamis/_kernels/reference.py` says in NumPy
// what each function means.
#include "common.hpp"
#include "parts.hpp"
#include "sums/words.hpp"

namespace tamis {

void bind_sums(nb::module_& m) {
  sums::bind_words(m);
  sums::bind_rows(m);
  sums::bind_columns(m);
  sums::bind_scatter(m);
  sums::bind_scores(m);
  sums::bind_one_row(m);
}

}  // namespace tamis
