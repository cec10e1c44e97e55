// Finds the messages that end within a part of an mbox. The reference is `_Window` of tamis_mail/mailbox/mbox.py, which also finds
// the messages for which more text must be read. tests/mail/mailbox/test_mbox.py compares the two.
#include "mbox.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "../require.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kNone = std::string_view::npos;
constexpr std::size_t kLine = 1024;  // Bytes; a longer line is no postmark.
constexpr std::size_t kHeaders = std::size_t{1} << 16;
constexpr std::size_t kDigits = 12;
constexpr std::size_t kField = 80;
constexpr std::string_view kLength = "content-length:", kLengthEnd = "ength:", kMark = "From ";
constexpr std::array<std::string_view, 19> kCalendar = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Jan", "Feb", "Mar",
                                                        "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }  // As `bytes.split` has them.

bool is_year(std::string_view word) { return word.size() == 4 && std::all_of(word.begin(), word.end(), is_digit); }

bool is_time(std::string_view word) {
  return word.size() > 4 && word[2] == ':' && is_digit(word[0]) && is_digit(word[1]) && is_digit(word[3]) && is_digit(word[4]);
}

bool is_postmark(std::string_view line) {
  bool has_year = false, has_time = false, has_day = false;
  for (std::size_t place = 0; place < line.size();) {
    const auto separates = [](char c) { return is_space(c) || c == ','; };
    if (separates(line[place])) {
      ++place;
      continue;
    }
    std::size_t end = place;
    while (end < line.size() && !separates(line[end])) ++end;
    const std::string_view word = line.substr(place, end - place);
    has_year = has_year || is_year(word);
    has_time = has_time || is_time(word);
    has_day = has_day || std::find(kCalendar.begin(), kCalendar.end(), word) != kCalendar.end();
    place = end;
  }
  return has_year && has_time && has_day;
}

struct Found {
  std::size_t end;   // Of the message.
  std::size_t mark;  // The place of the postmark after it; kNone if the text ends.
  bool has_escapes;
};

class Window {
 public:
  Window(std::string_view text, std::size_t largest, bool is_at_end) : text_(text), largest_(largest), is_at_end_(is_at_end) {}

  // Returns the message that begins at a place, unless more text is needed to know where it ends.
  std::optional<Found> find_end(std::size_t begin) const {
    const std::optional<std::size_t> body = find_body(begin);
    if (!body) return std::nullopt;
    bool needs_more = false;
    const std::optional<Found> by_length = find_by_length(begin, *body, needs_more);
    if (by_length || needs_more) return by_length;
    return find_by_scan(begin);
  }

 private:
  std::size_t find(std::string_view wanted, std::size_t begin, std::size_t end) const {
    end = std::min(end, text_.size());
    if (begin > end) return kNone;
    const std::size_t place = text_.substr(begin, end - begin).find(wanted);
    return place == kNone ? kNone : begin + place;
  }

  // Returns the end of the header; the beginning of the message if there is no end nearby.
  std::optional<std::size_t> find_body(std::size_t begin) const {
    const std::size_t line = find("\n", begin, begin + kHeaders);
    const bool has_return = line != kNone && line > 0 && text_[line - 1] == '\r';
    const std::string_view blank = has_return ? "\r\n\r\n" : "\n\n";
    const std::size_t end = find(blank, begin, begin + kHeaders);
    if (end != kNone) return end + blank.size();
    if (is_at_end_ || text_.size() - begin >= kHeaders) return begin;
    return std::nullopt;
  }

  std::optional<Found> find_by_length(std::size_t begin, std::size_t body, bool& needs_more) const {
    std::size_t colon = begin;
    for (std::size_t place; (place = find(kLengthEnd, colon, body)) != kNone;) {
      colon = place + kLengthEnd.size();
      const std::optional<std::size_t> length = read_length(begin, colon);
      if (!length || body + *length - begin > largest_) continue;
      const std::size_t end = body + *length;
      if (text_.size() < end + 2 * kLine && !is_at_end_) {
        needs_more = true;
        return std::nullopt;
      }
      if (const std::optional<std::size_t> mark = find_mark_after(end)) return Found{end, *mark, false};
    }
    return std::nullopt;
  }

