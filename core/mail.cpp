// The mail filter's part of the core: from a parsed message to its tokens, and from tokens to features. Each function
// equals its reference in `tamis_mail.tokens` or `tamis_mail.features` to the byte (tests/mail/tokens/test_compiled.py).
#include "common.hpp"
#include "mail/agreements.hpp"
#include "mail/bodies.hpp"
#include "mail/bundles.hpp"
#include "mail/count_entries.hpp"
#include "mail/deflate.hpp"
#include "mail/entities.hpp"
#include "mail/fit_matrix.hpp"
#include "mail/hash.hpp"
#include "mail/head.hpp"
#include "mail/header_block.hpp"
#include "mail/headers.hpp"
#include "mail/key_lists.hpp"
#include "mail/large_memory.hpp"
#include "mail/mbox.hpp"
#include "mail/merged.hpp"
#include "mail/message.hpp"
#include "mail/pages.hpp"
#include "mail/patterns.hpp"
#include "mail/reading.hpp"
#include "mail/relations.hpp"
#include "mail/score_table.hpp"
#include "mail/scoring.hpp"
#include "mail/styles.hpp"
#include "mail/unicode.hpp"
#include "mail/words.hpp"
#include "parts.hpp"
#include "require.hpp"

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

nb::list to_list(const std::vector<Text>& texts) {
  nb::list list;
  for (const Text& text : texts) list.append(to_str(text));
  return list;
}

nb::str page_to_str(const AnyText& text) {
  const std::string* ascii = std::get_if<std::string>(&text);
  return ascii != nullptr ? nb::str(ascii->data(), ascii->size()) : to_str(TextView(std::get<Text>(text)));
}

// Reads text of ASCII as bytes, unless code points are asked for.
nb::tuple read_page_for_python(nb::handle text, std::int64_t tags, bool as_code_points) {
  Text characters = to_text(text, kLongestPage);
  const bool has_bytes = !as_code_points && is_ascii(characters);
  const Page page = has_bytes ? read_page(to_utf8(characters), tags) : read_page(std::move(characters), tags);
  nb::list tricks;
  page.tricks.for_each_name([&tricks](TextView trick) { tricks.append(to_str(trick)); });
  return nb::make_tuple(page_to_str(page.visible), page_to_str(page.hidden), nb::tuple(to_list(page.links)),
                        nb::tuple(to_list(page.images)), nb::tuple(tricks), page_to_str(page.outlook));
}

nb::tuple read_body_for_python(nb::handle message, int version) {
  require_compiled_version(version);
  nb::bytes raw("", 0);
  const Body body = read_body(to_message(message, raw), version);
  return nb::make_tuple(to_bytes(body.words), to_str(body.marks), to_list(body.links), to_list(body.images),
                        body.hidden);
}

nb::tuple decode_for_python(nb::handle text) {
  Text decoded = to_text(text);
  const bool has_hidden_letters = decode_entities(decoded);
  return nb::make_tuple(to_str(decoded), has_hidden_letters);
}

nb::tuple find_effect_for_python(nb::handle attributes) {
  const Effect effect = find_effect(to_text(attributes));
  const auto to_flag = [](std::optional<bool> flag) -> nb::object {
    return flag ? nb::object(nb::bool_(*flag)) : nb::object(nb::none());
  };
  const auto to_tuple = [](const std::optional<Colour>& colour) -> nb::object {
    return colour ? nb::object(nb::make_tuple((*colour)[0], (*colour)[1], (*colour)[2])) : nb::object(nb::none());
  };
  return nb::make_tuple(effect.is_hidden, to_flag(effect.is_visible), to_flag(effect.is_tiny), to_flag(effect.is_thin),
                        to_tuple(effect.colour), to_tuple(effect.background), effect.has_image);
}

std::vector<Text> to_texts(nb::handle texts) {
  const nb::tuple items(nb::borrow(texts));
  std::vector<Text> list;
  for (std::size_t index = 0; index < items.size(); ++index) list.push_back(to_text(items[index]));
  return list;
}

std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

nb::bytes read_relations_for_python(nb::handle headers, nb::bytes raw, nb::handle parts, nb::handle links,
                                    nb::handle images, std::size_t hidden_words) {
  return to_bytes(read_relations(
      read_fields(headers).all(), {view(raw), describe_parts(to_parts(parts)), to_texts(links), to_texts(images), hidden_words}));
}

// The documents of a message: head, headers, words, marks, relations, patterns and subject.
nb::tuple read_tokens_for_python(nb::handle parsed, int version) {
  require_compiled_version(version);
  nb::bytes raw("", 0);
  const Message message = to_message(parsed, raw);
  const Body body = read_body(message, version);
  std::string relations =
      read_relations(message.fields.all(), {message.raw, describe_parts(message.parts), body.links, body.images,
                                      static_cast<std::size_t>(body.hidden)});
  std::string patterns, subject;
  if (version > 2) {
    const SelectedFields fields = select_fields(message.fields.all());
    const Hops hops(fields);
    WordSearch search;
    Agreements agreements(fields, hops, search);
    search.see_all(body.words);
    relations += agreements.take_tokens(search);
    patterns = read_patterns(fields, hops);
    subject = agreements.subject();
  }
  return nb::make_tuple(to_bytes(read_head(message.raw)), to_bytes(read_headers(message.fields.all())), to_bytes(body.words),
                        to_bytes(to_utf8(body.marks)), to_bytes(relations), to_bytes(patterns), to_bytes(subject));
}

nb::bytes hash_for_python(nb::bytes head, nb::bytes headers, nb::bytes words, nb::bytes marks, nb::bytes relations,
                          nb::bytes patterns, nb::bytes subject, int version) {
  if (version < 1 || version > kNewestVersion) refuse("expected tokens of version 1, 2 or 3");
  return pack_features(hash_tokens(
      {view(head), view(headers), view(words), view(marks), view(relations), view(patterns), view(subject)}, version));
}

}  // namespace

void bind_mail(nb::module_& m) {
  // Memory.
  m.def("keep_freed_memory", &keep_freed_memory);
  m.def("reserve_large_pages", &reserve_large_pages);

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
  m.def("read_page", &read_page_for_python, nb::arg("text"), nb::arg("tags"), nb::arg("as_code_points") = false);
  m.def("read_body", &read_body_for_python);
  m.def("decode_entities", &decode_for_python);
  m.def("find_effect", &find_effect_for_python);
  m.def("remove_style_sheet", [](nb::handle text) { return to_str(remove_style_sheet(to_text(text))); });

  // Headers, relations, the head, and features.
  m.def("read_head", [](nb::bytes raw) { return to_bytes(read_head({raw.c_str(), raw.size()})); });
  m.def("read_headers", [](nb::handle headers) { return to_bytes(read_headers(read_fields(headers).all())); });
  m.def("read_relations", &read_relations_for_python);
  m.def("find_domain", [](nb::handle host) { return to_str(find_domain(to_text(host))); });
  m.def("hash_tokens", &hash_for_python);

  // Whole messages.
  m.def("read_tokens", &read_tokens_for_python);
  bind_reading(m);
  bind_mbox(m);

  // The features of many messages.
  bind_key_lists(m);
  bind_bundles(m);
  bind_count_entries(m);
  bind_deflate(m);
  bind_scoring(m);
  bind_score_table(m);
  bind_merged(m);
  bind_fit_matrix(m);
}

}  // namespace tamis
