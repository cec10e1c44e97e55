#include "dates.hpp"

#include <algorithm>

namespace tamis::mail {

namespace {

constexpr std::size_t kLongest = 300;   // Characters of a value that are searched.
constexpr std::size_t kReceived = 20;   // Fields that are read.
constexpr std::int64_t kEarliest = 1971, kLatest = 9999;  // Years.
constexpr TextView kMonths[] = {U"jan", U"feb", U"mar", U"apr", U"may", U"jun",
                                U"jul", U"aug", U"sep", U"oct", U"nov", U"dec"};
constexpr int kMonthDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
struct Zone {
  TextView name;
  int hours;  // East of Greenwich.
};
constexpr Zone kZones[] = {
    {U"est", -5}, {U"edt", -4}, {U"cst", -6}, {U"cdt", -5}, {U"mst", -7},  {U"mdt", -6},  {U"pst", -8}, {U"pdt", -7},
    {U"ast", -4}, {U"adt", -3}, {U"bst", 1},  {U"west", 1}, {U"cet", 1},   {U"cest", 2},  {U"met", 1},  {U"mest", 2},
    {U"mez", 1},  {U"mesz", 2}, {U"eet", 2},  {U"eest", 3}, {U"msk", 3},   {U"jst", 9},   {U"kst", 9},  {U"hkt", 8},
    {U"sgt", 8},
};  // Other zones are read as UTC.

char32_t to_lower(char32_t c) { return c >= U'A' && c <= U'Z' ? c + 32 : c; }
bool is_letter(char32_t c) { return is_lower_letter(to_lower(c)); }
bool is_blank(char32_t c) { return c == U' ' || c == U'\t'; }

// Reads a date in the form of RFC 5322, such as "23 Aug 2002 23:10:22 +0800".
class DateScanner {
 public:
  explicit DateScanner(TextView text) : text_(text) {}

  // Finds a date that begins at `start`, which no digit precedes; its end is `place` then.
  bool match(std::size_t start);
  // Returns seconds since 1970; nothing if there is no such date.
  std::optional<std::int64_t> count_seconds() const;

  std::size_t place = 0;

 private:
  bool is(char32_t c, std::size_t at) const { return at < text_.size() && text_[at] == c; }
  std::size_t count_digits(std::size_t at) const {
    std::size_t count = 0;
    while (at + count < text_.size() && is_digit(text_[at + count])) ++count;
    return count;
  }
  // Reads a number of `least` to `most` digits.
  bool read_number(std::size_t least, std::size_t most, std::int64_t& number) {
    const std::size_t count = count_digits(place);
    if (count < least || count > most) return false;
    number = to_number(place, count);
    place += count;
    return true;
  }
  std::int64_t to_number(std::size_t at, std::size_t digits) const {
    std::int64_t number = 0;
    for (std::size_t i = 0; i < digits; ++i) number = 10 * number + static_cast<std::int64_t>(text_[at + i] - U'0');
    return number;
  }
  template <class Predicate>
  bool skip(Predicate belongs) {
    const std::size_t start = place;
    while (place < text_.size() && belongs(text_[place])) ++place;
    return place > start;
  }
  bool read_month();
  bool read_time();
  void read_zone();
  bool read_offset(std::size_t at);

