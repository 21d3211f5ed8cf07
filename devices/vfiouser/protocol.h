// Messages of the vfio-user protocol, version 0.1: what their bytes mean, and which bytes mean
// nothing. Sources: vfio-user protocol specification (docs/vfio-user.rst of libvfio-user,
// docs/interop/vfio-user.rst of QEMU), and linux/vfio.h for the structures that it takes over.
//
// Every decode function takes bytes from another process. It answers with a value all of whose
// counts and offsets lie inside the message, or with one sentence without a full stop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dxgkit::vfiouser {

using Bytes = std::vector<std::byte>;
using ByteView = std::span<const std::byte>;
template <typename T>
using Decoded = std::expected<T, std::string>;
/// Fails with a sentence.
inline std::unexpected<std::string> wrong(std::string text) {
  return std::unexpected(std::move(text));
}

inline constexpr uint16_t kMajor = 0, kMinor = 1;
inline constexpr size_t kHeaderBytes = 16;
/// Data of one access, beside header and address: what we send and take. The protocol's default.
inline constexpr uint32_t kTransferBytesMost = 1U << 20;
inline constexpr uint32_t kMessageBytesMost = kTransferBytesMost + 4096;
/// Descriptors that we take with one message.
inline constexpr size_t kDescriptorsMost = 16;

enum class Command : uint16_t {
  kVersion = 1,
  kDmaMap = 2,
  kDmaUnmap = 3,
  kDeviceGetInfo = 4,
  kDeviceGetRegionInfo = 5,
  kDeviceGetRegionIoFds = 6,
  kDeviceGetIrqInfo = 7,
  kDeviceSetIrqs = 8,
  kRegionRead = 9,
  kRegionWrite = 10,
  kDmaRead = 11,
  kDmaWrite = 12,
  kDeviceReset = 13,
};
/// "REGION_READ", or "command 99".
std::string name_of(uint16_t command);

/// The 16 bytes before every message.
struct Header {
  static constexpr uint32_t kTypeMask = 0xF, kReply = 0x1, kNoReply = 0x10, kError = 0x20;
  uint16_t id = 0;  // the sender's; a reply has that of its command
  uint16_t command = 0;
  uint32_t size_bytes = kHeaderBytes;  // of the whole message
  uint32_t flags = 0;
  uint32_t error = 0;  // errno, if kError is set; may be 0 even then
  bool is_reply() const { return (flags & kTypeMask) == kReply; }
  bool failed() const { return (flags & kError) != 0; }
  bool operator==(const Header&) const = default;
};
std::array<std::byte, kHeaderBytes> encode(const Header& header);
/// Refuses a size below the header or above kMessageBytesMost, unknown types and flags, and a
/// command that claims an error.
Decoded<Header> decode_header(std::span<const std::byte, kHeaderBytes> bytes);

/// What a side can do, as it says in the JSON text of its VERSION message.
struct Capabilities {
  uint32_t descriptors_max = 1;  // that it takes with one message
  uint32_t transfer_bytes_max = kTransferBytesMost;
  bool twin_socket = false;  // commands of the server go over a socket of their own
  /// Which of the message's descriptors that socket is. In replies with twin_socket only.
  std::optional<uint32_t> twin_socket_index;
  bool operator==(const Capabilities&) const = default;
};
struct Version {
  uint16_t major = kMajor, minor = kMinor;
  Capabilities capabilities = {};
  bool operator==(const Version&) const = default;
};
Bytes encode(const Version& version);
/// Names that are not known are ignored, as the specification wants. Refuses text above 4 KiB, text
/// that is not JSON or not terminated, members of another type, a transfer size of 0, and more than
/// 2^31 of anything.
Decoded<Version> decode_version(ByteView payload);

struct DmaMap {
  static constexpr uint32_t kReadable = 1, kWriteable = 2;
  uint32_t flags = 0;
  uint64_t offset = 0;  // in the descriptor; 0 without one
  uint64_t address = 0, size = 0;
  bool operator==(const DmaMap&) const = default;
};
Bytes encode(const DmaMap& map);
/// Refuses unknown flags, a size of 0 or of part of a page, an address inside a page, and a range
/// that wraps.
Decoded<DmaMap> decode_dma_map(ByteView payload);

struct DmaUnmap {
  static constexpr uint32_t kAll = 2;
  uint32_t flags = 0;
  uint64_t address = 0, size = 0;  // 0 with kAll
  bool operator==(const DmaUnmap&) const = default;
};
Bytes encode(const DmaUnmap& unmap);
/// Refuses every flag but kAll (dirty pages belong to migration), and a range with kAll.
Decoded<DmaUnmap> decode_dma_unmap(ByteView payload);

