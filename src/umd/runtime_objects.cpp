#include "umd/runtime_objects.h"

#include <cstddef>
#include <cstdint>

#include "base/guarded_copy.h"
#include "umd/callbacks.h"

namespace dxgkit::umd {

RuntimeObject::~RuntimeObject() {
  // Volatile: a compiler may leave out other writes to an object that ends.
  *const_cast<const RuntimeObject* volatile*>(&self_) = nullptr;
}

RuntimeObject* RuntimeObject::find(HANDLE handle, Kind kind) {
  if (handle == nullptr || reinterpret_cast<uintptr_t>(handle) % alignof(RuntimeObject) != 0)
    return nullptr;
  // The handle comes from the driver, so what it points to may not even be memory.
  struct {
    Kind kind;
    const void* self;
  } seen;
  static_assert(sizeof seen == sizeof(RuntimeObject));
  if (!guarded_copy(&seen, handle, sizeof seen)) return nullptr;
  if (seen.kind != kind || seen.self != handle) return nullptr;
  return static_cast<RuntimeObject*>(handle);
}

RuntimeAdapter::RuntimeAdapter(D3DKMT_HANDLE adapter, UINT version)
    : RuntimeObject(Kind::kAdapter), adapter_(adapter), version_(version) {
  adapter_callbacks(version, &callbacks_);
}

const RuntimeAdapter* RuntimeAdapter::find(HANDLE handle) {
  return static_cast<const RuntimeAdapter*>(RuntimeObject::find(handle, Kind::kAdapter));
}

RuntimeDevice::RuntimeDevice(const RuntimeAdapter& adapter, D3DKMT_HANDLE device)
    : RuntimeObject(Kind::kDevice), adapter_(adapter), device_(device) {
  device_callbacks(adapter.version(), &callbacks_);
}

RuntimeDevice* RuntimeDevice::find(HANDLE handle) {
  return static_cast<RuntimeDevice*>(RuntimeObject::find(handle, Kind::kDevice));
}

void RuntimeDevice::begin_present(const D3DKMT_PRESENT& present) {
  present_ = present;
  presenting_ = true;
}

RuntimeResource::RuntimeResource(const RuntimeDevice& device, Sharing sharing)
    : RuntimeObject(Kind::kResource), device_(device), sharing_(sharing) {}

RuntimeResource* RuntimeResource::find(HANDLE handle) {
  return static_cast<RuntimeResource*>(RuntimeObject::find(handle, Kind::kResource));
}

void RuntimeResource::set(D3DKMT_HANDLE resource, D3DKMT_HANDLE global_share) {
  resource_ = resource;
  global_share_ = global_share;
}

}  // namespace dxgkit::umd
