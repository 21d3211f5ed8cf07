// Calls of DriverEntry or a DDI that do not come back because they spin, wait or sleep for ever
// (NT-20).
//
// A wait is abandoned after the limit on the runtime's clock, and so is a series of sleeps within
// one call. A loop without calls is found by a timer of the thread's processor time: its handler
// counts the ticks that find the same call in code of the driver, and moves the thread out of it.
// None of this changes a run without hangs.
#include <fmt/format.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "nt/kernel_impl.h"
#include "nt/seh.h"
#include "runtime/cpu_watch.h"

namespace dxgkit::nt {

constinit thread_local uint64_t t_driver_calls = 0;
constinit std::atomic<const char*>* g_call_note = nullptr;

namespace {

constexpr runtime::DurationNs kTick = 20 * runtime::kMillisecond;

constinit thread_local uint64_t t_calls_seen = 0;
constinit thread_local int64_t t_ticks = 0;

/// Threads of the driver's own may wait as long as they like.
bool is_watched(const CallFrame& frame) {
  const CallFrame* root = &frame;
  while (root->previous() != nullptr) root = root->previous();
  return root->thread == nullptr && std::strcmp(root->name(), "work item") != 0;
}

/// The code where a thread continues that was taken out of a loop: ordinary code on its host stack.
[[noreturn]] void report_spin(const void* instruction) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  std::string actual;
  {
    const verifier::Place place = kernel.place_of(instruction);
    actual = fmt::format(
        "{} has used {} ms of processor time without returning or calling anybody for long; it is "
        "at {}+{:#x}{}{}.",
        frame.name(), kernel.hang_limit() / runtime::kMillisecond, place.image, place.rva,
        place.symbol.empty() ? "" : " ", place.symbol);
  }
  kernel.bug_check("NT-20", frame.name(), 0x133, 0, std::move(actual),
                   "DriverEntry and every DDI return.",
                   "Bound the loop: poll with a limit, or wait for an event the interrupt sets.");
}

void on_tick(int, siginfo_t*, void* context) {
  CallFrame* const frame = CallFrame::current_or_null();
  if (frame == nullptr) return;
  const Kernel& kernel = frame->kernel();
  if (kernel.hang_limit() == 0) return;
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* const instruction = reinterpret_cast<const void*>(registers[REG_RIP]);
  if (!kernel.is_driver_code(instruction) || !is_watched(*frame)) return;
  if (t_calls_seen != t_driver_calls) {
    t_calls_seen = t_driver_calls;
    t_ticks = 0;
  }
  if (++t_ticks * kTick < kernel.hang_limit()) return;
  t_ticks = 0;
  // Driver code at an instruction of its own holds nothing of ours, and nothing of the call
  // survives, so the registers are ours.
  const auto stack = frame->driver_stack_bytes() > 0
                         ? static_cast<greg_t>(reinterpret_cast<uint64_t>(frame->host_stack()))
                         : registers[REG_RSP] - 256;
  registers[REG_RSP] = (stack & ~greg_t{15}) - 8;
  registers[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uint64_t>(&report_spin));
  registers[REG_RDI] = static_cast<greg_t>(reinterpret_cast<uint64_t>(instruction));
  registers[REG_EFL] &= ~greg_t{0x400};  // the direction flag, which a driver may have set
}

}  // namespace

void watch_driver_thread() { runtime::watch_cpu_time(kTick, &on_tick); }

void Kernel::set_hang_limit(runtime::DurationNs limit) {
  hang_limit_.store(limit < 0 ? 0 : limit, std::memory_order_relaxed);
}

runtime::TimeNs hang_deadline(CallFrame& frame) {
  const runtime::DurationNs limit = frame.kernel().hang_limit();
  if (limit == 0 || !is_watched(frame)) return runtime::kForever;
  return frame.kernel().runtime().now() + limit;
}

WaitingCalls::Scope::Scope(WaitingCalls& calls, const CallFrame& frame)
    : calls_(calls), call_{.frame = &frame, .thread = frame.kernel().runtime().thread_number()} {
  calls_.lock();
  call_.next = std::exchange(calls_.first_, &call_);
  calls_.unlock();
}

WaitingCalls::Scope::~Scope() {
  calls_.lock();
  WaitingCall** at = &calls_.first_;
  while (*at != &call_) at = &(*at)->next;
  *at = call_.next;
  calls_.unlock();
}