  // The number of a field Content-Length with this colon.
  std::optional<std::size_t> read_length(std::size_t begin, std::size_t colon) const {
    if (colon < begin + kLength.size()) return std::nullopt;
    const std::size_t start = colon - kLength.size();
    if (start > begin && text_[start - 1] != '\n') return std::nullopt;
    for (std::size_t place = 0; place < kLength.size(); ++place) {
      const char c = text_[start + place];
      if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c) != kLength[place]) return std::nullopt;
    }
    std::string_view value = text_.substr(colon, kField);
    const std::size_t newline = value.find('\n');
    if (newline == kNone) return std::nullopt;
    value = value.substr(0, newline);
    while (!value.empty() && is_space(value.front())) value.remove_prefix(1);
    while (!value.empty() && is_space(value.back())) value.remove_suffix(1);
    if (value.empty() || value.size() > kDigits || !std::all_of(value.begin(), value.end(), is_digit)) return std::nullopt;
    std::size_t length = 0;
    for (const char digit : value) length = 10 * length + static_cast<std::size_t>(digit - '0');
    return length;
  }

  // Returns the place of the postmark after this end, kNone if the text ends there, otherwise nothing.
  std::optional<std::size_t> find_mark_after(std::size_t end) const {
    if (end > text_.size()) return std::nullopt;
    for (int line_end = 0; line_end < 2; ++line_end) {  // The one that a last line may lack, and the blank line.
      end += text_.substr(end, 1) == "\n" ? 1 : text_.substr(end, 2) == "\r\n" ? 2 : 0;
    }
    if (end == text_.size()) return kNone;
    return is_mark(end) ? std::optional<std::size_t>(end) : std::nullopt;
  }

  bool is_mark(std::size_t place) const {
    std::size_t newline = find("\n", place, place + kLine);
    if (newline == kNone) newline = text_.size();
    return newline - place < kLine && text_.substr(place, kMark.size()) == kMark &&
           is_postmark(text_.substr(place, newline - place));
  }

  std::optional<Found> find_by_scan(std::size_t begin) const {
    bool has_escapes = false;
    for (std::size_t place = begin;;) {
      const std::size_t mark = text_.find(kMark, place);
      if (mark == kNone || (text_.size() < mark + kLine && !is_at_end_)) return std::nullopt;
      place = mark + kMark.size();
      const std::optional<std::size_t> end = find_end_before(begin, mark);
      if (!end) {
        has_escapes = has_escapes || (mark > begin && text_[mark - 1] == '>');
      } else if (is_mark(mark)) {
        return Found{*end, mark, has_escapes};
      }
    }
  }

  // Returns the end of the message if a blank line precedes this postmark.
  std::optional<std::size_t> find_end_before(std::size_t begin, std::size_t mark) const {
    if (mark <= begin || text_[mark - 1] != '\n') return std::nullopt;
    std::size_t end = mark - 1;
    if (end > begin && text_[end - 1] == '\r') --end;
    return end == begin || text_[end - 1] == '\n' ? std::optional<std::size_t>(end) : std::nullopt;
  }

  std::string_view text_;
  std::size_t largest_;
  bool is_at_end_;
};

// Returns the first messages from `begin` on, as far as they end in the text: for each its beginning, its end, whether it may have
// escapes, and the place of the postmark after it (-1 if the text ends).
nb::list split_mbox(const nb::bytes& buffer, std::size_t begin, std::size_t largest, bool is_at_end) {
  const std::string_view text(buffer.c_str(), buffer.size());
  require(begin <= text.size(), "expected a place in the text");
  const Window window(text, largest, is_at_end);
  nb::list messages;
  while (const std::optional<Found> found = window.find_end(begin)) {
    const std::int64_t mark = found->mark == kNone ? -1 : static_cast<std::int64_t>(found->mark);
    messages.append(nb::make_tuple(begin, found->end, found->has_escapes, mark));
    if (found->mark == kNone) break;
    const std::size_t newline = text.find('\n', found->mark);
    begin = newline == kNone ? text.size() : newline + 1;
  }
  return messages;
}

}  // namespace

void bind_mbox(nb::module_& m) { m.def("split_mbox", &split_mbox); }

}  // namespace tamis::mail
