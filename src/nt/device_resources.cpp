// RtlCmEncodeMemIoResource and RtlCmDecodeMemIoResource: ranges in the descriptors of
// DxgkDdiStartDevice's resource list.
#include <cstring>

#include "nt/executive.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

constexpr uint8_t kTypePort = 1, kTypeMemory = 3, kTypeMemoryLarge = 7;

/// CM_PARTIAL_RESOURCE_DESCRIPTOR as far as ranges of memory and ports go.
struct RangeDescriptor {
  uint8_t type, share;
  uint16_t flags;
  uint32_t start_low, start_high, length;
};
static_assert(sizeof(RangeDescriptor) == 16);

/// How a large length is kept: which flag says so, and how many low bits are not kept.
struct LargeLength {
  uint16_t flag;
  uint32_t bits;
};
constexpr LargeLength kLarge[] = {{0x0200, 8}, {0x0400, 16}, {0x0800, 32}};
constexpr uint16_t kLargeFlags = 0x0E00;

DXGKIT_NT_ABI int32_t encode(std::byte* descriptor, uint8_t type, uint64_t length, uint64_t start) {
  required("RtlCmEncodeMemIoResource", "Descriptor", descriptor);
  if (type != kTypePort && type != kTypeMemory && type != kTypeMemoryLarge)
    return kInvalidParameter;
  RangeDescriptor range;
  std::memcpy(&range, descriptor, sizeof(range));
  range.flags = static_cast<uint16_t>(range.flags & ~kLargeFlags);
  if (length <= UINT32_MAX) {
    range.type = type == kTypeMemoryLarge ? kTypeMemory : type;
    range.length = static_cast<uint32_t>(length);
  } else {
    if (type == kTypePort) return kUnsuccessful;
    const LargeLength* fits = nullptr;
    for (const LargeLength& large : kLarge) {
      const uint64_t kept = length >> large.bits;
      if (kept <= UINT32_MAX && kept << large.bits == length && fits == nullptr) fits = &large;
    }
    if (fits == nullptr) return kUnsuccessful;
    range.type = kTypeMemoryLarge;
    range.flags = static_cast<uint16_t>(range.flags | fits->flag);
    range.length = static_cast<uint32_t>(length >> fits->bits);
  }
  range.start_low = static_cast<uint32_t>(start);
  range.start_high = static_cast<uint32_t>(start >> 32);
  std::memcpy(descriptor, &range, sizeof(range));
  return kSuccess;
}

DXGKIT_NT_ABI uint64_t decode(const std::byte* descriptor, uint64_t* start) {
  required("RtlCmDecodeMemIoResource", "Descriptor", descriptor);
  RangeDescriptor range;
  std::memcpy(&range, descriptor, sizeof(range));
  if (range.type != kTypePort && range.type != kTypeMemory && range.type != kTypeMemoryLarge) {
    if (start != nullptr) *start = 0;
    return 0;  // no range: an interrupt, for one
  }
  if (start != nullptr) *start = uint64_t{range.start_high} << 32 | range.start_low;
  if (range.type == kTypeMemoryLarge)
    for (const LargeLength& large : kLarge)
      if ((range.flags & large.flag) != 0) return uint64_t{range.length} << large.bits;
  return range.length;
}

}  // namespace

std::span<const Export> device_resource_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("RtlCmDecodeMemIoResource", decode, kSupported, ""),
      DXGKIT_EXPORT("RtlCmEncodeMemIoResource", encode, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
