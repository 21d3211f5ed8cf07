#include "thunks/process_argument.h"

#include "thunks/call.h"
#include "thunks/client.h"

namespace dxgkit::thunks {

ProcessArgument::ProcessArgument(dxgk::Process& caller, HANDLE handle, uint32_t access) {
  constexpr intptr_t kCurrentProcess = -1;
  if (reinterpret_cast<intptr_t>(handle) == kCurrentProcess) {
    process_ = caller.shared_from_this();  // its thread is inside already
    return;
  }
  dxgk::System::Impl& system = caller.system().impl();
  {
    runtime::MutexLock lock(system.mutex);
    Result<std::shared_ptr<dxgk::Process>> found =
        system.process_handles.find(caller, reinterpret_cast<uintptr_t>(handle), access);
    if (found.has_value()) {
      process_ = std::move(*found);
    } else {
      status_ = found.error();
    }
  }
  if (!process_) return;
  inside_ = process_->gate().enter();
  if (!inside_) status_ = kProcessIsTerminating;
}

ProcessArgument::~ProcessArgument() {
  if (inside_) process_->gate().leave();
}

uint64_t open_process(dxgk::Process& holder, dxgk::Process& target, uint32_t access) {
  dxgk::System::Impl& system = holder.system().impl();
  if (&target.system().impl() != &system) return 0;
  const dxgk::GatePass holds(holder.gate()), lives(target.gate());
  if (!holds || !lives) return 0;
  runtime::MutexLock lock(system.mutex);
  return system.process_handles.open(holder, target.shared_from_this(), access);
}

bool close_process_handle(dxgk::Process& holder, uint64_t handle) {
  dxgk::System::Impl& system = holder.system().impl();
  runtime::MutexLock lock(system.mutex);
  return system.process_handles.close(holder, handle);
}

}  // namespace dxgkit::thunks
