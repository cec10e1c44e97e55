// Attributes of a tag to their effect on the text within: edition 2 of `tamis_mail.message.styles`.
#pragma once

#include <array>
#include <optional>

#include "unicode.hpp"

namespace tamis::mail {

using Colour = std::array<int, 3>;  // Red, green and blue, each up to 999 if it was written so.
constexpr Colour kWhite{255, 255, 255};

// The effect of attributes on the text within; empty where they have none.
struct Effect {
  bool is_hidden = false;
  std::optional<bool> is_visible;
  std::optional<bool> is_tiny;
  std::optional<bool> is_thin;  // The lines have no height.
  std::optional<Colour> colour;
  std::optional<Colour> background;
  bool has_image = false;  // The background is an image, so that its colours are unknown.
};

// Whether attributes, in either case of letters, hold one of the words without which they have no effect.
bool may_have_effect(TextView attributes);
// The effect of attributes, given in lower case.
Effect find_effect(TextView attributes);
bool is_same_colour(const Colour& left, const Colour& right);

// Removes the rules of a style sheet, which careless programs leave in plain text; a single one stays.
Text remove_style_sheet(TextView text);

}  // namespace tamis::mail