std::vector<WaitingCalls::Seen> WaitingCalls::others(std::optional<uint32_t> thread) {
  std::vector<Seen> all;
  lock();
  for (const WaitingCall* call = first_; call != nullptr; call = call->next) {
    if (call->thread == thread) continue;
    all.push_back({.name = call->frame->name(),
                   .thread = call->thread,
                   .in_door = call->frame->in_door(),
                   .door = call->frame->door()});
  }
  unlock();
  std::ranges::sort(all, {}, &Seen::thread);
  return all;
}

bool wait_for_word(CallFrame& frame, const std::atomic<uint32_t>& word, uint32_t expected,
                   runtime::TimeNs hangs) {
  Kernel::Impl& state = frame.kernel().impl();
  state.word_waiters.fetch_add(1);
  runtime::WaitResult result = runtime::WaitResult::kWoken;
  {
    const WaitingCalls::Scope waits_here(state.waiting_calls, frame);
    result = frame.kernel().runtime().wait_either(word, expected, state.ending, 0, hangs);
  }
  state.word_waiters.fetch_sub(1);
  if (state.ending.load() != 0) frame.abandon();
  return result != runtime::WaitResult::kTimedOut;
}

std::string owner_name(Kernel& kernel, uint64_t owner) {
  if (owner == 0) return "nobody";
  const std::vector<std::string> names = kernel.runtime().thread_names();
  if (owner > names.size()) return fmt::format("thread number {}", owner - 1);
  return fmt::format("thread \"{}\"", names[owner - 1]);
}

namespace {

/// The object and, if it is a variable of an image, its name.
std::string name_object(const Kernel& kernel, const char* kind, const void* object) {
  const verifier::Place place = kernel.place_of(object);
  if (place.image.empty()) return fmt::format("{} {}", kind, object);
  return fmt::format("{} {} ({}+{:#x})", kind, object, place.image, place.rva);
}

const char* kind_of(const DispatcherHeader& object) {
  switch (static_cast<ObjectType>(object.type)) {
    case ObjectType::kNotificationEvent:
    case ObjectType::kSynchronizationEvent:
      return "event";
    case ObjectType::kMutant:
      return "mutex";
    case ObjectType::kSemaphore:
      return "semaphore";
    case ObjectType::kThread:
      return "thread";
    case ObjectType::kNotificationTimer:
    case ObjectType::kSynchronizationTimer:
      return "timer";
  }
  return "object";
}

/// What the thread of that name waits for, or empty. Dispatcher lock held.
std::string describe_wait_of(Kernel& kernel, const std::string& thread)
    DXGKIT_REQUIRES(kernel.impl().dispatcher_lock) {
  const std::vector<std::string> names = kernel.runtime().thread_names();
  for (const Waiter* waiter : kernel.impl().waiters) {
    if (waiter->thread == 0 || waiter->thread > names.size() ||
        names[waiter->thread - 1] != thread || waiter->objects.empty())
      continue;
    const DispatcherHeader* const object = waiter->objects[0];
    return ", which waits for " + name_object(kernel, kind_of(*object), object);
  }
  return {};
}

std::vector<std::string> stack_at_door(Kernel& kernel, const DoorFrame& door) {
  Context context;
  context_at_door(door, &context);
  return describe_place(kernel.impl(), context).stack;
}

}  // namespace

std::string describe_waits(Kernel& kernel, std::optional<uint32_t> thread, const char* before) {
  const std::vector<std::string> names = kernel.runtime().thread_names();
  std::string text;
  for (const WaitingCalls::Seen& call : kernel.impl().waiting_calls.others(thread)) {
    text += fmt::format("{}Thread \"{}\" ({}) waits", before,
                        call.thread < names.size() ? names[call.thread] : "", call.name);
    if (call.in_door) {
      if (call.door.callee != nullptr) text += fmt::format(" in {}", call.door.callee->name);
      const char* joint = ", called at ";
      for (const std::string& one : stack_at_door(kernel, call.door))
        text += std::exchange(joint, " < ") + one;
    }
    text += '.';
  }
  return text;
}

