// Sorts numbers that are almost in order.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tamis::mail {

// Exchanges neighbours that are not in order, in several rounds over all numbers. Numbers that were distributed to buckets of
// about one each by their highest bits are in ascending order then, except in large buckets. There are no branches: a processor
// could not predict which neighbours are exchanged.
void exchange_neighbours(std::uint64_t* numbers, std::size_t size);

}  // namespace tamis::mail