  TextView text_;
  std::int64_t day_ = 0, month_ = 0, year_ = 0, hour_ = 0, minute_ = 0, second_ = 0, east_ = 0;
};

bool DateScanner::match(std::size_t start) {
  place = start;
  return read_number(1, 2, day_) && skip([](char32_t c) { return is_blank(c) || c == U'-'; }) && read_month() &&
         skip([](char32_t c) { return is_blank(c) || c == U',' || c == U'-'; }) && read_number(2, 4, year_) &&
         skip([](char32_t c) { return is_blank(c) || c == U','; }) && read_time();
}

bool DateScanner::read_month() {
  Text name(text_.substr(place, 3));
  std::transform(name.begin(), name.end(), name.begin(), to_lower);
  const auto month = std::find(std::begin(kMonths), std::end(kMonths), TextView(name));
  if (month == std::end(kMonths)) return false;
  month_ = month - std::begin(kMonths) + 1;
  skip(is_letter);
  place += is(U'.', place);
  return true;
}

bool DateScanner::read_time() {
  const auto is_separator = [this](std::size_t at) { return is(U':', at) || is(U'.', at); };
  if (!read_number(1, 2, hour_) || !is_separator(place)) return false;
  ++place;
  if (!read_number(1, 2, minute_)) return false;
  second_ = 0;
  bool is_complete = false;
  if (const std::size_t digits = is_separator(place) ? count_digits(place + 1) : 0; digits == 1 || digits == 2) {
    std::size_t end = place + 1 + digits;
    if (is(U'.', end) || is(U',', end)) {
      const std::size_t fraction = count_digits(end + 1);
      is_complete = true;
      if (fraction > 0 && !is(U':', end + 1 + fraction)) end += 1 + fraction;
    } else {
      is_complete = !is(U':', end);
    }
    if (is_complete) {
      second_ = to_number(place + 1, digits);
      place = end;
    }
  }
  if (!is_complete && is(U':', place)) return false;
  read_zone();
  return true;
}

void DateScanner::read_zone() {
  east_ = 0;
  std::size_t start = place;
  while (start < text_.size() && is_blank(text_[start])) ++start;
  std::size_t letters = 0;
  while (start + letters < text_.size() && is_letter(text_[start + letters])) ++letters;
  Text name(text_.substr(start, std::min<std::size_t>(letters, 6)));
  std::transform(name.begin(), name.end(), name.begin(), to_lower);
  if ((name.empty() || name == U"gmt" || name == U"utc" || name == U"ut") && read_offset(start + letters)) return;
  if (letters < 1 || letters > 5) return;
  for (const Zone& zone : kZones) {
    if (zone.name == name) east_ = zone.hours * 3600;
  }
  place = start + letters;
}

// `([+-])([0-9]{1,2}:?[0-9]{2}|[0-9]{2})(?![0-9])`
bool DateScanner::read_offset(std::size_t at) {
  if (!is(U'+', at) && !is(U'-', at)) return false;
  const std::size_t digits = count_digits(at + 1);
  std::int64_t hours = 0, minutes = 0;
  std::size_t end = at + 1 + digits;
  if ((digits == 1 || digits == 2) && is(U':', end) && count_digits(end + 1) == 2) {
    hours = to_number(at + 1, digits);
    minutes = to_number(end + 1, 2);
    end += 3;
  } else if (digits == 3 || digits == 4) {
    hours = to_number(at + 1, digits - 2);
    minutes = to_number(end - 2, 2);
  } else if (digits == 2) {
    hours = to_number(at + 1, 2);
  } else {
    return false;
  }
  place = end;
  if (hours <= 24 && minutes <= 59) east_ = (hours * 3600 + minutes * 60) * (is(U'-', at) ? -1 : 1);
  return true;
}

std::optional<std::int64_t> DateScanner::count_seconds() const {
  const std::int64_t year = year_ < 50 ? year_ + 2000 : year_ < 1000 ? year_ + 1900 : year_;  // RFC 5322
  if (year < kEarliest || year > kLatest || hour_ > 24 || minute_ > 59 || second_ > 60) return std::nullopt;
  const bool is_leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  const auto month_days = [&](std::int64_t month) { return kMonthDays[month - 1] + (month == 2 && is_leap_year); };
  if (day_ < 1 || day_ > month_days(month_)) return std::nullopt;
  const std::int64_t before = year - 1;  // The last complete year.
  std::int64_t days = before * 365 + before / 4 - before / 100 + before / 400 + day_ - 719'163;
  for (std::int64_t month = 1; month < month_; ++month) days += month_days(month);
  return days * 86'400 + hour_ * 3600 + minute_ * 60 + second_ - east_;
}

}  // namespace

void DateReader::read(std::string_view name, TextView value) {
  if (arrival_ || is_left_) return;
  if (name == "received") {
    if (++received_ <= kReceived) arrival_ = parse(value.substr(value.size() - std::min(value.size(), kLongest)));
  } else if (name == "date" && !sent_) {
    sent_ = parse(first(value, kLongest));
  }
}

// Parses the last date in a text.
std::optional<std::int64_t> DateReader::parse(TextView text) {
  DateScanner scanner(text);
  std::optional<std::int64_t> seconds;
  bool is_found = false, may_have_time = false;
  for (std::size_t place = 0; place < text.size();) {
    if (!is_digit(text[place]) || (place > 0 && is_digit(text[place - 1]))) {
      // Every form has a time: digits, a colon or a point, and digits.
      may_have_time = may_have_time || ((text[place] == U':' || text[place] == U'.') && place > 0 && is_digit(text[place - 1]));
      ++place;
      continue;
    }
    if (scanner.match(place)) {
      seconds = scanner.count_seconds();
      is_found = true;
      place = scanner.place;
    } else {
      ++place;
    }
  }
  is_left_ = is_left_ || (!is_found && may_have_time);
  return seconds;
}

}  // namespace tamis::mail
