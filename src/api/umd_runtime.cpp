#include "dxgkit/umd_runtime.h"

#include "umd/runtime_objects.h"

namespace dxgkit {

// Handles are non-const pointers, and finding an object by its handle changes nothing.
struct RuntimeAdapter::Impl {
  umd::RuntimeAdapter object;
};
struct RuntimeDevice::Impl {
  umd::RuntimeDevice object;
};
struct RuntimeResource::Impl {
  umd::RuntimeResource object;
};

RuntimeAdapter::RuntimeAdapter(D3DKMT_HANDLE adapter, UINT version)
    : impl_(new Impl{umd::RuntimeAdapter(adapter, version)}) {}
RuntimeAdapter::~RuntimeAdapter() = default;
HANDLE RuntimeAdapter::handle() const { return impl_->object.handle(); }
const D3DDDI_ADAPTERCALLBACKS& RuntimeAdapter::callbacks() const {
  return impl_->object.callbacks();
}

RuntimeDevice::RuntimeDevice(const RuntimeAdapter& adapter, D3DKMT_HANDLE device)
    : impl_(new Impl{umd::RuntimeDevice(adapter.impl_->object, device)}) {}
RuntimeDevice::~RuntimeDevice() = default;
HANDLE RuntimeDevice::handle() const { return impl_->object.handle(); }
const D3DDDI_DEVICECALLBACKS& RuntimeDevice::callbacks() const { return impl_->object.callbacks(); }
void RuntimeDevice::begin_present(const D3DKMT_PRESENT& present) {
  impl_->object.begin_present(present);
}
void RuntimeDevice::end_present() { impl_->object.end_present(); }

RuntimeResource::RuntimeResource(const RuntimeDevice& device, Sharing sharing)
    : impl_(new Impl{umd::RuntimeResource(device.impl_->object,
                                          sharing == Sharing::kShared
                                              ? umd::RuntimeResource::Sharing::kShared
                                              : umd::RuntimeResource::Sharing::kPrivate)}) {}
RuntimeResource::~RuntimeResource() = default;
HANDLE RuntimeResource::handle() const { return impl_->object.handle(); }
D3DKMT_HANDLE RuntimeResource::kernel_handle() const { return impl_->object.kernel_handle(); }
D3DKMT_HANDLE RuntimeResource::global_share() const { return impl_->object.global_share(); }

}  // namespace dxgkit
