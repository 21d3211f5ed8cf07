#include "dxgk/sync/protected_session.h"

#include <algorithm>
#include <span>
#include <utility>

#include "dxgk/core/adapter_core.h"
#include "dxgk/core/process.h"
#include "dxgk/sync/sync_floor.h"

namespace dxgkit::dxgk {
namespace {

/// OPT-09: what waits for a change of the session's state goes on.
void count_change(AdapterCore& core, const SharedSync& fence) DXGKIT_REQUIRES(on_lane) {
  if (core.failed() || fence.gone) return;
  vidsch::SyncObjects& objects = core.scheduler().sync_objects();
  const vidsch::SyncPoint point{.object = fence.id, .value = objects.value(fence.id) + 1};
  static_cast<void>(objects.signal(std::span(&point, 1)));
  core.pump();
}

}  // namespace

SharedSession::SharedSession(SyncFloor& floor)
    : Object(kType), floor_(floor), adapter_(floor.keep_adapter()) {}
SharedSession::~SharedSession() = default;

ProtectedSession::ProtectedSession(Ref<SharedSession> shared_in, DeviceCore* device_in)
    : Object(kType), shared(std::move(shared_in)), device(device_in) {}

ProtectedSessions::ProtectedSessions(SyncFloor& floor) : floor_(floor), core_(floor.core) {}
ProtectedSessions::~ProtectedSessions() = default;

Result<Ref<ProtectedSession>> ProtectedSessions::add(Process& process,
                                                     const Ref<SharedSession>& shared,
                                                     DeviceCore* device) {
  {
    runtime::MutexLock lock(mutex_);
    if (shared->gone) return Error(Status::kInvalidParameter);
    ++shared->uses;
  }
  const Ref<ProtectedSession> session = make_object<ProtectedSession>(shared, device);
  const Result<Handle> handle = process.handles().insert_hidden(session);
  if (!handle.has_value()) {
    close(*session);
    return Error(handle.error());
  }
  session->handle = *handle;
  return session;
}

Result<Ref<ProtectedSession>> ProtectedSessions::create(DeviceCore& device, const SyncObject& fence,
                                                        std::vector<std::byte> data,
                                                        std::vector<std::byte> runtime_data) {
  const GatePass pass(device.gate());
  if (!pass || device.lost()) return Error(Status::kDeviceRemoved);
  port::ProtectedSessionPort& driver = core_.port().protected_sessions();
  if (!driver.complete()) return Error(Status::kNotSupported);
  SharedSync& shared_fence = *fence.shared;
  if (&shared_fence.floor() != &floor_ || fence.kind != vidsch::SyncKind::kMonitoredFence ||
      fence.of_paging_queue || shared_fence.periodic || shared_fence.native)
    return Error(Status::kInvalidParameter);
  const Ref<SharedSession> shared = make_object<SharedSession>(floor_);
  shared->fence = fence.shared;
  shared->private_data = std::move(data);
  shared->runtime_data = std::move(runtime_data);
  bool held = false;
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (shared_fence.gone) return;
    ++shared_fence.holds;
    held = true;
  });
  if (!held) return Error(Status::kInvalidParameter);
  count_.fetch_add(1);
  {
    runtime::MutexLock lock(mutex_);
    shared->number = ++last_;
    sessions_.push_back(shared);  // the driver may tell its status before it returns
  }
  Result<Ref<ProtectedSession>> session = add(device.process(), shared, &device);
  if (!session.has_value()) return session;
  const Result<void*> made = driver.create(shared->number, shared->private_data);
  if (made.has_value()) {
    shared->driver_handle = *made;
    shared->in_driver = true;
    device.process().handles().publish((*session)->handle);
    return session;
  }
  device.process().handles().erase((*session)->handle);
  close(**session);
  return Error(made.error());
}

Result<Ref<ProtectedSession>> ProtectedSessions::open(Process& process,
                                                      const Ref<SharedSession>& shared) {
  Result<Ref<ProtectedSession>> session = add(process, shared, nullptr);
  if (session.has_value()) process.handles().publish((*session)->handle);
  return session;
}

bool ProtectedSessions::drop_use(SharedSession& shared) {
  runtime::MutexLock lock(mutex_);
  if (--shared.uses != 0 || shared.gone) return false;
  shared.gone = true;
  return true;
}

void ProtectedSessions::end(SharedSession& shared) {
  if (shared.in_driver)  // a failure has been told (OPT-10)
    static_cast<void>(core_.port().protected_sessions().destroy(shared.driver_handle));
  core_.lane().run([&]() DXGKIT_REQUIRES(on_lane) { shared.fence->drop_hold(); });
  runtime::MutexLock lock(mutex_);
  std::erase_if(sessions_, [&](const Ref<SharedSession>& one) { return one.get() == &shared; });
  count_.fetch_sub(1);
}

void ProtectedSessions::close(ProtectedSession& session) {
  {
    runtime::MutexLock lock(mutex_);
    if (!std::exchange(session.open, false)) return;
  }
  const Ref<SharedSession> shared = session.shared;
  if (drop_use(*shared)) end(*shared);
}

bool ProtectedSessions::take_hold(SharedSession& shared) {
  runtime::MutexLock lock(mutex_);
  if (shared.gone) return false;
  ++shared.uses;
  return true;
}

void ProtectedSessions::drop_hold(SharedSession& shared) {
  const Ref<SharedSession> kept(&shared);
  if (drop_use(shared)) end(shared);
}

void ProtectedSessions::device_ends(DeviceCore& device) {
  if (count_.load() == 0) return;
  HandleTable& handles = device.process().handles();
  for (const auto& [handle, type] : handles.live()) {
    if (type != ObjectType::kProtectedSession) continue;
    const Result<Ref<ProtectedSession>> session = handles.find<ProtectedSession>(handle);
    if (!session.has_value() || (*session)->device.get() != &device) continue;
    if (handles.take<ProtectedSession>(handle).has_value()) close(**session);
  }
}

void ProtectedSessions::stop() {
  if (count_.load() == 0) return;
  std::vector<Ref<SharedSession>> all;
  {
    runtime::MutexLock lock(mutex_);
    all = sessions_;
    for (const Ref<SharedSession>& shared : all) shared->gone = true;
  }
  for (const Ref<SharedSession>& shared : all) {
    shared->valid.store(false);
    end(*shared);
  }
}

Status ProtectedSessions::set_status(uint64_t number, bool valid) {
  Ref<SharedSession> found;
  {
    runtime::MutexLock lock(mutex_);
    for (const Ref<SharedSession>& one : sessions_) {
      if (one->number == number && !one->gone) found = one;
    }
  }
  if (!found) return Status::kInvalidParameter;
  if (found->valid.exchange(valid) == valid) return Status::kSuccess;
  core_.lane().post([this, found]()
                        DXGKIT_REQUIRES(on_lane) { count_change(core_, *found->fence); });
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
