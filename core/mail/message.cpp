// Parses canonical bytes. The reference is `tamis_mail.message.tree`.
//
// There is no recursion: open multiparts are a stack of frames of bounded depth.
#include "message.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "header_block.hpp"
#include "header_values.hpp"
#include "search.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::size_t kDepth = 30;
constexpr std::size_t kParts = 1000;
constexpr std::size_t kBlocks = 3000;  // Headers of parts that are read.
constexpr std::size_t kHeaders = std::size_t{1} << 21;  // Bytes of headers that are read.
constexpr std::size_t kAllWords = 3000;  // Encoded words of a message that are decoded.
constexpr std::size_t kPartText = std::size_t{1} << 20;  // Bytes of a part that are decoded.
constexpr std::size_t kMessageText = std::size_t{1} << 22;
constexpr std::size_t kShape = 2000;
constexpr std::size_t kName = 500;
constexpr std::size_t kDashes = 100'000;  // Lines beginning with two dashes that are examined.
constexpr std::size_t kBoundary = 200;    // Bytes of a boundary that are compared.
constexpr std::size_t kFields = 1000;     // Fields of a block that are kept.
constexpr std::size_t kLongestName = 100;
constexpr std::size_t kLongestValue = 10'000;
constexpr std::size_t kReadFields = 200;   // Fields whose tokens are read, of each …
constexpr std::size_t kReadValue = 5000;   // … the first characters.
constexpr std::size_t kReadParts = 40;
constexpr std::size_t kReadText = 200'000;  // Characters of a part that are read at most: a page.
constexpr std::size_t kCharset = 60;

std::string_view trim_end(std::string_view text) { return text.substr(0, text.find_last_not_of(" \t") + 1); }

std::string_view find_field(const RawFields& fields, std::string_view name) {
  for (const RawField& field : fields.fields) {
    if (field.name == name) return field.value;
  }
  return {};
}

bool is_embedded(std::string_view kind) {
  return kind == "message/rfc822" || kind == "message/global" || kind == "message/news";
}

bool is_as_it_is(std::string_view encoding) {
  return encoding.empty() || encoding == "7bit" || encoding == "8bit" || encoding == "binary";
}

std::size_t estimate_size(std::size_t bytes, std::size_t lines, std::string_view encoding) {
  return encoding == "base64" ? (bytes - lines) * 3 / 4 : bytes;
}

// An open multipart or embedded message.
struct Frame {
  std::string kind;
  std::vector<std::string> boundaries;
  std::size_t start = 0;                                    // The start of its body.
  std::vector<std::pair<std::string, std::size_t>> outer{};  // Boundaries that an outer frame has, too, and its depth.
  std::string children{};                                   // The structures of its children, separated by commas.
  std::size_t length = 0;                                   // The length of all of these, each with a comma.
  bool has_children = false;

  void add(std::string_view shape) {
    if (length >= kShape) return;
    if (has_children) children.push_back(',');
    children.append(shape);
    has_children = true;
    length += shape.size() + 1;
  }
  std::string describe() const { return (kind + "(" + children + ")").substr(0, kShape); }
};

class MessageParser {
 public:
  MessageParser(std::string_view data, const Charsets& charsets) : data_(data), charsets_(charsets), stack_(1) {}

  Message parse();

 private:
  RawFields open(std::size_t start, std::size_t end);
  RawFields read_fields(std::size_t start, std::size_t end);
  void walk();
  void close_leaf(std::size_t end);
  void close_to(std::size_t depth, std::size_t end);
  std::pair<std::size_t, bool> find_depth(std::string_view line) const;
  void push(std::string kind, std::vector<std::string> boundaries);
  void pop();
  bool may_nest();
  std::vector<std::string> find_boundaries(std::string_view value);
  std::size_t take_words(std::string_view value);
  Text decode_within_budget(const Parameters& parameters, std::string_view name);
  Part read_part(const RawFields& fields, const std::string& kind, std::size_t start, std::size_t end);

  struct Leaf {
    RawFields fields;
    std::string kind;
    std::size_t start = 0;
  };

  std::string_view data_;
  const Charsets& charsets_;
  Faults faults_;
  std::vector<Part> parts_;
  std::size_t room_ = kMessageText;
  std::size_t headers_ = kHeaders;  // Bytes of headers that may still be read.
  std::size_t words_ = kAllWords;   // Encoded words that may still be decoded.
  std::size_t blocks_ = 0;          // Headers that were read.
  std::vector<Frame> stack_;
  std::map<std::string, std::size_t, std::less<>> depths_;  // Depth of the innermost open frame with a boundary.
  Leaf leaf_;
  bool has_leaf_ = false;
  std::size_t body_ = 0;  // Start of the body of the part that was opened last.
};

