// Text: from bytes to tokens, numbers and counts. The meaning of each function is in `_kernels/text/reference.py`.
#include "common.hpp"
#include "parts.hpp"
#include "text/parts.hpp"

namespace tamis {

void bind_text(nb::module_& m) {
  text::bind_fold(m);
  text::bind_tokens(m);
  text::bind_numbers(m);
  text::bind_counts(m);
  text::bind_hashes(m);
}

}  // namespace tamis
