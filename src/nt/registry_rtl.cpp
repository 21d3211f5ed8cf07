// The run-time library's registry calls.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "nt/executive.h"
#include "nt/registry_calls.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

constexpr uint32_t kRelativeMask = 0xFF, kRelativeHandle = 0x40000000,
                   kRelativeOptional = 0x80000000;
// RTL_QUERY_REGISTRY_*
constexpr uint32_t kSubkey = 0x1, kTopkey = 0x2, kRequired = 0x4, kNoValue = 0x8, kNoExpand = 0x10,
                   kDirect = 0x20, kDelete = 0x40, kTypeCheck = 0x100;

using QueryRoutine = int32_t(DXGKIT_NT_ABI*)(const char16_t*, uint32_t, void*, uint32_t, void*,
                                             void*);
struct QueryTable {  // RTL_QUERY_REGISTRY_TABLE
  QueryRoutine routine;
  uint32_t flags;
  const char16_t* name;
  void* entry_context;
  uint32_t default_type;
  const void* default_data;
  uint32_t default_length;
};
static_assert(sizeof(QueryTable) == 56);

std::u16string terminated_text(const char16_t* text) {
  std::u16string out;
  for (size_t i = 0; text != nullptr && i < 32'767; ++i) {
    char16_t unit = 0;
    copy_driver(&unit, text + i, sizeof(unit));
    if (unit == 0) break;
    out.push_back(unit);
  }
  return out;
}

/// The key that RelativeTo and Path name. `create`: missing keys are made.
int32_t open_relative(Kernel& kernel, uint32_t relative, const char16_t* path, bool create,
                      std::shared_ptr<RegistryKey>* key) {
  std::shared_ptr<RegistryKey> start;
  std::u16string below;
  Executive& state = executive_of(kernel);
  if ((relative & kRelativeHandle) != 0) {
    start = key_of_handle(kernel, const_cast<char16_t*>(path));
    if (start == nullptr) return kInvalidHandle;
  } else {
    below = terminated_text(path);
    static constexpr const char16_t* kBases[] = {
        u"",
        u"\\Machine\\System\\CurrentControlSet\\Services",
        u"\\Machine\\System\\CurrentControlSet\\Control",
        u"\\Machine\\Software\\Microsoft\\Windows NT\\CurrentVersion",
        u"\\Machine\\Hardware\\DeviceMap",
        u"\\User\\.Default"};
    const uint32_t base = relative & kRelativeMask;
    if (base >= std::size(kBases)) return kInvalidParameter;
    if (base == 0) {
      constexpr std::u16string_view kRoot = u"\\Registry";
      if (!same_text(std::u16string_view(below).substr(0, kRoot.size()), kRoot))
        return kObjectNameNotFound;
      below.erase(0, kRoot.size());
    } else {
      below = kBases[base] + (u"\\" + below);
    }
  }
  runtime::MutexLock lock(state.lock);
  if (start == nullptr) start = state.registry.root();
  if (start->deleted) return kKeyDeleted;
  *key = create ? Registry::create_below(start, below) : Registry::find_below(start, below);
  return *key == nullptr ? kObjectNameNotFound : kSuccess;
}

