#include "port/io_objects.h"

#include <algorithm>
#include <utility>

#include "nt/kernel.h"

namespace dxgkit::port {
namespace {

constexpr CSHORT kTypeDevice = 3, kTypeDriver = 4;

UNICODE_STRING text_of(std::u16string& text) {
  UNICODE_STRING view{};
  view.Length = static_cast<USHORT>(text.size() * sizeof(char16_t));
  view.MaximumLength = static_cast<USHORT>(view.Length + sizeof(char16_t));
  view.Buffer = text.data();
  return view;
}

}  // namespace

DriverObject::DriverObject(std::u16string name, void* base, size_t bytes, PDRIVER_INITIALIZE entry)
    : name_(std::move(name)), service_(name_.substr(name_.rfind(u'\\') + 1)) {
  object.Type = kTypeDriver;
  object.Size = sizeof(DRIVER_OBJECT);
  object.DriverStart = base;
  object.DriverSize = static_cast<ULONG>(bytes);
  object.DriverInit = entry;
  object.DriverName = text_of(name_);
  object.DriverExtension = &extension_;
  extension_.DriverObject = &object;
  extension_.ServiceKeyName = text_of(service_);
  std::ranges::fill(object.MajorFunction,
                    reinterpret_cast<PDRIVER_DISPATCH>(const_cast<void*>(nt::unhandled_request())));
}

PhysicalDevice::PhysicalDevice() : bus_(u"\\Driver\\pci", nullptr, 0, nullptr) {
  object.Type = kTypeDevice;
  object.Size = sizeof(DEVICE_OBJECT);
  object.DriverObject = &bus_.object;
  object.StackSize = 1;
  bus_.object.DeviceObject = &object;
}

}  // namespace dxgkit::port
