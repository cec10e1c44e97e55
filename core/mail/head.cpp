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

// Replace each line break that is followed by spaces or tabs, and these, by one space.
std::string unfold(std::string_view block) {
  std::string unfolded;
  unfolded.reserve(block.size());
  for (std::size_t start = 0;;) {
    const std::size_t end = std::min(block.find('\n', start), block.size());
    unfolded.append(block.substr(start, end - start));
    if (end == block.size()) return unfolded;
    start = end + 1;
    while (start < block.size() && (block[start] == ' ' || block[start] == '\t')) ++start;
    unfolded.push_back(start > end + 1 ? ' ' : '\n');
  }
}

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
  std::string_view block = raw.substr(0, kBlockBytes);
  block = block.substr(0, block.find("\n\n"));
  const std::string unfolded = unfold(block);
  std::string head;
  for (std::size_t start = 0;;) {
    const std::size_t end = std::min(unfolded.find('\n', start), unfolded.size());
    std::string_view line = std::string_view(unfolded).substr(start, end - start);
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
    if (end == unfolded.size() || head.size() + 1 > kLongestHead) break;
    head.push_back('\n');
    start = end + 1;
  }
  head.resize(std::min(head.size(), kLongestHead));
  return head;
}

}  // namespace tamis::mail
