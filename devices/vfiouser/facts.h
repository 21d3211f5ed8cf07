// What a server says of its device, checked: regions, interrupts, configuration space.
#pragma once

#include <array>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bus/function.h"
#include "devices/vfiouser/client.h"

namespace dxgkit::vfiouser {

/// Bytes of configuration space that go with one message; every server has to take so many.
inline constexpr uint32_t kConfigChunkBytes = 64;

/// A part of a region that is mapped here. Unmapped at the end.
class Mapping {
 public:
  /// Null if the system refuses. `offset` is in the descriptor; all of it is page multiples.
  static std::unique_ptr<Mapping> create(int fd, uint64_t offset, Area area);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const Area& area() const { return area_; }
  std::byte* bytes() const { return bytes_; }

 private:
  Mapping(Area area, std::byte* bytes) : area_(area), bytes_(bytes) {}
  const Area area_;
  std::byte* const bytes_;
};

/// A base address of the device.
struct RemoteBar {
  bus::BarKind kind = bus::BarKind::kNone;
  bool wide = false;
  uint64_t size = 0;         // on the bus: a power of two
  uint64_t region_size = 0;  // as the server says; what is behind it reads as ones
  bool readable = false, writeable = false;
  Descriptor descriptor;                           // kMemory
  uint64_t offset = 0;                             // of the region in it
  std::vector<std::unique_ptr<Mapping>> mappings;  // kRegisters: parts that need no message
};

enum class IrqKind : uint32_t { kIntx = kIrqIntx, kMsi = kIrqMsi, kMsix = kIrqMsix };

/// Where the control word of a message interrupt capability is in configuration space.
struct MessageControl {
  uint32_t offset = 0;  // of its upper or lower byte with the enable bit; 0: there is none
  uint8_t enable = 0;   // the bit
};

struct Facts {
  bool can_reset = false;
  bus::PciIdentity identity;
  std::array<RemoteBar, kRegionBars> bars;
  uint64_t config_bytes = 0;  // 64 to 4096
  /// How the device interrupts; nullopt: it does not.
  std::optional<IrqKind> irq;
  IrqInfo irq_info;  // of that kind
  MessageControl msi, msix;
  const MessageControl& control(IrqKind kind) const { return kind == IrqKind::kMsi ? msi : msix; }
};

/// Which descriptors of a server are mapped.
enum class MapPolicy {
  kSealed,  // memory objects that cannot shrink: their mappings never fault
  kNone,
};

/// Asks for everything. The error is one sentence without a full stop: what the server refused, or
/// what is wrong with what it says. `wanted`: the kind of interrupt; nullopt: INTx, else MSI-X,
/// else MSI.
std::expected<Facts, std::string> read_facts(Channel& channel, MapPolicy policy,
                                             std::optional<IrqKind> wanted);

/// Reads or writes at most 4096 bytes of a region by one message. A reply to something else ends
/// the connection.
std::expected<void, CallError> read_region(Channel& channel, uint32_t region, uint64_t offset,
                                           std::span<std::byte> out);
std::expected<void, CallError> write_region(Channel& channel, uint32_t region, uint64_t offset,
                                            ByteView in);

}  // namespace dxgkit::vfiouser
