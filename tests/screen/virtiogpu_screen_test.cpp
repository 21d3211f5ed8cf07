// What the CPU draws into surfaces of the virtio GPU's driver, and what the device's screen shows
// of it, pixel by pixel: the mode's primary, flips of both kinds, parts brought there by Render,
// and the pointer.
#include <d3dkmthk.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bus/device.h"
#include "bus/machine.h"
#include "devices/virtiogpu/device.h"
#include "dxgk/displays.h"
#include "dxgk/system.h"
#include "miniports/virtiogpu/virtiogpu_umd.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "tests/screen/resident_list.h"
#include "thunks/client.h"
#include "verifier/findings.h"

namespace dxgkit {
namespace {

constexpr uint32_t kWidth = 130, kHeight = 70;  // rows that are no whole pages
constexpr runtime::DurationNs kUntilShown = 10 * runtime::kSecond;

using Picture = std::vector<uint32_t>;  // red << 16 | green << 8 | blue

uint32_t pixel_of(uint32_t number, uint32_t x, uint32_t y) {
  return ((x * 7 + number * 90) % 256) << 16 | ((y * 11 + number * 50) % 256) << 8 |
         (x + y * 3 + number * 21) % 256;
}

Picture picture_of(uint32_t number) {
  Picture picture;
  for (uint32_t y = 0; y < kHeight; ++y)
    for (uint32_t x = 0; x < kWidth; ++x) picture.push_back(pixel_of(number, x, y));
  return picture;
}

Picture pixels_of(const bus::ScreenImage& image) {
  Picture picture;
  for (size_t i = 0; i < image.pixels.size(); i += 4)
    picture.push_back(uint32_t{image.pixels[i]} << 16 | uint32_t{image.pixels[i + 1]} << 8 |
                      image.pixels[i + 2]);
  return picture;
}

struct Rectangle {
  uint32_t x, y, width, height;
};

/// A process that owns the screen.
class Client {
 public:
  Client(dxgk::Luid adapter, bus::DeviceScreen& screen) : screen_(screen) {
    D3DKMT_OPENADAPTERFROMLUID open{};
    open.AdapterLuid = {adapter.low, adapter.high};
    EXPECT_EQ(D3DKMTOpenAdapterFromLuid(&open), 0);
    adapter_ = open.hAdapter;
    D3DKMT_CREATEDEVICE device{};
    device.hAdapter = adapter_;
    EXPECT_EQ(D3DKMTCreateDevice(&device), 0);
    device_ = device.hDevice;
    D3DKMT_CREATECONTEXT context{};
    context.hDevice = device_;
    EXPECT_EQ(D3DKMTCreateContext(&context), 0);
    context_ = context;
    VgpuUmdAdapterInfo info{};
    D3DKMT_QUERYADAPTERINFO query{};
    query.hAdapter = adapter_;
    query.Type = KMTQAITYPE_UMDRIVERPRIVATE;
    query.pPrivateDriverData = &info;
    query.PrivateDriverDataSize = sizeof info;
    EXPECT_EQ(D3DKMTQueryAdapterInfo(&query), 0);
    if ((info.flags & VGPU_UMD_EXPLICIT_RESIDENCY) != 0) resident_.open(device_);
    screen_.on_flip([this](const bus::ScreenImage&) { shown_.set(); });
  }
  ~Client() {
    screen_.on_flip({});
    resident_.close();
    D3DKMT_DESTROYCONTEXT context{};
    context.hContext = context_.hContext;
    EXPECT_EQ(D3DKMTDestroyContext(&context), 0);
    D3DKMT_DESTROYDEVICE device{};
    device.hDevice = device_;
    EXPECT_EQ(D3DKMTDestroyDevice(&device), 0);
    D3DKMT_CLOSEADAPTER adapter{};
    adapter.hAdapter = adapter_;
    EXPECT_EQ(D3DKMTCloseAdapter(&adapter), 0);
  }

  D3DKMT_HANDLE make_primary() {
    VgpuUmdAllocation data{VGPU_UMD_ALLOCATION_MAGIC, VGPU_UMD_VERSION, kWidth, kHeight, 0, 0};
    D3DDDI_ALLOCATIONINFO2 info{};
    info.pPrivateDriverData = &data;
    info.PrivateDriverDataSize = sizeof data;
    info.Flags.Primary = 1;
    D3DKMT_CREATEALLOCATION create{};
    create.hDevice = device_;
    create.NumAllocations = 1;
    create.pAllocationInfo2 = &info;
    EXPECT_EQ(D3DKMTCreateAllocation2(&create), 0);
    EXPECT_EQ(data.pitch_bytes, kWidth * 4);
    return info.hAllocation;
  }

