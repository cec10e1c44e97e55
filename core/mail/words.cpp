#include "words.hpp"

#include <algorithm>
#include <cstdint>

#include "../compiler.hpp"

namespace tamis::mail {

namespace {

// Scripts without spaces between words: each pair of consecutive letters is a token.
bool is_unspaced(char32_t c) {
  if (c < 0xe00) return false;
  return c <= 0xeff || (c >= 0x1000 && c <= 0x109f) || (c >= 0x1780 && c <= 0x17ff) || (c >= 0x3041 && c <= 0x30ff) ||
         (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x4e00 && c <= 0x9fff) || (c >= 0xac00 && c <= 0xd7af) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x20000 && c <= 0x3ffff);
}

// Writes characters of ASCII, and a space for each that belongs to no word, in a loop without branches.
template <class Char>
TAMIS_INLINE void write_words(const Char* __restrict text, std::size_t size, char* __restrict words) {
  for (std::size_t place = 0; place < size; ++place) {
    const auto c = static_cast<std::uint8_t>(text[place]);
    const auto letter = static_cast<std::uint8_t>((c | 32) - 'a'), digit = static_cast<std::uint8_t>(c - '0');
    // A sum, because GCC would compile "or" to a branch.
    const int is_kept = (letter < 26) + (digit < 10) + (c == '$') + (c == '!');
    words[place] = static_cast<char>(is_kept != 0 ? c : ' ');
  }
}
TAMIS_FOR_EACH_PROCESSOR void write_ascii_words(const char32_t* text, std::size_t size, char* words) {
  write_words(text, size, words);
}
TAMIS_FOR_EACH_PROCESSOR void write_ascii_words(const char* text, std::size_t size, char* words) {
  write_words(text, size, words);
}

// Whether a character outside of ASCII belongs to a word: letters, digits and the usual combining marks.
bool is_kept(char32_t c) { return (c >= 0x300 && c <= 0x36f) || is_word(c); }

// The first words of a separated text, each truncated.
std::vector<std::string> split_separated(const std::string& separated, std::size_t limit) {
  std::vector<std::string> words;
  for (std::size_t place = 0; place < separated.size() && words.size() < limit;) {
    if (separated[place] == ' ') {
      ++place;
      continue;
    }
    const std::size_t start = place;
    std::size_t end = separated.size();  // The end of the letters that are used.
    std::size_t letters = 0;
    for (; place < separated.size() && separated[place] != ' '; ++place) {
      // Bytes 10xxxxxx continue a letter.
      if ((static_cast<unsigned char>(separated[place]) & 0xc0) != 0x80 && ++letters > kLongestToken) {
        end = std::min(end, place);
      }
    }
    words.push_back(separated.substr(start, std::min(end, place) - start));
  }
  return words;
}

template <class Char>
std::vector<View<Char>> find_parents(View<Char> name) {
  constexpr std::size_t kLabels = 6;
  name = first(strip(name, "."), 200);
  std::size_t starts[kLabels] = {0};  // Of the last labels: number i is at i modulo kLabels.
  std::size_t count = 1;
  for (std::size_t place = 0; place < name.size(); ++place) {
    if (name[place] == '.') starts[count++ % kLabels] = place + 1;
  }
  std::vector<View<Char>> hosts;
  const std::size_t size = std::min(count, kLabels);
  hosts.reserve(size);
  for (std::size_t index = count - size; index < count - size + std::max<std::size_t>(1, size - 1); ++index) {
    hosts.push_back(name.substr(starts[index % kLabels]));
  }
  return hosts;
}

template <class Char>
std::vector<View<Char>> find_beginnings(View<Char> address) {
  std::vector<View<Char>> networks{address};
  int dots = 0;
  for (std::size_t place = 0; place < address.size() && dots < 3; ++place) {
    if (address[place] == '.' && ++dots > 1) networks.push_back(address.substr(0, place));
  }
  return networks;
}

}  // namespace

std::string separate_words(TextView text) {
  std::string words;
  words.reserve(text.size() + 16);
  for (std::size_t place = 0; place < text.size();) {
    const char32_t c = text[place];
    if (c < 128) {
      const std::size_t start = place;
      while (place < text.size() && text[place] < 128) ++place;
      const std::size_t size = words.size();
      words.resize(size + place - start);
      write_ascii_words(text.data() + start, place - start, words.data() + size);
    } else if (!is_kept(c)) {
      words.push_back(' ');  // One space for a run of signs.
      while (place < text.size() && text[place] >= 128 && !is_kept(text[place])) ++place;
    } else if (!is_unspaced(c)) {
      append_utf8(words, text.substr(place, 1));
      ++place;
    } else {
      const std::size_t start = place;
      while (place < text.size() && is_unspaced(text[place]) && is_kept(text[place])) ++place;
      words.push_back(' ');
      if (place - start == 1) append_utf8(words, text.substr(start, 1));
      for (std::size_t left = start; left + 1 < place; ++left) {
        if (left > start) words.push_back(' ');
        append_utf8(words, text.substr(left, 2));
      }
      words.push_back(' ');
    }
  }
  return words;
}

std::string separate_words(std::string_view ascii) {
  std::string words(ascii.size(), ' ');
  write_ascii_words(ascii.data(), ascii.size(), words.data());
  return words;
}

std::vector<std::string> split_words(TextView text, std::size_t limit) { return split_separated(separate_words(text), limit); }
std::vector<std::string> split_words(std::string_view ascii, std::size_t limit) {
  return split_separated(separate_words(ascii), limit);
}

std::vector<TextView> find_hosts(TextView name) { return find_parents(name); }
std::vector<std::string_view> find_hosts(std::string_view name) { return find_parents(name); }
std::vector<TextView> find_networks(TextView address) { return find_beginnings(address); }
std::vector<std::string_view> find_networks(std::string_view address) { return find_beginnings(address); }

}  // namespace tamis::mail