DXGKIT_NT_ABI int32_t rtl_check_registry_key(uint32_t relative, const char16_t* path) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "RtlCheckRegistryKey", kPassiveLevel);
  std::shared_ptr<RegistryKey> key;
  return open_relative(frame.kernel(), relative, path, false, &key);
}
DXGKIT_NT_ABI int32_t rtl_create_registry_key(uint32_t relative, const char16_t* path) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "RtlCreateRegistryKey", kPassiveLevel);
  std::shared_ptr<RegistryKey> key;
  return open_relative(frame.kernel(), relative, path, true, &key);
}
DXGKIT_NT_ABI int32_t rtl_write_registry_value(uint32_t relative, const char16_t* path,
                                               const char16_t* name, uint32_t type,
                                               const void* data, uint32_t bytes) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "RtlWriteRegistryValue", kPassiveLevel);
  std::shared_ptr<RegistryKey> key;
  if (const int32_t status = open_relative(frame.kernel(), relative, path, true, &key); status < 0)
    return status;
  if (bytes > (16U << 20)) return kInsufficientResources;
  const std::u16string text = terminated_text(name);
  std::vector<std::byte> copy(bytes);
  copy_driver(copy.data(), data, bytes);
  runtime::MutexLock lock(executive_of(frame.kernel()).lock);
  set_registry_value(frame.kernel(), *key, text, type, copy.data(), bytes);
  return kSuccess;
}
DXGKIT_NT_ABI int32_t rtl_delete_registry_value(uint32_t relative, const char16_t* path,
                                                const char16_t* name) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "RtlDeleteRegistryValue", kPassiveLevel);
  std::shared_ptr<RegistryKey> key;
  if (const int32_t status = open_relative(frame.kernel(), relative, path, false, &key); status < 0)
    return status;
  const std::u16string text = terminated_text(name);
  runtime::MutexLock lock(executive_of(frame.kernel()).lock);
  const auto found = key->values.find(text);
  if (found == key->values.end()) return kObjectNameNotFound;
  key->values.erase(found);
  return kSuccess;
}

/// "%SystemRoot%" and relatives, as the system's own environment has them.
std::vector<std::byte> expand(const std::vector<std::byte>& data) {
  std::u16string text(data.size() / sizeof(char16_t), u'\0');
  std::memcpy(text.data(), data.data(), text.size() * sizeof(char16_t));
  for (const auto& [variable, value] :
       {std::pair<std::u16string_view, std::u16string_view>{u"%SystemRoot%", u"C:\\Windows"},
        {u"%windir%", u"C:\\Windows"},
        {u"%SystemDrive%", u"C:"}}) {
    for (size_t at = 0; at + variable.size() <= text.size();) {
      if (same_text(std::u16string_view(text).substr(at, variable.size()), variable)) {
        text.replace(at, variable.size(), value);
        at += value.size();
      } else {
        ++at;
      }
    }
  }
  std::vector<std::byte> out(text.size() * sizeof(char16_t));
  std::memcpy(out.data(), text.data(), out.size());
  return out;
}

/// RTL_QUERY_REGISTRY_DIRECT: the value is written to EntryContext.
int32_t store_direct(const QueryTable& entry, const RegistryValue& value) {
  required("RtlQueryRegistryValues", "EntryContext", static_cast<std::byte*>(entry.entry_context));
  const auto bytes = static_cast<uint32_t>(value.data.size());
  if (value.type == kRegSz || value.type == kRegExpandSz || value.type == kRegMultiSz) {
    UnicodeString out{};
    copy_driver(&out, entry.entry_context, sizeof(out));
    if (bytes > UINT16_MAX - 1) return kBufferTooSmall;
    if (out.buffer == nullptr) {
      const auto pool = export_function<void * DXGKIT_NT_ABI(uint32_t, uint64_t, uint32_t)>(
          "ExAllocatePoolWithTag");
      out.buffer = static_cast<char16_t*>(pool(1, std::max(bytes, 2U), 0x67526C52));
      if (out.buffer == nullptr) return kNoMemory;
      out.maximum_length = static_cast<uint16_t>(bytes);
    } else if (out.maximum_length < bytes) {
      return kBufferTooSmall;
    }
    copy_driver(out.buffer, value.data.data(), bytes);
    // The terminator is not part of the length; a list keeps the last one.
    out.length = static_cast<uint16_t>(value.type != kRegMultiSz && bytes >= 2 ? bytes - 2 : bytes);
    copy_driver(entry.entry_context, &out, sizeof(out));
    return kSuccess;
  }
  if (bytes <= sizeof(uint32_t)) {
    copy_driver(entry.entry_context, value.data.data(), bytes);
    return kSuccess;
  }
  // Longer data: the buffer begins with its size, negative for data alone; positive gets the
  // length and the type in front.
  int32_t size = 0;
  copy_driver(&size, entry.entry_context, sizeof(size));
  if (size < 0) {
    if (static_cast<uint32_t>(-static_cast<int64_t>(size)) < bytes) return kBufferTooSmall;
    copy_driver(entry.entry_context, value.data.data(), bytes);
    return kSuccess;
  }
  if (static_cast<uint64_t>(size) < uint64_t{bytes} + 8) return kBufferTooSmall;
  auto* out = static_cast<std::byte*>(entry.entry_context);
  copy_driver(out, &bytes, 4);
  copy_driver(out + 4, &value.type, 4);
  copy_driver(out + 8, value.data.data(), bytes);
  return kSuccess;
}

