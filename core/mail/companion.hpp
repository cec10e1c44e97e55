// A second thread, for work that is done in two halves many times.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
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
    change_state(kEnd);
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
    change_state(kOffered);
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
  // How often a waiting thread yields before it sleeps: to wake a thread takes longer than most waiting does.
  static constexpr int kYields = 100;

  void work() {
    for (;;) {
      wait([this] { return state_ == kOffered || state_ == kEnd; });
      State state = kOffered;  // If it is another one, it is written here.
      if (state_.compare_exchange_strong(state, kTaken)) {
        call_(argument_);
        change_state(kIdle);
      } else if (state == kEnd) {
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
