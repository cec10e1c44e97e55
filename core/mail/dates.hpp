// Reads the time of arrival from header fields. The reference is `tamis_mail.message.dates`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "unicode.hpp"

namespace tamis::mail {

// Reads the fields of a message one after the other, until its date is known.
class DateReader {
 public:
  // Returns whether the value of a field of this name, which is the next one, may matter.
  bool may_need(std::string_view name) const {
    return !arrival_ && !is_left_ && (name == "received" || (name == "date" && !sent_));
  }
  void read(std::string_view name, TextView value);
  // Returns whether a date may be in a form other than that of RFC 5322: only Python reads those.
  bool is_left_to_python() const { return is_left_; }
  // Returns seconds since 1970; nothing if no field has a readable date.
  std::optional<std::int64_t> date() const { return arrival_ ? arrival_ : sent_; }

 private:
  std::optional<std::int64_t> parse(TextView text);

  std::optional<std::int64_t> arrival_, sent_;
  std::size_t received_ = 0;
  bool is_left_ = false;
};

}  // namespace tamis::mail
