// The mail filter's part of the core: from a parsed message to its tokens, and from tokens to features. Each function
// equals its reference in `tamis_mail.tokens` or `tamis_mail.features` to the byte (tests/mail/tokens/test_compiled.py).
#include "common.hpp"
#include "mail/header_block.hpp"
#include "mail/unicode.hpp"
#include "mail/words.hpp"
#include "parts.hpp"

namespace tamis {

namespace {

using namespace mail;

nb::list to_list(const std::vector<TextView>& texts) {
  nb::list list;
  for (const TextView text : texts) list.append(to_str(text));
  return list;
}

nb::bytes to_bytes(const std::string& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

nb::tuple fold_for_python(nb::handle text) {
  const FoldedText folded = fold_text(to_text(text));
  nb::list tricks;
  for (const Text& trick : folded.tricks) tricks.append(to_str(trick));
  return nb::make_tuple(to_str(folded.text), nb::tuple(tricks));
}

nb::list split_for_python(nb::handle text, std::size_t limit) {
  nb::list words;
  for (const std::string& word : split_words(to_text(text), limit)) words.append(nb::str(word.data(), word.size()));
  return words;
}

}  // namespace

void bind_mail(nb::module_& m) {
  // The fields of a header block.
  bind_header_block(m);

  // The words of a text.
  m.def("fold_text", &fold_for_python);
  m.def("lower", [](nb::handle text) { return to_str(lower(to_text(text))); });
  m.def("separate_words", [](nb::handle text) { return to_bytes(separate_words(to_text(text))); });
  m.def("split_words", &split_for_python);
  m.def("find_hosts", [](nb::handle name) { const Text text = to_text(name); return to_list(find_hosts(text)); });
  m.def("find_networks", [](nb::handle name) { const Text text = to_text(name); return to_list(find_networks(text)); });

  // Pages, styles, entities and bodies.

  // Headers, relations, the head, and features.
}

}  // namespace tamis
