// Reads a header block that consists of fields only: their names in lower case and their unfolded values.
//
// The reference is `_fields_of` of tamis_mail/message/fields.py. Almost every message has such a block; a block with a line that
// is no field is left to Python: None is returned.
#include "header_block.hpp"

#include <algorithm>
#include <cstring>

#include "../require.hpp"
#include "header_values.hpp"

namespace tamis::mail {

namespace {

bool is_name(unsigned char c) { return c >= '!' && c <= '~' && c != ':'; }
bool is_blank(unsigned char c) { return c == ' ' || c == '\t'; }
bool is_blank_or_break(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

const char* end_of_line(const char* place, const char* end) {
  const void* found = std::memchr(place, '\n', static_cast<size_t>(end - place));
  return found ? static_cast<const char*>(found) : end;
}

// Removes the line breaks of a folded value: a tab after a break becomes a space, a space stays. Returns the end of what is
// written, which is not longer than the value.
char* unfold(const char* place, const char* end, char* unfolded) {
  while (place < end) {
    const char* line_end = end_of_line(place, end);
    unfolded = std::copy(place, line_end, unfolded);
    place = line_end;
    if (place < end) {
      ++place;
      if (place < end && *place == '\t') {
        *unfolded++ = ' ';
        ++place;
      }
    }
  }
  return unfolded;
}

nb::object to_str(std::string_view latin_1) {
  return nb::steal(PyUnicode_DecodeLatin1(latin_1.data(), static_cast<Py_ssize_t>(latin_1.size()), nullptr));
}

// Returns the fields of data[start:stop], or None.
nb::object read_header_block_for_python(const nb::bytes& data, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t room,
                                        Py_ssize_t longest_name, Py_ssize_t longest_value) {
  const auto size = static_cast<Py_ssize_t>(data.size());
  if (start < 0 || start > stop || stop > size || room < 0 || longest_name < 0 || longest_value < 0) {
    refuse("the block is not within the data");
  }
  RawFields fields;
  const std::string_view block(data.c_str() + start, static_cast<std::size_t>(stop - start));
  if (!read_header_block(block, static_cast<std::size_t>(room), static_cast<std::size_t>(longest_name),
                         static_cast<std::size_t>(longest_value), fields)) {
    return nb::none();
  }
  nb::list pairs;
  for (const RawField& field : fields.fields) pairs.append(nb::make_tuple(to_str(field.name), to_str(field.value)));
  return pairs;
}

bool must_be_decoded_for_python(nb::handle value) {
  if (!PyUnicode_Check(value.ptr())) throw nb::type_error("the value of a field is a str");
#if PY_VERSION_HEX < 0x030C0000
  if (PyUnicode_READY(value.ptr()) < 0) throw nb::python_error();
#endif
  if (!PyUnicode_IS_ASCII(value.ptr())) return true;
  return must_be_decoded(
      {static_cast<const char*>(PyUnicode_DATA(value.ptr())), static_cast<std::size_t>(PyUnicode_GET_LENGTH(value.ptr()))});
}

// Returns the indices of the fields whose values must be decoded.
nb::list find_encoded_fields(const nb::list& fields) {
  nb::list indices;
  for (std::size_t index = 0; index < fields.size(); ++index) {
    const nb::tuple field = nb::cast<nb::tuple>(fields[index]);
    if (field.size() != 2) refuse("a header field is a pair of name and value");
    if (must_be_decoded_for_python(field[1])) indices.append(index);
  }
  return indices;
}

}  // namespace

bool read_header_block(std::string_view block, std::size_t room, std::size_t longest_name, std::size_t longest_value,
                       RawFields& fields) {
  fields.memory = std::shared_ptr<char[]>(new char[block.size()]);
  fields.fields.reserve(std::min(room, block.size() / 64));
  char* memory = fields.memory.get();  // Names and values are not longer than the lines that hold them.
  const char* place = block.data();
  const char* const end = place + block.size();
  for (std::size_t count = 0; place < end; ++count) {
    const char* name_end = place;
    while (name_end < end && is_name(static_cast<unsigned char>(*name_end))) ++name_end;
    const char* colon = name_end;
    while (colon < end && is_blank(static_cast<unsigned char>(*colon))) ++colon;
    if (name_end == place || colon == end || *colon != ':') return false;
    const char* value = colon + 1;
    while (value < end && is_blank(static_cast<unsigned char>(*value))) ++value;
    // The value continues on all lines that begin with a space or a tab.
    const char* value_end = end_of_line(value, end);
    bool is_folded = false;
    while (end - value_end > 1 && is_blank(static_cast<unsigned char>(value_end[1]))) {
      value_end = end_of_line(value_end + 1, end);
      is_folded = true;
    }
    if (count < room) {
      RawField& field = fields.fields.emplace_back();
      const std::size_t name_size = std::min(longest_name, static_cast<std::size_t>(name_end - place));
      for (std::size_t index = 0; index < name_size; ++index) {
        memory[index] = static_cast<char>(place[index] + (place[index] >= 'A' && place[index] <= 'Z' ? 'a' - 'A' : 0));
      }
      field.name = std::string_view(memory, name_size);
      memory += name_size;
      const char* last = value + std::min(longest_value, static_cast<std::size_t>(value_end - value));
      if (is_folded) {
        const char* const start = memory;
        memory = unfold(value, last, memory);
        field.value = std::string_view(start, static_cast<std::size_t>(memory - start));
      } else {
        field.value = std::string_view(value, static_cast<std::size_t>(last - value));
      }
      while (!field.value.empty() && is_blank_or_break(static_cast<unsigned char>(field.value.back()))) {
        field.value.remove_suffix(1);
      }
    }
    place = value_end < end ? value_end + 1 : end;
  }
  return true;
}

void bind_header_block(nb::module_& m) {
  m.def("read_header_block", &read_header_block_for_python, nb::arg("data"), nb::arg("start"), nb::arg("stop"), nb::arg("room"),
        nb::arg("longest_name"), nb::arg("longest_value"));
  m.def("find_encoded_fields", &find_encoded_fields, nb::arg("fields"));
}

}  // namespace tamis::mail
