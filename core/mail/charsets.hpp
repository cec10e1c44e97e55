// Decodes bytes to text by a declared or detected charset: `decode_text` of tamis_mail/message/bodies.py.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "transfer.hpp"
#include "unicode.hpp"

namespace tamis::mail {

// The text of a part: one byte per character if all code points are below 256, otherwise code points.
class Characters {
 public:
  Characters() = default;
  explicit Characters(std::string latin_1) : narrow_(std::move(latin_1)) {}
  explicit Characters(Text text) : wide_(std::move(text)), is_wide_(true) {}

  // As text[:limit].
  Text first(std::size_t limit) const;
  // The same as bytes, if all characters of the text have one byte; nothing otherwise.
  std::optional<std::string_view> first_bytes(std::size_t limit) const {
    if (is_wide_) return std::nullopt;
    return std::string_view(narrow_).substr(0, limit);
  }
  std::size_t size() const { return is_wide_ ? wide_.size() : narrow_.size(); }
  // Calls `use` with a pointer to the characters.
  template <class Use>
  auto visit(Use use) const {
    return is_wide_ ? use(wide_.data()) : use(reinterpret_cast<const unsigned char*>(narrow_.data()));
  }
  // Replaces CR LF and CR by LF.
  void unify_line_breaks();
  // Removes NUL characters; returns whether there were any.
  bool remove_nul();

 private:
  std::string narrow_;
  Text wide_;
  bool is_wide_ = false;
};

// The codecs of `tamis.charsets`. Threads may share it, and may hold the interpreter's lock or not.
class Charsets {
 public:
  Charsets(std::unordered_map<std::string, std::string> aliases, std::unordered_set<std::string> codecs)
      : aliases_(std::move(aliases)), codecs_(std::move(codecs)) {}

  // `charset` is in lower case.
  Characters decode(std::string_view data, std::string_view charset, Faults& faults) const;

 private:
  using Table = std::array<char32_t, 256>;

  // Returns whether there is a codec of that name, which is empty if no charset is declared.
  bool find_codec(std::string_view charset, std::string& codec) const;
  Characters decode_by(const std::string& codec, std::string_view data, Faults& faults) const;
  Characters decode_unicode_or_western(std::string_view data, const std::string& codec, Faults& faults) const;
  std::shared_ptr<const Table> find_table(const std::string& codec) const;

  std::unordered_map<std::string, std::string> aliases_;
  std::unordered_set<std::string> codecs_;
  mutable std::mutex lock_;
  mutable std::map<std::string, std::shared_ptr<const Table>> tables_;  // Of charsets with one byte per character.
};

}  // namespace tamis::mail
