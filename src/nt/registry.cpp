// The registry calls of the Zw family and of the I/O manager, on the kernel's registry tree.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "nt/executive.h"
#include "nt/object_attributes.h"
#include "nt/registry_calls.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

constexpr size_t kKeyNameMax = 256;       // characters of one component
constexpr size_t kValueNameMax = 16'383;  // characters
constexpr uint32_t kValueBytesMax = 16U << 20;
constexpr uint32_t kOptionVolatile = 1;

int64_t nt_time(Kernel& kernel) { return kSystemTimeAtStart + kernel.runtime().now() / 100; }

void* make_key_handle(Kernel& kernel, std::shared_ptr<RegistryKey> key) {
  return make_handle(kernel, {.kind = HandleEntry::Kind::kKey,
                              .thread = {},
                              .key = std::make_shared<KeyObject>(KeyObject{std::move(key)}),
                              .event = {},
                              .sequence = 0});
}

/// The key to start at and the rest of the path. `lock` of the executive held.
int32_t resolve(Kernel& kernel, std::u16string_view path, std::shared_ptr<RegistryKey> root,
                std::shared_ptr<RegistryKey>* start, std::u16string_view* rest) {
  if (root != nullptr) {
    if (root->deleted) return kKeyDeleted;
    if (!path.empty() && path[0] == u'\\') return kObjectPathSyntaxBad;
    *start = std::move(root);
    *rest = path;
    return kSuccess;
  }
  if (path.empty() || path[0] != u'\\') return kObjectPathSyntaxBad;
  constexpr std::u16string_view kRoot = u"\\Registry";
  if (!same_text(path.substr(0, kRoot.size()), kRoot) ||
      (path.size() > kRoot.size() && path[kRoot.size()] != u'\\')) {
    return kObjectNameNotFound;
  }
  *start = executive_of(kernel).registry.root();
  *rest = path.substr(kRoot.size());
  return kSuccess;
}

bool has_long_component(std::u16string_view path) {
  size_t length = 0;
  for (const char16_t unit : path) {
    length = unit == u'\\' ? 0 : length + 1;
    if (length > kKeyNameMax) return true;
  }
  return false;
}

int32_t open_or_create(const char* function, void** handle, const ObjectAttributes* attributes,
                       bool create, uint32_t options, uint32_t* disposition) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kPassiveLevel);
  Kernel& kernel = frame.kernel();
  void*& out = required(function, "KeyHandle", handle);
  if (kernel.impl().allocation_fails(function)) return kInsufficientResources;
  if (attributes == nullptr) return kInvalidParameter;
  ObjectAttributes given{};
  copy_driver(&given, attributes, sizeof(given));
  if (!are_initialized(kernel, function, given)) return kInvalidParameter;
  std::u16string path;
  if (!capture_text(given.name, &path)) return kObjectNameInvalid;
  std::shared_ptr<RegistryKey> root;
  if (given.root_directory != nullptr) {
    root = key_of_handle(kernel, given.root_directory);
    if (root == nullptr) return kInvalidHandle;
  }
  std::shared_ptr<RegistryKey> key;
  bool created = false;
  {
    Executive& state = executive_of(kernel);
    runtime::MutexLock lock(state.lock);
    std::shared_ptr<RegistryKey> start;
    std::u16string_view rest;
    if (const int32_t status = resolve(kernel, path, std::move(root), &start, &rest); status < 0) {
      return status;
    }
    if (has_long_component(rest)) return kInvalidParameter;
    key = Registry::find_below(start, rest);
    if (key == nullptr) {
      if (!create) return kObjectNameNotFound;
      while (!rest.empty() && rest.back() == u'\\') rest.remove_suffix(1);
      const size_t cut = rest.rfind(u'\\');
      const std::u16string_view above =
          cut == std::u16string_view::npos ? std::u16string_view() : rest.substr(0, cut);
      const std::u16string_view name =
          cut == std::u16string_view::npos ? rest : rest.substr(cut + 1);
      const std::shared_ptr<RegistryKey> parent = Registry::find_below(start, above);
      // Only the last component is created.
      if (parent == nullptr) return kObjectNameNotFound;
      const bool is_volatile = (options & kOptionVolatile) != 0;
      if (parent->is_volatile && !is_volatile) return kChildMustBeVolatile;
      key = Registry::create_below(parent, name);
      key->is_volatile = is_volatile;
      key->last_write = parent->last_write = nt_time(kernel);
      created = true;
    }
  }
  out = make_key_handle(kernel, std::move(key));
  if (disposition != nullptr) *disposition = created ? 1 : 2;
  return kSuccess;
}

