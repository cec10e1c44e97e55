// Reads digests, headings, dates and features of messages, many at a time and without the interpreter's lock.
//
// Unusual messages are left to the reference in Python: None is returned for them. To decode a text by a codec or a table of
// Python, the lock is taken meanwhile. tests/mail/message/test_compiled_messages.py compares the two.
#include "reading.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/unordered_set.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../require.hpp"
#include "agreements.hpp"
#include "batch.hpp"
#include "bodies.hpp"
#include "canonical.hpp"
#include "digest.hpp"
#include "hash.hpp"
#include "head.hpp"
#include "header_block.hpp"
#include "header_values.hpp"
#include "headers.hpp"
#include "message.hpp"
#include "patterns.hpp"
#include "relations.hpp"
#include "search.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kFields = 1001, kLongestName = 100, kLongestValue = 10'000;
constexpr std::size_t kHeaderBytes = std::size_t{1} << 21;
constexpr std::size_t kHeadingBytes = std::size_t{1} << 16;  // Bytes of a message that are searched for its heading.
constexpr std::size_t kHeadingValue = 1000;  // Characters of a field that are decoded …
constexpr std::size_t kHeadingWords = 20;    // … and encoded words.
constexpr std::size_t kSender = 100, kSubject = 150;  // Characters that are kept.

nb::bytes to_bytes(const char* bytes, std::size_t size) { return nb::bytes(bytes, size); }

// Bytes of Python objects, which the caller keeps alive.
std::vector<std::string_view> view_messages(const nb::list& messages) {
  std::vector<std::string_view> views;
  views.reserve(messages.size());
  for (const nb::handle message : messages) {
    if (!PyBytes_Check(message.ptr())) throw nb::type_error("expected a list of bytes");
    views.emplace_back(PyBytes_AS_STRING(message.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(message.ptr())));
  }
  return views;
}

class CanonicalForm {
 public:
  explicit CanonicalForm(const std::vector<std::string>& volatile_fields) : volatile_fields_(volatile_fields) {}

  std::string make(std::string_view raw) const { return make_canonical(raw, volatile_fields_); }

  // The canonical bytes and the digests of messages that are read together.
  MessageBatch open(const nb::list& messages) const {
    const std::vector<std::string_view> views = view_messages(messages);
    MessageBatch batch;
    const nb::gil_scoped_release unlocked;
    for (const std::string_view raw : views) {
      batch.canonical.push_back(make(raw));
    }
    batch.digests = make_digests(batch.canonical);
    batch.features.resize(views.size());
    return batch;
  }

  // The canonical bytes and the digest of each message.
  nb::tuple identify(const nb::list& messages) const {
    const std::vector<std::string_view> views = view_messages(messages);
    std::vector<std::string> canonical(views.size());
    std::vector<Digest> digests;
    {
      const nb::gil_scoped_release unlocked;
      for (std::size_t index = 0; index < views.size(); ++index) canonical[index] = make(views[index]);
      digests = make_digests(canonical);
    }
    nb::list plain, names;
    for (std::string& bytes : canonical) {
      plain.append(to_bytes(bytes.data(), bytes.size()));
      bytes = std::string();  // To free the memory of a large message.
    }
    for (const Digest& digest : digests) names.append(to_bytes(digest.data(), digest.size()));
    return nb::make_tuple(plain, names);
  }

 private:
  VolatileFields volatile_fields_;
};

struct Features {
  bool is_read = false;
  std::optional<std::int64_t> date;
  std::vector<std::uint64_t> keys;
};

nb::object to_date(const Features& features) { return features.date ? nb::object(nb::int_(*features.date)) : nb::none(); }

// Returns features in the form of `pack_features`.
std::vector<std::uint64_t> unpack_features(const nb::bytes& packed) {
  require(packed.size() % 8 == 0, "expected eight bytes per feature");
  std::vector<std::uint64_t> features(packed.size() / 8);
  for (std::size_t place = 0; place < packed.size(); ++place) {
    features[place / 8] |= std::uint64_t{static_cast<unsigned char>(packed.c_str()[place])} << 8 * (place % 8);
  }
  for (std::size_t place = 1; place < features.size(); ++place) {
    require(features[place - 1] < features[place], "expected ascending features");
  }
  require(features.empty() || features.back() >> 48 == 0, "expected features below 2**48");
  return features;
}

struct Heading {
  bool is_read = false;
  Text sender, subject;
};

