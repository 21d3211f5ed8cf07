#include "runtime/host_thread.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "base/check.h"

namespace dxgkit::runtime {

void wait_while(const std::atomic<uint32_t>& word, uint32_t value) {
  while (word.load(std::memory_order_acquire) == value)
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake_host_waiters(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void HostFlag::set() {
  word_.store(1, std::memory_order_release);
  wake_host_waiters(word_);
}

void HostFlag::wait() const { wait_while(word_, 0); }

namespace {
std::atomic<void (*)()> g_in_child{nullptr};
}  // namespace

void when_forked(void (*in_child)()) {
  DXGKIT_CHECK(g_in_child.exchange(in_child) == nullptr);  // one library hosts
  pthread_atfork(nullptr, nullptr, [] {
    leave_runtime_of_parent();
    g_in_child.load()();
  });
}

struct HostThread::State {
  std::function<void()> body;
  pthread_t handle{};
  bool joined = false;
};

HostThread::HostThread(const std::string& name, std::function<void()> body)
    : state_(std::make_unique<State>()) {
  state_->body = std::move(body);
  const auto entry = [](void* state) -> void* {
    static_cast<State*>(state)->body();
    return nullptr;
  };
  DXGKIT_CHECK(pthread_create(&state_->handle, nullptr, entry, state_.get()) == 0);
  pthread_setname_np(state_->handle, name.substr(0, 15).c_str());  // the kernel's limit
}

HostThread::~HostThread() { DXGKIT_CHECK(state_->joined); }

void HostThread::join() {
  DXGKIT_CHECK(!state_->joined);
  DXGKIT_CHECK(pthread_join(state_->handle, nullptr) == 0);
  state_->joined = true;
}

}  // namespace dxgkit::runtime
