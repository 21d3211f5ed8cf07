// A driver's questions about its machine: versions, processors, firmware, power, tracing, and
// registrations that never fire here.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "nt/executive.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

// Windows 11 24H2, whose headers abi/include follows.
constexpr uint32_t kMajorVersion = 10, kMinorVersion = 0, kBuildNumber = 26100;
constexpr uint32_t kNtddiVersion = 0x0A000010;
constexpr int32_t kRevisionMismatch = value(0xC0000059);

struct OsVersionInfo {  // RTL_OSVERSIONINFOEXW
  uint32_t size, major, minor, build, platform;
  char16_t service_pack[128];
  uint16_t service_pack_major, service_pack_minor, suite_mask;
  uint8_t product_type, reserved;
};
static_assert(sizeof(OsVersionInfo) == 284);
constexpr uint32_t kBasicVersionBytes = 276;

constexpr OsVersionInfo this_version() {
  return {.size = 0,
          .major = kMajorVersion,
          .minor = kMinorVersion,
          .build = kBuildNumber,
          .platform = 2,
          .service_pack = {},
          .service_pack_major = 0,
          .service_pack_minor = 0,
          .suite_mask = 0x100,
          .product_type = 1,
          .reserved = 0};
}

DXGKIT_NT_ABI int32_t rtl_get_version(OsVersionInfo* information) {
  const uint32_t size = required("RtlGetVersion", "VersionInformation", information).size;
  OsVersionInfo answer = this_version();
  answer.size = size;
  copy_driver(information, &answer, size == sizeof(answer) ? sizeof(answer) : kBasicVersionBytes);
  return kSuccess;
}

DXGKIT_NT_ABI uint8_t ps_get_version(uint32_t* major, uint32_t* minor, uint32_t* build,
                                     UnicodeString* service_pack) {
  if (major != nullptr) *major = kMajorVersion;
  if (minor != nullptr) *minor = kMinorVersion;
  if (build != nullptr) *build = kBuildNumber;
  if (service_pack != nullptr) *service_pack = {0, 0, nullptr};
  return 0;  // no checked build
}

// VerSetConditionMask keeps three bits for each VER_* member, in the order of their bits.
constexpr unsigned kConditionBits = 3;
DXGKIT_NT_ABI uint64_t ver_set_condition_mask(uint64_t mask, uint32_t members, uint8_t condition) {
  for (unsigned i = 0; i < 8; ++i) {
    if ((members >> i & 1) != 0) {
      mask |= uint64_t{condition & 7U} << (i * kConditionBits);
      break;
    }
  }
  return mask;
}

DXGKIT_NT_ABI int32_t rtl_verify_version_info(const OsVersionInfo* wanted, uint32_t members,
                                              uint64_t conditions) {
  OsVersionInfo given{};
  copy_driver(&given, &required("RtlVerifyVersionInfo", "VersionInfo", wanted), sizeof(given));
  const OsVersionInfo own = this_version();
  struct Member {
    uint32_t bit, own, wanted;
  };
  const Member all[] = {{1, own.major, given.major},
                        {0, own.minor, given.minor},
                        {2, own.build, given.build},
                        {3, own.platform, given.platform},
                        {5, own.service_pack_major, given.service_pack_major},
                        {4, own.service_pack_minor, given.service_pack_minor},
                        {6, own.suite_mask, given.suite_mask},
                        {7, own.product_type, given.product_type}};
  bool decided = false;  // major, minor and service pack compare as one number
  for (const Member& member : all) {
    if ((members >> member.bit & 1) == 0) continue;
    const auto condition = static_cast<uint32_t>(conditions >> (member.bit * kConditionBits) & 7);
    if (condition == 0) return kInvalidParameter;
    const bool hierarchical = member.bit == 0 || member.bit == 1;
    if (hierarchical && decided) continue;
    bool good = false;
    switch (condition) {
      case 1:
        good = member.own == member.wanted;
        break;
      case 2:
        good = member.own > member.wanted ||
               (member.bit == 1 && (members & 1) != 0 && member.own == member.wanted);
        break;
      case 3:
        good = member.own >= member.wanted;
        break;
      case 4:
        good = member.own < member.wanted ||
               (member.bit == 1 && (members & 1) != 0 && member.own == member.wanted);
        break;
      case 5:
        good = member.own <= member.wanted;
        break;
      case 6:
        good = (member.own & member.wanted) == member.wanted;
        break;
      case 7:
        good = (member.own & member.wanted) != 0;
        break;
      default:
        break;
    }
    if (!good) return kRevisionMismatch;
    if (hierarchical && condition >= 2 && condition <= 5 && member.own != member.wanted)
      decided = true;
  }
  return kSuccess;
}

