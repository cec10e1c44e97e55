// The features of the messages of a batch → a bundle in memory: `Bundle.of` of tamis_mail/store/bundle_arrays.py. And bundles →
// the counts of all their features: `CountTable.total` of tamis_mail/store/tables.py, and the features of some messages as rows
// of these counts. tests/mail/store/test_merged.py keeps them equal.
#include "merged.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "../require.hpp"
#include "batch.hpp"
#include "bundle_encoding.hpp"
#include "hash.hpp"
#include "large_memory.hpp"
#include "merging.hpp"

namespace tamis::mail {

namespace {

// A block of memory that holds the features of several parts, one after the other. It is freed when none of them needs it.
class FeatureBlock {
 public:
  explicit FeatureBlock(std::size_t size) : size_(size), memory_(static_cast<char*>(allocate_large(size)), &std::free) {}

  // Takes so many bytes, a multiple of eight, of a block of this thread. Returns the block and the bytes.
  static std::pair<std::shared_ptr<FeatureBlock>, char*> take(std::size_t bytes) {
    constexpr std::size_t kSize = 4 * kLargePage;
    thread_local std::shared_ptr<FeatureBlock> last;
    if (last != nullptr && last.use_count() == 1) {  // No part is in it any more, and only this thread could add one.
      std::atomic_thread_fence(std::memory_order_acquire);
      last->used_ = 0;
    }
    std::shared_ptr<FeatureBlock> block = last;
    if (bytes > kSize) {
      block = std::make_shared<FeatureBlock>(bytes);
    } else if (last == nullptr || last->size_ - last->used_ < bytes) {
      block = last = std::make_shared<FeatureBlock>(kSize);
    }
    char* const begin = block->memory_.get() + block->used_;
    block->used_ += bytes;
    return {std::move(block), begin};
  }

 private:
  std::size_t size_, used_ = 0;
  std::unique_ptr<char, decltype(&std::free)> memory_;
};

// An array in a block.
template <class T>
struct Piece {
  const T* begin() const { return values; }
  const T* end() const { return values + count; }
  const T* data() const { return values; }
  std::size_t size() const { return count; }
  const T& operator[](std::size_t place) const { return values[place]; }

  T* values = nullptr;
  std::size_t count = 0;
};

// Message i has keys[indices[starts[i]]], …, keys[indices[starts[i + 1] - 1]].
class MergedFeatures {
 public:
  MergedFeatures(const MessageBatch& batch, const std::vector<std::size_t>& places) : starts(places.size() + 1, 0) {
    for (const std::size_t place : places) require(place < batch.features.size(), "expected indices of messages");
    const nb::gil_scoped_release unlocked;
    std::vector<KeyRange> lists;
    lists.reserve(places.size());
    std::size_t size = 0;
    for (std::size_t message = 0; message < places.size(); ++message) {
      const std::vector<std::uint64_t>& features = batch.features[places[message]];
      lists.push_back({features.data(), features.data() + features.size()});
      size += features.size();
      require(size >> 32 == 0, "expected fewer than 2**32 features");
      starts[message + 1] = static_cast<std::uint32_t>(size);
    }
    char* index_bytes = nullptr;
    std::tie(index_block_, index_bytes) = FeatureBlock::take((size + size % 2) * sizeof(std::uint32_t));
    std::uint32_t* const index_of = reinterpret_cast<std::uint32_t*>(index_bytes);
    // There are at most as many keys as features. They get memory of their own size when their number is known.
    LargeVector<std::uint64_t> key_of(size);
    LargeVector<std::uint32_t> count_of(size);
    std::vector<std::uint32_t> next(starts.begin(), starts.end());  // The place of the next index of each message.
    std::size_t n_keys = 0;
    std::uint64_t last = ~std::uint64_t{0};  // No key.
    std::uint32_t count = 0;
    merge_ascending(std::move(lists), [&](std::uint64_t key, std::size_t message) {
      // Without a branch: no processor could predict which keys are new.
      const bool is_new = key != last;
      n_keys += is_new;
      count = is_new ? 1 : count + 1;
      key_of[n_keys - 1] = last = key;
      count_of[n_keys - 1] = count;
      index_of[next[message]++] = static_cast<std::uint32_t>(n_keys - 1);
    });
    char* key_bytes = nullptr;
    std::tie(key_block_, key_bytes) =
        FeatureBlock::take(n_keys * sizeof(std::uint64_t) + (n_keys + n_keys % 2) * sizeof(std::uint32_t));
    std::uint64_t* const kept_keys = reinterpret_cast<std::uint64_t*>(key_bytes);
    std::uint32_t* const kept_counts = reinterpret_cast<std::uint32_t*>(kept_keys + n_keys);
    std::copy_n(key_of.begin(), n_keys, kept_keys);
    std::copy_n(count_of.begin(), n_keys, kept_counts);
    keys = {kept_keys, n_keys};
    counts = {kept_counts, n_keys};
    indices = {index_of, size};
  }

