// Divides Received fields into words, for agreements.cpp and patterns.cpp. Such a field is called a hop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fields.hpp"

namespace tamis::mail {

// A word of a hop, which is a run of `[\w.\-]`: text[start:end].
struct HopWord {
  std::uint32_t start = 0, end = 0;
  bool has_point = false, has_point_or_digit = false;
  // If false, the word has only characters of a host, and no two points side by side.
  bool is_unusual = false;
};

// The part of a hop before its first semicolon, as bytes or code points as in the field.
template <class Char>
struct Hop {
  View<Char> text;     // If it is bytes, 64 bytes after its end may be read.
  View<Char> lowered;  // If it is bytes, eight bytes before its beginning may be read. Code points are `text` itself.
  std::vector<HopWord> words;
  bool has_forged = false, has_unknown = false;  // Whether these words are in it.
};

// Divides a hop of code points, whose text must outlive the result.
void divide_hop(TextView text, Hop<char32_t>& hop);

// The hops of a message, if they are ASCII; the others are empty. A thread may have one such object at a time, because it uses
// their memory again for the next message.
class Hops {
 public:
  explicit Hops(const SelectedFields& fields);
  const Hop<char>& operator[](std::size_t index) const { return memory_.hops[index]; }

 private:
  struct Memory {
    std::array<Hop<char>, 3> hops;
    std::array<std::string, 3> bytes;
  };
  static Memory& find_memory();

  Memory& memory_;
};

}  // namespace tamis::mail
