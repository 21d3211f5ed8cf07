#include "tests/support/scripted_gpu_va.h"

#include <algorithm>
#include <cstring>

#include "tests/support/scripted_gpu_va_engine.h"

namespace dxgkit::testing {
namespace {

constexpr uint64_t kNothing = 0xDEAD'DEAD'DEAD'DEAD;

port::PageTableLevelDesc level(uint32_t bits, uint32_t segment, uint32_t bytes) {
  return {.index_bits = bits,
          .segment = segment,
          .paging_process_segment = 0,
          .table_bytes = bytes,
          .table_alignment_bytes = 4096};
}

}  // namespace

GpuVaConfig GpuVaConfig::cpu_virtual_two_level() {
  GpuVaConfig config;
  config.update_mode = PageTableUpdateMode::kCpuVirtual;
  config.va_bits = 30;
  config.levels = {level(9, 0, 4096), level(0, 0, 0)};
  return config;
}

GpuVaConfig GpuVaConfig::two_level(PageTableUpdateMode mode, uint32_t segment) {
  GpuVaConfig config;
  config.update_mode = mode;
  config.va_bits = 35;
  config.levels = {level(9, segment, 4096), level(0, segment, 0)};
  return config;
}

GpuVaConfig GpuVaConfig::gpu_physical_four_level(uint32_t segment) {
  GpuVaConfig config;
  config.levels.assign(4, level(9, segment, 4096));
  return config;
}

std::vector<std::byte> gpu_commands(std::initializer_list<GpuCommand> commands) {
  std::vector<std::byte> bytes;
  for (const GpuCommand& command : commands) append(&bytes, command);
  return bytes;
}

/// The entries that only this face has; hAdapter is the miniport.
struct ScriptedGpuVa::Entries {
  static ScriptedGpuVa& self(const void* adapter, const char* ddi) {
    auto& miniport = *static_cast<ScriptedMiniport*>(const_cast<void*>(adapter));
    miniport.note(ddi);
    return *static_cast<ScriptedGpuVa*>(miniport.extension);
  }
  static void NTAPI set_root(void* adapter, const DXGKARG_SETROOTPAGETABLE* args) {
    ScriptedGpuVa& me = self(adapter, "DxgkDdiSetRootPageTable");
    runtime::MutexLock lock(me.lock_);
    State& state = *me.state_;
    state.calls.roots.push_back(*args);
    State::Context* const context = state.context(args->hContext);
    DXGKIT_CHECK(context != nullptr);
    const port::RootPageTable root{of_abi(args->Address), args->NumEntries};
    Engine engine{me, state};
    if (context->root.has_value()) engine.flush(context->root->address, 0, 0);
    engine.flush(root.address, 0, 0);
    context->root = root;
    State::Process* const process = state.process(context->process);
    // What the kernel runs in a process's name has another space (VA-34).
    if (process != nullptr && context->system == process->system) process->root = root;
  }
  static SIZE_T NTAPI root_size(void* adapter, DXGKARG_GETROOTPAGETABLESIZE* args) {
    ScriptedGpuVa& me = self(adapter, "DxgkDdiGetRootPageTableSize");
    {
      runtime::MutexLock lock(me.lock_);
      me.state_->calls.root_sizes.push_back(*args);
    }
    if (me.on_root_size) return me.on_root_size(args);
    return align_up(std::max<uint64_t>(args->NumberOfPte, 1) * kEntryBytes, kPageBytes);
  }
  static NTSTATUS NTAPI submit(void* adapter, const DXGKARG_SUBMITCOMMANDVIRTUAL* args) {
    ScriptedGpuVa& me = self(adapter, "DxgkDdiSubmitCommandVirtual");
    {
      const auto* data = static_cast<const std::byte*>(args->pDmaBufferPrivateData);
      VirtualSubmitCall call{*args, {}};
      if (args->DmaBufferPrivateDataSize != 0)
        call.private_data.assign(data, data + args->DmaBufferPrivateDataSize);
      runtime::MutexLock lock(me.lock_);
      me.state_->calls.submits.push_back(std::move(call));
    }
    const NTSTATUS status = me.on_submit ? me.on_submit(args) : me.default_submit_virtual(args);
    // SUB-29: what is refused is done, once what came before is.
    if (status != status_of(Status::kSuccess) &&
        me.miniport_.outstanding(args->NodeOrdinal).empty())
      me.miniport_.retire(args->NodeOrdinal, args->SubmissionFenceId);
    return status;
  }
  static NTSTATUS NTAPI validate(void* adapter, DXGKARG_VALIDATESUBMITCOMMAND* args) {
    ScriptedGpuVa& me = self(adapter, "DxgkDdiValidateSubmitCommand");
    {
      runtime::MutexLock lock(me.lock_);
      me.state_->calls.validations.push_back(*args);
    }
    return me.on_validate(args);
  }
};

ScriptedGpuVa::ScriptedGpuVa(ScriptedMiniport& miniport, bus::Machine& machine, GpuVaConfig wanted)
    : config(std::move(wanted)),
      miniport_(miniport),
      machine_(machine),
      state_(std::make_unique<State>()) {
  DXGKIT_CHECK(miniport.extension == nullptr);
  miniport.extension = this;
  take_over();
}

ScriptedGpuVa::~ScriptedGpuVa() {
  ScriptedMiniport::Hooks& hooks = miniport_.hooks;
  hooks.build_paging = nullptr;
  hooks.create_process = nullptr;
  hooks.destroy_process = nullptr;
  hooks.create_device = nullptr;
  hooks.create_context = nullptr;
  hooks.destroy_context = nullptr;
  hooks.query_adapter_info = nullptr;
  hooks.submit = nullptr;
  hooks.reset_from_timeout = nullptr;
  hooks.execute = nullptr;
  miniport_.extension = nullptr;
}

void ScriptedGpuVa::take_over() {
  miniport_.config.version =
      std::max<uint32_t>(miniport_.config.version, DXGKDDI_INTERFACE_VERSION_WDDM2_0);
  miniport_.config.caps = [](DXGK_DRIVERCAPS& caps) {
    caps.MemoryManagementCaps.VirtualAddressingSupported = 1;
    caps.MemoryManagementCaps.GpuMmuSupported = 1;
  };
  miniport_.config.table = [this](DRIVER_INITIALIZATION_DATA& table) {
    table.DxgkDdiSetRootPageTable =
        reinterpret_cast<decltype(table.DxgkDdiSetRootPageTable)>(&Entries::set_root);
    table.DxgkDdiSubmitCommandVirtual =
        reinterpret_cast<decltype(table.DxgkDdiSubmitCommandVirtual)>(&Entries::submit);
    if (config.levels.size() == 2) {
      table.DxgkDdiGetRootPageTableSize =
          reinterpret_cast<decltype(table.DxgkDdiGetRootPageTableSize)>(&Entries::root_size);
    }
    if (on_validate) {
      table.DxgkDdiValidateSubmitCommand =
          reinterpret_cast<decltype(table.DxgkDdiValidateSubmitCommand)>(&Entries::validate);
    }
  };
  ScriptedMiniport::Hooks& hooks = miniport_.hooks;
  hooks.query_adapter_info = [this](const DXGKARG_QUERYADAPTERINFO* args) {
    return answer_query(args);
  };
  hooks.create_process = [this](DXGKARG_CREATEPROCESS* args) { return create_process(args); };
  hooks.destroy_process = [this](void* process) {
    {
      runtime::MutexLock lock(lock_);
      std::erase_if(state_->processes, [&](const auto& one) { return one.handle == process; });
    }
    return miniport_.default_destroy_process(process);
  };
  hooks.create_device = [this](DXGKARG_CREATEDEVICE* args) {
    {
      runtime::MutexLock lock(lock_);
      state_->calls.devices.push_back(*args);
    }
    void* const process = args->hKmdProcess;
    const NTSTATUS status = miniport_.default_create_device(args);
    runtime::MutexLock lock(lock_);
    state_->device_process[args->hDevice] = process;
    return status;
  };
  hooks.create_context = [this](void* device, DXGKARG_CREATECONTEXT* args) {
    const bool is_virtual = args->Flags.VirtualAddressing != 0;
    const NTSTATUS status = miniport_.default_create_context(device, args);
    if (is_virtual) args->ContextInfo.DmaBufferPrivateDataSize = config.private_bytes;
    args->ContextInfo.Caps.NoPatchingRequired = is_virtual ? 1 : 0;
    runtime::MutexLock lock(lock_);
    state_->contexts.push_back({args->hContext, state_->device_process[device], std::nullopt,
                                args->Flags.SystemContext != 0});
    return status;
  };
  hooks.destroy_context = [this](void* context) {
    {
      runtime::MutexLock lock(lock_);
      std::erase_if(state_->contexts, [&](const auto& one) { return one.handle == context; });
    }
    return miniport_.default_destroy_context(context);
  };
  hooks.build_paging = [this](DXGKARG_BUILDPAGINGBUFFER* args) {
    return on_build ? on_build(args) : default_build(args);
  };
  hooks.submit = [this](const DXGKARG_SUBMITCOMMAND* args) {
    Submission submission;
    submission.context = args->hContext;
    submission.node = args->NodeOrdinal;
    submission.fence = args->SubmissionFenceId;
    submission.paging = args->Flags.Paging != 0;
    submission.segment = SegmentId{args->DmaBufferSegmentId};
    submission.address = static_cast<uint64_t>(args->DmaBufferPhysicalAddress.QuadPart) +
                         args->DmaBufferSubmissionStartOffset;
    if (submission.segment != kSystemMemory)
      submission.address -= miniport_.config.segments.at(args->DmaBufferSegmentId - 1).base_address;
    submission.bytes = args->DmaBufferSubmissionEndOffset - args->DmaBufferSubmissionStartOffset;
    if (submission.paging) {
      runtime::MutexLock lock(lock_);
      state_->submissions[{submission.node, submission.fence}] = submission;
    }
    return miniport_.default_submit(args);
  };
  hooks.reset_from_timeout = [this] {
    {
      runtime::MutexLock lock(lock_);
      state_->submissions.clear();
      state_->tlb.clear();
    }
    miniport_.forget_outstanding();
    return status_of(Status::kSuccess);
  };
  hooks.execute = [this](uint32_t node, uint32_t fence) { return execute(node, fence); };
}

NTSTATUS ScriptedGpuVa::answer_query(const DXGKARG_QUERYADAPTERINFO* args) {
  if (args->Type == DXGKQAITYPE_GPUMMUCAPS) {
    DXGK_GPUMMUCAPS caps;
    std::memset(&caps, 0, sizeof(caps));
    caps.ReadOnlyMemorySupported = config.read_only ? 1 : 0;
    caps.NoExecuteMemorySupported = config.no_execute ? 1 : 0;
    caps.ZeroInPteSupported = config.zero_in_pte ? 1 : 0;
    caps.CacheCoherentMemorySupported = config.cache_coherent ? 1 : 0;
    caps.LargePageSupported = config.large_page ? 1 : 0;
    caps.PageTableUpdateRequireAddressSpaceIdle = config.update_needs_idle ? 1 : 0;
    caps.ExplicitPageTableInvalidation = config.explicit_invalidation ? 1 : 0;
    caps.PageTableUpdateMode = static_cast<DXGK_PAGETABLEUPDATEMODE>(config.update_mode);
    caps.VirtualAddressBitCount = config.va_bits;
    caps.PageTableLevelCount = static_cast<UINT>(config.levels.size());
    if (config.caps) config.caps(caps);
    if (args->OutputDataSize < sizeof(caps)) return status_of(Status::kBufferTooSmall);
    std::memcpy(args->pOutputData, &caps, sizeof(caps));
    return status_of(Status::kSuccess);
  }
  if (args->Type == DXGKQAITYPE_PAGETABLELEVELDESC) {
    const auto* in = static_cast<const DXGK_QUERYPAGETABLELEVELDESCIN*>(args->pInputData);
    if (in->LevelIndex >= config.levels.size()) return status_of(Status::kInvalidParameter);
    const port::PageTableLevelDesc& level = config.levels[in->LevelIndex];
    auto* out = static_cast<DXGK_PAGE_TABLE_LEVEL_DESC*>(args->pOutputData);
    out->PageTableIndexBitCount = level.index_bits;
    out->PageTableSegmentId = level.segment;
    out->PagingProcessPageTableSegmentId = level.paging_process_segment;
    out->PageTableSizeInBytes = level.table_bytes;
    out->PageTableAlignmentInBytes = level.table_alignment_bytes;
    return status_of(Status::kSuccess);
  }
  return miniport_.default_query_adapter_info(args);
}

NTSTATUS ScriptedGpuVa::create_process(DXGKARG_CREATEPROCESS* args) {
  {
    runtime::MutexLock lock(lock_);
    state_->calls.processes.push_back(*args);
  }
  void* const kernel = args->hDxgkProcess;
  const bool system = args->Flags.SystemProcess != 0;
  if (!system) {
    for (const GpuVaConfig::Reservation& wanted : config.reservations) {
      DXGKARGCB_RESERVEGPUVIRTUALADDRESSRANGE range;
      std::memset(&range, 0, sizeof(range));
      range.hDxgkProcess = kernel;
      range.SizeInBytes = wanted.size;
      range.Alignment = wanted.alignment;
      range.BaseAddress = wanted.base;
      range.AllowUserModeMapping = wanted.user_mappable ? 1 : 0;
      const DXGKRNL_INTERFACE& callbacks = miniport_.callbacks();
      const NTSTATUS status =
          callbacks.DxgkCbReserveGpuVirtualAddressRange(callbacks.DeviceHandle, &range);
      runtime::MutexLock lock(lock_);
      state_->calls.reservations.emplace_back(status, range.StartVirtualAddress);
    }
  }
  if (on_create_process) on_create_process(args);
  const NTSTATUS status = miniport_.default_create_process(args);
  runtime::MutexLock lock(lock_);
  state_->processes.push_back({args->hKmdProcess, kernel, system, std::nullopt});
  return status;
}

NTSTATUS ScriptedGpuVa::default_build(DXGKARG_BUILDPAGINGBUFFER* args) {
  const bool first = args->MultipassOffset == 0;
  const auto record = [&](auto& list, const auto& one) {
    if (first) list.push_back(one);
  };
  const auto answer = [&](std::span<const std::byte> payload) {
    return status_of(emit(args, payload) ? Status::kSuccess
                                         : Status::kGraphicsInsufficientDmaBuffer);
  };
  runtime::MutexLock lock(lock_);
  GpuVaCalls& calls = state_->calls;
  switch (args->Operation) {
    case DXGK_OPERATION_UPDATE_PAGE_TABLE: {
      const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE& update = args->UpdatePageTable;
      if (first) {
        TableUpdateCall call{.args = update, .entries = {}, .entries_64kb = {}};
        call.by_cpu = args->pDmaBuffer == nullptr;
        const UINT given = update.Flags.Repeat != 0 ? 1 : update.NumPageTableEntries;
        for (UINT i = 0; i < given; ++i) {
          const DXGK_PTE& pte = update.pPageTableEntries[i];
          call.entries.push_back({pte.Flags, pte.PageAddress});
          if (update.pPageTableEntries64KB != nullptr) {
            const DXGK_PTE& wide = update.pPageTableEntries64KB[i];
            call.entries_64kb.push_back({wide.Flags, wide.PageAddress});
          }
        }
        calls.updates.push_back(std::move(call));
      }
      return Engine{*this, *state_}.build_update(args);
    }
    case DXGK_OPERATION_VIRTUAL_TRANSFER: {
      const NTSTATUS status = answer(bytes_of(args->TransferVirtual));
      if (NT_SUCCESS(status)) record(calls.transfers, args->TransferVirtual);
      return status;
    }
    case DXGK_OPERATION_VIRTUAL_FILL: {
      const NTSTATUS status = answer(bytes_of(args->FillVirtual));
      if (NT_SUCCESS(status)) record(calls.fills, args->FillVirtual);
      return status;
    }
    case DXGK_OPERATION_FLUSH_TLB: {
      const NTSTATUS status = answer(bytes_of(args->FlushTlb));
      if (NT_SUCCESS(status)) record(calls.flushes, args->FlushTlb);
      return status;
    }
    case DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES: {
      const std::vector<DXGK_BUILDPAGINGBUFFER_COPY_RANGE> ranges(
          args->CopyPageTableEntries.pRanges,
          args->CopyPageTableEntries.pRanges + args->CopyPageTableEntries.NumRanges);
      const NTSTATUS status = answer(std::as_bytes(std::span(ranges)));
      if (NT_SUCCESS(status)) record(calls.copies, ranges);
      return status;
    }
    case DXGK_OPERATION_UPDATE_CONTEXT_ALLOCATION: {
      const auto& update = args->UpdateContextAllocation;
      std::vector<std::byte> payload = bytes_of(uint64_t{update.ContextAllocation});
      const auto* data = static_cast<const std::byte*>(update.pDriverPrivateData);
      payload.insert(payload.end(), data, data + update.DriverPrivateDataSize);
      return answer(payload);
    }
    default:
      return miniport_.default_build_paging(args);
  }
}

NTSTATUS ScriptedGpuVa::default_submit_virtual(const DXGKARG_SUBMITCOMMANDVIRTUAL* args) {
  Submission submission;
  submission.context = args->hContext;
  submission.node = args->NodeOrdinal;
  submission.fence = args->SubmissionFenceId;
  submission.paging = args->Flags.Paging != 0;
  submission.by_va = true;
  submission.address = args->DmaBufferVirtualAddress;
  submission.bytes = args->Flags.NullRendering != 0 ? 0 : args->DmaBufferSize;
  {
    runtime::MutexLock lock(lock_);
    state_->submissions[{submission.node, submission.fence}] = submission;
  }
  DXGKARG_SUBMITCOMMAND same;  // as far as the books are concerned
  std::memset(&same, 0, sizeof(same));
  same.NodeOrdinal = args->NodeOrdinal;
  same.SubmissionFenceId = args->SubmissionFenceId;
  if (config.run_at_submit && !execute(submission.node, submission.fence))
    return status_of(Status::kSuccess);  // it has faulted already
  return miniport_.default_submit(&same);
}

bool ScriptedGpuVa::execute(uint32_t node, uint32_t fence) {
  std::optional<Engine::Fault> fault;
  DXGKARGCB_NOTIFY_INTERRUPT_DATA data;
  std::memset(&data, 0, sizeof(data));
  {
    runtime::MutexLock lock(lock_);
    const auto found = state_->submissions.find({node, fence});
    if (found == state_->submissions.end()) return true;  // ran already, or nothing to run
    const Submission submission = found->second;
    state_->submissions.erase(found);
    fault = Engine{*this, *state_}.run(submission);
    if (!fault.has_value()) return true;
    state_->faults.push_back(
        {submission.context, node, fence, fault->va, fault->write, submission.paging, fault->why});
    data.InterruptType = DXGK_INTERRUPT_DMA_PAGE_FAULTED;
    data.DmaPageFaulted.FaultedFenceId = fence;
    data.DmaPageFaulted.FaultedVirtualAddress = fault->va;
    data.DmaPageFaulted.NodeOrdinal = node;
    data.DmaPageFaulted.PageTableLevel = fault->level;
    uint32_t flags = fault->write ? uint32_t{DXGK_PAGE_FAULT_WRITE} : 0;
    if (miniport_.config.version >= DXGKDDI_INTERFACE_VERSION_WDDM2_2) {
      flags |= DXGK_PAGE_FAULT_PROCESS_HANDLE_VALID;
      const State::Context* const context = state_->context(submission.context);
      data.DmaPageFaulted.FaultedProcessHandle = context == nullptr ? nullptr : context->process;
    }
    data.DmaPageFaulted.PageFaultFlags = static_cast<DXGK_PAGE_FAULT_FLAGS>(flags);
  }
  miniport_.retire(node, fence);
  miniport_.raise(data);
  return false;
}

void ScriptedGpuVa::adopt_context(void* context, void* device) {
  runtime::MutexLock lock(lock_);
  state_->contexts.push_back({context, state_->device_process[device], std::nullopt, false});
}

void ScriptedGpuVa::forget_context(void* context) {
  runtime::MutexLock lock(lock_);
  std::erase_if(state_->contexts, [&](const auto& one) { return one.handle == context; });
}

void* ScriptedGpuVa::system_process() const {
  runtime::MutexLock lock(lock_);
  for (const State::Process& process : state_->processes) {
    if (process.system) return process.handle;
  }
  return nullptr;
}

std::vector<void*> ScriptedGpuVa::processes() const {
  runtime::MutexLock lock(lock_);
  std::vector<void*> all;
  for (const State::Process& process : state_->processes) {
    if (!process.system) all.push_back(process.handle);
  }
  return all;
}

void* ScriptedGpuVa::last_process() const {
  const std::vector<void*> all = processes();
  return all.empty() ? nullptr : all.back();
}

void* ScriptedGpuVa::kernel_handle(void* process) const {
  runtime::MutexLock lock(lock_);
  const State::Process* const found = state_->process(process);
  return found == nullptr ? nullptr : found->kernel;
}

void* ScriptedGpuVa::process_of(void* context) const {
  runtime::MutexLock lock(lock_);
  const State::Context* const found = state_->context(context);
  return found == nullptr ? nullptr : found->process;
}

std::vector<void*> ScriptedGpuVa::contexts() const {
  runtime::MutexLock lock(lock_);
  std::vector<void*> all;
  for (const State::Context& context : state_->contexts) {
    if (context.root.has_value()) all.push_back(context.handle);
  }
  return all;
}

std::optional<port::RootPageTable> ScriptedGpuVa::root_of(void* process) const {
  runtime::MutexLock lock(lock_);
  const State::Process* const found = state_->process(process);
  return found == nullptr ? std::nullopt : found->root;
}

GpuWalk ScriptedGpuVa::walk(void* process, uint64_t va) const {
  const std::optional<port::RootPageTable> root = root_of(process);
  if (root.has_value()) return walk(*root, va);
  GpuWalk result;
  result.why = "no context of the process has a root";
  return result;
}

GpuWalk ScriptedGpuVa::walk(const port::RootPageTable& root, uint64_t va) const {
  runtime::MutexLock lock(lock_);
  return Engine{const_cast<ScriptedGpuVa&>(*this), *state_}.walk(root, va);
}

GpuTables ScriptedGpuVa::tables_of(void* process) const {
  GpuTables all;
  const std::optional<port::RootPageTable> root = root_of(process);
  if (!root.has_value()) return all;
  runtime::MutexLock lock(lock_);
  Engine{const_cast<ScriptedGpuVa&>(*this), *state_}.collect(
      root->address, static_cast<uint32_t>(config.levels.size()) - 1, root->entry_count, 0, *root,
      &all);
  return all;
}

void ScriptedGpuVa::lose_power() {
  {
    runtime::MutexLock lock(lock_);
    state_->submissions.clear();
    state_->tlb.clear();
    for (auto& [id, one] : state_->storage) {
      one.frames.clear();
      // MADV_REMOVE empties the file behind a BAR, MADV_DONTNEED private memory.
      if (one.start != nullptr && madvise(one.start, one.size, MADV_REMOVE) != 0)
        DXGKIT_CHECK(madvise(one.start, one.size, MADV_DONTNEED) == 0);
    }
  }
  miniport_.forget_outstanding();
}

std::optional<TableEntry> ScriptedGpuVa::entry(const GpuPhysicalAddress& table,
                                               uint64_t index) const {
  runtime::MutexLock lock(lock_);
  return Engine{const_cast<ScriptedGpuVa&>(*this), *state_}.entry(table, index);
}

std::byte* ScriptedGpuVa::memory(const GpuPhysicalAddress& address, uint64_t bytes) const {
  runtime::MutexLock lock(lock_);
  return Engine{const_cast<ScriptedGpuVa&>(*this), *state_}.memory(address, bytes);
}

bool ScriptedGpuVa::write(void* process, uint64_t va, std::span<const std::byte> data) {
  const std::optional<port::RootPageTable> root = root_of(process);
  if (!root.has_value()) return false;
  for (uint64_t page = va; page < va + data.size();
       page = align_down(page, kPageBytes) + kPageBytes)
    if (walk(*root, page).cpu == nullptr) return false;
  runtime::MutexLock lock(lock_);
  return !Engine{*this, *state_}
              .access(*root, va, data.size(), Engine::Access::kProcessor, nullptr, data.data())
              .has_value();
}

bool ScriptedGpuVa::write(void* process, uint64_t va, uint64_t value) {
  return write(process, va, std::as_bytes(std::span(&value, 1)));
}

bool ScriptedGpuVa::read(void* process, uint64_t va, std::span<std::byte> data) const {
  const std::optional<port::RootPageTable> root = root_of(process);
  if (!root.has_value()) return false;
  runtime::MutexLock lock(lock_);
  return !Engine{const_cast<ScriptedGpuVa&>(*this), *state_}
              .access(*root, va, data.size(), Engine::Access::kProcessor, data.data(), nullptr)
              .has_value();
}

uint64_t ScriptedGpuVa::read(void* process, uint64_t va) const {
  uint64_t value = 0;
  return read(process, va, std::as_writable_bytes(std::span(&value, 1))) ? value : kNothing;
}

GpuVaCalls ScriptedGpuVa::calls() const {
  runtime::MutexLock lock(lock_);
  return state_->calls;
}

void ScriptedGpuVa::clear_calls() {
  runtime::MutexLock lock(lock_);
  state_->calls = {};
  state_->reads.clear();
  state_->faults.clear();
}

std::vector<GpuRead> ScriptedGpuVa::reads() const {
  runtime::MutexLock lock(lock_);
  return state_->reads;
}

std::vector<GpuFault> ScriptedGpuVa::faults() const {
  runtime::MutexLock lock(lock_);
  return state_->faults;
}

uint64_t ScriptedGpuVa::executed() const {
  runtime::MutexLock lock(lock_);
  return state_->executed;
}

size_t ScriptedGpuVa::cached(const GpuPhysicalAddress& root) const {
  runtime::MutexLock lock(lock_);
  return static_cast<size_t>(std::ranges::count_if(state_->tlb, [&](const auto& one) {
    return std::get<0>(one.first) == root.segment.value && std::get<1>(one.first) == root.offset;
  }));
}

}  // namespace dxgkit::testing
