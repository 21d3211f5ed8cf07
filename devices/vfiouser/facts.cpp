#include "devices/vfiouser/facts.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/arithmetic.h"
#include "base/sealed_memory.h"

namespace dxgkit::vfiouser {
namespace {

constexpr uint64_t kRegisterBytesMost = uint64_t{512} << 20;
constexpr uint64_t kMemoryBytesMost = uint64_t{64} << 30;
constexpr uint64_t kPortBytesLeast = 4, kPortBytesMost = 256;
constexpr uint32_t kInfoRoom = 4096;
constexpr uint32_t kHeaderEnd = 64, kListEnd = 256;
constexpr uint64_t kConfigBytesMost = 4096;

// Offsets and bits of configuration space (PCI Local Bus Specification 3.0, 6.1, 6.7, 6.8).
constexpr uint32_t kStatus = 0x06, kHeaderType = 0x0E, kBar0 = 0x10, kCapabilities = 0x34;
constexpr uint8_t kStatusList = 0x10, kHeaderTypeMask = 0x7F;
constexpr uint32_t kBarIo = 1, kBarTypeMask = 6, kBar64 = 4;
constexpr uint8_t kIdMsi = 0x05, kIdMsix = 0x11;

using Config = std::array<std::byte, kListEnd>;

template <typename T>
T at(const Config& config, uint32_t offset) {
  T value;
  std::memcpy(&value, config.data() + offset, sizeof(value));
  return value;
}

/// The payload of a reply, decoded. What cannot be decoded ends the connection.
template <typename T>
std::expected<T, std::string> decoded(Channel& channel, Decoded<T> value) {
  if (value.has_value()) return std::move(*value);
  const std::string why = "the server sent nonsense: " + value.error();
  channel.reject(why);
  return wrong(why);
}

std::unexpected<std::string> nonsense(Channel& channel, const std::string& what) {
  const std::string why = "the server sent nonsense: " + what;
  channel.reject(why);
  return wrong(why);
}

std::expected<DeviceInfo, std::string> ask_device(Channel& channel) {
  const auto reply =
      channel.call(Command::kDeviceGetInfo, {encode_device_query({.room = kInfoRoom})}, {});
  if (!reply.has_value()) return wrong(reply.error().why);
  return decoded(channel, decode_device_info(reply->payload));
}

struct RegionReply {
  RegionInfo info;
  Descriptor descriptor;  // none: it cannot be mapped
};

std::expected<RegionReply, std::string> ask_region(Channel& channel, uint32_t index) {
  for (uint32_t room = kInfoRoom;;) {
    auto reply = channel.call(Command::kDeviceGetRegionInfo,
                              {encode_region_query({.room = room, .index = index})}, {});
    if (!reply.has_value()) return wrong(reply.error().why);
    const uint32_t needed = room_needed(reply->payload);
    if (needed > room && room == kInfoRoom && needed <= kTransferBytesMost) {
      room = needed;
      continue;
    }
    auto info = decoded(channel, decode_region_info(reply->payload));
    if (!info.has_value()) return wrong(info.error());
    if (info->index != index) return nonsense(channel, "it describes another region");
    RegionReply region{.info = std::move(*info), .descriptor = {}};
    if (!reply->descriptors.empty()) region.descriptor = std::move(reply->descriptors.front());
    return region;
  }
}

std::expected<IrqInfo, std::string> ask_irq(Channel& channel, uint32_t index) {
  const auto reply = channel.call(Command::kDeviceGetIrqInfo,
                                  {encode_irq_query({.room = kInfoRoom, .index = index})}, {});
  if (!reply.has_value()) return wrong(reply.error().why);
  auto info = decoded(channel, decode_irq_info(reply->payload));
  if (info.has_value() && info->index != index)
    return nonsense(channel, "it describes another type of interrupt");
  return info;
}

/// True if all of the region can be mapped, at any page of it.
bool maps_whole(const RegionInfo& info) {
  if (info.size % kPageBytes != 0 || info.offset % kPageBytes != 0) return false;
  if (!info.areas.has_value()) return true;
  return info.areas->size() == 1 && info.areas->front() == Area{0, info.size};
}

/// What the driver reaches without a message: all of a memory BAR, or parts of a register BAR.
void map_bar(RegionReply& region, MapPolicy policy, bool next_is_free, RemoteBar& bar) {
  const RegionInfo& info = region.info;
  if (policy == MapPolicy::kNone || !region.descriptor) return;
  if ((info.flags & RegionInfo::kMmap) == 0 || !bar.readable || !bar.writeable) return;
  uint64_t end = 0;
  if (!checked_add(info.offset, info.size, &end)) return;
  if (!seal_memory(region.descriptor.get(), info.offset, info.size)) return;
  // A memory object may refuse writers.
  const bool writes =
      Mapping::create(region.descriptor.get(), info.offset, {0, kPageBytes}) != nullptr;
  if (maps_whole(info) && info.size == bar.size && next_is_free && writes) {
    bar.kind = bus::BarKind::kMemory;
    bar.wide = true;
    bar.offset = info.offset;
    bar.descriptor = std::move(region.descriptor);
    return;
  }
  if (!info.areas.has_value()) return;
  for (const Area& area : *info.areas) {
    if (area.size == 0 || area.size % kPageBytes != 0 || area.offset % kPageBytes != 0) continue;
    if ((info.offset + area.offset) % kPageBytes != 0) continue;
    if (auto mapping = Mapping::create(region.descriptor.get(), info.offset + area.offset, area))
      bar.mappings.push_back(std::move(mapping));
  }
}

std::expected<void, std::string> read_bar(Channel& channel, MapPolicy policy, const Config& config,
                                          std::array<RegionReply, kRegionBars>& regions,
                                          uint32_t slot, RemoteBar& bar) {
  RegionReply& region = regions[slot];
  const uint64_t size = region.info.size;
  const std::string name = "BAR " + std::to_string(slot);
  const auto word = at<uint32_t>(config, kBar0 + slot * 4);
  // No card has more ports than that (PCI Local Bus Specification 3.0, 6.2.5.1). libvfio-user says
  // that regions are ports if its user says nothing.
  const bool is_ports = (word & kBarIo) != 0 && size <= kPortBytesMost;
  const bool wide = (word & (kBarIo | kBarTypeMask)) == kBar64;
  const bool next_is_free = slot + 1 < kRegionBars && regions[slot + 1].info.size == 0;
  if (wide && !next_is_free)
    return nonsense(channel, name + " is 64 bits wide, and there is no room for its second half");
  if (size > kMemoryBytesMost)
    return wrong(name + " of the server has " + std::to_string(size) + " bytes; at most " +
                 std::to_string(kMemoryBytesMost) + " may be");
  bar.region_size = size;
  bar.size = std::bit_ceil(std::max(size, is_ports ? kPortBytesLeast : kPageBytes));
  bar.readable = (region.info.flags & RegionInfo::kRead) != 0;
  bar.writeable = (region.info.flags & RegionInfo::kWrite) != 0;
  bar.wide = wide;
  bar.kind = is_ports ? bus::BarKind::kPorts : bus::BarKind::kRegisters;
  if (!is_ports) map_bar(region, policy, next_is_free, bar);
  const uint64_t most = bar.kind == bus::BarKind::kMemory ? kMemoryBytesMost : kRegisterBytesMost;
  if (bar.size > most)
    return wrong(name + " of the server has " + std::to_string(size) +
                 " bytes that cannot be mapped; at most " + std::to_string(most) + " may be");
  return {};
}

std::expected<void, std::string> read_config(Channel& channel, uint64_t config_bytes,
                                             Config& config) {
  const uint64_t end =
      std::min<uint64_t>(config_bytes, kListEnd) / kConfigChunkBytes * kConfigChunkBytes;
  for (uint64_t begin = 0; begin < end; begin += kConfigChunkBytes) {
    const auto got = read_region(channel, kRegionConfig, begin,
                                 std::span(config).subspan(begin, kConfigChunkBytes));
    if (!got.has_value()) return wrong(got.error().why);
  }
  return {};
}

void find_messages(const Config& config, uint64_t config_bytes, Facts& facts) {
  if ((at<uint8_t>(config, kStatus) & kStatusList) == 0) return;
  uint32_t where = at<uint8_t>(config, kCapabilities) & ~3U;
  // A list that leads in circles ends here: there is room for 48 capabilities.
  for (int i = 0;
       i < 48 && where >= kHeaderEnd && where + 4 <= std::min<uint64_t>(config_bytes, kListEnd);
       ++i) {
    if (at<uint8_t>(config, where) == kIdMsi) facts.msi = {where + 2, 0x01};
    if (at<uint8_t>(config, where) == kIdMsix) facts.msix = {where + 3, 0x80};
    where = at<uint8_t>(config, where + 1) & ~3U;
  }
}

std::expected<void, std::string> choose_irq(Channel& channel, uint32_t types,
                                            std::optional<IrqKind> wanted, Facts& facts) {
  for (const IrqKind kind : {IrqKind::kIntx, IrqKind::kMsix, IrqKind::kMsi}) {
    if (wanted.value_or(kind) != kind || static_cast<uint32_t>(kind) >= types) continue;
    const auto info = ask_irq(channel, static_cast<uint32_t>(kind));
    if (!info.has_value()) return wrong(info.error());
    if (info->count == 0 || (info->flags & IrqInfo::kEventfd) == 0) continue;
    facts.irq = kind;
    facts.irq_info = *info;
    return {};
  }
  if (wanted.has_value()) return wrong("the server has no interrupts of the kind asked for");
  return {};
}

}  // namespace

std::unique_ptr<Mapping> Mapping::create(int fd, uint64_t offset, Area area) {
  void* const bytes =
      mmap(nullptr, area.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (bytes == MAP_FAILED) return nullptr;
  return std::unique_ptr<Mapping>(new Mapping(area, static_cast<std::byte*>(bytes)));
}

Mapping::~Mapping() { munmap(bytes_, area_.size); }

std::expected<Facts, std::string> read_facts(Channel& channel, MapPolicy policy,
                                             std::optional<IrqKind> wanted) {
  Facts facts;
  const auto device = ask_device(channel);
  if (!device.has_value()) return wrong(device.error());
  if ((device->flags & DeviceInfo::kPci) == 0)
    return wrong("the server's device is not a PCI device");
  if (device->regions <= kRegionConfig)
    return nonsense(channel, "a PCI device without configuration space");
  facts.can_reset = (device->flags & DeviceInfo::kReset) != 0;
  auto config_region = ask_region(channel, kRegionConfig);
  if (!config_region.has_value()) return wrong(config_region.error());
  facts.config_bytes = config_region->info.size;
  if (facts.config_bytes < kListEnd || facts.config_bytes > kConfigBytesMost)
    return nonsense(channel, "configuration space of " + std::to_string(facts.config_bytes) +
                                 " bytes; 256 to 4096 may be");
  Config config{};
  if (auto read = read_config(channel, facts.config_bytes, config); !read)
    return wrong(read.error());
  facts.identity = {.vendor_id = at<uint16_t>(config, 0x00),
                    .device_id = at<uint16_t>(config, 0x02),
                    .subsystem_vendor_id = at<uint16_t>(config, 0x2C),
                    .subsystem_id = at<uint16_t>(config, 0x2E),
                    .revision = at<uint8_t>(config, 0x08),
                    .base_class = at<uint8_t>(config, 0x0B),
                    .sub_class = at<uint8_t>(config, 0x0A),
                    .programming_interface = at<uint8_t>(config, 0x09)};
  if (facts.identity.vendor_id == 0xFFFF) return wrong("the server has no device");
  if ((at<uint8_t>(config, kHeaderType) & kHeaderTypeMask) != 0)
    return wrong("the server's device is a bridge");
  std::array<RegionReply, kRegionBars> regions;
  for (uint32_t slot = 0; slot < kRegionBars; ++slot) {
    auto region = ask_region(channel, slot);
    if (!region.has_value()) return wrong(region.error());
    regions[slot] = std::move(*region);
  }
  for (uint32_t slot = 0; slot < kRegionBars; ++slot) {
    if (regions[slot].info.size == 0) continue;
    if (auto bar = read_bar(channel, policy, config, regions, slot, facts.bars[slot]); !bar)
      return wrong(bar.error());
  }
  find_messages(config, facts.config_bytes, facts);
  if (auto chosen = choose_irq(channel, device->irqs, wanted, facts); !chosen)
    return wrong(chosen.error());
  return facts;
}

std::expected<void, CallError> read_region(Channel& channel, uint32_t region, uint64_t offset,
                                           std::span<std::byte> out) {
  const RegionAccess access{
      .offset = offset, .region = region, .count = static_cast<uint32_t>(out.size())};
  const auto reply = channel.call(Command::kRegionRead, {encode(access)}, {});
  if (!reply.has_value()) return std::unexpected(reply.error());
  const auto answer = decode_region_access(reply->payload, Data::kFollow);
  if (!answer.has_value() || *answer != access) {
    const std::string why = "the server sent nonsense: " +
                            (answer.has_value() ? "the answer to another read" : answer.error());
    channel.reject(why);
    return std::unexpected(CallError{.refused = 0, .why = why});
  }
  std::memcpy(out.data(), reply->payload.data() + RegionAccess::kBytes, out.size());
  return {};
}

std::expected<void, CallError> write_region(Channel& channel, uint32_t region, uint64_t offset,
                                            ByteView in) {
  const RegionAccess access{
      .offset = offset, .region = region, .count = static_cast<uint32_t>(in.size())};
  const auto reply = channel.call(Command::kRegionWrite, {encode(access), in}, {});
  if (!reply.has_value()) return std::unexpected(reply.error());
  return {};
}

}  // namespace dxgkit::vfiouser
