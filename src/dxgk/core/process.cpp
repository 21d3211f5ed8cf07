#include "dxgk/core/process.h"

#include "runtime/runtime.h"

namespace dxgkit::dxgk {
namespace {

void*& slot() {
  return runtime::Runtime::current().thread_slot(static_cast<size_t>(runtime::ThreadSlot::kThunks));
}

}  // namespace

Process* Process::current() { return static_cast<Process*>(slot()); }

Process::Scope::Scope(Process* process) : previous_(current()) { slot() = process; }

Process::Scope::~Scope() { slot() = previous_; }

}  // namespace dxgkit::dxgk
