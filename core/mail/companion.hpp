// A second thread, for work that is done in two halves many times.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace tamis::mail {

// Begins a thread, if it is wanted and there can be one, which ends with this object.
class Companion {
 public:
  explicit Companion(bool is_wanted) {
    if (!is_wanted) return;
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {  // There are too many threads: this one does all work.
    }
  }
  ~Companion() {
    if (!thread_.joinable()) return;
    change_state(kEnd);
    thread_.join();
  }
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  // Calls task(0) and task(1), which must not throw. The second call is made by the other thread, or by this one if the other has not
  // begun with it: so nobody waits for a thread that gets no processor.
  template <class Task>
  void run(const Task& task) {
    if (!thread_.joinable()) {
      task(0);
      task(1);
      return;
    }
    argument_ = &task;
    call_ = [](const void* argument) { (*static_cast<const Task*>(argument))(1); };
    change_state(kOffered);
    task(0);
    State offered = kOffered;
    if (state_.compare_exchange_strong(offered, kIdle)) {
      task(1);
    } else {
      wait([this] { return state_ == kIdle; });
    }
  }

 private:
  enum State { kIdle, kOffered, kTaken, kEnd };
  static constexpr int kYields = 100;  // Before a thread sleeps: to wake it takes longer.

  void work() {
    for (;;) {
      wait([this] { return state_ == kOffered || state_ == kEnd; });
      State offered = kOffered;
      if (state_.compare_exchange_strong(offered, kTaken)) {
        call_(argument_);
        change_state(kIdle);
      } else if (offered == kEnd) {
        return;
      }
    }
  }

  void change_state(State state) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      state_ = state;
    }
    changed_.notify_one();
  }

  template <class Condition>
  void wait(const Condition& condition) {
    for (int number = 0; number < kYields; ++number) {
      if (condition()) return;
      std::this_thread::yield();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<State> state_{kIdle};
  void (*call_)(const void*) = nullptr;
  const void* argument_ = nullptr;
  std::thread thread_;
};

}  // namespace tamis::mail
