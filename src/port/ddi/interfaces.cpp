#include "port/ddi/interfaces.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "port/core/ddi_call.h"
#include "port/core/guarded_output.h"
#include "port/core/port_core.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kQueryInterface{"DxgkDdiQueryInterface", nt::kPassiveLevel, DdiClass::kLevelTwo};
constexpr DdiInfo kDereference{"InterfaceDereference", nt::kPassiveLevel,
                               DdiClass::kLevelZeroBeside};

struct Interface {
  const char* name;
  GUID type;
  USHORT bytes, version;
  uint32_t since;  // the interface version of drivers that may know it
};

const std::array kOfAdapter = {
    Interface{"GUID_DEVINTERFACE_I2C",
              {0x2564AA4F, 0xDDDB, 0x4495, {0xB4, 0x97, 0x6A, 0xD4, 0xA8, 0x41, 0x63, 0xD7}},
              sizeof(DXGK_I2C_INTERFACE),
              DXGK_I2C_INTERFACE_VERSION_1,
              0},
    Interface{"GUID_DEVINTERFACE_OPM",
              {0xBF4672DE, 0x6B4E, 0x4BE4, {0xA3, 0x25, 0x68, 0xA9, 0x1E, 0xA4, 0x9C, 0x09}},
              sizeof(DXGK_OPM_INTERFACE),
              DXGK_OPM_INTERFACE_VERSION_1,
              0}};

const std::array kOfPanel = {
    Interface{"GUID_DEVINTERFACE_BRIGHTNESS_3",
              {0x197A4A6E, 0x0391, 0x4322, {0x96, 0xEA, 0xC2, 0x76, 0x0F, 0x88, 0x1D, 0x3A}},
              sizeof(DXGK_BRIGHTNESS_INTERFACE_3),
              DXGK_BRIGHTNESS_INTERFACE_VERSION_3,
              DXGKDDI_INTERFACE_VERSION_WDDM2_4},
    Interface{"GUID_DEVINTERFACE_BRIGHTNESS_2",
              {0x148A3C98, 0x0ECD, 0x465A, {0xB6, 0x34, 0xB0, 0x5F, 0x19, 0x5F, 0x77, 0x39}},
              sizeof(DXGK_BRIGHTNESS_INTERFACE_2),
              DXGK_BRIGHTNESS_INTERFACE_VERSION_2,
              kInterfaceWin8},
    Interface{"GUID_DEVINTERFACE_BRIGHTNESS",
              {0xFDE5BBA4, 0xB3F9, 0x46FB, {0xBD, 0xAA, 0x07, 0x28, 0xCE, 0x31, 0x00, 0xB4}},
              sizeof(DXGK_BRIGHTNESS_INTERFACE),
              DXGK_BRIGHTNESS_INTERFACE_VERSION_1,
              0}};

/// What is wrong with the header of an interface that the driver gave; "" if nothing is.
std::string fault_of(const Interface& asked, const INTERFACE& given) {
  if (given.Size < sizeof(INTERFACE) || given.Size > asked.bytes)
    return fmt::format("Size is {}, and {} bytes are there.", given.Size, asked.bytes);
  if (given.Version == 0 || given.Version > asked.version)
    return fmt::format("Version is {}, and version {} was asked for.", given.Version,
                       asked.version);
  if (given.InterfaceReference == nullptr || given.InterfaceDereference == nullptr)
    return fmt::format("{} is null.", given.InterfaceReference == nullptr ? "InterfaceReference"
                                                                          : "InterfaceDereference");
  return {};
}

/// What the driver answered.
Status ask(PortCore& core, const Interface& asked, uint32_t uid) {
  if (is_dead(core)) return Status::kDeviceRemoved;
  const GuardedOutput output = GuardedOutput::of_zeros(asked.bytes);
  QUERY_INTERFACE query{};
  query.InterfaceType = &asked.type;
  query.Size = asked.bytes;
  query.Version = asked.version;
  query.Interface = output.as<INTERFACE>();
  query.DeviceUid = uid;
  Status status = Status::kSuccess;
  {
    DdiCall call(core, kQueryInterface);
    status = call(core.ddi.DxgkDdiQueryInterface, core.context, &query);
    static_cast<void>(output.check(core, kQueryInterface.name, "Interface"));
    if (!call.completed()) return status;
  }
  if (status == Status::kNotSupported) return status;
  if (!is_success(status)) {
    core.findings.report({.rule = "LIFE-34",
                          .severity = verifier::Severity::kWarning,
                          .ddi = kQueryInterface.name,
                          .actual = fmt::format("It answered 0x{:08X} for {}.",
                                                static_cast<uint32_t>(status), asked.name),
                          .expected = "STATUS_NOT_SUPPORTED for an interface that it does not "
                                      "have: with another error the query ends there.",
                          .fix = "End the function with STATUS_NOT_SUPPORTED."});
    return status;
  }
  const INTERFACE& given = *output.as<INTERFACE>();
  if (std::string fault = fault_of(asked, given); !fault.empty()) {
    (void)core.violation(
        "LIFE-34", kQueryInterface.name,
        fmt::format("It gave {} and answered STATUS_SUCCESS: {}", asked.name, fault),
        "Size of what was written, the version given, and both routines of references.",
        "Fill the members of INTERFACE, or answer STATUS_NOT_SUPPORTED.", Status::kSuccess);
    return status;
  }
  DdiCall call(core, kDereference);
  static_cast<void>(call.no_answer(given.InterfaceDereference, given.Context));
  return status;
}

}  // namespace

bool InterfacesPort::offered() const { return core_.ddi.DxgkDdiQueryInterface != nullptr; }

Status InterfacesPort::ask_adapter() {
  Status last = Status::kNotSupported;
  if (!offered()) return last;
  for (const Interface& one : kOfAdapter) last = ask(core_, one, DISPLAY_ADAPTER_HW_ID);
  return last;
}

Status InterfacesPort::ask_panel(uint32_t uid) {
  Status last = Status::kNotSupported;
  if (!offered()) return last;
  for (const Interface& one : kOfPanel) {
    if (core_.version < one.since) continue;
    last = ask(core_, one, uid);
    if (is_success(last)) return last;
  }
  return last;
}

}  // namespace dxgkit::port
