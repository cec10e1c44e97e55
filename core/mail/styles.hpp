// Computes the effect of a tag's attributes on the text within: edition 2 of `tamis_mail.message.styles` is the reference.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "unicode.hpp"

namespace tamis::mail {

using Colour = std::array<int, 3>;  // Red, green and blue, each from 0 to 999, as it was written.
constexpr Colour kWhite{255, 255, 255};

// The effect of attributes on the text within; a member without value means none.
struct Effect {
  bool is_hidden = false;
  std::optional<bool> is_visible;
  std::optional<bool> is_tiny;
  std::optional<bool> is_thin;  // The lines have no height.
  std::optional<Colour> colour;
  std::optional<Colour> background;
  bool has_image = false;  // The background is an image, so that its colours are unknown.
};

// Returns whether attributes, in any case, have one of the words without which they have no effect.
bool may_have_effect(TextView attributes);
bool may_have_effect(std::string_view ascii);
// Returns the effect of attributes, given in lower case.
Effect find_effect(TextView attributes);
bool is_same_colour(const Colour& left, const Colour& right);

// Removes the rules of a style sheet, which careless programs leave in plain text; a single one stays.
Text remove_style_sheet(TextView text);

}  // namespace tamis::mail
