// GPU virtual addresses for the scripted miniport: an MMU that walks real tables, with a TLB, and
// engines that run through it.
//
//   ScriptedMiniport miniport;
//   ScriptedGpuVa gpu(miniport, machine, GpuVaConfig::gpu_physical_four_level());
//   ... start the adapter, map something at `va` of the only process ...
//   const auto walk = gpu.walk(gpu.last_process(), va);
//   EXPECT_TRUE(walk.valid);
//   EXPECT_EQ(walk.place, (port::GpuPhysicalAddress{SegmentId{1}, 0x4000}));
//   gpu.write(gpu.last_process(), buffer_va, gpu_commands({GpuCommand::write(va, 7)}));
//   ... submit buffer_va; miniport.complete_next(0): the engine runs it, then reports it ...
//
// The driver keeps nothing of what a table says: tables are where the kernel put them, in system
// memory or in a segment, in the format of TableEntry. Paging buffers hold real commands: entries
// are copied into them while they are built, and an update that does not fit is continued by
// MultipassOffset. A buffer is fetched through the root of its context when its fence is completed
// (or at submission, with `run_at_submit`): what is not mapped by then faults, as DMA_PAGE_FAULTED.
//
// Takes over these hooks: build_paging, create_process, destroy_process, create_device,
// create_context, destroy_context, query_adapter_info, submit, reset_from_timeout, execute; and
// config.caps, config.table. Config.record stays on.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bus/machine.h"
#include "port/gpu_va_types.h"
#include "runtime/sync.h"
#include "tests/support/scripted_miniport.h"

namespace dxgkit::testing {

/// What the scripted MMU is. Changed before Driver::load.
struct GpuVaConfig {
  port::PageTableUpdateMode update_mode = port::PageTableUpdateMode::kGpuPhysical;
  uint32_t va_bits = 48;
  std::vector<port::PageTableLevelDesc> levels;  // [0]: leaf
  bool read_only = true, no_execute = true, zero_in_pte = true, cache_coherent = true;
  bool large_page = false, update_needs_idle = false, explicit_invalidation = false;
  /// Buffers run when they are submitted, not when the test completes them.
  bool run_at_submit = false;
  /// Without it every access walks: for tests that are not about FlushTlb.
  bool cache_translations = true;
  /// DmaBufferPrivateDataSize of contexts with virtual addressing.
  uint32_t private_bytes = 64;
  /// Change the answer to GPUMMUCAPS last.
  std::function<void(DXGK_GPUMMUCAPS&)> caps;
  /// Reserved for the driver in each process but the paging process (VA-09).
  struct Reservation {
    uint64_t size = 0, base = 0;
    uint32_t alignment = 0;
    bool user_mappable = false;
  };
  std::vector<Reservation> reservations;

