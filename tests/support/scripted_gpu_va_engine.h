// The hardware of ScriptedGpuVa: memory, tables, TLB, engines; and what its paging buffers hold.
// For scripted_gpu_va.cpp only.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "base/arithmetic.h"
#include "base/check.h"
#include "tests/support/scripted_gpu_va.h"

namespace dxgkit::testing {

using port::GpuPhysicalAddress;
using port::PageTableUpdateMode;

inline constexpr uint64_t kEntryBytes = sizeof(TableEntry);

inline constexpr NTSTATUS status_of(Status status) { return to_ntstatus(status); }

/// What a paging buffer is made of: a head, then `payload_bytes`, rounded up to 16.
struct CommandHead {
  static constexpr uint32_t kMagic = 0x47505641;
  uint32_t magic = kMagic;
  uint32_t operation = 0;
  uint32_t payload_bytes = 0;
  uint32_t padding = 0;
};
static_assert(sizeof(CommandHead) == 16);

/// Payload of DXGK_OPERATION_UPDATE_PAGE_TABLE, before its entries.
struct UpdateHead {
  uint64_t table_va = 0;  // mode kGpuVirtual
  uint64_t table_offset = 0;
  uint32_t table_segment = 0;
  uint32_t by_va = 0;
  uint32_t first = 0, count = 0;  // `count` entries in the table
  uint32_t repeat = 0, padding = 0;
};

inline TableEntry to_hardware(const DXGK_PTE& pte, uint64_t driver_protection) {
  DXGKIT_CHECK(pte.PageAddress >> 28 == 0);
  return {(pte.Flags & 0x7FF) | pte.PageAddress << 12 | (driver_protection & 0x7F'FFFF) << 40 |
          (driver_protection & gpuva::kUniqueDriverProtection)};
}

inline GpuPhysicalAddress of_abi(const D3DGPU_PHYSICAL_ADDRESS& address) {
  return {SegmentId{address.SegmentId}, address.SegmentOffset};
}

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  const auto* start = reinterpret_cast<const std::byte*>(&value);
  return {start, start + sizeof(value)};
}

template <typename T>
void append(std::vector<std::byte>* to, const T& value) {
  const std::vector<std::byte> bytes = bytes_of(value);
  to->insert(to->end(), bytes.begin(), bytes.end());
}

template <typename T>
T at(std::span<const std::byte> bytes, size_t offset = 0) {
  T value;
  DXGKIT_CHECK(offset + sizeof(value) <= bytes.size());
  std::memcpy(static_cast<void*>(&value), bytes.data() + offset, sizeof(value));
  return value;
}

/// Appends a command to the paging buffer; false: no room for it.
inline bool emit(DXGKARG_BUILDPAGINGBUFFER* args, std::span<const std::byte> payload) {
  const CommandHead head{.operation = static_cast<uint32_t>(args->Operation),
                         .payload_bytes = static_cast<uint32_t>(payload.size())};
  const uint64_t bytes = sizeof(head) + align_up(payload.size(), uint64_t{16});
  if (args->DmaSize < bytes) return false;
  auto* out = static_cast<std::byte*>(args->pDmaBuffer);
  std::memcpy(out, &head, sizeof(head));
  std::memcpy(out + sizeof(head), payload.data(), payload.size());
  args->pDmaBuffer = out + bytes;
  args->DmaSize -= static_cast<UINT>(bytes);
  return true;
}

struct ScriptedGpuVa::Submission {
  void* context = nullptr;
  uint32_t node = 0, fence = 0;
  bool paging = false, by_va = false;
  uint64_t address = 0, bytes = 0;  // of what runs
  SegmentId segment;                // without by_va
};

struct ScriptedGpuVa::State {
  struct Process {
    void* handle = nullptr;
    void* kernel = nullptr;
    bool system = false;
    std::optional<port::RootPageTable> root;
  };
  struct Context {
    void* handle = nullptr;
    void* process = nullptr;
    std::optional<port::RootPageTable> root;
    bool system = false;  // the kernel's own, also on behalf of a process
  };
  /// Memory of one segment, or the pages an aperture shows.
  struct Storage {
    std::byte* start = nullptr;
    uint64_t size = 0;
    std::map<uint64_t, uint64_t> frames;  // aperture: page -> frame
  };

