// Decodes the transfer encoding of a part, also if it is wrong. The reference is `tamis_mail.message.bodies`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tamis::mail {

// Thrown for a message that is so unusual that only the reference in Python reads it.
struct LeftToPython {};

// Faults of a message, in the order of their names.
enum class Fault : unsigned {
  kBase64, kBinary, kBoundary, kCharset, kDepth, kDuplicateField, kDuplicateParameter, kHeaders, kLong, kNul, kParts,
  kQuotedPrintable, kTruncated, kUuencode,
};
constexpr std::string_view kFaultNames[] = {
    "base64",  "binary",  "boundary", "charset", "depth", "duplicate-field",  "duplicate-parameter",
    "headers", "long",    "nul",      "parts",   "quoted-printable", "truncated", "uuencode",
};

class Faults {
 public:
  void add(Fault fault) { bits_ |= 1u << static_cast<unsigned>(fault); }
  // Calls `use` with the name of each fault, in ascending order.
  template <class Use>
  void for_each_name(Use use) const {
    for (unsigned i = 0; i < sizeof(kFaultNames) / sizeof(kFaultNames[0]); ++i) {
      if (bits_ >> i & 1u) use(kFaultNames[i]);
    }
  }

 private:
  unsigned bits_ = 0;
};

// As `binascii.a2b_qp`.
std::string decode_escapes(std::string_view data, bool is_header);
std::string decode_quoted_printable(std::string_view data, Faults& faults);
std::string decode_base64(std::string_view data, Faults& faults);
// Whether bytes that are declared as text are binary.
bool is_binary(std::string_view data);
// The name of the encoding if bytes are UTF-16 without a byte order mark, else nothing.
std::string_view detect_utf16(std::string_view data);
// Whether a text may contain a file in uuencode.
bool may_have_uuencoded_file(std::string_view data);

bool is_ascii_bytes(std::string_view data);

}  // namespace tamis::mail
