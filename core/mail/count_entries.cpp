// Writes counts as the entries of runs, which tamis_mail/store/runs.py defines. The reference is tamis_mail/store/tables.py, and
// tests/mail/store/test_tables.py keeps the two equal.
#include "count_entries.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../require.hpp"

namespace tamis::mail {

namespace {

constexpr int kKeyBits = 48;  // KEY_BITS of tamis_mail/features/hashing.py

// Writes how many bytes each count of a row needs: 1, 2, 4 or 8.
void find_widths(Input<std::int64_t, 2> counts, Output<std::uint8_t, 1> widths) {
  const std::size_t rows = counts.shape(0), labels = counts.shape(1);
  require(widths.shape(0) == rows, "expected a place per row of counts");
  const nb::gil_scoped_release unlocked;
  const std::int64_t* count = counts.data();
  for (std::size_t row = 0; row < rows; ++row, count += labels) {
    std::uint64_t bits = 0;  // Those of the largest count, or of -1 - count if a count is negative.
    for (std::size_t label = 0; label < labels; ++label) bits |= static_cast<std::uint64_t>(count[label] ^ (count[label] >> 63));
    widths.data()[row] = bits >> 7 == 0 ? 1 : bits >> 15 == 0 ? 2 : bits >> 31 == 0 ? 4 : 8;
  }
}

// The numbers of a little-endian processor, as all are for which the core is built.
template <class Key, class Count>
std::size_t encode(const Input<std::uint64_t, 1>& keys, const Input<std::int64_t, 2>& counts, const Input<std::uint8_t, 1>& widths,
                   int shift, std::uint8_t* data, std::size_t entries, std::int64_t* shelves, std::int64_t* ends) {
  const std::size_t rows = keys.shape(0), labels = counts.shape(1);
  const std::uint64_t low_bits = (std::uint64_t{1} << shift) - 1;
  std::size_t size = 0, n_shelves = 0, n_entries = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    if (widths.data()[row] != sizeof(Count)) continue;
    if (n_entries++ == entries) refuse("expected a place per entry");
    const std::uint64_t key = keys.data()[row];
    const auto shelf = static_cast<std::int64_t>(key >> shift);
    if (n_shelves == 0 || shelves[n_shelves - 1] != shelf) shelves[n_shelves++] = shelf;
    const Key low = static_cast<Key>(key & low_bits);
    std::memcpy(data + size, &low, sizeof(Key));
    size += sizeof(Key);
    for (std::size_t label = 0; label < labels; ++label) {
      const Count count = static_cast<Count>(counts.data()[row * labels + label]);
      std::memcpy(data + size, &count, sizeof(Count));
      size += sizeof(Count);
    }
    ends[n_shelves - 1] = static_cast<std::int64_t>(size);
  }
  require(n_entries == entries, "expected an entry per place");
  return n_shelves;
}

// Writes the entries of one width, whose keys ascend, one after the other; the number of each shelf before that of the run's first
// one; and where the bytes of each shelf end. Returns the number of shelves.
std::size_t encode_entries(Input<std::uint64_t, 1> keys, Input<std::int64_t, 2> counts, Input<std::uint8_t, 1> widths, int width,
                           int shift, Output<std::uint8_t, 1> data, Output<std::int64_t, 1> shelves, Output<std::int64_t, 1> ends) {
  require(counts.shape(0) == keys.shape(0) && widths.shape(0) == keys.shape(0), "expected arrays of matching sizes");
  require(shift >= 0 && shift <= kKeyBits, "expected a shift of at most 48 bits");
  const std::size_t key_bytes = shift <= 32 ? 4 : 8, entries = shelves.shape(0);
  require(ends.shape(0) == entries &&
              data.shape(0) == entries * (key_bytes + counts.shape(1) * static_cast<std::size_t>(width > 0 ? width : 0)),
          "expected arrays of matching sizes");
  const nb::gil_scoped_release unlocked;
  const auto run = [&](auto key, auto count) {
    return encode<decltype(key), decltype(count)>(keys, counts, widths, shift, data.data(), entries, shelves.data(), ends.data());
  };
  const auto run_width = [&](auto key) {
    switch (width) {
      case 1: return run(key, std::int8_t{});
      case 2: return run(key, std::int16_t{});
      case 4: return run(key, std::int32_t{});
      case 8: return run(key, std::int64_t{});
      default: refuse("expected a width of 1, 2, 4 or 8 bytes");
    }
  };
  return key_bytes == 4 ? run_width(std::uint32_t{}) : run_width(std::uint64_t{});
}

}  // namespace

void bind_count_entries(nb::module_& m) {
  m.def("find_widths", &find_widths, nb::arg("counts").noconvert(), nb::arg("widths").noconvert());
  m.def("encode_entries", &encode_entries, nb::arg("keys").noconvert(), nb::arg("counts").noconvert(), nb::arg("widths").noconvert(),
        nb::arg("width"), nb::arg("shift"), nb::arg("data").noconvert(), nb::arg("shelves").noconvert(), nb::arg("ends").noconvert());
}

}  // namespace tamis::mail