  void draw(D3DKMT_HANDLE surface, const Picture& picture, const Rectangle& where) {
    D3DKMT_LOCK lock{};
    lock.hDevice = device_;
    lock.hAllocation = surface;
    ASSERT_EQ(D3DKMTLock(&lock), 0);
    for (uint32_t y = where.y; y < where.y + where.height; ++y) {
      for (uint32_t x = where.x; x < where.x + where.width; ++x) {
        const size_t at = size_t{y} * kWidth + x;
        std::memcpy(static_cast<std::byte*>(lock.pData) + at * 4, &picture[at], 4);
      }
    }
    D3DKMT_UNLOCK unlock{};
    unlock.hDevice = device_;
    unlock.NumAllocations = 1;
    unlock.phAllocations = &surface;
    ASSERT_EQ(D3DKMTUnlock(&unlock), 0);
  }

  void show_mode(D3DKMT_HANDLE primary) {
    const D3DKMT_VIDPNSOURCEOWNER_TYPE type = D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE;
    const D3DDDI_VIDEO_PRESENT_SOURCE_ID source = 0;
    D3DKMT_SETVIDPNSOURCEOWNER own{};
    own.hDevice = device_;
    own.pType = &type;
    own.pVidPnSourceId = &source;
    own.VidPnSourceCount = 1;
    ASSERT_EQ(D3DKMTSetVidPnSourceOwner(&own), 0);
    D3DKMT_SETDISPLAYMODE set{};
    set.hDevice = device_;
    set.hPrimaryAllocation = primary;
    ASSERT_EQ(D3DKMTSetDisplayMode(&set), 0);
  }

  void flip(D3DKMT_HANDLE primary, D3DDDI_FLIPINTERVAL_TYPE interval) {
    D3DKMT_PRESENT present{};
    present.hContext = context_.hContext;
    present.Flags.Flip = 1;
    present.hSource = primary;
    present.FlipInterval = interval;
    ASSERT_EQ(D3DKMTPresent(&present), 0);
  }

  /// Transfers the first rectangle, and flushes the second.
  void bring(D3DKMT_HANDLE surface, const Rectangle& transfer, const Rectangle& flush) {
    VgpuUmdRectangle commands[2] = {};
    const Rectangle* const where[2] = {&transfer, &flush};
    for (uint32_t i = 0; i < 2; ++i) {
      commands[i].header = {VGPU_UMD_TRANSFER_TO_HOST + i, sizeof commands[i]};
      commands[i].x = where[i]->x;
      commands[i].y = where[i]->y;
      commands[i].width = where[i]->width;
      commands[i].height = where[i]->height;
    }
    ASSERT_GE(context_.CommandBufferSize, sizeof commands);
    std::memcpy(context_.pCommandBuffer, commands, sizeof commands);
    context_.pAllocationList[0] = {};
    context_.pAllocationList[0].hAllocation = surface;
    ASSERT_EQ(resident_.add({surface}), 0);
    D3DKMT_RENDER render{};
    render.hContext = context_.hContext;
    render.CommandLength = sizeof commands;
    render.AllocationCount = 1;
    ASSERT_EQ(D3DKMTRender(&render), 0);
    resident_.let_go({surface});
    context_.pCommandBuffer = render.pNewCommandBuffer;
    context_.CommandBufferSize = render.NewCommandBufferSize;
    context_.pAllocationList = render.pNewAllocationList;
    context_.pPatchLocationList = render.pNewPatchLocationList;
  }

  /// Waits until the screen shows the picture. A wrong one stays wrong: the text says where.
  std::string look(const Picture& wanted) {
    runtime::Runtime& runtime = runtime::Runtime::current();
    const runtime::TimeNs deadline = runtime.now() + kUntilShown;
    while (true) {
      shown_.reset();
      const bus::ScreenImage image = screen_.image();
      const Picture got = pixels_of(image);
      if (image.width == kWidth && image.height == kHeight && got == wanted) return {};
      if (shown_.wait(deadline) == runtime::WaitResult::kWoken) continue;
      if (image.width != kWidth || image.height != kHeight)
        return "it has " + std::to_string(image.width) + "x" + std::to_string(image.height);
      for (size_t i = 0; i < wanted.size(); ++i) {
        if (got[i] != wanted[i])
          return "pixel " + std::to_string(i % kWidth) + ", " + std::to_string(i / kWidth);
      }
      return "it came too late";
    }
  }

