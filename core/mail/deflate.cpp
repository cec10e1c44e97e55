// Compresses bytes to a zlib stream (RFC 1950 and 1951) by Huffman codes alone, as zlib's strategy Z_HUFFMAN_ONLY does, in a sixth
// of the time. tests/mail/store/test_deflate.py decompresses it by zlib.
#include "deflate.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tamis::mail {

namespace {

constexpr std::size_t kLiterals = 257;  // All bytes, and the end of a block.
constexpr std::size_t kEndOfBlock = 256;
constexpr std::size_t kBlock = std::size_t{1} << 15;  // Bytes that share their codes.
constexpr int kLongestCode = 15, kLongestLengthCode = 7;
constexpr std::array<std::uint8_t, 19> kLengthOrder = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

// Writes bits to a string of bytes, the lowest bit first.
class BitWriter {
 public:
  explicit BitWriter(std::string& bytes) : bytes_(bytes) {}

  // Makes room for so many bytes.
  void reserve(std::size_t size) { bytes_.resize(used_ + size + kWord); }

  void write(std::uint64_t bits, int count) {  // At most 56 bits.
    buffer_ |= bits << filled_;
    filled_ += count;
    char* const place = bytes_.data() + used_;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    std::memcpy(place, &buffer_, kWord);
#else
    for (std::size_t byte = 0; byte < kWord; ++byte) place[byte] = static_cast<char>(buffer_ >> 8 * byte & 0xff);
#endif
    used_ += static_cast<std::size_t>(filled_ / 8);
    buffer_ >>= filled_ & ~7;
    filled_ &= 7;
  }
  void finish() {
    if (filled_ > 0) write(0, 8 - filled_);
    bytes_.resize(used_);
  }

 private:
  static constexpr std::size_t kWord = 8;  // Bytes of the bits that are written at once, with those before them.

  std::string& bytes_;
  std::size_t used_ = bytes_.size();
  std::uint64_t buffer_ = 0;
  int filled_ = 0;
};

// Returns the length of the code of each symbol, given the frequencies; 0 for a symbol that does not occur. At least two symbols
// get a code.
std::vector<std::uint8_t> choose_lengths(std::vector<std::uint32_t> frequencies, int longest) {
  const std::size_t symbols = frequencies.size();
  for (std::size_t symbol = 0; std::count_if(frequencies.begin(), frequencies.end(), [](std::uint32_t n) { return n > 0; }) < 2; ++symbol) {
    frequencies[symbol] = std::max<std::uint32_t>(frequencies[symbol], 1);
  }
  while (true) {
    std::vector<std::pair<std::uint32_t, std::size_t>> leaves;  // Frequencies and symbols, in ascending order.
    for (std::size_t symbol = 0; symbol < symbols; ++symbol) {
      if (frequencies[symbol] > 0) leaves.emplace_back(frequencies[symbol], symbol);
    }
    std::sort(leaves.begin(), leaves.end());
    // The leaves, and after them the inner nodes in the order in which they are made, which is that of their frequencies.
    const std::size_t count = leaves.size();
    std::vector<std::uint64_t> weights(2 * count - 1);
    std::vector<std::size_t> parents(2 * count - 1, 0);
    for (std::size_t leaf = 0; leaf < count; ++leaf) weights[leaf] = leaves[leaf].first;
    std::size_t next_leaf = 0, next_inner = count;
    for (std::size_t inner = count; inner < 2 * count - 1; ++inner) {
      for (int child = 0; child < 2; ++child) {
        const bool takes_leaf = next_leaf < count && (next_inner >= inner || weights[next_leaf] <= weights[next_inner]);
        const std::size_t taken = takes_leaf ? next_leaf++ : next_inner++;
        weights[inner] += weights[taken];
        parents[taken] = inner;
      }
    }
    std::vector<int> depths(2 * count - 1, 0);
    int deepest = 0;
    for (std::size_t node = 2 * count - 2; node-- > 0;) {
      depths[node] = depths[parents[node]] + 1;
      deepest = std::max(deepest, depths[node]);
    }
    if (deepest <= longest) {
      std::vector<std::uint8_t> lengths(symbols, 0);
      for (std::size_t leaf = 0; leaf < count; ++leaf) lengths[leaves[leaf].second] = static_cast<std::uint8_t>(depths[leaf]);
      return lengths;
    }
    for (std::uint32_t& frequency : frequencies) frequency = (frequency + 1) / 2;  // A code is too long: make them less unequal.
  }
}

// Returns the code of each symbol, given the lengths, with the first bit of the code lowest.
std::vector<std::uint16_t> assign_codes(const std::vector<std::uint8_t>& lengths) {
  std::array<std::uint32_t, kLongestCode + 2> next{};
  for (const std::uint8_t length : lengths) {
    if (length > 0) ++next[length + 1u];
  }
  for (std::size_t length = 1; length < next.size(); ++length) next[length] = (next[length] + next[length - 1]) << (length > 1 ? 1 : 0);
  std::vector<std::uint16_t> codes(lengths.size(), 0);
  for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
    if (lengths[symbol] == 0) continue;
    const std::uint32_t code = next[lengths[symbol]]++;
    for (int bit = 0; bit < lengths[symbol]; ++bit) {
      codes[symbol] = static_cast<std::uint16_t>(codes[symbol] | (code >> (lengths[symbol] - 1 - bit) & 1) << bit);
    }
  }
  return codes;
}