DXGKIT_NT_ABI uint8_t rtl_is_ntddi_version_available(uint32_t version) {
  return version <= kNtddiVersion ? 1 : 0;
}

DXGKIT_NT_ABI const void* mm_get_system_routine_address(const UnicodeString* name) {
  require_irql(CallFrame::current(), "MmGetSystemRoutineAddress", kPassiveLevel);
  std::u16string text;
  if (!capture_text(name, &text)) return nullptr;
  const Export* found = find_export(narrow(text));
  // A refused routine counts as absent: a driver that looks for it has another way.
  if (found == nullptr || found->support == Support::kRefused) return nullptr;
  CallFrame& frame = CallFrame::current();
  return frame.in_door() ? frame.kernel().door(*found) : found->address;
}

// --- processors: as many as the configuration says, in one group

Kernel& own_kernel() { return CallFrame::current().kernel(); }
DXGKIT_NT_ABI uint64_t processor_mask() { return active_processors(own_kernel()); }
DXGKIT_NT_ABI uint32_t processor_count() { return own_kernel().config().processors; }
DXGKIT_NT_ABI uint32_t processor_count_of_group(uint16_t group) {
  constexpr uint16_t kAllGroups = 0xFFFF;
  return group == 0 || group == kAllGroups ? processor_count() : 0;
}
DXGKIT_NT_ABI uint32_t current_processor() { return CallFrame::current().processor(); }
DXGKIT_NT_ABI uint32_t one() { return 1; }
DXGKIT_NT_ABI uint32_t zero() { return 0; }
DXGKIT_NT_ABI uint64_t group_affinity(uint16_t group) { return group == 0 ? processor_mask() : 0; }

struct ProcessorNumber {  // PROCESSOR_NUMBER
  uint16_t group;
  uint8_t number, reserved;
};
struct GroupAffinity {  // GROUP_AFFINITY
  uint64_t mask;
  uint16_t group, reserved[3];
};
DXGKIT_NT_ABI int32_t processor_number_from_index(uint32_t index, ProcessorNumber* number) {
  if (index >= processor_count()) return kInvalidParameter;
  required("KeGetProcessorNumberFromIndex", "ProcNumber", number) = {0, static_cast<uint8_t>(index),
                                                                     0};
  return kSuccess;
}
DXGKIT_NT_ABI uint32_t processor_index_from_number(const ProcessorNumber* number) {
  const ProcessorNumber& given = required("KeGetProcessorIndexFromNumber", "ProcNumber", number);
  return given.group == 0 && given.number < processor_count() ? given.number : UINT32_MAX;
}
/// Processors that are not there do not count; a choice without any is ignored.
uint64_t choose_processors(uint64_t mask) {
  CallFrame& frame = CallFrame::current();
  mask &= active_processors(frame.kernel());
  return mask == 0 ? frame.choose_processors(0) : frame.choose_processors(mask);
}
DXGKIT_NT_ABI void set_system_affinity(uint64_t mask) { choose_processors(mask); }
DXGKIT_NT_ABI uint64_t set_system_affinity_ex(uint64_t mask) { return choose_processors(mask); }
DXGKIT_NT_ABI void revert_affinity() { choose_processors(0); }
DXGKIT_NT_ABI void revert_affinity_ex(uint64_t mask) { choose_processors(mask); }
DXGKIT_NT_ABI void set_group_affinity(const GroupAffinity* affinity, GroupAffinity* previous) {
  const GroupAffinity& given = required("KeSetSystemGroupAffinityThread", "Affinity", affinity);
  const uint64_t before = choose_processors(given.group == 0 ? given.mask : 0);
  if (previous != nullptr) *previous = {before, 0, {}};
}
DXGKIT_NT_ABI void revert_group_affinity(const GroupAffinity* previous) {
  choose_processors(
      required("KeRevertToUserGroupAffinityThread", "PreviousAffinity", previous).mask);
}
DXGKIT_NT_ABI uint8_t processor_feature(uint32_t feature) {
  // The features of every x86-64, so that a run does not depend on the host: compare-exchange of 8
  // bytes, MMX, SSE, RDTSC, SSE2, NX.
  for (const uint32_t present : {2U, 3U, 6U, 8U, 10U, 12U}) {
    if (feature == present) return 1;
  }
  return 0;
}
DXGKIT_NT_ABI uint64_t ipi_generic_call(uint64_t(DXGKIT_NT_ABI* routine)(uint64_t),
                                        uint64_t argument) {
  required("KeIpiGenericCall", "BroadcastFunction", reinterpret_cast<std::byte*>(routine));
  constexpr Irql kIpiLevel = 14;
  CallFrame& frame = CallFrame::current();
  const Irql old = frame.raise(kIpiLevel);
  // On the calling processor last, whose result counts.
  const uint64_t mask = frame.choose_processors(0);
  uint64_t result = 0;
  for (uint32_t left = frame.kernel().config().processors; left-- > 0;) {
    frame.choose_processors(left == 0 ? mask : uint64_t{1} << left);
    result = call_driver("KeIpiGenericCall routine", routine, argument);
  }
  CallFrame::current().lower(old);
  return result;
}
/// Extended state belongs to the host's threads, which save it themselves.
DXGKIT_NT_ABI int32_t save_extended_state(uint64_t, void*) { return kSuccess; }
DXGKIT_NT_ABI void restore_extended_state(void*) {}
DXGKIT_NT_ABI int32_t save_floating_state(void*) { return kSuccess; }

