#include "devices/vfiouser/protocol.h"

#include <bit>
#include <cstring>

#include "base/arithmetic.h"

namespace dxgkit::vfiouser {
namespace {

static_assert(std::endian::native == std::endian::little, "the protocol is little-endian");

constexpr uint32_t kDmaMapBytes = 32, kDmaUnmapBytes = 24, kDeviceInfoBytes = 16;
constexpr uint32_t kRegionInfoBytes = 32, kIrqInfoBytes = 16, kSetIrqsBytes = 20;
// Capabilities of a region: header {id, version, next}, then the areas (linux/vfio.h).
constexpr uint16_t kSparseMmap = 1;
constexpr uint32_t kCapHeaderBytes = 8, kSparseHeaderBytes = 16, kAreaBytes = 16;

template <typename T>
void put(Bytes& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(value));
  std::memcpy(out.data() + at, &value, sizeof(value));
}

/// The caller has checked that it is inside.
template <typename T>
T get(ByteView bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

std::optional<std::string> too_short(const char* what, ByteView payload, size_t least) {
  if (payload.size() >= least) return std::nullopt;
  return std::string(what) + " has " + std::to_string(payload.size()) + " bytes; it needs " +
         std::to_string(least);
}

Bytes query(uint32_t bytes, const InfoQuery& asked, bool has_index) {
  Bytes out;
  put(out, asked.room);
  put(out, uint32_t{0});
  if (has_index) put(out, asked.index);
  out.resize(bytes);
  return out;
}

Decoded<InfoQuery> read_query(const char* what, ByteView payload, uint32_t bytes, bool has_index) {
  if (auto why = too_short(what, payload, bytes)) return wrong(std::move(*why));
  InfoQuery asked{.room = get<uint32_t>(payload, 0), .index = 0};
  if (has_index) asked.index = get<uint32_t>(payload, 8);
  if (asked.room < bytes)
    return wrong(std::string(what) + " has room for " + std::to_string(asked.room) +
                 " bytes of answer; the answer needs " + std::to_string(bytes));
  return asked;
}

/// The areas of a sparse capability at `at`, whose header is inside.
Decoded<std::vector<Area>> read_areas(ByteView payload, size_t at, uint64_t region_size) {
  if (!range_within(at, kSparseHeaderBytes, payload.size()))
    return wrong("the areas of a region end outside the message");
  const auto count = get<uint32_t>(payload, at + kCapHeaderBytes);
  const uint64_t bytes = uint64_t{count} * kAreaBytes;
  if (!range_within(at + kSparseHeaderBytes, bytes, payload.size()))
    return wrong("a region has " + std::to_string(count) + " areas, which end outside the message");
  std::vector<Area> areas(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t where = at + kSparseHeaderBytes + i * kAreaBytes;
    areas[i] = {get<uint64_t>(payload, where), get<uint64_t>(payload, where + 8)};
    if (!range_within(areas[i].offset, areas[i].size, region_size))
      return wrong("an area lies outside its region");
  }
  return areas;
}

std::optional<std::string> wrong_data(const char* what, ByteView payload, size_t head,
                                      uint64_t count, Data data) {
  if (count > kTransferBytesMost)
    return std::string(what) + " is of " + std::to_string(count) + " bytes; at most " +
           std::to_string(kTransferBytesMost) + " may be";
  const uint64_t wanted = data == Data::kFollow ? count : 0;
  if (payload.size() - head == wanted) return std::nullopt;
  return std::string(what) + " of " + std::to_string(count) + " bytes has " +
         std::to_string(payload.size() - head) + " bytes of data";
}

}  // namespace

std::string name_of(uint16_t command) {
  static constexpr const char* kNames[] = {"VERSION",
                                           "DMA_MAP",
                                           "DMA_UNMAP",
                                           "DEVICE_GET_INFO",
                                           "DEVICE_GET_REGION_INFO",
                                           "DEVICE_GET_REGION_IO_FDS",
                                           "DEVICE_GET_IRQ_INFO",
                                           "DEVICE_SET_IRQS",
                                           "REGION_READ",
                                           "REGION_WRITE",
                                           "DMA_READ",
                                           "DMA_WRITE",
                                           "DEVICE_RESET"};
  if (command >= 1 && command <= std::size(kNames)) return kNames[command - 1];
  return "command " + std::to_string(command);
}

// --- header

std::array<std::byte, kHeaderBytes> encode(const Header& header) {
  std::array<std::byte, kHeaderBytes> out;
  std::memcpy(out.data(), &header.id, 2);
  std::memcpy(out.data() + 2, &header.command, 2);
  std::memcpy(out.data() + 4, &header.size_bytes, 4);
  std::memcpy(out.data() + 8, &header.flags, 4);
  std::memcpy(out.data() + 12, &header.error, 4);
  return out;
}

Decoded<Header> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  const Header header{.id = get<uint16_t>(bytes, 0),
                      .command = get<uint16_t>(bytes, 2),
                      .size_bytes = get<uint32_t>(bytes, 4),
                      .flags = get<uint32_t>(bytes, 8),
                      .error = get<uint32_t>(bytes, 12)};
  if (header.size_bytes < kHeaderBytes || header.size_bytes > kMessageBytesMost)
    return wrong("a message of " + std::to_string(header.size_bytes) + " bytes; " +
                 std::to_string(kHeaderBytes) + " to " + std::to_string(kMessageBytesMost) +
                 " may be");
  constexpr uint32_t kKnown = Header::kReply | Header::kNoReply | Header::kError;
  if ((header.flags & ~kKnown) != 0)
    return wrong("a message with the unknown flags " + std::to_string(header.flags & ~kKnown));
  if (!header.is_reply() && header.failed()) return wrong("a command that says it has failed");
  return header;
}

