// Shared by the registry calls; internal to this folder.
#pragma once

#include <memory>
#include <string_view>

#include "nt/registry_store.h"

namespace dxgkit::nt {

/// The key behind a handle of the driver; null if the handle names no key.
std::shared_ptr<RegistryKey> key_of_handle(Kernel& kernel, void* handle);
/// Writes a value and the key's time. The caller holds the executive's lock.
void set_registry_value(Kernel& kernel, RegistryKey& key, std::u16string_view name, uint32_t type,
                        const void* data, uint32_t bytes);

}  // namespace dxgkit::nt