// Reads the fields of a part, and finds the start of its body.
RawFields MessageParser::read_fields(std::size_t start, std::size_t end) {
  RawFields fields;
  body_ = start;
  if (start >= end) return fields;
  if (data_[start] == '\n') {
    body_ = start + 1;
    return fields;
  }
  const std::size_t blank_line = find_bytes(data_.substr(0, end), "\n\n", start);
  const std::size_t stop = blank_line == kNone ? end : blank_line + 1;
  body_ = std::min(stop + 1, end);
  std::size_t block_end = stop;
  const std::size_t limit = headers_;
  if (stop - start > limit) {  // The rest is ignored, from the end of a line if there is one.
    faults_.add(Fault::kHeaders);
    if (limit == 0) return fields;
    const std::size_t line_break = data_.substr(start, limit).rfind('\n');
    block_end = line_break == kNone ? start + limit : start + line_break + 1;
  }
  if (!read_header_block(data_.substr(start, block_end - start), kFields + 1, kLongestName, kLongestValue, fields)) {
    throw LeftToPython();
  }
  if (fields.fields.size() > kFields) {
    faults_.add(Fault::kHeaders);
    fields.fields.resize(kFields);
  }
  return fields;
}

// Reads the fields of a part and opens it; returns those of the outermost part that was opened.
RawFields MessageParser::open(std::size_t start, std::size_t end) {
  RawFields top_fields;
  for (bool is_top = true;; is_top = false) {
    RawFields fields = read_fields(start, end);
    headers_ -= std::min(headers_, body_ - start);
    ++blocks_;
    if (is_top) top_fields = fields;
    std::string kind = "text/plain";
    std::string_view content_type;
    std::size_t content_types = 0;
    for (const RawField& field : fields.fields) {
      if (field.name == "content-type" && ++content_types == 1) content_type = field.value;
    }
    if (content_types > 1) faults_.add(Fault::kDuplicateField);
    if (std::string declared = find_media_type(content_type); !declared.empty()) kind = std::move(declared);
    if (starts_with(kind, "multipart/")) {
      std::vector<std::string> boundaries = find_boundaries(content_type);
      if (!boundaries.empty() && may_nest()) {
        push(std::move(kind), std::move(boundaries));
        return top_fields;
      }
    } else if (is_embedded(kind) && is_as_it_is(find_first_word(find_field(fields, "content-transfer-encoding"))) &&
               may_nest()) {
      push(std::move(kind), {});
      start = body_;
      continue;
    }
    leaf_ = {std::move(fields), std::move(kind), body_};
    has_leaf_ = true;
    return top_fields;
  }
}

void MessageParser::close_leaf(std::size_t end) {
  if (!has_leaf_) return;
  has_leaf_ = false;
  stack_.back().add(leaf_.kind);
  parts_.push_back(read_part(leaf_.fields, leaf_.kind, leaf_.start, std::max(leaf_.start, end)));
}

// Closes all frames above a depth, the innermost first.
void MessageParser::close_to(std::size_t depth, std::size_t end) {
  close_leaf(end);
  while (stack_.size() > depth) {
    if (!stack_.back().has_children) {  // Its boundary was not found: its content is one text part.
      faults_.add(Fault::kBoundary);
      leaf_ = {{}, "text/plain", stack_.back().start};
      has_leaf_ = true;
      close_leaf(end);
    }
    const std::string shape = stack_.back().describe();
    pop();
    stack_.back().add(shape);
  }
}

// Returns the depth of the frame of which a line is a boundary (0: none), and whether it is the last boundary.
std::pair<std::size_t, bool> MessageParser::find_depth(std::string_view line) const {
  line = trim_end(line);
  if (const auto place = depths_.find(line); place != depths_.end()) return {place->second, false};
  if (line.size() < 2 || line.substr(line.size() - 2) != "--") return {0, false};
  const auto place = depths_.find(trim_end(line.substr(0, line.size() - 2)));
  return {place == depths_.end() ? 0 : place->second, true};
}

