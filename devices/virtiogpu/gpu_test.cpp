// Each command of the virtio GPU: what it does, and that a wrong one gets its error and changes
// nothing.
#include "devices/virtiogpu/gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "devices/virtio/test_ring.h"
#include "vidpn/edid.h"

namespace dxgkit::virtiogpu {
namespace {

constexpr uint64_t kBase = 0x100000, kAnswer = kBase + 0x8000, kPages = kBase + 0x10000;

struct Rig {
  explicit Rig(GpuConfig config = {}) : gpu(std::move(config)) {}

  /// Sends bytes, and returns the type of the answer; 0: there is none.
  uint32_t send_bytes(uint16_t queue, std::span<const std::byte> bytes, uint32_t room = 2048) {
    memory.write(kBase, bytes);
    memory.store(kAnswer, uint32_t{0});
    virtio::Chain chain;
    chain.readable = {{kBase, static_cast<uint32_t>(bytes.size())}};
    chain.writable = {{kAnswer, room}};
    chain.readable_bytes = bytes.size();
    chain.writable_bytes = room;
    virtio::Request request(memory, chain);
    if (is_refused) {
      gpu.refuse(queue, request);
    } else {
      gpu.execute(queue, request);
    }
    written = request.written();
    uint32_t type = 0;
    memory.load(kAnswer, &type);
    return type;
  }
  template <typename Command>
  uint32_t send(uint32_t type, Command command, uint16_t queue = VGPU_QUEUE_CONTROL) {
    command.header.type = type;
    return send_bytes(queue, std::as_bytes(std::span(&command, 1)));
  }
  template <typename T>
  T answer() {
    T value{};
    memory.load(kAnswer, &value);
    return value;
  }
  uint32_t create(uint32_t id, uint32_t width, uint32_t height, uint32_t format = VGPU_B8G8R8X8) {
    return send(VGPU_RESOURCE_CREATE_2D, VgpuCreate2D{{}, id, format, width, height});
  }
  uint32_t attach(uint32_t id, const std::vector<VgpuEntry>& entries) {
    std::vector<std::byte> bytes(sizeof(VgpuAttach) + entries.size() * sizeof(VgpuEntry));
    const VgpuAttach command{{.type = VGPU_RESOURCE_ATTACH_BACKING,
                              .flags = 0,
                              .fence_id = 0,
                              .context_id = 0,
                              .ring = 0,
                              .padding = {}},
                             id,
                             static_cast<uint32_t>(entries.size())};
    std::memcpy(bytes.data(), &command, sizeof command);
    std::memcpy(bytes.data() + sizeof command, entries.data(), entries.size() * sizeof(VgpuEntry));
    return send_bytes(VGPU_QUEUE_CONTROL, bytes);
  }
  uint32_t transfer(uint32_t id, VgpuRect rect, uint64_t offset) {
    return send(VGPU_TRANSFER_TO_HOST_2D, VgpuTransfer{{}, rect, offset, id, 0});
  }
  uint32_t scanout(uint32_t index, uint32_t id, VgpuRect rect) {
    return send(VGPU_SET_SCANOUT, VgpuSetScanout{{}, rect, index, id});
  }
  uint32_t flush(uint32_t id, VgpuRect rect) {
    return send(VGPU_RESOURCE_FLUSH, VgpuFlush{{}, rect, id, 0});
  }
  uint32_t cursor(VgpuCursor command, bool is_update = true) {
    return send(is_update ? VGPU_UPDATE_CURSOR : VGPU_MOVE_CURSOR, command, VGPU_QUEUE_CURSOR);
  }
  /// Pixel `at` of the pages is 0xFF000000 + value.
  void draw(uint64_t offset, uint32_t value) { memory.store(kPages + offset, 0xFF00'0000 | value); }
  uint32_t pixel(uint32_t x, uint32_t y) {  // red << 16 | green << 8 | blue
    const bus::ScreenImage image = gpu.image();
    if (x >= image.width || y >= image.height) return UINT32_MAX;
    const uint8_t* const at = image.pixels.data() + (uint64_t{y} * image.width + x) * 4;
    EXPECT_EQ(at[3], 0xFF);
    return static_cast<uint32_t>(at[0]) << 16 | static_cast<uint32_t>(at[1]) << 8 | at[2];
  }

  virtio::FlatMemory memory{kBase, 0x40000};
  Gpu gpu;
  uint32_t written = 0;
  bool is_refused = false;  // what is sent from now on
};

TEST(Gpu, SaysWhatScreensThereAre) {
  Rig rig({.scanouts = 2, .modes = {{640, 480}, {800, 600}}});
  std::array<uint32_t, 4> config{};
  rig.gpu.config_read(0, std::as_writable_bytes(std::span(config)));
  EXPECT_THAT(config, ::testing::ElementsAre(0, 0, 2, 0));
  EXPECT_EQ(rig.send(VGPU_GET_DISPLAY_INFO, VgpuResource{}), uint32_t{VGPU_OK_DISPLAY_INFO});
  const auto info = rig.answer<VgpuDisplayInfo>();
  EXPECT_EQ(rig.written, sizeof(VgpuDisplayInfo));
  EXPECT_EQ(info.modes[1].enabled, 1U);
  EXPECT_EQ(info.modes[1].rect.x, 640U);
  EXPECT_EQ(info.modes[0].rect.width, 640U);
  EXPECT_EQ(info.modes[0].rect.height, 480U);
  EXPECT_EQ(info.modes[2].enabled, 0U);
  EXPECT_EQ(rig.send(VGPU_GET_EDID, VgpuGetEdid{{}, 1, 0}), uint32_t{VGPU_OK_EDID});
  const auto edid = rig.answer<VgpuEdid>();
  ASSERT_EQ(edid.size, 128U);
  const auto parsed = vidpn::parse_edid(std::as_bytes(std::span(edid.bytes)).first(edid.size));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->timings[1].width, 800U);
  const std::vector<bus::DeviceMonitor> monitors = rig.gpu.monitors();
  ASSERT_EQ(monitors.size(), 2U);
  EXPECT_TRUE(std::ranges::equal(monitors[1].descriptor,
                                 std::as_bytes(std::span(edid.bytes)).first(edid.size)));
  EXPECT_NE(monitors[0].descriptor, monitors[1].descriptor) << "each has a number of its own";
  EXPECT_THAT(monitors[0].sizes, ::testing::ElementsAre(bus::DeviceMonitor::Size{640, 480},
                                                        bus::DeviceMonitor::Size{800, 600}));
  EXPECT_EQ(rig.send(VGPU_GET_EDID, VgpuGetEdid{{}, 2, 0}), uint32_t{VGPU_ERR_INVALID_PARAMETER});
  EXPECT_EQ(rig.send(VGPU_GET_CAPSET_INFO, VgpuResource{}), uint32_t{VGPU_ERR_INVALID_PARAMETER});
  Rig without({.edid = false});
  EXPECT_EQ(without.gpu.features(), 0U);
  EXPECT_EQ(without.send(VGPU_GET_EDID, VgpuGetEdid{}), uint32_t{VGPU_ERR_UNSPEC});
}

/// From pages that are not in a row to the screen, every pixel; nothing is seen before its flush.
TEST(Gpu, APictureComesToTheScreen) {
  Rig rig;
  constexpr uint32_t kWidth = 40, kHeight = 30;
  ASSERT_EQ(rig.create(1, kWidth, kHeight), uint32_t{VGPU_OK_NODATA});
  // The second page comes before the first in memory, and one is empty.
  ASSERT_EQ(rig.attach(1, {{kPages + 4096, 4096, 0}, {kPages + 50, 0, 0}, {kPages, 4096, 0}}),
            uint32_t{VGPU_OK_NODATA});
  for (uint32_t i = 0; i < kWidth * kHeight; ++i)
    rig.draw(i * 4 < 4096 ? 4096 + i * 4 : i * 4 - 4096, i * 77);
  ASSERT_EQ(rig.scanout(0, 1, {0, 0, kWidth, kHeight}), uint32_t{VGPU_OK_NODATA});
  ASSERT_EQ(rig.transfer(1, {0, 0, kWidth, kHeight}, 0), uint32_t{VGPU_OK_NODATA});
  EXPECT_EQ(rig.pixel(5, 5), 0U);
  ASSERT_EQ(rig.flush(1, {0, 0, kWidth, kHeight}), uint32_t{VGPU_OK_NODATA});
  for (uint32_t y = 0; y < kHeight; ++y)
    for (uint32_t x = 0; x < kWidth; ++x)
      ASSERT_EQ(rig.pixel(x, y), (y * kWidth + x) * 77) << x << "," << y;
  // A part: the rectangle in the resource, its bytes from an offset of the pages.
  rig.draw(0, 0xABCDEF);  // byte 4096 of the backing
  ASSERT_EQ(rig.transfer(1, {7, 3, 1, 1}, 4096), uint32_t{VGPU_OK_NODATA});
  ASSERT_EQ(rig.flush(1, {0, 0, 8, 3}), uint32_t{VGPU_OK_NODATA});  // not that row
  EXPECT_EQ(rig.pixel(7, 3), (3 * kWidth + 7) * 77);
  ASSERT_EQ(rig.flush(1, {7, 3, 1, 1}), uint32_t{VGPU_OK_NODATA});
  EXPECT_EQ(rig.pixel(7, 3), 0xABCDEFU);
  EXPECT_EQ(rig.pixel(8, 3), (3 * kWidth + 8) * 77);
  // A part of the resource on the screen, then nothing.
  ASSERT_EQ(rig.scanout(0, 1, {7, 3, 2, 1}), uint32_t{VGPU_OK_NODATA});
  EXPECT_EQ(rig.gpu.image().width, 2U);
  EXPECT_EQ(rig.pixel(0, 0), 0xABCDEFU);
  ASSERT_EQ(rig.scanout(0, 0, {}), uint32_t{VGPU_OK_NODATA});
  EXPECT_EQ(rig.gpu.image().width, 0U);
}

TEST(Gpu, FormatsAreOrdersOfBytes) {
  const struct {
    uint32_t format;
    std::array<uint8_t, 4> bytes;
  } rows[] = {{VGPU_B8G8R8A8, {3, 2, 1, 9}}, {VGPU_B8G8R8X8, {3, 2, 1, 9}},
              {VGPU_A8R8G8B8, {9, 1, 2, 3}}, {VGPU_X8R8G8B8, {9, 1, 2, 3}},
              {VGPU_R8G8B8A8, {1, 2, 3, 9}}, {VGPU_R8G8B8X8, {1, 2, 3, 9}},
              {VGPU_A8B8G8R8, {9, 3, 2, 1}}, {VGPU_X8B8G8R8, {9, 3, 2, 1}}};
  Rig rig;
  for (const auto& row : rows) {
    ASSERT_EQ(rig.create(row.format, 1, 1, row.format), uint32_t{VGPU_OK_NODATA});
    rig.memory.write(kPages, std::as_bytes(std::span(row.bytes)));
    rig.attach(row.format, {{kPages, 4, 0}});
    rig.transfer(row.format, {0, 0, 1, 1}, 0);
    rig.scanout(0, row.format, {0, 0, 1, 1});
    EXPECT_EQ(rig.pixel(0, 0), 0x010203U) << row.format;
  }
}

TEST(Gpu, AFenceComesBack) {
  Rig rig;
  const VgpuResource command{{.type = 0,
                              .flags = VGPU_FLAG_FENCE,
                              .fence_id = 0x123456789,
                              .context_id = 7,
                              .ring = 0,
                              .padding = {}},
                             0,
                             0};
  EXPECT_EQ(rig.send(VGPU_RESOURCE_UNREF, command), uint32_t{VGPU_ERR_INVALID_RESOURCE_ID});
  EXPECT_EQ(rig.answer<VgpuHeader>().fence_id, 0x123456789U);
  EXPECT_EQ(rig.answer<VgpuHeader>().context_id, 7U);
  EXPECT_EQ(rig.answer<VgpuHeader>().flags, VGPU_FLAG_FENCE);
  EXPECT_EQ(
      rig.send(
          VGPU_RESOURCE_UNREF,
          VgpuResource{
              {.type = 0, .flags = 0, .fence_id = 5, .context_id = 0, .ring = 0, .padding = {}},
              0,
              0}),
      uint32_t{VGPU_ERR_INVALID_RESOURCE_ID});
  EXPECT_EQ(rig.answer<VgpuHeader>().fence_id, 0U);
}

TEST(Gpu, TheCursorIsOnTheScreen) {
  Rig rig;
  rig.create(1, 100, 100);
  rig.scanout(0, 1, {0, 0, 100, 100});
  rig.create(2, VGPU_CURSOR_SIZE, VGPU_CURSOR_SIZE, VGPU_B8G8R8A8);
  rig.attach(2, {{kPages, VGPU_CURSOR_SIZE * VGPU_CURSOR_SIZE * 4, 0}});
  rig.memory.store(kPages, 0xFF102030U);      // opaque
  rig.memory.store(kPages + 4, 0x80402010U);  // half of it, colours multiplied already
  rig.transfer(2, {0, 0, VGPU_CURSOR_SIZE, VGPU_CURSOR_SIZE}, 0);
  EXPECT_EQ(rig.cursor({.header = {},
                        .scanout = 0,
                        .x = 10,
                        .y = 20,
                        .padding = 0,
                        .resource = 2,
                        .hot_x = 1,
                        .hot_y = 1,
                        .padding2 = 0}),
            uint32_t{VGPU_OK_NODATA});
  EXPECT_EQ(rig.pixel(10, 20), 0x102030U);
  EXPECT_EQ(rig.pixel(11, 20), 0x402010U);
  EXPECT_EQ(rig.pixel(12, 20), 0U);
  int told = 0;
  rig.gpu.on_flip([&](const bus::ScreenImage&) { ++told; });
  // A move keeps the picture, also when it names another one, and may leave the screen.
  rig.cursor({.header = {},
              .scanout = 0,
              .x = UINT32_MAX,
              .y = 0,
              .padding = 0,
              .resource = 0,
              .hot_x = 0,
              .hot_y = 0,
              .padding2 = 0},
             false);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(rig.pixel(0, 0), 0x402010U);
  EXPECT_EQ(rig.pixel(10, 20), 0U);
  rig.cursor({.header = {},
              .scanout = 0,
              .x = 0,
              .y = 0,
              .padding = 0,
              .resource = 0,
              .hot_x = 0,
              .hot_y = 0,
              .padding2 = 0});
  EXPECT_EQ(rig.pixel(0, 0), 0U);
  const auto wrong = [&](uint32_t scanout, uint32_t resource) {
    return rig.cursor({.header = {},
                       .scanout = scanout,
                       .x = 0,
                       .y = 0,
                       .padding = 0,
                       .resource = resource,
                       .hot_x = 0,
                       .hot_y = 0,
                       .padding2 = 0});
  };
  EXPECT_EQ(wrong(1, 2), uint32_t{VGPU_ERR_INVALID_SCANOUT_ID});
  EXPECT_EQ(wrong(0, 3), uint32_t{VGPU_ERR_INVALID_RESOURCE_ID});
  EXPECT_EQ(wrong(0, 1), uint32_t{VGPU_ERR_INVALID_PARAMETER});  // another size
}

TEST(Gpu, WrongCommandsChangeNothing) {
  Rig rig({.scanouts = 1, .memory_bytes = 1 << 20, .resources = 2});
  rig.create(1, 64, 64);
  rig.attach(1, {{kPages, 64 * 64 * 4, 0}});
  const uint64_t used = rig.gpu.memory_used();
  const VgpuRect all{0, 0, 64, 64};
  const auto expect = [&](uint32_t got, uint32_t wanted, const char* what) {
    EXPECT_EQ(got, wanted) << what;
    EXPECT_EQ(rig.gpu.resource_count(), 1U) << what;
    EXPECT_EQ(rig.gpu.memory_used(), used) << what;
    EXPECT_EQ(rig.gpu.image().width, 0U) << what;
  };
  expect(rig.create(0, 1, 1), VGPU_ERR_INVALID_RESOURCE_ID, "resource 0");
  expect(rig.create(1, 1, 1), VGPU_ERR_INVALID_RESOURCE_ID, "an id twice");
  expect(rig.create(2, 1, 1, 5), VGPU_ERR_INVALID_PARAMETER, "no format");
  expect(rig.create(2, 0, 1), VGPU_ERR_INVALID_PARAMETER, "no width");
  expect(rig.create(2, 1, 0), VGPU_ERR_INVALID_PARAMETER, "no height");
  expect(rig.create(2, 16385, 1), VGPU_ERR_INVALID_PARAMETER, "too wide");
  expect(rig.create(2, UINT32_MAX, UINT32_MAX), VGPU_ERR_INVALID_PARAMETER, "far too large");
  expect(rig.create(2, 1024, 1024), VGPU_ERR_OUT_OF_MEMORY, "above the limit");
  expect(rig.send(VGPU_RESOURCE_UNREF, VgpuResource{{}, 2, 0}), VGPU_ERR_INVALID_RESOURCE_ID,
         "no such resource");
  expect(rig.attach(1, {{kPages, 4, 0}}), VGPU_ERR_UNSPEC, "attached already");
  expect(rig.attach(2, {{kPages, 4, 0}}), VGPU_ERR_INVALID_RESOURCE_ID, "attach to none");
  expect(rig.send(VGPU_RESOURCE_DETACH_BACKING, VgpuResource{{}, 2, 0}),
         VGPU_ERR_INVALID_RESOURCE_ID, "detach from none");
  expect(rig.transfer(2, all, 0), VGPU_ERR_INVALID_RESOURCE_ID, "transfer to none");
  expect(rig.transfer(1, {1, 0, 64, 64}, 0), VGPU_ERR_INVALID_PARAMETER, "wider than it is");
  expect(rig.transfer(1, {UINT32_MAX, 0, 2, 1}, 0), VGPU_ERR_INVALID_PARAMETER, "it wraps");
  expect(rig.transfer(1, {0, 0, 0, 1}, 0), VGPU_ERR_INVALID_PARAMETER, "empty");
  expect(rig.transfer(1, all, 4), VGPU_ERR_INVALID_PARAMETER, "behind the pages");
  expect(rig.transfer(1, all, UINT64_MAX), VGPU_ERR_INVALID_PARAMETER, "the offset wraps");
  expect(rig.scanout(1, 1, all), VGPU_ERR_INVALID_SCANOUT_ID, "no such scanout");
  expect(rig.scanout(0, 2, all), VGPU_ERR_INVALID_RESOURCE_ID, "a scanout of none");
  expect(rig.scanout(0, 1, {0, 1, 64, 64}), VGPU_ERR_INVALID_PARAMETER, "more than it is");
  expect(rig.flush(2, all), VGPU_ERR_INVALID_RESOURCE_ID, "flush of none");
  expect(rig.flush(1, {0, 0, 65, 1}), VGPU_ERR_INVALID_PARAMETER, "flush of more");
  expect(rig.send(0x0207, VgpuResource{}), VGPU_ERR_UNSPEC, "a command of 3D");
  expect(rig.send(VGPU_UPDATE_CURSOR, VgpuCursor{}), VGPU_ERR_UNSPEC, "on the wrong queue");
  expect(rig.send(VGPU_SET_SCANOUT, VgpuSetScanout{}, VGPU_QUEUE_CURSOR), VGPU_ERR_UNSPEC,
         "on the other wrong queue");
  // Too short for what it says it is.
  for (const int type :
       {VGPU_RESOURCE_CREATE_2D, VGPU_RESOURCE_UNREF, VGPU_SET_SCANOUT, VGPU_RESOURCE_FLUSH,
        VGPU_TRANSFER_TO_HOST_2D, VGPU_RESOURCE_ATTACH_BACKING, VGPU_RESOURCE_DETACH_BACKING,
        VGPU_GET_EDID}) {
    VgpuHeader header = {};
    header.type = static_cast<uint32_t>(type);
    expect(rig.send_bytes(0, std::as_bytes(std::span(&header, 1))), VGPU_ERR_UNSPEC,
           "a header alone");
  }
  // Not even a header, or no room for an answer: nothing is answered.
  const uint32_t type = VGPU_GET_DISPLAY_INFO;
  static_cast<void>(rig.gpu.take_misuses());
  expect(rig.send_bytes(0, std::as_bytes(std::span(&type, 1))), 0, "four bytes");
  EXPECT_THAT(rig.gpu.take_misuses(), ::testing::ElementsAre("a request has no whole header"));
  const VgpuHeader ask = {.type = VGPU_GET_DISPLAY_INFO,
                          .flags = 0,
                          .fence_id = 0,
                          .context_id = 0,
                          .ring = 0,
                          .padding = {}};
  expect(rig.send_bytes(0, std::as_bytes(std::span(&ask, 1)), 100), 0, "an answer of 100 bytes");
  EXPECT_EQ(rig.written, 0U);
  rig.create(2, 1, 1);
  EXPECT_EQ(rig.create(3, 1, 1), uint32_t{VGPU_ERR_OUT_OF_MEMORY}) << "more than the limit";
}

/// Without a descriptor a driver only hears of the first size.
TEST(Gpu, AMonitorWithoutDescriptor) {
  Rig rig({.modes = {{640, 480}, {800, 600}}, .edid = false});
  const std::vector<bus::DeviceMonitor> monitors = rig.gpu.monitors();
  ASSERT_EQ(monitors.size(), 1U);
  EXPECT_TRUE(monitors[0].descriptor.empty());
  EXPECT_THAT(monitors[0].sizes, ::testing::ElementsAre(bus::DeviceMonitor::Size{640, 480}));
}

/// The same with one that is damaged, though it is told.
TEST(Gpu, AMonitorWhoseDescriptorIsDamaged) {
  Rig rig({.modes = {{640, 480}, {800, 600}}, .damage = EdidDamage::kSum});
  const std::vector<bus::DeviceMonitor> monitors = rig.gpu.monitors();
  ASSERT_EQ(monitors.size(), 1U);
  EXPECT_TRUE(monitors[0].descriptor.empty());
  EXPECT_THAT(monitors[0].sizes, ::testing::ElementsAre(bus::DeviceMonitor::Size{640, 480}));
  EXPECT_EQ(rig.send(VGPU_GET_EDID, VgpuGetEdid{}), uint32_t{VGPU_OK_EDID});
  const auto edid = rig.answer<VgpuEdid>();
  EXPECT_FALSE(
      vidpn::parse_edid(std::as_bytes(std::span(edid.bytes)).first(edid.size)).has_value());
}

/// What is lost is answered with an error, and nothing happens. That is no misuse.
TEST(Gpu, RefusesWhatIsLost) {
  Rig rig;
  rig.is_refused = true;
  VgpuCreate2D create{{}, 1, VGPU_B8G8R8X8, 8, 8};
  create.header.flags = VGPU_FLAG_FENCE;
  create.header.fence_id = 7;
  EXPECT_EQ(rig.send(VGPU_RESOURCE_CREATE_2D, create), uint32_t{VGPU_ERR_UNSPEC});
  EXPECT_EQ(rig.answer<VgpuHeader>().fence_id, 7U);
  EXPECT_EQ(rig.answer<VgpuHeader>().flags, uint32_t{VGPU_FLAG_FENCE});
  EXPECT_THAT(rig.gpu.take_misuses(), ::testing::IsEmpty());
  rig.is_refused = false;
  EXPECT_EQ(rig.create(1, 8, 8), uint32_t{VGPU_OK_NODATA}) << "it is not there yet";
}

/// What the specification forbids is told once, and a limit of the device is no misuse.
TEST(Gpu, RefusedCommandsAreMisuse) {
  Rig rig({.memory_bytes = 1 << 20});
  EXPECT_EQ(rig.create(1, 8, 8), uint32_t{VGPU_OK_NODATA});
  EXPECT_EQ(rig.create(2, 4000, 4000), uint32_t{VGPU_ERR_OUT_OF_MEMORY});
  EXPECT_THAT(rig.gpu.take_misuses(), ::testing::IsEmpty());
  EXPECT_EQ(rig.create(1, 8, 8), uint32_t{VGPU_ERR_INVALID_RESOURCE_ID});
  EXPECT_EQ(rig.flush(1, {0, 0, 9, 8}), uint32_t{VGPU_ERR_INVALID_PARAMETER});
  EXPECT_THAT(rig.gpu.take_misuses(),
              ::testing::ElementsAre("command 0x101 is refused with INVALID_RESOURCE_ID",
                                     "command 0x104 is refused with INVALID_PARAMETER"));
  EXPECT_EQ(rig.send(VGPU_TRANSFER_TO_HOST_2D, VgpuFlush{{}, {0, 0, 8, 8}, 1, 0}),
            uint32_t{VGPU_ERR_UNSPEC});
  EXPECT_THAT(rig.gpu.take_misuses(),
              ::testing::ElementsAre("command 0x105 is refused with UNSPEC"));
  EXPECT_THAT(rig.gpu.take_misuses(), ::testing::IsEmpty());
}

/// Nothing is said of a screen that is not enabled, and one may use it all the same.
TEST(Gpu, ScreensThatAreNotEnabledHaveNoSize) {
  Rig rig({.modes = {{640, 480}}, .edid = false, .connected = false});
  EXPECT_EQ(rig.send(VGPU_GET_DISPLAY_INFO, VgpuResource{}), uint32_t{VGPU_OK_DISPLAY_INFO});
  EXPECT_EQ(rig.answer<VgpuDisplayInfo>().modes[0].enabled, 0U);
  const std::vector<bus::DeviceMonitor> monitors = rig.gpu.monitors();
  ASSERT_EQ(monitors.size(), 1U);
  EXPECT_THAT(monitors[0].sizes, ::testing::IsEmpty());
}

TEST(Gpu, BackingIsCheckedWhereItIsUsed) {
  Rig rig({.memory_bytes = 1 << 20});
  rig.create(1, 4, 4);
  EXPECT_EQ(rig.transfer(1, {0, 0, 4, 4}, 0), uint32_t{VGPU_ERR_UNSPEC}) << "nothing is attached";
  // More entries than the command has, or than the limit allows.
  VgpuAttach command = {};
  command.resource = 1;
  command.entries = UINT32_MAX;
  EXPECT_EQ(rig.send(VGPU_RESOURCE_ATTACH_BACKING, command), uint32_t{VGPU_ERR_INVALID_PARAMETER});
  command.entries = 0;
  EXPECT_EQ(rig.send(VGPU_RESOURCE_ATTACH_BACKING, command), uint32_t{VGPU_ERR_UNSPEC});
  EXPECT_EQ(rig.attach(1, {{UINT64_MAX - 1, 4, 0}}), uint32_t{VGPU_ERR_INVALID_PARAMETER});
  EXPECT_EQ(rig.gpu.memory_used(), 64U);
  EXPECT_EQ(rig.attach(1, {{kPages, 32, 0}, {0x10, 32, 0}}), uint32_t{VGPU_OK_NODATA});
  EXPECT_EQ(rig.transfer(1, {0, 0, 4, 2}, 0), uint32_t{VGPU_OK_NODATA});
  EXPECT_EQ(rig.transfer(1, {0, 0, 4, 4}, 0), uint32_t{VGPU_ERR_INVALID_PARAMETER});
  EXPECT_EQ(rig.send(VGPU_RESOURCE_DETACH_BACKING, VgpuResource{{}, 1, 0}),
            uint32_t{VGPU_OK_NODATA});
  EXPECT_EQ(rig.gpu.memory_used(), 64U);
}

/// A resource that goes takes the screen with it; a reset takes everything.
TEST(Gpu, WhatGoesGivesItsMemoryBack) {
  Rig rig;
  rig.create(1, 8, 8);
  rig.attach(1, {{kPages, 256, 0}});
  rig.scanout(0, 1, {0, 0, 8, 8});
  int told = 0;
  rig.gpu.on_flip([&](const bus::ScreenImage& image) { told += image.width == 0 ? 1 : 100; });
  EXPECT_EQ(rig.send(VGPU_RESOURCE_UNREF, VgpuResource{{}, 1, 0}), uint32_t{VGPU_OK_NODATA});
  EXPECT_EQ(told, 1);
  EXPECT_EQ(rig.gpu.memory_used(), 0U);
  EXPECT_EQ(rig.gpu.image().width, 0U);
  rig.create(1, 8, 8);
  rig.scanout(0, 1, {0, 0, 8, 8});
  EXPECT_EQ(told, 101);
  rig.flush(1, {0, 0, 1, 1});
  EXPECT_EQ(told, 201);
  rig.gpu.reset();
  EXPECT_EQ(rig.gpu.memory_used(), 0U);
  EXPECT_EQ(rig.gpu.resource_count(), 0U);
  EXPECT_EQ(rig.gpu.image().width, 0U);
}

TEST(Gpu, ScreensStandSideBySide) {
  Rig rig({.scanouts = 2});
  for (uint32_t id = 1; id <= 2; ++id) {
    rig.create(id, 2, id);
    rig.draw(0, id);
    rig.attach(id, {{kPages, 16, 0}});
    rig.transfer(id, {0, 0, 1, 1}, 0);
    rig.scanout(id - 1, id, {0, 0, 2, id});
  }
  EXPECT_EQ(rig.gpu.image().width, 4U);
  EXPECT_EQ(rig.gpu.image().height, 2U);
  EXPECT_EQ(rig.pixel(0, 0), 1U);
  EXPECT_EQ(rig.pixel(2, 0), 2U);
  EXPECT_EQ(rig.pixel(0, 1), 0U) << "below the smaller one";
}

}  // namespace
}  // namespace dxgkit::virtiogpu
