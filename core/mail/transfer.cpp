#include "transfer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "../common.hpp"
#include "search.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::size_t kLook = 4096;  // Bytes that are examined to find out whether they are text.
constexpr std::size_t kCounted = 255;  // Bytes that are counted in a byte.
constexpr std::size_t kRuns = 1000;  // Pieces of base64, each with its own padding, that are joined.

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The numbers of control characters that no text has, and of letters, spaces and line ends. Bytes are counted in bytes, of which
// a processor adds many at once.
// Counts the controls that are not in text, in a loop without branches.
TAMIS_FOR_EACH_PROCESSOR std::size_t count_controls(std::string_view bytes) {
  std::size_t controls = 0;
  for (std::size_t start = 0; start < bytes.size(); start += kCounted) {
    std::uint8_t here = 0;
    for (const char c : bytes.substr(start, kCounted)) {
      const auto byte = static_cast<std::uint8_t>(c);
      const bool is_in_text = (byte == '\t') | (byte == '\n') | (byte == '\f') | (byte == '\r') | (byte == 0x1b);
      here = static_cast<std::uint8_t>(here + (((byte < 32) & !is_in_text) | (byte == 0x7f)));
    }
    controls += here;
  }
  return controls;
}

// Counts letters of ASCII, spaces and line breaks.
TAMIS_FOR_EACH_PROCESSOR std::size_t count_letters(std::string_view bytes) {
  std::size_t letters = 0;
  for (std::size_t start = 0; start < bytes.size(); start += kCounted) {
    std::uint8_t here = 0;
    for (const char c : bytes.substr(start, kCounted)) {
      const bool is_letter_here = static_cast<std::uint8_t>((static_cast<std::uint8_t>(c) | 0x20) - 'a') < 26;
      here = static_cast<std::uint8_t>(here + (is_letter_here | (c == ' ') | (c == '\n')));
    }
    letters += here;
  }
  return letters;
}

int find_hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The value of each byte in base64, and 64 for others.
struct Values {
  std::array<std::uint8_t, 256> of{};
  constexpr Values() {
    for (auto& value : of) value = 64;
    for (int i = 0; i < 26; ++i) {
      of[static_cast<std::size_t>('A' + i)] = static_cast<std::uint8_t>(i);
      of[static_cast<std::size_t>('a' + i)] = static_cast<std::uint8_t>(26 + i);
    }
    for (int i = 0; i < 10; ++i) of[static_cast<std::size_t>('0' + i)] = static_cast<std::uint8_t>(52 + i);
    of['+'] = 62;
    of['/'] = 63;
  }
};
constexpr Values kValues;

std::uint32_t value_of(char c) { return kValues.of[static_cast<unsigned char>(c)]; }

// Appends the bytes that digits of base64 encode; a single digit at the end encodes none.
void append_decoded(std::string_view digits, std::string& decoded) {
  std::size_t place = 0;
  for (; place + 4 <= digits.size(); place += 4) {
    const std::uint32_t bits = value_of(digits[place]) << 18 | value_of(digits[place + 1]) << 12 |
                               value_of(digits[place + 2]) << 6 | value_of(digits[place + 3]);
    decoded.push_back(static_cast<char>(bits >> 16));
    decoded.push_back(static_cast<char>(bits >> 8));
    decoded.push_back(static_cast<char>(bits));
  }
  const std::size_t rest = digits.size() - place;
  if (rest < 2) return;
  const std::uint32_t bits = value_of(digits[place]) << 12 | value_of(digits[place + 1]) << 6 |
                             (rest > 2 ? value_of(digits[place + 2]) : 0);
  decoded.push_back(static_cast<char>(bits >> 10));
  if (rest > 2) decoded.push_back(static_cast<char>(bits >> 2));
}

// Returns the digits of base64 without padding, if a text is valid base64.
bool is_valid_base64(std::string_view text, std::string_view& digits) {
  std::size_t size = 0;
  while (size < text.size() && value_of(text[size]) < 64) ++size;
  digits = text.substr(0, size);
  const std::string_view padding = text.substr(size);
  const std::size_t expected = (4 - size % 4) % 4;
  return expected < 3 && padding == std::string_view("==").substr(0, expected);
}

// Removes `=[ \t]+` before a line break, but for the sign.
std::string remove_blanks_after_signs(std::string_view data) {
  std::string cleaned;
  cleaned.reserve(data.size());
  std::size_t last = 0;
  for (std::size_t sign = 0; (sign = data.find('=', sign)) != kNone;) {
    const std::size_t end = std::min(data.find_first_not_of(" \t", ++sign), data.size());
    if (end > sign && end < data.size() && data[end] == '\n') {
      cleaned.append(data.substr(last, sign - last));
      last = end;
    }
    sign = end;
  }
  return cleaned.append(data.substr(last));
}

// As `=(?![0-9A-Fa-f]{2}|\n|\Z)`.
bool has_bad_escape(std::string_view data) {
  for (std::size_t sign = 0; (sign = data.find('=', sign)) != kNone; ++sign) {
    if (sign + 1 == data.size() || data[sign + 1] == '\n') continue;
    if (sign + 2 >= data.size() || find_hex_value(data[sign + 1]) < 0 || find_hex_value(data[sign + 2]) < 0) return true;
  }
  return false;
}

}  // namespace

