// The counts and coefficients of a store → a table of its features, by which messages are judged: `judge_many` of
// tamis_mail/verdict/arrays.py, up to rounding. tests/mail/verdict/test_score_table.py keeps the two equal.
//
// A store may be damaged: its rows are checked, and counts are added without a sign. Features of a sender's choice cost no more than
// a binary search each.
#include "score_table.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "../compiler.hpp"
#include "../require.hpp"
#include "batch.hpp"
#include "row_groups.hpp"

namespace tamis::mail {

namespace {

constexpr int kKeyBits = 48;
constexpr std::size_t kMaxViews = 8;
constexpr std::size_t kHeaders = 1;          // Grams and headers say how familiar a message is.
constexpr std::size_t kLargeBucket = 16;     // A larger one is bisected.
constexpr std::size_t kAhead = 32;           // Features that are looked up together.
constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
constexpr double kUnit = 1.0 / 1024;  // UNIT of tamis_mail/store/coefficients.py

// Features with distinct keys in ascending order.
struct Entries {
  std::vector<std::uint64_t> keys;
  std::vector<std::int64_t> counts;           // (keys, labels)
  std::vector<std::int16_t> coefficients;     // In units.

  std::size_t size() const { return keys.size(); }
};

// What is known of a feature. It lies in one line of the cache, for which a look-up waits once.
struct Row {
  std::uint64_t key;
  std::uint32_t group;
  std::int32_t coefficient;  // In units.
};

// A view of a rule, with the messages of both sides.
struct ViewRule {
  double scale, prior, is_pooled, reluctance, tilt, doubt, centre, spams, hams, shrinkage;
};
constexpr std::size_t kViewNumbers = sizeof(ViewRule) / sizeof(double);

using Columns = std::vector<std::pair<std::size_t, double>>;  // Columns of counts, and the value of a unit of each.

// One side against another.
struct Comparison {
  std::vector<ViewRule> views;
  double acquaintance;
  std::vector<double> weights;          // By group.
  std::vector<unsigned char> is_known;  // By group.
};

std::uint64_t read_number(const char* bytes, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t byte = 0; byte < size; ++byte) number |= std::uint64_t{static_cast<unsigned char>(bytes[byte])} << 8 * byte;
  return number;
}

std::int64_t read_signed(const char* bytes, std::size_t size) {
  const int unused = 64 - 8 * static_cast<int>(size);
  return static_cast<std::int64_t>(read_number(bytes, size) << unused) >> unused;
}

// A row of the tables `shelf` or `coefficient`.
struct Shelf {
  std::uint64_t number;  // From 0.
  std::string_view data;
};

std::vector<Shelf> view_shelves(const nb::list& rows, std::int64_t start, int bits) {
  std::vector<Shelf> shelves;
  shelves.reserve(rows.size());
  for (const nb::handle row : rows) {
    const nb::tuple pair = nb::cast<nb::tuple>(row);
    require(pair.size() == 2 && PyBytes_Check(nb::handle(pair[1]).ptr()), "expected pairs of a number and bytes");
    const std::int64_t number = nb::cast<std::int64_t>(pair[0]);
    require(number >= start && static_cast<std::uint64_t>(number) - static_cast<std::uint64_t>(start) < std::uint64_t{1} << bits,
            "a shelf is out of place");
    PyObject* bytes = nb::handle(pair[1]).ptr();
    shelves.push_back({static_cast<std::uint64_t>(number) - static_cast<std::uint64_t>(start),
                       {PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))}});
  }
  return shelves;
}

// Calls `read(bytes after the key)` for each entry of shelves, whose keys must ascend.
template <class Read>
void read_entries(const std::vector<Shelf>& shelves, int bits, std::size_t value_bytes, std::size_t most, Entries& entries, Read read) {
  const int shift = kKeyBits - bits;
  const std::size_t key_bytes = shift <= 32 ? 4 : 8, entry_bytes = key_bytes + value_bytes;
  std::size_t size = 0;
  for (const Shelf& shelf : shelves) {
    require(shelf.data.size() % entry_bytes == 0, "a shelf is cut off");
    size += shelf.data.size() / entry_bytes;
    require(size <= most, "there are more entries than expected");
  }
  entries.keys.reserve(size);
  for (const Shelf& shelf : shelves) {
    for (std::size_t place = 0; place < shelf.data.size(); place += entry_bytes) {
      const char* entry = shelf.data.data() + place;
      const std::uint64_t key = shelf.number << shift | read_number(entry, key_bytes);
      require(key >> kKeyBits == 0 && (entries.keys.empty() || key > entries.keys.back()), "entries are out of order");
      entries.keys.push_back(key);
      read(entry + key_bytes);
    }
  }
}