// Writes the lengths of the codes of a block.
void write_lengths(const std::vector<std::uint8_t>& lengths, BitWriter& bits) {
  struct Symbol {
    std::uint8_t symbol, extra;
    int extra_bits;
  };
  std::vector<std::uint8_t> all(lengths);
  all.push_back(0);  // One code length for distances, zero: none is used.
  std::vector<Symbol> symbols;
  for (std::size_t place = 0; place < all.size();) {
    std::size_t run = 1;
    while (place + run < all.size() && all[place + run] == all[place]) ++run;
    if (all[place] == 0 && run >= 3) {
      run = std::min<std::size_t>(run, 138);
      symbols.push_back(run < 11 ? Symbol{17, static_cast<std::uint8_t>(run - 3), 3} : Symbol{18, static_cast<std::uint8_t>(run - 11), 7});
    } else {
      symbols.push_back({all[place], 0, 0});
      run = 1;
    }
    place += run;
  }
  std::vector<std::uint32_t> frequencies(kLengthOrder.size(), 0);
  for (const Symbol& one : symbols) ++frequencies[one.symbol];
  const std::vector<std::uint8_t> length_lengths = choose_lengths(frequencies, kLongestLengthCode);
  const std::vector<std::uint16_t> codes = assign_codes(length_lengths);
  std::size_t used = kLengthOrder.size();
  while (used > 4 && length_lengths[kLengthOrder[used - 1]] == 0) --used;
  bits.write(lengths.size() - 257, 5);
  bits.write(0, 5);
  bits.write(used - 4, 4);
  for (std::size_t place = 0; place < used; ++place) bits.write(length_lengths[kLengthOrder[place]], 3);
  for (const Symbol& one : symbols) {
    bits.write(codes[one.symbol], length_lengths[one.symbol]);
    bits.write(one.extra, one.extra_bits);
  }
}

// Returns the number of each byte, and 0 for the other literal.
std::vector<std::uint32_t> count_bytes(std::string_view block) {
  // Neighbours are counted in different tables: they are often equal, and a count that was just written is slow to read.
  std::array<std::array<std::uint32_t, 256>, 4> counts{};
  std::size_t place = 0;
  for (; place + counts.size() <= block.size(); place += counts.size()) {
    for (std::size_t table = 0; table < counts.size(); ++table) ++counts[table][static_cast<unsigned char>(block[place + table])];
  }
  for (; place < block.size(); ++place) ++counts[0][static_cast<unsigned char>(block[place])];
  std::vector<std::uint32_t> frequencies(kLiterals, 0);
  for (const std::array<std::uint32_t, 256>& table : counts) {
    for (std::size_t byte = 0; byte < table.size(); ++byte) frequencies[byte] += table[byte];
  }
  return frequencies;
}

