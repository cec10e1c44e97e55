#include "charsets.hpp"

#include <algorithm>
#include <utility>

namespace tamis::mail {

namespace {

constexpr std::size_t kLook = 4096;  // Bytes that are examined to detect UTF-16.
constexpr std::pair<std::string_view, std::string_view> kByteOrderMarks[] = {
    {"\xef\xbb\xbf", "utf-8"},
    {std::string_view("\xff\xfe\0\0", 4), "utf-32-le"},  // Before UTF-16: it begins with the same bytes.
    {std::string_view("\0\0\xfe\xff", 4), "utf-32-be"},
    {"\xff\xfe", "utf-16-le"},
    {"\xfe\xff", "utf-16-be"},
};
constexpr char32_t kReplacement = 0xfffd;

template <std::size_t Size>
bool starts_with_one_of(std::string_view text, const std::string_view (&beginnings)[Size]) {
  return std::any_of(std::begin(beginnings), std::end(beginnings),
                     [text](std::string_view beginning) { return starts_with(text, beginning); });
}

// Charsets in which a byte below 128 need not be an ASCII character.
bool is_other_than_ascii(std::string_view codec) {
  constexpr std::string_view beginnings[] = {"utf-7", "utf-16", "utf-32", "hz"};
  return starts_with_one_of(codec, beginnings);
}

bool has_one_byte_per_character(std::string_view codec) {
  constexpr std::string_view beginnings[] = {"cp12", "iso8859", "koi8", "mac-", "cp4", "cp7", "cp8", "kz", "ptcp", "hp", "tis"};
  return starts_with_one_of(codec, beginnings);
}

void replace_all(std::string& text, std::string_view part, std::string_view replacement) {
  for (std::size_t place = 0; (place = text.find(part, place)) != std::string::npos; place += replacement.size()) {
    text.replace(place, part.size(), replacement);
  }
}

// The escape sequence by which text in ISO-2022-JP is recognised: `\x1b[$(][@B-DIJ]`.
bool has_japanese_escape(std::string_view data) {
  for (std::size_t place = 0; (place = data.find('\x1b', place)) != std::string_view::npos; ++place) {
    if (place + 2 >= data.size() || (data[place + 1] != '$' && data[place + 1] != '(')) continue;
    const char c = data[place + 2];
    if (c == '@' || (c >= 'B' && c <= 'D') || c == 'I' || c == 'J') return true;
  }
  return false;
}

// How many bytes the character of UTF-8 that begins here has: as many as follow from its first byte if all are valid, otherwise
// the negative number of those before the first invalid one. Python replaces these by one character.
int measure_character(const unsigned char* bytes, std::size_t size) {
  const unsigned char lead = bytes[0];
  const int length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0) return -1;
  for (int i = 1; i < length; ++i) {
    unsigned char least = 0x80, most = 0xbf;
    if (i == 1 && lead == 0xe0) least = 0xa0;  // What has a shorter form.
    if (i == 1 && lead == 0xed) most = 0x9f;   // Surrogates.
    if (i == 1 && lead == 0xf0) least = 0x90;
    if (i == 1 && lead == 0xf4) most = 0x8f;  // Above the last character.
    const auto index = static_cast<std::size_t>(i);
    if (index >= size || bytes[index] < least || bytes[index] > most) return -i;
  }
  return length;
}

// Decodes UTF-8, with U+FFFD for what is not valid, as Python's error handler "replace" has it; returns whether all is valid.
bool decode_utf8(std::string_view data, Text& text) {
  text.reserve(data.size());
  const auto* bytes = reinterpret_cast<const unsigned char*>(data.data());
  bool is_valid = true;
  for (std::size_t place = 0; place < data.size();) {
    const char32_t lead = bytes[place];
    if (lead < 0x80) {
      text.push_back(lead);
      ++place;
      continue;
    }
    const int length = measure_character(bytes + place, data.size() - place);
    if (length < 0) {
      is_valid = false;
      text.push_back(kReplacement);
      place += static_cast<std::size_t>(-length);
      continue;
    }
    char32_t c = lead & (0xffu >> (length + 1));
    for (int i = 1; i < length; ++i) c = c << 6 | (bytes[place + static_cast<std::size_t>(i)] & 0x3fu);
    text.push_back(c);
    place += static_cast<std::size_t>(length);
  }
  return is_valid;
}

// Decodes by a codec of Python; returns false if bytes are invalid, which the error handler "replace" excludes.
bool decode_by_python(std::string_view data, const char* codec, const char* errors, Text& text) {
  const nb::gil_scoped_acquire locked;
  const nb::object decoded =
      nb::steal(PyUnicode_Decode(data.data(), static_cast<Py_ssize_t>(data.size()), codec, errors));
  if (decoded.is_valid()) {
    text = to_text(decoded);
    return true;
  }
  if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {  // Python's own way may raise it again, with the lock.
    PyErr_Clear();
    throw LeftToPython();
  }
  PyErr_Clear();
  return false;
}

Text replace_invalid(std::string_view data, const char* codec) {
  Text text;
  if (!decode_by_python(data, codec, "replace", text)) throw LeftToPython();
  return text;
}

template <class String>
void unify(String& text) {
  auto end = text.begin();
  for (auto place = text.begin(); place != text.end(); ++place) {
    if (*place == '\r') {
      *end++ = '\n';
      if (place + 1 != text.end() && place[1] == '\n') ++place;
    } else {
      *end++ = *place;
    }
  }
  text.erase(end, text.end());
}

template <class String>
bool remove_zeros(String& text) {
  const auto end = std::remove(text.begin(), text.end(), 0);
  if (end == text.end()) return false;
  text.erase(end, text.end());
  return true;
}

}  // namespace