  std::size_t size() const { return starts.size() - 1; }

  // The features of one message.
  nb::bytes pack(std::size_t message) const {
    require(message < size(), "expected the index of a message");
    std::vector<std::uint64_t> features;
    for (std::size_t place = starts[message]; place < starts[message + 1]; ++place) features.push_back(keys[indices[place]]);
    return pack_features(features);
  }

  nb::tuple encode(std::size_t low_bytes) const {
    require_low_bytes(low_bytes);
    EncodedBundle bundle;
    {
      const nb::gil_scoped_release unlocked;
      bundle = encode_parts(keys.data(), keys.size(), starts.data(), size(), indices.data(), indices.size(), low_bytes);
    }
    return nb::make_tuple(nb::bytes(bundle.head.data(), bundle.head.size()), nb::bytes(bundle.gaps.data(), bundle.gaps.size()));
  }

  // Writes the keys, and the number of messages that have each.
  void write_counts(Output<std::uint64_t, 1> all_keys, Output<std::int64_t, 1> all_counts) const {
    require(all_keys.shape(0) == keys.size() && all_counts.shape(0) == keys.size(), "expected one place per key");
    std::copy(keys.begin(), keys.end(), all_keys.data());
    std::copy(counts.begin(), counts.end(), all_counts.data());
  }

  Piece<std::uint64_t> keys;    // Distinct, in ascending order.
  Piece<std::uint32_t> counts;  // Of the messages that have each key.
  Piece<std::uint32_t> indices;
  std::vector<std::uint32_t> starts;

 private:
  std::shared_ptr<FeatureBlock> index_block_, key_block_;
};

using Change = std::vector<std::pair<std::size_t, std::int64_t>>;  // Columns of labels, and the weight of a message in each.

constexpr std::size_t kLargestRoom = std::size_t{1} << 22;  // Numbers for which a range has room without knowing its size.
constexpr std::size_t kMostLabels = 1'000'000;  // So that the number of counts does not overflow.

// The counts of all features of some parts. Keys are divided into ranges, which several threads can sum at the same time.
class FeatureSum {
 public:
  FeatureSum(std::size_t labels, std::size_t ranges) : labels_(labels), ranges_(ranges) {
    require(ranges >= 1 && ranges <= 64, "expected 1 to 64 ranges");
    require(labels <= kMostLabels, "expected at most a million labels");
  }

  void add(const MergedFeatures& part, const Change& change) {
    for (const auto& [column, weight] : change) require(column < labels_, "expected columns of labels");
    parts_.push_back({&part, change, LargeVector<std::uint32_t>(part.keys.size())});
  }

