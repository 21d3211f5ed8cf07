// What a kind of virtio device is, behind its transport.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/virtio/virtqueue.h"
#include "runtime/runtime.h"

namespace dxgkit::virtio {

/// A request of the driver, and the place for the answer.
class Request {
 public:
  Request(Memory& memory, const Chain& chain) : memory_(memory), chain_(chain) {}

  /// For addresses that the request names.
  Memory& memory() { return memory_; }
  uint64_t readable_bytes() const { return chain_.readable_bytes; }
  uint64_t writable_bytes() const { return chain_.writable_bytes; }
  /// False: the bytes are not all there, or are in no memory. The latter breaks the device.
  bool read(uint64_t offset, std::span<std::byte> to) {
    if (chain_.read(memory_, offset, to)) return true;
    is_lost_ |= offset + to.size() <= chain_.readable_bytes;
    return false;
  }
  template <typename T>
  bool read(uint64_t offset, T* to) {
    return read(offset, std::as_writable_bytes(std::span(to, 1)));
  }
  /// Writes an answer at the start of the writable part, as much of it as fits.
  void answer(std::span<const std::byte> from) {
    from = from.first(std::min<uint64_t>(from.size(), chain_.writable_bytes));
    if (chain_.write(memory_, 0, from)) {
      written_ = std::max(written_, static_cast<uint32_t>(from.size()));
    } else {
      is_lost_ = true;
    }
  }
  uint32_t written() const { return written_; }
  /// A part of the chain that was used is in no memory.
  bool is_lost() const { return is_lost_; }
  /// The device cannot go on: the request gets no answer, and the device wants a reset.
  /// @param why  one sentence without a full stop
  void fail(std::string why) { failure_ = std::move(why); }
  const std::string& failure() const { return failure_; }

 private:
  Memory& memory_;
  const Chain& chain_;
  uint32_t written_ = 0;
  bool is_lost_ = false;
  std::string failure_;
};

/// A device behind a transport. `execute` and `reset` come one at a time; the rest at any time from
/// any thread. No function may call the transport.
class Model {
 public:
  virtual ~Model() = default;
  /// Feature bits of the kind of device (0 to 23, and 50 on).
  virtual uint64_t features() const = 0;
  /// The largest size of each queue, powers of two.
  virtual std::vector<uint16_t> queue_sizes() const = 0;

  /// The device's own configuration.
  virtual uint32_t config_bytes() const = 0;
  virtual void config_read(uint64_t offset, std::span<std::byte> to) = 0;
  virtual void config_write(uint64_t offset, std::span<const std::byte> from) = 0;

  /// How long hardware would take for the request, which is read again when it is executed. Asked
  /// in simulation only.
  virtual runtime::DurationNs time_of(uint16_t queue, Request& request) = 0;
  /// Carries a request out. On a thread of the transport, never after a reset that came meanwhile.
  virtual void execute(uint16_t queue, Request& request) = 0;
  /// Does nothing of it, and answers with an error, as hardware does whose memory has lost a part
  /// of the request. By default there are no such errors.
  virtual void refuse(uint16_t queue, Request& request) { execute(queue, request); }
  /// Lets a running `execute` end soon, and each one that comes before the next `reset`. Any
  /// thread; may come at any time before a reset, and when the device leaves.
  virtual void interrupt() {}
  /// Forgets everything that a driver has set up.
  virtual void reset() = 0;
};

}  // namespace dxgkit::virtio
