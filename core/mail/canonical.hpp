// The canonical bytes of a message, and the digest that identifies it: `tamis_mail.message.canonical`, which says what is meant.
// tests/mail/message/test_compiled_messages.py keeps the two equal.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tamis::mail {

// The names of the fields that are no part of a message: `VOLATILE_FIELDS` of tamis_mail/message/volatile.py.
class VolatileFields {
 public:
  // Names in lower case; one that ends in `*` stands for all with that beginning.
  explicit VolatileFields(const std::vector<std::string>& names);
  bool contains(std::string_view name) const;

 private:
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> prefixes_;
  std::vector<std::size_t> prefix_sizes_;  // The distinct lengths of the prefixes, in ascending order.
};

std::string make_canonical(std::string_view raw, const VolatileFields& volatile_fields);

using Digest = std::array<char, 16>;

// BLAKE2b (RFC 7693) without a key.
Digest make_digest(std::string_view canonical);

}  // namespace tamis::mail
