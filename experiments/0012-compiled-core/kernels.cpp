// Both kernels in C++ with nanobind; the same steps as in kernels.pyx, and tiles for each processor.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace nb = nanobind;
template <class T, int Dimensions>
using Array = nb::ndarray<T, nb::ndim<Dimensions>, nb::c_contig, nb::device::cpu>;

void factorize_by_avx512(const double* rows, std::int64_t count, std::int64_t k, double* root);
void factorize_by_avx2(const double* rows, std::int64_t count, std::int64_t k, double* root);

namespace {

struct Word {
  std::uint64_t key;  // Hash of the word, never 0; 0: the cell is empty.
  std::int64_t begin, length;
  std::int32_t number;
};

// A lower-case letter or a digit; 0 for what ends a word.
inline std::uint8_t fold(std::uint8_t byte) {
  if ((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9')) return byte;
  return byte >= 'A' && byte <= 'Z' ? byte + 32 : 0;
}

void grow(std::vector<Word>& table) {
  std::vector<Word> larger(2 * table.size(), Word{});
  const std::uint64_t mask = larger.size() - 1;
  for (const Word& word : table) {
    if (!word.key) continue;
    std::uint64_t cell = word.key & mask;
    while (larger[cell].key) cell = (cell + 1) & mask;
    larger[cell] = word;
  }
  table.swap(larger);
}

std::int64_t count_words(const Array<const std::uint8_t, 1>& text_array, const Array<const std::int64_t, 1>& document_array,
                         const Array<std::int64_t, 1>& indptr, const Array<std::int32_t, 1>& index_array,
                         const Array<double, 1>& count_array) {
  const std::size_t n = document_array.shape(0) - 1, most = text_array.shape(0);
  const std::int64_t* documents = document_array.data();
  if (document_array.shape(0) < 2 || documents[0] != 0 || documents[n] != static_cast<std::int64_t>(most) ||
      indptr.shape(0) != n + 1) {
    throw std::invalid_argument("got documents that do not fit the text");
  }
  if (index_array.shape(0) < most / 2 + 1 || count_array.shape(0) < index_array.shape(0)) {
    throw std::invalid_argument("got too little room for counts");
  }
  nb::gil_scoped_release release;
  const std::uint8_t* text = text_array.data();
  std::int32_t* indices = index_array.data();
  double* counts = count_array.data();
  const std::unique_ptr<std::uint8_t[]> buffer(new std::uint8_t[most + 1]);
  std::uint8_t* folded = buffer.get();  // A pointer of its own, which the compiler knows that stores of bytes do not change.
  const std::unique_ptr<std::int64_t[]> places(new std::int64_t[most + 1]);
  std::int64_t* where = places.get();
  std::vector<Word> table(1 << 8, Word{});
  Word* cells = table.data();
  std::uint64_t mask = table.size() - 1, words = 0;
  std::int64_t total = 0;
  indptr.data()[0] = 0;
  for (std::size_t document = 0; document < n; ++document) {
    const std::int64_t begun = total, stop = documents[document + 1];
    for (std::int64_t i = documents[document]; i < stop; ++i) {
      const std::int64_t begin = i;
      std::uint64_t key = 14695981039346656037u;
      for (; i < stop; ++i) {
        const std::uint8_t byte = fold(text[i]);
        if (!byte) break;
        folded[i] = byte;
        key = (key ^ byte) * 1099511628211u;
      }
      const std::int64_t length = i - begin;
      if (length < 2) continue;
      key ^= key >> 32;
      key |= 1;
      std::uint64_t cell = key & mask;
      for (; cells[cell].key; cell = (cell + 1) & mask) {
        const Word& word = cells[cell];
        if (word.key == key && word.length == length && !std::memcmp(folded + word.begin, folded + begin, length)) break;
      }
      if (!cells[cell].key) {
        cells[cell] = {key, begin, length, static_cast<std::int32_t>(words)};
        where[words++] = -1;
      }
      const std::int32_t number = cells[cell].number;
      const std::int64_t at = where[number];
      if (at >= begun) {
        counts[at] += 1.0;
      } else {
        where[number] = total;
        indices[total] = number;
        counts[total++] = 1.0;
      }
      if (2 * words > mask) {
        grow(table);
        cells = table.data();
        mask = table.size() - 1;
      }
    }
    indptr.data()[document + 1] = total;
  }
  return static_cast<std::int64_t>(words);
}

void factorize(const double* rows, std::int64_t count, std::int64_t k, double* sums) {
  std::memset(sums, 0, k * k * sizeof(double));
  for (std::int64_t n = 0; n < count; ++n) {
    const double* row = rows + n * k;
    for (std::int64_t i = 0; i < k; ++i) {
      const double number = row[i];
      for (std::int64_t j = i; j < k; ++j) sums[i * k + j] += number * row[j];
    }
  }
  for (std::int64_t p = 0; p < k; ++p) {
    sums[p * k + p] += 1.0;
    const double inverse = 1.0 / std::sqrt(sums[p * k + p]);
    for (std::int64_t j = p; j < k; ++j) sums[p * k + j] *= inverse;
    for (std::int64_t i = p + 1; i < k; ++i) {
      const double number = sums[p * k + i];
      for (std::int64_t j = i; j < k; ++j) sums[i * k + j] -= number * sums[p * k + j];
    }
  }
}

using Factorize = void (*)(const double*, std::int64_t, std::int64_t, double*);

Factorize choose() {
  if (__builtin_cpu_supports("avx512dq")) return factorize_by_avx512;
  return __builtin_cpu_supports("fma") ? factorize_by_avx2 : factorize;
}

const Factorize for_this_processor = choose();

void factorize_all(const Array<const double, 3>& rows, const Array<double, 3>& roots, bool tiles) {
  const std::size_t many = rows.shape(0), count = rows.shape(1), k = rows.shape(2);
  if (roots.shape(0) != many || roots.shape(1) != k || roots.shape(2) != k || (tiles && (k % 8 != 0 || k > 512))) {
    throw std::invalid_argument("got roots of another size than rows");
  }
  nb::gil_scoped_release release;
  const Factorize one = tiles ? for_this_processor : factorize;
  for (std::size_t m = 0; m < many; ++m) one(rows.data() + m * count * k, count, k, roots.data() + m * k * k);
}

}  // namespace

NB_MODULE(kernels_nanobind, m) {
  m.def("count_words", &count_words, nb::arg().noconvert(), nb::arg().noconvert(), nb::arg().noconvert(),
        nb::arg().noconvert(), nb::arg().noconvert());
  m.def("factorize_many", &factorize_all, nb::arg().noconvert(), nb::arg().noconvert(), nb::arg("tiles") = false);
}