DXGKIT_NT_ABI uint8_t apcs_disabled() { return CallFrame::current().irql() >= kApcLevel ? 1 : 0; }

DXGKIT_NT_ABI int32_t expand_stack(void(DXGKIT_NT_ABI* routine)(void*), void* parameter, uint64_t,
                                   uint8_t, void*) {
  required("KeExpandKernelStackAndCalloutEx", "Callout", reinterpret_cast<std::byte*>(routine));
  call_driver("stack callout", routine, parameter);
  return kSuccess;
}
DXGKIT_NT_ABI int32_t expand_stack_old(void(DXGKIT_NT_ABI* routine)(void*), void* parameter,
                                       uint64_t) {
  return expand_stack(routine, parameter, 0, 0, nullptr);
}

// --- firmware, security, identifiers

DXGKIT_NT_ABI int32_t get_firmware_variable(const void*, const void*, void*, uint32_t* length,
                                            uint32_t*) {
  if (length != nullptr) *length = 0;
  return kVariableNotFound;
}
DXGKIT_NT_ABI uint8_t single_privilege_check(uint64_t, int8_t mode) { return mode == 0 ? 1 : 0; }
DXGKIT_NT_ABI int32_t uuid_create(std::byte* uuid) {
  required("ExUuidCreate", "Uuid", uuid);
  runtime::Runtime& runtime = CallFrame::current().kernel().runtime();
  uint64_t halves[2] = {runtime.random(), runtime.random()};
  auto* bytes = reinterpret_cast<uint8_t*>(halves);
  bytes[7] = static_cast<uint8_t>((bytes[7] & 0x0F) | 0x40);  // version 4: random
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3F) | 0x80);
  copy_driver(uuid, halves, sizeof(halves));
  return kSuccess;
}
DXGKIT_NT_ABI int32_t allocate_luid(uint64_t* luid) {
  Executive& state = executive();
  runtime::MutexLock lock(state.lock);
  required("ZwAllocateLocallyUniqueId", "Luid", luid) = state.next_luid++;
  return kSuccess;
}

// --- registrations

/// Remembers one under an address; it is a leak until taken back.
void* register_new(const char* kind) {
  Executive& state = executive();
  auto storage = make_in<uint64_t>(CallFrame::current().kernel().impl().heap, 0);
  void* address = storage.get();
  runtime::MutexLock lock(state.lock);
  state.registrations.emplace(address,
                              Registration{kind, state.next_sequence++, std::move(storage)});
  return address;
}
/// As register_new, under an address of the driver. False if that address is registered already.
bool register_at(const char* kind, const void* address) {
  Executive& state = executive();
  runtime::MutexLock lock(state.lock);
  return state.registrations
      .try_emplace(address, Registration{kind, state.next_sequence++, nullptr})
      .second;
}
bool take_back(const char* kind, const void* address) {
  Executive& state = executive();
  runtime::MutexLock lock(state.lock);
  const auto found = state.registrations.find(address);
  if (found == state.registrations.end() || std::strcmp(found->second.kind, kind) != 0)
    return false;
  state.registrations.erase(found);
  return true;
}
void not_registered(const char* function, const void* address) {
  CallFrame::current().kernel().violation(
      "NT-31", function, fmt::format("{} is not registered.", address),
      "What was registered is taken back once.", "Look for a second call.");
}

constexpr const char* kPowerSetting = "power setting callback";
constexpr const char* kShutdown = "shutdown notification";
constexpr const char* kPlugPlay = "plug and play notification";
constexpr const char* kBugCheckCallback = "bug check callback";

