#include "nt/system_data.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "nt/kernel_impl.h"
#include "nt/system_time.h"

namespace dxgkit::nt {
namespace {

/// A field of a structure that is otherwise zero.
class Window {
 public:
  Window(uint64_t offset, uint64_t bytes, void* out)
      : offset_(offset), bytes_(bytes), out_(static_cast<uint8_t*>(out)) {
    std::memset(out, 0, bytes);
  }
  template <typename T>
  void put(uint64_t at, T value) {
    put_bytes(at, &value, sizeof(value));
  }
  /// KSYSTEM_TIME: low, high, and high again for readers that do not lock.
  void put_time(uint64_t at, uint64_t value) {
    put(at, value);
    put(at + 8, static_cast<uint32_t>(value >> 32));
  }
  void put_bytes(uint64_t at, const void* value, uint64_t size) {
    const uint64_t from = std::max(at, offset_), to = std::min(at + size, offset_ + bytes_);
    if (from >= to) return;
    std::memcpy(out_ + (from - offset_), static_cast<const uint8_t*>(value) + (from - at),
                to - from);
  }

 private:
  uint64_t offset_, bytes_;
  uint8_t* out_;
};

void* current_thread() {
  static const auto function = export_function<void * DXGKIT_NT_ABI()>("KeGetCurrentThread");
  return function();
}

}  // namespace

void read_shared_data(CallFrame& frame, uint64_t offset, uint64_t bytes, void* out) {
  Window window(offset, bytes, out);
  const auto units = static_cast<uint64_t>(frame.kernel().runtime().now() / 100);
  window.put(0x000, uint32_t{0});  // TickCountLowDeprecated
  window.put(0x004,
             kSystemTimeTick / 10'000 << 24 | 0xA00000);  // TickCountMultiplier, 8.24 ms a tick
  window.put_time(0x008, units);                          // InterruptTime
  window.put_time(0x014, static_cast<uint64_t>(kSystemTimeAtStart) + units);  // SystemTime
  window.put(0x02C, uint16_t{0x8664});                                        // ImageNumberLow
  window.put(0x02E, uint16_t{0x8664});                                        // ImageNumberHigh
  constexpr std::u16string_view kRoot = u"C:\\Windows";
  window.put_bytes(0x030, kRoot.data(), kRoot.size() * sizeof(char16_t));  // NtSystemRoot
  window.put(0x260, uint32_t{19041});                                      // NtBuildNumber
  window.put(0x264, uint32_t{1});   // NtProductType: workstation
  window.put(0x268, uint8_t{1});    // ProductTypeIsValid
  window.put(0x26A, uint16_t{9});   // NativeProcessorArchitecture: AMD64
  window.put(0x26C, uint32_t{10});  // NtMajorVersion
  window.put(0x270, uint32_t{0});   // NtMinorVersion
  // ProcessorFeatures of every x64 processor (CX8, MMX, XMMI, RDTSC, PAE, XMMI64, NX, CX16).
  for (const uint64_t feature : {2U, 3U, 6U, 8U, 9U, 10U, 12U, 13U, 14U})
    window.put(0x274 + feature, uint8_t{1});
  window.put(0x300, uint64_t{10'000'000});                // QpcFrequency
  window.put_time(0x320, units / kSystemTimeTick);        // TickCount
  window.put(0x3C0, frame.kernel().config().processors);  // ActiveProcessorCount
  window.put(0x3C4, uint8_t{1});                          // ActiveGroupCount
}

void read_processor_data(CallFrame& frame, uint64_t offset, uint64_t bytes, void* out) {
  Window window(offset, bytes, out);
  window.put(0x018, kProcessorDataAddress);                    // Self
  window.put(0x020, kProcessorDataAddress + 0x180);            // CurrentPrcb
  window.put(0x050, frame.irql());                             // Irql
  window.put(0x060, uint16_t{1});                              // MajorVersion
  window.put(0x180, uint32_t{0x1F80});                         // PRCB: MxCsr
  window.put(0x184, static_cast<uint8_t>(frame.processor()));  // PRCB: LegacyNumber
  window.put(0x188, current_thread());                         // PRCB: CurrentThread
  window.put(0x1A4, frame.processor());                        // PRCB: Number
}

}  // namespace dxgkit::nt