int32_t call_routine(const QueryTable& entry, const std::u16string& name, uint32_t type,
                     std::vector<std::byte>& data, void* context) {
  const int32_t status =
      entry.routine(name.c_str(), type, data.empty() ? nullptr : data.data(),
                    static_cast<uint32_t>(data.size()), context, entry.entry_context);
  return status == kBufferTooSmall ? kSuccess : status;
}

int32_t hand_over(const QueryTable& entry, const std::u16string& name, RegistryValue value,
                  void* context) {
  if ((entry.flags & kDirect) != 0) {
    if ((entry.flags & kTypeCheck) != 0 && entry.default_type >> 24 != value.type)
      return kObjectTypeMismatch;
    if (value.type == kRegExpandSz && (entry.flags & kNoExpand) == 0)
      value = {kRegSz, expand(value.data)};
    return store_direct(entry, value);
  }
  if (entry.routine == nullptr) return kInvalidParameter;
  if (value.type == kRegExpandSz && (entry.flags & kNoExpand) == 0)
    value = {kRegSz, expand(value.data)};
  if (value.type != kRegMultiSz || (entry.flags & kNoExpand) != 0)
    return call_routine(entry, name, value.type, value.data, context);
  // A list is handed over string by string.
  for (size_t at = 0; at + 2 <= value.data.size();) {
    size_t end = at;
    while (end + 2 <= value.data.size() &&
           (value.data[end] != std::byte{0} || value.data[end + 1] != std::byte{0})) {
      end += 2;
    }
    if (end == at) break;
    std::vector<std::byte> part(value.data.begin() + static_cast<ptrdiff_t>(at),
                                value.data.begin() + static_cast<ptrdiff_t>(end));
    part.resize(part.size() + 2);
    if (const int32_t status = call_routine(entry, name, kRegSz, part, context); status < 0)
      return status;
    at = end + 2;
  }
  return kSuccess;
}

/// The default of an entry, or false.
bool default_of(const QueryTable& entry, RegistryValue* value) {
  const uint32_t type = entry.default_type & 0xFFFFFF;
  if (type == 0) return false;
  value->type = type;
  uint32_t bytes = entry.default_length;
  if (bytes == 0 && entry.default_data != nullptr && (type == kRegSz || type == kRegExpandSz)) {
    bytes = static_cast<uint32_t>(
                terminated_text(static_cast<const char16_t*>(entry.default_data)).size() + 1) *
            2;
  }
  if (bytes > (1U << 20)) return false;
  value->data.resize(bytes);
  copy_driver(value->data.data(), entry.default_data, bytes);
  return true;
}

int32_t query_entry(Kernel& kernel, const QueryTable& entry,
                    const std::shared_ptr<RegistryKey>& key, void* context) {
  Executive& state = executive_of(kernel);
  if ((entry.flags & kNoValue) != 0) {
    std::vector<std::byte> nothing;
    if (entry.routine == nullptr) return kInvalidParameter;
    return call_routine(entry, terminated_text(entry.name), 0, nothing, context);
  }
  if (entry.name == nullptr) {
    if ((entry.flags & kDirect) != 0) return kInvalidParameter;
    std::vector<std::pair<std::u16string, RegistryValue>> all;
    {
      runtime::MutexLock lock(state.lock);
      all.assign(key->values.begin(), key->values.end());
      if ((entry.flags & kDelete) != 0) key->values.clear();
    }
    if (all.empty() && (entry.flags & kRequired) != 0) return kObjectNameNotFound;
    for (auto& [name, value] : all) {
      if (const int32_t status = hand_over(entry, name, std::move(value), context); status < 0)
        return status;
    }
    return kSuccess;
  }
  const std::u16string name = terminated_text(entry.name);
  if (state.value_asked) state.value_asked(name);
  RegistryValue value;
  bool found_value = false;
  {
    runtime::MutexLock lock(state.lock);
    if (const auto found = key->values.find(name); found != key->values.end()) {
      value = found->second;
      found_value = true;
      if ((entry.flags & kDelete) != 0) key->values.erase(found);
    }
  }
  if (!found_value) {
    if ((entry.flags & kRequired) != 0) return kObjectNameNotFound;
    if (!default_of(entry, &value)) return kSuccess;
    if ((entry.flags & kDirect) != 0) return store_direct(entry, value);
  }
  return hand_over(entry, name, std::move(value), context);
}

