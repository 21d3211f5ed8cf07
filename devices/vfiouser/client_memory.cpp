#include "devices/vfiouser/client_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/arithmetic.h"
#include "base/sealed_memory.h"

namespace dxgkit::vfiouser {

ClientMemory::~ClientMemory() {
  unmap_all();
  const runtime::MutexLock lock(mutex_);
  for (const std::span<std::byte> one : retired_) munmap(one.data(), one.size());
}

void ClientMemory::set_messages(DmaMessages* messages) {
  const runtime::MutexLock lock(mutex_);
  messages_ = messages;
}

int ClientMemory::map(const DmaMap& map, Descriptor descriptor) {
  Range range{.size = map.size,
              .bytes = nullptr,
              .readable = (map.flags & DmaMap::kReadable) != 0,
              .writeable = (map.flags & DmaMap::kWriteable) != 0};
  const runtime::MutexLock lock(mutex_);
  const auto after = ranges_.lower_bound(map.address);
  if (after != ranges_.end() && after->first - map.address < map.size) return EEXIST;
  if (after != ranges_.begin()) {
    const auto& [address, before] = *std::prev(after);
    if (map.address - address < before.size) return EEXIST;
  }
  if (ranges_.size() >= kRangesMost) return ENOSPC;
  if (!descriptor) {
    if (messages_ == nullptr) return ENOTSUP;
  } else {
    uint64_t end = 0;
    if (map.offset % kPageBytes != 0 || !checked_add(map.offset, map.size, &end)) return EINVAL;
    if (!seal_memory(descriptor.get(), map.offset, map.size)) return ENOTSUP;
    // A device writes through pointers that cannot tell: what the client must not see stays here.
    const int kind = range.writeable ? MAP_SHARED : MAP_PRIVATE;
    void* const bytes = mmap(nullptr, map.size, PROT_READ | PROT_WRITE, kind | MAP_NORESERVE,
                             descriptor.get(), static_cast<off_t>(map.offset));
    if (bytes == MAP_FAILED) return errno;
    range.bytes = static_cast<std::byte*>(bytes);
  }
  ranges_.emplace(map.address, range);
  return 0;
}

void ClientMemory::retire(const Range& range) {
  if (range.bytes == nullptr) return;
  // A device may be in the middle of an access to it.
  void* const shown = mmap(range.bytes, range.size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  // If the system refuses, the mapping stays as it is until the end: unmapping it would let a
  // device run into nothing.
  static_cast<void>(shown);
  retired_.emplace_back(range.bytes, range.size);
}

int ClientMemory::unmap(uint64_t address, uint64_t size) {
  const runtime::MutexLock lock(mutex_);
  const auto found = ranges_.find(address);
  if (found == ranges_.end() || found->second.size != size) return ENOENT;
  retire(found->second);
  ranges_.erase(found);
  return 0;
}

void ClientMemory::unmap_all() {
  const runtime::MutexLock lock(mutex_);
  for (const auto& [address, range] : ranges_) retire(range);
  ranges_.clear();
}

ClientMemory::Ranges::const_iterator ClientMemory::find(uint64_t address) const {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return ranges_.end();
  const auto range = std::prev(after);
  return address - range->first < range->second.size ? range : ranges_.end();
}

std::byte* ClientMemory::pointer(bus::PhysicalAddress address, uint64_t size) {
  const runtime::MutexLock lock(mutex_);
  const auto range = find(address.value);
  if (range == ranges_.end() || range->second.bytes == nullptr || !range->second.readable)
    return nullptr;
  const uint64_t offset = address.value - range->first;
  return range_within(offset, size, range->second.size) ? range->second.bytes + offset : nullptr;
}

std::vector<ClientMemory::Piece> ClientMemory::pieces(uint64_t address, uint64_t size, bool write) {
  std::vector<Piece> all;
  uint64_t end = 0;
  if (!checked_add(address, size, &end)) return all;
  const runtime::MutexLock lock(mutex_);
  while (address < end) {
    const auto found = find(address);
    if (found == ranges_.end() || !(write ? found->second.writeable : found->second.readable))
      return {};
    const uint64_t skip = address - found->first;
    const uint64_t step = std::min(end - address, found->second.size - skip);
    all.push_back({.range = found->second, .address = address, .size = step, .skip = skip});
    address += step;
  }
  return all;
}

bool ClientMemory::read(bus::PhysicalAddress address, std::span<std::byte> out) {
  const std::vector<Piece> all = pieces(address.value, out.size(), /*write=*/false);
  if (all.empty()) return out.empty();
  DmaMessages* messages = nullptr;
  {
    const runtime::MutexLock lock(mutex_);
    messages = messages_;
  }
  for (const Piece& piece : all) {
    const std::span<std::byte> part = out.subspan(piece.address - address.value, piece.size);
    if (piece.range.bytes != nullptr) {
      std::memcpy(part.data(), piece.range.bytes + piece.skip, part.size());
    } else if (messages == nullptr || !messages->dma_read(piece.address, part)) {
      return false;
    }
  }
  return true;
}

bool ClientMemory::write(bus::PhysicalAddress address, std::span<const std::byte> in) {
  const std::vector<Piece> all = pieces(address.value, in.size(), /*write=*/true);
  if (all.empty()) return in.empty();
  DmaMessages* messages = nullptr;
  {
    const runtime::MutexLock lock(mutex_);
    messages = messages_;
  }
  for (const Piece& piece : all) {
    const ByteView part = in.subspan(piece.address - address.value, piece.size);
    if (piece.range.bytes != nullptr) {
      std::memcpy(piece.range.bytes + piece.skip, part.data(), part.size());
    } else if (messages == nullptr || !messages->dma_write(piece.address, part)) {
      return false;
    }
  }
  return true;
}

}  // namespace dxgkit::vfiouser
