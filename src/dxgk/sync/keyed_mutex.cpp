#include "dxgk/sync/keyed_mutex.h"

#include <fmt/format.h>

#include <string>

#include "dxgk/core/global_shares.h"
#include "dxgk/core/process.h"
#include "nt/system_time.h"
#include "runtime/runtime.h"

namespace dxgkit::dxgk {

SharedKeyedMutex::SharedKeyedMutex(GlobalShares& shares, uint64_t key_in,
                                   std::span<const std::byte> data_in, bool nt_security_in)
    : Object(kType),
      nt_security(nt_security_in),
      key(key_in),
      data(data_in.begin(), data_in.end()),
      shares_(shares) {}

SharedKeyedMutex::~SharedKeyedMutex() = default;

bool SharedKeyedMutex::take_hold() {
  runtime::MutexLock lock(mutex);
  if (gone) return false;
  ++holds;
  return true;
}

void SharedKeyedMutex::drop_hold() {
  runtime::MutexLock lock(mutex);
  DXGKIT_CHECK(holds > 0);
  --holds;
  end_if_unused();
}

void SharedKeyedMutex::end_if_unused() {
  if (gone || openings != 0 || holds != 0) return;
  gone = true;
  if (global != 0) shares_.erase(global);
}

KeyedMutex::KeyedMutex(Ref<SharedKeyedMutex> shared) : Object(kType), shared_(std::move(shared)) {}

KeyedMutex::~KeyedMutex() = default;

Result<Ref<KeyedMutex>> KeyedMutex::add(Process& process, const Ref<SharedKeyedMutex>& shared) {
  Ref<KeyedMutex> opened = make_object<KeyedMutex>(shared);
  {
    runtime::MutexLock lock(shared->mutex);
    if (shared->gone) return Error(Status::kInvalidParameter);
    ++shared->openings;
    opened->open_ = true;
  }
  const Result<Handle> handle = process.handles().insert(opened);
  if (!handle.has_value()) {
    opened->close();
    return Error(handle.error());
  }
  opened->handle = *handle;
  return opened;
}

Result<Ref<KeyedMutex>> KeyedMutex::create(GlobalShares& shares, Process& process, uint64_t key,
                                           std::span<const std::byte> data, bool nt_security) {
  const Ref<SharedKeyedMutex> shared =
      make_object<SharedKeyedMutex>(shares, key, data, nt_security);
  if (!nt_security) {
    DXGKIT_ASSIGN_OR_RETURN(shared->global, shares.insert(shared));
  }
  Result<Ref<KeyedMutex>> opened = add(process, shared);
  if (!opened.has_value() && shared->global != 0) shares.erase(shared->global);
  return opened;
}

Result<Ref<KeyedMutex>> KeyedMutex::open(Process& process, const Ref<SharedKeyedMutex>& shared,
                                         std::span<const std::byte> data) {
  if (!data.empty()) {
    runtime::MutexLock lock(shared->mutex);
    if (data.size() < shared->data.size()) return Error(Status::kInvalidParameter);
  }
  Result<Ref<KeyedMutex>> opened = add(process, shared);
  if (opened.has_value() && !data.empty()) {
    runtime::MutexLock lock(shared->mutex);
    if (shared->data.empty()) shared->data.assign(data.begin(), data.end());
  }
  return opened;
}

std::vector<std::byte> KeyedMutex::data() const {
  runtime::MutexLock lock(shared_->mutex);
  return shared_->data;
}

void KeyedMutex::close() {
  {
    runtime::MutexLock lock(shared_->mutex);
    if (!open_) return;
    open_ = false;
    if (shared_->owner == this) {
      shared_->owner = nullptr;
      shared_->abandoned = true;
    }
    --shared_->openings;
    shared_->end_if_unused();
    shared_->changes.fetch_add(1, std::memory_order_release);
  }
  runtime::Runtime::current().wake_all(shared_->changes);
}

Status KeyedMutex::acquire(uint64_t key, const int64_t* timeout, size_t room, Taken* taken) {
  runtime::Runtime& runtime = runtime::Runtime::current();
  const int64_t deadline = nt::deadline_of(runtime.now(), timeout);
  for (;;) {
    uint32_t seen = 0;
    std::string why;  // for deadlock reports
    {
      runtime::MutexLock lock(shared_->mutex);
      if (!open_) return Status::kInvalidParameter;
      if (shared_->abandoned) return kAbandoned;
      if (shared_->owner == nullptr && shared_->key == key) {
        if (room != 0 && room < shared_->data.size()) return Status::kInvalidParameter;
        shared_->owner = this;
        taken->fence_value = shared_->fence_value;
        if (room != 0) taken->data = shared_->data;
        return Status::kSuccess;
      }
      seen = shared_->changes.load(std::memory_order_relaxed);
      why = shared_->owner == nullptr
                ? fmt::format("a keyed mutex with key {}, which is free with key {}", key,
                              shared_->key)
                : fmt::format("a keyed mutex with key {}, which handle 0x{:X} owns", key,
                              shared_->owner->handle);
    }
    if (deadline != kForever && runtime.now() >= deadline) return Status::kTimeout;
    const runtime::WaitReason reason(runtime, why.c_str());
    static_cast<void>(runtime.wait(shared_->changes, seen, deadline));
  }
}

Status KeyedMutex::release(uint64_t key, uint64_t fence_value, const std::vector<std::byte>* data) {
  {
    runtime::MutexLock lock(shared_->mutex);
    if (shared_->owner != this) return Status::kInvalidParameter;
    shared_->owner = nullptr;
    shared_->key = key;
    shared_->fence_value = fence_value;
    if (data != nullptr) shared_->data = *data;
    shared_->changes.fetch_add(1, std::memory_order_release);
  }
  runtime::Runtime::current().wake_all(shared_->changes);
  return Status::kSuccess;
}

}  // namespace dxgkit::dxgk