 private:
  bus::DeviceScreen& screen_;
  runtime::Event shown_;
  D3DKMT_HANDLE adapter_ = 0, device_ = 0;
  D3DKMT_CREATECONTEXT context_{};
  ResidentList resident_;
};

void copy(const Picture& from, const Rectangle& where, Picture* to) {
  for (uint32_t y = where.y; y < where.y + where.height; ++y)
    for (uint32_t x = where.x; x < where.x + where.width; ++x)
      (*to)[size_t{y} * kWidth + x] = from[size_t{y} * kWidth + x];
}

void show_everything(dxgk::System& system, dxgk::Luid adapter, bus::DeviceScreen& screen) {
  constexpr Rectangle kAll = {0, 0, kWidth, kHeight};
  Client client(adapter, screen);
  const D3DKMT_HANDLE primaries[] = {client.make_primary(), client.make_primary()};
  for (uint32_t i = 0; i < 2; ++i) client.draw(primaries[i], picture_of(i), kAll);
  client.show_mode(primaries[0]);
  EXPECT_EQ(client.look(picture_of(0)), "") << "the mode's primary";
  client.flip(primaries[1], D3DDDI_FLIPINTERVAL_ONE);
  EXPECT_EQ(client.look(picture_of(1)), "") << "at a vertical sync";
  client.flip(primaries[0], D3DDDI_FLIPINTERVAL_IMMEDIATE);
  EXPECT_EQ(client.look(picture_of(0)), "") << "at once";

  // All of the surface is drawn anew, a part transferred, and a part of that flushed.
  const Rectangle moved = {13, 9, 60, 41}, flushed = {20, 15, 80, 20};
  client.draw(primaries[0], picture_of(2), kAll);
  client.bring(primaries[0], moved, flushed);
  Picture wanted = picture_of(0);
  copy(picture_of(2), {20, 15, 53, 20}, &wanted);  // where both are
  EXPECT_EQ(client.look(wanted), "") << "a part";
  client.bring(primaries[0], {0, 0, 1, 1}, kAll);
  copy(picture_of(2), moved, &wanted);
  copy(picture_of(2), {0, 0, 1, 1}, &wanted);
  EXPECT_EQ(client.look(wanted), "") << "all that was transferred";

  dxgk::Displays displays(system);
  constexpr uint32_t kSide = 24;
  std::vector<uint32_t> shape(size_t{kSide} * kSide, 0xFF20'60C0);
  shape[5] = 0;  // nothing of it is seen
  port::PointerShape pointer;
  pointer.format = port::PointerShape::Format::kColor;
  pointer.width = pointer.height = kSide;
  pointer.pitch_bytes = kSide * 4;
  pointer.pixels = std::as_bytes(std::span(shape));
  EXPECT_EQ(displays.set_pointer_shape(adapter, pointer), Status::kSuccess);
  EXPECT_EQ(displays.set_pointer_position(adapter, 0, 100, 60, true), Status::kSuccess);
  Picture pointed = wanted;
  for (uint32_t y = 60; y < kHeight; ++y)
    for (uint32_t x = 100; x < 100 + kSide; ++x) pointed[size_t{y} * kWidth + x] = 0x2060C0;
  pointed[60 * kWidth + 105] = wanted[60 * kWidth + 105];
  EXPECT_EQ(client.look(pointed), "") << "the pointer";
  EXPECT_EQ(displays.set_pointer_position(adapter, 0, 0, 0, false), Status::kSuccess);
  EXPECT_EQ(client.look(wanted), "") << "no pointer";
}

class VirtioGpuScreen : public ::testing::TestWithParam<std::tuple<const char*, uint64_t>> {};

TEST_P(VirtioGpuScreen, ShowsWhatTheProcessorDraws) {
  const auto& [path, seed] = GetParam();
  const auto runtime = seed != 0 ? runtime::make_sim_runtime(seed) : runtime::make_os_runtime(5);
  runtime->run_main([&] {
    verifier::Findings findings;
    bus::Machine machine(uint64_t{32} << 20);
    bus::DeviceOptions options;
    ASSERT_TRUE(options.add("modes", "130x70+640x480"));
    ASSERT_TRUE(options.add("access-platform", seed % 2 == 0 ? "on" : "off"));
    const auto maker = virtiogpu::device_type().configure(options);
    ASSERT_TRUE(maker.has_value());
    const auto made = (*maker)({*runtime, machine});
    ASSERT_TRUE(made.has_value());
    bus::Device& gpu = **made;
    ASSERT_EQ(bus::plug_in(machine, gpu), Status::kSuccess);
    nt::Kernel kernel(*runtime, machine, findings, {});
    {
      std::string message;
      auto driver = port::Driver::load(
          kernel, findings, {.name = "virtiogpu", .path = path, .entry = nullptr}, &message);
      ASSERT_TRUE(driver.has_value()) << message;
      dxgk::System system(*runtime, machine, kernel, findings);
      const auto adapter = system.start_adapter(**driver, *gpu.functions().front(), {});
      ASSERT_TRUE(adapter.has_value());
      dxgk::Process& process = system.create_process("owner");
      {
        const thunks::ClientScope scope(system, process);
        show_everything(system, *adapter, *gpu.screen());
      }
      system.end_process(process);
      EXPECT_EQ(system.stop_adapter(*adapter), Status::kSuccess);
    }
    for (const verifier::Finding& finding : findings.all()) {
      if (finding.severity != verifier::Severity::kWarning)
        ADD_FAILURE() << finding.rule << ": " << finding.actual;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Drivers, VirtioGpuScreen,
                         ::testing::Combine(::testing::Values(VIRTIOGPU_ELF, VIRTIOGPU_SYS),
                                            ::testing::Values(0, 1, 2, 3, 4, 5, 6, 7)));
INSTANTIATE_TEST_SUITE_P(DriversWddm2, VirtioGpuScreen,
                         ::testing::Combine(::testing::Values(VIRTIOGPU_WDDM2_ELF,
                                                              VIRTIOGPU_WDDM2_SYS),
                                            ::testing::Values(0, 1, 2, 3)));

}  // namespace
}  // namespace dxgkit