// Opens a frame. Its boundaries take precedence over equal ones of outer frames.
void MessageParser::push(std::string kind, std::vector<std::string> boundaries) {
  Frame frame{std::move(kind), std::move(boundaries), body_};
  for (const std::string& text : frame.boundaries) {
    if (const auto place = depths_.find(text); place != depths_.end()) frame.outer.emplace_back(*place);
  }
  for (const std::string& text : frame.boundaries) depths_[text] = stack_.size();
  stack_.push_back(std::move(frame));
}

void MessageParser::pop() {
  for (const std::string& text : stack_.back().boundaries) depths_.erase(text);
  for (const auto& [text, depth] : stack_.back().outer) depths_[text] = depth;
  stack_.pop_back();
}

bool MessageParser::may_nest() {
  if (stack_.size() <= kDepth) return true;
  faults_.add(Fault::kDepth);
  return false;
}

// Returns all boundaries that are declared, because programs differ in which they use.
std::vector<std::string> MessageParser::find_boundaries(std::string_view value) {
  const Parameters parameters = read_parameters(value);
  std::vector<std::string> boundaries;
  std::size_t texts = 0;
  for (const auto& [name, text] : parameters) {
    if (name != "boundary") continue;
    ++texts;
    if (const std::string_view cut = trim_end(std::string_view(text).substr(0, kBoundary)); !cut.empty()) {
      boundaries.emplace_back(cut);
    }
  }
  if (texts > 1) faults_.add(Fault::kDuplicateParameter);
  if (texts == 0) decode_within_budget(parameters, "boundary");  // A parameter in pieces (RFC 2231) is left to Python.
  if (boundaries.empty()) faults_.add(Fault::kBoundary);
  return boundaries;
}

// Takes the encoded words of a value from the budget; returns how many may be decoded.
std::size_t MessageParser::take_words(std::string_view value) {
  std::size_t words = 0;
  for (std::size_t place = 0; (place = value.find("=?", place)) != kNone; place += 2) ++words;
  words = std::min({words, kDecodedWords, words_});
  words_ -= words;
  return words;
}

Text MessageParser::decode_within_budget(const Parameters& parameters, std::string_view name) {
  std::size_t words = 0;
  for (const auto& [key, value] : parameters) {
    if (starts_with(key, name)) words += take_words(value);
  }
  return decode_parameter(parameters, name, std::min(words, kDecodedWords), charsets_, faults_);
}