DXGKIT_NT_ABI int32_t zw_open_key(void** handle, uint32_t, ObjectAttributes* attributes) {
  return open_or_create("ZwOpenKey", handle, attributes, false, 0, nullptr);
}
DXGKIT_NT_ABI int32_t zw_open_key_ex(void** handle, uint32_t, ObjectAttributes* attributes,
                                     uint32_t) {
  return open_or_create("ZwOpenKeyEx", handle, attributes, false, 0, nullptr);
}
DXGKIT_NT_ABI int32_t zw_create_key(void** handle, uint32_t, ObjectAttributes* attributes, uint32_t,
                                    UnicodeString*, uint32_t options, uint32_t* disposition) {
  return open_or_create("ZwCreateKey", handle, attributes, true, options, disposition);
}

/// Runs `body(key)` under the lock, for a handle that names a live key.
template <typename Body>
int32_t with_key(const char* function, void* handle, const Body& body) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kPassiveLevel);
  const std::shared_ptr<RegistryKey> key = key_of_handle(frame.kernel(), handle);
  if (key == nullptr) return kInvalidHandle;
  Executive& state = executive_of(frame.kernel());
  runtime::MutexLock lock(state.lock);
  if (key->deleted) return kKeyDeleted;
  return body(*key);
}

class RegistryAnswer {
 public:
  RegistryAnswer& number(uint32_t value) { return raw(&value, sizeof(value)); }
  RegistryAnswer& time(int64_t value) { return raw(&value, sizeof(value)); }
  RegistryAnswer& text(std::u16string_view value) {
    return raw(value.data(), value.size() * sizeof(char16_t));
  }
  RegistryAnswer& raw(const void* data, size_t bytes) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + bytes);
    return *this;
  }
  RegistryAnswer& align(size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_.push_back(std::byte{0});
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  size_t fixed = 0;  // a shorter buffer gets nothing

 private:
  std::vector<std::byte> bytes_;
};

/// Fills a caller's buffer as the configuration manager does. A buffer below the fixed part gets
/// nothing, one below the needed size gets a cut copy, and the needed size is always returned.
/// Holds no lock, because the buffer is the driver's.
int32_t give(int32_t status, const RegistryAnswer& answer, void* buffer, uint32_t length,
             uint32_t* result_length) {
  if (status < 0) return status;
  const auto needed = static_cast<uint32_t>(answer.bytes().size());
  if (result_length != nullptr) copy_driver(result_length, &needed, sizeof(needed));
  if (length < answer.fixed) return kBufferTooSmall;
  copy_driver(buffer, answer.bytes().data(), std::min(length, needed));
  return length < needed ? kBufferOverflow : kSuccess;
}

uint32_t text_bytes(std::u16string_view text) {
  return static_cast<uint32_t>(text.size() * sizeof(char16_t));
}