// --- DMA

Bytes encode(const DmaMap& map) {
  Bytes out;
  put(out, kDmaMapBytes);
  put(out, map.flags);
  put(out, map.offset);
  put(out, map.address);
  put(out, map.size);
  return out;
}

Decoded<DmaMap> decode_dma_map(ByteView payload) {
  if (auto why = too_short("DMA_MAP", payload, kDmaMapBytes)) return wrong(std::move(*why));
  const DmaMap map{.flags = get<uint32_t>(payload, 4),
                   .offset = get<uint64_t>(payload, 8),
                   .address = get<uint64_t>(payload, 16),
                   .size = get<uint64_t>(payload, 24)};
  if (get<uint32_t>(payload, 0) < kDmaMapBytes) return wrong("DMA_MAP says that it is shorter");
  if ((map.flags & ~(DmaMap::kReadable | DmaMap::kWriteable)) != 0)
    return wrong("DMA_MAP with unknown flags");
  if (map.size == 0 || map.size % kPageBytes != 0 || map.address % kPageBytes != 0)
    return wrong("DMA_MAP of a range that is not whole pages");
  if (map.size > UINT64_MAX - map.address) return wrong("DMA_MAP of a range that wraps");
  return map;
}

Bytes encode(const DmaUnmap& unmap) {
  Bytes out;
  put(out, kDmaUnmapBytes);
  put(out, unmap.flags);
  put(out, unmap.address);
  put(out, unmap.size);
  return out;
}

Decoded<DmaUnmap> decode_dma_unmap(ByteView payload) {
  if (auto why = too_short("DMA_UNMAP", payload, kDmaUnmapBytes)) return wrong(std::move(*why));
  const DmaUnmap unmap{.flags = get<uint32_t>(payload, 4),
                       .address = get<uint64_t>(payload, 8),
                       .size = get<uint64_t>(payload, 16)};
  if (get<uint32_t>(payload, 0) < kDmaUnmapBytes) return wrong("DMA_UNMAP says that it is shorter");
  if ((unmap.flags & ~DmaUnmap::kAll) != 0) return wrong("DMA_UNMAP with flags of migration");
  if (unmap.flags == DmaUnmap::kAll && (unmap.address != 0 || unmap.size != 0))
    return wrong("DMA_UNMAP of everything, with a range");
  return unmap;
}

// --- device and regions

