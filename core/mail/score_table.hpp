// All counts of a store in memory, by which many messages are judged.
#pragma once

#include "../common.hpp"

namespace tamis::mail {

// Adds `ScoreTable` to `tamis._core.mail`.
void bind_score_table(nb::module_& m);

}  // namespace tamis::mail
