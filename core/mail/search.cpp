#include "search.hpp"

#include <algorithm>
#include <cstdint>

#include "../common.hpp"

namespace tamis::mail {

namespace {

// Returns the first place, in steps of 64, of which the next 64 places have the two bytes at their distance; if there is none, one
// with fewer than 64 places before `end`.
TAMIS_FOR_EACH_PROCESSOR std::size_t find_block(const char* text, std::size_t place, std::size_t end, char left, char right,
                                                std::size_t distance) {
  constexpr std::size_t kBlock = 64;
  for (; end - place >= kBlock; place += kBlock) {
    const char *lefts = text + place, *rights = lefts + distance;
    std::uint8_t is_there = 0;
    for (std::size_t index = 0; index < kBlock; ++index) {  // Without a branch, so that vectors are used.
      is_there = static_cast<std::uint8_t>(is_there | ((lefts[index] == left) & (rights[index] == right)));
    }
    if (is_there != 0) return place;
  }
  return place;
}

}  // namespace

std::size_t find_bytes(std::string_view text, std::string_view part, std::size_t place) {
  const std::size_t distance = part.size() - 1;
  if (text.size() < part.size() || place > text.size() - part.size()) return std::string_view::npos;
  const std::size_t end = text.size() - distance;  // Of the places where the part may begin.
  while (place < end) {
    place = find_block(text.data(), place, end, part.front(), part.back(), distance);
    for (const std::size_t block_end = std::min(end, place + 64); place < block_end; ++place) {
      if (text[place] == part.front() && text[place + distance] == part.back() && text.compare(place, part.size(), part) == 0) {
        return place;
      }
    }
  }
  return std::string_view::npos;
}

}  // namespace tamis::mail