int32_t describe_value(std::u16string_view name, const RegistryValue& value,
                       uint32_t information_class, RegistryAnswer& answer) {
  const auto data_bytes = static_cast<uint32_t>(value.data.size());
  switch (information_class) {
    case 0:  // KEY_VALUE_BASIC_INFORMATION
      answer.number(0).number(value.type).number(text_bytes(name)).text(name);
      answer.fixed = 12;
      return kSuccess;
    case 1:    // KEY_VALUE_FULL_INFORMATION
    case 3: {  // the same, aligned
      const uint32_t offset = (20 + text_bytes(name) + 7U) & ~7U;
      answer.number(0).number(value.type).number(offset).number(data_bytes);
      answer.number(text_bytes(name)).text(name).align(8);
      answer.raw(value.data.data(), value.data.size());
      answer.fixed = 20;
      return kSuccess;
    }
    case 2:  // KEY_VALUE_PARTIAL_INFORMATION
      answer.number(0).number(value.type).number(data_bytes);
      answer.raw(value.data.data(), value.data.size());
      answer.fixed = 12;
      return kSuccess;
    case 4:  // KEY_VALUE_PARTIAL_INFORMATION_ALIGN64
      answer.number(value.type).number(data_bytes);
      answer.raw(value.data.data(), value.data.size());
      answer.fixed = 8;
      return kSuccess;
    default:
      return kInvalidParameter;
  }
}

DXGKIT_NT_ABI int32_t zw_query_value_key(void* handle, const UnicodeString* name,
                                         uint32_t information_class, void* information,
                                         uint32_t length, uint32_t* result_length) {
  std::u16string wanted;
  if (name != nullptr && !capture_text(name, &wanted)) return kInvalidParameter;
  if (CallFrame::current().kernel().impl().allocation_fails("ZwQueryValueKey"))
    return kInsufficientResources;
  if (const Executive& state = executive(); state.value_asked) state.value_asked(wanted);
  RegistryAnswer answer;
  const int32_t status = with_key("ZwQueryValueKey", handle, [&](RegistryKey& key) -> int32_t {
    const auto found = key.values.find(wanted);
    if (found == key.values.end()) return kObjectNameNotFound;
    return describe_value(found->first, found->second, information_class, answer);
  });
  return give(status, answer, information, length, result_length);
}

DXGKIT_NT_ABI int32_t zw_enumerate_value_key(void* handle, uint32_t index,
                                             uint32_t information_class, void* information,
                                             uint32_t length, uint32_t* result_length) {
  RegistryAnswer answer;
  const int32_t status = with_key("ZwEnumerateValueKey", handle, [&](RegistryKey& key) -> int32_t {
    if (index >= key.values.size()) return kNoMoreEntries;
    const auto found = std::next(key.values.begin(), index);
    return describe_value(found->first, found->second, information_class, answer);
  });
  return give(status, answer, information, length, result_length);
}

int32_t describe_key(const RegistryKey& key, uint32_t information_class, bool path_allowed,
                     RegistryAnswer& answer) {
  uint32_t longest_child = 0, longest_value = 0, longest_data = 0;
  for (const auto& [name, child] : key.children)
    longest_child = std::max(longest_child, text_bytes(child->name));
  for (const auto& [name, value] : key.values) {
    longest_value = std::max(longest_value, text_bytes(name));
    longest_data = std::max(longest_data, static_cast<uint32_t>(value.data.size()));
  }
  const auto children = static_cast<uint32_t>(key.children.size());
  const auto values = static_cast<uint32_t>(key.values.size());
  constexpr uint32_t kNoClass = UINT32_MAX;
  switch (information_class) {
    case 0:  // KEY_BASIC_INFORMATION
      answer.time(key.last_write).number(0).number(text_bytes(key.name)).text(key.name);
      answer.fixed = 16;
      return kSuccess;
    case 1:  // KEY_NODE_INFORMATION
      answer.time(key.last_write).number(0).number(kNoClass).number(0);
      answer.number(text_bytes(key.name)).text(key.name);
      answer.fixed = 24;
      return kSuccess;
    case 2:  // KEY_FULL_INFORMATION
      answer.time(key.last_write).number(0).number(kNoClass).number(0);
      answer.number(children).number(longest_child).number(0);
      answer.number(values).number(longest_value).number(longest_data);
      answer.fixed = 44;
      return kSuccess;
    case 3: {  // KEY_NAME_INFORMATION
      if (!path_allowed) return kInvalidParameter;
      const std::u16string path = Registry::path_of(key);
      answer.number(text_bytes(path)).text(path);
      answer.fixed = 4;
      return kSuccess;
    }
    case 4:  // KEY_CACHED_INFORMATION
      if (!path_allowed) return kInvalidParameter;
      answer.time(key.last_write).number(0).number(children).number(longest_child);
      answer.number(values).number(longest_value).number(longest_data);
      answer.number(text_bytes(key.name)).align(8);
      answer.fixed = 40;
      return kSuccess;
    default:
      return kInvalidParameter;
  }
}