// The sum of both.
Entries add_entries(const Entries& left, const Entries& right, std::size_t labels) {
  Entries sum;
  const std::size_t size = left.size() + right.size();
  sum.keys.reserve(size);
  sum.counts.reserve(size * labels);
  sum.coefficients.reserve(size);
  std::size_t i = 0, j = 0;
  while (i < left.size() || j < right.size()) {
    const bool has_left = i < left.size() && (j == right.size() || left.keys[i] <= right.keys[j]);
    const bool has_right = j < right.size() && (i == left.size() || right.keys[j] <= left.keys[i]);
    sum.keys.push_back(has_left ? left.keys[i] : right.keys[j]);
    for (std::size_t label = 0; label < labels; ++label) {
      const std::uint64_t one = has_left ? static_cast<std::uint64_t>(left.counts[i * labels + label]) : 0;
      const std::uint64_t other = has_right ? static_cast<std::uint64_t>(right.counts[j * labels + label]) : 0;
      sum.counts.push_back(static_cast<std::int64_t>(one + other));
    }
    // Only one of them has coefficients.
    sum.coefficients.push_back(static_cast<std::int16_t>((has_left ? left.coefficients[i] : 0) | (has_right ? right.coefficients[j] : 0)));
    i += has_left;
    j += has_right;
  }
  return sum;
}

class ScoreTable {
 public:
  ScoreTable(std::size_t labels, int view_bits) : labels_(labels), view_mask_((std::uint64_t{1} << view_bits) - 1) {
    require(view_bits >= 0 && std::size_t{1} << view_bits <= kMaxViews, "expected at most three bits of views");
  }

  // Adds the counts of a run: `rows` are its shelves, which have `entries` in all.
  void add_run(const nb::list& rows, std::int64_t start, int bits, std::size_t width, std::size_t labels, std::size_t entries) {
    require(bits >= 0 && bits <= kKeyBits && (width == 1 || width == 2 || width == 4 || width == 8), "expected the format of a run");
    require(labels <= labels_, "expected no more labels than there are");
    const std::vector<Shelf> shelves = view_shelves(rows, start, bits);
    const nb::gil_scoped_release unlocked;
    Entries run;
    run.counts.reserve(entries * labels_);
    read_entries(shelves, bits, width * labels, entries, run, [&](const char* counts) {
      for (std::size_t label = 0; label < labels_; ++label) {
        run.counts.push_back(label < labels ? read_signed(counts + label * width, width) : 0);
      }
    });
    run.coefficients.assign(run.size(), 0);
    parts_.push_back(std::move(run));
  }

  void add_coefficients(const nb::list& rows, int bits) {
    require(bits >= 0 && bits <= kKeyBits, "expected the format of coefficients");
    const std::vector<Shelf> shelves = view_shelves(rows, 0, bits);
    const nb::gil_scoped_release unlocked;
    Entries run;
    read_entries(shelves, bits, 2, std::numeric_limits<std::size_t>::max(), run, [&run](const char* value) {
      run.coefficients.push_back(static_cast<std::int16_t>(read_signed(value, 2)));
    });
    run.counts.assign(run.size() * labels_, 0);
    parts_.push_back(std::move(run));
    has_coefficients_ = true;
  }

