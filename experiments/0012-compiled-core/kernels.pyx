# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Both kernels in Cython; the same steps as in kernels.cpp."""

from libc.math cimport sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp


cdef struct Word:
    uint64_t key  # hash of the word, never 0; 0: the cell is empty
    int64_t begin, length
    int32_t number


cdef inline uint8_t fold(uint8_t byte) noexcept nogil:
    """A lower-case letter or a digit; 0 for what ends a word."""
    if 97 <= byte <= 122 or 48 <= byte <= 57:
        return byte
    return byte + 32 if 65 <= byte <= 90 else 0


cdef Word* grow(Word* table, uint64_t size) noexcept nogil:
    """A table of twice the size with the same words; NULL without memory."""
    cdef Word* larger = <Word*>calloc(2 * size, sizeof(Word))
    cdef uint64_t cell, i
    if larger != NULL:
        for i in range(size):
            if table[i].key:
                cell = table[i].key & (2 * size - 1)
                while larger[cell].key:
                    cell = (cell + 1) & (2 * size - 1)
                larger[cell] = table[i]
    free(table)
    return larger


cdef int64_t count(
    const uint8_t* text, const int64_t* documents, int64_t n, int64_t* indptr, int32_t* indices, double* counts
) noexcept nogil:
    cdef uint64_t size = 1 << 8, cell, key
    cdef int64_t most = documents[n], document, i, begin, length, total = 0, begun, words = 0, at
    cdef uint8_t* folded = <uint8_t*>malloc(most + 1)
    cdef int64_t* where = <int64_t*>malloc((most + 1) * sizeof(int64_t))
    cdef Word* table = <Word*>calloc(size, sizeof(Word))
    cdef uint8_t byte
    cdef bint same
    indptr[0] = 0
    if folded != NULL and where != NULL and table != NULL:
        for document in range(n):
            begun, i = total, documents[document]
            while i < documents[document + 1]:
                begin, key = i, 14695981039346656037ULL
                while i < documents[document + 1]:
                    byte = fold(text[i])
                    if not byte:
                        break
                    folded[i] = byte
                    key = (key ^ byte) * 1099511628211ULL
                    i += 1
                length = i - begin
                i += 1
                if length < 2:
                    continue
                key ^= key >> 32
                key |= 1
                cell = key & (size - 1)
                while table[cell].key:
                    same = table[cell].key == key and table[cell].length == length
                    if same and memcmp(folded + table[cell].begin, folded + begin, length) == 0:
                        break
                    cell = (cell + 1) & (size - 1)
                if not table[cell].key:
                    table[cell].key, table[cell].begin, table[cell].length = key, begin, length
                    table[cell].number = <int32_t>words
                    where[words] = -1
                    words += 1
                at = where[table[cell].number]
                if at >= begun:
                    counts[at] += 1.0
                else:
                    where[table[cell].number] = total
                    indices[total] = table[cell].number
                    counts[total] = 1.0
                    total += 1
                if 2 * <uint64_t>words > size:
                    table = grow(table, size)
                    size *= 2
                    if table == NULL:
                        break
            indptr[document + 1] = total
            if table == NULL:
                break
    if folded == NULL or where == NULL or table == NULL:
        words = -1
    free(folded)
    free(where)
    free(table)
    return words


def count_words(
    const uint8_t[::1] text, const int64_t[::1] documents, int64_t[::1] indptr, int32_t[::1] indices,
    double[::1] counts,
):
    """Count the words of each document; return how many different words there are."""
    cdef int64_t n = documents.shape[0] - 1, words
    if n < 1 or documents[0] != 0 or documents[n] != text.shape[0] or indptr.shape[0] != n + 1:
        raise ValueError("got documents that do not fit the text")
    if indices.shape[0] < text.shape[0] // 2 + 1 or counts.shape[0] < indices.shape[0]:
        raise ValueError("got too little room for counts")
    with nogil:
        words = count(&text[0] if text.shape[0] else NULL, &documents[0], n, &indptr[0], &indices[0], &counts[0])
    if words < 0:
        raise MemoryError
    return words


cdef void factorize(const double* rows, int64_t count, int64_t k, double* sums) noexcept nogil:
    cdef int64_t n, i, j, p
    cdef double number, inverse
    cdef const double* row
    for i in range(k * k):
        sums[i] = 0.0
    for n in range(count):
        row = rows + n * k
        for i in range(k):
            number = row[i]
            for j in range(i, k):
                sums[i * k + j] += number * row[j]
    for p in range(k):
        inverse = 1.0 / sqrt(sums[p * k + p] + 1.0)
        sums[p * k + p] += 1.0
        for j in range(p, k):
            sums[p * k + j] *= inverse
        for i in range(p + 1, k):
            number = sums[p * k + i]
            for j in range(i, k):
                sums[i * k + j] -= number * sums[p * k + j]


def factorize_many(const double[:, :, ::1] rows, double[:, :, ::1] roots):
    """Write the upper Cholesky factor of I + XᵀX, for each of many X."""
    cdef int64_t many = rows.shape[0], count = rows.shape[1], k = rows.shape[2], m
    if roots.shape[0] != many or roots.shape[1] != k or roots.shape[2] != k or not many or not count or not k:
        raise ValueError("got roots of another size than rows")
    with nogil:
        for m in range(many):
            factorize(&rows[m, 0, 0], count, k, &roots[m, 0, 0])