// As `" ".join(text.split())[:longest]` of the printable text of a value.
Text clean_heading(std::string_view value, std::size_t longest, const Charsets& charsets) {
  value = value.substr(0, kHeadingValue);
  if (!must_be_decoded(value)) {  // Printable ASCII, which most values are.
    Text cleaned;
    cleaned.reserve(std::min(value.size(), longest));
    bool has_space = false;  // Whether spaces are before the next character.
    for (std::size_t place = 0; place < value.size() && cleaned.size() < longest; ++place) {
      const char c = value[place];
      if (c != ' ' && has_space && !cleaned.empty()) cleaned.push_back(U' ');
      if (c != ' ' && cleaned.size() < longest) cleaned.push_back(static_cast<char32_t>(c));
      has_space = c == ' ';
    }
    return cleaned;
  }
  Faults faults;
  Text text = decode_value(value, kHeadingWords, charsets, faults);
  for (char32_t& c : text) {
    if (c < 128 ? c < 32 || c == 127 : !Py_UNICODE_ISPRINTABLE(static_cast<Py_UCS4>(c))) c = U' ';
  }
  Text cleaned;
  for (const TextView word : split_at_spaces(text)) {
    if (!cleaned.empty()) cleaned.push_back(U' ');
    cleaned.append(word);
  }
  cleaned.resize(std::min(cleaned.size(), longest));
  return cleaned;
}

class MessageReader {
 public:
  MessageReader(std::unordered_map<std::string, std::string> aliases, std::unordered_set<std::string> codecs)
      : charsets_(std::move(aliases), std::move(codecs)) {}

  // Returns the packed features of messages in canonical form, by a version of the tokens, and their dates.
  nb::list read_features(const nb::list& messages, int version) const;
  // Reads the features of the messages of a batch with these indices. Returns the date of each message, but True for one that
  // Python must read.
  nb::list read_batch(MessageBatch& batch, const std::vector<std::size_t>& places, int version) const;
  // Returns the sender and the subject of messages.
  nb::list read_headings(const nb::list& messages, const nb::list& canonical, const CanonicalForm& form) const;
  nb::list read_batch_headings(const nb::list& messages, const MessageBatch& batch, const CanonicalForm& form) const;

 private:
  Features read_message(std::string_view canonical, int version) const;
  Heading read_heading(std::string_view canonical) const;
  nb::list read_headings(const std::vector<std::string_view>& raw, const std::vector<std::string_view>& plain,
                         const CanonicalForm& form) const;

  Charsets charsets_;
};

Features MessageReader::read_message(std::string_view canonical, int version) const {
  const Message message = parse_message(canonical, charsets_);
  const Body body = read_body(message, version);
  const std::vector<PartFacts> parts = describe_parts(message.parts);
  const std::string relations = read_relations(
      message.fields.all(), {message.raw, parts, body.links, body.images, static_cast<std::size_t>(body.hidden)});
  const std::string head = read_head(message.raw);
  FeatureHasher hasher(version, head.size() + body.words.size());
  hasher.add_head(head);
  hasher.add_headers(read_headers(message.fields.all()));
  hasher.add_marks(to_utf8(body.marks));
  if (version > 2) {
    const SelectedFields fields = select_fields(message.fields.all());
    const Hops hops(fields);
    WordSearch search;
    Agreements agreements(fields, hops, search);
    hasher.add_words(body.words, &search);
    agreements.add_features(search, hasher);
    hasher.add_patterns(read_patterns(fields, hops));
    hasher.add_subject(agreements.subject());
  } else {
    hasher.add_words(body.words);
  }
  hasher.add_relations(relations);
  return {true, message.date.date(), hasher.finish()};
}

nb::list MessageReader::read_features(const nb::list& messages, int version) const {
  require_compiled_version(version);
  const std::vector<std::string_view> views = view_messages(messages);
  std::vector<Features> all(views.size());
  {
    const nb::gil_scoped_release unlocked;
    for (std::size_t index = 0; index < views.size(); ++index) {
      try {
        all[index] = read_message(views[index], version);
      } catch (const LeftToPython&) {
      }
    }
  }
  nb::list answers;
  for (Features& features : all) {
    if (!features.is_read) {
      answers.append(nb::none());
      continue;
    }
    answers.append(nb::make_tuple(pack_features(features.keys), to_date(features)));
    std::vector<std::uint64_t>().swap(features.keys);  // To free its memory.
  }
  return answers;
}

nb::list MessageReader::read_batch(MessageBatch& batch, const std::vector<std::size_t>& places, int version) const {
  require_compiled_version(version);
  for (const std::size_t place : places) require(place < batch.canonical.size(), "expected indices of messages");
  std::vector<Features> all(places.size());
  {
    const nb::gil_scoped_release unlocked;
    for (std::size_t index = 0; index < places.size(); ++index) {
      try {
        all[index] = read_message(batch.canonical[places[index]], version);
        batch.features[places[index]] = std::move(all[index].keys);
      } catch (const LeftToPython&) {
      }
    }
  }
  nb::list dates;
  for (const Features& features : all) {
    dates.append(!features.is_read ? nb::object(nb::bool_(true)) : to_date(features));
  }
  return dates;
}