DXGKIT_NT_ABI int32_t zw_query_key(void* handle, uint32_t information_class, void* information,
                                   uint32_t length, uint32_t* result_length) {
  RegistryAnswer answer;
  const int32_t status = with_key("ZwQueryKey", handle, [&](RegistryKey& key) {
    return describe_key(key, information_class, true, answer);
  });
  return give(status, answer, information, length, result_length);
}
DXGKIT_NT_ABI int32_t zw_enumerate_key(void* handle, uint32_t index, uint32_t information_class,
                                       void* information, uint32_t length,
                                       uint32_t* result_length) {
  RegistryAnswer answer;
  const int32_t status = with_key("ZwEnumerateKey", handle, [&](RegistryKey& key) -> int32_t {
    if (index >= key.children.size()) return kNoMoreEntries;
    return describe_key(*std::next(key.children.begin(), index)->second, information_class, false,
                        answer);
  });
  return give(status, answer, information, length, result_length);
}

DXGKIT_NT_ABI int32_t zw_set_value_key(void* handle, const UnicodeString* name, uint32_t,
                                       uint32_t type, const void* data, uint32_t bytes) {
  Kernel& kernel = CallFrame::current().kernel();
  std::u16string text;
  if (!capture_text(name, &text) || text.size() > kValueNameMax) return kInvalidParameter;
  if (bytes > kValueBytesMax) return kInsufficientResources;
  std::vector<std::byte> copy(bytes);
  copy_driver(copy.data(), data, bytes);
  return with_key("ZwSetValueKey", handle, [&](RegistryKey& key) {
    set_registry_value(kernel, key, text, type, copy.data(), bytes);
    return kSuccess;
  });
}

DXGKIT_NT_ABI int32_t zw_delete_value_key(void* handle, const UnicodeString* name) {
  Kernel& kernel = CallFrame::current().kernel();
  std::u16string text;
  if (!capture_text(name, &text)) return kInvalidParameter;
  return with_key("ZwDeleteValueKey", handle, [&](RegistryKey& key) -> int32_t {
    const auto found = key.values.find(text);
    if (found == key.values.end()) return kObjectNameNotFound;
    key.values.erase(found);
    key.last_write = nt_time(kernel);
    return kSuccess;
  });
}

DXGKIT_NT_ABI int32_t zw_delete_key(void* handle) {
  return with_key("ZwDeleteKey", handle, [&](RegistryKey& key) -> int32_t {
    const std::shared_ptr<RegistryKey> parent = key.parent.lock();
    if (!key.children.empty() || parent == nullptr) return kCannotDelete;
    key.deleted = true;
    const auto found = parent->children.find(key.name);
    if (found != parent->children.end()) parent->children.erase(found);
    return kSuccess;
  });
}

DXGKIT_NT_ABI int32_t zw_flush_key(void* handle) {
  return with_key("ZwFlushKey", handle, [](RegistryKey&) { return kSuccess; });
}