Bytes encode_device_query(const InfoQuery& asked) { return query(kDeviceInfoBytes, asked, false); }
Bytes encode_region_query(const InfoQuery& asked) { return query(kRegionInfoBytes, asked, true); }
Bytes encode_irq_query(const InfoQuery& asked) { return query(kIrqInfoBytes, asked, true); }
Decoded<InfoQuery> decode_device_query(ByteView payload) {
  return read_query("DEVICE_GET_INFO", payload, kDeviceInfoBytes, false);
}
Decoded<InfoQuery> decode_region_query(ByteView payload) {
  return read_query("DEVICE_GET_REGION_INFO", payload, kRegionInfoBytes, true);
}
Decoded<InfoQuery> decode_irq_query(ByteView payload) {
  return read_query("DEVICE_GET_IRQ_INFO", payload, kIrqInfoBytes, true);
}

Bytes encode(const DeviceInfo& info) {
  Bytes out;
  put(out, kDeviceInfoBytes);
  put(out, info.flags);
  put(out, info.regions);
  put(out, info.irqs);
  return out;
}

Decoded<DeviceInfo> decode_device_info(ByteView payload) {
  if (auto why = too_short("the answer to DEVICE_GET_INFO", payload, kDeviceInfoBytes))
    return wrong(std::move(*why));
  return DeviceInfo{.flags = get<uint32_t>(payload, 4),
                    .regions = get<uint32_t>(payload, 8),
                    .irqs = get<uint32_t>(payload, 12)};
}

Bytes encode(const RegionInfo& info, uint32_t room) {
  const uint64_t all =
      kRegionInfoBytes +
      (info.areas.has_value() ? kSparseHeaderBytes + info.areas->size() * kAreaBytes : 0);
  const bool fits = info.areas.has_value() && all <= room;
  Bytes out;
  put(out, static_cast<uint32_t>(all));
  put(out, info.flags | (fits ? RegionInfo::kCaps : 0));
  put(out, info.index);
  put(out, fits ? kRegionInfoBytes : uint32_t{0});
  put(out, info.size);
  put(out, info.offset);
  if (!fits) return out;
  put(out, kSparseMmap);
  put(out, uint16_t{1});  // version
  put(out, uint32_t{0});  // the last one
  put(out, static_cast<uint32_t>(info.areas->size()));
  put(out, uint32_t{0});
  for (const Area& area : *info.areas) {
    put(out, area.offset);
    put(out, area.size);
  }
  return out;
}

Decoded<RegionInfo> decode_region_info(ByteView payload) {
  if (auto why = too_short("the answer to DEVICE_GET_REGION_INFO", payload, kRegionInfoBytes))
    return wrong(std::move(*why));
  RegionInfo info{.flags = get<uint32_t>(payload, 4),
                  .index = get<uint32_t>(payload, 8),
                  .size = get<uint64_t>(payload, 16),
                  .offset = get<uint64_t>(payload, 24),
                  .areas = std::nullopt};
  const bool has_caps = (info.flags & RegionInfo::kCaps) != 0;
  info.flags &= ~RegionInfo::kCaps;
  size_t at = has_caps ? get<uint32_t>(payload, 12) : 0;
  for (size_t last = 0; at != 0;) {
    if (at <= last || at < kRegionInfoBytes)
      return wrong("the list of a region's capabilities leads backwards");
    if (!range_within(at, kCapHeaderBytes, payload.size()))
      return wrong("the list of a region's capabilities leads outside the message");
    last = at;
    if (get<uint16_t>(payload, at) == kSparseMmap) {
      if (info.areas.has_value()) return wrong("a region has two lists of areas");
      auto areas = read_areas(payload, at, info.size);
      if (!areas.has_value()) return wrong(std::move(areas.error()));
      info.areas = std::move(*areas);
    }
    at = get<uint32_t>(payload, at + 4);
  }
  return info;
}

uint32_t room_needed(ByteView payload) {
  return payload.size() < 4 ? 0 : get<uint32_t>(payload, 0);
}

// --- interrupts

Bytes encode(const IrqInfo& info) {
  Bytes out;
  put(out, kIrqInfoBytes);
  put(out, info.flags);
  put(out, info.index);
  put(out, info.count);
  return out;
}