std::string decode_escapes(std::string_view data, bool is_header) {
  std::string decoded;
  decoded.reserve(data.size());
  for (std::size_t place = 0; place < data.size();) {
    const char c = data[place];
    if (c != '=') {
      if (is_header) {
        decoded.push_back(c == '_' ? ' ' : c);
        ++place;
      } else {
        const std::size_t end = std::min(data.find('=', place), data.size());
        decoded.append(data.substr(place, end - place));
        place = end;
      }
      continue;
    }
    if (++place == data.size()) break;
    const char next = data[place];
    if (next == '\n' || next == '\r') {  // The line goes on.
      place = std::min(data.find('\n', place), data.size());
      place += place < data.size();
    } else if (next == '=') {
      decoded.push_back('=');
      ++place;
    } else if (place + 1 < data.size() && find_hex_value(next) >= 0 && find_hex_value(data[place + 1]) >= 0) {
      decoded.push_back(static_cast<char>(find_hex_value(next) << 4 | find_hex_value(data[place + 1])));
      place += 2;
    } else {
      decoded.push_back('=');
    }
  }
  return decoded;
}

std::string decode_quoted_printable(std::string_view data, Faults& faults) {
  if (data.find('=') == kNone) return std::string(data);
  std::string cleaned;
  if (data.find("= ") != kNone || data.find("=\t") != kNone) {
    cleaned = remove_blanks_after_signs(data);
    data = cleaned;
  }
  if (has_bad_escape(data)) faults.add(Fault::kQuotedPrintable);
  return decode_escapes(data, false);
}

std::string decode_base64(std::string_view data, Faults& faults) {
  std::string text;
  text.reserve(data.size());
  std::copy_if(data.begin(), data.end(), std::back_inserter(text), [](char c) { return c != '\n'; });
  std::string decoded;
  std::string_view digits;
  if (is_valid_base64(text, digits)) {
    decoded.reserve(digits.size() / 4 * 3 + 2);
    append_decoded(digits, decoded);
    return decoded;
  }
  // Versions of Python differ in whether padding may follow complete groups.
  if (!digits.empty() && digits.size() % 4 == 0 && text.find_first_not_of('=', digits.size()) == kNone) throw LeftToPython();
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\t'; }), text.end());
  if (text.empty()) return {};
  faults.add(Fault::kBase64);
  std::string kept;
  std::copy_if(text.begin(), text.end(), std::back_inserter(kept), [](char c) { return c == '=' || value_of(c) < 64; });
  // Words with spaces between them, or one character in ten outside base64, mean plain text.
  const std::size_t others = text.size() - kept.size();
  const std::string_view look = data.substr(0, kLook);
  std::size_t gaps = 0;
  for (std::size_t place = 0; place + 2 < look.size();) {
    const bool is_gap = (is_letter(look[place]) || look[place] == ',' || look[place] == '.') && look[place + 1] == ' ' &&
                        is_letter(look[place + 2]);
    gaps += is_gap;
    place += is_gap ? 3 : 1;
  }
  if ((others > 1 && others * 10 > text.size()) || (gaps > 1 && gaps * 20 > look.size())) return std::string(data);
  std::size_t place = 0;
  for (std::size_t run = 0; run < kRuns && place <= kept.size(); ++run) {
    const std::size_t end = std::min(kept.find('=', place), kept.size());
    append_decoded(std::string_view(kept).substr(place, end - place), decoded);
    place = end + 1;
  }
  return decoded;
}

bool is_ascii_bytes(std::string_view data) {
  std::uint64_t all = 0;
  std::size_t place = 0;
  for (; place + 8 <= data.size(); place += 8) {
    std::uint64_t bytes;
    std::memcpy(&bytes, data.data() + place, 8);
    all |= bytes;
  }
  for (; place < data.size(); ++place) all |= static_cast<unsigned char>(data[place]);
  return (all & 0x8080808080808080) == 0;
}

std::string_view detect_utf16(std::string_view data) {
  const std::size_t half = data.size() / 2;
  if (half < 4) return "";
  std::size_t even = 0, odd = 0;  // Zeros.
  for (std::size_t place = 0; place < data.size(); ++place) (place % 2 ? odd : even) += data[place] == 0;
  return odd * 10 > half * 7 ? "utf-16-le" : even * 10 > half * 7 ? "utf-16-be" : "";
}

bool is_binary(std::string_view data) {
  const std::string_view look = data.substr(0, kLook);
  const auto starts_with = [look](std::string_view mark) { return look.substr(0, mark.size()) == mark; };
  if (count_controls(look) * 12 <= look.size() || starts_with("\xff\xfe") || starts_with("\xfe\xff") ||
      starts_with(std::string_view("\0\0\xfe\xff", 4)) || !detect_utf16(look).empty()) {
    return false;
  }
  return count_letters(look) * 2 < look.size();
}

bool may_have_uuencoded_file(std::string_view data) {
  constexpr std::string_view kBegin = "begin ";
  for (std::size_t place = 0; (place = find_bytes(data, kBegin, place)) != kNone; place += kBegin.size()) {
    const std::string_view mode = data.substr(place + kBegin.size(), 3);
    const bool is_mode = mode.size() == 3 && mode.find_first_not_of("01234567") == kNone;
    if (is_mode && (place == 0 || data[place - 1] == '\n')) return true;
  }
  return false;
}

}  // namespace tamis::mail
