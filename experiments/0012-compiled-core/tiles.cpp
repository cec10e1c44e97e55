// The tiles of the core (core/dense), compiled once per processor: -DNAME is the function's name.
#include "../../core/dense/symmetric.hpp"

void NAME(const double* rows, int64_t count, int64_t k, double* root) {
  double inverses[512];  // The caller has checked that k is at most 512.
  fill(root, k * k, 0.0);
  add_products(rows, rows, k, count, root);
  for (int64_t i = 0; i < k; ++i) root[i * k + i] += 1.0;
  factorize(root, k, k, inverses);
}
