// A virtio device on PCI: capabilities, registers, MSI-X or INTx, and the thread that serves its
// queues (virtio 1.2, 4.1). No legacy interface.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bus/device.h"
#include "bus/machine.h"
#include "devices/virtio/model.h"
#include "runtime/runtime.h"

namespace dxgkit::virtio {

struct PciOptions {
  std::string name;           // of the thread
  bus::PciIdentity identity;  // vendor and revision are the transport's
  uint16_t type = 0;          // of the virtio device: 16 is a GPU
  /// Messages of MSI-X, 1 to 64; 0: the function has INTx only.
  uint16_t messages = 3;
  bool indirect = true, event_index = true;  // are offered
  bool access_platform = false;  // is offered, and a driver that does not take it is refused
  /// So many reads of the status the reset by a driver takes: until then they are not 0, and what
  /// is written is lost.
  uint32_t reset_reads = 0;
  /// Where the registers are (always 64 bits), and the table of MSI-X with its pending bits.
  enum class Layout : uint8_t {
    kPlain,   // BAR 0, and BAR 2 with 32 bits
    kBehind,  // BAR 4, and BAR 1 with 64 bits
    kNarrow,  // BAR 4, and BAR 3 with 32 bits right before it
  } layout = Layout::kPlain;
  /// Among the capabilities are some that a driver must pass over, and the lowest two bits of each
  /// pointer to the next one are set, which software masks. Without MSI-X: there is no room.
  bool odd_capabilities = false;
};

/// As PCI wants it, INTx is silent while MSI-X is enabled.
///
/// Made and destroyed on a thread of `runtime`, where it starts one thread. Model and machine must
/// outlive it. Destruction unplugs the function; the driver must have stopped by then. Registers
/// may be touched by any thread. Interrupts come on the transport's thread, with no lock held.
class PciTransport {
 public:
  PciTransport(runtime::Runtime& runtime, bus::Machine& machine, Model& model,
               const PciOptions& options);
  ~PciTransport();
  PciTransport(const PciTransport&) = delete;
  PciTransport& operator=(const PciTransport&) = delete;

  bus::PciFunction& function();
  /// Registers as at power-on; MSI-X is off and its table masked, the model is reset. When it
  /// returns, nothing touches memory any more. Any thread but the transport's.
  void reset();
  /// Surprise removal: no DMA and no interrupt from now on.
  void pull_out();
  /// Faults of the one engine, which serves all queues. With hangs_late the device carries the
  /// request out, does not return it, and wants a reset. A memory error is Model::refuse.
  void set_faults(const bus::EngineFaults& faults);
  /// The number of requests so far that met a memory error.
  uint64_t memory_errors() const;
  /// Why the device wants a reset; empty: it does not. For tests and findings.
  std::string error() const;
  /// See Registers::take_misuses.
  std::vector<std::string> take_misuses();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::virtio
