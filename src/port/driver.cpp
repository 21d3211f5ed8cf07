#include "port/driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "dxgkit/abi_versions.h"
#include "port/driver_impl.h"

namespace dxgkit::port {

// The table of versions, checked against the ABI's.
static_assert(kInterfaceWin7 == DXGKDDI_INTERFACE_VERSION_WIN7);
static_assert(kInterfaceWin8 == DXGKDDI_INTERFACE_VERSION_WIN8);
static_assert(kInterfaceWddm13 == DXGKDDI_INTERFACE_VERSION_WDDM1_3);
static_assert(kInterfaceWddm20 == DXGKDDI_INTERFACE_VERSION_WDDM2_0);
static_assert(kInterfaceWddm21 == DXGKDDI_INTERFACE_VERSION_WDDM2_1);
static_assert(kInterfaceWddm22 == DXGKDDI_INTERFACE_VERSION_WDDM2_2);
static_assert(kInterfaceWddm23 == DXGKDDI_INTERFACE_VERSION_WDDM2_3);
static_assert(kInterfaceWddm24 == DXGKDDI_INTERFACE_VERSION_WDDM2_4);
static_assert(kInterfaceWddm25 == DXGKDDI_INTERFACE_VERSION_WDDM2_5);
static_assert(kInterfaceWddm26 == DXGKDDI_INTERFACE_VERSION_WDDM2_6);
static_assert(kInterfaceWddm29 == DXGKDDI_INTERFACE_VERSION_WDDM2_9);
static_assert(kInterfaceWddm30 == DXGKDDI_INTERFACE_VERSION_WDDM3_0);
static_assert(kInterfaceWddm31 == DXGKDDI_INTERFACE_VERSION_WDDM3_1);
static_assert(kInterfaceWddm32 == DXGKDDI_INTERFACE_VERSION_WDDM3_2);
static_assert(kModelWddm12 == static_cast<uint32_t>(DXGKDDI_WDDMv1_2));
static_assert(kModelWddm20 == static_cast<uint32_t>(DXGKDDI_WDDMv2));

namespace {

/// Entries without which no kernel can use a driver, by the DDI table of the rulebook ("B"). Some
/// entries are not demanded although the table has them for both kinds: Present; CollectDbgInfo,
/// without which a timeout has less to report; and DescribeAllocation and
/// GetStandardAllocationDriverData, for which a compute-only driver has no use.
constexpr std::string_view kFullDriver[] = {
    "DxgkDdiAddDevice",          "DxgkDdiStartDevice",     "DxgkDdiStopDevice",
    "DxgkDdiRemoveDevice",       "DxgkDdiUnload",          "DxgkDdiInterruptRoutine",
    "DxgkDdiDpcRoutine",         "DxgkDdiSetPowerState",   "DxgkDdiQueryAdapterInfo",
    "DxgkDdiCreateDevice",       "DxgkDdiDestroyDevice",   "DxgkDdiCreateAllocation",
    "DxgkDdiDestroyAllocation",  "DxgkDdiOpenAllocation",  "DxgkDdiCloseAllocation",
    "DxgkDdiBuildPagingBuffer",  "DxgkDdiPreemptCommand",  "DxgkDdiResetFromTimeout",
    "DxgkDdiRestartFromTimeout", "DxgkDdiGetNodeMetadata",
};
constexpr std::string_view kDisplayOnlyDriver[] = {
    "DxgkDdiAddDevice",
    "DxgkDdiStartDevice",
    "DxgkDdiStopDevice",
    "DxgkDdiRemoveDevice",
    "DxgkDdiUnload",
    "DxgkDdiQueryChildRelations",
    "DxgkDdiQueryChildStatus",
    "DxgkDdiSetPowerState",
    "DxgkDdiQueryAdapterInfo",
    "DxgkDdiIsSupportedVidPn",
    "DxgkDdiEnumVidPnCofuncModality",
    "DxgkDdiPresentDisplayOnly",
    "DxgkDdiCommitVidPn",
    "DxgkDdiSetVidPnSourceVisibility",
};

const abi::TableEntry* find_entry(std::span<const abi::TableEntry> table, std::string_view name) {
  for (const abi::TableEntry& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

void* read_pointer(std::span<const std::byte> copy, uint32_t offset) {
  void* pointer = nullptr;
  if (offset + sizeof(pointer) <= copy.size())
    std::memcpy(&pointer, copy.data() + offset, sizeof(pointer));
  return pointer;
}

std::span<const abi::TableEntry> entries_of(bool display_only) {
  return display_only ? std::span<const abi::TableEntry>(abi::kKmddodInitializationData)
                      : std::span<const abi::TableEntry>(abi::kDriverInitializationData);
}

bool is_filled(std::span<const abi::TableEntry> entries, std::span<const std::byte> table,
               uint32_t version, std::string_view name) {
  const abi::TableEntry* entry = find_entry(entries, name);
  return entry != nullptr && entry->since <= version &&
         read_pointer(table, entry->offset_bytes) != nullptr;
}

}  // namespace

std::vector<std::string_view> mandatory_entries(bool display_only, uint32_t version,
                                                std::span<const std::byte> table) {
  const std::span<const abi::TableEntry> entries = entries_of(display_only);
  std::vector<std::string_view> names;
  const auto demand = [&](std::string_view name) {
    const abi::TableEntry* entry = find_entry(entries, name);
    if (entry != nullptr && version >= entry->since) names.push_back(name);
  };
  for (const std::string_view name : display_only
                                         ? std::span<const std::string_view>(kDisplayOnlyDriver)
                                         : std::span<const std::string_view>(kFullDriver))
    demand(name);
  if (display_only) return names;
  // A driver patches, or has GPU virtual addresses, or both. Patching takes Render, Patch and
  // SubmitCommand together.
  const auto has = [&](std::string_view name) { return is_filled(entries, table, version, name); };
  if (!has("DxgkDdiSubmitCommandVirtual") || has("DxgkDdiPatch") || has("DxgkDdiRender")) {
    for (const char* name : {"DxgkDdiRender", "DxgkDdiPatch", "DxgkDdiSubmitCommand"}) demand(name);
  }
  return names;
}

Status Driver::Impl::take_table(const void* data, bool is_display_only) {
  const char* const function =
      is_display_only ? "DxgkInitializeDisplayOnlyDriver" : "DxgkInitialize";
  if (++initialize_calls > 1) {
    kernel.violation("LIFE-01", function, fmt::format("It was called {} times.", initialize_calls),
                     "DriverEntry calls it once.", "Call it once, at the end of DriverEntry.");
    return Status::kInvalidParameter;
  }
  const auto refuse = [&](Status status, std::string actual, std::string expected,
                          std::string fix) {
    kernel.violation("LIFE-03", function, std::move(actual), std::move(expected), std::move(fix));
    return status;
  };
  if (data == nullptr) {
    return refuse(Status::kInvalidParameter, "The initialization data is a null pointer.",
                  "It points to the driver's table.", "Pass the address of the structure.");
  }
  uint32_t declared = 0;
  std::memcpy(&declared, data, sizeof(declared));
  constexpr uint32_t kNewest = std::end(abi::kVersions)[-1].value;
  if (declared > kNewest) {
    return refuse(Status::kRevisionMismatch, fmt::format("Version is {:#x}.", declared),
                  fmt::format("A version up to {:#x}.", kNewest),
                  "Build the driver for an older interface version.");
  }
  const char* const record =
      is_display_only ? "KMDDOD_INITIALIZATION_DATA" : "DRIVER_INITIALIZATION_DATA";
  const uint32_t size = abi::is_known_version(declared) ? abi::record_size(record, declared) : 0;
  if (size == 0) {
    return refuse(
        Status::kInvalidParameter,
        fmt::format("Version is {:#x}, which was never published for {}.", declared, record),
        "Version is one of the DXGKDDI_INTERFACE_VERSION values.",
        "Zero the structure, then set Version to DXGKDDI_INTERFACE_VERSION.");
  }
  // The structure may lie on the driver's stack and ends where its version ends: nothing behind is
  // read (LIFE-02, LIFE-04).
  std::vector<std::byte> copy(size);
  std::memcpy(copy.data(), data, size);
  if (on_table) on_table(is_display_only, declared, copy);
  const std::span<const abi::TableEntry> entries = entries_of(is_display_only);
  std::string missing;
  for (const std::string_view entry : mandatory_entries(is_display_only, declared, copy)) {
    if (is_filled(entries, copy, declared, entry)) continue;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", entry);
  }
  std::string astray;
  for (const abi::TableEntry& entry : entries) {
    if (entry.since > declared || !entry.name.starts_with("DxgkDdi")) continue;
    // No code lies there, in no image.
    const bool leads_nowhere =
        reinterpret_cast<uint64_t>(read_pointer(copy, entry.offset_bytes)) >> 47 != 0;
    if (leads_nowhere) astray += fmt::format("{}{}", astray.empty() ? "" : ", ", entry.name);
  }
  if (!astray.empty()) {
    kernel.violation("LIFE-01", function, fmt::format("These entries lead nowhere: {}.", astray),
                     "Each entry is null, or the address of a function of the driver.",
                     "Zero the structure before any of its members is set.");
    return Status::kInvalidParameter;
  }
  if (!missing.empty()) {
    return refuse(Status::kInvalidParameter, fmt::format("These entries are null: {}.", missing),
                  fmt::format("A {} driver of version {:#x} has them.",
                              is_display_only ? "display-only" : "full", declared),
                  "Set them in the initialization data before the call.");
  }
  for (const abi::TableEntry& entry : entries) {
    if (entry.since > declared || entry.name == "Version") continue;
    void* const pointer = read_pointer(copy, entry.offset_bytes);
    if (entry.name == "DxgkDdiPresentDisplayOnly") {
      std::memcpy(&display_only_ddi.DxgkDdiPresentDisplayOnly, &pointer, sizeof(pointer));
      continue;
    }
    const abi::TableEntry* place = find_entry(abi::kDriverInitializationData, entry.name);
    DXGKIT_CHECK(place != nullptr);  // all other entries are in both structures
    std::memcpy(reinterpret_cast<std::byte*>(&table) + place->offset_bytes, &pointer,
                sizeof(pointer));
  }
  findings.set_entry_places([this](std::string_view ddi) { return entry_place(ddi); });
  table.Version = declared;
  version = declared;
  display_only = is_display_only;
  return Status::kSuccess;
}

verifier::Place Driver::Impl::entry_place(std::string_view ddi) const {
  const void* function = nullptr;
  if (ddi == "DxgkDdiPresentDisplayOnly") {
    std::memcpy(&function, &display_only_ddi.DxgkDdiPresentDisplayOnly, sizeof(function));
  } else if (const abi::TableEntry* entry = find_entry(abi::kDriverInitializationData, ddi);
             entry != nullptr && ddi.starts_with("DxgkDdi")) {
    std::memcpy(&function, reinterpret_cast<const std::byte*>(&table) + entry->offset_bytes,
                sizeof(function));
  }
  return function == nullptr ? verifier::Place{} : kernel.entry_place_of(function);
}

Driver::Impl::~Impl() {
  if (loaded && !kernel.driver_is_dead()) {  // the entry is mandatory
    nt::CallFrame frame(kernel, "DxgkDdiUnload", nt::kPassiveLevel);
    frame.call_void(table.DxgkDdiUnload);
    if (frame.irql() != nt::kPassiveLevel) {
      kernel.violation("IRQL-01", "DxgkDdiUnload",
                       fmt::format("It returned at {}.", nt::irql_name(frame.irql())),
                       "A DDI returns at the level it was called at.",
                       "Pair every raise and lower.");
      frame.restore_entry_irql();
    }
  }
  // A driver stopped by a bug check had no chance to clean up: its objects are freed without a
  // finding.
  if (loaded && !kernel.driver_is_dead()) kernel.report_leaks("after DxgkDdiUnload");
  kernel.quiesce();
  findings.set_entry_places(nullptr);
  if (image != nullptr) kernel.remove_image(image->base());
  kernel.set_initialize_hook(nullptr);
}

Driver::Driver() = default;
Driver::~Driver() = default;

uint32_t Driver::interface_version() const { return impl_->version; }
const std::string& Driver::name() const { return impl_->name; }
bool Driver::display_only() const { return impl_->display_only; }

Result<std::unique_ptr<Driver>> Driver::load(nt::Kernel& kernel, verifier::Findings& findings,
                                             const DriverSource& source, std::string* message) {
  std::string ignored;
  if (message == nullptr) message = &ignored;
  const nt::CallLog log(kernel);
  nt::CallLog::begin_start(nullptr);
  std::unique_ptr<Driver> driver(new Driver());
  driver->impl_ = std::make_unique<Impl>(kernel, findings);
  Impl& impl = *driver->impl_;
  impl.name = source.name;
  impl.on_table = source.on_table;
  void* entry = source.entry;
  if (!source.path.empty()) {
    auto file = loader::read_image_file(source.path, message);
    if (!file.has_value()) return Error(file.error());
    auto image = loader::load_image(
        *file,
        [&](const loader::ImportRequest& request) -> loader::ImportAnswer {
          if (const nt::Export* found = nt::find_export(request.name); found != nullptr) {
            return {kernel.door(*found), found->data_bytes};
          }
          const std::string by_ordinal = fmt::format("#{}", request.ordinal);
          return {kernel.unresolved_import(request.name.empty() ? by_ordinal : request.name,
                                           request.library),
                  0};
        },
        message);
    if (!image.has_value()) return Error(image.error());
    impl.image = std::move(*image);
    impl.is_image = true;
    const loader::Image& mapped = *impl.image;
    kernel.add_image({.name = impl.name,
                      .base = mapped.base(),
                      .size = mapped.size(),
                      .functions = std::as_bytes(mapped.functions()),
                      .symbol = [&mapped](uint64_t rva) { return mapped.symbol(rva); },
                      .path = source.path});
    entry = mapped.entry();
    if (entry == nullptr) {
      *message = fmt::format("{} is not a driver: it has no DriverEntry.", source.path);
      return Error(Status::kInvalidImageFormat);
    }
  }
  if (entry == nullptr) {
    *message = "No driver was given: neither a path nor an entry point.";
    return Error(Status::kInvalidParameter);
  }

  using Entry = NTSTATUS(NTAPI*)(DRIVER_OBJECT*, UNICODE_STRING*);
  impl.object.emplace(
      u"\\Driver\\" + std::u16string(impl.name.begin(), std::ranges::find(impl.name, '.')),
      impl.image ? impl.image->base() : nullptr, impl.image ? impl.image->size() : 0,
      reinterpret_cast<Entry>(entry));
  impl.registry_path.assign(
      nt::KernelConfig::kDriverKey,
      nt::KernelConfig::kDriverKey + std::strlen(nt::KernelConfig::kDriverKey));
  UNICODE_STRING path{};
  path.Length = static_cast<USHORT>(impl.registry_path.size() * sizeof(char16_t));
  path.MaximumLength = static_cast<USHORT>(path.Length + sizeof(char16_t));
  path.Buffer = impl.registry_path.data();
  kernel.set_initialize_hook([&impl](const void* data, bool display_only) {
    const Status answer = impl.take_table(data, display_only);
    if (impl.initialize_calls == 1) impl.initialize_status = answer;
    return to_ntstatus(answer);
  });
  int32_t returned = to_ntstatus(Status::kUnsuccessful);
  bool abandoned = false;
  {
    nt::CallFrame frame(kernel, "DriverEntry", nt::kPassiveLevel);
    abandoned = !frame.call(reinterpret_cast<Entry>(entry), &returned, &impl.object->object, &path);
    if (!abandoned && frame.irql() != nt::kPassiveLevel) {
      kernel.violation("IRQL-01", "DriverEntry",
                       fmt::format("It returned at {}.", nt::irql_name(frame.irql())),
                       "It returns at PASSIVE_LEVEL.", "Pair every raise and lower.");
      frame.restore_entry_irql();
    }
  }
  kernel.set_initialize_hook(nullptr);
  if (abandoned) {
    *message = fmt::format("{}: DriverEntry stopped the machine; see the findings.", source.name);
    return Error(Status::kUnsuccessful);
  }
  const Status status = from_ntstatus(returned);
  if (impl.initialize_calls == 0) {
    *message = fmt::format("{}: DriverEntry returned {:#010x} without calling DxgkInitialize.",
                           source.name, static_cast<uint32_t>(returned));
    if (is_success(status)) {
      kernel.violation("LIFE-01", "DriverEntry", "It succeeded without calling DxgkInitialize.",
                       "DriverEntry calls DxgkInitialize once.",
                       "Fill DRIVER_INITIALIZATION_DATA and call DxgkInitialize.");
      return Error(Status::kUnsuccessful);
    }
    return Error(status);
  }
  if (status != impl.initialize_status) {
    kernel.violation("LIFE-01", "DriverEntry",
                     fmt::format("DxgkInitialize answered {:#010x}, DriverEntry returned {:#010x}.",
                                 static_cast<uint32_t>(to_ntstatus(impl.initialize_status)),
                                 static_cast<uint32_t>(returned)),
                     "DriverEntry returns the status of DxgkInitialize unchanged.",
                     "Return what DxgkInitialize returned.");
  }
  if (!is_success(status) || !is_success(impl.initialize_status)) {
    *message = fmt::format("{}: DxgkInitialize refused the driver with {:#010x}; see the findings.",
                           source.name, static_cast<uint32_t>(to_ntstatus(impl.initialize_status)));
    return Error(is_success(impl.initialize_status) ? status : impl.initialize_status);
  }
  impl.loaded = true;
  return driver;
}

}  // namespace dxgkit::port
