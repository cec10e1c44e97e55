#include "dates.hpp"

#include <algorithm>

namespace tamis::mail {

namespace {

constexpr std::size_t kLongest = 300;   // Characters of a value that are searched.
constexpr std::size_t kReceived = 20;   // Fields that are read.
constexpr std::int64_t kEarliest = 1971, kLatest = 9999;  // Years.
// Three letters as one number.
constexpr std::uint32_t to_code(std::uint32_t first, std::uint32_t second, std::uint32_t third) {
  return first << 16 | second << 8 | third;
}
constexpr std::uint32_t kMonths[] = {to_code('j', 'a', 'n'), to_code('f', 'e', 'b'), to_code('m', 'a', 'r'), to_code('a', 'p', 'r'),
                                     to_code('m', 'a', 'y'), to_code('j', 'u', 'n'), to_code('j', 'u', 'l'), to_code('a', 'u', 'g'),
                                     to_code('s', 'e', 'p'), to_code('o', 'c', 't'), to_code('n', 'o', 'v'), to_code('d', 'e', 'c')};
constexpr int kMonthDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
struct Zone {
  std::string_view name;
  int hours;  // East of Greenwich.
};
constexpr Zone kZones[] = {
    {"est", -5}, {"edt", -4}, {"cst", -6}, {"cdt", -5}, {"mst", -7},  {"mdt", -6},  {"pst", -8}, {"pdt", -7},
    {"ast", -4}, {"adt", -3}, {"bst", 1},  {"west", 1}, {"cet", 1},   {"cest", 2},  {"met", 1},  {"mest", 2},
    {"mez", 1},  {"mesz", 2}, {"eet", 2},  {"eest", 3}, {"msk", 3},   {"jst", 9},   {"kst", 9},  {"hkt", 8},
    {"sgt", 8},
};  // Other zones are read as UTC.

char32_t to_lower(char32_t c) { return c >= U'A' && c <= U'Z' ? c + 32 : c; }
bool is_letter(char32_t c) { return is_lower_letter(to_lower(c)); }
bool is_blank(char32_t c) { return c == U' ' || c == U'\t'; }

// The forms of a date, in the order in which they are searched for.
enum class Form {
  kMail,     // RFC 5322: "23 Aug 2002 23:10:22 +0800"
  kTime,     // C's ctime: "Aug 23 23:10:22 2002"
  kCommand,  // The command `date`: "Aug 23 23:10:22 CEST 2002"
  kIso,      // ISO 8601: "2002-08-23T23:10:22+08:00"
};

template <class Char>
class DateScanner {
 public:
  explicit DateScanner(View<Char> text) : text_(text) {}

  // Reads a date that begins at `start`, if there is one; then `place` is its end.
  bool match(Form form, std::size_t start);
  // Reads a text with one date in the usual form, such as " Fri, 23 Aug 2002 23:10:22 +0800 (HKT)", if it is one.
  bool match_usual();
  // Returns the date that was read; nothing if there is no such day or time.
  std::optional<SentTime> find_time() const;

  std::size_t place = 0;

 private:
  bool is(char32_t c, std::size_t at) const { return at < text_.size() && static_cast<char32_t>(text_[at]) == c; }
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
    for (std::size_t i = 0; i < digits; ++i) number = 10 * number + static_cast<std::int64_t>(text_[at + i] - Char{'0'});
    return number;
  }
  template <class Predicate>
  bool skip(Predicate belongs) {
    const std::size_t start = place;
    while (place < text_.size() && belongs(text_[place])) ++place;
    return place > start;
  }
  bool skip_blanks() { return skip(is_blank); }
  bool skip_one(char32_t c) {
    if (!is(c, place)) return false;
    ++place;
    return true;
  }
  // Whether a name, which is given in lower case, is at a place, with letters of any case.
  bool is_name(std::size_t at, std::string_view name) const {
    if (text_.size() - at < name.size()) return false;
    for (std::size_t i = 0; i < name.size(); ++i) {
      if (to_lower(static_cast<char32_t>(text_[at + i])) != static_cast<unsigned char>(name[i])) return false;
    }
    return true;
  }
  bool read_month();
  bool read_day_and_time();
  bool read_time();
  // Reads a zone that begins at `place`; returns false if there is none.
  bool read_zone();
  // Reads the zone at the end of a date, which may be missing, and the blanks before it.
  void read_last_zone();
  bool read_offset(std::size_t at);

