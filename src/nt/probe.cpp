// Telling user memory from kernel memory.
//
// Host and clients share one address space here, so an address alone says nothing. Kernel memory is
// the memory that this kernel knows as its own: driver images, driver stacks, pool, the machine's
// memory, mapped windows. All other memory below MmUserProbeAddress is user memory.
#include "base/guarded_copy.h"
#include "nt/kernel_impl.h"
#include "nt/seh.h"

namespace dxgkit::nt {
namespace {

/// MmUserProbeAddress of Windows on x64.
const uint64_t mm_user_probe_address_value = 0x7FFF'FFFF'0000;

template <typename Map>
bool overlaps(const Map& blocks, uint64_t start, uint64_t end) {
  auto next = blocks.lower_bound(reinterpret_cast<const void*>(end));
  if (next == blocks.begin()) return false;
  --next;  // the last that begins below the end
  return reinterpret_cast<uint64_t>(next->first) + next->second.bytes > start;
}

}  // namespace

bool is_kernel_memory(Kernel& kernel, uint64_t start, uint64_t bytes) {
  Kernel::Impl& state = kernel.impl();
  const uint64_t end = start + bytes;
  if (end < start || end > mm_user_probe_address_value) return true;
  for (const DriverImage& image : state.images) {
    const auto base = reinterpret_cast<uint64_t>(image.base);
    if (start < base + image.size && end > base) return true;
  }
  if (const CallFrame* frame = CallFrame::current_or_null(); frame != nullptr) {
    const uint64_t low = frame->driver_stack_low();
    if (start < low + frame->driver_stack_bytes() && end > low) return true;
  }
  for (const uint64_t address : {start, end - 1}) {
    if (kernel.machine().physical_of(reinterpret_cast<const void*>(address)).value != 0)
      return true;
  }
  const runtime::MutexLock lock(state.memory_lock);
  return overlaps(state.pool, start, end) || overlaps(state.mappings, start, end);
}

namespace {

void check_range(uint64_t address, uint64_t bytes, uint32_t alignment) {
  if (alignment != 0 && (address & (alignment - 1)) != 0) raise_probe_failure(kStatusMisalignment);
  if (is_kernel_memory(CallFrame::current().kernel(), address, bytes))
    raise_probe_failure(kStatusAccessViolation);
}

DXGKIT_NT_ABI void probe_for_read(uint64_t address, uint64_t bytes, uint32_t alignment) {
  require_irql(CallFrame::current(), "ProbeForRead", kApcLevel);
  if (bytes != 0) check_range(address, bytes, alignment);
}

DXGKIT_NT_ABI void probe_for_write(uint64_t address, uint64_t bytes, uint32_t alignment) {
  require_irql(CallFrame::current(), "ProbeForWrite", kApcLevel);
  if (bytes == 0) return;
  check_range(address, bytes, alignment);
  for (uint64_t at = address; at - address < bytes; at = (at | (kPageBytes - 1)) + 1) {
    std::byte value{};
    auto* const pointer = reinterpret_cast<void*>(at);
    if (!guarded_copy(&value, pointer, 1) || !guarded_copy(pointer, &value, 1))
      raise_probe_failure(kStatusAccessViolation);
  }
}

}  // namespace

std::span<const Export> probe_exports() {
  static const Export kTable[] = {
      {"MmUserProbeAddress", &mm_user_probe_address_value, Support::kPartial,
       "kernel addresses lie below it too: only ProbeForRead and ProbeForWrite tell them apart", 8},
      DXGKIT_EXPORT("ProbeForRead", probe_for_read, kSupported, ""),
      DXGKIT_EXPORT("ProbeForWrite", probe_for_write, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