std::string describe_object(Kernel& kernel, const DispatcherHeader* object) {
  const ObjectType type = static_cast<ObjectType>(object->type);
  std::string text = name_object(kernel, kind_of(*object), object);
  if (type == ObjectType::kMutant) {
    const uint64_t owner = reinterpret_cast<const Kmutant*>(object)->owner;
    text += ", held by " + owner_name(kernel, owner);
  }
  if (type != ObjectType::kThread) return text;
  runtime::MutexLock lock(kernel.impl().dispatcher_lock);
  const auto found = kernel.impl().threads.find(object);
  if (found == kernel.impl().threads.end()) return text;
  const ThreadObject& thread = *found->second;
  return fmt::format("the end of \"{}\", started at {}{}", thread.name,
                     to_text(kernel, thread.started_by), describe_wait_of(kernel, thread.name));
}

void report_wait(CallFrame& frame, const char* function, std::string object) {
  Kernel& kernel = frame.kernel();
  verifier::Finding finding{
      .rule = "NT-20",
      .ddi = function,
      .actual = fmt::format("{} has not returned: it waits for {} for more than {} ms.{}",
                            frame.name(), object, kernel.hang_limit() / runtime::kMillisecond,
                            describe_waits(kernel, kernel.runtime().thread_number(), " ")),
      .expected = "DriverEntry and every DDI return.",
      .fix = "Wait with a timeout, and look at who should have signalled or released the object.",
      .bugcheck_code = 0x133,
      .bugcheck_parameter = 1,
      .place = kernel.place_of(frame.caller())};
  if (frame.in_door()) finding.place.stack = stack_at_door(kernel, frame.door());
  std::string().swap(object);  // a function that does not return frees nothing
  kernel.bug_check(std::move(finding));
}

void check_sleep(CallFrame& frame, const char* function) {
  const runtime::TimeNs now = frame.kernel().runtime().now();
  const runtime::DurationNs limit = frame.kernel().hang_limit();
  if (frame.slept_since == 0) {
    frame.slept_since = now + 1;
    return;
  }
  if (limit == 0) return;
  if (now + 1 - frame.slept_since < limit || !is_watched(frame)) return;
  frame.kernel().bug_check("NT-20", function, 0x133, 1,
                           fmt::format("{} has polled and slept for more than {} ms.", frame.name(),
                                       limit / runtime::kMillisecond),
                           "DriverEntry and every DDI return.",
                           "Bound the loop, and report the device that does not answer.");
}

void count_stall(CallFrame& frame, runtime::DurationNs length) {
  frame.kernel().impl().stalls.add(frame, frame.slept_since, length);
}

void StallCounter::add(const CallFrame& frame, runtime::TimeNs since, runtime::DurationNs length) {
  while (busy_.test_and_set(std::memory_order_acquire)) {
  }
  Call& call = calls_[&frame];
  if (call.since != since) call = {since, 0};
  call.length += length;
  if (call.length > longest_.length_ns) longest_ = {frame.name(), call.length};
  busy_.clear(std::memory_order_release);
}

std::optional<Stall> StallCounter::take_longest() {
  while (busy_.test_and_set(std::memory_order_acquire)) {
  }
  const Stall longest = std::exchange(longest_, {});
  calls_.clear();
  busy_.clear(std::memory_order_release);
  return longest.length_ns != 0 ? std::optional(longest) : std::nullopt;
}

void LookCounter::add(const CallFrame& frame, runtime::TimeNs now) {
  // A look is one call of the driver: with more of them the frame is another call's, or it does
  // something beside its looks.
  const bool goes_on = frame_ == &frame && at_ == now && calls_ + 1 == t_driver_calls;
  looks_ = goes_on ? looks_ + 1 : 1;
  frame_ = &frame;
  at_ = now;
  calls_ = t_driver_calls;
  if (looks_ > densest_.looks) densest_ = {frame.name(), looks_};
}

std::optional<Polling> LookCounter::take_densest() {
  const Polling densest = std::exchange(densest_, {});
  return densest.looks != 0 ? std::optional(densest) : std::nullopt;
}

void count_look(const CallFrame& frame) {
  runtime::Runtime& runtime = frame.kernel().runtime();
  if (runtime.is_simulated()) frame.kernel().impl().looks.add(frame, runtime.now());
}

std::optional<Polling> take_densest_polling(const Kernel& kernel) {
  return kernel.impl().looks.take_densest();
}

std::optional<Stall> take_longest_stall(Kernel& kernel) {
  return kernel.impl().stalls.take_longest();
}

}  // namespace dxgkit::nt