  // Sums the counts of one range of keys.
  void sum_range(std::size_t number) {
    require(number < ranges_.size(), "expected the number of a range");
    const nb::gil_scoped_release unlocked;
    Range& range = ranges_[number];
    require(!range.is_summed && range.keys.empty(), "a range is summed once");
    std::vector<KeyRange> lists;
    std::vector<std::size_t> next;  // The next key of each part.
    for (const Part& part : parts_) {
      const Piece<std::uint64_t>& keys = part.features->keys;
      const auto begin = std::lower_bound(keys.begin(), keys.end(), find_bound(number));
      const auto end = std::lower_bound(begin, keys.end(), find_bound(number + 1));
      next.push_back(static_cast<std::size_t>(begin - keys.begin()));
      lists.push_back({keys.data() + (begin - keys.begin()), keys.data() + (end - keys.begin())});
    }
    std::size_t longest = 0, total = 0;
    for (const KeyRange& list : lists) {
      const auto length = static_cast<std::size_t>(list.end - list.begin);
      longest = std::max(longest, length);
      total += length;
    }
    std::size_t size = 0;  // Of the keys that were summed.
    const auto resize = [&range, this](std::size_t rows) {
      range.keys.resize(rows);
      range.counts.resize(rows * labels_);
    };
    // Room for all keys, as if no two parts shared one, unless that is much: memory that is not used is never touched.
    resize(std::min(total, std::max(4 * longest, kLargestRoom / (labels_ + 1))));
    std::uint64_t last = ~std::uint64_t{0};  // No key.
    merge_ascending(std::move(lists), [&](std::uint64_t key, std::size_t number_of_part) {
      if (key != last) {
        if (size == range.keys.size()) resize(2 * size);
        range.keys[size] = last = key;
        std::fill_n(range.counts.data() + size * labels_, labels_, 0);
        ++size;
      }
      Part& part = parts_[number_of_part];
      const std::size_t place = next[number_of_part]++;
      part.rows[place] = static_cast<std::uint32_t>(size - 1);
      std::int64_t* const row = range.counts.data() + (size - 1) * labels_;
      for (const auto& [column, weight] : part.change) {
        row[column] = static_cast<std::int64_t>(static_cast<std::uint64_t>(row[column]) +
                                                static_cast<std::uint64_t>(weight) * part.features->counts[place]);
      }
    });
    resize(size);
    range.size = size;
    range.is_summed = true;
  }

  // The number of distinct keys, after all ranges were summed.
  std::size_t size() const { return find_first_row(ranges_.size()); }

  // Writes the keys of one range and their counts to their places among those of all ranges. Several threads can do so, each for a
  // range of its own.
  void write_range(std::size_t number, Output<std::uint64_t, 1> keys, Output<std::int64_t, 2> counts) {
    require(number < ranges_.size(), "expected the number of a range");
    require(std::all_of(ranges_.begin(), ranges_.end(), [](const Range& range) { return range.is_summed; }),
            "expected that all ranges were summed");
    require(keys.shape(0) == size() && counts.shape(0) == size() && counts.shape(1) == labels_, "expected one row per key");
    require(size() <= INT32_MAX, "expected fewer than 2**31 keys");
    Range& range = ranges_[number];
    require(!range.is_written, "a range is written once");
    range.is_written = true;
    const nb::gil_scoped_release unlocked;
    const std::size_t row = find_first_row(number);
    std::copy(range.keys.begin(), range.keys.end(), keys.data() + row);
    std::copy(range.counts.begin(), range.counts.end(), counts.data() + row * labels_);
    for (Part& part : parts_) {
      if (row == 0) break;  // Its rows are those among all keys.
      const Piece<std::uint64_t>& part_keys = part.features->keys;
      const auto begin = std::lower_bound(part_keys.begin(), part_keys.end(), find_bound(number));
      const auto end = std::lower_bound(begin, part_keys.end(), find_bound(number + 1));
      for (auto place = begin - part_keys.begin(); place < end - part_keys.begin(); ++place) {
        part.rows[static_cast<std::size_t>(place)] += static_cast<std::uint32_t>(row);
      }
    }
    LargeVector<std::uint64_t>().swap(range.keys);  // To free their memory, which is large; `= {}` would keep it.
    LargeVector<std::int64_t>().swap(range.counts);
  }