Part MessageParser::read_part(const RawFields& fields, const std::string& kind, std::size_t start, std::size_t end) {
  Part part;
  part.kind = widen(kind);
  const std::string encoding = find_first_word(find_field(fields, "content-transfer-encoding"));
  part.encoding = widen(encoding);
  if (const std::string_view value = find_field(fields, "content-type"); !value.empty()) {
    const Parameters parameters = read_parameters(value);
    part.charset = first(lower(decode_within_budget(parameters, "charset")), kCharset);
    part.name = decode_within_budget(parameters, "name");
  }
  if (const std::string_view value = find_field(fields, "content-disposition"); !value.empty()) {
    const std::string word = find_first_word(value);
    part.disposition = word == "inline" ? U"inline" : word.empty() ? U"" : U"attachment";
    Text file_name = decode_within_budget(read_parameters(value), "filename");
    if (!file_name.empty()) part.name = std::move(file_name);
  }
  part.name.resize(std::min(part.name.size(), kName));
  if (!starts_with(kind, "text/") && !starts_with(kind, "message/") && !starts_with(kind, "multipart/")) {
    const auto lines = std::count(data_.begin() + static_cast<std::ptrdiff_t>(start),
                                  data_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
    part.size = estimate_size(end - start, static_cast<std::size_t>(lines), encoding);
    return part;
  }
  const std::size_t limit = std::min(kPartText, room_);
  const std::size_t raw_limit = encoding == "quoted-printable" ? limit * 3 : encoding == "base64" ? limit * 3 / 2 : limit;
  const std::string_view body = data_.substr(start, std::min(end - start, raw_limit));
  const std::size_t rest = end - start - body.size();
  if (rest > 0) faults_.add(Fault::kLong);
  std::string decoded;
  std::string_view bytes = body;
  if (encoding == "quoted-printable" || encoding == "base64") {
    decoded = encoding == "base64" ? decode_base64(body, faults_) : decode_quoted_printable(body, faults_);
    bytes = std::string_view(decoded).substr(0, limit);
  }
  part.size = bytes.size() + estimate_size(rest, 0, encoding);
  room_ -= bytes.size();
  if (is_binary(bytes)) {
    faults_.add(Fault::kBinary);
    return part;
  }
  if (may_have_uuencoded_file(bytes)) throw LeftToPython();
  part.text = charsets_.decode(bytes, to_utf8(part.charset), faults_);
  part.text.unify_line_breaks();
  part.characters = part.text.size();
  return part;
}

Message MessageParser::parse() {
  const RawFields top_fields = open(0, data_.size());
  Message message;
  message.raw = data_;
  message.memory = top_fields.memory;
  message.fields.reserve(std::min(top_fields.fields.size(), kReadFields));
  for (const RawField& field : top_fields.fields) {
    const bool is_plain = !must_be_decoded(field.value);
    Text value;
    if (!is_plain) value = decode_value(field.value, take_words(field.value), charsets_, faults_);
    if (message.date.may_need(field.name)) {
      if (is_plain) {
        message.date.read(field.name, field.value);
      } else {
        message.date.read(field.name, TextView(value));
      }
    }
    if (message.fields.all().size() == kReadFields) continue;  // Faults of further fields count, too.
    if (is_plain) {
      message.fields.add_view(field.name, field.value.substr(0, kReadValue));
    } else {
      value.resize(std::min(value.size(), kReadValue));
      message.fields.add(field.name, std::move(value));
    }
  }
  if (stack_.size() > 1) walk();
  close_to(1, data_.size());
  if (top_fields.fields.empty() && !data_.empty()) faults_.add(Fault::kHeaders);
  message.parts = std::move(parts_);
  message.shape = widen(stack_.front().children);
  faults_.for_each_name([&message](std::string_view name) { message.faults.push_back(widen(name)); });
  return message;
}

// Opens and closes parts at the lines that are boundaries. A part is opened when the next line with two dashes is known: its
// fields end there at the latest, so that no byte is searched twice for the empty line after them.
void MessageParser::walk() {
  const std::size_t end = data_.size();
  std::size_t part_start = kNone, number = 0;
  std::size_t place = body_ > 0 ? body_ - 1 : 0;
  while ((place = find_bytes(data_, "\n--", place)) != kNone) {
    const std::size_t text = place + 3;
    if (text == end || data_[text] == '\n') {
      ++place;
      continue;
    }
    const std::size_t line_end = std::min(data_.substr(text, kBoundary).find('\n'), std::min(kBoundary, end - text)) + text;
    if (part_start != kNone) {
      open(part_start, std::max(part_start, place + 1));
      part_start = kNone;
    }
    if (number > kDashes || parts_.size() >= kParts || blocks_ >= kBlocks) {
      faults_.add(Fault::kParts);
      return;
    }
    ++number;
    const auto [depth, is_last] = find_depth(data_.substr(text, line_end - text));
    if (depth > 0) {
      close_to(depth + (is_last ? 0 : 1), place);
      if (stack_.size() == 1) return;
      if (!is_last) {
        const std::size_t line_break = data_.find('\n', line_end);
        part_start = line_break == kNone ? end : line_break + 1;
      }
    }
    place = line_end;
  }
  if (part_start != kNone) open(part_start, end);
  if (std::any_of(stack_.begin(), stack_.end(), [](const Frame& frame) { return !frame.boundaries.empty(); })) {
    faults_.add(Fault::kTruncated);
  }
}

}  // namespace

Message to_message(nb::handle message, nb::bytes& raw) {
  raw = nb::cast<nb::bytes>(nb::object(message.attr("raw")));
  Message read;
  read.raw = {raw.c_str(), raw.size()};
  read.fields = mail::read_fields(nb::object(message.attr("headers")));
  read.shape = to_text(nb::object(message.attr("shape")));
  for (const nb::handle fault : nb::object(message.attr("faults"))) read.faults.push_back(to_text(fault));
  read.parts = to_parts(nb::object(message.attr("parts")));
  return read;
}

std::vector<Part> to_parts(nb::handle parts) {
  std::vector<Part> read;
  for (const nb::handle part : nb::object(nb::borrow(parts))) {
    if (read.size() == kReadParts) break;
    const auto get = [part](const char* name) { return nb::object(part.attr(name)); };
    const nb::object text = get("text");
    read.push_back({to_text(get("kind")), to_text(get("charset")), to_text(get("encoding")), to_text(get("name")),
                    to_text(get("disposition")), nb::cast<std::uint64_t>(get("size")),
                    Characters(to_text(text, kReadText)), nb::len(text)});
  }
  return read;
}

Message parse_message(std::string_view canonical, const Charsets& charsets) {
  return MessageParser(canonical, charsets).parse();
}

}  // namespace tamis::mail
