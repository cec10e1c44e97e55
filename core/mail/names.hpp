// Sets of names of ASCII. Most texts that are looked up are no name of the set: their first character and their length show it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <unordered_set>

#include "unicode.hpp"

namespace tamis::mail {

constexpr std::size_t kNameLimit = 64;  // Names have fewer characters.

class NameFilter {
 public:
  // The name is not empty.
  void add(std::string_view name) {
    sizes_[static_cast<unsigned char>(name[0]) % 128] |= std::uint64_t{1} << name.size() % kNameLimit;
  }

  template <class Char>
  bool may_contain(View<Char> name) const {
    if (name.empty() || name.size() >= kNameLimit) return false;
    const auto first = static_cast<char32_t>(name[0]);  // At least 128 for a byte that is no ASCII.
    return first < 128 && (sizes_[first] >> name.size() & 1) != 0;
  }

 private:
  std::array<std::uint64_t, 128> sizes_{};  // Bits of the lengths of the names with each first character.
};

class Names {
 public:
  Names(std::initializer_list<std::string_view> names) : names_(names) {
    for (const std::string_view name : names) filter_.add(name);
  }

  bool contains(std::string_view name) const { return filter_.may_contain(name) && names_.count(name) > 0; }
  bool contains(TextView name) const {
    if (!filter_.may_contain(name)) return false;
    char ascii[kNameLimit];
    for (std::size_t index = 0; index < name.size(); ++index) {
      if (name[index] >= 128) return false;
      ascii[index] = static_cast<char>(name[index]);
    }
    return names_.count(std::string_view(ascii, name.size())) > 0;
  }

 private:
  NameFilter filter_;
  std::unordered_set<std::string_view> names_;
};

}  // namespace tamis::mail
