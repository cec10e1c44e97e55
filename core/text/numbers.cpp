// Numbers keys, finds tokens among known ones, and joins tokens to names.
#include <algorithm>

#include "parts.hpp"
#include "tables.hpp"

namespace tamis::text {
namespace {

using Bytes = Input<uint8_t, 1>;
using Int64s = Input<int64_t, 1>;
using UInt64s = Input<uint64_t, 1>;

constexpr size_t kAhead = 16;  // keys whose slots are loaded in advance

// Return log2 of the number of slots of a table of `count` keys: at most half of them are used.
inline int choose_bits(uint64_t count) { return std::max(4, count_bits(2 * count)); }

void make_keys(Bytes text, Int64s starts, Int64s lengths, uint64_t seed, Output<uint64_t, 1> keys) {
  if (lengths.size() != starts.size() || keys.size() != starts.size()) refuse("got arrays of different lengths");
  const TokenTexts tokens = {text.data(), static_cast<int64_t>(text.size()), starts.data(), lengths.data()};
  uint64_t* const out = keys.data();
  for (int64_t token = 0, count = static_cast<int64_t>(starts.size()); token < count; ++token) {
    out[token] = make_key(tokens.at(token), tokens.lengths[token], seed);
  }
}

// Number the keys of one share of the work; write the first position of each number, and return their count.
int64_t number_keys(UInt64s keys, int64_t share, int64_t shares, uint64_t share_multiplier, uint64_t seed,
                    Output<int32_t, 1> numbers, Output<int64_t, 1> first_positions) {
  if (shares < 1 || shares > 1 << 20) refuse("got a number of shares that is not positive, or too large");
  const size_t count = keys.size();
  if (numbers.size() != count || first_positions.size() != count) refuse("got arrays of different lengths");
  const uint64_t* const key = keys.data();
  int64_t* const first = first_positions.data();
  int32_t* const number_of = numbers.data();
  const uint32_t divisor = static_cast<uint32_t>(shares);
  const bool is_power = (divisor & (divisor - 1)) == 0;
  // Phrases are mostly new, and so a table grows once.
  GrowingSlots slots(std::max(14, choose_bits(count / (2 * static_cast<uint64_t>(shares)))), seed);
  uint64_t known = 0;
  const auto number_key = [&](size_t token) {
    for (;;) {
      const Slots layout = slots.layout();
      Slot* const table = slots.get();
      for (uint64_t at = layout.first(key[token]);; at = layout.next(at)) {
        const Slot slot = table[at];
        if (slot.end == 0) {
          if (slots.is_full(known)) break;
          if (known >= std::numeric_limits<int32_t>::max()) refuse("got more distinct keys than can be numbered");
          table[at] = {key[token], known + 1};
          first[known] = static_cast<int64_t>(token);
          number_of[token] = static_cast<int32_t>(known++);
          return;
        }
        if (slot.key == key[token]) {
          number_of[token] = static_cast<int32_t>(slot.end - 1);
          return;
        }
      }
      slots.grow(known, [&](uint64_t number) { return key[first[number]]; });
    }
  };
  if (divisor == 1) {
    for (size_t token = 0; token < count; ++token) {
      if (token + kAhead < count) slots.prefetch_key(key[token + kAhead]);
      number_key(token);
    }
    return static_cast<int64_t>(known);
  }
  size_t waiting[kAhead];  // positions of keys whose slots are being loaded, in turns
  size_t n_seen = 0;
  for (size_t token = 0; token < count; ++token) {
    const uint32_t place = static_cast<uint32_t>(key[token] * share_multiplier >> 40);
    if ((is_power ? place & (divisor - 1) : place % divisor) != static_cast<uint64_t>(share)) continue;
    slots.prefetch_key(key[token]);
    size_t& turn = waiting[n_seen % kAhead];
    if (n_seen >= kAhead) number_key(turn);
    turn = token;
    ++n_seen;
  }
  for (size_t k = n_seen < kAhead ? 0 : n_seen - kAhead; k < n_seen; ++k) number_key(waiting[k % kAhead]);
  return static_cast<int64_t>(known);
}

// Check an array that holds a table; return its layout.
Slots check_table(size_t size, uint64_t seed) {
  const int bits = count_bits(size / 2) - 1;
  if (bits < 1 || size != size_t{2} << bits) refuse("got a table whose length is not a power of two");
  return {bits, seed};
}

inline Slot read_slot(const uint64_t* table, uint64_t at) { return {table[2 * at], table[2 * at + 1]}; }

// Write a table of keys to an array of zeros.
void index_keys(UInt64s keys, uint64_t seed, Output<uint64_t, 1> table) {
  const Slots layout = check_table(table.size(), seed);
  if (keys.size() >= layout.count()) refuse("got a table with fewer slots than keys");
  uint64_t* const slots = table.data();
  const uint64_t* const key_of = keys.data();
  const size_t count = keys.size();
  for (size_t number = 0; number < count; ++number) {
    if (number + kAhead < count) prefetch(slots + 2 * layout.first(key_of[number + kAhead]));
    const uint64_t key = key_of[number];
    uint64_t at = layout.first(key);
    for (uint64_t steps = layout.count(); slots[2 * at + 1] != 0; at = layout.next(at)) {
      if (steps-- == 0) refuse("got a table that is full");
    }
    slots[2 * at] = key;
    slots[2 * at + 1] = number + 1;
  }
}

// Write the number of each key for which `is_same(key index, number)` holds; -1 if there is none.
template <class IsSame>
void find_numbers(UInt64s table, uint64_t seed, UInt64s keys, Output<int32_t, 1> numbers, IsSame is_same) {
  const Slots layout = check_table(table.size(), seed);
  if (numbers.size() != keys.size()) refuse("got arrays of different lengths");
  const uint64_t *const slots = table.data(), *const key_of = keys.data();
  int32_t* const number_of = numbers.data();
  const size_t count = keys.size();
  for (size_t token = 0; token < count; ++token) {
    if (token + kAhead < count) prefetch(slots + 2 * layout.first(key_of[token + kAhead]));
    const uint64_t key = key_of[token];
    int32_t number = -1;
    uint64_t at = layout.first(key);
    for (uint64_t steps = layout.count(); steps > 0; --steps, at = layout.next(at)) {
      const Slot slot = read_slot(slots, at);
      if (slot.end == 0) break;
      if (slot.key == key && is_same(token, slot.end - 1)) {
        number = static_cast<int32_t>(slot.end - 1);
        break;
      }
    }
    number_of[token] = number;
  }
}

void find_keys(UInt64s table, uint64_t seed, UInt64s keys, Output<int32_t, 1> numbers) {
  find_numbers(table, seed, keys, numbers, [](size_t, uint64_t) { return true; });
}

void find_tokens(UInt64s table, uint64_t seed, Bytes text, Int64s starts, Int64s lengths, Bytes other_text,
                 Int64s other_starts, Int64s other_lengths, UInt64s keys, Output<int32_t, 1> numbers) {
  if (lengths.size() != starts.size() || other_starts.size() != keys.size() || other_lengths.size() != keys.size()) {
    refuse("got arrays of different lengths");
  }
  const TokenTexts known = {text.data(), static_cast<int64_t>(text.size()), starts.data(), lengths.data()};
  const TokenTexts others = {other_text.data(), static_cast<int64_t>(other_text.size()), other_starts.data(),
                             other_lengths.data()};
  find_numbers(table, seed, keys, numbers,
               [known, others, key_of = keys.data(), n_known = starts.size()](size_t token, uint64_t number) {
                 if (key_of[token] < kLongKey) return true;
                 if (number >= n_known) refuse("got a table with a number that no token has");
                 const int64_t length = others.lengths[token];
                 return known.lengths[number] == length && has_same_bytes(known.at(number), others.at(token), length);
               });
}

// Refuse names of tokens that do not exist.
void check_names(const Input<int32_t, 1>& numbers, const Int64s& bounds, size_t n_tokens) {
  check_offsets(bounds.data(), bounds.size(), static_cast<int64_t>(numbers.size()));
  for (size_t k = 0; k < numbers.size(); ++k) {
    if (static_cast<uint32_t>(numbers.data()[k]) >= n_tokens) refuse("got a number that no token has");
  }
}

// Write the names that `bounds` divides the numbers of tokens into, each at its place.
void join_tokens(Bytes text, Int64s starts, Int64s lengths, Input<int32_t, 1> numbers, Int64s bounds, Bytes separator,
                 Int64s places, Output<uint8_t, 1> out) {
  if (lengths.size() != starts.size() || places.size() + 1 != bounds.size()) refuse("got arrays of different lengths");
  check_names(numbers, bounds, starts.size());
  const TokenTexts tokens = {text.data(), static_cast<int64_t>(text.size()), starts.data(), lengths.data()};
  uint8_t* const text_out = out.data();
  const int64_t size = static_cast<int64_t>(out.size());
  const auto put = [text_out, size](int64_t place, const uint8_t* bytes, int64_t length) {
    if (place < 0 || length > size || place > size - length) refuse("got a place for a name outside of the text");
    int64_t k = 0;
    for (; k + 8 <= length; k += 8) std::memcpy(text_out + place + k, bytes + k, 8);
    for (; k < length; ++k) text_out[place + k] = bytes[k];  // most are short: a call of memcpy would take longer
    return place + length;
  };
  const int64_t* const bound = bounds.data();
  const int32_t* const token_of = numbers.data();
  const uint8_t* const between = separator.data();
  const int64_t between_length = static_cast<int64_t>(separator.size());
  for (size_t name = 0; name + 1 < bounds.size(); ++name) {
    int64_t place = places.data()[name];
    for (int64_t k = bound[name], first = k; k < bound[name + 1]; ++k) {
      if (k > first) place = put(place, between, between_length);
      place = put(place, tokens.at(token_of[k]), tokens.lengths[token_of[k]]);
    }
  }
}

}  // namespace

void bind_numbers(nb::module_& m) {
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  m.def("make_keys", make_keys, nb::arg("text").noconvert(), nb::arg("starts").noconvert(),
        nb::arg("lengths").noconvert(), nb::arg("seed"), nb::arg("keys").noconvert(), Unlocked());
  m.def("number_keys", number_keys, nb::arg("keys").noconvert(), nb::arg("share"), nb::arg("shares"),
        nb::arg("share_multiplier"), nb::arg("seed"), nb::arg("numbers").noconvert(),
        nb::arg("first_positions").noconvert(), Unlocked());
  m.def("index_keys", index_keys, nb::arg("keys").noconvert(), nb::arg("seed"), nb::arg("table").noconvert(),
        Unlocked());
  m.def("find_keys", find_keys, nb::arg("table").noconvert(), nb::arg("seed"), nb::arg("keys").noconvert(),
        nb::arg("numbers").noconvert(), Unlocked());
  m.def("find_tokens", find_tokens, nb::arg("table").noconvert(), nb::arg("seed"), nb::arg("text").noconvert(),
        nb::arg("starts").noconvert(), nb::arg("lengths").noconvert(), nb::arg("other_text").noconvert(),
        nb::arg("other_starts").noconvert(), nb::arg("other_lengths").noconvert(), nb::arg("keys").noconvert(),
        nb::arg("numbers").noconvert(), Unlocked());
  m.def("join_tokens", join_tokens, nb::arg("text").noconvert(), nb::arg("starts").noconvert(),
        nb::arg("lengths").noconvert(), nb::arg("numbers").noconvert(), nb::arg("bounds").noconvert(),
        nb::arg("separator").noconvert(), nb::arg("places").noconvert(), nb::arg("out").noconvert(), Unlocked());
}

}  // namespace tamis::text
