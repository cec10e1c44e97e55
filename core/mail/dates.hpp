// Reads dates in header fields. The reference is `tamis_mail.message.dates`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "unicode.hpp"

namespace tamis::mail {

// A date, and the hour and the second that its text has, which are those of the sender's own zone.
struct SentTime {
  std::int64_t seconds = 0;  // Since 1970.
  std::int64_t hour = 0, second = 0;
};

// Returns the date in a text; nothing if it has none, or an impossible one: `parse_sent_time`.
std::optional<SentTime> parse_sent_time(TextView text);
std::optional<SentTime> parse_sent_time(std::string_view ascii);

// Reads the time of arrival from the fields of a message, one after the other, until it is known.
class DateReader {
 public:
  // Returns whether the value of a field of this name, which is the next one, may matter.
  bool may_need(std::string_view name) const { return !arrival_ && (name == "received" || (name == "date" && !sent_)); }
  void read(std::string_view name, TextView value) { read_value(name, value); }
  void read(std::string_view name, std::string_view ascii) { read_value(name, ascii); }
  // Returns seconds since 1970; nothing if no field has a readable date.
  std::optional<std::int64_t> date() const { return arrival_ ? arrival_ : sent_; }

 private:
  template <class Char>
  void read_value(std::string_view name, View<Char> value);

  std::optional<std::int64_t> arrival_, sent_;
  std::size_t received_ = 0;
};

}  // namespace tamis::mail