DXGKIT_NT_ABI int32_t register_power_setting(void*, const void* setting, void* routine, void*,
                                             void** handle) {
  require_irql(CallFrame::current(), "PoRegisterPowerSettingCallback", kApcLevel);
  if (setting == nullptr || routine == nullptr || handle == nullptr) return kInvalidParameter;
  *handle = register_new(kPowerSetting);
  return kSuccess;
}
DXGKIT_NT_ABI int32_t unregister_power_setting(void* handle) {
  if (take_back(kPowerSetting, handle)) return kSuccess;
  not_registered("PoUnregisterPowerSettingCallback", handle);
  return kInvalidParameter;
}
DXGKIT_NT_ABI int32_t register_shutdown(void* device) {
  required("IoRegisterShutdownNotification", "DeviceObject", static_cast<std::byte*>(device));
  register_at(kShutdown, device);
  return kSuccess;
}
DXGKIT_NT_ABI void unregister_shutdown(void* device) { take_back(kShutdown, device); }
DXGKIT_NT_ABI int32_t register_plug_play(uint32_t, uint32_t, void*, void*, void* routine, void*,
                                         void** entry) {
  if (routine == nullptr || entry == nullptr) return kInvalidParameter;
  *entry = register_new(kPlugPlay);
  return kSuccess;
}
DXGKIT_NT_ABI int32_t unregister_plug_play(void* entry) {
  if (take_back(kPlugPlay, entry)) return kSuccess;
  not_registered("IoUnregisterPlugPlayNotificationEx", entry);
  return kInvalidParameter;
}
DXGKIT_NT_ABI uint8_t register_bug_check(void* record, void* routine, void*, uint32_t, void*) {
  if (record == nullptr || routine == nullptr) return 0;
  return register_at(kBugCheckCallback, record) ? 1 : 0;
}
DXGKIT_NT_ABI uint8_t deregister_bug_check(void* record) {
  return take_back(kBugCheckCallback, record) ? 1 : 0;
}

// --- power

DXGKIT_NT_ABI uint32_t po_set_power_state(void*, uint32_t, uint32_t state) { return state; }
DXGKIT_NT_ABI void po_start_next_power_irp(void*) {}
DXGKIT_NT_ABI uint32_t po_query_watchdog_time(void*, uint32_t* seconds) {
  if (seconds != nullptr) *seconds = 0;
  return 0;
}

// --- refusals

DXGKIT_NT_ABI uint64_t refuse_zero() { return 0; }
DXGKIT_NT_ABI void nothing() {}

template <size_t N>
struct Name {
  constexpr Name(const char (&text)[N]) { std::copy_n(text, N, value); }  // NOLINT: a literal
  char value[N];
};
/// A routine without a result cannot refuse: a call of it is reported by name, like a missing
/// import.
template <Name kName>
DXGKIT_NT_ABI void refuse_void() {
  refuse_call(kName.value, "it is listed as refused");
}
#define DXGKIT_REFUSE_VOID(name, note) \
  DXGKIT_EXPORT(name, refuse_void<name>, kRefused, note ": a call is a bug check")

const uint32_t kNtBuildNumber = 0xF0000000 | kBuildNumber;
const uint32_t kSafeBootMode = 0;
constexpr const char* kProcessorNote = "a number to look at: threads run anywhere";

}  // namespace

const uint8_t kNumberProcessors = 1;

uint64_t active_processors(const Kernel& kernel) {
  return UINT64_MAX >> (64 - kernel.config().processors);
}

