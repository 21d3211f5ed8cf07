// Messages of the vtest protocol, version 2: what GL programs with Mesa's virpipe driver send.
//
// A message is a header of two dwords, the length of the payload and the command, and the payload.
// Source: the facts of vtest/vtest_protocol.h in virglrenderer 0.10, and what Mesa 22.3 sends.
//
// Every decode function takes bytes from another process. It answers with a value that is sane by
// itself, or with one sentence without a full stop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>

namespace dxgkit::gl {

template <typename T>
using Decoded = std::expected<T, std::string>;
/// Fails with a sentence.
inline std::unexpected<std::string> wrong(std::string text) {
  return std::unexpected(std::move(text));
}

/// The version that we speak. In older ones a resource has no shared memory.
inline constexpr uint32_t kVersion = 2;
inline constexpr size_t kDwordBytes = 4;
inline constexpr size_t kHeaderDwords = 2;
/// Dwords of one command stream. Mesa's buffer has 2^16.
inline constexpr uint32_t kStreamDwordsMost = 1U << 20;
/// Bytes of the name that a program gives itself, with the zero at its end.
inline constexpr uint32_t kNameBytesMost = 4096;

enum class Command : uint32_t {
  kGetCaps = 1,
  kResourceCreate = 2,  // version 0
  kResourceUnref = 3,
  kTransferGet = 4,  // version 0
  kTransferPut = 5,  // version 0
  kSubmitCmd = 6,
  kResourceBusyWait = 7,
  kCreateRenderer = 8,
  kGetCaps2 = 9,
  kPingProtocolVersion = 10,
  kProtocolVersion = 11,
  kResourceCreate2 = 12,
  kTransferGet2 = 13,
  kTransferPut2 = 14,
};
/// "SUBMIT_CMD", or "command 99".
std::string name_of(uint32_t command);

struct Header {
  uint32_t length = 0;  // of the payload: dwords, and bytes for CREATE_RENDERER
  uint32_t command = 0;
  bool operator==(const Header&) const = default;
};
std::array<uint32_t, kHeaderDwords> encode(const Header& header);

/// The bytes of payload that follow a header. Refuses commands that are unknown or of another
/// version, and lengths that their payload cannot have.
Decoded<size_t> payload_bytes(const Header& header);

/// RESOURCE_CREATE2. Formats, targets and flags are the renderer's numbers.
struct ResourceDescription {
  static constexpr uint32_t kTargetBuffer = 0;
  static constexpr size_t kDwords = 11;
  uint32_t handle = 0;  // the program's number, not 0
  uint32_t target = 0, format = 0, bind = 0;
  uint32_t width = 0, height = 0, depth = 0;  // bytes and 1, 1 for a buffer
  uint32_t array_size = 0;                    // Mesa sends 0 for small buffers
  uint32_t last_level = 0, samples = 0;
  uint32_t data_bytes = 0;  // of the shared memory; 0: there is none
  bool operator==(const ResourceDescription&) const = default;
};
std::array<uint32_t, ResourceDescription::kDwords> encode(const ResourceDescription& resource);
/// Refuses the handle 0, sizes of 0 or above 2^16 (of a buffer: 2^31), and more than 16 levels.
Decoded<ResourceDescription> decode_resource(std::span<const uint32_t> payload);

struct Box {
  uint32_t x = 0, y = 0, z = 0, width = 0, height = 0, depth = 0;
  bool operator==(const Box&) const = default;
};

/// TRANSFER_GET2 and TRANSFER_PUT2.
struct Transfer {
  static constexpr size_t kDwords = 10;
  uint32_t handle = 0, level = 0;
  Box box;
  uint32_t data_bytes = 0;  // that the box has without gaps
  uint32_t offset = 0;      // in the shared memory
  bool operator==(const Transfer&) const = default;
};
std::array<uint32_t, Transfer::kDwords> encode(const Transfer& transfer);
/// Refuses an empty box, and one whose far corner is not a number of 32 bits.
Decoded<Transfer> decode_transfer(std::span<const uint32_t> payload);

/// RESOURCE_BUSY_WAIT.
struct BusyWait {
  static constexpr size_t kDwords = 2;
  static constexpr uint32_t kWait = 1;
  uint32_t handle = 0;  // 0: no resource
  uint32_t flags = 0;
  bool operator==(const BusyWait&) const = default;
};
std::array<uint32_t, BusyWait::kDwords> encode(const BusyWait& wait);
/// Refuses unknown flags.
Decoded<BusyWait> decode_busy_wait(std::span<const uint32_t> payload);

/// The text that a program sends with CREATE_RENDERER, with only printable characters, at most 64.
std::string decode_name(std::span<const std::byte> payload);

}  // namespace dxgkit::gl
