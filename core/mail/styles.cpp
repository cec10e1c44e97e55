#include "styles.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "entities.hpp"
#include "pages_search.hpp"

namespace tamis::mail {

namespace {

constexpr std::size_t kLongestAttributes = 10'000;
constexpr double kTiny = 2.0;          // Pixels: text of that size is unreadable.
constexpr double kFar = -500.0;        // Pixels: text that is moved so far is outside the page.
constexpr std::size_t kValue = 80;     // Characters of a value.
constexpr int kDeclarations = 30;      // Declarations of a style that are read.
constexpr int kColours = 4;            // Attributes with a colour that are read.
constexpr std::size_t kImage = 200;    // Characters between `background` and an address.
constexpr std::size_t kSelector = 300;  // Characters before a rule that may be its selector.

enum class Property {
  kNone, kDisplay, kVisibility, kFontSize, kOpacity, kColour, kBackground, kMsoHide, kTextIndent, kLineHeight, kPlace,
  kClip, kSize, kOverflow,
};
struct PropertyName {
  TextView name;
  Property property;
};
constexpr PropertyName kProperties[] = {
    {U"display", Property::kDisplay},       {U"visibility", Property::kVisibility},
    {U"font-size", Property::kFontSize},    {U"opacity", Property::kOpacity},
    {U"color", Property::kColour},          {U"background", Property::kBackground},
    {U"mso-hide", Property::kMsoHide},      {U"background-color", Property::kBackground},
    {U"text-indent", Property::kTextIndent}, {U"line-height", Property::kLineHeight},
    {U"left", Property::kPlace},            {U"top", Property::kPlace},
    {U"margin-left", Property::kPlace},     {U"clip", Property::kClip},
    {U"height", Property::kSize},           {U"width", Property::kSize},
    {U"max-height", Property::kSize},       {U"max-width", Property::kSize},
    {U"overflow", Property::kOverflow},     {U"overflow-x", Property::kOverflow},
    {U"overflow-y", Property::kOverflow},
};

bool is_name_character(char32_t c) { return is_lower_letter(c) || c == U'-'; }

// A declaration that begins at a place: its property, and where its value begins. A name that is not known, and one
// without a colon, is none.
std::pair<Property, std::size_t> read_declaration(TextView style, std::size_t place) {
  const std::size_t start = place;
  while (place < style.size() && is_name_character(style[place])) ++place;
  const TextView name = style.substr(start, place - start);
  place = skip_ascii_spaces(style, place);
  if (place >= style.size() || style[place] != U':') return {Property::kNone, 0};
  for (const PropertyName& known : kProperties) {
    if (known.name == name) return {known.property, skip_ascii_spaces(style, place + 1)};
  }
  return {Property::kNone, 0};
}

// Calls `use` with the property and the place of the value of each declaration that `is_wanted`: at the beginning, or
// after a semicolon, a brace or a space. `use` returns where the search goes on, or `kNowhere` to end it; the place
// where the declaration began if it is none after all.
template <class IsWanted, class Use>
void for_each_declaration(TextView style, IsWanted is_wanted, Use use) {
  for (std::size_t place = 0; place < style.size();) {
    const char32_t c = style[place];
    std::size_t next = kNowhere;
    const bool is_separator = c == U';' || c == U'{' || is_ascii_space(c);
    if (place == 0 || is_separator) {
      const auto [property, value] = read_declaration(style, is_separator ? place + 1 : place);
      if (property != Property::kNone && is_wanted(property)) {
        next = use(property, value);
        if (next == kNowhere) return;
      }
    }
    place = next == kNowhere || next <= place ? place + 1 : next;
  }
}

// Calls `use` with the property and the value of each of the first declarations of which `is_wanted` is true.
template <class IsWanted, class Use>
void for_each_value(TextView style, IsWanted is_wanted, Use use) {
  int count = 0;
  for_each_declaration(style, is_wanted, [&](Property property, std::size_t start) -> std::size_t {
    std::size_t end = start;
    while (end < style.size() && end - start < kValue && style[end] != U';') ++end;
    if (end == start) return 0;
    use(property, strip(style.substr(start, end - start)));
    return ++count == kDeclarations ? kNowhere : end;
  });
}

// A length in pixels at the beginning of a value; `unit` is the scale of a number without one. A number has up to six
// digits, a point and up to six digits, or up to twelve digits.
std::optional<double> read_pixels(TextView value, double unit = 1.0) {
  std::size_t place = !value.empty() && value[0] == U'-' ? 1 : 0;
  const bool is_negative = place == 1;
  double digits = 0.0, scale = 1.0;  // Both are whole numbers below 2^53, so that the quotient is rounded once.
  const auto read_digits = [&](std::size_t longest) {
    std::size_t count = 0;
    for (; count < longest && place < value.size() && is_digit(value[place]); ++count, ++place) {
      digits = digits * 10.0 + static_cast<double>(value[place] - U'0');
    }
    return count;
  };
  const std::size_t whole = read_digits(6);
  const bool has_fraction = place + 1 < value.size() && value[place] == U'.' && is_digit(value[place + 1]);
  if (has_fraction) ++place;
  const std::size_t more = read_digits(6);
  if (whole + more == 0) return std::nullopt;
  if (has_fraction) {
    for (std::size_t i = 0; i < more; ++i) scale *= 10.0;
  }
  const double number = (is_negative ? -digits : digits) / scale;
  constexpr std::pair<TextView, double> kUnits[] = {{U"px", 1.0},   {U"pt", 1.33}, {U"em", 16.0},
                                                    {U"rem", 16.0}, {U"ex", 8.0},  {U"%", 0.16}};
  for (const auto& [name, pixels] : kUnits) {
    if (is_at(value, place, name)) return number * pixels;
  }
  return number * unit;
}

// `rgb(` and three numbers, of one to three digits each.
std::optional<Colour> read_numbers(TextView value) {
  Colour colour{};
  std::size_t count = 0;
  for (std::size_t place = 0; place < value.size();) {
    if (!is_digit(value[place])) {
      ++place;
      continue;
    }
    int number = 0;
    for (int digits = 0; digits < 3 && place < value.size() && is_digit(value[place]); ++digits, ++place) {
      number = number * 10 + static_cast<int>(value[place] - U'0');
    }
    colour[count++] = number;
    if (count == 3) return colour;
  }
  return std::nullopt;
}

// Six hexadecimal digits as Python's `int` takes them: decimal digits of any script, and `0x` before four digits.
std::optional<Colour> read_hexadecimal(TextView digits) {
  int number = 0;
  for (std::size_t place = 0; place < 6; ++place) {
    const char32_t c = to_ascii_lower(digits[place]);
    const int decimal = c < 128 ? (is_digit(c) ? static_cast<int>(c - U'0') : -1)
                                : Py_UNICODE_TODECIMAL(static_cast<Py_UCS4>(c));
    if (place == 1 && c == U'x' && number == 0) continue;  // The first digit was a zero.
    if (decimal < 0 && !(c >= U'a' && c <= U'f')) return std::nullopt;
    number = number * 16 + (decimal >= 0 ? decimal : static_cast<int>(c - U'a') + 10);
  }
  return Colour{number >> 16, number >> 8 & 255, number & 255};
}

std::optional<Colour> read_colour(TextView value) {
  value = strip(value);
  if (starts_with(value, U"rgb")) return read_numbers(value);
  TextView word = before_first(value, U' ');
  if (word == U"white") return kWhite;
  if (word == U"black") return Colour{0, 0, 0};
  if (word == U"snow") return Colour{255, 250, 250};
  if (word == U"ivory") return Colour{255, 255, 240};
  while (!word.empty() && word[0] == U'#') word.remove_prefix(1);
  if (word.size() == 3) {
    const char32_t doubled[] = {word[0], word[0], word[1], word[1], word[2], word[2]};
    return read_hexadecimal(TextView(doubled, 6));
  }
  return word.size() == 6 ? read_hexadecimal(word) : std::nullopt;
}

// Whether a value begins with `rect(0 0 0`, with or without `px`, and with commas or spaces between.
bool is_clipped(TextView value) {
  if (!starts_with(value, U"rect(")) return false;
  std::size_t place = skip_spaces(value, 5);
  for (int number = 0;; ++number) {
    if (!is_at(value, place, U"0")) return false;
    if (number == 2) return true;
    place += is_at(value, place, U"0px") ? 3 : 1;
    const std::size_t start = place;
    while (place < value.size() && (is_space(value[place]) || value[place] == U',')) ++place;
    if (place == start) return false;
  }
}

// Whether a colour is `transparent`, or `rgba` or `hsla` whose last number is zero.
bool is_clear(TextView value) {
  if (starts_with(value, U"transparent")) return true;
  if (!starts_with(value, U"rgba(") && !starts_with(value, U"hsla(")) return false;
  for (std::size_t comma = 5; comma < value.size() && comma <= 45 && value[comma] != U')'; ++comma) {
    if (value[comma] != U',') continue;
    std::size_t place = skip_spaces(value, comma + 1);
    place += is_at(value, place, U"0");
    place += is_at(value, place, U".");
    while (is_at(value, place, U"0")) ++place;
    if (is_at(value, skip_spaces(value, place), U")")) return true;
  }
  return false;
}

void apply(Effect& effect, Property property, TextView value) {
  const auto hide_if = [&effect](bool is_hidden) { effect.is_hidden = effect.is_hidden || is_hidden; };
  const auto is_less = [](std::optional<double> size, double limit) { return size && *size < limit; };
  switch (property) {
    case Property::kDisplay: return hide_if(starts_with(value, U"none"));
    case Property::kVisibility:
      effect.is_visible = !starts_with(value, U"hidden") && !starts_with(value, U"collapse");
      return;
    case Property::kFontSize:
      if (const auto size = read_pixels(value)) effect.is_tiny = *size <= kTiny;
      return;
    case Property::kLineHeight:
      if (const auto size = read_pixels(value, 16.0)) effect.is_thin = *size <= kTiny;
      return;
    case Property::kOpacity:
      if (const auto size = read_pixels(value)) hide_if(*size <= 0.1);
      return;
    case Property::kMsoHide: return hide_if(starts_with(value, U"all"));
    case Property::kTextIndent:
    case Property::kPlace: return hide_if(is_less(read_pixels(value), kFar));
    case Property::kClip: return hide_if(is_clipped(value));
    case Property::kColour:
      if (is_clear(value)) return hide_if(true);
      effect.colour = read_colour(value);
      return;
    case Property::kBackground: effect.background = read_colour(value); return;
    default: return;
  }
}

// Whether content that does not fit is cut off, and nothing fits.
bool clips_everything(TextView style) {
  bool has_no_size = false, is_cut = false;
  for_each_value(style, [](Property property) { return property == Property::kSize; },
                 [&](Property, TextView value) {
                   const auto size = read_pixels(value);
                   has_no_size = has_no_size || (size && *size <= 1.0);
                 });
  if (!has_no_size) return false;
  for_each_declaration(style, [](Property property) { return property == Property::kOverflow; },
                       [&](Property, std::size_t value) -> std::size_t {
                         is_cut = is_at(style, value, U"hidden") || is_at(style, value, U"clip");
                         return is_cut ? kNowhere : 0;
                       });
  return is_cut;
}

// Whether the attribute `hidden` is there, before any style.
bool has_hidden_attribute(TextView attributes) {
  attributes = attributes.substr(0, find_part(attributes, U"style"));
  for (std::size_t place = 0; (place = find_part(attributes, U"hidden", place)) != kNowhere; ++place) {
    const std::size_t end = place + 6;
    if ((place == 0 || is_ascii_space(attributes[place - 1])) &&
        (end == attributes.size() || is_ascii_space(attributes[end]) || attributes[end] == U'=' ||
         attributes[end] == U'/')) {
      return true;
    }
  }
  return false;
}

// The attributes `color` and `bgcolor`.
void apply_colours(Effect& effect, TextView attributes) {
  int count = 0;
  std::size_t last = 0;  // The end of the last attribute that was read.
  for (std::size_t place = 0; count < kColours && (place = find_part(attributes, U"color", place)) != kNowhere;) {
    const bool is_background = place >= last + 2 && is_at(attributes, place - 2, U"bg");
    const std::size_t start = is_background ? place - 2 : place;
    const auto stands_alone = [&attributes](std::size_t at) {
      return at == 0 || !(is_ascii_word(attributes[at - 1]) || attributes[at - 1] == U'-');
    };
    place += 5;
    if (!stands_alone(start)) continue;
    std::size_t end = skip_ascii_spaces(attributes, place);
    if (end >= attributes.size() || attributes[end] != U'=') continue;
    end = skip_ascii_spaces(attributes, end + 1);
    if (end < attributes.size() && (attributes[end] == U'"' || attributes[end] == U'\'')) ++end;
    const std::size_t value = end;
    while (end < attributes.size() && end - value < 20 && (is_ascii_word(attributes[end]) || attributes[end] == U'#')) {
      ++end;
    }
    if (end == value) continue;
    (is_background ? effect.background : effect.colour) = read_colour(attributes.substr(value, end - value));
    last = place = end;
    ++count;
  }
}

// The value of the first attribute `style` that has one.
TextView find_style(TextView attributes) {
  for (std::size_t place = 0; (place = find_part(attributes, U"style", place)) != kNowhere; ++place) {
    if (place > 0 && is_ascii_word(attributes[place - 1])) continue;
    std::size_t start = skip_ascii_spaces(attributes, place + 5);
    if (start >= attributes.size() || attributes[start] != U'=') continue;
    start = skip_ascii_spaces(attributes, start + 1);
    if (start >= attributes.size()) continue;
    const char32_t quote = attributes[start];
    std::size_t end = start;
    if (quote == U'"' || quote == U'\'') {
      end = find_character(attributes, quote, ++start);
      return attributes.substr(start, end == kNowhere ? kNowhere : end - start);
    }
    const auto ends = [](char32_t c) { return is_ascii_space(c) || c == U'"' || c == U'\'' || c == U'>'; };
    while (end < attributes.size() && !ends(attributes[end])) ++end;
    if (end > start) return attributes.substr(start, end - start);
  }
  return {};
}

// Removes comments without a star in them.
Text remove_style_comments(TextView style) {
  Text rest;
  std::size_t last = 0;
  for (std::size_t start = 0; (start = find_part(style, U"/*", start)) != kNowhere;) {
    const std::size_t star = find_character(style, U'*', start + 2);
    if (star == kNowhere) break;
    std::size_t end = star;
    while (end < style.size() && style[end] == U'*') ++end;
    if (end < style.size() && style[end] == U'/') {
      rest += style.substr(last, start - last);
      last = start = end + 1;
    } else {
      ++start;
    }
  }
  rest += style.substr(last);
  return rest;
}

// Whether the background has an image: an address or a gradient after `background` or `background-image`.
bool has_background_image(TextView attributes) {
  for (std::size_t place = 0; (place = find_part(attributes, U"background", place)) != kNowhere;) {
    place += 10;
    std::size_t start = skip_ascii_spaces(attributes, is_at(attributes, place, U"-image") ? place + 6 : place);
    if (start >= attributes.size() || (attributes[start] != U':' && attributes[start] != U'=')) continue;
    const std::size_t end = std::min(attributes.size(), ++start + kImage + 1);
    for (; start < end; ++start) {
      const char32_t c = attributes[start];
      if ((c == U'u' && is_at(attributes, start, U"url(")) || (c == U'g' && is_at(attributes, start, U"gradient(")) ||
          (c == U'/' && is_at(attributes, start, U"//"))) {
        return true;
      }
      if (c == U';' || c == U'>') break;
    }
  }
  return false;
}

template <class Char>
bool has_word_with_effect(View<Char> attributes) {
  for (std::size_t place = 0; place + 5 <= attributes.size(); ++place) {
    switch (attributes[place] | 32) {
      case 's':
        if (is_at_in_any_case(attributes, place, "style")) return true;
        break;
      case 'c':
        if (is_at_in_any_case(attributes, place, "color")) return true;
        break;
      case 'h':
        if (is_at_in_any_case(attributes, place, "hidden")) return true;
        break;
      default: break;
    }
  }
  return false;
}

}  // namespace

bool may_have_effect(TextView attributes) { return has_word_with_effect(attributes); }
bool may_have_effect(std::string_view ascii) { return has_word_with_effect(ascii); }

Effect find_effect(TextView attributes) {
  attributes = first(attributes, kLongestAttributes);
  Text decoded;
  if (find_character(attributes, U'&') != kNowhere) {
    decoded = Text(attributes);
    decode_entities(decoded);
    decoded = lower(decoded);
    attributes = decoded;
  }
  Effect effect;
  effect.is_hidden = has_hidden_attribute(attributes);
  apply_colours(effect, attributes);
  TextView style = find_style(attributes);
  Text without_comments;
  if (has_part(style, U"/*")) {
    without_comments = remove_style_comments(style);
    style = without_comments;
  }
  for_each_value(style, [](Property property) { return property < Property::kSize; },
                 [&effect](Property property, TextView value) { apply(effect, property, value); });
  if (has_part(style, U"overflow") && clips_everything(style)) effect.is_hidden = true;
  effect.has_image = has_background_image(attributes);
  return effect;
}

bool is_same_colour(const Colour& left, const Colour& right) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (std::abs(left[i] - right[i]) > 12) return false;
  }
  return true;
}