std::span<const Export> system_exports() {
  static const Export kTable[] = {
      {"InitSafeBootMode", &kSafeBootMode, Support::kSupported, "", 4},
      {"KeNumberProcessors", &kNumberProcessors, Support::kSupported, "", 1},
      {"NtBuildNumber", &kNtBuildNumber, Support::kSupported, "", 4},
      DXGKIT_EXPORT("ExAllocateLocallyUniqueId", allocate_luid, kSupported, ""),
      DXGKIT_EXPORT("ExGetFirmwareEnvironmentVariable", get_firmware_variable, kPartial,
                    "there are no variables"),
      DXGKIT_EXPORT("ExGetFirmwareType", zero, kPartial, "unknown"),
      DXGKIT_EXPORT("ExIsProcessorFeaturePresent", processor_feature, kPartial,
                    "what every x86-64 has"),
      DXGKIT_EXPORT("ExSetFirmwareEnvironmentVariable", refuse_status, kRefused, "no firmware"),
      DXGKIT_EXPORT("ExUuidCreate", uuid_create, kSupported, ""),
      DXGKIT_EXPORT("IoRegisterPlugPlayNotification", register_plug_play, kPartial,
                    "kept, never called: devices do not come or go"),
      DXGKIT_EXPORT("IoRegisterShutdownNotification", register_shutdown, kPartial,
                    "kept, never called: the machine is not shut down"),
      DXGKIT_EXPORT("IoUnregisterPlugPlayNotification", unregister_plug_play, kSupported, ""),
      DXGKIT_EXPORT("IoUnregisterPlugPlayNotificationEx", unregister_plug_play, kSupported, ""),
      DXGKIT_EXPORT("IoUnregisterShutdownNotification", unregister_shutdown, kSupported, ""),
      DXGKIT_EXPORT("KeAreAllApcsDisabled", apcs_disabled, kPartial,
                    "critical regions do not count: there are no APCs"),
      DXGKIT_EXPORT("KeAreApcsDisabled", apcs_disabled, kPartial,
                    "critical regions do not count: there are no APCs"),
      DXGKIT_EXPORT("KeDeregisterBugCheckCallback", deregister_bug_check, kSupported, ""),
      DXGKIT_EXPORT("KeDeregisterBugCheckReasonCallback", deregister_bug_check, kSupported, ""),
      DXGKIT_EXPORT("KeExpandKernelStackAndCallout", expand_stack_old, kPartial,
                    "calls on the same stack"),
      DXGKIT_EXPORT("KeExpandKernelStackAndCalloutEx", expand_stack, kPartial,
                    "calls on the same stack"),
      DXGKIT_EXPORT("KeGetCurrentNodeNumber", zero, kPartial, "one node"),
      DXGKIT_EXPORT("KeGetCurrentProcessorNumber", current_processor, kPartial, kProcessorNote),
      DXGKIT_EXPORT("KeGetProcessorIndexFromNumber", processor_index_from_number, kSupported, ""),
      DXGKIT_EXPORT("KeGetProcessorNumberFromIndex", processor_number_from_index, kSupported, ""),
      DXGKIT_EXPORT("KeIpiGenericCall", ipi_generic_call, kPartial,
                    "one processor after the other"),
      DXGKIT_EXPORT("KeQueryActiveGroupCount", one, kPartial, "one group"),
      DXGKIT_EXPORT("KeQueryActiveProcessors", processor_mask, kSupported, ""),
      DXGKIT_EXPORT("KeQueryGroupAffinity", group_affinity, kSupported, ""),
      DXGKIT_EXPORT("KeQueryHighestNodeNumber", zero, kPartial, "one node"),
      DXGKIT_EXPORT("KeQueryMaximumGroupCount", one, kPartial, "one group"),
      DXGKIT_EXPORT("KeQueryMaximumProcessorCount", processor_count, kSupported, ""),
      DXGKIT_EXPORT("KeQueryMaximumProcessorCountEx", processor_count_of_group, kSupported, ""),
      DXGKIT_EXPORT("KeRegisterBugCheckCallback", register_bug_check, kPartial,
                    "kept, never called: there is no crash dump"),
      DXGKIT_EXPORT("KeRegisterBugCheckReasonCallback", register_bug_check, kPartial,
                    "kept, never called: there is no crash dump"),
      DXGKIT_EXPORT("KeRestoreExtendedProcessorState", restore_extended_state, kPartial,
                    "the host saves what its threads use"),
      DXGKIT_EXPORT("KeRestoreFloatingPointState", save_floating_state, kSupported, ""),
      DXGKIT_EXPORT("KeRevertToUserAffinityThread", revert_affinity, kPartial, kProcessorNote),
      DXGKIT_EXPORT("KeRevertToUserAffinityThreadEx", revert_affinity_ex, kPartial, kProcessorNote),
      DXGKIT_EXPORT("KeRevertToUserGroupAffinityThread", revert_group_affinity, kPartial,
                    kProcessorNote),
      DXGKIT_EXPORT("KeSaveExtendedProcessorState", save_extended_state, kPartial,
                    "the host saves what its threads use"),
      DXGKIT_EXPORT("KeSaveFloatingPointState", save_floating_state, kSupported, ""),
      DXGKIT_EXPORT("KeSetSystemAffinityThread", set_system_affinity, kPartial, kProcessorNote),
      DXGKIT_EXPORT("KeSetSystemAffinityThreadEx", set_system_affinity_ex, kPartial,
                    kProcessorNote),
      DXGKIT_EXPORT("KeSetSystemGroupAffinityThread", set_group_affinity, kPartial, kProcessorNote),
      DXGKIT_EXPORT("MmGetSystemRoutineAddress", mm_get_system_routine_address, kSupported, ""),
      DXGKIT_EXPORT("PoQueryWatchdogTime", po_query_watchdog_time, kPartial, "no watchdog"),
      DXGKIT_EXPORT("PoRegisterPowerSettingCallback", register_power_setting, kPartial,
                    "kept, never called: settings do not change"),
      DXGKIT_EXPORT("PoSetPowerState", po_set_power_state, kPartial, "recorded nowhere"),
      DXGKIT_EXPORT("PoStartNextPowerIrp", po_start_next_power_irp, kPartial,
                    "power requests do not queue"),
      DXGKIT_EXPORT("PoUnregisterPowerSettingCallback", unregister_power_setting, kSupported, ""),
      DXGKIT_EXPORT("PsGetVersion", ps_get_version, kSupported, ""),
      DXGKIT_EXPORT("RtlGetVersion", rtl_get_version, kSupported, ""),
      DXGKIT_EXPORT("RtlIsNtDdiVersionAvailable", rtl_is_ntddi_version_available, kSupported, ""),
      DXGKIT_EXPORT("RtlVerifyVersionInfo", rtl_verify_version_info, kSupported, ""),
      DXGKIT_EXPORT("SeSinglePrivilegeCheck", single_privilege_check, kPartial,
                    "kernel mode has every privilege, user mode none"),
      DXGKIT_EXPORT("VerSetConditionMask", ver_set_condition_mask, kSupported, ""),
      DXGKIT_EXPORT("ZwAllocateLocallyUniqueId", allocate_luid, kSupported, ""),
  };
  return kTable;
}

