// Messages: what is encoded reads back, and every wrong byte is refused with a sentence.
#include "devices/vfiouser/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace dxgkit::vfiouser {
namespace {

using ::testing::HasSubstr;

template <typename T>
Bytes with(Bytes bytes, size_t at, T value) {
  if (bytes.size() < at + sizeof(value)) bytes.resize(at + sizeof(value));
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return bytes;
}

Bytes shorter(Bytes bytes, size_t by = 1) {
  bytes.resize(bytes.size() - by);
  return bytes;
}

std::array<std::byte, kHeaderBytes> head(uint32_t size, uint32_t flags) {
  return encode(Header{.id = 7, .command = 9, .size_bytes = size, .flags = flags, .error = 0});
}

TEST(VfioUserHeader, ReadsBack) {
  const Header header{.id = 0x1234,
                      .command = 9,
                      .size_bytes = 40,
                      .flags = Header::kReply | Header::kError,
                      .error = 22};
  const auto bytes = encode(header);
  EXPECT_EQ(std::to_integer<int>(bytes[0]), 0x34);  // little-endian, at the offsets of the page
  EXPECT_EQ(std::to_integer<int>(bytes[2]), 9);
  EXPECT_EQ(std::to_integer<int>(bytes[4]), 40);
  EXPECT_EQ(std::to_integer<int>(bytes[8]), 0x21);
  EXPECT_EQ(std::to_integer<int>(bytes[12]), 22);
  EXPECT_EQ(decode_header(bytes), header);
}

TEST(VfioUserHeader, RefusesNonsense) {
  EXPECT_TRUE(decode_header(head(16, 0)).has_value());
  EXPECT_TRUE(decode_header(head(kMessageBytesMost, Header::kNoReply)).has_value());
  EXPECT_THAT(decode_header(head(15, 0)).error(), HasSubstr("a message of 15 bytes"));
  EXPECT_THAT(decode_header(head(0, 0)).error(), HasSubstr("a message of 0 bytes"));
  EXPECT_FALSE(decode_header(head(kMessageBytesMost + 1, 0)).has_value());
  EXPECT_FALSE(decode_header(head(UINT32_MAX, 0)).has_value());
  EXPECT_THAT(decode_header(head(16, 2)).error(), HasSubstr("unknown flags 2"));
  EXPECT_FALSE(decode_header(head(16, 0x40)).has_value());
  EXPECT_THAT(decode_header(head(16, Header::kError)).error(), HasSubstr("says it has failed"));
}

TEST(VfioUserHeader, CommandsHaveNames) {
  EXPECT_EQ(name_of(1), "VERSION");
  EXPECT_EQ(name_of(13), "DEVICE_RESET");
  EXPECT_EQ(name_of(14), "command 14");
  EXPECT_EQ(name_of(0), "command 0");
}

Bytes version_with(const std::string& text) {
  Bytes bytes(4);
  const auto* const begin = reinterpret_cast<const std::byte*>(text.c_str());
  bytes.insert(bytes.end(), begin, begin + text.size() + 1);
  return bytes;
}

TEST(VfioUserVersion, ReadsBack) {
  Version version;
  version.capabilities = {.descriptors_max = 8,
                          .transfer_bytes_max = 4096,
                          .twin_socket = true,
                          .twin_socket_index = 0};
  EXPECT_EQ(decode_version(encode(version)), version);
  version.capabilities.twin_socket = false;
  version.capabilities.twin_socket_index.reset();
  EXPECT_EQ(decode_version(encode(version)), version);
}

TEST(VfioUserVersion, WhatIsNotSaidHasTheDefault) {
  const Version plain;
  EXPECT_EQ(plain.capabilities.descriptors_max, 1U);
  EXPECT_EQ(plain.capabilities.transfer_bytes_max, 1048576U);
  EXPECT_EQ(decode_version(Bytes{std::byte{0}, std::byte{0}, std::byte{1}, std::byte{0}}), plain);
  for (const char* text : {"{}", R"({"capabilities":{}})", R"({"other":[1,{"x":null}]})",
                           R"({"capabilities":{"twin_socket":{"fd_index":3}}})"}) {
    const auto read = decode_version(version_with(text));
    ASSERT_TRUE(read.has_value()) << text;
    EXPECT_EQ(read->capabilities, Capabilities{}) << text;
  }
}

TEST(VfioUserVersion, RefusesNonsense) {
  const std::string deep(2000, '[');
  const std::string rows[] = {"",
                              "null",
                              "[]",
                              "{",
                              deep,
                              R"({"capabilities":[]})",
                              R"({"capabilities":{"max_msg_fds":"8"}})",
                              R"({"capabilities":{"max_msg_fds":-1}})",
                              R"({"capabilities":{"max_msg_fds":1.5}})",
                              R"({"capabilities":{"max_msg_fds":18446744073709551615}})",
                              R"({"capabilities":{"max_data_xfer_size":0}})",
                              R"({"capabilities":{"max_data_xfer_size":4294967296}})",
                              R"({"capabilities":{"twin_socket":true}})",
                              R"({"capabilities":{"twin_socket":{"supported":1}}})",
                              R"({"capabilities":{"twin_socket":{"fd_index":-2}}})"};
  for (const std::string& text : rows)
    EXPECT_FALSE(decode_version(version_with(text)).has_value()) << text;
  EXPECT_THAT(decode_version(Bytes(3)).error(), HasSubstr("VERSION has 3 bytes"));
  EXPECT_THAT(decode_version(shorter(version_with("{}"))).error(), HasSubstr("end with a NUL"));
  EXPECT_THAT(decode_version(version_with(std::string(4096, ' '))).error(), HasSubstr("longer"));
}

TEST(VfioUserDmaMap, ReadsBackAndRefuses) {
  const DmaMap map{.flags = DmaMap::kReadable | DmaMap::kWriteable,
                   .offset = 0x3000,
                   .address = 0x1'0000'0000,
                   .size = 0x2000};
  const Bytes good = encode(map);
  EXPECT_EQ(good.size(), 32U);
  EXPECT_EQ(decode_dma_map(good), map);
  EXPECT_FALSE(decode_dma_map(shorter(good)).has_value());
  EXPECT_FALSE(decode_dma_map({}).has_value());
  EXPECT_FALSE(decode_dma_map(with(good, 0, uint32_t{31})).has_value());
  EXPECT_FALSE(decode_dma_map(with(good, 4, uint32_t{4})).has_value());
  EXPECT_FALSE(decode_dma_map(with(good, 24, uint64_t{0})).has_value());
  EXPECT_FALSE(decode_dma_map(with(good, 24, uint64_t{4097})).has_value());
  EXPECT_FALSE(decode_dma_map(with(good, 16, uint64_t{1})).has_value());
  EXPECT_THAT(decode_dma_map(with(good, 16, ~uint64_t{0xFFF})).error(), HasSubstr("wraps"));
}

TEST(VfioUserDmaUnmap, ReadsBackAndRefuses) {
  const DmaUnmap unmap{.flags = 0, .address = 0x1000, .size = 0x1000};
  const Bytes good = encode(unmap);
  EXPECT_EQ(decode_dma_unmap(good), unmap);
  const DmaUnmap all{.flags = DmaUnmap::kAll, .address = 0, .size = 0};
  EXPECT_EQ(decode_dma_unmap(encode(all)), all);
  EXPECT_FALSE(decode_dma_unmap(shorter(good)).has_value());
  EXPECT_FALSE(decode_dma_unmap(with(good, 0, uint32_t{0})).has_value());
  EXPECT_THAT(decode_dma_unmap(with(good, 4, uint32_t{1})).error(), HasSubstr("migration"));
  EXPECT_FALSE(decode_dma_unmap(with(good, 4, uint32_t{2})).has_value()) << "with a range";
}

TEST(VfioUserQueries, ReadBackAndRefuse) {
  const InfoQuery asked{.room = 4096, .index = 5};
  EXPECT_EQ(encode_device_query(asked).size(), 16U);
  EXPECT_EQ(encode_region_query(asked).size(), 32U);
  EXPECT_EQ(encode_irq_query(asked).size(), 16U);
  EXPECT_EQ(decode_region_query(encode_region_query(asked))->index, 5U);
  EXPECT_EQ(decode_irq_query(encode_irq_query(asked))->room, 4096U);
  EXPECT_FALSE(decode_device_query(shorter(encode_device_query(asked))).has_value());
  EXPECT_FALSE(decode_region_query(shorter(encode_region_query(asked))).has_value());
  EXPECT_FALSE(decode_irq_query(shorter(encode_irq_query(asked))).has_value());
  EXPECT_THAT(decode_device_query(encode_device_query({.room = 15})).error(),
              HasSubstr("needs 16"));
  EXPECT_FALSE(decode_region_query(encode_region_query({.room = 31})).has_value());
}

TEST(VfioUserDeviceInfo, ReadsBackAndRefuses) {
  const DeviceInfo info{.flags = 3, .regions = 9, .irqs = 5};
  EXPECT_EQ(decode_device_info(encode(info)), info);
  EXPECT_FALSE(decode_device_info(shorter(encode(info))).has_value());
}

TEST(VfioUserRegionInfo, ReadsBack) {
  RegionInfo info{.flags = RegionInfo::kRead | RegionInfo::kMmap,
                  .index = 2,
                  .size = 0x10000,
                  .offset = 0x2000,
                  .areas = std::nullopt};
  EXPECT_EQ(encode(info).size(), 32U);
  EXPECT_EQ(decode_region_info(encode(info)), info);
  info.areas = {{0, 0x1000}, {0x8000, 0x8000}};
  const Bytes good = encode(info);
  EXPECT_EQ(good.size(), 80U);
  EXPECT_EQ(decode_region_info(good), info);
  EXPECT_EQ(room_needed(good), 80U);
  // Without room for the areas the reply says how much it would take.
  const Bytes cut = encode(info, 79);
  EXPECT_EQ(cut.size(), 32U);
  EXPECT_EQ(room_needed(cut), 80U);
  EXPECT_FALSE(decode_region_info(cut)->areas.has_value());
  EXPECT_EQ(room_needed({}), 0U);
}

TEST(VfioUserRegionInfo, RefusesNonsense) {
  RegionInfo info{
      .flags = RegionInfo::kRead, .index = 2, .size = 0x10000, .offset = 0, .areas = {}};
  info.areas = {{0, 0x1000}, {0x8000, 0x8000}};
  const Bytes good = encode(info);
  constexpr size_t kCapOffset = 12, kCap = 32, kNext = kCap + 4, kCount = kCap + 8,
                   kArea = kCap + 16;
  EXPECT_FALSE(decode_region_info(ByteView(good).first(31)).has_value());
  EXPECT_THAT(decode_region_info(with(good, kCapOffset, uint32_t{8})).error(),
              HasSubstr("backwards"));
  EXPECT_THAT(decode_region_info(with(good, kCapOffset, uint32_t{80})).error(),
              HasSubstr("outside"));
  EXPECT_FALSE(decode_region_info(with(good, kCapOffset, uint32_t{76})).has_value());
  EXPECT_FALSE(decode_region_info(with(good, kCapOffset, UINT32_MAX)).has_value());
  EXPECT_THAT(decode_region_info(with(good, kNext, uint32_t{32})).error(), HasSubstr("backwards"));
  EXPECT_FALSE(decode_region_info(with(good, kNext, uint32_t{1 << 20})).has_value());
  EXPECT_THAT(decode_region_info(with(good, kCount, uint32_t{3})).error(), HasSubstr("3 areas"));
  EXPECT_FALSE(decode_region_info(with(good, kCount, UINT32_MAX)).has_value());
  EXPECT_FALSE(decode_region_info(with(good, kArea, uint64_t{0xFFFF})).has_value());
  EXPECT_FALSE(decode_region_info(with(good, kArea + 8, UINT64_MAX)).has_value());
  EXPECT_FALSE(decode_region_info(shorter(good)).has_value());
  // A capability of another kind is passed over.
  const auto other = decode_region_info(with(good, kCap, uint16_t{2}));
  ASSERT_TRUE(other.has_value());
  EXPECT_FALSE(other->areas.has_value());
  // A second list of areas.
  Bytes twice = with(good, kNext, uint32_t{80});
  twice.insert(twice.end(), good.begin() + kCap, good.end());
  EXPECT_THAT(decode_region_info(twice).error(), HasSubstr("two lists"));
}

TEST(VfioUserIrqInfo, ReadsBackAndRefuses) {
  const IrqInfo info{.flags = IrqInfo::kEventfd, .index = kIrqMsix, .count = 2048};
  EXPECT_EQ(decode_irq_info(encode(info)), info);
  EXPECT_FALSE(decode_irq_info(shorter(encode(info))).has_value());
  EXPECT_FALSE(decode_irq_info(encode(IrqInfo{.index = kIrqMsix, .count = 2049})).has_value());
  EXPECT_FALSE(decode_irq_info(encode(IrqInfo{.index = kIrqMsi, .count = 33})).has_value());
  EXPECT_FALSE(decode_irq_info(encode(IrqInfo{.index = kIrqIntx, .count = 2})).has_value());
}

TEST(VfioUserSetIrqs, ReadsBackAndRefuses) {
  const SetIrqs eventfds{.flags = SetIrqs::kEventfd | SetIrqs::kTrigger,
                         .index = 1,
                         .start = 2,
                         .count = 3,
                         .chosen = {}};
  EXPECT_EQ(decode_set_irqs(encode(eventfds)), eventfds);
  const SetIrqs chosen{.flags = SetIrqs::kBool | SetIrqs::kMask,
                       .index = 0,
                       .start = 0,
                       .count = 2,
                       .chosen = {1, 0}};
  EXPECT_EQ(decode_set_irqs(encode(chosen)), chosen);
  SetIrqs none{.flags = SetIrqs::kNone | SetIrqs::kTrigger,
               .index = 0,
               .start = 0,
               .count = 0,
               .chosen = {}};
  EXPECT_EQ(decode_set_irqs(encode(none)), none);
  none.start = 1;
  EXPECT_FALSE(decode_set_irqs(encode(none)).has_value());
  none = {
      .flags = SetIrqs::kNone | SetIrqs::kMask, .index = 0, .start = 0, .count = 0, .chosen = {}};
  EXPECT_FALSE(decode_set_irqs(encode(none)).has_value());
  const Bytes good = encode(eventfds);
  EXPECT_FALSE(decode_set_irqs(shorter(good)).has_value());
  EXPECT_FALSE(decode_set_irqs(with(good, 0, uint32_t{19})).has_value());
  EXPECT_FALSE(decode_set_irqs(with(good, 4, uint32_t{64 | 4 | 32})).has_value());
  EXPECT_FALSE(decode_set_irqs(with(good, 4, uint32_t{4})).has_value()) << "no action";
  EXPECT_FALSE(decode_set_irqs(with(good, 4, uint32_t{4 | 8 | 32})).has_value()) << "two actions";
  EXPECT_FALSE(decode_set_irqs(with(good, 4, uint32_t{1 | 4 | 32})).has_value()) << "two kinds";
  EXPECT_THAT(decode_set_irqs(with(good, 12, UINT32_MAX)).error(), HasSubstr("wraps"));
  EXPECT_THAT(decode_set_irqs(shorter(encode(chosen))).error(), HasSubstr("has 1 choices"));
}

TEST(VfioUserAccess, ReadsBackAndRefuses) {
  const RegionAccess access{.offset = 0x88, .region = 0, .count = 4};
  EXPECT_EQ(decode_region_access(encode(access), Data::kAbsent), access);
  EXPECT_EQ(decode_region_access(with(encode(access), 16, uint32_t{1}), Data::kFollow), access);
  EXPECT_FALSE(decode_region_access(encode(access), Data::kFollow).has_value());
  EXPECT_FALSE(
      decode_region_access(with(encode(access), 16, uint32_t{1}), Data::kAbsent).has_value());
  EXPECT_FALSE(
      decode_region_access(with(encode(access), 16, uint64_t{1}), Data::kFollow).has_value());
  EXPECT_FALSE(decode_region_access(shorter(encode(access)), Data::kAbsent).has_value());
  EXPECT_FALSE(decode_region_access(with(encode(access), 12, kTransferBytesMost + 1), Data::kAbsent)
                   .has_value());
  const DmaAccess dma{.address = 0x1'0000'0000, .count = 8};
  EXPECT_EQ(decode_dma_access(encode(dma), Data::kAbsent), dma);
  EXPECT_EQ(decode_dma_access(with(encode(dma), 16, uint64_t{0}), Data::kFollow), dma);
  EXPECT_FALSE(decode_dma_access(encode(dma), Data::kFollow).has_value());
  EXPECT_FALSE(decode_dma_access(with(encode(dma), 8, UINT64_MAX), Data::kAbsent).has_value());
  EXPECT_FALSE(decode_dma_access(shorter(encode(dma)), Data::kAbsent).has_value());
  EXPECT_EQ(decode_dma_write_reply(encode(dma)), dma);
  EXPECT_EQ(decode_dma_write_reply(shorter(encode(dma), 4)), dma);
  EXPECT_FALSE(decode_dma_write_reply(shorter(encode(dma), 5)).has_value());
}

}  // namespace
}  // namespace dxgkit::vfiouser
