#include "unicode.hpp"

#include <algorithm>

namespace tamis::mail {

namespace {

template <class Char, class Predicate>
bool is_all(View<Char> text, Predicate predicate) {
  return !text.empty() && std::all_of(text.begin(), text.end(), predicate);
}

template <class Char, class Predicate>
View<Char> strip_all(View<Char> text, Predicate is_removed) {
  while (!text.empty() && is_removed(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_removed(text.back())) text.remove_suffix(1);
  return text;
}

template <class Char>
View<Char> strip_characters(View<Char> text, std::string_view characters) {
  return strip_all(text, [characters](char32_t c) {
    return c < 128 && characters.find(static_cast<char>(c)) != std::string_view::npos;
  });
}

template <class Char>
std::vector<View<Char>> split_words_at_spaces(View<Char> text) {
  std::vector<View<Char>> words;
  for (std::size_t place = 0; place < text.size();) {
    if (is_space(text[place])) {
      ++place;
      continue;
    }
    const std::size_t start = place;
    while (place < text.size() && !is_space(text[place])) ++place;
    words.push_back(text.substr(start, place - start));
  }
  return words;
}

template <class Char>
std::vector<View<Char>> split_pieces_at(View<Char> text, Char separator) {
  std::vector<View<Char>> pieces;
  std::size_t start = 0;
  for (std::size_t end; (end = text.find(separator, start)) != kNowhere; start = end + 1) {
    pieces.push_back(text.substr(start, end - start));
  }
  pieces.push_back(text.substr(start));
  return pieces;
}

template <class Char>
bool contains_part(View<Char> text, View<Char> part) {
  if (part.empty()) return true;
  if (part.size() > text.size()) return false;
  if (part.size() <= 8) return text.find(part) != kNowhere;
  // The algorithm of Knuth, Morris and Pratt: borders[i] is the length of the longest proper border of part[:i + 1].
  std::vector<std::size_t> borders(part.size(), 0);
  for (std::size_t place = 1, length = 0; place < part.size(); ++place) {
    while (length > 0 && part[place] != part[length]) length = borders[length - 1];
    if (part[place] == part[length]) ++length;
    borders[place] = length;
  }
  std::size_t length = 0;
  for (const Char c : text) {
    while (length > 0 && c != part[length]) length = borders[length - 1];
    if (c == part[length]) ++length;
    if (length == part.size()) return true;
  }
  return false;
}

}  // namespace

bool is_all_alpha(TextView text) { return is_all(text, is_alpha); }
bool is_all_alpha(std::string_view ascii) { return is_all(ascii, is_alpha); }
bool is_all_alnum(TextView text) { return is_all(text, is_alnum); }
bool is_all_decimal(TextView text) { return is_all(text, is_decimal); }
bool is_all_decimal(std::string_view ascii) { return is_all(ascii, is_decimal); }

bool is_ascii(TextView text) {
  char32_t all = 0;  // The bits of all characters together: a loop without branches.
  for (const char32_t c : text) all |= c;
  return all < 128;
}

Text to_text(nb::handle text) { return to_text(text, static_cast<std::size_t>(PY_SSIZE_T_MAX)); }

Text to_text(nb::handle text, std::size_t limit) {
  PyObject* object = text.ptr();
  if (!PyUnicode_Check(object)) throw nb::type_error("expected str");
#if PY_VERSION_HEX < 0x030c0000
  if (PyUnicode_READY(object) < 0) throw nb::python_error();
#endif
  const std::size_t size = std::min(static_cast<std::size_t>(PyUnicode_GET_LENGTH(object)), limit);
  const void* data = PyUnicode_DATA(object);
  switch (PyUnicode_KIND(object)) {
    case PyUnicode_1BYTE_KIND: {
      const auto* characters = static_cast<const Py_UCS1*>(data);
      return Text(characters, characters + size);
    }
    case PyUnicode_2BYTE_KIND: {
      const auto* characters = static_cast<const Py_UCS2*>(data);
      return Text(characters, characters + size);
    }
    default: {
      const auto* characters = static_cast<const Py_UCS4*>(data);
      return Text(characters, characters + size);
    }
  }
}

nb::str to_str(TextView text) {
  PyObject* object =
      PyUnicode_FromKindAndData(PyUnicode_4BYTE_KIND, text.data(), static_cast<Py_ssize_t>(text.size()));
  if (object == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(object);
}

void append_utf8(std::string& bytes, TextView text) {
  if (is_ascii(text)) {
    const std::size_t size = bytes.size();
    bytes.resize(size + text.size());
    std::transform(text.begin(), text.end(), bytes.begin() + static_cast<std::ptrdiff_t>(size),
                   [](char32_t c) { return static_cast<char>(c); });
    return;
  }
  for (const char32_t c : text) {
    if (c < 0x80) {
      bytes.push_back(static_cast<char>(c));
    } else if (c < 0x800) {
      bytes.push_back(static_cast<char>(0xc0 | c >> 6));
      bytes.push_back(static_cast<char>(0x80 | (c & 0x3f)));
    } else if (c >= 0xd800 && c < 0xe000) {
      bytes.push_back('?');
    } else if (c < 0x10000) {
      bytes.push_back(static_cast<char>(0xe0 | c >> 12));
      bytes.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
      bytes.push_back(static_cast<char>(0x80 | (c & 0x3f)));
    } else {
      bytes.push_back(static_cast<char>(0xf0 | c >> 18));
      bytes.push_back(static_cast<char>(0x80 | (c >> 12 & 0x3f)));
      bytes.push_back(static_cast<char>(0x80 | (c >> 6 & 0x3f)));
      bytes.push_back(static_cast<char>(0x80 | (c & 0x3f)));
    }
  }
}

std::string to_utf8(TextView text) {
  std::string bytes;
  append_utf8(bytes, text);
  return bytes;
}

Text widen(std::string_view ascii) { return Text(ascii.begin(), ascii.end()); }

Text lower(TextView text) {
  Text lowered(text);
  if (is_ascii(text)) {  // A loop without branches.
    for (char32_t& c : lowered) c += c >= U'A' && c <= U'Z' ? 32 : 0;
    return lowered;
  }
  for (char32_t& c : lowered) {
    if (c < 128) {
      c += is_ascii_class(c, character_class::kUpper) ? 32 : 0;
    } else if (c == 0x130 || c == 0x3a3) {
      // The lower case of all other letters is one letter. A capital I with a dot becomes two characters, and that of a Greek
      // sigma depends on its neighbours.
      const nb::gil_scoped_acquire locked;
      return to_text(nb::object(to_str(text).attr("lower")()));
    } else {
      c = Py_UNICODE_TOLOWER(static_cast<Py_UCS4>(c));
    }
  }
  return lowered;
}

std::string lower(std::string_view ascii) {
  std::string lowered(ascii);
  for (char& c : lowered) c = static_cast<char>(c + (c >= 'A' && c <= 'Z' ? 32 : 0));
  return lowered;
}

TextView strip(TextView text) { return strip_all(text, is_space); }
std::string_view strip(std::string_view ascii) { return strip_all(ascii, is_space); }
TextView strip(TextView text, std::string_view characters) { return strip_characters(text, characters); }
std::string_view strip(std::string_view ascii, std::string_view characters) { return strip_characters(ascii, characters); }

std::vector<TextView> split_at_spaces(TextView text) { return split_words_at_spaces(text); }
std::vector<std::string_view> split_at_spaces(std::string_view ascii) { return split_words_at_spaces(ascii); }
std::vector<TextView> split_at(TextView text, char32_t separator) { return split_pieces_at(text, separator); }
std::vector<std::string_view> split_at(std::string_view ascii, char separator) { return split_pieces_at(ascii, separator); }

bool contains(TextView text, TextView part) { return contains_part(text, part); }
bool contains(std::string_view text, std::string_view part) { return contains_part(text, part); }

}  // namespace tamis::mail
