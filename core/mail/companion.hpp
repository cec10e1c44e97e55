// A second thread, for work that is done in two halves many times.
#pragma once

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

namespace tamis::mail {

// Starts a second thread, if it is wanted and the system allows one; it ends with this object. Only the thread that made the
// object may call its functions.
class Companion {
 public:
  explicit Companion(bool is_wanted) {
    if (!is_wanted) return;
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error&) {  // There are too many threads: the caller's does all the work.
    }
  }
  ~Companion() {
    if (!thread_.joinable()) return;
    state_ = kEnd;
    thread_.join();
  }
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  // Calls task(0) in this thread, and task(1); neither may throw. The second thread makes the second call, or this one does if the
  // second has not begun it by then: so this thread never waits for one that has not got a processor.
  template <class Task>
  void run(const Task& task) {
    if (!thread_.joinable()) {
      task(0);
      task(1);
      return;
    }
    argument_ = &task;
    call_ = [](const void* argument) { (*static_cast<const Task*>(argument))(1); };
    state_ = kOffered;
    task(0);
    State state = kOffered;
    if (state_.compare_exchange_strong(state, kIdle)) {
      task(1);
    } else {
      wait([this] { return state_ == kIdle; });
    }
  }

 private:
  // Of the second call: there is none, it may be taken, the second thread makes it; or this object ends.
  enum State { kIdle, kOffered, kTaken, kEnd };
  // How long a waiting thread looks before it sleeps: to wake a thread takes longer than most waiting does. It does not yield,
  // because another process might then keep the processor for milliseconds. It wakes by itself: the condition variables of GCC 12
  // are not in the libraries of every system on which a wheel of this package should work.
  static constexpr std::chrono::microseconds kLook{200};
  static constexpr std::chrono::microseconds kSleep{50};

  void work() {
    for (;;) {
      wait([this] { return state_ == kOffered || state_ == kEnd; });
      State state = kOffered;
      if (state_.compare_exchange_strong(state, kTaken)) {
        call_(argument_);
        state = kTaken;
        state_.compare_exchange_strong(state, kIdle);
      }
      if (state == kEnd) return;  // The exchange that fails writes the other state.
    }
  }

  template <class Condition>
  static void wait(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + kLook;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) std::this_thread::sleep_for(kSleep);
    }
  }

  std::atomic<State> state_{kIdle};
  void (*call_)(const void*) = nullptr;
  const void* argument_ = nullptr;
  std::thread thread_;
};

}  // namespace tamis::mail
