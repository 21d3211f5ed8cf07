// GPU virtual addresses: whole allocations for every submission, windows for everything else, and
// the expected content of both.
#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"
#include "devices/softgpu/softgpu_hw.h"
#include "dxgk/exercise.h"
#include "sim/client_call.h"

namespace dxgkit::sim {
namespace {

constexpr uint64_t kSlotBytes = 1024;
constexpr uint64_t kUnit = 64 << 10;  // of reservations
constexpr size_t kWindowsMost = 12;
constexpr uint64_t kWindowPagesMost = 64;
constexpr uint64_t kWrite = 1, kExecute = 2, kZero = 4, kNoAccess = 8;

uint64_t pages_of(uint64_t bytes) { return align_up(bytes, kPageBytes) / kPageBytes; }

}  // namespace

// --- contexts and submissions

bool Client::create_commands(Context& context) {
  SgpuUmdAllocation wanted{};
  wanted.magic = SGPU_UMD_ALLOCATION_MAGIC;
  wanted.version = SGPU_UMD_VERSION;
  wanted.kind = SGPU_UMD_KIND_BUFFER;
  wanted.placement = SGPU_UMD_PLACE_STAGING;
  wanted.size_bytes = kSlots * kSlotBytes;
  D3DDDI_ALLOCATIONINFO2 info{};
  info.pPrivateDriverData = &wanted;
  info.PrivateDriverDataSize = sizeof(wanted);
  D3DKMT_CREATEALLOCATION create{};
  create.hDevice = device_;
  create.NumAllocations = 1;
  create.pAllocationInfo2 = &info;
  const NTSTATUS status =
      call("D3DKMTCreateAllocation2", [&] { return D3DKMTCreateAllocation2(&create); });
  if (!accepted("D3DKMTCreateAllocation2", status)) return false;
  context.commands = std::make_unique<Allocation>();
  context.commands->handle = context.commands->first_handle = info.hAllocation;
  context.commands->content = Content(kSlots * kSlotBytes);
  return show(*context.commands, true);
}

bool Client::map(D3DDDI_MAPGPUVIRTUALADDRESS& args) {
  args.hPagingQueue = paging_queue_;
  const NTSTATUS status =
      call("D3DKMTMapGpuVirtualAddress", [&] { return D3DKMTMapGpuVirtualAddress(&args); });
  if (!accepted("D3DKMTMapGpuVirtualAddress", status)) return false;
  ++world_.counters.maps;
  if (from_ntstatus(status) == Status::kPending)
    va_fence_ = std::max<uint64_t>(va_fence_, args.PagingFenceValue);
  return true;
}

bool Client::show(Allocation& allocation, bool execute) {
  if (allocation.address != 0) return true;
  D3DDDI_MAPGPUVIRTUALADDRESS args{};
  args.hAllocation = allocation.handle;
  args.SizeInPages = pages_of(allocation.size());
  args.Protection.Value = execute ? kExecute : allocation.read_only ? 0 : kWrite;
  if (!map(args)) return false;
  allocation.address = args.VirtualAddress;
  return true;
}

bool Client::hide(Allocation& allocation) {
  if (allocation.address == 0) return true;
  const uint64_t address = std::exchange(allocation.address, 0);
  return free_addresses(address, pages_of(allocation.size()) * kPageBytes);
}

bool Client::free_addresses(uint64_t base, uint64_t bytes) {
  unlock_all();  // it waits for entries, and these for paging that may need the room
  D3DKMT_FREEGPUVIRTUALADDRESS free{};
  free.hAdapter = adapter_;
  free.BaseAddress = base;
  free.Size = bytes;
  const NTSTATUS status =
      call("D3DKMTFreeGpuVirtualAddress", [&] { return D3DKMTFreeGpuVirtualAddress(&free); });
  return accepted("D3DKMTFreeGpuVirtualAddress", status);
}

uint64_t Client::address_of(const Allocation& allocation, uint64_t offset, uint64_t size,
                            bool write) {
  const uint64_t first = offset / kPageBytes;
  const uint64_t pages = pages_of(offset % kPageBytes + size);
  if (random_.percent(50)) {
    for (const auto& [number, page] : pages_) {
      if (page.allocation != &allocation || page.page != first) continue;
      uint64_t run = 0;
      for (auto next = pages_.find(number); run < pages && next != pages_.end(); ++next, ++run) {
        const Page& at = next->second;
        if (next->first != number + run || at.allocation != &allocation || at.page != first + run ||
            (write && !at.writable)) {
          break;
        }
      }
      if (run < pages) continue;
      // The range may continue from one window into the next.
      for (uint64_t i = 0; i < pages; ++i)
        touched_.insert(std::prev(windows_.upper_bound((number + i) * kPageBytes))->first);
      ++world_.counters.window_uses;
      return number * kPageBytes + offset % kPageBytes;
    }
  }
  return allocation.address + offset;
}

bool Client::submit_virtual(Context& context, std::span<const Command> commands,
                            std::span<Allocation* const> used) {
  for (Allocation* const allocation : used) {
    if (!show(*allocation, false)) return false;
  }
  const uint32_t slot = context.next_slot;
  if (context.slot_free[slot] != 0) cpu_wait(context, context.slot_free[slot]);
  std::vector<Allocation*> named(used.begin(), used.end());
  named.push_back(context.commands.get());
  if (!make_resident(context, named)) return false;

  touched_.clear();
  std::vector<std::byte> bytes;
  const auto append = [&](const auto& command) {
    const auto* const from = reinterpret_cast<const std::byte*>(&command);
    bytes.insert(bytes.end(), from, from + sizeof(command));
  };
  for (const Command& command : commands) {
    switch (command.kind) {
      case Command::Kind::kFill: {
        SgpuUmdFill fill{};
        fill.header = {.opcode = SGPU_UMD_OP_FILL, .size_bytes = sizeof(fill)};
        fill.destination =
            sgpu_umd_at(address_of(*command.destination, command.offset, command.size, true));
        fill.size_bytes = command.size;
        fill.pattern = command.pattern;
        append(fill);
        break;
      }
      case Command::Kind::kCopy: {
        SgpuUmdCopy copy{};
        copy.header = {.opcode = SGPU_UMD_OP_COPY, .size_bytes = sizeof(copy)};
        const bool same = command.source == command.destination;
        const auto place = [&](const Allocation& allocation, uint64_t offset, bool write) {
          // If both sides overlap, the device compares addresses, so keep them in one range.
          return sgpu_umd_at(same ? allocation.address + offset
                                  : address_of(allocation, offset, command.size, write));
        };
        copy.source = place(*command.source, command.source_offset, false);
        copy.destination = place(*command.destination, command.offset, true);
        copy.size_bytes = command.size;
        append(copy);
        break;
      }
      case Command::Kind::kDelay: {
        SgpuUmdDelay delay{};
        delay.header = {.opcode = SGPU_UMD_OP_DELAY, .size_bytes = sizeof(delay)};
        delay.duration_ns = command.size;
        delay.flags = command.stubborn ? 0 : SGPU_UMD_DELAY_PREEMPTIBLE;
        append(delay);
        break;
      }
    }
  }
  if (bytes.size() > kSlotBytes) fail("the commands are too many for a slot");
  if (va_fence_ > context.paging_waited) {
    after_paging(context, va_fence_);
    context.paging_waited = va_fence_;
  }
  if (!lock(*context.commands)) return false;
  std::memcpy(context.commands->locked + slot * kSlotBytes, bytes.data(), bytes.size());
  unlock(*context.commands);

  D3DKMT_SUBMITCOMMAND submit{};
  submit.Commands = context.commands->address + slot * kSlotBytes;
  submit.CommandLength = static_cast<UINT>(bytes.size());
  submit.BroadcastContextCount = 1;
  submit.BroadcastContext[0] = context.handle;
  const NTSTATUS status = call("D3DKMTSubmitCommand", [&] { return D3DKMTSubmitCommand(&submit); });
  if (!accepted("D3DKMTSubmitCommand", status)) return false;
  const Moment now{context.id, context.submitted + 1};
  for (const uint64_t base : touched_) {
    std::vector<Moment>& uses = windows_.at(base).used;
    std::erase_if(uses, [&](const Moment& moment) { return moment.context == now.context; });
    uses.push_back(now);
  }
  context.slot_free[slot] = now.value;
  context.next_slot = (slot + 1) % kSlots;
  return true;
}

void Client::submit_wildly(Context& context) {
  // An address that was never mapped, or was freed: the device must fault.
  cpu_wait(context, context.submitted);
  Allocation* const commands = context.commands.get();
  if (!make_resident(context, std::span(&commands, 1))) return;
  if (va_fence_ > context.paging_waited) {
    after_paging(context, va_fence_);
    context.paging_waited = va_fence_;
  }
  uint64_t address = random_.next() & ((uint64_t{1} << 48) - kPageBytes);
  if (!windows_.empty() && random_.percent(60)) {
    const auto& [base, window] = *windows_.begin();
    address = base + window.bytes;  // behind it
    if (windows_.contains(address)) return;
    for (const auto& allocation : allocations_) {
      if (address >= allocation->address &&
          address < allocation->address + pages_of(allocation->size()) * kPageBytes)
        return;
    }
    for (const auto& other : contexts_) {
      if (address == other->commands->address) return;
    }
  }
  SgpuUmdFill fill{};
  fill.header = {.opcode = SGPU_UMD_OP_FILL, .size_bytes = sizeof(fill)};
  fill.destination = sgpu_umd_at(address);
  fill.size_bytes = 64;
  fill.pattern = 0xBADBAD;
  if (!lock(*commands)) return;
  std::memcpy(commands->locked, &fill, sizeof(fill));
  unlock(*commands);
  D3DKMT_SUBMITCOMMAND submit{};
  submit.Commands = commands->address;
  submit.CommandLength = sizeof(fill);
  submit.BroadcastContextCount = 1;
  submit.BroadcastContext[0] = context.handle;
  was_wild_ = true;
  ++world_.wild_submissions;
  const NTSTATUS status = call("D3DKMTSubmitCommand", [&] { return D3DKMTSubmitCommand(&submit); });
  static_cast<void>(accepted("D3DKMTSubmitCommand", status));
  // The device is lost when the fault is reported: all its work is lost.
  world_.runtime.sleep_for(runtime::kMillisecond);
  throw DeviceLost{};
}

// --- content of windows

void Client::forget_pages(const Allocation& allocation) {
  for (auto& [number, page] : pages_) {
    if (page.allocation != &allocation) continue;
    page = {.left = allocation.read_only ? Page::Left::kPerhaps : Page::Left::kFading};
  }
}

void Client::note_pages(uint64_t base, uint64_t pages, Allocation* allocation, uint64_t first,
                        bool writable) {
  for (uint64_t i = 0; i < pages; ++i)
    pages_[base / kPageBytes + i] = {allocation, first + i, writable};
}

bool Client::settle_addresses() {
  if (va_fence_ == 0) return true;
  wait_for_paging(std::exchange(va_fence_, 0));
  return true;
}

void Client::settle(const Window& window) {
  const std::vector<Moment> used = window.used;
  for (const Moment& moment : used) wait_for(moment);
}

std::map<uint64_t, Client::Window>::iterator Client::any_window(bool reserved) {
  std::vector<std::map<uint64_t, Window>::iterator> found;
  for (auto window = windows_.begin(); window != windows_.end(); ++window)
    if (!reserved || window->second.reserved) found.push_back(window);
  return found.empty() ? windows_.end() : found[random_.below(found.size())];
}

void Client::op_reserve_addresses() {
  if (!has_addresses() || windows_.size() >= kWindowsMost) return;
  D3DDDI_RESERVEGPUVIRTUALADDRESS args{};
  args.hPagingQueue = paging_queue_;
  args.Size = kUnit * random_.between(1, 3);
  const bool zero = random_.percent(30);
  args.ReservationType =
      zero ? D3DDDIGPUVIRTUALADDRESS_RESERVE_ZERO : D3DDDIGPUVIRTUALADDRESS_RESERVE_NO_ACCESS;
  if (random_.percent(30)) args.MinimumAddress = kUnit * random_.between(32, 4096);
  const NTSTATUS status =
      call("D3DKMTReserveGpuVirtualAddress", [&] { return D3DKMTReserveGpuVirtualAddress(&args); });
  if (!accepted("D3DKMTReserveGpuVirtualAddress", status)) return;
  if (from_ntstatus(status) == Status::kPending)
    va_fence_ = std::max<uint64_t>(va_fence_, args.PagingFenceValue);
  if (args.VirtualAddress % kUnit != 0 || args.VirtualAddress < args.MinimumAddress)
    fail(fmt::format("a reservation is at {:#x}", args.VirtualAddress));
  windows_[args.VirtualAddress] = {.bytes = args.Size, .reserved = true};
  if (zero) note_pages(args.VirtualAddress, args.Size / kPageBytes, nullptr, 0, false);
}

void Client::op_map() {
  if (!has_addresses() || allocations_.empty()) return;
  Allocation* const allocation = any_allocation();
  if (allocation == nullptr) return;
  D3DDDI_MAPGPUVIRTUALADDRESS args{};
  args.hAllocation = allocation->handle;
  const uint64_t pages = pages_of(allocation->size());
  args.OffsetInPages = random_.below(pages);
  uint64_t most = std::min(pages - args.OffsetInPages, kWindowPagesMost);
  const bool writable = !allocation->read_only && random_.percent(70);
  args.Protection.Value = writable ? kWrite : 0;
  const auto over = random_.percent(60) ? any_window(false) : windows_.end();
  if (over != windows_.end()) {
    const uint64_t first = random_.below(over->second.bytes / kPageBytes);
    most = std::min(most, over->second.bytes / kPageBytes - first);
    args.BaseAddress = over->first + first * kPageBytes;
    settle(over->second);
    // Zeros or nothing instead go into reservations only (VA-13).
    if (over->second.reserved && random_.percent(25)) {
      args.hAllocation = 0;
      args.OffsetInPages = 0;
      args.Protection.Value = random_.percent(50) ? kZero : kNoAccess;
    }
  } else if (windows_.size() >= kWindowsMost) {
    return;
  }
  args.SizeInPages = random_.between(1, most);
  if (!map(args)) return;
  if (args.BaseAddress == 0) {
    windows_[args.VirtualAddress] = {.bytes = args.SizeInPages * kPageBytes};
  } else if (args.VirtualAddress != args.BaseAddress) {
    fail(
        fmt::format("mapped at {:#x}, {:#x} was asked for", args.VirtualAddress, args.BaseAddress));
  }
  if (args.hAllocation != 0) {
    note_pages(args.VirtualAddress, args.SizeInPages, allocation, args.OffsetInPages, writable);
  } else if (args.Protection.Value == kZero) {
    note_pages(args.VirtualAddress, args.SizeInPages, nullptr, 0, false);
  } else {
    for (uint64_t i = 0; i < args.SizeInPages; ++i)
      pages_.erase(args.VirtualAddress / kPageBytes + i);
  }
}

void Client::op_free_addresses() {
  if (!has_addresses()) return;
  const auto window = any_window(false);
  if (window == windows_.end()) return;
  settle(window->second);
  uint64_t base = window->first, bytes = window->second.bytes;
  const Window before = window->second;
  if (random_.percent(30)) {  // a part of it; the rest stays
    const uint64_t pages = bytes / kPageBytes, first = random_.below(pages);
    base += first * kPageBytes;
    bytes = random_.between(1, pages - first) * kPageBytes;
  }
  const uint64_t old_base = window->first;
  if (!free_addresses(base, bytes)) return;
  windows_.erase(old_base);
  if (base != old_base)
    windows_[old_base] = {.bytes = base - old_base, .reserved = before.reserved};
  if (base + bytes != old_base + before.bytes)
    windows_[base + bytes] = {.bytes = old_base + before.bytes - base - bytes,
                              .reserved = before.reserved};
  for (uint64_t page = base / kPageBytes; page < (base + bytes) / kPageBytes; ++page)
    pages_.erase(page);
  if (random_.percent(50)) check_addresses();  // at once: nothing of it may be reached any more
}

void Client::op_update_addresses() {
  if (!has_addresses() || contexts_.empty()) return;
  const auto window = any_window(true);
  if (window == windows_.end()) return;
  if (update_fence_ == 0) {
    if (!create_fence(&update_fence_)) return;
    update_value_ = 0;
  }
  settle(window->second);
  // Earlier calls are in the queue already, so it takes effect behind them.
  std::map<uint64_t, Page> after = pages_;
  std::vector<D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION> operations(random_.between(1, 4));
  const uint64_t window_pages = window->second.bytes / kPageBytes;
  for (auto& operation : operations) {
    operation = {};
    const uint64_t first = random_.below(window_pages);
    const uint64_t address = window->first + first * kPageBytes;
    uint64_t most = window_pages - first;
    Allocation* const allocation = any_allocation();
    const uint64_t kind = random_.below(allocation == nullptr ? 2 : 5);
    const auto at = [&](uint64_t i) { return address / kPageBytes + i; };
    if (kind == 0) {
      const uint64_t pages = random_.between(1, most);
      const bool zero = random_.percent(50);
      operation.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP;
      operation.Unmap.BaseAddress = address;
      operation.Unmap.SizeInBytes = pages * kPageBytes;
      operation.Unmap.Protection.Value = zero ? kZero : kNoAccess;
      for (uint64_t i = 0; i < pages; ++i) {
        if (zero) {
          after[at(i)] = {};
        } else {
          after.erase(at(i));
        }
      }
    } else if (kind == 1) {  // onto itself, overlapping perhaps
      const uint64_t source = random_.below(window_pages);
      const uint64_t pages = random_.between(1, std::min(most, window_pages - source));
      operation.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY;
      operation.Copy.SourceAddress = window->first + source * kPageBytes;
      operation.Copy.DestAddress = address;
      operation.Copy.SizeInBytes = pages * kPageBytes;
      const std::map<uint64_t, Page> before = after;
      for (uint64_t i = 0; i < pages; ++i) {
        const auto from = before.find(window->first / kPageBytes + source + i);
        if (from == before.end()) {
          after.erase(at(i));
        } else {
          after[at(i)] = from->second;
        }
      }
    } else {
      const uint64_t allocation_pages = pages_of(allocation->size());
      const uint64_t offset = random_.below(allocation_pages);
      most = std::min(most, allocation_pages - offset);
      const uint64_t pages = random_.between(1, most);
      const bool protect = kind == 4 || allocation->read_only;
      const bool writable = !protect || (!allocation->read_only && random_.percent(50));
      const uint64_t repeat =
          random_.percent(20) && window_pages - first >= pages * 2 ? uint64_t{2} : uint64_t{1};
      const auto fill = [&](auto& map) {
        map.BaseAddress = address;
        map.SizeInBytes = pages * repeat * kPageBytes;
        map.hAllocation = allocation->handle;
        map.AllocationOffsetInBytes = offset * kPageBytes;
        map.AllocationSizeInBytes = repeat == 1 ? 0 : pages * kPageBytes;
      };
      if (protect) {
        operation.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT;
        fill(operation.MapProtect);
        operation.MapProtect.Protection.Value = writable ? kWrite : 0;
      } else {
        operation.OperationType = D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP;
        fill(operation.Map);
      }
      for (uint64_t i = 0; i < pages * repeat; ++i)
        after[at(i)] = {allocation, offset + i % pages, writable};
    }
  }
  D3DKMT_UPDATEGPUVIRTUALADDRESS update{};
  update.hDevice = device_;
  update.hContext = any_context()->handle;
  update.hFenceObject = update_fence_;
  update.NumOperations = static_cast<UINT>(operations.size());
  update.Operations = operations.data();
  update.FenceValue = update_value_;
  update.Flags.DoNotWait = random_.percent(30) ? 1 : 0;
  NTSTATUS status =
      call("D3DKMTUpdateGpuVirtualAddress", [&] { return D3DKMTUpdateGpuVirtualAddress(&update); });
  if (!accepted("D3DKMTUpdateGpuVirtualAddress", status)) return;
  ++update_value_;
  ++world_.counters.updates;
  pages_ = std::move(after);
  unlock_all();
  D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait{};
  wait.hDevice = device_;
  wait.ObjectCount = 1;
  wait.ObjectHandleArray = &update_fence_;
  wait.FenceValueArray = &update_value_;
  status = call("D3DKMTWaitForSynchronizationObjectFromCpu",
                [&] { return D3DKMTWaitForSynchronizationObjectFromCpu(&wait); });
  if (!accepted("D3DKMTWaitForSynchronizationObjectFromCpu", status))
    fail("a wait for an update of addresses was refused");
}

// --- checks

void Client::check_page(const softgpu::VirtualSpace& space, uint64_t address,
                        const Page* expected) {
  ++world_.counters.pages_walked;
  const softgpu::Walk walk = world_.gpu.walk(space, address);
  if (expected == nullptr) {
    if (!walk.fault && !fence_pages_.contains(address / kPageBytes))
      fail(fmt::format("nothing is mapped at {:#x}, and the device's walk ends at {:#x}", address,
                       walk.leaf));
    return;
  }
  if (expected->left != Page::Left::kNothing) {
    if (walk.fault && expected->left == Page::Left::kFading) pages_.erase(address / kPageBytes);
    return;
  }
  const bool zero = (walk.leaf & SGPU_PTE_ZERO) != 0;
  if (expected->allocation == nullptr) {
    // If entries have no such bit, it is a page of zeros that is read-only.
    std::array<std::byte, 16> found{};
    if (walk.fault || world_.gpu.peek(space, address, found) ||
        std::ranges::any_of(found, [](std::byte byte) { return byte != std::byte{0}; }) ||
        (!zero && (walk.leaf & SGPU_PTE_READ_ONLY) == 0)) {
      fail(fmt::format("{:#x} shows no zeros: {:#x}", address, walk.leaf));
    }
    return;
  }
  if (walk.fault) return;  // not resident, as far as this client can know
  Allocation& allocation = *expected->allocation;
  if (zero || ((walk.leaf & SGPU_PTE_READ_ONLY) == 0) != expected->writable)
    fail(fmt::format("{:#x} is mapped {}, and its entry is {:#x}", address,
                     expected->writable ? "to be written" : "read-only", walk.leaf));
  if (allocation.offered || allocation.common != nullptr || !has_happened(allocation.written))
    return;
  const uint64_t offset = expected->page * kPageBytes;
  if (offset >= allocation.size()) return;
  std::vector<std::byte> bytes(std::min(kPageBytes, allocation.size() - offset));
  const softgpu::Fault fault = world_.gpu.peek(space, address, bytes);
  if (fault) fail(fmt::format("the entry of {:#x} leads nowhere: {:#x}", address, walk.leaf));
  ++world_.counters.content_checks;
  world_.counters.bytes_checked += bytes.size();
  // The entry may still show the place before the eviction, and the content was discarded since.
  if (const auto wrong = allocation.content.compare_in_passing(offset, bytes))
    fail(fmt::format("through {:#x} the device sees another page of allocation {:#x}: {}", address,
                     allocation.handle, *wrong));
}

void Client::check_addresses() {
  if (!has_addresses() || contexts_.empty() || !settle_addresses()) return;
  Result<dxgk::Exercise> exercise = dxgk::Exercise::on(world_.system, world_.adapter);
  if (!exercise.has_value()) return;
  const auto root = exercise->gpu_va_root(*process_);
  if (!root.has_value()) return;
  // From here on no other fiber runs, so entries and content are of one moment.
  const uint64_t base = root->segment == kSystemMemory ? SGPU_SYSTEM_BASE
                        : root->segment.value == 1     ? SGPU_VRAM_BASE
                                                       : SGPU_APERTURE_BASE;
  const softgpu::VirtualSpace space{.root = base + root->offset_bytes,
                                    .root_entries = root->entries,
                                    .four_levels = world_.plan.memory_model != 1};
  ++world_.counters.walks;
  std::map<uint64_t, uint64_t> taken;  // of whole allocations: first page and count
  const auto whole = [&](Allocation& allocation, bool writable) {
    if (allocation.address == 0) return;
    taken[allocation.address / kPageBytes] = pages_of(allocation.size());
    for (uint64_t i = 0; i < pages_of(allocation.size()); ++i) {
      const Page expected{&allocation, i, writable};
      check_page(space, allocation.address + i * kPageBytes, &expected);
    }
  };
  for (const auto& allocation : allocations_) whole(*allocation, !allocation->read_only);
  for (const auto& context : contexts_)
    if (context->commands != nullptr && context->commands->address != 0)
      taken[context->commands->address / kPageBytes] = 1;
  const auto is_taken = [&](uint64_t page) {
    auto found = taken.upper_bound(page);
    if (found == taken.begin()) return false;
    --found;
    return page < found->first + found->second;
  };
  for (const auto& [address, window] : windows_) {
    const uint64_t first = address / kPageBytes, end = first + window.bytes / kPageBytes;
    for (uint64_t page = first - 1; page <= end; ++page) {
      if (is_taken(page)) continue;
      const auto expected = pages_.find(page);
      check_page(space, page * kPageBytes, expected == pages_.end() ? nullptr : &expected->second);
    }
  }
}

void Client::op_check_addresses() { check_addresses(); }

// --- nonsense

void Client::hostile_address_call() {
  world_.faults.count(FaultKind::kHostileClient);
  if (random_.percent(10)) {
    if (Context* const context = any_context()) submit_wildly(*context);
    return;
  }
  const uint64_t nonsense = random_.next();
  NTSTATUS status = 0;
  const char* name = "D3DKMTMapGpuVirtualAddress";
  Allocation* const allocation = any_allocation();
  switch (random_.below(6)) {
    case 0:
    case 1: {
      D3DDDI_MAPGPUVIRTUALADDRESS args{};
      args.hPagingQueue = random_.percent(80) ? paging_queue_ : device_;
      args.hAllocation = allocation != nullptr ? allocation->handle : device_;
      args.SizeInPages = 1;
      switch (random_.below(6)) {  // one thing at a time
        case 0:
          args.BaseAddress = nonsense | 1;
          break;
        case 1:
          args.SizeInPages = random_.percent(50) ? 0 : nonsense | uint64_t{1} << 40;
          break;
        case 2:
          args.OffsetInPages = nonsense | uint64_t{1} << 40;
          break;
        case 3:
          args.hAllocation = 0;
          break;
        case 4:
          args.Protection.Value = kZero | kNoAccess;
          break;
        case 5:
          args.MinimumAddress = 64 * kUnit;
          args.MaximumAddress = 32 * kUnit;
          break;
      }
      status = call(name, [&] { return D3DKMTMapGpuVirtualAddress(&args); });
      break;
    }
    case 2: {
      name = "D3DKMTReserveGpuVirtualAddress";
      D3DDDI_RESERVEGPUVIRTUALADDRESS args{};
      args.hPagingQueue = paging_queue_;
      args.Size = random_.percent(50) ? kUnit + kPageBytes : nonsense << 16 | uint64_t{1} << 60;
      status = call(name, [&] { return D3DKMTReserveGpuVirtualAddress(&args); });
      break;
    }
    case 3:
    case 4: {
      name = "D3DKMTFreeGpuVirtualAddress";
      D3DKMT_FREEGPUVIRTUALADDRESS args{};
      args.hAdapter = adapter_;
      // An address without owner; the first table's pages are always free (VA-08).
      args.BaseAddress = random_.percent(50) ? kPageBytes : nonsense | 1;
      args.Size = random_.percent(50) ? kPageBytes : nonsense;
      status = call(name, [&] { return D3DKMTFreeGpuVirtualAddress(&args); });
      break;
    }
    default: {
      name = "D3DKMTUpdateGpuVirtualAddress";
      D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION operation{};
      operation.OperationType =
          static_cast<D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION_TYPE>(random_.below(6));
      operation.Map.BaseAddress = nonsense | 1;
      operation.Map.SizeInBytes = kPageBytes;
      D3DKMT_UPDATEGPUVIRTUALADDRESS args{};
      args.hDevice = device_;
      args.hContext = contexts_.empty() ? device_ : contexts_[0]->handle;
      args.hFenceObject = update_fence_ != 0 ? update_fence_ : device_;
      args.NumOperations = random_.percent(80) ? 1 : 1U << 30;
      args.Operations = &operation;
      status = call(name, [&] { return D3DKMTUpdateGpuVirtualAddress(&args); });
      break;
    }
  }
  ++world_.counters.property_checks;
  if (from_ntstatus(status) == Status::kDeviceRemoved) lost(name);
  if (is_success(from_ntstatus(status)))
    fail(fmt::format("{} accepts nonsense with {}", name, text_of(status)));
  ++world_.counters.refused_calls;
}

}  // namespace dxgkit::sim
