// One PCI function as its device describes it: identity, configuration space, BARs, interrupt line.
// A device model needs this file and nothing of the machine that it is plugged into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"

namespace dxgkit::bus {

/// A byte address on the bus: system memory, or a window (BAR) of a device.
using PhysicalAddress = StrongId<struct PhysicalAddressTag, uint64_t>;

/// A run of bytes in a memory object (memfd) that can be mapped elsewhere. CPU views use it to
/// follow content that moves.
struct MemoryWindow {
  int fd = -1;
  uint64_t offset = 0;
  uint64_t size = 0;
};

/// Registers of a device, in memory or in I/O space. Called on the thread of the CPU that touches
/// the register; any thread.
class MmioHandler {
 public:
  virtual ~MmioHandler() = default;
  virtual uint64_t mmio_read(uint64_t offset, uint32_t size_bytes) = 0;
  virtual void mmio_write(uint64_t offset, uint32_t size_bytes, uint64_t value) = 0;
};

/// A level-style interrupt line between one device and one connected handler.
class InterruptLine {
 public:
  /// `service` is called by raise() on the raising thread; it returns true if it claimed the
  /// interrupt. Lines are serialised by their own lock: two raises never run the handler twice at
  /// once. The handler must neither raise nor connect on its own line: it would wait for itself.
  using Service = std::function<bool()>;
  /// Connects a handler; there is one at a time, and a new one replaces the one before. An empty
  /// Service disconnects. Waits for a running handler.
  void connect(Service service);
  bool connected() const;
  /// Raises the line. Device side, any device thread. Returns the handler's answer, or false if no
  /// handler is connected.
  bool raise();
  InterruptLine();
  ~InterruptLine();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

enum class BarKind {
  kNone,
  kRegisters,  // memory space, no memory behind it: every access calls the handler
  kMemory,     // memory space, 64 bits wide, prefetchable: mapped from the device's memory object
  kPorts,      // I/O space: every access calls the handler
};
struct Bar {
  BarKind kind = BarKind::kNone;
  PhysicalAddress base;  // assigned by Machine::add_function, naturally aligned; a port for kPorts
  uint64_t size = 0;     // a power of two: at least a page; 4 to 256 for kPorts
  MmioHandler* registers = nullptr;  // kRegisters, kPorts; must outlive the function
  MemoryWindow memory;               // kMemory; owned by the device
  /// kRegisters: configuration space says 64 bits, and the next slot is the upper half. The address
  /// is below 4 GiB all the same, as firmware may choose.
  bool wide = false;
};

struct PciIdentity {
  uint16_t vendor_id = 0, device_id = 0, subsystem_vendor_id = 0, subsystem_id = 0;
  uint8_t revision = 0, base_class = 0x03, sub_class = 0x02;  // display, 3D controller
  uint8_t programming_interface = 0;
};

/// One capability in the list of configuration space, behind the 64 bytes of the header.
struct PciCapability {
  uint8_t id = 0;
  /// The bytes after id and next pointer, from offset 2 of the capability on. All capabilities of a
  /// function together fit into 192 bytes, each rounded up to 4.
  std::vector<std::byte> body;
  /// Bits of the body that software may change; bytes behind its end are read-only.
  std::vector<std::byte> writable;
};

/// Message interrupts as configuration space describes them. This kernel connects INTx only. It
/// never enables messages, and the enable bit cannot be set from outside either. So a driver sees
/// the capability and gets INTx, as on a machine whose INF does not ask for messages.
/// @param messages  1, 2, 4, 8, 16 or 32 that the device could send
PciCapability msi_capability(uint32_t messages);
/// The same for MSI-X. @param messages  1..2048  @param table_bar, pending_bar  slots of register
/// or memory BARs that hold the table and the pending bits at these offsets, multiples of 8
PciCapability msix_capability(uint32_t messages, uint32_t table_bar, uint32_t table_offset,
                              uint32_t pending_bar, uint32_t pending_offset);
/// Advanced Features with function level reset: a driver that writes 1 to bit 0 of byte 4 of the
/// capability resets the function (PciFunction::on_reset).
PciCapability reset_capability();

/// The frame buffer that firmware, or the previous driver, left on a display function: linear, in
/// one of its memory BARs. Four bytes per pixel: blue, green, red, unused.
struct PostDisplay {
  uint32_t bar = 0;                 // slot of a kMemory BAR
  uint64_t offset_bytes = 0;        // of the first pixel in that BAR
  uint32_t width = 0, height = 0;   // pixels; 0: the screen shows nothing
  uint32_t pitch_bytes = 0;         // from row to row, at least width * 4
  uint32_t target_id = UINT32_MAX;  // as named by the driver that released the display
  bool operator==(const PostDisplay&) const = default;
};

/// Configuration space that is answered elsewhere, such as by a device in another process. Any
/// thread; several calls at once. No lock of the function is held.
class ConfigHandler {
 public:
  virtual ~ConfigHandler() = default;
  /// Fills `out` with the bytes from `offset` on. All of them are inside the 4096 bytes.
  virtual void config_read(uint32_t offset, std::span<std::byte> out) = 0;
  virtual void config_write(uint32_t offset, std::span<const std::byte> in) = 0;
};

/// The power that the platform gives a function: full power, or what a standby or a hibernated
/// machine keeps alive.
enum class FunctionPower { kOn, kStandby, kHibernate };

/// One PCI function: identity, config space, up to six BARs, one interrupt line.
class PciFunction {
 public:
  /// At most six BARs, by slot. A kMemory BAR, and a wide kRegisters one, take the next slot too
  /// (kNone there). Capabilities are listed in this order; more than fit are our bug and abort.
  PciFunction(PciIdentity identity, std::vector<Bar> bars,
              std::vector<PciCapability> capabilities = {});
  ~PciFunction();
  const PciIdentity& identity() const;
  std::span<const Bar> bars() const;
  InterruptLine& interrupt_line();
  /// The display that the machine came up with, if it is on this function. Any thread.
  std::optional<PostDisplay> post_display() const;
  /// The same for an observer, whose look must not change a simulation: it is no scheduling point.
  std::optional<PostDisplay> peek_post_display() const;
  /// Sets or removes the post display. The owner of the screen keeps it true. Not checked here.
  void set_post_display(std::optional<PostDisplay> display);
  /// False from Machine::pull_out on. Any thread.
  bool present() const;
  /// The bus driver's side of a power transition: changes the power of the function. Calls the
  /// device's handler on the caller's thread.
  void set_power(FunctionPower power);
  /// The device's handler of power changes. Set before the function is plugged in.
  void on_power(std::function<void(FunctionPower)> handler);
  /// The device's handler of a function level reset. Software asks for the reset in configuration
  /// space; the handler is called on its thread. Set before the function is plugged in.
  /// Configuration space and addresses stay as they are.
  void on_reset(std::function<void()> handler);
  /// From now on configuration space is what `handler` says, which outlives the function. The ids
  /// of the header and the bytes that the bus owns stay the function's: command, base addresses,
  /// expansion ROM (none), interrupt line. Writes to all but base addresses and ROM go to the
  /// handler, too. Resets are the handler's business. Set before the function is plugged in.
  void set_config_handler(ConfigHandler& handler);
  /// Makes the header say that the device has several functions. Call it before the function is
  /// plugged in.
  void set_multifunction();
  /// Configuration space, 4096 bytes, with a type 0 header. Any thread. An access that leaves it
  /// reads all ones, and its writes are dropped, as on a bus. Writable are the command bits, cache
  /// line size, interrupt line, and the writable bits of capabilities. A BAR slot written with all
  /// ones reads as its size mask until it is written otherwise. BARs cannot be moved.
  void config_read(uint32_t offset, std::span<std::byte> out) const;
  void config_write(uint32_t offset, std::span<const std::byte> in);

 private:
  friend class Machine;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::bus
