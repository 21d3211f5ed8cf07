#include "dxgk/displays.h"

#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/system_impl.h"

namespace dxgkit::dxgk {

template <typename Call>
Status Displays::with(Luid luid, const Call& call) {
  const Ref<Adapter> adapter = system_.impl().find(luid);
  if (!adapter) return Status::kInvalidParameter;
  GatePass pass(adapter->core().gate());
  if (!pass) return Status::kDeviceRemoved;
  Display* const display = adapter->floor().display;
  if (display == nullptr) return Status::kNotSupported;  // DISP-21
  return call(*display);
}

Result<DisplayConfiguration> Displays::configuration(Luid adapter) {
  DisplayConfiguration result;
  DXGKIT_RETURN_ERROR_IF_FAILED(with(adapter, [&](Display& display) {
    result = display.configuration();
    return Status::kSuccess;
  }));
  return result;
}

Status Displays::set_mode(Luid adapter, uint32_t source, const DisplayMode& mode) {
  return with(adapter, [&](Display& display) { return display.set_mode(source, mode); });
}

Status Displays::present(Luid adapter, const DisplayPresent& request) {
  return with(adapter, [&](Display& display) { return display.presents().present(request); });
}

Result<Scanout> Displays::scanout(Luid adapter, uint32_t source) {
  Scanout result;
  DXGKIT_RETURN_ERROR_IF_FAILED(with(adapter, [&](Display& display) {
    Result<Scanout> picture = display.scanout(source);
    if (!picture.has_value()) return picture.error();
    result = std::move(*picture);
    return Status::kSuccess;
  }));
  return result;
}

Status Displays::set_pointer_shape(Luid adapter, const port::PointerShape& shape) {
  return with(adapter, [&](Display& display) { return display.pointer().set_shape(shape); });
}

Status Displays::set_pointer_position(Luid adapter, uint32_t source, int32_t x, int32_t y,
                                      bool visible) {
  return with(adapter, [&](Display& display) {
    return display.pointer().set_position(source, x, y, visible);
  });
}

Status Displays::update_path(Luid adapter, const vidpn::Path& path) {
  return with(adapter, [&](Display& display) { return display.modes().update_path(path); });
}

Status Displays::set_power(Luid adapter, port::PowerState state, port::PowerAction action) {
  return with(adapter, [&](Display& display) { return display.set_power(state, action); });
}

Status Displays::show_bug_check(Luid adapter, std::span<const std::byte> pixels, uint32_t width,
                                uint32_t height) {
  // No lock: a bug check comes whatever anybody holds.
  return with(adapter, [&](Display& display) {
    port::AdapterPort& port = display.shared().core().port();
    if (!port.has_entry("DxgkDdiSystemDisplayEnable")) return Status::kNotSupported;
    if (width == 0 || height == 0 || width > UINT16_MAX || height > UINT16_MAX)
      return Status::kInvalidParameter;
    if (pixels.size() < uint64_t{width} * height * kPixelBytes) return Status::kInvalidParameter;
    uint32_t screen_width{}, screen_height{}, format{};
    const Status status = port.scanout().system_display_enable(
        display.active().post_target(), &screen_width, &screen_height, &format);
    if (!is_success(status))
      return display.shared().failed_call("DxgkDdiSystemDisplayEnable", status);
    if (screen_width < width || screen_height < height) return Status::kInvalidParameter;
    return port.scanout().system_display_write(pixels, width, height, width * kPixelBytes, 0, 0);
  });
}

Result<vidpn::Network> Displays::active_network(Luid adapter) {
  vidpn::Network result;
  DXGKIT_RETURN_ERROR_IF_FAILED(with(adapter, [&](Display& display) {
    result = display.active_network();
    return Status::kSuccess;
  }));
  return result;
}

Status Displays::wait_for_hot_plug(Luid adapter) {
  return with(adapter, [&](Display& display) {
    display.worker().wait_for_hot_plug();
    return Status::kSuccess;
  });
}

}  // namespace dxgkit::dxgk