  /// Leaf and root of one page each, in system memory: 1 GiB of addresses.
  static GpuVaConfig cpu_virtual_two_level();
  /// The same with a root that grows beyond a page, in a segment: 32 GiB of addresses. The paging
  /// process stays in system memory, with the root of one page.
  static GpuVaConfig two_level(port::PageTableUpdateMode mode, uint32_t segment);
  /// 48 bits in four levels, tables in a segment, by default the hidden one; those of the paging
  /// process in system memory.
  static GpuVaConfig gpu_physical_four_level(uint32_t segment = 2);
};

/// An entry of a page table as this hardware reads it: 512 of them are a page.
struct TableEntry {
  /// Bits 0..10 as in DXGK_PTE, bits 12..39 of the address, low 23 bits of the driver protection,
  /// bit 63 as in the driver protection.
  uint64_t word = 0;
  uint64_t flags() const { return word & 0x7FF; }
  uint64_t address() const { return word & 0xFF'FFFF'F000; }
  uint64_t driver_protection() const {
    return (word >> 40 & 0x7F'FFFF) | (word & gpuva::kUniqueDriverProtection);
  }
};
static_assert(sizeof(TableEntry) == 8);

/// One command of a user buffer, which is an array of them up to its end or kEnd.
struct GpuCommand {
  enum Op : uint64_t { kEnd, kWrite, kRead, kCopy, kExecute };
  uint64_t op = kEnd;
  uint64_t va = 0;     // eight bytes are accessed
  uint64_t value = 0;  // kWrite: written; kCopy: virtual address it comes from
  static GpuCommand write(uint64_t va, uint64_t value) { return {kWrite, va, value}; }
  static GpuCommand read(uint64_t va) { return {kRead, va, 0}; }
  static GpuCommand copy(uint64_t from, uint64_t to) { return {kCopy, to, from}; }
  static GpuCommand execute(uint64_t va) { return {kExecute, va, 0}; }
};
/// The bytes of a buffer.
std::vector<std::byte> gpu_commands(std::initializer_list<GpuCommand> commands);

/// Where a virtual address leads.
struct GpuWalk {
  bool valid = false;  // translates; false: an access faults
  bool zero = false;   // valid, and reads give 0
  bool writable = false, executable = false, cache_coherent = false;
  port::GpuPhysicalAddress place;  // of the byte; not with `zero`
  std::byte* cpu = nullptr;        // the byte; null with `zero`, or when the place does not exist
  uint64_t driver_protection = 0;  // as far as TableEntry has it
  uint32_t level = 0;              // of the last entry that was read
  std::string why;                 // not valid: what was found
};

/// All that the tables of a process say.
struct GpuTables {
  /// Every page that translates, by address, from start to start (large pages: once).
  std::map<uint64_t, GpuWalk> pages;
  /// Every table that is pointed at, the root last; by level.
  std::map<uint32_t, std::vector<port::GpuPhysicalAddress>> tables;
};

/// DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE as it came, with its entries.
struct TableUpdateCall {
  DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE args{};  // pointers are dead
  std::vector<port::PageTableEntry> entries, entries_64kb;
  bool by_cpu = false;  // pDmaBuffer was NULL
};
struct VirtualSubmitCall {
  DXGKARG_SUBMITCOMMANDVIRTUAL args{};
  std::vector<std::byte> private_data;
};
/// Everything that is about virtual addresses, in order per kind. BuildPagingBuffer kinds are
/// counted once each, however many passes they took.
struct GpuVaCalls {
  std::vector<TableUpdateCall> updates;
  std::vector<DXGK_BUILDPAGINGBUFFER_FLUSHTLB> flushes;
  std::vector<DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL> transfers;
  std::vector<DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL> fills;
  std::vector<std::vector<DXGK_BUILDPAGINGBUFFER_COPY_RANGE>> copies;
  std::vector<DXGKARG_SETROOTPAGETABLE> roots;
  std::vector<DXGKARG_GETROOTPAGETABLESIZE> root_sizes;
  std::vector<VirtualSubmitCall> submits;
  std::vector<DXGKARG_VALIDATESUBMITCOMMAND> validations;
  std::vector<DXGKARG_CREATEPROCESS> processes;  // as given
  std::vector<DXGKARG_CREATEDEVICE> devices;     // as given
  /// The answers to GpuVaConfig::reservations: status and start.
  std::vector<std::pair<NTSTATUS, uint64_t>> reservations;
};
struct GpuRead {
  void* context = nullptr;
  uint64_t va = 0, value = 0;
};
struct GpuFault {
  void* context = nullptr;
  uint32_t node = 0, fence = 0;
  uint64_t va = 0;
  bool write = false, paging = false;
  std::string why;
};

/// Any thread; records are guarded. Must outlive the driver, and the miniport must outlive it.
class ScriptedGpuVa {
 public:
  ScriptedGpuVa(ScriptedMiniport& miniport, bus::Machine& machine,
                GpuVaConfig config = GpuVaConfig::gpu_physical_four_level());
  ~ScriptedGpuVa();
  ScriptedGpuVa(const ScriptedGpuVa&) = delete;
  ScriptedGpuVa& operator=(const ScriptedGpuVa&) = delete;