struct DeviceInfo {
  static constexpr uint32_t kReset = 1, kPci = 2;
  uint32_t flags = 0, regions = 0, irqs = 0;
  bool operator==(const DeviceInfo&) const = default;
};
Bytes encode(const DeviceInfo& info);
Decoded<DeviceInfo> decode_device_info(ByteView payload);

/// Regions of a PCI device.
inline constexpr uint32_t kRegionConfig = 7, kRegionBars = 6, kRegions = 9;

/// Part of a region that can be mapped.
struct Area {
  uint64_t offset = 0, size = 0;  // in the region
  bool operator==(const Area&) const = default;
};
struct RegionInfo {
  static constexpr uint32_t kRead = 1, kWrite = 2, kMmap = 4, kCaps = 8;
  uint32_t flags = 0;  // without kCaps, which `areas` decides
  uint32_t index = 0;
  uint64_t size = 0;
  uint64_t offset = 0;  // in the descriptor that comes with the reply
  /// Set if only parts can be mapped; then these.
  std::optional<std::vector<Area>> areas;
  bool operator==(const RegionInfo&) const = default;
};
/// @param room  the longest payload that the other side takes (argsz of its request). If `areas` do
///              not fit, they are left out, and argsz says how much room they need.
Bytes encode(const RegionInfo& info, uint32_t room = UINT32_MAX);
/// Refuses a list of capabilities that leads outside the message or backwards, more areas than the
/// message holds, and areas outside the region.
Decoded<RegionInfo> decode_region_info(ByteView payload);
/// argsz of a reply: the room that all of it needs. 0 if the payload is too short to say.
uint32_t room_needed(ByteView payload);

/// A request for information of region or irq `index`, and of the device (index 0 there).
struct InfoQuery {
  uint32_t room = 0;  // for the payload of the reply
  uint32_t index = 0;
};
Bytes encode_device_query(const InfoQuery& query);
Bytes encode_region_query(const InfoQuery& query);
Bytes encode_irq_query(const InfoQuery& query);
Decoded<InfoQuery> decode_device_query(ByteView payload);
Decoded<InfoQuery> decode_region_query(ByteView payload);
Decoded<InfoQuery> decode_irq_query(ByteView payload);

/// Types of interrupts of a PCI device.
inline constexpr uint32_t kIrqIntx = 0, kIrqMsi = 1, kIrqMsix = 2, kIrqTypes = 5;

struct IrqInfo {
  static constexpr uint32_t kEventfd = 1, kMaskable = 2, kAutomasked = 4, kNoResize = 8;
  uint32_t flags = 0, index = 0, count = 0;
  bool operator==(const IrqInfo&) const = default;
};
Bytes encode(const IrqInfo& info);
/// Refuses more interrupts than a type has on PCI: 1 INTx, 32 MSI, 2048 MSI-X.
Decoded<IrqInfo> decode_irq_info(ByteView payload);

struct SetIrqs {
  static constexpr uint32_t kNone = 1, kBool = 2, kEventfd = 4, kDataMask = 7;
  static constexpr uint32_t kMask = 8, kUnmask = 16, kTrigger = 32, kActionMask = 56;
  uint32_t flags = 0, index = 0, start = 0, count = 0;
  std::vector<uint8_t> chosen;  // with kBool: one per interrupt
  uint32_t data() const { return flags & kDataMask; }
  uint32_t action() const { return flags & kActionMask; }
  bool operator==(const SetIrqs&) const = default;
};
Bytes encode(const SetIrqs& set);
/// Refuses unknown flags, all but one kind of data and one action, start + count that wraps, a
/// count of 0 that does not disable everything, and another number of booleans than the count.
Decoded<SetIrqs> decode_set_irqs(ByteView payload);

/// REGION_READ, REGION_WRITE. The data follow in what writes and answers to reads.
struct RegionAccess {
  static constexpr size_t kBytes = 16;
  uint64_t offset = 0;
  uint32_t region = 0, count = 0;
  bool operator==(const RegionAccess&) const = default;
};
/// DMA_READ, DMA_WRITE.
struct DmaAccess {
  static constexpr size_t kBytes = 16;
  uint64_t address = 0, count = 0;
  bool operator==(const DmaAccess&) const = default;
};
/// Where the data of an access go in a message.
enum class Data { kAbsent, kFollow };
Bytes encode(const RegionAccess& access);
Bytes encode(const DmaAccess& access);
/// Refuses a count above kTransferBytesMost, and a message with more or fewer bytes than it says.
Decoded<RegionAccess> decode_region_access(ByteView payload, Data data);
/// The same. An answer to DMA_WRITE may end after 12 bytes, with a count of four.
Decoded<DmaAccess> decode_dma_access(ByteView payload, Data data);
Decoded<DmaAccess> decode_dma_write_reply(ByteView payload);

}  // namespace dxgkit::vfiouser