Text Characters::first(std::size_t limit) const {
  return visit([size = std::min(limit, this->size())](const auto* characters) { return Text(characters, characters + size); });
}

void Characters::unify_line_breaks() {
  if (is_wide_) {
    if (wide_.find(U'\r') != kNowhere) unify(wide_);
  } else if (narrow_.find('\r') != std::string::npos) {
    unify(narrow_);
  }
}

bool Characters::remove_nul() { return is_wide_ ? remove_zeros(wide_) : remove_zeros(narrow_); }

bool Charsets::find_codec(std::string_view charset, std::string& codec) const {
  codec.assign(charset);
  std::replace(codec.begin(), codec.end(), '_', '-');
  if (const auto alias = aliases_.find(codec); alias != aliases_.end()) codec = alias->second;
  if (codec.empty() || codecs_.count(codec) > 0) return true;
  replace_all(codec, "windows-", "cp");
  replace_all(codec, "ibm", "cp");
  replace_all(codec, "iso-8859", "iso8859");
  replace_all(codec, "iso8859_", "iso8859-");
  replace_all(codec, "x-cp", "cp");
  replace_all(codec, "cp-", "cp");
  return codec.empty() || codecs_.count(codec) > 0;
}

Characters Charsets::decode(std::string_view data, std::string_view charset, Faults& faults) const {
  std::string codec;
  if (!find_codec(charset, codec)) {
    faults.add(Fault::kCharset);
    codec.clear();
  }
  const bool has_nul = data.find('\0') != std::string_view::npos;
  if (!is_other_than_ascii(codec) && !has_nul && data.find('\x1b') == std::string_view::npos && is_ascii_bytes(data)) {
    return Characters(std::string(data));
  }
  const auto mark = std::find_if(std::begin(kByteOrderMarks), std::end(kByteOrderMarks),
                                 [data](const auto& pair) { return starts_with(data, pair.first); });
  if (mark != std::end(kByteOrderMarks)) {
    codec = mark->second;
    data.remove_prefix(mark->first.size());
  } else if (has_nul && !is_other_than_ascii(codec)) {
    const std::string_view detected = detect_utf16(data.substr(0, kLook));
    if (!detected.empty()) codec = detected;
  }
  if (codec == "utf-7") throw LeftToPython();  // The only codec here that returns lone surrogates.
  const bool is_western = codec.empty() || codec == "ascii" || codec == "utf-8";
  Characters text = is_western ? decode_unicode_or_western(data, codec, faults) : decode_by(codec, data, faults);
  if (text.remove_nul()) faults.add(Fault::kNul);
  return text;
}

Characters Charsets::decode_unicode_or_western(std::string_view data, const std::string& codec, Faults& faults) const {
  if (codec != "utf-8" && has_japanese_escape(data)) return Characters(replace_invalid(data, "iso2022-jp-ext"));
  Text text;
  if (decode_utf8(data, text)) {
    if (codec == "ascii" && !is_ascii_bytes(data)) faults.add(Fault::kCharset);
    return Characters(std::move(text));
  }
  faults.add(Fault::kCharset);
  // A character of UTF-8 has several bytes: if fewer are valid than invalid, it is another charset.
  const auto invalid = static_cast<std::size_t>(std::count(text.begin(), text.end(), kReplacement));
  if (data.size() - std::min(data.size(), text.size()) < invalid) return decode_by("cp1252", data, faults);
  return Characters(std::move(text));
}

Characters Charsets::decode_by(const std::string& codec, std::string_view data, Faults& faults) const {
  Text text;
  if (has_one_byte_per_character(codec)) {
    const std::shared_ptr<const Table> table = find_table(codec);
    text.resize(data.size());
    bool is_complete = true;
    std::transform(data.begin(), data.end(), text.begin(), [&](char byte) {
      const char32_t c = (*table)[static_cast<unsigned char>(byte)];
      is_complete = is_complete && c != kReplacement;
      return c;
    });
    if (!is_complete) faults.add(Fault::kCharset);
  } else if (!decode_by_python(data, codec.c_str(), "strict", text)) {
    faults.add(Fault::kCharset);
    text = replace_invalid(data, codec.c_str());
  }
  return Characters(std::move(text));
}

std::shared_ptr<const Charsets::Table> Charsets::find_table(const std::string& codec) const {
  {
    const std::lock_guard<std::mutex> guard(lock_);
    if (const auto known = tables_.find(codec); known != tables_.end()) return known->second;
  }
  // Our lock is not held while the interpreter's is waited for.
  std::string bytes(256, '\0');
  for (std::size_t byte = 0; byte < bytes.size(); ++byte) bytes[byte] = static_cast<char>(byte);
  const Text characters = replace_invalid(bytes, codec.c_str());
  if (characters.size() != bytes.size()) throw LeftToPython();
  auto table = std::make_shared<Table>();
  std::copy(characters.begin(), characters.end(), table->begin());
  const std::lock_guard<std::mutex> guard(lock_);
  return tables_.emplace(codec, std::move(table)).first->second;
}

}  // namespace tamis::mail
