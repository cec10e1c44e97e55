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

// A run of `[\w.\-]`: text[start:end].
struct HopWord {
  std::uint32_t start = 0, end = 0;
  bool has_point = false, has_point_or_digit = false;
  // Without this, all characters are those of a host, and no two points are neighbours.
  bool is_unusual = false;
};

// The part of a hop before its date, in the form of the field.
template <class Char>
struct Hop {
  View<Char> text;     // Of bytes, 64 may be read behind the end, …
  View<Char> lowered;  // … and eight before the beginning of this one. A text of code points is itself in lower case.
  std::vector<HopWord> words;
  bool has_forged = false, has_unknown = false;  // Whether these words are in it.
};

// Divides a hop of code points; its text is kept elsewhere.
void divide_hop(TextView text, Hop<char32_t>& hop);

// The hops of a message that are ASCII; the others are empty. A thread uses their memory again for the next message.
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
