#include "dxgk/work/driver_processes.h"

#include "base/check.h"
#include "dxgk/core/process.h"
#include "dxgk/va/address_spaces.h"
#include "dxgk/work/timeout.h"

namespace dxgkit::dxgk {

Status DriverProcesses::enter(Process& process) {
  bool blocked = false;
  core_.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { blocked = timeout_.limits().is_blocked(process.number()); });
  if (blocked) return Status::kDeviceRemoved;  // TDR-06
  runtime::MutexLock lock(process.mutex);
  Process::OnAdapter& here = process.on_adapters[core_.luid().low];
  if (here.devices++ != 0) return Status::kSuccess;
  if (spaces_) spaces_->process_begins(process.number());
  Result<void*> handle = nullptr;
  if (core_.facts().told_of_processes())
    handle = core_.port().objects().create_process(process.number(), /*system=*/false);
  if (!handle.has_value()) {
    --here.devices;
    if (spaces_) spaces_->process_ends(process.number());
    return handle.error();
  }
  here.driver_process = *handle;
  if (spaces_) spaces_->process_made(process.number(), *handle);
  return Status::kSuccess;
}

void DriverProcesses::leave(Process& process) {
  runtime::MutexLock lock(process.mutex);
  Process::OnAdapter& here = process.on_adapters[core_.luid().low];
  DXGKIT_CHECK(here.devices > 0);
  if (--here.devices != 0) return;
  if (spaces_) spaces_->process_ends(process.number());
  if (core_.facts().told_of_processes())
    static_cast<void>(core_.port().objects().destroy_process(here.driver_process));
  here.driver_process = nullptr;
}

void* DriverProcesses::handle_of(Process& process) {
  runtime::MutexLock lock(process.mutex);
  return process.on_adapters[core_.luid().low].driver_process;
}

}  // namespace dxgkit::dxgk