  View<Char> text_;
  std::int64_t day_ = 0, month_ = 0, year_ = 0, hour_ = 0, minute_ = 0, second_ = 0, east_ = 0;
};

template <class Char>
bool DateScanner<Char>::match(Form form, std::size_t start) {
  place = start;
  east_ = 0;
  switch (form) {
    case Form::kMail:
      if (!read_number(1, 2, day_) || !skip([](char32_t c) { return is_blank(c) || c == U'-'; }) || !read_month() ||
          !skip([](char32_t c) { return is_blank(c) || c == U',' || c == U'-'; }) || !read_number(2, 4, year_) ||
          !skip([](char32_t c) { return is_blank(c) || c == U','; }) || !read_time()) {
        return false;
      }
      read_last_zone();
      return true;
    case Form::kTime:
      if (!read_day_and_time() || !read_number(4, 4, year_)) return false;
      read_last_zone();
      return true;
    case Form::kCommand:
      return read_day_and_time() && read_zone() && skip_blanks() && read_number(4, 4, year_);
    case Form::kIso:
      if (!read_number(4, 4, year_) || !skip_one(U'-') || !read_number(2, 2, month_) || !skip_one(U'-') ||
          !read_number(2, 2, day_) || !(skip_one(U' ') || skip_one(U't') || skip_one(U'T')) || !read_time()) {
        return false;
      }
      read_last_zone();
      return true;
  }
  return false;
}

template <class Char>
bool DateScanner<Char>::match_usual() {
  constexpr std::size_t kUsual = 31;  // Characters if the day has two digits. A shorter text is searched in the general way.
  std::size_t at = !text_.empty() && text_[0] == Char{' '};
  if (text_.size() < at + kUsual || !is(U',', at + 3) || !is(U' ', at + 4)) return false;
  if (!is_letter(text_[at]) || !is_letter(text_[at + 1]) || !is_letter(text_[at + 2]) || !is_digit(text_[at + 5])) return false;
  const std::size_t digits = is_digit(text_[at + 6]) ? 2 : 1;
  day_ = to_number(at + 5, digits);
  at += 5 + digits;  // At the space before the month.
  const auto has_digits = [this](std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_digit(text_[first + i])) return false;
    }
    return true;
  };
  if (!is(U' ', at) || !is(U' ', at + 4) || !has_digits(at + 5, 4) || !is(U' ', at + 9) || !has_digits(at + 10, 2) ||
      !is(U':', at + 12) || !has_digits(at + 13, 2) || !is(U':', at + 15) || !has_digits(at + 16, 2) || !is(U' ', at + 18) ||
      !(is(U'+', at + 19) || is(U'-', at + 19)) || !has_digits(at + 20, 4)) {
    return false;
  }
  for (std::size_t rest = at + 24; rest < text_.size(); ++rest) {
    if (is_digit(text_[rest])) return false;
  }
  place = at + 1;
  if (!read_month() || place != at + 4) return false;
  year_ = to_number(at + 5, 4);
  hour_ = to_number(at + 10, 2);
  minute_ = to_number(at + 13, 2);
  second_ = to_number(at + 16, 2);
  east_ = 0;
  return read_offset(at + 19);
}

template <class Char>
bool DateScanner<Char>::read_month() {
  if (text_.size() - place < 3) return false;
  const char32_t first = to_lower(text_[place]), second = to_lower(text_[place + 1]), third = to_lower(text_[place + 2]);
  if (!is_lower_letter(first) || !is_lower_letter(second) || !is_lower_letter(third)) return false;
  const auto month = std::find(std::begin(kMonths), std::end(kMonths), to_code(first, second, third));
  if (month == std::end(kMonths)) return false;
  month_ = month - std::begin(kMonths) + 1;
  place += 3;
  skip(is_letter);
  place += is(U'.', place);
  return true;
}

// Reads the beginning of two forms: "Aug 23 23:10:22 ".
template <class Char>
bool DateScanner<Char>::read_day_and_time() {
  return read_month() && skip_blanks() && read_number(1, 2, day_) && skip_blanks() && read_time() && skip_blanks();
}

template <class Char>
bool DateScanner<Char>::read_time() {
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
  return is_complete || !is(U':', place);
}

template <class Char>
void DateScanner<Char>::read_last_zone() {
  const std::size_t end = place;
  skip_blanks();
  if (!read_zone()) place = end;
}

template <class Char>
bool DateScanner<Char>::read_zone() {
  std::size_t letters = 0;
  while (place + letters < text_.size() && is_letter(text_[place + letters])) ++letters;
  const auto is_named = [&](std::string_view name) { return letters == name.size() && is_name(place, name); };
  if ((letters == 0 || is_named("gmt") || is_named("utc") || is_named("ut")) && read_offset(place + letters)) return true;
  if (letters < 1 || letters > 5) return false;
  for (const Zone& zone : kZones) {
    if (is_named(zone.name)) east_ = zone.hours * 3600;
  }
  place += letters;
  return true;
}