  std::vector<Process> processes;
  std::vector<Context> contexts;
  std::map<void*, void*> device_process;
  std::map<uint32_t, Storage> storage;  // by segment id
  std::map<std::pair<uint32_t, uint32_t>, Submission> submissions;
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, GpuWalk> tlb;  // root, page
  GpuVaCalls calls;
  std::vector<GpuRead> reads;
  std::vector<GpuFault> faults;
  uint64_t executed = 0;

  ~State() {
    for (auto& [id, one] : storage) {
      if (one.start != nullptr) munmap(one.start, one.size);
    }
  }
  Process* process(const void* handle) {
    const auto found = std::ranges::find(processes, handle, &Process::handle);
    return found == processes.end() ? nullptr : &*found;
  }
  Context* context(const void* handle) {
    const auto found = std::ranges::find(contexts, handle, &Context::handle);
    return found == contexts.end() ? nullptr : &*found;
  }
};

/// The hardware: works on State, under the lock.
struct ScriptedGpuVa::Engine {
  ScriptedGpuVa& owner;
  State& state;

  State::Storage* storage(uint32_t id) {
    const std::vector<ScriptedSegment>& segments = owner.miniport_.config.segments;
    if (id == 0 || id > segments.size()) return nullptr;
    if (const auto known = state.storage.find(id); known != state.storage.end())
      return &known->second;
    const ScriptedSegment& segment = segments[id - 1];
    State::Storage& made = state.storage[id];
    if (segment.flags.Aperture != 0) return &made;
    made.size = align_up(segment.size, kPageBytes);
    const bool in_bar = segment.cpu_translated_address == ScriptedSegment::kBarAddress;
    const bus::MemoryWindow bar = owner.miniport_.function().bars()[1].memory;
    if (in_bar) made.size = std::min(made.size, bar.size);
    void* start = in_bar ? mmap(nullptr, made.size, PROT_READ | PROT_WRITE, MAP_SHARED, bar.fd,
                                static_cast<off_t>(bar.offset))
                         : mmap(nullptr, made.size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    DXGKIT_CHECK(start != MAP_FAILED);
    made.start = static_cast<std::byte*>(start);
    return &made;
  }

  std::byte* system(uint64_t address, uint64_t bytes) {
    return owner.machine_.system_pointer(bus::PhysicalAddress{address}, bytes);
  }

  std::byte* memory(const GpuPhysicalAddress& address, uint64_t bytes) {
    if (address.segment == kSystemMemory) return system(address.offset, bytes);
    State::Storage* const where = storage(address.segment.value);
    if (where == nullptr) return nullptr;
    if (where->start != nullptr) {
      return range_within(address.offset, bytes, where->size) ? where->start + address.offset
                                                              : nullptr;
    }
    // An aperture: whole ranges only as far as one page goes.
    const auto page = where->frames.find(address.offset / kPageBytes);
    const uint64_t inside = address.offset % kPageBytes;
    if (page == where->frames.end() || inside + bytes > kPageBytes) return nullptr;
    return system(page->second * kPageBytes + inside, bytes);
  }

  std::optional<TableEntry> entry(const GpuPhysicalAddress& table, uint64_t index) {
    const std::byte* where =
        memory({table.segment, table.offset + index * kEntryBytes}, kEntryBytes);
    if (where == nullptr) return std::nullopt;
    TableEntry result;
    std::memcpy(static_cast<void*>(&result), where, sizeof(result));
    return result;
  }

  GpuWalk walk(const port::RootPageTable& root, uint64_t va) {
    GpuWalk result;
    const auto count = static_cast<uint32_t>(owner.config.levels.size());
    GpuPhysicalAddress table = root.address;
    uint32_t shift = 12;
    for (uint32_t i = 0; i + 1 < count; ++i) shift += owner.config.levels[i].index_bits;
    if (owner.config.va_bits < 64 && va >> owner.config.va_bits != 0) {
      result.level = count - 1;
      result.why = "beyond the address space";
      return result;
    }
    for (uint32_t level = count; level-- > 0;) {
      result.level = level;
      const bool is_root = level + 1 == count;
      const uint64_t index =
          is_root ? va >> shift
                  : va >> shift & ((uint64_t{1} << owner.config.levels[level].index_bits) - 1);
      if (is_root && index >= root.entry_count) {
        result.why = fmt::format("root index {} of {}", index, root.entry_count);
        return result;
      }
      const std::optional<TableEntry> found = entry(table, index);
      if (!found.has_value()) {
        result.why = fmt::format("level {}: no memory at segment {} + {:#x}", level,
                                 table.segment.value, table.offset + index * kEntryBytes);
        return result;
      }
      const uint64_t word = found->word;
      if ((word & gpuva::kPteValid) == 0) {
        result.why = fmt::format("level {}: entry {} is invalid", level, index);
        return result;
      }
      const GpuPhysicalAddress target{
          SegmentId{
              static_cast<uint32_t>((word & gpuva::kPteSegmentMask) >> gpuva::kPteSegmentShift)},
          found->address()};
      const bool large = level != 0 && (word & gpuva::kPteLargePage) != 0;
      if (level != 0 && !large) {
        table = target;
        shift -= owner.config.levels[level - 1].index_bits;
        continue;
      }
      result.valid = true;
      result.zero = (word & gpuva::kPteZero) != 0;
      result.writable = (word & gpuva::kPteReadOnly) == 0;
      result.executable = (word & gpuva::kPteNoExecute) == 0;
      result.cache_coherent = (word & gpuva::kPteCacheCoherent) != 0;
      result.driver_protection = found->driver_protection();
      if (result.zero) return result;
      result.place = {target.segment, target.offset + (va & ((uint64_t{1} << shift) - 1))};
      result.cpu = memory(result.place, 1);
      return result;
    }
    return result;
  }

  /// Everything below one table; `base`: the first address it translates.
  void collect(const GpuPhysicalAddress& table, uint32_t level, uint64_t entries, uint64_t base,
               const port::RootPageTable& root, GpuTables* all) {
    uint32_t shift = 12;
    for (uint32_t i = 0; i < level; ++i) shift += owner.config.levels[i].index_bits;
    for (uint64_t i = 0; i < entries; ++i) {
      const std::optional<TableEntry> found = entry(table, i);
      if (!found.has_value() || (found->word & gpuva::kPteValid) == 0) continue;
      const uint64_t va = base + (i << shift);
      if (level == 0 || (found->word & gpuva::kPteLargePage) != 0) {
        all->pages[va] = walk(root, va);
        continue;
      }
      collect({SegmentId{static_cast<uint32_t>((found->word & gpuva::kPteSegmentMask) >>
                                               gpuva::kPteSegmentShift)},
               found->address()},
              level - 1, uint64_t{1} << owner.config.levels[level - 1].index_bits, va, root, all);
    }
    all->tables[level].push_back(table);
  }

  /// As the hardware translates: what it has cached it believes.
  GpuWalk translate(const port::RootPageTable& root, uint64_t va) {
    const std::tuple key{root.address.segment.value, root.address.offset, va / kPageBytes};
    if (const auto known = state.tlb.find(key);
        known != state.tlb.end() && owner.config.cache_translations) {
      GpuWalk result = known->second;
      if (!result.zero) {
        result.place.offset += va % kPageBytes;
        result.cpu = memory(result.place, 1);
      }
      return result;
    }
    GpuWalk result = walk(root, va);
    if (result.valid && owner.config.cache_translations) {
      GpuWalk cached = result;
      cached.place.offset -= va % kPageBytes;  // start of the page
      state.tlb.emplace(key, cached);
    }
    return result;
  }

  void flush(const GpuPhysicalAddress& root, uint64_t start, uint64_t end) {
    std::erase_if(state.tlb, [&](const auto& one) {
      const auto& [segment, offset, page] = one.first;
      if (segment != root.segment.value || offset != root.offset) return false;
      return (start == 0 && end == 0) || (page >= start / kPageBytes && page * kPageBytes < end);
    });
  }

  enum class Access { kRead, kWrite, kExecute, kProcessor };

  struct Fault {
    uint64_t va = 0;
    uint32_t level = 0;
    bool write = false;
    std::string why;
  };

  /// Moves bytes between memory behind virtual addresses and `out` (reads) or `in` (writes).
  std::optional<Fault> access(const port::RootPageTable& root, uint64_t va, uint64_t bytes,
                              Access kind, std::byte* out, const std::byte* in) {
    for (uint64_t done = 0; done < bytes;) {
      const uint64_t here = va + done;
      const uint64_t part = std::min(bytes - done, kPageBytes - here % kPageBytes);
      const GpuWalk walked = kind == Access::kProcessor ? walk(root, here) : translate(root, here);
      const bool writes = in != nullptr;
      if (!walked.valid) return Fault{here, walked.level, writes, walked.why};
      if (kind == Access::kWrite && !walked.writable)
        return Fault{here, walked.level, true, "read only"};
      if (kind == Access::kExecute && !walked.executable)
        return Fault{here, walked.level, false, "no execute"};
      if (walked.zero) {
        if (out != nullptr) std::memset(out + done, 0, part);
      } else {
        std::byte* const where = memory(walked.place, part);
        if (where == nullptr) {
          return Fault{here, walked.level, writes,
                       fmt::format("no memory at segment {} + {:#x}", walked.place.segment.value,
                                   walked.place.offset)};
        }
        if (out != nullptr) std::memcpy(out + done, where, part);
        if (in != nullptr) std::memcpy(where, in + done, part);
      }
      done += part;
    }
    return std::nullopt;
  }

  std::optional<Fault> read(const port::RootPageTable& root, uint64_t va,
                            std::span<std::byte> out) {
    return access(root, va, out.size(), Access::kRead, out.data(), nullptr);
  }
  std::optional<Fault> write(const port::RootPageTable& root, uint64_t va,
                             std::span<const std::byte> in) {
    return access(root, va, in.size(), Access::kWrite, nullptr, in.data());
  }

  // --- buffers
  std::optional<Fault> run(const Submission& submission) {
    const State::Context* const context = state.context(submission.context);
    const port::RootPageTable root =
        context != nullptr && context->root.has_value() ? *context->root : port::RootPageTable{};
    std::vector<std::byte> bytes(submission.bytes);
    if (submission.by_va) {
      if (std::optional<Fault> fault = read(root, submission.address, bytes)) return fault;
    } else {
      for (uint64_t done = 0; done < bytes.size();) {
        const uint64_t here = submission.address + done;
        const uint64_t part = std::min(bytes.size() - done, kPageBytes - here % kPageBytes);
        const std::byte* const where = memory({submission.segment, here}, part);
        DXGKIT_CHECK(where != nullptr);
        std::memcpy(bytes.data() + done, where, part);
        done += part;
      }
    }
    return submission.paging ? run_paging(root, bytes) : run_user(submission, root, bytes);
  }

  std::optional<Fault> run_user(const Submission& submission, const port::RootPageTable& root,
                                std::span<const std::byte> bytes) {
    for (size_t i = 0; i + sizeof(GpuCommand) <= bytes.size(); i += sizeof(GpuCommand)) {
      const auto command = at<GpuCommand>(bytes, i);
      uint64_t value = command.value;
      const auto data = std::as_writable_bytes(std::span(&value, 1));
      std::optional<Fault> fault;
      switch (command.op) {
        case GpuCommand::kEnd:
          return std::nullopt;
        case GpuCommand::kWrite:
          fault = write(root, command.va, data);
          break;
        case GpuCommand::kRead:
          fault = read(root, command.va, data);
          if (!fault.has_value()) state.reads.push_back({submission.context, command.va, value});
          break;
        case GpuCommand::kCopy:
          fault = read(root, command.value, data);
          if (!fault.has_value()) fault = write(root, command.va, data);
          break;
        case GpuCommand::kExecute:
          fault = access(root, command.va, sizeof(value), Access::kExecute, data.data(), nullptr);
          break;
        default:
          return Fault{submission.address + i, 0, false, "no such command"};
      }
      if (fault.has_value()) return fault;
    }
    return std::nullopt;
  }

  std::optional<Fault> run_paging(const port::RootPageTable& root,
                                  std::span<const std::byte> bytes) {
    for (size_t i = 0; i < bytes.size();) {
      const auto magic = at<uint32_t>(bytes, i);
      if (magic == PagingRecord::kMagic) {
        ++state.executed;
        run_physical(owner.miniport_.paging_call(at<PagingRecord>(bytes, i).sequence));
        i += sizeof(PagingRecord);
        continue;
      }
      const auto head = at<CommandHead>(bytes, i);
      DXGKIT_CHECK(head.magic == CommandHead::kMagic);
      i += sizeof(head);
      DXGKIT_CHECK(head.payload_bytes <= bytes.size() - i);
      ++state.executed;
      if (std::optional<Fault> fault =
              run_command(root, head.operation, bytes.subspan(i, head.payload_bytes))) {
        return fault;
      }
      i += align_up(uint64_t{head.payload_bytes}, uint64_t{16});
    }
    return std::nullopt;
  }

  std::optional<Fault> run_command(const port::RootPageTable& root, uint32_t operation,
                                   std::span<const std::byte> payload) {
    switch (operation) {
      case DXGK_OPERATION_VIRTUAL_TRANSFER: {
        const auto args = at<DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL>(payload);
        std::vector<std::byte> data(args.TransferSizeInBytes);
        if (std::optional<Fault> fault = read(root, args.SourceVirtualAddress, data)) return fault;
        return write(root, args.DestinationVirtualAddress, data);
      }
      case DXGK_OPERATION_VIRTUAL_FILL: {
        const auto args = at<DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL>(payload);
        std::vector<std::byte> data(args.FillSizeInBytes);
        for (size_t i = 0; i < data.size(); i += sizeof(args.FillPattern)) {
          std::memcpy(data.data() + i, &args.FillPattern,
                      std::min(sizeof(args.FillPattern), data.size() - i));
        }
        return write(root, args.DestinationVirtualAddress, data);
      }
      case DXGK_OPERATION_UPDATE_PAGE_TABLE:
        return run_update(root, payload);
      case DXGK_OPERATION_FLUSH_TLB: {
        const auto args = at<DXGK_BUILDPAGINGBUFFER_FLUSHTLB>(payload);
        flush(of_abi(args.RootPageTableAddress), args.StartVirtualAddress, args.EndVirtualAddress);
        return std::nullopt;
      }
      case DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES:
        for (size_t i = 0; i < payload.size(); i += sizeof(DXGK_BUILDPAGINGBUFFER_COPY_RANGE)) {
          const auto range = at<DXGK_BUILDPAGINGBUFFER_COPY_RANGE>(payload, i);
          std::vector<std::byte> data(range.NumPageTableEntries * kEntryBytes);
          if (std::optional<Fault> fault = read(
                  root, range.SrcPageTableAddress + range.SrcStartPteIndex * kEntryBytes, data)) {
            return fault;
          }
          if (std::optional<Fault> fault = write(
                  root, range.DstPageTableAddress + range.DstStartPteIndex * kEntryBytes, data)) {
            return fault;
          }
        }
        return std::nullopt;
      case DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION: {
        const auto va = at<uint64_t>(payload);
        return write(root, va, payload.subspan(sizeof(va)));
      }
      default:
        DXGKIT_CHECK(false);
    }
  }

  std::optional<Fault> run_update(const port::RootPageTable& root,
                                  std::span<const std::byte> payload) {
    const auto head = at<UpdateHead>(payload);
    for (uint32_t i = 0; i < head.count; ++i) {
      const std::span<const std::byte> one =
          payload.subspan(sizeof(head) + (head.repeat != 0 ? 0 : i) * kEntryBytes, kEntryBytes);
      const uint64_t offset = (uint64_t{head.first} + i) * kEntryBytes;
      if (head.by_va != 0) {
        if (std::optional<Fault> fault = write(root, head.table_va + offset, one)) return fault;
        continue;
      }
      std::byte* const where =
          memory({SegmentId{head.table_segment}, head.table_offset + offset}, kEntryBytes);
      if (where == nullptr) {
        return Fault{head.table_offset + offset, 0, true,
                     fmt::format("no memory for a table in segment {}", head.table_segment)};
      }
      std::memcpy(where, one.data(), kEntryBytes);
    }
    return std::nullopt;
  }

  /// Aperture mappings; what else is physical has no meaning here.
  void run_physical(const PagingCall& call) {
    const DXGKARG_BUILDPAGINGBUFFER& args = call.args;
    switch (args.Operation) {
      case DXGK_OPERATION_MAP_APERTURE_SEGMENT:
        map(args.MapApertureSegment.SegmentId, args.MapApertureSegment.OffsetInPages,
            args.MapApertureSegment.NumberOfPages, call.source_pages,
            args.MapApertureSegment.MdlOffset);
        return;
      case DXGK_OPERATION_MAP_APERTURE_SEGMENT2:
        map(args.MapApertureSegment2.SegmentId, args.MapApertureSegment2.OffsetInPages,
            args.MapApertureSegment2.NumberOfPages, call.source_pages,
            args.MapApertureSegment2.AdlOffset);
        return;
      case DXGK_OPERATION_UNMAP_APERTURE_SEGMENT:
        for (uint64_t i = 0; i < args.UnmapApertureSegment.NumberOfPages; ++i) {
          storage(args.UnmapApertureSegment.SegmentId)
              ->frames.erase(args.UnmapApertureSegment.OffsetInPages + i);
        }
        return;
      default:
        return;
    }
  }

  void map(uint32_t segment, uint64_t first, uint64_t count, const std::vector<uint64_t>& pages,
           uint64_t skipped) {
    State::Storage* const where = storage(segment);
    DXGKIT_CHECK(where != nullptr && where->start == nullptr);
    for (uint64_t i = 0; i < count; ++i) where->frames[first + i] = pages.at(skipped + i);
  }

  // --- building
  /// Tables the processor writes.
  void write_by_cpu(const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE& args) {
    auto* const table = static_cast<std::byte*>(args.PageTableAddress.CpuVirtual);
    for (UINT i = 0; i < args.NumPageTableEntries; ++i) {
      const TableEntry made = to_hardware(args.pPageTableEntries[args.Flags.Repeat != 0 ? 0 : i],
                                          args.DriverProtection);
      std::memcpy(table + (uint64_t{args.StartIndex} + i) * kEntryBytes, &made, sizeof(made));
    }
  }

  NTSTATUS build_update(DXGKARG_BUILDPAGINGBUFFER* args) {
    const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE update = args->UpdatePageTable;
    if (update.UpdateMode == DXGK_PAGETABLEUPDATE_CPU_VIRTUAL) {
      write_by_cpu(update);
      return status_of(Status::kSuccess);
    }
    UpdateHead head;
    head.by_va = update.UpdateMode == DXGK_PAGETABLEUPDATE_GPU_VIRTUAL ? 1 : 0;
    if (head.by_va != 0) {
      head.table_va = update.PageTableAddress.GpuVirtual;
    } else {
      head.table_segment = update.PageTableAddress.GpuPhysical.SegmentId;
      head.table_offset = update.PageTableAddress.GpuPhysical.SegmentOffset;
    }
    head.repeat = update.Flags.Repeat;
    const uint64_t fixed = sizeof(CommandHead) + align_up(sizeof(head), uint64_t{16});
    while (args->MultipassOffset < update.NumPageTableEntries) {
      const UINT left = update.NumPageTableEntries - args->MultipassOffset;
      const uint64_t room = args->DmaSize < fixed ? 0 : (args->DmaSize - fixed) / kEntryBytes;
      if (room == 0) return status_of(Status::kGraphicsInsufficientDmaBuffer);
      head.first = update.StartIndex + args->MultipassOffset;
      head.count = head.repeat != 0 ? left : static_cast<uint32_t>(std::min<uint64_t>(left, room));
      std::vector<std::byte> payload = bytes_of(head);
      const uint32_t in_payload = head.repeat != 0 ? 1 : head.count;
      for (uint32_t i = 0; i < in_payload; ++i) {
        const DXGK_PTE& pte =
            update.pPageTableEntries[head.repeat != 0 ? 0 : args->MultipassOffset + i];
        append(&payload, to_hardware(pte, update.DriverProtection));
      }
      DXGKIT_CHECK(emit(args, payload));
      args->MultipassOffset += head.count;
    }
    return status_of(Status::kSuccess);
  }
};

}  // namespace dxgkit::testing
