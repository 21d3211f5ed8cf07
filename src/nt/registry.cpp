// Registry reads from the configuration, and the few I/O manager calls around it.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "nt/kernel_impl.h"

namespace dxgkit::nt {
namespace {

constexpr int32_t kStatusSuccess = 0;
constexpr int32_t kStatusBufferOverflow = static_cast<int32_t>(0x80000005);
constexpr int32_t kStatusInvalidHandle = static_cast<int32_t>(0xC0000008);
constexpr int32_t kStatusInvalidParameter = static_cast<int32_t>(0xC000000D);
constexpr int32_t kStatusBufferTooSmall = static_cast<int32_t>(0xC0000023);
constexpr int32_t kStatusObjectNameNotFound = static_cast<int32_t>(0xC0000034);
constexpr int32_t kStatusNotSupported = static_cast<int32_t>(0xC00000BB);

std::string to_key(const UnicodeString* text) {
  std::string out;
  if (text == nullptr || text->buffer == nullptr) return out;
  for (size_t i = 0; i < text->length / sizeof(char16_t); ++i) {
    const char16_t unit = text->buffer[i];
    out += unit < 0x80 ? static_cast<char>(unit) : '?';
  }
  return out;
}

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return std::ranges::equal(a, b, {}, lower, lower);
}

const std::map<std::string, RegistryValue>* find_values(Kernel& kernel, std::string_view path) {
  for (const auto& [key, values] : kernel.config().registry) {
    if (same_name(key, path)) return &values;
  }
  return nullptr;
}

/// Keys above configured ones exist too.
bool key_exists(Kernel& kernel, std::string_view path) {
  for (const auto& [key, values] : kernel.config().registry) {
    if (key.size() >= path.size() &&
        same_name(std::string_view(key).substr(0, path.size()), path) &&
        (key.size() == path.size() || key[path.size()] == '\\')) {
      return true;
    }
  }
  return same_name(path, KernelConfig::kDeviceKey) || same_name(path, KernelConfig::kDriverKey);
}

void* make_key_handle(Kernel& kernel, std::string path) {
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.dispatcher_lock);
  const uint64_t value = state.next_handle;
  state.next_handle += 4;
  state.handles.emplace(value,
                        HandleEntry{.kind = HandleEntry::Kind::kKey,
                                    .thread = {},
                                    .key = std::make_shared<KeyObject>(KeyObject{std::move(path)}),
                                    .event = {},
                                    .sequence = value});
  return reinterpret_cast<void*>(value);
}

bool key_of_handle(Kernel& kernel, void* handle, std::string* path) {
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.dispatcher_lock);
  const auto found = state.handles.find(reinterpret_cast<uint64_t>(handle));
  if (found == state.handles.end() || found->second.kind != HandleEntry::Kind::kKey) return false;
  *path = found->second.key->path;
  return true;
}

int32_t open_key(const char* function, void** handle, const ObjectAttributes* attributes) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kPassiveLevel);
  Kernel& kernel = frame.kernel();
  if (attributes == nullptr || attributes->name == nullptr) return kStatusInvalidParameter;
  std::string path;
  if (attributes->root_directory != nullptr) {
    if (!key_of_handle(kernel, attributes->root_directory, &path)) return kStatusInvalidHandle;
    if (attributes->name->length > 0) path += "\\";
  }
  path += to_key(attributes->name);
  if (!key_exists(kernel, path)) return kStatusObjectNameNotFound;
  *handle = make_key_handle(kernel, std::move(path));
  return kStatusSuccess;
}

DXGKIT_NT_ABI int32_t zw_open_key(void** handle, uint32_t, ObjectAttributes* attributes) {
  return open_key("ZwOpenKey", handle, attributes);
}
DXGKIT_NT_ABI int32_t zw_create_key(void** handle, uint32_t, ObjectAttributes* attributes, uint32_t,
                                    UnicodeString*, uint32_t, uint32_t* disposition) {
  const int32_t status = open_key("ZwCreateKey", handle, attributes);
  if (status >= 0 && disposition != nullptr) *disposition = 2;  // opened an existing key
  return status == kStatusObjectNameNotFound ? kStatusNotSupported : status;
}