  // Puts all parts together. Nothing may be added after that.
  void finish() {
    const nb::gil_scoped_release unlocked;
    std::sort(parts_.begin(), parts_.end(), [](const Entries& left, const Entries& right) { return left.size() > right.size(); });
    Entries all;
    while (!parts_.empty()) {  // The smallest ones first.
      all = all.size() == 0 ? std::move(parts_.back()) : add_entries(all, parts_.back(), labels_);
      parts_.pop_back();
    }
    const std::size_t size = all.size();
    require(size < kUnknown, "expected fewer than 2**32 features");
    std::vector<std::uint8_t> views(size);
    std::vector<std::int64_t> firsts(size);
    for (std::size_t row = 0; row < size; ++row) views[row] = static_cast<std::uint8_t>(all.keys[row] & view_mask_);
    RowGroups groups(views.data(), all.counts.data(), labels_);
    rows_.resize(size);
    for (std::size_t row = 0; row < size; ++row) {
      rows_[row] = {all.keys[row], static_cast<std::uint32_t>(groups.find(row, firsts.data())), all.coefficients[row]};
    }
    for (std::size_t group = 0; group < groups.size(); ++group) {
      const auto first = static_cast<std::size_t>(firsts[group]);
      group_views_.push_back(views[first]);
      for (std::size_t label = 0; label < labels_; ++label) group_counts_.push_back(all.counts[first * labels_ + label]);
    }
    while (size >> bucket_bits_ > 4 && bucket_bits_ < 24) ++bucket_bits_;
    buckets_.assign((std::size_t{1} << bucket_bits_) + 1, 0);
    for (const Row& row : rows_) ++buckets_[find_bucket(row.key) + 1];
    for (std::size_t bucket = 1; bucket < buckets_.size(); ++bucket) buckets_[bucket] += buckets_[bucket - 1];
  }