void write_block(std::string_view block, bool is_last, BitWriter& bits) {
  std::vector<std::uint32_t> frequencies = count_bytes(block);
  frequencies[kEndOfBlock] = 1;
  const std::vector<std::uint8_t> lengths = choose_lengths(frequencies, kLongestCode);
  const std::vector<std::uint16_t> codes = assign_codes(lengths);
  constexpr std::size_t kHeadBytes = 1024;  // No head of a block has more.
  bits.reserve(kHeadBytes + block.size() * kLongestCode / 8 + 2);
  bits.write(is_last ? 1 : 0, 1);
  bits.write(2, 2);  // The type of a block with dynamic Huffman codes.
  write_lengths(lengths, bits);
  struct Code {
    std::uint32_t bits;
    int length;
  };
  std::array<Code, kEndOfBlock> code_of;
  for (std::size_t byte = 0; byte < code_of.size(); ++byte) code_of[byte] = {codes[byte], lengths[byte]};
  const auto find_code = [&code_of, block](std::size_t place) { return code_of[static_cast<unsigned char>(block[place])]; };
  std::size_t place = 0;
  for (; place + 3 <= block.size(); place += 3) {  // Three codes have at most 45 bits.
    const Code first = find_code(place), second = find_code(place + 1), third = find_code(place + 2);
    const std::uint64_t last_two = second.bits | static_cast<std::uint64_t>(third.bits) << second.length;
    bits.write(first.bits | last_two << first.length, first.length + second.length + third.length);
  }
  for (; place < block.size(); ++place) bits.write(find_code(place).bits, find_code(place).length);
  bits.write(codes[kEndOfBlock], lengths[kEndOfBlock]);
}

std::uint32_t sum_adler(std::string_view bytes) {
  constexpr std::uint32_t kModulus = 65521;
  constexpr std::size_t kChunk = 5552;  // Sums of so many bytes have 32 bits.
  std::uint32_t low = 1, high = 0;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kChunk) {
    const std::string_view chunk = bytes.substr(begin, kChunk);
    // Each byte counts in `high` as often as there are bytes from it to the end: two sums, which a processor makes in vectors.
    const auto size = static_cast<std::uint32_t>(chunk.size());
    std::uint32_t sum = 0, weighted = 0;
    for (std::uint32_t place = 0; place < size; ++place) {
      const auto byte = static_cast<unsigned char>(chunk[place]);
      sum += byte;
      weighted += (size - place) * byte;
    }
    high = (high + size * low + weighted) % kModulus;
    low = (low + sum) % kModulus;
  }
  return high << 16 | low;
}

std::string compress_bytes(std::string_view bytes) {
  std::string compressed("\x78\x01", 2);
  BitWriter bits(compressed);
  std::size_t begin = 0;
  do {
    const std::string_view block = bytes.substr(begin, kBlock);
    begin += block.size();
    write_block(block, begin == bytes.size(), bits);
  } while (begin < bytes.size());
  bits.finish();
  const std::uint32_t sum = sum_adler(bytes);
  for (int shift = 24; shift >= 0; shift -= 8) compressed.push_back(static_cast<char>(sum >> shift & 0xff));
  return compressed;
}

}  // namespace

void bind_deflate(nb::module_& m) {
  m.def("compress_bytes", [](const nb::bytes& bytes) {
    std::string compressed;
    {
      const nb::gil_scoped_release unlocked;
      compressed = compress_bytes({bytes.c_str(), bytes.size()});
    }
    return nb::bytes(compressed.data(), compressed.size());
  });
}

}  // namespace tamis::mail