namespace {

// The end of the rule whose opening brace is at a place, or `kNowhere` if there is none: declarations of a name, a
// colon and a value, which end with semicolons, or with the closing brace.
std::size_t find_rule_end(TextView text, std::size_t place) {
  const auto skip_run = [text](std::size_t at, std::size_t longest, auto belongs) {
    const std::size_t end = at + std::min(longest, text.size() - at);
    while (at < end && belongs(text[at])) ++at;
    return at;
  };
  place = skip_spaces(text, place + 1);
  for (bool is_first = true;; is_first = false) {
    const std::size_t name_end = skip_run(place, 40, [](char32_t c) { return is_ascii_letter(c) || c == U'-'; });
    const std::size_t colon = skip_spaces(text, name_end);
    std::size_t end = kNowhere;
    if (name_end > place && is_at(text, colon, U":")) {
      end = skip_run(colon + 1, 300, [](char32_t c) { return c != U'{' && c != U'}' && c != U';'; });
      if (end == colon + 1 || end == text.size() || text[end] == U'{' || (text[end] != U';' && text[end] != U'}')) {
        end = kNowhere;
      } else if (text[end] == U';') {
        end = skip_run(end + 1, text.size(), [](char32_t c) { return c == U';' || is_space(c); });
      }
    }
    if (end == kNowhere) return !is_first && is_at(text, place, U"}") ? place + 1 : kNowhere;
    place = end;
  }
}

// The beginning of a rule's selector: after the last brace before it, and in the same paragraph.
std::size_t find_selector(TextView text, std::size_t last, std::size_t rule) {
  const std::size_t earliest = std::max(last, rule > kSelector ? rule - kSelector : 0);
  const TextView before = text.substr(earliest, rule - earliest);
  const std::size_t brace = before.find_last_of(U"{}");
  const std::size_t start = brace == kNowhere ? 0 : brace + 1;
  const std::size_t paragraph = before.substr(start).rfind(U"\n\n");
  return earliest + start + (paragraph == kNowhere ? 0 : paragraph);
}

// Replaces conditions such as `@media print {` by spaces.
Text remove_conditions(const Text& text) {
  Text rest;
  std::size_t last = 0;
  for (std::size_t start = 0; (start = find_character(text, U'@', start)) != kNowhere;) {
    std::size_t end = start + 1;
    while (end < text.size() && end - start <= 20 && is_name_character(text[end])) ++end;
    bool is_condition = end - start > 3;
    const auto belongs = [](char32_t c) { return c != U'{' && c != U'}' && c != U';' && c != U'@'; };
    for (std::size_t count = 0; count < 300 && end < text.size() && belongs(text[end]); ++count) ++end;
    is_condition = is_condition && is_at(text, end, U"{");
    if (is_condition) {
      rest.append(text, last, start - last);
      rest.push_back(U' ');
      last = start = end + 1;
    } else {
      ++start;
    }
  }
  rest.append(text, last);
  return rest;
}

}  // namespace

Text remove_style_sheet(TextView text) {
  std::vector<std::pair<std::size_t, std::size_t>> rules;
  for (std::size_t start = 0; (start = find_character(text, U'{', start)) != kNowhere;) {
    const std::size_t end = find_rule_end(text, start);
    if (end != kNowhere) rules.emplace_back(start, end);
    start = end == kNowhere ? start + 1 : end;
  }
  if (rules.size() < 2) return Text(text);
  Text rest;
  std::size_t last = 0;
  for (const auto& [start, end] : rules) {
    rest += text.substr(last, find_selector(text, last, start) - last);
    rest.push_back(U' ');
    last = end;
  }
  rest += text.substr(last);
  return remove_conditions(rest);
}

}  // namespace tamis::mail