Heading MessageReader::read_heading(std::string_view canonical) const {
  Heading heading;
  RawFields block;
  std::vector<RawField>& fields = block.fields;
  if (!canonical.empty() && canonical[0] != '\n') {
    const std::size_t blank_line = find_bytes(canonical, "\n\n");
    const std::size_t stop = blank_line == std::string_view::npos ? canonical.size() : blank_line + 1;
    if (stop > kHeaderBytes) throw LeftToPython();
    if (!read_header_block(canonical.substr(0, stop), kFields, kLongestName, kLongestValue, block)) throw LeftToPython();
    fields.resize(std::min(fields.size(), kFields - 1));
  }
  const auto find = [&fields](std::string_view name) -> std::string_view {
    const auto field = std::find_if(fields.begin(), fields.end(), [name](const RawField& one) { return one.name == name; });
    return field == fields.end() ? std::string_view() : field->value;
  };
  heading.sender = clean_heading(find("from"), kSender, charsets_);
  heading.subject = clean_heading(find("subject"), kSubject, charsets_);
  heading.is_read = true;
  return heading;
}

nb::list MessageReader::read_headings(const nb::list& messages, const nb::list& canonical, const CanonicalForm& form) const {
  return read_headings(view_messages(messages), view_messages(canonical), form);
}

nb::list MessageReader::read_batch_headings(const nb::list& messages, const MessageBatch& batch, const CanonicalForm& form) const {
  return read_headings(view_messages(messages), {batch.canonical.begin(), batch.canonical.end()}, form);
}

nb::list MessageReader::read_headings(const std::vector<std::string_view>& raw, const std::vector<std::string_view>& plain,
                                      const CanonicalForm& form) const {
  if (raw.size() != plain.size()) throw nb::value_error("expected one canonical form per message");
  std::vector<Heading> headings(raw.size());
  {
    const nb::gil_scoped_release unlocked;
    for (std::size_t index = 0; index < raw.size(); ++index) {
      try {
        headings[index] = raw[index].size() > kHeadingBytes ? read_heading(form.make(raw[index].substr(0, kHeadingBytes)))
                                                            : read_heading(plain[index]);
      } catch (const LeftToPython&) {
      }
    }
  }
  nb::list answers;
  for (const Heading& heading : headings) {
    answers.append(heading.is_read ? nb::object(nb::make_tuple(to_str(heading.sender), to_str(heading.subject)))
                                   : nb::object(nb::none()));
  }
  return answers;
}

}  // namespace

void require_compiled_version(int version) {
  require(version == 2 || version == kNewestVersion, "expected tokens of version 2 or 3");
}

void bind_reading(nb::module_& m) {
  nb::class_<MessageBatch>(m, "MessageBatch")
      .def("__len__", [](const MessageBatch& batch) { return batch.canonical.size(); })
      .def("digests",
           [](const MessageBatch& batch) {
             nb::list digests;
             for (const Digest& digest : batch.digests) digests.append(to_bytes(digest.data(), digest.size()));
             return digests;
           })
      .def("canonical",
           [](const MessageBatch& batch, std::size_t index) {
             require(index < batch.canonical.size(), "expected the index of a message");
             return to_bytes(batch.canonical[index].data(), batch.canonical[index].size());
           })
      .def("features",
           [](const MessageBatch& batch, std::size_t index) {
             require(index < batch.features.size(), "expected the index of a message");
             return pack_features(batch.features[index]);
           })
      .def("count_features",
           [](const MessageBatch& batch, const std::vector<std::size_t>& places) {
             std::vector<std::size_t> sizes;
             for (const std::size_t place : places) {
               require(place < batch.features.size(), "expected indices of messages");
               sizes.push_back(batch.features[place].size());
             }
             return sizes;
           })
      .def("set_features", [](MessageBatch& batch, std::size_t index, const nb::bytes& packed) {
        require(index < batch.features.size(), "expected the index of a message");
        batch.features[index] = unpack_features(packed);
      });
  nb::class_<CanonicalForm>(m, "CanonicalForm")
      .def(nb::init<const std::vector<std::string>&>())
      .def("make",
           [](const CanonicalForm& form, const nb::bytes& raw) {
             const std::string canonical = form.make({raw.c_str(), raw.size()});
             return to_bytes(canonical.data(), canonical.size());
           })
      .def("open", &CanonicalForm::open)
      .def("identify", &CanonicalForm::identify);
  nb::class_<MessageReader>(m, "MessageReader")
      .def(nb::init<std::unordered_map<std::string, std::string>, std::unordered_set<std::string>>())
      .def("read_features", &MessageReader::read_features)
      .def("read_batch", &MessageReader::read_batch)
      .def("read_batch_headings", &MessageReader::read_batch_headings)
      .def("read_headings", nb::overload_cast<const nb::list&, const nb::list&, const CanonicalForm&>(
                                &MessageReader::read_headings, nb::const_));
}

}  // namespace tamis::mail
