// Computes the digest by which a message is known: BLAKE2b (RFC 7693) without a key. The reference is
// `tamis_mail.message.canonical`; tests/mail/message/test_compiled_messages.py compares the two.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace tamis::mail {

using Digest = std::array<char, 16>;

// Returns the digest of each text.
std::vector<Digest> make_digests(const std::vector<std::string>& texts);

}  // namespace tamis::mail