  // The number of features of each of these messages; a message is a place in a part.
  std::vector<std::size_t> count_features(const std::vector<std::pair<std::size_t, std::size_t>>& messages) const {
    std::vector<std::size_t> sizes;
    sizes.reserve(messages.size());
    for (const auto& [number, place] : messages) {
      const MergedFeatures& features = find_features(number, place);
      sizes.push_back(features.starts[place + 1] - features.starts[place]);
    }
    return sizes;
  }

  // Writes the rows of the features of these messages, one message after the other.
  void gather(const std::vector<std::pair<std::size_t, std::size_t>>& messages, Output<std::int32_t, 1> rows) const {
    require(std::all_of(ranges_.begin(), ranges_.end(), [](const Range& range) { return range.is_written; }),
            "expected that the sums were written");
    std::size_t size = 0;
    for (const std::size_t one : count_features(messages)) size += one;
    require(rows.shape(0) == size, "expected one row per feature");
    std::int32_t* row = rows.data();
    const nb::gil_scoped_release unlocked;
    for (const auto& [number, place] : messages) {
      const MergedFeatures& features = *parts_[number].features;
      const LargeVector<std::uint32_t>& row_of = parts_[number].rows;
      for (std::size_t feature = features.starts[place]; feature < features.starts[place + 1]; ++feature) {
        *row++ = static_cast<std::int32_t>(row_of[features.indices[feature]]);
      }
    }
  }

 private:
  struct Part {
    const MergedFeatures* features;  // The binding keeps it alive.
    Change change;
    LargeVector<std::uint32_t> rows;  // Of its keys, among the sums of the range at first, and then among all.
  };
  struct Range {
    LargeVector<std::uint64_t> keys;
    LargeVector<std::int64_t> counts;  // (keys, labels)
    std::size_t size = 0;              // Of the keys, after they were summed.
    bool is_summed = false, is_written = false;
  };

  const MergedFeatures& find_features(std::size_t number, std::size_t place) const {
    require(number < parts_.size() && place < parts_[number].features->size(), "expected places of messages");
    return *parts_[number].features;
  }

  // The row of the first key of a range: the number of keys in the ranges before it.
  std::size_t find_first_row(std::size_t number) const {
    std::size_t row = 0;
    for (std::size_t earlier = 0; earlier < number; ++earlier) row += ranges_[earlier].size;
    return row;
  }

  // The first key of a range.
  std::uint64_t find_bound(std::size_t number) const {
    constexpr std::uint64_t kEnd = std::uint64_t{1} << kMergedKeyBits;
    return number == ranges_.size() ? kEnd : kEnd / ranges_.size() * number;
  }

  std::size_t labels_;
  std::vector<Range> ranges_;
  std::vector<Part> parts_;
};

}  // namespace

void bind_merged(nb::module_& m) {
  nb::class_<MergedFeatures>(m, "MergedFeatures")
      .def(nb::init<const MessageBatch&, const std::vector<std::size_t>&>())
      .def("__len__", &MergedFeatures::size)
      .def("count_keys", [](const MergedFeatures& merged) { return merged.keys.size(); })
      .def("count_features", [](const MergedFeatures& merged) { return merged.indices.size(); })
      .def("pack", &MergedFeatures::pack)
      .def("encode", &MergedFeatures::encode)
      .def("write_counts", &MergedFeatures::write_counts, nb::arg("keys").noconvert(), nb::arg("counts").noconvert());
  nb::class_<FeatureSum>(m, "FeatureSum")
      .def(nb::init<std::size_t, std::size_t>())
      .def("add", &FeatureSum::add, nb::keep_alive<1, 2>())
      .def("sum_range", &FeatureSum::sum_range)
      .def("__len__", &FeatureSum::size)
      .def("write_range", &FeatureSum::write_range, nb::arg("number"), nb::arg("keys").noconvert(), nb::arg("counts").noconvert())
      .def("count_features", &FeatureSum::count_features)
      .def("gather", &FeatureSum::gather, nb::arg("messages"), nb::arg("rows").noconvert());
}

}  // namespace tamis::mail
