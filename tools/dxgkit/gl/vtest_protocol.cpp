#include "tools/dxgkit/gl/vtest_protocol.h"

#include <algorithm>

namespace dxgkit::gl {
namespace {

constexpr uint32_t kSideMost = 1U << 16;
constexpr uint32_t kBufferBytesMost = 1U << 31;
constexpr uint32_t kLevelsMost = 16;
constexpr size_t kNameShown = 64;

constexpr std::array<const char*, 15> kNames = {nullptr,
                                                "GET_CAPS",
                                                "RESOURCE_CREATE",
                                                "RESOURCE_UNREF",
                                                "TRANSFER_GET",
                                                "TRANSFER_PUT",
                                                "SUBMIT_CMD",
                                                "RESOURCE_BUSY_WAIT",
                                                "CREATE_RENDERER",
                                                "GET_CAPS2",
                                                "PING_PROTOCOL_VERSION",
                                                "PROTOCOL_VERSION",
                                                "RESOURCE_CREATE2",
                                                "TRANSFER_GET2",
                                                "TRANSFER_PUT2"};

std::string count_of(uint32_t length) { return std::to_string(length) + " dwords"; }

}  // namespace

std::string name_of(uint32_t command) {
  if (command != 0 && command < kNames.size()) return kNames[command];
  return "command " + std::to_string(command);
}

std::array<uint32_t, kHeaderDwords> encode(const Header& header) {
  return {header.length, header.command};
}

Decoded<size_t> payload_bytes(const Header& header) {
  size_t dwords = 0;
  switch (static_cast<Command>(header.command)) {
    case Command::kGetCaps:
    case Command::kGetCaps2:
    case Command::kPingProtocolVersion:
      break;
    case Command::kResourceUnref:
    case Command::kProtocolVersion:
      dwords = 1;
      break;
    case Command::kResourceBusyWait:
      dwords = BusyWait::kDwords;
      break;
    case Command::kResourceCreate2:
      dwords = ResourceDescription::kDwords;
      break;
    case Command::kTransferGet2:
      dwords = Transfer::kDwords;
      break;
    case Command::kTransferPut2:
      // Mesa counts the pixels, too, which are in shared memory and do not follow.
      if (header.length < Transfer::kDwords)
        return wrong(name_of(header.command) + " with " + count_of(header.length));
      return Transfer::kDwords * kDwordBytes;
    case Command::kSubmitCmd:
      if (header.length > kStreamDwordsMost)
        return wrong("a command stream of " + count_of(header.length) + ", more than " +
                     std::to_string(kStreamDwordsMost));
      return size_t{header.length} * kDwordBytes;
    case Command::kCreateRenderer:
      if (header.length > kNameBytesMost)
        return wrong("a name of " + std::to_string(header.length) + " bytes, more than " +
                     std::to_string(kNameBytesMost));
      return header.length;
    case Command::kResourceCreate:
    case Command::kTransferGet:
    case Command::kTransferPut:
      return wrong(name_of(header.command) +
                   ", which belongs to version 0 of the protocol: resources without shared memory "
                   "are not supported");
    default:
      return wrong(name_of(header.command) + ", which is unknown");
  }
  if (header.length != dwords)
    return wrong(name_of(header.command) + " with " + count_of(header.length) + " instead of " +
                 std::to_string(dwords));
  return dwords * kDwordBytes;
}

std::array<uint32_t, ResourceDescription::kDwords> encode(const ResourceDescription& resource) {
  return {resource.handle,     resource.target,  resource.format,    resource.bind,
          resource.width,      resource.height,  resource.depth,     resource.array_size,
          resource.last_level, resource.samples, resource.data_bytes};
}

Decoded<ResourceDescription> decode_resource(std::span<const uint32_t> payload) {
  if (payload.size() != ResourceDescription::kDwords) return wrong("a resource of another length");
  const ResourceDescription resource{.handle = payload[0],
                                     .target = payload[1],
                                     .format = payload[2],
                                     .bind = payload[3],
                                     .width = payload[4],
                                     .height = payload[5],
                                     .depth = payload[6],
                                     .array_size = payload[7],
                                     .last_level = payload[8],
                                     .samples = payload[9],
                                     .data_bytes = payload[10]};
  if (resource.handle == 0) return wrong("a resource with the number 0");
  const uint32_t width_most =
      resource.target == ResourceDescription::kTargetBuffer ? kBufferBytesMost : kSideMost;
  if (resource.width == 0 || resource.width > width_most || resource.height == 0 ||
      resource.height > kSideMost || resource.depth == 0 || resource.depth > kSideMost ||
      resource.array_size > kSideMost)
    return wrong("a resource of an impossible size: " + std::to_string(resource.width) + "x" +
                 std::to_string(resource.height) + "x" + std::to_string(resource.depth) + " of " +
                 std::to_string(resource.array_size));
  if (resource.last_level >= kLevelsMost)
    return wrong("a resource of " + std::to_string(resource.last_level) +
                 " levels below the first");
  if (resource.data_bytes > kBufferBytesMost) return wrong("a resource of more than 2 GiB");
  return resource;
}

std::array<uint32_t, Transfer::kDwords> encode(const Transfer& transfer) {
  return {transfer.handle,     transfer.level,     transfer.box.x,      transfer.box.y,
          transfer.box.z,      transfer.box.width, transfer.box.height, transfer.box.depth,
          transfer.data_bytes, transfer.offset};
}

Decoded<Transfer> decode_transfer(std::span<const uint32_t> payload) {
  if (payload.size() != Transfer::kDwords) return wrong("a transfer of another length");
  const Transfer transfer{.handle = payload[0],
                          .level = payload[1],
                          .box = {.x = payload[2],
                                  .y = payload[3],
                                  .z = payload[4],
                                  .width = payload[5],
                                  .height = payload[6],
                                  .depth = payload[7]},
                          .data_bytes = payload[8],
                          .offset = payload[9]};
  const Box& box = transfer.box;
  if (box.width == 0 || box.height == 0 || box.depth == 0) return wrong("a transfer of nothing");
  if (box.x > UINT32_MAX - box.width || box.y > UINT32_MAX - box.height ||
      box.z > UINT32_MAX - box.depth)
    return wrong("a transfer of an impossible box");
  return transfer;
}

std::array<uint32_t, BusyWait::kDwords> encode(const BusyWait& wait) {
  return {wait.handle, wait.flags};
}

Decoded<BusyWait> decode_busy_wait(std::span<const uint32_t> payload) {
  if (payload.size() != BusyWait::kDwords) return wrong("a wait of another length");
  const BusyWait wait{.handle = payload[0], .flags = payload[1]};
  if ((wait.flags & ~BusyWait::kWait) != 0)
    return wrong("a wait with unknown flags " + std::to_string(wait.flags));
  return wait;
}

std::string decode_name(std::span<const std::byte> payload) {
  std::string name;
  for (const std::byte one : payload) {
    const char character = static_cast<char>(one);
    if (character == 0 || name.size() == kNameShown) break;
    name += character >= ' ' && character <= '~' ? character : '?';
  }
  return name;
}

}  // namespace dxgkit::gl
