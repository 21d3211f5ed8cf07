#include "thunks/call.h"

#include "runtime/runtime.h"
#include "thunks/client.h"

namespace dxgkit::thunks {

CallScope::CallScope(std::string_view name)
    : process_(runtime::Runtime::current_or_null() == nullptr ? nullptr : dxgk::Process::current()),
      inside_(process_ != nullptr && process_->gate().enter()) {
  if (trace::Recorder* recorder = trace::current()) {
    name_ = recorder->name_id(name);
    recorder->record(trace::EventKind::kThunkEnter, name_,
                     process_ == nullptr ? 0 : process_->number());
  }
}

NTSTATUS CallScope::finish(Status status) {
  trace::emit(trace::EventKind::kThunkExit, name_,
              static_cast<uint64_t>(static_cast<uint32_t>(status)));
  return to_ntstatus(status);
}

NTSTATUS CallScope::finish_refused() {
  note_refusal(process_ == nullptr ? trace::RefusalReason::kNoProcess
                                   : trace::RefusalReason::kProcessEnds);
  return finish(admission());
}

ClientScope::ClientScope(dxgk::System& system, dxgk::Process& process)
    : process_(process.shared_from_this()), previous_(nullptr) {
  DXGKIT_CHECK(&process.system() == &system);
  void*& slot =
      runtime::Runtime::current().thread_slot(static_cast<size_t>(runtime::ThreadSlot::kThunks));
  previous_ = slot;
  slot = &process;
}

ClientScope::~ClientScope() {
  runtime::Runtime::current().thread_slot(static_cast<size_t>(runtime::ThreadSlot::kThunks)) =
      previous_;
}

}  // namespace dxgkit::thunks
