#include "tools/dxgkit/gl/virgl_stream.h"

#include <optional>

namespace dxgkit::gl {
namespace {

enum : uint32_t {
  kCreateObject = 1,
  kDestroyObject = 3,
  kSetVertexBuffers = 6,
  kDrawVbo = 8,
  kResourceInlineWrite = 9,
  kSetIndexBuffer = 11,
  kBlit = 16,
  kResourceCopyRegion = 17,
  kGetQueryResult = 21,
  kSetUniformBuffer = 27,
  kSetSubContext = 28,
  kDestroySubContext = 30,
  kSetShaderBuffers = 34,
  kSetShaderImages = 35,
  kLaunchGrid = 37,
  kSetAtomicBuffers = 40,
  kGetQueryResultQbo = 42,
  kTransfer3d = 43,
  kCopyTransfer3d = 45,
  kClearTexture = 47,
  kPipeResourceCreate = 48,
  kPipeResourceSetType = 49,
  kGetMemoryInfo = 50,
  kLinkShader = 52,  // the last one that the renderer knows
};
enum : uint32_t {
  kSamplerView = 6,
  kSurface = 8,
  kQuery = 9,
  kStreamoutTarget = 10,
  kMsaaSurface = 11,
};
constexpr uint32_t kToHost = 1, kFromHost = 2;
constexpr uint64_t kToTheEnd = UINT64_MAX;

/// A command as the renderer counts it: index 0 is the header.
using Dwords = std::span<const uint32_t>;

struct Uses {
  Dwords command;
  size_t first;
  StreamFacts& facts;
  /// False: the command is too short. The number 0 names nothing.
  bool add(size_t index, bool written) {
    if (index >= command.size()) return false;
    if (command[index] != 0)
      facts.resources.push_back(
          {.position = first + index, .handle = command[index], .written = written});
    return true;
  }
  /// Elements of `size` dwords each from `begin` on, with a resource at `at` of each.
  bool add_list(size_t begin, size_t size, size_t at, bool written) {
    if (command.size() < begin || (command.size() - begin) % size != 0) return false;
    for (size_t i = begin; i < command.size(); i += size) add(i + at, written);
    return true;
  }
};

/// What a transfer in a stream touches: the far end of its last row at most.
uint64_t transfer_bytes_most(Dwords command) {
  const uint64_t stride = command[4], layer_stride = command[5];
  const uint64_t width = command[9], height = command[10], depth = command[11];
  if (height <= 1 && depth <= 1 && stride == 0 && layer_stride == 0) {
    // A row: a buffer's bytes, or pixels of at most 16 bytes.
    return width * 16;
  }
  if (depth > 1 && layer_stride == 0) return kToTheEnd;
  if (stride == 0) return kToTheEnd;
  return (depth > 1 ? (depth - 1) * layer_stride : 0) + height * stride + width * 16;
}

Decoded<void> too_short(uint32_t code) {
  return wrong("a command " + std::to_string(code) + " of the wrong length");
}

}  // namespace

Decoded<void> StreamReader::read_object(Dwords command, size_t first, StreamFacts& facts) {
  Uses uses{command, first, facts};
  const uint32_t type = command[0] >> 8 & 0xFF;
  bool right = true;
  if (type == kSamplerView) {
    right = uses.add(2, false);
  } else if (type == kSurface || type == kMsaaSurface || type == kStreamoutTarget) {
    right = uses.add(2, true);
  } else if (type == kQuery) {
    right = uses.add(4, true);
    if (right && queries_.size() >= kQueriesMost) return wrong("too many query objects");
    if (right) queries_[{sub_context_, command[1]}] = command[4];
  }
  if (!right) return too_short(kCreateObject);
  return {};
}

Decoded<void> StreamReader::read_command(Dwords command, size_t first, StreamFacts& facts) {
  Uses uses{command, first, facts};
  const uint32_t code = command[0] & 0xFF;
  bool right = true;
  switch (code) {
    case kCreateObject:
      return read_object(command, first, facts);
    case kDestroyObject:
      if (command.size() < 2) return too_short(code);
      queries_.erase({sub_context_, command[1]});
      break;
    case kSetSubContext:
      if (command.size() < 2) return too_short(code);
      sub_context_ = command[1];
      break;
    case kDestroySubContext: {
      if (command.size() < 2) return too_short(code);
      const auto begin = queries_.lower_bound({command[1], 0});
      queries_.erase(begin, queries_.upper_bound({command[1], UINT32_MAX}));
      break;
    }
    case kSetVertexBuffers:
      right = uses.add_list(1, 3, 2, false);
      break;
    case kDrawVbo:
      if (command.size() > 15) right = uses.add(15, false);
      if (right && command.size() > 15) right = uses.add(20, false);
      break;
    case kResourceInlineWrite:
    case kClearTexture:
      right = uses.add(1, true);
      break;
    case kSetIndexBuffer:
      right = uses.add(1, false);
      break;
    case kBlit:
      right = uses.add(4, true);
      if (right) right = uses.add(13, false);
      break;
    case kResourceCopyRegion:
      right = uses.add(1, true);
      if (right) right = uses.add(6, false);
      break;
    case kGetQueryResult: {
      if (command.size() < 2) return too_short(code);
      const auto query = queries_.find({sub_context_, command[1]});
      // The stream that made the query named its resource, this one does not.
      if (query != queries_.end() && query->second != 0)
        facts.memory.push_back({.handle = query->second,
                                .offset = 0,
                                .bytes_most = kToTheEnd,
                                .buffer_bytes = kToTheEnd,
                                .device_writes = true});
      break;
    }
    case kSetUniformBuffer:
      right = uses.add(5, false);
      break;
    case kSetShaderBuffers:
      right = uses.add_list(3, 3, 2, true);
      break;
    case kSetShaderImages:
      right = uses.add_list(3, 5, 4, true);
      break;
    case kLaunchGrid:
      right = uses.add(7, false);
      break;
    case kSetAtomicBuffers:
      right = uses.add_list(2, 3, 2, true);
      break;
    case kGetQueryResultQbo:
      right = uses.add(2, true);
      break;
    case kTransfer3d: {
      if (command.size() < 14) return too_short(code);
      const uint32_t direction = command[13];
      if (direction != kToHost && direction != kFromHost)
        return wrong("a transfer in no direction");
      uses.add(1, direction == kToHost);
      facts.memory.push_back({.handle = command[1],
                              .offset = command[12],
                              .bytes_most = transfer_bytes_most(command),
                              .buffer_bytes = command[9],
                              .device_writes = direction == kFromHost});
      break;
    }
    case kCopyTransfer3d:
      if (command.size() < 15) return too_short(code);
      uses.add(1, true);
      uses.add(12, false);
      facts.memory.push_back({.handle = command[12],
                              .offset = command[13],
                              .bytes_most = kToTheEnd,
                              .buffer_bytes = kToTheEnd,
                              .device_writes = false});
      break;
    case kPipeResourceCreate:
      return wrong("a command that makes a resource: blob resources are not supported");
    case kPipeResourceSetType:
      right = uses.add(1, true);
      break;
    case kGetMemoryInfo:
      right = uses.add(1, true);
      if (right)
        facts.memory.push_back({.handle = command[1],
                                .offset = 0,
                                .bytes_most = kToTheEnd,
                                .buffer_bytes = kToTheEnd,
                                .device_writes = true});
      break;
    default:
      if (code > kLinkShader)
        return wrong("a command " + std::to_string(code) + ", which is unknown");
      break;  // names no resource
  }
  if (!right) return too_short(code);
  return {};
}

Decoded<StreamFacts> StreamReader::read(Dwords stream) {
  StreamFacts facts;
  for (size_t first = 0; first < stream.size();) {
    const size_t dwords = size_t{1} + (stream[first] >> 16);
    if (dwords > stream.size() - first) return wrong("a command that does not end in its stream");
    if (auto done = read_command(stream.subspan(first, dwords), first, facts); !done)
      return std::unexpected(done.error());
    facts.commands.push_back({.first = first, .dwords = dwords});
    first += dwords;
  }
  return facts;
}

}  // namespace dxgkit::gl
