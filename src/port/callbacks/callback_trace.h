// The common start and end of every callback of a driver.
#pragma once

#include <cstdint>
#include <type_traits>

#include "port/callbacks/caller.h"
#include "port/core/port_core.h"
#include "trace/trace.h"

namespace dxgkit::port {

/// Enter and exit events of one callback.
class CallbackTrace {
 public:
  explicit CallbackTrace(const char* name) : name_(name), recorder_(trace::current()) {
    if (recorder_ == nullptr) [[likely]]
      return;
    const nt::CallFrame* frame = nt::CallFrame::current_or_null();
    recorder_->record(trace::EventKind::kCallbackEnter, recorder_->name_id(name),
                      frame == nullptr ? 0 : frame->irql());
  }
  ~CallbackTrace() {
    if (recorder_ != nullptr)
      recorder_->record(trace::EventKind::kCallbackExit, recorder_->name_id(name_), value_);
  }
  CallbackTrace(const CallbackTrace&) = delete;
  CallbackTrace& operator=(const CallbackTrace&) = delete;
  template <typename T>
  T operator()(T value) {
    if constexpr (std::is_pointer_v<T>) {
      value_ = value != nullptr ? 1 : 0;  // an address would differ from run to run
    } else {
      value_ = static_cast<std::make_unsigned_t<T>>(value);
    }
    return value;
  }
  NTSTATUS operator()(Status status) { return (*this)(to_ntstatus(status)); }

 private:
  const char* name_;
  trace::Recorder* recorder_;
  uint64_t value_ = 0;
};

/// The answer of a callback that is made to fail.
template <typename T>
T answer_instead(T refusal, Status status) {
  if constexpr (std::is_same_v<T, NTSTATUS>) return to_ntstatus(status);
  return refusal;
}

// The common start of every callback: trace, find the adapter, check level and place, ask the fault
// injector. `refusal` is the answer to a wrong handle.
#define DXGKIT_CALLBACK(name, handle, highest, legal_in_isr, refusal)      \
  CallbackTrace done(name);                                                \
  PortCore* const adapter = of_handle(name, handle);                       \
  if (adapter == nullptr) return refusal;                                  \
  check_callback(*adapter, name, highest, legal_in_isr);                   \
  if (const std::optional<Status> made_to = adapter->callback_fails(name)) \
  return done(answer_instead(refusal, *made_to))

}  // namespace dxgkit::port
