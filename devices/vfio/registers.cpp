#include "devices/vfio/registers.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <span>

#include "trace/trace.h"

namespace dxgkit::vfio {
namespace {

void note(const char* what, uint32_t slot, uint64_t offset, uint32_t size_bytes, uint64_t value,
          bool answered) {
  trace::Recorder* const recorder = trace::current();
  if (recorder == nullptr) return;
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), "BAR %u +0x%llx: %s %u bytes 0x%llx%s", slot,
                static_cast<unsigned long long>(offset), what, size_bytes,
                static_cast<unsigned long long>(value), answered ? "" : " (no answer)");
  recorder->record(trace::EventKind::kMarker, recorder->name_id(text.data()));
}

}  // namespace

uint64_t Registers::mmio_read(uint64_t offset, uint32_t size_bytes) {
  uint64_t value = 0;
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&value, 1));
  bool answered = !gone_.load(std::memory_order_acquire) && size_bytes <= bytes.size();
  for (uint32_t done = 0; answered && done < size_bytes; done += 4) {
    const uint32_t part = size_bytes - done < 4 ? size_bytes - done : 4;
    answered = hardware_.read(hardware_.bar(slot_), offset + done, bytes.subspan(done, part));
  }
  if (!answered) value = ~uint64_t{0};
  note("read", slot_, offset, size_bytes, value, answered);
  return value;
}

void Registers::mmio_write(uint64_t offset, uint32_t size_bytes, uint64_t value) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&value, 1));
  bool answered = !gone_.load(std::memory_order_acquire) && size_bytes <= bytes.size();
  for (uint32_t done = 0; answered && done < size_bytes; done += 4) {
    const uint32_t part = size_bytes - done < 4 ? size_bytes - done : 4;
    answered = hardware_.write(hardware_.bar(slot_), offset + done, bytes.subspan(done, part));
  }
  note("write", slot_, offset, size_bytes, value, answered);
}

}  // namespace dxgkit::vfio