int32_t query_values(const char* function, uint32_t relative, const char16_t* path,
                     const QueryTable* table, void* context) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kPassiveLevel);
  required(function, "QueryTable", table);
  std::shared_ptr<RegistryKey> top;
  const int32_t opened = open_relative(frame.kernel(), relative, path, false, &top);
  if (opened < 0) {
    if ((relative & kRelativeOptional) == 0 || opened != kObjectNameNotFound) return opened;
    top = std::make_shared<RegistryKey>();  // an absent optional key: only defaults
  }
  std::shared_ptr<RegistryKey> key = top;
  for (size_t i = 0; i < 4096; ++i) {
    QueryTable entry{};
    copy_driver(&entry, table + i, sizeof(entry));
    if (entry.routine == nullptr && (entry.flags & (kSubkey | kDirect)) == 0) return kSuccess;
    if ((entry.flags & kDirect) != 0 &&
        (entry.name == nullptr || (entry.flags & kSubkey) != 0 || entry.routine != nullptr)) {
      return kInvalidParameter;
    }
    if ((entry.flags & (kTopkey | kSubkey)) != 0) key = top;
    if ((entry.flags & kSubkey) != 0) {
      if (entry.name == nullptr) return kInvalidParameter;
      const std::u16string below = terminated_text(entry.name);
      {
        runtime::MutexLock lock(executive_of(frame.kernel()).lock);
        key = Registry::find_below(top, below);
      }
      if (key == nullptr) {
        if ((entry.flags & kRequired) != 0) return kObjectNameNotFound;
        key = std::make_shared<RegistryKey>();
      }
      if (entry.routine == nullptr) continue;
      entry.name = nullptr;  // with a routine: every value of the subkey
    }
    if (const int32_t status = query_entry(frame.kernel(), entry, key, context); status < 0)
      return status;
  }
  return kInvalidParameter;  // no end in sight
}

DXGKIT_NT_ABI int32_t rtl_query_registry_values(uint32_t relative, const char16_t* path,
                                                const QueryTable* table, void* context, void*) {
  return query_values("RtlQueryRegistryValues", relative, path, table, context);
}
DXGKIT_NT_ABI int32_t rtl_query_registry_values_ex(uint32_t relative, const char16_t* path,
                                                   const QueryTable* table, void* context, void*) {
  return query_values("RtlQueryRegistryValuesEx", relative, path, table, context);
}

}  // namespace

std::span<const Export> registry_rtl_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("RtlCheckRegistryKey", rtl_check_registry_key, kSupported, ""),
      DXGKIT_EXPORT("RtlCreateRegistryKey", rtl_create_registry_key, kSupported, ""),
      DXGKIT_EXPORT("RtlDeleteRegistryValue", rtl_delete_registry_value, kSupported, ""),
      DXGKIT_EXPORT("RtlQueryRegistryValues", rtl_query_registry_values, kPartial,
                    "the environment is ignored: only the system's variables expand"),
      DXGKIT_EXPORT("RtlQueryRegistryValuesEx", rtl_query_registry_values_ex, kPartial,
                    "the environment is ignored: only the system's variables expand"),
      DXGKIT_EXPORT("RtlWriteRegistryValue", rtl_write_registry_value, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