// `([+-])([0-9]{1,2}:?[0-9]{2}|[0-9]{2})(?![0-9])`
template <class Char>
bool DateScanner<Char>::read_offset(std::size_t at) {
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

template <class Char>
std::optional<SentTime> DateScanner<Char>::find_time() const {
  const std::int64_t year = year_ < 50 ? year_ + 2000 : year_ < 1000 ? year_ + 1900 : year_;  // RFC 5322
  if (year < kEarliest || year > kLatest || month_ < 1 || month_ > 12 || hour_ > 24 || minute_ > 59 || second_ > 60) {
    return std::nullopt;
  }
  const bool is_leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  const auto month_days = [&](std::int64_t month) { return kMonthDays[month - 1] + (month == 2 && is_leap_year); };
  if (day_ < 1 || day_ > month_days(month_)) return std::nullopt;
  const std::int64_t before = year - 1;  // The last complete year.
  std::int64_t days = before * 365 + before / 4 - before / 100 + before / 400 + day_ - 719'163;
  for (std::int64_t month = 1; month < month_; ++month) days += month_days(month);
  return SentTime{days * 86'400 + hour_ * 3600 + minute_ * 60 + second_ - east_, hour_, second_};
}

template <class Char>
bool begins_number(View<Char> text, std::size_t place) {
  return is_digit(text[place]) && (place == 0 || !is_digit(text[place - 1]));
}

// Whether a date of a form may begin at this place.
template <class Char>
bool may_begin(View<Char> text, std::size_t place, Form form) {
  if (form == Form::kMail || form == Form::kIso) return begins_number(text, place);
  return is_letter(text[place]) && (place == 0 || !is_letter(text[place - 1]));
}

// Finds the dates of a form from left to right, which do not overlap; returns whether there are any. `time` is the last one.
template <class Char>
bool find_last(View<Char> text, Form form, std::optional<SentTime>& time) {
  DateScanner<Char> scanner(text);
  bool is_found = false;
  for (std::size_t place = 0; place < text.size();) {
    if (may_begin(text, place, form) && scanner.match(form, place)) {
      time = scanner.find_time();
      is_found = true;
      place = scanner.place;
    } else {
      ++place;
    }
  }
  return is_found;
}

template <class Char>
std::optional<SentTime> parse(View<Char> text) {
  std::optional<SentTime> time;
  // Nearly all dates have the usual form. Most others have the form kMail and are at the end of a field, so that this form is
  // searched for from right to left.
  DateScanner<Char> scanner(text);
  if (scanner.match_usual()) return scanner.find_time();
  bool may_have_time = false;  // Every form has a time: digits, a colon or a point, and digits.
  for (std::size_t place = text.size(); place-- > 0;) {
    may_have_time = may_have_time || text[place] == Char{':'} || text[place] == Char{'.'};
    if (!may_have_time || !begins_number(text, place) || !scanner.match(Form::kMail, place)) continue;
    // After one of these signs, the number may belong to the end of an earlier date: then the earlier date counts.
    const char32_t before = place > 0 ? static_cast<char32_t>(text[place - 1]) : U' ';
    const bool may_overlap = before == U':' || before == U'.' || before == U',' || before == U'+' || before == U'-';
    if (!may_overlap) return scanner.find_time();
    find_last(text, Form::kMail, time);
    return time;
  }
  if (!may_have_time) return time;
  for (const Form form : {Form::kTime, Form::kCommand, Form::kIso}) {
    if (find_last(text, form, time)) return time;
  }
  return time;
}

}  // namespace

std::optional<SentTime> parse_sent_time(TextView text) { return parse(text); }
std::optional<SentTime> parse_sent_time(std::string_view ascii) { return parse(ascii); }

template <class Char>
void DateReader::read_value(std::string_view name, View<Char> value) {
  if (arrival_) return;
  const auto find_seconds = [](View<Char> text) -> std::optional<std::int64_t> {
    const std::optional<SentTime> time = parse(text);
    return time ? std::optional(time->seconds) : std::nullopt;
  };
  if (name == "received") {
    if (++received_ <= kReceived) arrival_ = find_seconds(value.substr(value.size() - std::min(value.size(), kLongest)));
  } else if (name == "date" && !sent_) {
    sent_ = find_seconds(mail::first(value, kLongest));
  }
}
template void DateReader::read_value(std::string_view, View<char>);
template void DateReader::read_value(std::string_view, View<char32_t>);

}  // namespace tamis::mail
