#include "head.hpp"

#include <algorithm>
#include <cstddef>

namespace tamis::mail {

namespace {

constexpr std::size_t kLongestHead = 1500;
constexpr std::size_t kBlockBytes = 8000;  // Bytes of the header block that are read.

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

char to_lower(char byte) { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte; }

bool is_word(char byte) {
  const char letter = to_lower(byte);
  return (letter >= 'a' && letter <= 'z') || is_digit(byte) || byte == '_';
}

// Whether a line begins with this text, which is in lower case.
bool begins_with(std::string_view line, std::string_view name) {
  return line.size() >= name.size() && std::equal(name.begin(), name.end(), line.begin(),
                                                  [](char left, char right) { return left == to_lower(right); });
}

// Reads the lines of a block. A line break before spaces or tabs does not end a line.
class Lines {
 public:
  explicit Lines(std::string_view block) : block_(block) {}

  // Reads the next line, with one space in place of each such line break and the spaces and tabs after it. The line is valid until
  // the next one is read. Returns whether it is the last one.
  bool read(std::string_view& line) {
    const std::size_t start = place_;
    bool is_folded = false;
    for (std::size_t piece = start;;) {
      const std::size_t end = std::min(block_.find('\n', piece), block_.size());
      std::size_t next = end + 1;
      while (next < block_.size() && (block_[next] == ' ' || block_[next] == '\t')) ++next;
      const bool continues = end < block_.size() && next > end + 1;
      if (continues && !is_folded) unfolded_.clear();
      is_folded = is_folded || continues;
      if (!is_folded) {
        line = block_.substr(start, end - start);
      } else {
        unfolded_.append(block_.substr(piece, end - piece));
        if (continues) unfolded_.push_back(' ');
      }
      if (!continues) {
        if (is_folded) line = unfolded_;
        place_ = next;
        // Two line breaks end the block.
        return end == block_.size() || (next < block_.size() && block_[next] == '\n');
      }
      piece = next;
    }
  }

 private:
  std::string_view block_;
  std::size_t place_ = 0;
  std::string unfolded_;
};

// A line without queue numbers: `\bid [^ ;]+`.
void append_without_queues(std::string& head, std::string_view line) {
  std::size_t start = 0;  // Of what is not appended yet.
  for (std::size_t place = 0; (place = line.find("id ", place)) != std::string_view::npos;) {
    std::size_t end = place + 3;
    if (place == 0 || !is_word(line[place - 1])) end = std::min(line.find_first_of(" ;", end), line.size());
    if (end > place + 3) {
      head.append(line.substr(start, place - start));
      start = end;
    }
    place = end;
  }
  head.append(line.substr(start));
}

}  // namespace

std::string read_head(std::string_view raw) {
  Lines lines(raw.substr(0, kBlockBytes));
  std::string head;
  head.reserve(kLongestHead + 500);
  for (bool is_last = false; !is_last;) {
    std::string_view line;
    is_last = lines.read(line);
    if (begins_with(line, "received:")) {
      const std::size_t semicolon = line.rfind(';');
      // What comes before the last semicolon, unless that is nothing.
      if (semicolon != std::string_view::npos && semicolon > 0) line = line.substr(0, semicolon);
      append_without_queues(head, line);
    } else if (begins_with(line, "date:")) {
      head.append(line.substr(0, 5));
      line = line.substr(line.size() - std::min<std::size_t>(line.size(), 12));
      for (const char byte : line) head.push_back(is_digit(byte) ? '9' : byte);
    } else {
      head.append(line);
    }
    if (is_last || head.size() + 1 > kLongestHead) break;
    head.push_back('\n');
  }
  head.resize(std::min(head.size(), kLongestHead));
  return head;
}

}  // namespace tamis::mail
