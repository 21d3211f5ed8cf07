// Two overlay planes on softgpu's screen, shown by softgpu's driver for the kernel: each picture is
// compared, pixel by pixel, with a composition that the test does itself from the hardware manual.
#include <d3dkmthk.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bus/device.h"
#include "bus/machine.h"
#include "devices/softgpu/device.h"
#include "dxgk/system.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "thunks/client.h"
#include "tools/dxgkit/client.h"
#include "verifier/findings.h"

namespace dxgkit {
namespace {

using tool::ClientAllocation;
using tool::ClientContext;
using tool::ClientDevice;

constexpr uint32_t kWidth = 48, kHeight = 40, kPixelBytes = 4, kSurfaces = 4;

struct Rectangle {
  int32_t left, top, right, bottom;
  int32_t width() const { return right - left; }
  int32_t height() const { return bottom - top; }
};

/// One plane of a step; `surface` is an index, -1 switches the plane off.
struct Shown {
  int surface = -1;
  Rectangle source{}, destination{}, clip{};
  bool blend = false;
};

/// What a call sets; a plane that is not named stays.
struct Step {
  const char* what;
  std::vector<std::pair<uint32_t, Shown>> planes;  // by layer
};

constexpr Rectangle kAll = {0, 0, kWidth, kHeight};
Rectangle whole(const Rectangle& of) { return {0, 0, of.width(), of.height()}; }

const std::vector<Step>& steps() {
  constexpr Rectangle kSmall = {8, 4, 24, 20}, kWide = {4, 10, 44, 30}, kCorner = {40, 32, 48, 40};
  static const std::vector<Step> all = {
      {"one plane as large as the screen", {{1, {0, kAll, kAll, whole(kAll)}}}},
      {"a small one above it", {{0, {1, kSmall, kSmall, whole(kSmall)}}}},
      {"the small one moves", {{0, {1, kSmall, {20, 16, 36, 32}, whole(kSmall)}}}},
      {"the lower one flips", {{1, {2, kAll, kAll, whole(kAll)}}}},
      {"stretched in one direction", {{0, {3, kSmall, kWide, whole(kWide)}}}},
      {"shrunk", {{0, {3, kAll, kSmall, whole(kSmall)}}}},
      {"clipped", {{0, {3, kAll, kWide, {3, 2, 20, 15}}}}},
      {"blended", {{0, {1, kSmall, kWide, whole(kWide), true}}}},
      {"blended and clipped in a corner", {{0, {1, kWide, kCorner, {2, 2, 8, 8}, true}}}},
      {"both at once",
       {{0, {0, kSmall, kSmall, whole(kSmall), true}}, {1, {1, kWide, kAll, whole(kAll)}}}},
      {"the lower one off: black under what is blended", {{1, {}}}},
      {"the upper one off: black", {{0, {}}}},
      {"the upper one again", {{0, {2, kSmall, kSmall, whole(kSmall)}}}},
  };
  return all;
}

using Pixels = std::vector<uint8_t>;  // blue, green, red, alpha

/// Colours that are multiplied by their alpha, as a plane that is blended needs them.
Pixels surface_pixels(uint32_t number) {
  Pixels pixels(size_t{kWidth} * kHeight * kPixelBytes);
  for (uint32_t y = 0; y < kHeight; ++y) {
    for (uint32_t x = 0; x < kWidth; ++x) {
      uint8_t* to = pixels.data() + (size_t{y} * kWidth + x) * kPixelBytes;
      const uint32_t alpha = (x * 11 + y * 7 + number * 90) % 256;
      to[0] = static_cast<uint8_t>((x * 5 + number * 37) % 256 * alpha / 255);
      to[1] = static_cast<uint8_t>((y * 6 + number * 53) % 256 * alpha / 255);
      to[2] = static_cast<uint8_t>((x + y + number * 71) % 256 * alpha / 255);
      to[3] = static_cast<uint8_t>(alpha);
    }
  }
  return pixels;
}

/// The screen as the manual describes it: red, green, blue, 255.
Pixels composition(const std::vector<Pixels>& surfaces, const Shown (&planes)[2]) {
  Pixels screen;
  for (int32_t y = 0; y < static_cast<int32_t>(kHeight); ++y) {
    for (int32_t x = 0; x < static_cast<int32_t>(kWidth); ++x) {
      uint32_t colours[3] = {0, 0, 0};
      for (const Shown* plane : {&planes[1], &planes[0]}) {
        if (plane->surface < 0) continue;
        const int32_t in_x = x - plane->destination.left, in_y = y - plane->destination.top;
        const Rectangle& clip = plane->clip;
        if (in_x < clip.left || in_x >= clip.right || in_y < clip.top || in_y >= clip.bottom)
          continue;
        const int32_t from_x =
            plane->source.left + in_x * plane->source.width() / plane->destination.width();
        const int32_t from_y =
            plane->source.top + in_y * plane->source.height() / plane->destination.height();
        const uint8_t* from =
            surfaces[static_cast<size_t>(plane->surface)].data() +
            (static_cast<size_t>(from_y) * kWidth + static_cast<size_t>(from_x)) * kPixelBytes;
        for (size_t i = 0; i < 3; ++i) {
          const uint32_t under = plane->blend ? colours[i] * (255U - from[3]) : 0;
          colours[i] = std::min(255U, from[2 - i] + (under + 127) / 255);
        }
      }
      for (const uint32_t colour : colours) screen.push_back(static_cast<uint8_t>(colour));
      screen.push_back(255);
    }
  }
  return screen;
}

RECT to_rect(const Rectangle& from) { return {from.left, from.top, from.right, from.bottom}; }

#define ASSERT_CLIENT(call)                             \
  do {                                                  \
    auto done = (call);                                 \
    ASSERT_TRUE(done.has_value()) << done.error().text; \
  } while (false)

/// A process that shows all steps and compares.
void show_steps(dxgk::Luid adapter, bus::DeviceScreen& screen) {
  auto device_or = ClientDevice::open(adapter);
  ASSERT_TRUE(device_or.has_value()) << device_or.error().text;
  ClientDevice& device = *device_or;
  auto context_or = device.create_context(SGPU_UMD_NODE_COPY);
  ASSERT_TRUE(context_or.has_value());
  ClientContext& context = *context_or;
  const auto fence = device.create_fence();
  ASSERT_TRUE(fence.has_value());
  uint64_t value = 0;
  std::vector<Pixels> pictures;
  std::vector<ClientAllocation> surfaces;
  const auto staging = device.create_surface(kWidth, kHeight, SGPU_UMD_PLACE_STAGING);
  ASSERT_TRUE(staging.has_value());
  const auto bytes = device.lock(*staging);
  ASSERT_TRUE(bytes.has_value());
  for (uint32_t i = 0; i <= kSurfaces; ++i) {  // the last one is the mode's
    const auto made = device.create_primary(kWidth, kHeight);
    ASSERT_TRUE(made.has_value()) << made.error().text;
    surfaces.push_back(*made);
    pictures.push_back(surface_pixels(i));
    for (uint32_t y = 0; y < kHeight; ++y) {
      std::copy_n(reinterpret_cast<const std::byte*>(pictures.back().data()) +
                      size_t{y} * kWidth * kPixelBytes,
                  size_t{kWidth} * kPixelBytes, *bytes + size_t{y} * staging->pitch_bytes);
    }
    const uint32_t from = context.use(*staging, ClientContext::Access::kRead);
    const uint32_t to = context.use(*made, ClientContext::Access::kWrite);
    context.blit({from, 0}, staging->pitch_bytes, {to, 0}, made->pitch_bytes, kWidth * kPixelBytes,
                 kHeight);
    ASSERT_CLIENT(context.submit());
    ASSERT_CLIENT(context.signal(*fence, ++value));
    ASSERT_CLIENT(device.wait(*fence, value));
  }
  ASSERT_CLIENT(device.own_screen());
  ASSERT_CLIENT(device.set_display_mode(surfaces.back()));
  Shown now[2];
  for (const Step& step : steps()) {
    SCOPED_TRACE(step.what);
    std::vector<D3DKMT_MULTIPLANE_OVERLAY> planes;
    for (const auto& [layer, shown] : step.planes) {
      now[layer] = shown;
      D3DKMT_MULTIPLANE_OVERLAY plane{};
      plane.LayerIndex = layer;
      plane.Enabled = shown.surface >= 0 ? TRUE : FALSE;
      if (shown.surface >= 0)
        plane.hAllocation = surfaces[static_cast<size_t>(shown.surface)].handle;
      plane.PlaneAttributes.SrcRect = to_rect(shown.source);
      plane.PlaneAttributes.DstRect = to_rect(shown.destination);
      plane.PlaneAttributes.ClipRect = to_rect(shown.clip);
      plane.PlaneAttributes.Rotation = D3DDDI_ROTATION_IDENTITY;
      plane.PlaneAttributes.Blend = shown.blend ? D3DKMT_MULTIPLANE_OVERLAY_BLEND_ALPHABLEND
                                                : D3DKMT_MULTIPLANE_OVERLAY_BLEND_OPAQUE;
      plane.PlaneAttributes.StretchQuality =
          static_cast<DXGKMT_MULTIPLANE_OVERLAY_STRETCH_QUALITY>(1);
      planes.push_back(plane);
    }
    D3DKMT_PRESENT_MULTIPLANE_OVERLAY args{};
    args.hContext = context.handle();
    args.FlipInterval = D3DDDI_FLIPINTERVAL_ONE;
    args.Flags.Flip = 1;
    args.PresentPlaneCount = static_cast<UINT>(planes.size());
    args.pPresentPlanes = planes.data();
    ASSERT_EQ(D3DKMTPresentMultiPlaneOverlay(&args), 0);
    // The context goes on when the vertical sync has shown the planes.
    ASSERT_CLIENT(context.signal(*fence, ++value));
    ASSERT_CLIENT(device.wait(*fence, value));
    const bus::ScreenImage image = screen.image();
    ASSERT_EQ(image.width, kWidth);
    ASSERT_EQ(image.height, kHeight);
    EXPECT_EQ(image.pixels, composition(pictures, now));
  }
  // The mode again: its primary is the only plane.
  ASSERT_CLIENT(device.set_display_mode(surfaces.back()));
  const Shown primary{kSurfaces, kAll, kAll, whole(kAll)};
  const Shown only[2] = {{}, primary};
  EXPECT_EQ(screen.image().pixels, composition(pictures, only));
  ASSERT_CLIENT(device.unlock(*staging));
  ASSERT_CLIENT(device.wait_idle());
  ASSERT_CLIENT(device.close());
}

class PlanesScreen : public ::testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(PlanesScreen, ShowsWhatTheProcessorComposes) {
  const auto& [path, sim] = GetParam();
  const auto runtime = sim ? runtime::make_sim_runtime(5) : runtime::make_os_runtime(5);
  runtime->run_main([&] {
    verifier::Findings findings;
    bus::Machine machine(uint64_t{32} << 20);
    bus::DeviceOptions options_of_device;
    ASSERT_TRUE(options_of_device.add("vram", "1M"));
    ASSERT_TRUE(options_of_device.add("refresh", "60"));
    const auto maker = softgpu::device_type().configure(options_of_device);
    ASSERT_TRUE(maker.has_value());
    const auto made = (*maker)({*runtime, machine});
    ASSERT_TRUE(made.has_value());
    bus::Device& gpu = **made;
    ASSERT_EQ(bus::plug_in(machine, gpu), Status::kSuccess);
    nt::KernelConfig config;
    auto& key = config.registry[nt::KernelConfig::kDriverKey];
    key["ScreenSize"] = nt::RegistryValue::dword(kWidth | kHeight << 16);
    key["OverlayPlanes"] = nt::RegistryValue::dword(2);
    nt::Kernel kernel(*runtime, machine, findings, config);
    {
      std::string message;
      auto driver = port::Driver::load(
          kernel, findings, {.name = "softgpu", .path = path, .entry = nullptr}, &message);
      ASSERT_TRUE(driver.has_value()) << message;
      dxgk::System system(*runtime, machine, kernel, findings);
      const auto adapter = system.start_adapter(**driver, *gpu.functions().front(), {});
      ASSERT_TRUE(adapter.has_value());
      dxgk::Process& process = system.create_process("planes");
      {
        const thunks::ClientScope scope(system, process);
        show_steps(*adapter, *gpu.screen());
      }
      system.end_process(process);
      EXPECT_EQ(system.stop_adapter(*adapter), Status::kSuccess);
    }
    for (const verifier::Finding& finding : findings.all())
      ADD_FAILURE() << finding.rule << ": " << finding.actual;
  });
}

INSTANTIATE_TEST_SUITE_P(Drivers, PlanesScreen,
                         ::testing::Combine(::testing::Values(SCREEN_ELF, SCREEN_WDDM2_ELF),
                                            ::testing::Bool()));

}  // namespace
}  // namespace dxgkit
