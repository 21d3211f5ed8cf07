// The display library our PE drivers link (miniports/kmlib), against a kernel of four functions:
// what it asks for, in which order, and what it does with each answer.
#include <gtest/gtest.h>

#include <cstring>

#include "loader/image.h"

#define KERNEL __attribute__((ms_abi))

namespace dxgkit::loader {
namespace {

/// UNICODE_STRING.
struct Text {
  uint16_t length = 0, capacity = 0;
  const char16_t* units = nullptr;
};

struct World {
  // The kernel's side.
  int32_t open_status = 0;
  uint32_t known_code = 0;  // every other one is an invalid request
  bool pending = false, answers_null = false, has_request = true;
  // The observed calls.
  std::vector<uint32_t> codes;
  std::u16string opened;
  int references = 0, waits = 0, calls = 0;
  const void* data = nullptr;
  // The request on its way.
  void** out = nullptr;
  int32_t* status = nullptr;
};
World* world = nullptr;

constexpr auto kInvalidRequest = static_cast<int32_t>(0xC0000010);
constexpr int32_t kPending = 0x103;

KERNEL int32_t initialize(void*, Text*, const void* data) {
  ++world->calls;
  world->data = data;
  return 0x1234;
}
KERNEL void init_text(Text* text, const char16_t* units) {
  const auto bytes = static_cast<uint16_t>(std::u16string_view(units).size() * 2);
  *text = {bytes, static_cast<uint16_t>(bytes + 2), units};
}
KERNEL int32_t load_driver(const Text*) { return static_cast<int32_t>(0xC000010E); }
KERNEL int32_t open(const Text* name, uint32_t, void** file, void** device) {
  world->opened.assign(name->units, name->length / 2U);
  if (world->open_status != 0) return world->open_status;
  ++world->references;
  *file = *device = world;
  return 0;
}
KERNEL void* build(uint32_t code, void*, void* in, uint32_t in_bytes, void* out, uint32_t out_bytes,
                   uint8_t internal, void*, int32_t* status) {
  EXPECT_EQ(in, nullptr);
  EXPECT_EQ(in_bytes, 0u);
  EXPECT_EQ(out_bytes, 8u);
  EXPECT_EQ(internal, 1u);
  world->codes.push_back(code);
  world->out = static_cast<void**>(out);
  world->status = status;
  return world->has_request ? world : nullptr;
}
KERNEL int32_t call_driver(void*, void*) {
  *world->status = kInvalidRequest;
  if (world->codes.back() == world->known_code) {
    *world->status = 0;
    if (!world->answers_null) *world->out = reinterpret_cast<void*>(&initialize);
  }
  return world->pending ? kPending : *world->status;
}
KERNEL int32_t wait(void*, uint32_t, uint8_t, uint8_t, void*) {
  ++world->waits;
  return 0;
}
KERNEL int64_t dereference(void*) { return --world->references; }
KERNEL void init_event(void* event, uint32_t, uint8_t) { std::memset(event, 0, 24); }

ImportAnswer resolve_kernel(const ImportRequest& request) {
  const std::pair<const char*, const void*> functions[] = {
      {"RtlInitUnicodeString", reinterpret_cast<const void*>(&init_text)},
      {"ZwLoadDriver", reinterpret_cast<const void*>(&load_driver)},
      {"IoGetDeviceObjectPointer", reinterpret_cast<const void*>(&open)},
      {"KeInitializeEvent", reinterpret_cast<const void*>(&init_event)},
      {"IoBuildDeviceIoControlRequest", reinterpret_cast<const void*>(&build)},
      {"IofCallDriver", reinterpret_cast<const void*>(&call_driver)},
      {"KeWaitForSingleObject", reinterpret_cast<const void*>(&wait)},
      {"ObfDereferenceObject", reinterpret_cast<const void*>(&dereference)},
  };
  for (const auto& [name, function] : functions) {
    if (request.name == name) return {function, 0};
  }
  return {};
}

class Displib : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string message;
    const auto file = read_image_file(DISPLIB_DRIVER_SYS, &message);
    ASSERT_TRUE(file.has_value()) << message;
    auto image = load_image(*file, &resolve_kernel, &message);
    ASSERT_TRUE(image.has_value()) << message;
    image_ = std::move(*image);
    world = &world_;
  }
  int32_t call(const Text* path) {
    return reinterpret_cast<KERNEL int32_t (*)(void*, const Text*)>(image_->entry())(&world_, path);
  }
  int32_t initialize_full() {
    const Text path{2, 4, u"x"};
    return call(&path);
  }
  World world_;
  std::unique_ptr<Image> image_;
};

/// The kernel answers with a routine. The library calls it with the driver's data, returns its
/// status, and closes the device.
TEST_F(Displib, CallsWhatTheKernelAnswers) {
  world_.known_code = 0x230047;
  EXPECT_EQ(initialize_full(), 0x1234);
  EXPECT_EQ(world_.codes, (std::vector<uint32_t>{0x230047}));
  EXPECT_EQ(world_.opened, u"\\Device\\DxgKrnl");
  EXPECT_EQ(world_.calls, 1);
  EXPECT_EQ(world_.data, &world_);
  EXPECT_EQ(world_.references, 0);
  EXPECT_EQ(world_.waits, 0);
}

TEST_F(Displib, FallsBackToTheOlderCode) {
  world_.known_code = 0x23003F;
  EXPECT_EQ(initialize_full(), 0x1234);
  EXPECT_EQ(world_.codes, (std::vector<uint32_t>{0x230047, 0x23003F}));
  EXPECT_EQ(world_.references, 0);
}

TEST_F(Displib, HasCodesOfItsOwnForDisplayOnlyAndForTheEnd) {
  const Text empty;
  world_.known_code = 0x230043;
  EXPECT_EQ(call(&empty), 0x1234);
  world_.known_code = 0x23004B;
  EXPECT_EQ(call(nullptr), 0x1234);
  EXPECT_EQ(world_.codes, (std::vector<uint32_t>{0x230043, 0x23004B}));
  EXPECT_EQ(world_.references, 0);
}

TEST_F(Displib, WaitsForAPendingAnswer) {
  world_.known_code = 0x230047;
  world_.pending = true;
  EXPECT_EQ(initialize_full(), 0x1234);
  EXPECT_EQ(world_.waits, 1);
}

/// Whatever fails, nothing is called, the status is the driver's answer and nothing stays open.
TEST_F(Displib, ReturnsWhatFailed) {
  EXPECT_EQ(initialize_full(), kInvalidRequest);
  world_.known_code = 0x230047;
  world_.answers_null = true;
  EXPECT_EQ(initialize_full(), static_cast<int32_t>(0xC0000001));
  world_.has_request = false;
  EXPECT_EQ(initialize_full(), static_cast<int32_t>(0xC000009A));
  world_.open_status = static_cast<int32_t>(0xC0000034);
  EXPECT_EQ(initialize_full(), static_cast<int32_t>(0xC0000034));
  EXPECT_EQ(world_.calls, 0);
  EXPECT_EQ(world_.references, 0);
}

}  // namespace
}  // namespace dxgkit::loader