Decoded<IrqInfo> decode_irq_info(ByteView payload) {
  if (auto why = too_short("the answer to DEVICE_GET_IRQ_INFO", payload, kIrqInfoBytes))
    return wrong(std::move(*why));
  const IrqInfo info{.flags = get<uint32_t>(payload, 4),
                     .index = get<uint32_t>(payload, 8),
                     .count = get<uint32_t>(payload, 12)};
  const uint32_t most = info.index == kIrqIntx ? 1 : info.index == kIrqMsi ? 32 : 2048;
  if (info.count > most)
    return wrong("interrupt type " + std::to_string(info.index) + " has " +
                 std::to_string(info.count) + " interrupts; at most " + std::to_string(most) +
                 " may be");
  return info;
}

Bytes encode(const SetIrqs& set) {
  Bytes out;
  put(out, static_cast<uint32_t>(kSetIrqsBytes + set.chosen.size()));
  put(out, set.flags);
  put(out, set.index);
  put(out, set.start);
  put(out, set.count);
  for (const uint8_t one : set.chosen) put(out, one);
  return out;
}

Decoded<SetIrqs> decode_set_irqs(ByteView payload) {
  if (auto why = too_short("DEVICE_SET_IRQS", payload, kSetIrqsBytes))
    return wrong(std::move(*why));
  SetIrqs set{.flags = get<uint32_t>(payload, 4),
              .index = get<uint32_t>(payload, 8),
              .start = get<uint32_t>(payload, 12),
              .count = get<uint32_t>(payload, 16),
              .chosen = {}};
  if (get<uint32_t>(payload, 0) < kSetIrqsBytes)
    return wrong("DEVICE_SET_IRQS says that it is shorter");
  if ((set.flags & ~(SetIrqs::kDataMask | SetIrqs::kActionMask)) != 0)
    return wrong("DEVICE_SET_IRQS with unknown flags");
  if (!std::has_single_bit(set.data()) || !std::has_single_bit(set.action()))
    return wrong("DEVICE_SET_IRQS needs one kind of data and one action");
  uint32_t end = 0;
  if (!checked_add(set.start, set.count, &end))
    return wrong("DEVICE_SET_IRQS of a range that wraps");
  const bool disables = set.flags == (SetIrqs::kNone | SetIrqs::kTrigger) && set.start == 0;
  if (set.count == 0 && !disables) return wrong("DEVICE_SET_IRQS of no interrupt");
  const ByteView rest = payload.subspan(kSetIrqsBytes);
  if (set.data() != SetIrqs::kBool) return set;
  if (rest.size() != set.count)
    return wrong("DEVICE_SET_IRQS of " + std::to_string(set.count) + " interrupts has " +
                 std::to_string(rest.size()) + " choices");
  for (const std::byte one : rest) set.chosen.push_back(std::to_integer<uint8_t>(one));
  return set;
}

// --- accesses

Bytes encode(const RegionAccess& access) {
  Bytes out;
  put(out, access.offset);
  put(out, access.region);
  put(out, access.count);
  return out;
}
Bytes encode(const DmaAccess& access) {
  Bytes out;
  put(out, access.address);
  put(out, access.count);
  return out;
}

Decoded<RegionAccess> decode_region_access(ByteView payload, Data data) {
  if (auto why = too_short("an access to a region", payload, RegionAccess::kBytes))
    return wrong(std::move(*why));
  const RegionAccess access{.offset = get<uint64_t>(payload, 0),
                            .region = get<uint32_t>(payload, 8),
                            .count = get<uint32_t>(payload, 12)};
  if (auto why =
          wrong_data("an access to a region", payload, RegionAccess::kBytes, access.count, data))
    return wrong(std::move(*why));
  return access;
}

Decoded<DmaAccess> decode_dma_access(ByteView payload, Data data) {
  if (auto why = too_short("an access to memory", payload, DmaAccess::kBytes))
    return wrong(std::move(*why));
  const DmaAccess access{.address = get<uint64_t>(payload, 0), .count = get<uint64_t>(payload, 8)};
  if (auto why = wrong_data("an access to memory", payload, DmaAccess::kBytes, access.count, data))
    return wrong(std::move(*why));
  return access;
}

Decoded<DmaAccess> decode_dma_write_reply(ByteView payload) {
  constexpr size_t kShort = 12;
  if (payload.size() != kShort) return decode_dma_access(payload, Data::kAbsent);
  return DmaAccess{.address = get<uint64_t>(payload, 0), .count = get<uint32_t>(payload, 8)};
}

}  // namespace dxgkit::vfiouser
