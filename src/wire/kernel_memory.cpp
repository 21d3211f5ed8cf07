#include "wire/kernel_memory.h"

#include <d3dkmthk.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/arithmetic.h"
#include "base/guarded_copy.h"
#include "wire/channel.h"

namespace dxgkit::wire {
namespace {

/// The functions that this file knows.
struct Known {
  uint32_t destroy_context = arguments::number_of("D3DKMTDestroyContext");
  uint32_t destroy_fence = arguments::number_of("D3DKMTDestroySynchronizationObject");
  uint32_t destroy_hw_queue = arguments::number_of("D3DKMTDestroyHwQueue");
  uint32_t destroy_paging_queue = arguments::number_of("D3DKMTDestroyPagingQueue");
  uint32_t render = arguments::number_of("D3DKMTRender");
  uint32_t unlock2 = arguments::number_of("D3DKMTUnlock2");

  bool ends_memory(uint32_t function) const {
    return function == destroy_context || function == destroy_fence ||
           function == destroy_hw_queue || function == destroy_paging_queue || function == unlock2;
  }
};
const Known& known() {
  static const Known numbers;
  return numbers;
}

template <typename Args>
Args as(const std::byte* arguments) {
  Args args;
  std::memcpy(&args, arguments, sizeof args);
  return args;
}

size_t whole_pages(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace

KernelMemory::~KernelMemory() {
  for (const auto& [key, mapping] : mappings_) munmap(mapping.address, mapping.bytes);
}

bool KernelMemory::add_notes(uint32_t function, const std::byte* arguments,
                             std::pmr::vector<std::byte>* message) {
  Writer writer(message);
  if (function != known().render) {
    writer.put(uint32_t{0});
    return true;
  }
  const auto args = as<D3DKMT_RENDER>(arguments);
  struct Piece {
    Memory memory;
    uint64_t offset, bytes;
  };
  const std::array pieces = {
      Piece{Memory::kCommands, args.CommandOffset, args.CommandLength},
      Piece{Memory::kAllocations, 0,
            uint64_t{args.AllocationCount} * sizeof(D3DDDI_ALLOCATIONLIST)},
      Piece{Memory::kPatches, 0,
            uint64_t{args.PatchLocationCount} * sizeof(D3DDDI_PATCHLOCATIONLIST)}};
  const size_t count_at = message->size();
  uint32_t count = 0;
  writer.put(count);
  const SpinGuard guard(lock_);
  for (const Piece& piece : pieces) {
    const auto found = mappings_.find({piece.memory, args.hContext});
    // What lies outside is no command: the kernel refuses the call by its numbers.
    if (found == mappings_.end() || piece.bytes == 0) continue;
    if (!range_within(piece.offset, piece.bytes, found->second.bytes)) continue;
    writer.put(MemoryNote{static_cast<uint32_t>(piece.memory), static_cast<uint32_t>(piece.offset),
                          static_cast<uint32_t>(piece.bytes)});
    if (message->size() + piece.bytes > kMaxFrameBytes) return false;
    const size_t at = message->size();
    message->resize(at + piece.bytes);
    const auto* const from = static_cast<const std::byte*>(found->second.address) + piece.offset;
    if (!guarded_copy(message->data() + at, from, piece.bytes)) return false;
    ++count;
  }
  std::memcpy(message->data() + count_at, &count, sizeof count);
  return true;
}

void* KernelMemory::show(const WindowNote& note, UniqueFd descriptor) {
  const auto memory = static_cast<Memory>(note.memory);
  const Key key{memory, note.owner};
  const size_t bytes = whole_pages(note.bytes);
  if (bytes == 0) return nullptr;
  if (memory == Memory::kLock && locked_here_) return locked_here_(note.owner);
  const SpinGuard guard(lock_);
  const auto found = mappings_.find(key);
  const bool known = found != mappings_.end() && note.id != 0 && found->second.id == note.id;
  if (known) return found->second.address;
  const bool own = !descriptor;
  if (found != mappings_.end() && own && found->second.bytes == bytes) {
    if (memory == Memory::kLock) ++found->second.locks;
    return found->second.address;
  }
  const int protection = memory == Memory::kFence ? PROT_READ : PROT_READ | PROT_WRITE;
  void* const address = own ? mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                            : mmap(nullptr, bytes, protection, MAP_SHARED, descriptor.get(),
                                   static_cast<off_t>(note.offset));
  if (address == MAP_FAILED) return nullptr;
  if (found != mappings_.end()) munmap(found->second.address, found->second.bytes);
  mappings_[key] = {address, bytes, 1, note.id};
  return address;
}

void KernelMemory::end(const WindowNote& note) {
  if (static_cast<Memory>(note.memory) == Memory::kPages) return exchanged_.end(note);
  const SpinGuard guard(lock_);
  const auto found = mappings_.find({static_cast<Memory>(note.memory), note.owner});
  // Another thread may have the same handle again, and its window.
  if (found == mappings_.end() || found->second.id != note.id) return;
  munmap(found->second.address, found->second.bytes);
  mappings_.erase(found);
}

void KernelMemory::drop(Key key) {
  const auto found = mappings_.find(key);
  if (found == mappings_.end()) return;
  if (found->second.id != 0) return;
  if (key.memory == Memory::kLock && --found->second.locks != 0) return;
  munmap(found->second.address, found->second.bytes);
  mappings_.erase(found);
}

void KernelMemory::visit_fences(const std::function<void(uint32_t, uint64_t)>& visit) {
  const SpinGuard guard(lock_);
  for (const auto& [key, mapping] : mappings_) {
    if (key.memory != Memory::kFence) continue;
    uint64_t value = 0;
    __atomic_load(static_cast<uint64_t*>(mapping.address), &value, __ATOMIC_ACQUIRE);
    visit(key.owner, value);
  }
}

void KernelMemory::after(uint32_t function, const std::byte* arguments) {
  if (!known().ends_memory(function)) return;
  const SpinGuard guard(lock_);
  if (function == known().destroy_context) {
    const uint32_t owner = as<D3DKMT_DESTROYCONTEXT>(arguments).hContext;
    for (const Memory memory : {Memory::kCommands, Memory::kAllocations, Memory::kPatches})
      drop({memory, owner});
  } else if (function == known().destroy_fence) {
    drop({Memory::kFence, as<D3DKMT_DESTROYSYNCHRONIZATIONOBJECT>(arguments).hSyncObject});
  } else if (function == known().destroy_paging_queue) {
    drop({Memory::kFence, as<D3DDDI_DESTROYPAGINGQUEUE>(arguments).hPagingQueue});
  } else if (function == known().destroy_hw_queue) {
    drop({Memory::kFence, as<D3DKMT_DESTROYHWQUEUE>(arguments).hHwQueue});
  } else if (function == known().unlock2) {
    drop({Memory::kLock, as<D3DKMT_UNLOCK2>(arguments).hAllocation});
  }
}

}  // namespace dxgkit::wire