  // Adds a comparison of two sides. The log-odds of the first one include the coefficients.
  void compare(const Columns& left, const Columns& right, const std::vector<std::vector<double>>& views, double acquaintance) {
    require(views.size() <= kMaxViews, "expected at most eight views");
    Comparison comparison{{}, acquaintance, {}, {}};
    for (const std::vector<double>& numbers : views) {
      require(numbers.size() == kViewNumbers, "expected ten numbers per view");
      comparison.views.push_back({numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7],
                                  numbers[8], numbers[9]});
    }
    for (const Columns* columns : {&left, &right}) {
      for (const auto& [column, value] : *columns) require(column < labels_, "expected columns of labels");
    }
    const nb::gil_scoped_release unlocked;
    for (std::size_t group = 0; group < group_views_.size(); ++group) {
      const bool has_view = group_views_[group] < views.size();  // Else the store is damaged; no message has such a feature.
      const double s = count(group, left), h = count(group, right);
      comparison.weights.push_back(has_view ? weigh(comparison.views[group_views_[group]], s, h) : 0.0);
      comparison.is_known.push_back(has_view && s + h > 0);
    }
    comparisons_.push_back(std::move(comparison));
  }

  // The log-odds of each message, by each comparison.
  nb::list score(const MessageBatch& batch) const {
    std::vector<double> log_odds(batch.features.size() * comparisons_.size());
    {
      const nb::gil_scoped_release unlocked;
      std::vector<std::uint32_t> rows;
      for (std::size_t message = 0; message < batch.features.size(); ++message) {
        look_up(batch.features[message], rows);
        for (std::size_t number = 0; number < comparisons_.size(); ++number) {
          log_odds[message * comparisons_.size() + number] = compute_log_odds(batch.features[message], rows, number);
        }
      }
    }
    nb::list answers;
    for (std::size_t message = 0; message < batch.features.size(); ++message) {
      nb::list of_message;
      for (std::size_t number = 0; number < comparisons_.size(); ++number) {
        of_message.append(log_odds[message * comparisons_.size() + number]);
      }
      answers.append(of_message);
    }
    return answers;
  }

  std::size_t size() const { return rows_.size(); }

 private:
  std::size_t find_bucket(std::uint64_t key) const { return static_cast<std::size_t>(key >> (kKeyBits - bucket_bits_)); }

  double count(std::size_t group, const Columns& columns) const {
    double total = 0.0;
    for (const auto& [column, value] : columns) total += value * static_cast<double>(group_counts_[group * labels_ + column]);
    return total;
  }

  // `View.weigh` without its centre. A negative count is impossible: it makes the log-odds no number.
  static double weigh(const ViewRule& view, double s, double h) {
    if (s < 0 || h < 0) return std::numeric_limits<double>::quiet_NaN();
    if (view.shrinkage == 0 || !(s + h > 0)) return 0.0;
    const double rate = view.is_pooled != 0 ? (s + h) / (view.spams + view.hams) : 0.5;
    const double strength = view.is_pooled != 0 ? view.prior : 2 * view.prior;
    return std::log((s + strength * rate) / (view.spams + strength)) - std::log((h + strength * rate) / (view.hams + strength)) -
           view.centre;
  }

  // The row of each feature, or kUnknown.
  void look_up(const std::vector<std::uint64_t>& features, std::vector<std::uint32_t>& found) const {
    found.assign(features.size(), kUnknown);
    if (rows_.empty()) return;
    for (std::size_t begin = 0; begin < features.size(); begin += kAhead) {
      const std::size_t end = std::min(begin + kAhead, features.size());
      for (std::size_t place = begin; place < end; ++place) {  // Memory is fetched for all before one waits for it.
        if (features[place] >> kKeyBits != 0) continue;
        found[place] = buckets_[find_bucket(features[place])];
        if (found[place] < rows_.size()) prefetch(&rows_[found[place]]);
      }
      for (std::size_t place = begin; place < end; ++place) {
        if (found[place] == kUnknown) continue;
        const std::uint64_t key = features[place];
        const Row* row = rows_.data() + found[place];
        const Row* const bucket_end = rows_.data() + buckets_[find_bucket(key) + 1];
        if (static_cast<std::size_t>(bucket_end - row) > kLargeBucket) {
          row = std::lower_bound(row, bucket_end, key, [](const Row& one, std::uint64_t wanted) { return one.key < wanted; });
        } else {
          while (row < bucket_end && row->key < key) ++row;
        }
        found[place] = row < bucket_end && row->key == key ? static_cast<std::uint32_t>(row - rows_.data()) : kUnknown;
      }
    }
  }

  double compute_log_odds(const std::vector<std::uint64_t>& features, const std::vector<std::uint32_t>& rows, std::size_t number) const {
    const Comparison& comparison = comparisons_[number];
    std::array<double, kMaxViews> sums{};
    std::array<std::int64_t, kMaxViews> sizes{}, known{};
    for (std::size_t place = 0; place < features.size(); ++place) {
      const std::size_t view = features[place] & view_mask_;
      ++sizes[view];
      if (rows[place] == kUnknown) continue;
      const std::uint32_t group = rows_[rows[place]].group;
      sums[view] += comparison.weights[group];
      known[view] += comparison.is_known[group];
    }
    const double familiar = static_cast<double>(known[0] + known[kHeaders]);
    const double familiarity = familiar / (familiar + comparison.acquaintance);
    double log_odds = 0.0;
    for (std::size_t index = 0; index < comparison.views.size(); ++index) {
      const ViewRule& view = comparison.views[index];
      const double size = static_cast<double>(sizes[index]);
      const double intercept = (size * view.tilt + view.reluctance * view.doubt) * familiarity;
      log_odds += (sums[index] + intercept) / (size + view.reluctance) * view.shrinkage * view.scale;
    }
    return number == 0 && has_coefficients_ ? log_odds + sum_coefficients(features, rows, sizes) : log_odds;
  }

  // The sum of b / √n over the features, of which n are of the same view.
  double sum_coefficients(const std::vector<std::uint64_t>& features, const std::vector<std::uint32_t>& rows,
                          const std::array<std::int64_t, kMaxViews>& sizes) const {
    std::array<double, kMaxViews> roots;
    for (std::size_t view = 0; view < kMaxViews; ++view) roots[view] = std::sqrt(static_cast<double>(sizes[view]));
    double sum = 0.0;
    for (std::size_t place = 0; place < features.size(); ++place) {
      if (rows[place] == kUnknown || rows_[rows[place]].coefficient == 0) continue;
      sum += rows_[rows[place]].coefficient * kUnit / roots[features[place] & view_mask_];
    }
    return sum;
  }

  std::size_t labels_;
  std::uint64_t view_mask_;
  std::vector<Entries> parts_;  // Until they are put together.
  bool has_coefficients_ = false;
  std::vector<Row> rows_;  // In ascending order of keys.
  std::vector<std::size_t> group_views_;
  std::vector<std::int64_t> group_counts_;  // (groups, labels)
  int bucket_bits_ = 0;                     // The highest bits of a key say where it is.
  std::vector<std::uint32_t> buckets_{0, 0};  // The first row of each bucket, and the number of rows.
  std::vector<Comparison> comparisons_;
};

}  // namespace

void bind_score_table(nb::module_& m) {
  nb::class_<ScoreTable>(m, "ScoreTable")
      .def(nb::init<std::size_t, int>())
      .def("add_run", &ScoreTable::add_run)
      .def("add_coefficients", &ScoreTable::add_coefficients)
      .def("finish", &ScoreTable::finish)
      .def("compare", &ScoreTable::compare)
      .def("score", &ScoreTable::score)
      .def("__len__", &ScoreTable::size);
}

}  // namespace tamis::mail