DXGKIT_NT_ABI int32_t io_open_device_registry_key(void* device, uint32_t type, uint32_t,
                                                  void** handle) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "IoOpenDeviceRegistryKey", kPassiveLevel);
  void*& out = required("IoOpenDeviceRegistryKey", "DeviceRegKey", handle);
  if (device == nullptr) return kInvalidDeviceRequest;
  constexpr uint32_t kDevice = 1, kDriver = 2, kHardwareProfile = 4, kWow = 8;
  const uint32_t kind = type & ~(kHardwareProfile | kWow);
  if (kind != kDevice && kind != kDriver) return kInvalidParameter;
  if ((type & kHardwareProfile) != 0) return kNotSupported;
  Executive& state = executive_of(frame.kernel());
  std::shared_ptr<RegistryKey> key;
  {
    runtime::MutexLock lock(state.lock);
    key = state.registry.find(
        widen(kind == kDevice ? KernelConfig::kDeviceKey : KernelConfig::kSoftwareKey));
  }
  if (key == nullptr) return kObjectNameNotFound;  // the driver deleted it
  out = make_key_handle(frame.kernel(), std::move(key));
  return kSuccess;
}

DXGKIT_NT_ABI int32_t io_open_driver_registry_key(void* driver, uint32_t type, uint32_t, uint32_t,
                                                  void** handle) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "IoOpenDriverRegistryKey", kPassiveLevel);
  void*& out = required("IoOpenDriverRegistryKey", "DriverRegKey", handle);
  if (driver == nullptr || type > 1) return kInvalidParameter;
  Executive& state = executive_of(frame.kernel());
  std::shared_ptr<RegistryKey> key;
  {
    runtime::MutexLock lock(state.lock);
    const std::u16string path =
        widen(KernelConfig::kDriverKey) + (type == 0 ? u"\\Parameters" : u"\\PersistentState");
    key = Registry::create_below(state.registry.root(), path.substr(std::strlen("\\Registry")));
  }
  out = make_key_handle(frame.kernel(), std::move(key));
  return kSuccess;
}

/// DEVICE_REGISTRY_PROPERTY -> the value of the properties key that holds it.
const char* property_name(uint32_t property) {
  static constexpr const char* kNames[] = {"DeviceDesc",
                                           "HardwareID",
                                           "CompatibleIDs",
                                           nullptr,  // boot configuration
                                           nullptr,  // the same, translated
                                           "Class",
                                           "ClassGUID",
                                           "Driver",
                                           "Mfg",
                                           "FriendlyName",
                                           "LocationInformation",
                                           "PhysicalDeviceObjectName",
                                           "BusTypeGuid",
                                           "LegacyBusType",
                                           "BusNumber",
                                           "EnumeratorName",
                                           "Address",
                                           "UINumber",
                                           "InstallState",
                                           "RemovalPolicy",
                                           "ResourceRequirements",
                                           "AllocatedResources",
                                           "ContainerID"};
  return property < std::size(kNames) ? kNames[property] : nullptr;
}

DXGKIT_NT_ABI int32_t io_get_device_property(void* device, uint32_t property, uint32_t length,
                                             void* buffer, uint32_t* result_length) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "IoGetDeviceProperty", kPassiveLevel);
  uint32_t& needed = required("IoGetDeviceProperty", "ResultLength", result_length);
  needed = 0;
  if (device == nullptr) return kInvalidDeviceRequest;
  if (property > 22) return kInvalidParameter2;
  const char* name = property_name(property);
  if (name == nullptr) return kObjectNameNotFound;
  Executive& state = executive_of(frame.kernel());
  RegistryValue value;
  {
    runtime::MutexLock lock(state.lock);
    const auto key = state.registry.find(widen(KernelConfig::kPropertiesKey));
    if (key == nullptr) return kObjectNameNotFound;
    const auto found = key->values.find(widen(name));
    if (found == key->values.end()) return kObjectNameNotFound;
    value = found->second;
  }
  needed = static_cast<uint32_t>(value.data.size());
  // All or nothing, unlike registry queries.
  if (length < needed) return kBufferTooSmall;
  copy_driver(buffer, value.data.data(), needed);
  return kSuccess;
}