std::span<const Export> refused_exports() {
  static const Export kTable[] = {
      // Event tracing: "not available" is an answer every provider handles.
      DXGKIT_EXPORT("EtwActivityIdControl", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("EtwEventEnabled", refuse_zero, kRefused, "no event tracing: disabled"),
      DXGKIT_EXPORT("EtwProviderEnabled", refuse_zero, kRefused, "no event tracing: disabled"),
      DXGKIT_EXPORT("EtwRegister", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("EtwRegisterClassicProvider", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("EtwSetInformation", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("EtwUnregister", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("EtwWrite", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("EtwWriteEx", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("EtwWriteString", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("EtwWriteTransfer", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("IoWMIRegistrationControl", refuse_status, kRefused, "no WMI"),
      DXGKIT_EXPORT("IoWMIWriteEvent", refuse_status, kRefused, "no WMI"),
      DXGKIT_EXPORT("WmiQueryTraceInformation", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("WmiTraceMessage", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("WmiTraceMessageVa", refuse_status, kRefused, "no event tracing"),
      DXGKIT_EXPORT("WppAutoLogStart", nothing, kRefused, "no recorder: nothing is logged"),
      DXGKIT_EXPORT("WppAutoLogStop", nothing, kRefused, "no recorder: nothing is logged"),
      DXGKIT_EXPORT("WppAutoLogTrace", nothing, kRefused, "no recorder: nothing is logged"),
      DXGKIT_EXPORT("WppRecorderReplay", nothing, kRefused, "no recorder: nothing is logged"),
      DXGKIT_EXPORT("imp_WppRecorderConfigure", nothing, kRefused, "no recorder"),
      DXGKIT_EXPORT("imp_WppRecorderIsDefaultLogAvailable", refuse_zero, kRefused, "no recorder"),
      DXGKIT_EXPORT("imp_WppRecorderLogCreate", refuse_status, kRefused, "no recorder"),
      DXGKIT_EXPORT("imp_WppRecorderLogDelete", refuse_status, kRefused, "no recorder"),
      DXGKIT_EXPORT("imp_WppRecorderLogDumpLiveDriverData", refuse_status, kRefused, "no recorder"),
      DXGKIT_EXPORT("imp_WppRecorderLogGetDefault", refuse_pointer, kRefused, "no recorder"),
      DXGKIT_EXPORT("imp_WppRecorderLogSetIdentifier", refuse_status, kRefused, "no recorder"),
      DXGKIT_EXPORT("imp_WppRecorderReplay", nothing, kRefused, "no recorder"),
      // Devices of the driver's own: a display miniport has none, the graphics kernel owns them.
      DXGKIT_EXPORT("IoAttachDeviceToDeviceStack", refuse_pointer, kRefused, "no device stacks"),
      DXGKIT_EXPORT("IoAttachDeviceToDeviceStackSafe", refuse_status, kRefused, "no device stacks"),
      DXGKIT_EXPORT("IoConnectInterrupt", refuse_status, kRefused,
                    "interrupts come through DxgkDdiInterruptRoutine"),
      DXGKIT_EXPORT("IoConnectInterruptEx", refuse_status, kRefused,
                    "interrupts come through DxgkDdiInterruptRoutine"),
      DXGKIT_EXPORT("IoCreateDevice", refuse_status, kRefused, "no devices of the driver's own"),
      DXGKIT_EXPORT("IoCreateDeviceSecure", refuse_status, kRefused,
                    "no devices of the driver's own"),
      DXGKIT_EXPORT("IoCreateSymbolicLink", refuse_status, kRefused,
                    "no devices of the driver's own"),
      DXGKIT_EXPORT("IoDeleteSymbolicLink", refuse_status, kRefused,
                    "no devices of the driver's own"),
      DXGKIT_EXPORT("IoGetDeviceInterfaceAlias", refuse_status, kRefused, "no device interfaces"),
      DXGKIT_EXPORT("IoGetDeviceInterfaces", refuse_status, kRefused, "no device interfaces"),
      DXGKIT_EXPORT("IoGetDmaAdapter", refuse_pointer, kRefused, "devices reach all memory"),
      DXGKIT_EXPORT("IoRegisterDeviceInterface", refuse_status, kRefused, "no device interfaces"),
      DXGKIT_EXPORT("IoReportTargetDeviceChange", refuse_status, kRefused, "no device stacks"),
      DXGKIT_EXPORT("IoReportTargetDeviceChangeAsynchronous", refuse_status, kRefused,
                    "no device stacks"),
      DXGKIT_EXPORT("IoSetDeviceInterfaceState", refuse_status, kRefused, "no device interfaces"),
      DXGKIT_EXPORT("IoAllocateErrorLogEntry", refuse_pointer, kRefused, "no event log"),
      DXGKIT_REFUSE_VOID("IoDeleteDevice", "no devices of the driver's own"),
      DXGKIT_REFUSE_VOID("IoDetachDevice", "no device stacks"),
      DXGKIT_REFUSE_VOID("IoDisconnectInterrupt", "nothing was connected"),
      DXGKIT_REFUSE_VOID("IoDisconnectInterruptEx", "nothing was connected"),
      DXGKIT_REFUSE_VOID("IoInvalidateDeviceRelations", "no device stacks"),
      DXGKIT_REFUSE_VOID("IoInvalidateDeviceState", "no device stacks"),
      DXGKIT_REFUSE_VOID("IoRequestDeviceEject", "no device stacks"),
      DXGKIT_REFUSE_VOID("IoWriteErrorLogEntry", "no event log"),
      DXGKIT_EXPORT("HalGetBusData", refuse_zero, kRefused, "no buses: use DxgkCbReadDeviceSpace"),
      DXGKIT_EXPORT("HalGetBusDataByOffset", refuse_zero, kRefused,
                    "no buses: use DxgkCbReadDeviceSpace"),
      DXGKIT_EXPORT("HalGetInterruptVector", refuse_zero, kRefused, "no buses"),
      DXGKIT_EXPORT("HalSetBusData", refuse_zero, kRefused, "no buses: use DxgkCbWriteDeviceSpace"),
      DXGKIT_EXPORT("HalSetBusDataByOffset", refuse_zero, kRefused,
                    "no buses: use DxgkCbWriteDeviceSpace"),
      DXGKIT_EXPORT("HalTranslateBusAddress", refuse_zero, kRefused, "no buses"),
      DXGKIT_EXPORT("x86BiosAllocateBuffer", refuse_status, kRefused, "no video BIOS"),
      DXGKIT_EXPORT("x86BiosCall", refuse_zero, kRefused, "no video BIOS: FALSE"),
      DXGKIT_EXPORT("x86BiosFreeBuffer", refuse_status, kRefused, "no video BIOS"),
      DXGKIT_EXPORT("x86BiosReadMemory", refuse_status, kRefused, "no video BIOS"),
      DXGKIT_EXPORT("x86BiosWriteMemory", refuse_status, kRefused, "no video BIOS"),
      DXGKIT_EXPORT("KeSynchronizeExecution", refuse_zero, kRefused,
                    "use DxgkCbSynchronizeExecution"),
      DXGKIT_EXPORT("KeRegisterNmiCallback", refuse_pointer, kRefused, "no NMI"),
      DXGKIT_EXPORT("KeDeregisterNmiCallback", refuse_status, kRefused, "no NMI"),
      DXGKIT_EXPORT("KeRegisterProcessorChangeCallback", refuse_pointer, kRefused,
                    "processors do not change"),
      DXGKIT_EXPORT("KeQueryLogicalProcessorRelationship", refuse_status, kRefused,
                    "one processor"),
      DXGKIT_EXPORT("KeInitializeCrashDumpHeader", refuse_status, kRefused, "no crash dump"),
      // Callbacks about other processes, images and the registry.
      DXGKIT_EXPORT("CmRegisterCallback", refuse_status, kRefused, "no registry callbacks"),
      DXGKIT_EXPORT("CmRegisterCallbackEx", refuse_status, kRefused, "no registry callbacks"),
      DXGKIT_EXPORT("CmUnRegisterCallback", refuse_status, kRefused, "no registry callbacks"),
      DXGKIT_EXPORT("ExCreateCallback", refuse_status, kRefused, "no callback objects"),
      DXGKIT_EXPORT("ExRegisterCallback", refuse_pointer, kRefused, "no callback objects"),
      DXGKIT_REFUSE_VOID("ExNotifyCallback", "no callback objects"),
      DXGKIT_REFUSE_VOID("ExUnregisterCallback", "no callback objects"),
      DXGKIT_EXPORT("PsSetCreateProcessNotifyRoutine", refuse_status, kRefused, "no processes"),
      DXGKIT_EXPORT("PsSetCreateProcessNotifyRoutineEx", refuse_status, kRefused, "no processes"),
      DXGKIT_EXPORT("PsSetCreateThreadNotifyRoutine", refuse_status, kRefused, "no processes"),
      DXGKIT_EXPORT("PsRemoveCreateThreadNotifyRoutine", refuse_status, kRefused, "no processes"),
      DXGKIT_EXPORT("PsSetLoadImageNotifyRoutine", refuse_status, kRefused, "no processes"),
      DXGKIT_EXPORT("PsRemoveLoadImageNotifyRoutine", refuse_status, kRefused, "no processes"),
      DXGKIT_EXPORT("PsLookupThreadByThreadId", refuse_status, kRefused, "no other threads"),
      DXGKIT_EXPORT("ZwOpenProcess", refuse_status, kRefused, "no processes"),
      DXGKIT_EXPORT("ZwQueryInformationProcess", refuse_status, kRefused, "no processes"),
      DXGKIT_EXPORT("ZwSetInformationProcess", refuse_status, kRefused, "no processes"),
      DXGKIT_EXPORT("ZwQueryInformationThread", refuse_status, kRefused, "no thread information"),
      DXGKIT_EXPORT("ZwSetInformationThread", refuse_status, kRefused, "no thread information"),
      DXGKIT_EXPORT("ZwQuerySystemInformation", refuse_status, kRefused, "no system information"),
      DXGKIT_EXPORT("ZwTraceControl", refuse_status, kRefused, "no event tracing"),
      // Power framework: the graphics kernel uses it, not the driver.
      DXGKIT_EXPORT("PoCallDriver", refuse_status, kRefused, "use IoCallDriver"),
      DXGKIT_EXPORT("PoClearPowerRequest", refuse_status, kRefused, "no power requests"),
      DXGKIT_EXPORT("PoCreatePowerRequest", refuse_status, kRefused, "no power requests"),
      DXGKIT_REFUSE_VOID("PoDeletePowerRequest", "no power requests"),
      DXGKIT_EXPORT("PoFxRegisterDevice", refuse_status, kRefused, "no power framework"),
      DXGKIT_EXPORT("PoFxPowerControl", refuse_status, kRefused, "no power framework"),
      DXGKIT_EXPORT("PoFxPowerOnCrashdumpDevice", refuse_status, kRefused, "no power framework"),
      DXGKIT_EXPORT("PoFxQueryCurrentComponentPerfState", refuse_status, kRefused,
                    "no power framework"),
      DXGKIT_EXPORT("PoFxRegisterComponentPerfStates", refuse_status, kRefused,
                    "no power framework"),
      DXGKIT_EXPORT("PoFxSetTargetDripsDevicePowerState", refuse_status, kRefused,
                    "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxActivateComponent", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxCompleteDevicePowerNotRequired", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxCompleteIdleCondition", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxCompleteIdleState", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxIdleComponent", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxIssueComponentPerfStateChange", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxNotifySurprisePowerOn", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxReportDevicePoweredOn", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxSetComponentLatency", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxSetComponentResidency", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxSetComponentWake", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxSetDeviceIdleTimeout", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxStartDevicePowerManagement", "no power framework"),
      DXGKIT_REFUSE_VOID("PoFxUnregisterDevice", "no power framework"),
      DXGKIT_EXPORT("PoGetSystemWake", refuse_zero, kRefused, "no wake sources"),
      DXGKIT_EXPORT("PoRegisterDeviceForIdleDetection", refuse_pointer, kRefused,
                    "no idle detection"),
      DXGKIT_EXPORT("PoRegisterSystemState", refuse_pointer, kRefused, "no system power state"),
      DXGKIT_EXPORT("PoRequestPowerIrp", refuse_status, kRefused, "no power requests"),
      DXGKIT_EXPORT("PoSetPowerRequest", refuse_status, kRefused, "no power requests"),
      DXGKIT_REFUSE_VOID("PoSetSystemState", "no system power state"),
      DXGKIT_REFUSE_VOID("PoUnregisterSystemState", "no system power state"),
      // Security.
      DXGKIT_EXPORT("SeAccessCheck", refuse_zero, kRefused, "no security: access is denied"),
      DXGKIT_EXPORT("SeLocateProcessImageName", refuse_status, kRefused, "no processes"),
      DXGKIT_EXPORT("SePrivilegeCheck", refuse_zero, kRefused, "no security: none is held"),
      DXGKIT_EXPORT("SeQueryInformationToken", refuse_status, kRefused, "no security"),
      DXGKIT_EXPORT("SeTokenIsAdmin", refuse_zero, kRefused, "no security: no administrator"),
  };
  return kTable;
}

}  // namespace dxgkit::nt
