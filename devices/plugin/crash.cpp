// Finds the owner of code that stopped. A plug-in is recognised by the place of the thread, not by
// the memory it accessed.
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "base/foreign_code.h"
#include "devices/plugin/inside.h"
#include "devices/plugin/plugin.h"

namespace dxgkit::plugin {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
struct sigaction previous_actions[std::size(kSignals)];
std::atomic<int> exit_code_of_crashes{-1};  // -1: no handlers yet

constinit thread_local const char* t_path = nullptr;
constinit thread_local const char* t_function = nullptr;

struct Image {
  uint64_t begin = 0, end = 0;
  const char* path = nullptr;
};
/// Code of loaded plug-ins. Beyond this many, only the thread's mark identifies a plug-in.
std::array<Image, 32> images;
std::atomic<size_t> image_count{0};

void on_signal(int signal, siginfo_t* info, void* context) {
  Crash crash;
  if (crashed_in_plugin(context, &crash)) {
    char text[512] = "dxgkit: ";
    crash_text(crash, signal, text + std::strlen(text), sizeof text - std::strlen(text) - 1);
    std::strcat(text, "\n");
    static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text)));
    _exit(exit_code_of_crashes.load());
  }
  const auto at = std::ranges::find(kSignals, signal) - std::begin(kSignals);
  const struct sigaction& previous = previous_actions[at];
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // The default action: the instruction runs again, or the caller's abort continues.
    ::signal(signal, SIG_DFL);
    if (signal == SIGTRAP || signal == SIGABRT) raise(signal);
  }
}

/// Appends as much as fits.
void append(char* out, size_t size, const char* text) {
  const size_t used = std::strlen(out);
  if (used + 1 < size) std::strncat(out, text, size - used - 1);
}

const char* name_of(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    case SIGTRAP:
      return "SIGTRAP";
    case SIGABRT:
      return "SIGABRT";
    default:
      return "a signal";
  }
}

}  // namespace

Inside::Inside(const char* path, const char* function) : path_(t_path), function_(t_function) {
  t_path = path;
  t_function = function;
  t_in_foreign_code = path != nullptr;
}
Inside::~Inside() {
  t_path = path_;
  t_function = function_;
  t_in_foreign_code = path_ != nullptr;
}

void add_image(uint64_t begin, uint64_t end, const char* path) {
  const size_t at = image_count.load(std::memory_order_acquire);
  if (at == images.size()) return;
  images[at] = {begin, end, path};
  image_count.store(at + 1, std::memory_order_release);
}

bool crashed_in_plugin(const void* context, Crash* crash) {
  if (t_path != nullptr) {
    *crash = {t_path, t_function};
    return true;
  }
  const auto at =
      static_cast<uint64_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  for (size_t i = 0; i < image_count.load(std::memory_order_acquire); ++i) {
    if (at < images[i].begin || at >= images[i].end) continue;
    *crash = {images[i].path, ""};
    return true;
  }
  return false;
}

void crash_text(const Crash& crash, int signal, char* out, size_t size) {
  if (size == 0) return;
  out[0] = 0;
  append(out, size, crash.path);
  append(out, size, ": the device plug-in crashed in ");
  append(out, size, crash.function[0] == 0 ? "a thread of its own" : crash.function);
  append(out, size, " (");
  append(out, size, name_of(signal));
  append(out, size, "); the driver is not to blame, and nothing can be said of it");
}

void report_crashes(int exit_code) {
  if (exit_code_of_crashes.exchange(exit_code) >= 0) return;
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (size_t i = 0; i < std::size(kSignals); ++i)
    sigaction(kSignals[i], &action, &previous_actions[i]);
}

}  // namespace dxgkit::plugin
