// Computes the canonical bytes of a message. The reference is `tamis_mail.message.canonical`;
// tests/mail/message/test_compiled_messages.py compares the two.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tamis::mail {

// The names of volatile fields, which canonical bytes do not have: `VOLATILE_FIELDS` of tamis_mail/message/volatile.py.
class VolatileFields {
 public:
  // Takes names in lower case; one that ends in `*` stands for all names with that beginning.
  explicit VolatileFields(const std::vector<std::string>& names);
  bool contains(std::string_view name) const;

 private:
  void add_lengths(std::string_view name, std::uint64_t lengths);

  // Bits of the lengths below 64 that volatile names with each third character may have: most names begin with "x-".
  std::array<std::uint64_t, 256> lengths_{};
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> prefixes_;
  std::vector<std::size_t> prefix_sizes_;  // The distinct lengths of the prefixes, in ascending order.
};

std::string make_canonical(std::string_view raw, const VolatileFields& volatile_fields);

}  // namespace tamis::mail