DXGKIT_NT_ABI int32_t zw_query_value_key(void* handle, UnicodeString* name,
                                         uint32_t information_class, void* information,
                                         uint32_t length, uint32_t* result_length) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ZwQueryValueKey", kPassiveLevel);
  std::string path;
  if (!key_of_handle(frame.kernel(), handle, &path)) return kStatusInvalidHandle;
  const auto* values = find_values(frame.kernel(), path);
  if (values == nullptr) return kStatusObjectNameNotFound;
  const std::string wanted = to_key(name);
  const auto found = std::ranges::find_if(
      *values, [&](const auto& entry) { return same_name(entry.first, wanted); });
  if (found == values->end()) return kStatusObjectNameNotFound;
  const RegistryValue& value = found->second;
  const auto data_bytes = static_cast<uint32_t>(value.data.size());
  auto* out = static_cast<std::byte*>(information);
  const auto put = [&](uint32_t offset, uint32_t number) {
    std::memcpy(out + offset, &number, sizeof(number));
  };
  // KEY_VALUE_PARTIAL_INFORMATION: title index, type, data length, data. FULL: title, type, offset,
  // length, name length, name.
  uint32_t header = 0, data_offset = 0;
  if (information_class == 2) {
    header = data_offset = 12;
  } else if (information_class == 1) {
    header = 20;
    data_offset = (20 + name->length + 7U) & ~7U;
  } else {
    return kStatusInvalidParameter;
  }
  if (result_length != nullptr) *result_length = data_offset + data_bytes;
  if (length < header) return kStatusBufferTooSmall;
  put(0, 0);
  put(4, value.type);
  if (information_class == 2) {
    put(8, data_bytes);
  } else {
    put(8, data_offset);
    put(12, data_bytes);
    put(16, name->length);
    if (length >= data_offset) std::memcpy(out + 20, name->buffer, name->length);
  }
  if (length < data_offset + data_bytes) {
    if (length > data_offset)
      std::memcpy(out + data_offset, value.data.data(), length - data_offset);
    return kStatusBufferOverflow;
  }
  if (data_bytes > 0) std::memcpy(out + data_offset, value.data.data(), data_bytes);
  return kStatusSuccess;
}

DXGKIT_NT_ABI int32_t zw_set_value_key(void*, UnicodeString*, uint32_t, uint32_t, void*, uint32_t) {
  return kStatusNotSupported;
}
DXGKIT_NT_ABI int32_t zw_flush_key(void*) { return kStatusSuccess; }

DXGKIT_NT_ABI int32_t io_open_device_registry_key(void*, uint32_t, uint32_t, void** handle) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "IoOpenDeviceRegistryKey", kPassiveLevel);
  *handle = make_key_handle(frame.kernel(), KernelConfig::kDeviceKey);
  return kStatusSuccess;
}

DXGKIT_NT_ABI int32_t io_get_device_property(void*, uint32_t, uint32_t, void*,
                                             uint32_t* result_length) {
  if (result_length != nullptr) *result_length = 0;
  return kStatusNotSupported;
}

// Files, other drivers and IRPs: a miniport under test is alone in its world.
DXGKIT_NT_ABI int32_t refuse_status() { return kStatusNotSupported; }
DXGKIT_NT_ABI void* refuse_pointer() { return nullptr; }

DXGKIT_NT_ABI int32_t dxgk_initialize(void*, UnicodeString*, const void* data) {
  Kernel& kernel = CallFrame::current().kernel();
  if (!kernel.impl().initialize_hook) return kStatusNotSupported;
  return kernel.impl().initialize_hook(data, false);
}
DXGKIT_NT_ABI int32_t dxgk_initialize_display_only(void*, UnicodeString*, const void* data) {
  Kernel& kernel = CallFrame::current().kernel();
  if (!kernel.impl().initialize_hook) return kStatusNotSupported;
  return kernel.impl().initialize_hook(data, true);
}

}  // namespace

std::span<const Export> registry_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("IoGetDeviceProperty", io_get_device_property, kRefused, "no properties"),
      DXGKIT_EXPORT("IoOpenDeviceRegistryKey", io_open_device_registry_key, kPartial,
                    "one key per kernel, from its configuration"),
      DXGKIT_EXPORT("ZwCreateKey", zw_create_key, kPartial,
                    "opens keys of the configuration; creates none"),
      DXGKIT_EXPORT("ZwFlushKey", zw_flush_key, kSupported, ""),
      DXGKIT_EXPORT("ZwOpenKey", zw_open_key, kPartial, "keys of the configuration"),
      DXGKIT_EXPORT("ZwQueryValueKey", zw_query_value_key, kPartial,
                    "full and partial information"),
      DXGKIT_EXPORT("ZwSetValueKey", zw_set_value_key, kRefused, "the registry is read-only"),
  };
  return kTable;
}

std::span<const Export> io_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("DxgkInitialize", dxgk_initialize, kSupported, ""),
      DXGKIT_EXPORT("DxgkInitializeDisplayOnlyDriver", dxgk_initialize_display_only, kPartial,
                    "the table is checked; no display"),
      DXGKIT_EXPORT("EtwRegister", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("EtwUnregister", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("EtwWriteTransfer", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("IoBuildDeviceIoControlRequest", refuse_pointer, kRefused, "no other drivers"),
      DXGKIT_EXPORT("IoBuildSynchronousFsdRequest", refuse_pointer, kRefused, "no other drivers"),
      DXGKIT_EXPORT("IoGetDeviceObjectPointer", refuse_status, kRefused, "no other drivers"),
      DXGKIT_EXPORT("IoGetRelatedDeviceObject", refuse_pointer, kRefused, "no files"),
      DXGKIT_EXPORT("IofCallDriver", refuse_status, kRefused, "no other drivers"),
      DXGKIT_EXPORT("ZwCreateFile", refuse_status, kRefused, "no files"),
      DXGKIT_EXPORT("ZwLoadDriver", refuse_status, kRefused, "no other drivers"),
      DXGKIT_EXPORT("ZwUnloadDriver", refuse_status, kRefused, "no other drivers"),
  };
  return kTable;
}

}  // namespace dxgkit::nt