  GpuVaConfig config;
  /// Instead of the default, which accepts; any time.
  std::function<NTSTATUS(const DXGKARG_SUBMITCOMMANDVIRTUAL*)> on_submit;
  std::function<NTSTATUS(DXGKARG_VALIDATESUBMITCOMMAND*)> on_validate;  // set before load: the
                                                                        // entry is there
  std::function<NTSTATUS(DXGKARG_BUILDPAGINGBUFFER*)> on_build;
  std::function<SIZE_T(const DXGKARG_GETROOTPAGETABLESIZE*)> on_root_size;
  std::function<void(DXGKARG_CREATEPROCESS*)> on_create_process;  // after the reservations
  /// For on_submit and on_build.
  NTSTATUS default_submit_virtual(const DXGKARG_SUBMITCOMMANDVIRTUAL* args);
  NTSTATUS default_build(DXGKARG_BUILDPAGINGBUFFER* args);

  /// A context somebody else makes, of a device made here; so that it can have a root.
  void adopt_context(void* context, void* device);
  void forget_context(void* context);

  // --- who is there: the driver's handles
  void* system_process() const;
  /// Of those that live and are not the paging process, the youngest; null if there is none.
  void* last_process() const;
  std::vector<void*> processes() const;  // oldest first
  /// The kernel's handle of a process: hDxgkProcess.
  void* kernel_handle(void* process) const;
  void* process_of(void* context) const;
  std::vector<void*> contexts() const;  // those with a root, oldest first

  // --- the tables, from the root last set for any context of the process
  std::optional<port::RootPageTable> root_of(void* process) const;
  GpuWalk walk(void* process, uint64_t va) const;
  GpuWalk walk(const port::RootPageTable& root, uint64_t va) const;
  /// Reads all entries: to compare with what should be there. Empty without a root.
  GpuTables tables_of(void* process) const;
  /// An entry as it is in memory; `table`: of any level.
  std::optional<TableEntry> entry(const port::GpuPhysicalAddress& table, uint64_t index) const;
  /// The processor's way in, through the tables and past protections and TLB. False, nothing
  /// moved: some byte has no place.
  bool write(void* process, uint64_t va, std::span<const std::byte> data);
  bool write(void* process, uint64_t va, uint64_t value);
  bool read(void* process, uint64_t va, std::span<std::byte> data) const;
  uint64_t read(void* process, uint64_t va) const;  // 0xDEAD'DEAD'DEAD'DEAD where there is nothing
  /// Bytes of a segment, or of system memory; null outside.
  std::byte* memory(const port::GpuPhysicalAddress& address, uint64_t bytes) const;

  /// Power goes: memory of segments reads 0, apertures show nothing, nothing is cached, nothing
  /// submitted will run. The driver still knows its roots.
  void lose_power();

  // --- what happened
  GpuVaCalls calls() const;
  void clear_calls();
  std::vector<GpuRead> reads() const;
  std::vector<GpuFault> faults() const;
  /// Paging commands carried out.
  uint64_t executed() const;
  /// Translations in the TLB of a root.
  size_t cached(const port::GpuPhysicalAddress& root) const;

  struct Entries;  // the Win64 functions
 private:
  friend struct Entries;
  struct Submission;
  struct Engine;
  struct State;

  void take_over();
  NTSTATUS answer_query(const DXGKARG_QUERYADAPTERINFO* args);
  NTSTATUS create_process(DXGKARG_CREATEPROCESS* args);
  bool execute(uint32_t node, uint32_t fence);

  ScriptedMiniport& miniport_;
  bus::Machine& machine_;
  mutable runtime::Mutex lock_;
  std::unique_ptr<State> state_ DXGKIT_GUARDED_BY(lock_);
};

}  // namespace dxgkit::testing