DXGKIT_NT_ABI int32_t io_get_device_property_data(void*, const void*, uint32_t, uint32_t, uint32_t,
                                                  void*, uint32_t* required_size, uint32_t* type) {
  if (required_size != nullptr) *required_size = 0;
  if (type != nullptr) *type = 0;
  return kObjectNameNotFound;  // no device of this kernel has unified properties
}

}  // namespace

std::shared_ptr<RegistryKey> key_of_handle(Kernel& kernel, void* handle) {
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.dispatcher_lock);
  const auto found = state.handles.find(reinterpret_cast<uint64_t>(handle));
  if (found == state.handles.end() || found->second.kind != HandleEntry::Kind::kKey) return nullptr;
  return found->second.key->key;
}

void set_registry_value(Kernel& kernel, RegistryKey& key, std::u16string_view name, uint32_t type,
                        const void* data, uint32_t bytes) {
  RegistryValue value{type, {}};
  if (bytes > 0) {
    const auto* first = static_cast<const std::byte*>(data);
    value.data.assign(first, first + bytes);
  }
  if (const auto found = key.values.find(name); found != key.values.end()) {
    found->second = std::move(value);
  } else {
    key.values.emplace(std::u16string(name), std::move(value));
  }
  key.last_write = nt_time(kernel);
}

void watch_registry(Kernel& kernel, std::function<void(std::u16string_view name)> asked) {
  executive_of(kernel).value_asked = std::move(asked);
}

std::span<const Export> registry_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("IoGetDeviceProperty", io_get_device_property, kPartial,
                    "from the configuration; resource lists have none"),
      DXGKIT_EXPORT("IoGetDevicePropertyData", io_get_device_property_data, kRefused,
                    "no unified device properties"),
      DXGKIT_EXPORT("IoOpenDeviceInterfaceRegistryKey", refuse_status, kRefused,
                    "no device interfaces"),
      DXGKIT_EXPORT("IoOpenDeviceRegistryKey", io_open_device_registry_key, kPartial,
                    "one device per kernel; no hardware profiles"),
      DXGKIT_EXPORT("IoOpenDriverRegistryKey", io_open_driver_registry_key, kSupported, ""),
      DXGKIT_EXPORT("IoSetDevicePropertyData", refuse_status, kRefused,
                    "no unified device properties"),
      DXGKIT_EXPORT("ZwCreateKey", zw_create_key, kPartial, "classes and access are not kept"),
      DXGKIT_EXPORT("ZwDeleteKey", zw_delete_key, kSupported, ""),
      DXGKIT_EXPORT("ZwDeleteValueKey", zw_delete_value_key, kSupported, ""),
      DXGKIT_EXPORT("ZwEnumerateKey", zw_enumerate_key, kSupported, ""),
      DXGKIT_EXPORT("ZwEnumerateValueKey", zw_enumerate_value_key, kSupported, ""),
      DXGKIT_EXPORT("ZwFlushKey", zw_flush_key, kPartial, "the registry lives with the kernel"),
      DXGKIT_EXPORT("ZwNotifyChangeKey", refuse_status, kRefused, "no registry notifications"),
      DXGKIT_EXPORT("ZwOpenKey", zw_open_key, kSupported, ""),
      DXGKIT_EXPORT("ZwOpenKeyEx", zw_open_key_ex, kSupported, ""),
      DXGKIT_EXPORT("ZwQueryKey", zw_query_key, kSupported, ""),
      DXGKIT_EXPORT("ZwQueryValueKey", zw_query_value_key, kSupported, ""),
      DXGKIT_EXPORT("ZwSetValueKey", zw_set_value_key, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
