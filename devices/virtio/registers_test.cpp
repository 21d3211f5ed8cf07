// Negotiation and queue set-up as a driver goes through it, and what it may not do.
#include "devices/virtio/registers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "devices/virtio/virtio_hw.h"

namespace dxgkit::virtio {
namespace {

constexpr uint64_t kOffered = uint64_t{1} << VIRTIO_F_VERSION_1 | 1U << VIRTIO_F_EVENT_IDX | 2;
constexpr uint8_t kReady =
    VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER | VIRTIO_STATUS_FEATURES_OK;

struct Rig {
  Registers registers{kOffered, {64, 16}, 3};
  uint64_t read(uint64_t offset, uint32_t bytes) { return registers.read(offset, bytes); }
  Effect write(uint64_t offset, uint32_t bytes, uint64_t value) {
    return registers.write(offset, bytes, value);
  }
  uint8_t status() { return static_cast<uint8_t>(read(VIRTIO_COMMON_STATUS, 1)); }
  void accept(uint64_t features) {
    for (uint32_t half = 0; half < 2; ++half) {
      write(VIRTIO_COMMON_DRIVER_FEATURE_SELECT, 4, half);
      write(VIRTIO_COMMON_DRIVER_FEATURE, 4, features >> (32 * half) & UINT32_MAX);
    }
    write(VIRTIO_COMMON_STATUS, 1, kReady);
  }
};

TEST(Registers, FeaturesAreNegotiated) {
  Rig rig;
  EXPECT_EQ(rig.read(VIRTIO_COMMON_DEVICE_FEATURE, 4), kOffered & UINT32_MAX);
  rig.write(VIRTIO_COMMON_DEVICE_FEATURE_SELECT, 4, 1);
  EXPECT_EQ(rig.read(VIRTIO_COMMON_DEVICE_FEATURE, 4), 1U);
  rig.write(VIRTIO_COMMON_DEVICE_FEATURE_SELECT, 4, 2);
  EXPECT_EQ(rig.read(VIRTIO_COMMON_DEVICE_FEATURE, 4), 0U);
  rig.accept(uint64_t{1} << VIRTIO_F_VERSION_1 | 2);
  EXPECT_EQ(rig.status(), kReady);
  EXPECT_FALSE(rig.registers.queue_features().event_index);
  rig.accept(kOffered);  // too late
  EXPECT_FALSE(rig.registers.queue_features().event_index);
  EXPECT_EQ(rig.write(VIRTIO_COMMON_STATUS, 1, kReady | VIRTIO_STATUS_DRIVER_OK), Effect::kRun);
  EXPECT_TRUE(rig.registers.is_running());
  EXPECT_EQ(rig.write(VIRTIO_COMMON_STATUS, 1, 0), Effect::kReset);
  EXPECT_EQ(rig.status(), 0U);
  EXPECT_FALSE(rig.registers.has(VIRTIO_F_VERSION_1));
}

/// What a driver leaves out of the set-up works here, and is told.
TEST(Registers, StepsThatAreLeftOutAreMisuse) {
  Rig rig;
  rig.write(VIRTIO_COMMON_STATUS, 1, VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER);
  rig.accept(kOffered);
  EXPECT_EQ(rig.write(VIRTIO_COMMON_STATUS, 1, kReady | VIRTIO_STATUS_DRIVER_OK), Effect::kRun);
  EXPECT_THAT(rig.registers.take_misuses(), testing::IsEmpty());
  rig.write(VIRTIO_COMMON_STATUS, 1, 0);
  rig.accept(kOffered);
  EXPECT_EQ(rig.status(), kReady);
  EXPECT_THAT(rig.registers.take_misuses(),
              testing::ElementsAre("FEATURES_OK is set before ACKNOWLEDGE and DRIVER are"));
  EXPECT_THAT(rig.registers.take_misuses(), testing::IsEmpty());
  rig.write(VIRTIO_COMMON_STATUS, 1, 0);
  rig.write(VIRTIO_COMMON_STATUS, 1, VIRTIO_STATUS_DRIVER_OK);
  EXPECT_THAT(rig.registers.take_misuses(),
              testing::ElementsAre("DRIVER_OK is set without FEATURES_OK"));
}

/// A device says no by leaving FEATURES_OK away, and a driver that goes on gets nothing.
TEST(Registers, WhatWasNotOfferedIsRefused) {
  for (const uint64_t features :
       {kOffered | 1, uint64_t{2}, uint64_t{1} << VIRTIO_F_VERSION_1 | uint64_t{1} << 40}) {
    Rig rig;
    rig.accept(features);
    EXPECT_EQ(rig.status() & VIRTIO_STATUS_FEATURES_OK, 0);
    EXPECT_EQ(rig.write(VIRTIO_COMMON_STATUS, 1, kReady | VIRTIO_STATUS_DRIVER_OK), Effect::kNone);
    EXPECT_FALSE(rig.registers.is_running());
  }
}

TEST(Registers, ADriverThatDoesNotTakeThePlatformsAddressesIsRefused) {
  constexpr uint64_t kVersion = uint64_t{1} << VIRTIO_F_VERSION_1,
                     kPlatform = uint64_t{1} << VIRTIO_F_ACCESS_PLATFORM;
  for (const bool takes : {false, true}) {
    Rig rig{.registers = Registers(kOffered | kPlatform, {64, 16}, 3)};
    rig.accept(takes ? kVersion | kPlatform : kVersion);
    const uint8_t agreed = takes ? VIRTIO_STATUS_FEATURES_OK : 0;
    EXPECT_EQ(rig.status() & VIRTIO_STATUS_FEATURES_OK, agreed);
    EXPECT_EQ(rig.write(VIRTIO_COMMON_STATUS, 1, kReady | VIRTIO_STATUS_DRIVER_OK),
              takes ? Effect::kRun : Effect::kNone);
  }
}

TEST(Registers, QueuesAreSetUp) {
  Rig rig;
  EXPECT_EQ(rig.read(VIRTIO_COMMON_QUEUE_COUNT, 2), 2U);
  rig.write(VIRTIO_COMMON_QUEUE_SELECT, 2, 1);
  EXPECT_EQ(rig.read(VIRTIO_COMMON_QUEUE_SIZE, 2), 16U);
  EXPECT_EQ(rig.read(VIRTIO_COMMON_QUEUE_NOTIFY, 2), 1U);
  rig.write(VIRTIO_COMMON_QUEUE_SIZE, 2, 8);
  rig.write(VIRTIO_COMMON_QUEUE_DESC, 4, 0x3000);
  rig.write(VIRTIO_COMMON_QUEUE_DESC + 4, 4, 0x12);
  rig.write(VIRTIO_COMMON_QUEUE_DRIVER, 8, 0x4000);
  rig.write(VIRTIO_COMMON_QUEUE_DEVICE, 4, 0x5000);
  rig.write(VIRTIO_COMMON_QUEUE_VECTOR, 2, 2);
  EXPECT_EQ(rig.write(VIRTIO_COMMON_QUEUE_ENABLE, 2, 1), Effect::kNone);
  const QueueRegisters& queue = rig.registers.queues()[1];
  EXPECT_TRUE(queue.enabled);
  EXPECT_EQ(queue.layout.size, 8U);
  EXPECT_EQ(queue.layout.descriptors, 0x12'0000'3000U);
  EXPECT_EQ(queue.layout.driver, 0x4000U);
  EXPECT_EQ(queue.vector, 2U);
  // An enabled queue stays as it is.
  rig.write(VIRTIO_COMMON_QUEUE_DESC, 4, 0x7000);
  rig.write(VIRTIO_COMMON_QUEUE_SIZE, 2, 4);
  EXPECT_EQ(queue.layout.descriptors, 0x12'0000'3000U);
  EXPECT_EQ(queue.layout.size, 8U);
  rig.write(VIRTIO_COMMON_QUEUE_SELECT, 2, 2);  // there is none
  EXPECT_EQ(rig.read(VIRTIO_COMMON_QUEUE_SIZE, 2), 0U);
  rig.write(VIRTIO_COMMON_STATUS, 1, 0);
  EXPECT_FALSE(queue.enabled);
  EXPECT_EQ(queue.layout.size, 16U);
}

TEST(Registers, AQueueThatCannotBeBreaksTheDevice) {
  Rig rig;
  rig.accept(uint64_t{1} << VIRTIO_F_VERSION_1);
  rig.write(VIRTIO_COMMON_QUEUE_SIZE, 2, 12);
  EXPECT_EQ(rig.write(VIRTIO_COMMON_QUEUE_ENABLE, 2, 1), Effect::kBroken);
  EXPECT_EQ(rig.status(), kReady | VIRTIO_STATUS_NEEDS_RESET);
  EXPECT_EQ(rig.registers.error(), "queue 0: its size of 12 is no power of two of at most 64");
  EXPECT_EQ(rig.write(VIRTIO_COMMON_STATUS, 1, kReady | VIRTIO_STATUS_DRIVER_OK), Effect::kNone);
  EXPECT_FALSE(rig.registers.is_running());
}

TEST(Registers, VectorsThatAreNotThereReadAsNone) {
  Rig rig;
  rig.write(VIRTIO_COMMON_CONFIG_VECTOR, 2, 1);
  EXPECT_EQ(rig.read(VIRTIO_COMMON_CONFIG_VECTOR, 2), 1U);
  rig.write(VIRTIO_COMMON_CONFIG_VECTOR, 2, 3);
  EXPECT_EQ(rig.read(VIRTIO_COMMON_CONFIG_VECTOR, 2), uint64_t{VIRTIO_NO_VECTOR});
}

/// Accesses of other widths and places change nothing.
TEST(Registers, OddAccessesAreIgnored) {
  Rig rig;
  EXPECT_EQ(rig.read(VIRTIO_COMMON_BYTES - 4, 8), UINT64_MAX);
  for (uint64_t offset = 0; offset < 0x1000; ++offset) {
    for (const uint32_t bytes : {1U, 2U, 4U, 8U}) {
      const bool is_half =
          offset >= VIRTIO_COMMON_QUEUE_DESC && offset < VIRTIO_COMMON_BYTES && bytes >= 4;
      const bool is_field =
          (bytes == 1 && offset == VIRTIO_COMMON_STATUS) || is_half ||
          (bytes == 4 && (offset == 0 || offset == 8 || offset == 12)) ||
          (bytes == 2 && (offset == VIRTIO_COMMON_CONFIG_VECTOR ||
                          (offset >= VIRTIO_COMMON_QUEUE_SELECT && offset <= 0x1C)));
      if (is_field) continue;
      EXPECT_EQ(rig.write(offset, bytes, 1), Effect::kNone);
    }
  }
  const Registers fresh(kOffered, {64, 16}, 3);
  for (uint64_t offset = 0; offset < VIRTIO_COMMON_BYTES; ++offset)
    EXPECT_EQ(rig.read(offset, 1), fresh.read(offset, 1)) << offset;
}

}  // namespace
}  // namespace dxgkit::virtio
