#include "nt/device_properties.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "nt/executive.h"
#include "nt/registry_calls.h"

namespace dxgkit::nt {
namespace {

constexpr uint32_t kText = 1, kMultiText = 7, kDword = 4, kBinary = 3;  // REG_*
constexpr uint32_t kPciBus = 5;                                         // INTERFACE_TYPE
/// The place of the one device of this machine: bus 0, device 2, function 0.
constexpr uint32_t kBus = 0, kDevice = 2, kFunction = 0;
/// GUID_BUS_TYPE_PCI, as bytes.
constexpr uint8_t kPciBusType[16] = {0xB0, 0xDF, 0xEB, 0xC8, 0x10, 0xB5, 0xD0, 0x11,
                                     0x80, 0xE5, 0x00, 0xA0, 0xC9, 0x25, 0x42, 0xE3};

std::u16string multi(const std::vector<std::string>& lines) {
  std::u16string text;
  for (const std::string& line : lines) text += widen(line) + u'\0';
  return text + u'\0';
}

}  // namespace

void describe_device(Kernel& kernel, const bus::PciIdentity& identity) {
  const std::string device =
      fmt::format("PCI\\VEN_{:04X}&DEV_{:04X}", identity.vendor_id, identity.device_id);
  const std::string subsystem =
      fmt::format("&SUBSYS_{:04X}{:04X}", identity.subsystem_id, identity.subsystem_vendor_id);
  const std::string revision = fmt::format("&REV_{:02X}", identity.revision);
  // The programming interface of every function here is 0.
  const std::string long_class =
      fmt::format("CC_{:02X}{:02X}00", identity.base_class, identity.sub_class);
  const std::string short_class =
      fmt::format("CC_{:02X}{:02X}", identity.base_class, identity.sub_class);
  const std::string vendor = fmt::format("PCI\\VEN_{:04X}", identity.vendor_id);

  Executive& state = executive_of(kernel);
  runtime::MutexLock lock(state.lock);
  std::u16string_view path_below_root = u"Machine\\dxgkit\\Properties";
  const std::shared_ptr<RegistryKey> key =
      Registry::create_below(state.registry.root(), path_below_root);
  const auto put = [&](std::u16string_view name, uint32_t type, const void* data, size_t bytes) {
    if (key->values.find(name) == key->values.end())
      set_registry_value(kernel, *key, name, type, data, static_cast<uint32_t>(bytes));
  };
  const auto put_text = [&](std::u16string_view name, const std::string& value) {
    const std::u16string wide = widen(value) + u'\0';
    put(name, kText, wide.data(), wide.size() * sizeof(char16_t));
  };
  const auto put_multi = [&](std::u16string_view name, const std::vector<std::string>& values) {
    const std::u16string wide = multi(values);
    put(name, kMultiText, wide.data(), wide.size() * sizeof(char16_t));
  };
  const auto put_number = [&](std::u16string_view name, uint32_t value) {
    put(name, kDword, &value, sizeof(value));
  };
  put_multi(u"HardwareID", {device + subsystem + revision, device + subsystem,
                            device + "&" + long_class, device + "&" + short_class});
  put_multi(u"CompatibleIDs",
            {device + revision, device, vendor + "&" + long_class, vendor + "&" + short_class,
             vendor, "PCI\\" + long_class, "PCI\\" + short_class});
  put_text(u"DeviceDesc", "dxgkit display adapter");
  put_text(u"Class", "Display");
  put_text(u"ClassGUID", "{4d36e968-e325-11ce-bfc1-08002be10318}");
  put_text(u"Driver", "{4d36e968-e325-11ce-bfc1-08002be10318}\\0000");
  put_text(u"LocationInformation",
           fmt::format("PCI bus {}, device {}, function {}", kBus, kDevice, kFunction));
  put_text(u"PhysicalDeviceObjectName", "\\Device\\NTPNP_PCI0002");
  put_text(u"EnumeratorName", "PCI");
  put(u"BusTypeGuid", kBinary, kPciBusType, sizeof(kPciBusType));
  put_number(u"LegacyBusType", kPciBus);
  put_number(u"BusNumber", kBus);
  put_number(u"Address", kDevice << 16 | kFunction);
}

}  // namespace dxgkit::nt
