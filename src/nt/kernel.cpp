#include "nt/kernel.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/fixed_memory.h"
#include "nt/executive.h"
#include "nt/kernel_impl.h"
#include "nt/paged.h"
#include "nt/seh.h"
#include "trace/trace.h"

namespace dxgkit::nt {
const char* irql_name(Irql irql) {
  switch (irql) {
    case kPassiveLevel:
      return "PASSIVE_LEVEL";
    case kApcLevel:
      return "APC_LEVEL";
    case kDispatchLevel:
      return "DISPATCH_LEVEL";
    case kHighLevel:
      return "HIGH_LEVEL";
    default:
      return "DIRQL";
  }
}

RegistryValue RegistryValue::dword(uint32_t value) {
  RegistryValue result{4, std::vector<std::byte>(sizeof(value))};
  std::memcpy(result.data.data(), &value, sizeof(value));
  return result;
}

RegistryValue RegistryValue::string(std::u16string_view value) {
  RegistryValue result{1, std::vector<std::byte>((value.size() + 1) * sizeof(char16_t))};
  std::memcpy(result.data.data(), value.data(), value.size() * sizeof(char16_t));
  return result;
}

RegistryValue RegistryValue::binary(std::span<const std::byte> value) {
  return {3, {value.begin(), value.end()}};
}

// --- CallFrame

void CallFrame::end_root_work() {
  const Irql outer = previous_ == nullptr ? kPassiveLevel : previous_->current_irql;
  if (outer < kDispatchLevel) run_dpcs();
}

CallFrame& CallFrame::current() {
  CallFrame* frame = current_or_null();
  DXGKIT_CHECK(frame != nullptr);
  return *frame;
}

Irql CallFrame::raise(Irql irql) {
  const Irql old = current_irql;
  current_irql = std::max(current_irql, irql);
  if (old < kDispatchLevel) at_level(kernel_, irql);
  return old;
}

void CallFrame::lower(Irql irql) {
  current_irql = irql;
  if (irql < kDispatchLevel && root_->dpc_head_ != nullptr) run_dpcs();
}

void CallFrame::abandon() {
  CallFrame* frame = this;
  while (frame != nullptr && !frame->can_abandon_) frame = frame->previous_;
  DXGKIT_CHECK(frame != nullptr);  // the driver was entered without CallFrame::call
  frame->can_abandon_ = false;
  frame->dispatches = nullptr;
  if (frame->whole_host_stack_ != nullptr) frame->raise_host_stack(frame->whole_host_stack_);
  frame->root_->held_count_ = frame->held_at_entry_;
  *frame->slot_ = frame;  // drops inner frames, which were only scopes of nt leaf functions
  forget_driver_stack(*frame);
  runtime::MutexLock::release_below(frame->host_stack());
  dxgkit_nt_leave(frame);
}

void CallFrame::drop_spin_lock(const void* lock) {
  uint32_t& count = root_->held_count_;
  if (count > kHeldLocksMax) {  // one of those without room, as far as one can tell
    --count;
    return;
  }
  for (uint32_t i = count; i-- > 0;) {
    if (root_->held_locks_[i].lock != lock) continue;
    std::copy(root_->held_locks_.begin() + i + 1, root_->held_locks_.begin() + count,
              root_->held_locks_.begin() + i);
    --count;
    return;
  }
}

const CallFrame::HeldLock* CallFrame::held_lock(const void* lock) const {
  const uint32_t count = std::min(root_->held_count_, kHeldLocksMax);
  for (uint32_t i = 0; i < count; ++i) {
    if (root_->held_locks_[i].lock == lock) return &root_->held_locks_[i];
  }
  return nullptr;
}

void CallFrame::report_held_locks() {
  const uint32_t count = std::exchange(root_->held_count_, held_at_entry_);
  for (uint32_t i = held_at_entry_; i < std::min(count, kHeldLocksMax); ++i) {
    const HeldLock held = root_->held_locks_[i];
    kernel_.findings_.report(
        {.rule = "NT-16",
         .severity = verifier::Severity::kViolation,
         .ddi = name_,
         .actual = fmt::format("It returned and holds spin lock {}, acquired at {}.", held.lock,
                               to_text(kernel_, {held.caller, held.ddi})),
         .expected = "A driver releases each spin lock before the call ends in which it took it.",
         .fix = "Release the lock on every path, error paths too.",
         .windows = "The next acquire of the lock spins for ever: a hang, or bug check 0x133.",
         .place = kernel_.place_of(held.caller),
         .dooms = true});
  }
}

bool CallFrame::queue_dpc(Kdpc& dpc, void* argument1, void* argument2) {
  void* expected = nullptr;
  // The same KDPC may be queued from two threads at once; one of them wins.
  if (!__atomic_compare_exchange_n(&dpc.queued, &expected, static_cast<void*>(root_), false,
                                   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    return false;
  }
  dpc.argument1 = argument1;
  dpc.argument2 = argument2;
  dpc.next = nullptr;
  if (root_->dpc_tail_ == nullptr) {
    root_->dpc_head_ = &dpc;
  } else {
    root_->dpc_tail_->next = &dpc;
  }
  root_->dpc_tail_ = &dpc;
  kernel_.impl_->dpcs_outstanding.fetch_add(1, std::memory_order_relaxed);
  trace::emit(trace::EventKind::kDpcQueued);
  if (current_irql < kDispatchLevel) run_dpcs();
  return true;
}

bool CallFrame::remove_dpc(Kdpc& dpc) {
  Kdpc* previous = nullptr;
  for (Kdpc* at = root_->dpc_head_; at != nullptr; previous = at, at = at->next) {
    if (at != &dpc) continue;
    (previous == nullptr ? root_->dpc_head_ : previous->next) = dpc.next;
    if (root_->dpc_tail_ == &dpc) root_->dpc_tail_ = previous;
    __atomic_store_n(&dpc.queued, nullptr, __ATOMIC_RELEASE);
    if (kernel_.impl_->dpcs_outstanding.fetch_sub(1, std::memory_order_acq_rel) == 1)
      kernel_.runtime().wake_all(kernel_.impl_->dpcs_outstanding);
    return true;
  }
  return false;
}

void CallFrame::run_dpcs() {
  CallFrame* const root = root_;
  CallFrame frame(kernel_, "DPC", kDispatchLevel);
  at_level(kernel_, kDispatchLevel);
  while (Kdpc* dpc = root->dpc_head_) {
    root->dpc_head_ = dpc->next;
    if (root->dpc_head_ == nullptr) root->dpc_tail_ = nullptr;
    // The routine may free or queue the KDPC again, so nothing of it is read after this.
    const DeferredRoutine routine = dpc->routine;
    void* const context = dpc->context;
    void* const argument1 = dpc->argument1;
    void* const argument2 = dpc->argument2;
    const uint64_t mask = root->processor_mask_;
    if (dpc->number != 0) root->processor_mask_ = uint64_t{1} << (dpc->number & 63);
    __atomic_store_n(&dpc->queued, nullptr, __ATOMIC_RELEASE);
    if (!kernel_.driver_is_dead()) {
      trace::emit(trace::EventKind::kDpcRun);
      frame.call_void(routine, dpc, context, argument1, argument2);
      if (!frame.abandoned() && frame.irql() != kDispatchLevel) {
        kernel_.violation("IRQL-01", "DPC routine",
                          fmt::format("The DPC routine returned at {}.", irql_name(frame.irql())),
                          "A DPC routine returns at DISPATCH_LEVEL, the level it was called at.",
                          "Pair every raise, lower and spin-lock call in the DPC routine.");
      }
      frame.current_irql = kDispatchLevel;
    }
    root->processor_mask_ = mask;
    if (kernel_.impl_->dpcs_outstanding.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      kernel_.runtime().wake_all(kernel_.impl_->dpcs_outstanding);
    }
  }
}

// --- Kernel

Kernel::Kernel(runtime::Runtime& runtime, bus::Machine& machine, verifier::Findings& findings,
               KernelConfig config)
    : stack_bytes_(static_cast<uint32_t>(
          align_up(uint64_t{std::min(config.driver_stack_bytes, uint32_t{1} << 30)}, kPageBytes))),
      runtime_(runtime),
      machine_(machine),
      findings_(findings),
      config_(std::move(config)),
      impl_(std::make_unique<Impl>(machine)) {
  config_.processors = std::clamp<uint32_t>(config_.processors, 1, 64);
  impl_->number_of_processors = static_cast<uint8_t>(config_.processors);
  findings.begin_machine(&CallLog::lines_of_this_thread);
  impl_->executive = make_executive(impl_->heap, config_);
  sort_free_driver_stacks();
  set_hang_limit(config_.hang_limit);
  if (config_.special_pool) impl_->arena = make_special_arena(impl_->pool_pages);
  if (config_.catch_faults) install_fault_handler();
  make_paged_memory(*this);
  impl_->deadlock_note.emplace([this] {
    const std::string text = describe_waits(*this, std::nullopt, "\n  ");
    return text.empty() ? text : text.substr(1) + "\n";
  });
}

Kernel::~Kernel() {
  quiesce();
  clear_executive(*this);
  free_leaked_memory(*this);
  for (const auto& [address, size] : impl_->trap_pages) unmap_fixed(address, size);
  free_emergency_stacks(*impl_);
  end_paged_memory(*this);
}

void Kernel::quiesce() {
  cancel_all_timers(*this);
  // A driver thread that was not told to end (a leak, or the driver is dead) leaves at its next
  // wait. Its code must not be unmapped under it.
  abandon_waiters(*this);
  for (auto& [pointer, thread] : impl_->threads) {
    if (thread->thread != nullptr) thread->thread->join();
  }
  stop_work(*this);
  impl_->threads.clear();
  impl_->handles.clear();
  impl_->ending.store(0, std::memory_order_relaxed);
}

void Kernel::violation(const char* rule, const char* function, std::string actual,
                       std::string expected, std::string fix) {
  const CallFrame* frame = CallFrame::current_or_null();
  if (frame != nullptr && std::strcmp(frame->name(), function) != 0)
    actual += fmt::format(" (inside {})", frame->name());
  findings_.report({.rule = rule,
                    .severity = verifier::Severity::kViolation,
                    .ddi = function,
                    .actual = std::move(actual),
                    .expected = std::move(expected),
                    .fix = std::move(fix),
                    .place = frame == nullptr ? verifier::Place{} : place_of(frame->caller())});
}

void Kernel::bug_check(const char* rule, const char* function, uint32_t code, uint32_t parameter,
                       std::string actual, std::string expected, std::string fix) {
  bug_check({.rule = rule,
             .severity = verifier::Severity::kBugCheck,
             .ddi = function,
             .actual = std::move(actual),
             .expected = std::move(expected),
             .fix = std::move(fix),
             .bugcheck_code = code,
             .bugcheck_parameter = parameter});
}

void Kernel::bug_check(verifier::Finding&& given) {
  CallFrame& frame = CallFrame::current();
  {
    verifier::Finding finding = std::move(given);  // ends here: nothing is destroyed by abandon
    finding.severity = verifier::Severity::kBugCheck;
    if (finding.place.image.empty()) finding.place = place_of(frame.caller());
    if (finding.ddi != frame.name()) finding.actual += fmt::format(" (inside {})", frame.name());
    findings_.report(finding);
    if (!dead_.exchange(true) && impl_->fatal_handler) impl_->fatal_handler(finding);
  }
  frame.abandon();
}

void Kernel::set_fatal_handler(std::function<void(const verifier::Finding&)> handler) {
  impl_->fatal_handler = std::move(handler);
}

void Kernel::set_initialize_hook(InitializeHook hook) { impl_->initialize_hook = std::move(hook); }

void* Kernel::default_owner() const { return impl_->default_owner.load(std::memory_order_acquire); }
void Kernel::set_default_owner(void* owner) {
  impl_->default_owner.store(owner, std::memory_order_release);
}

void Kernel::flush_dpcs() {
  if (CallFrame* frame = CallFrame::current_or_null();
      frame != nullptr && frame->irql() < kDispatchLevel) {
    if (frame->root_->dpc_head_ != nullptr) frame->run_dpcs();
  }
  for (;;) {
    const uint32_t outstanding = impl_->dpcs_outstanding.load(std::memory_order_acquire);
    if (outstanding == 0) return;
    (void)runtime_.wait(impl_->dpcs_outstanding, outstanding);
  }
}

// --- imports that do not exist

namespace {

DXGKIT_NT_ABI void unresolved_import_called(const UnresolvedImport* import, const void* caller) {
  CallFrame& frame = CallFrame::current();
  Kernel& kernel = frame.kernel();
  if (frame.caller() != nullptr) caller = frame.caller();
  std::string actual;
  {
    const verifier::Place place = kernel.place_of(caller);
    const std::string from = place.image.empty() ? fmt::format("{}", caller)
                                                 : fmt::format("{}+{:#x}", place.image, place.rva);
    actual = fmt::format("{} called {}{}{}, an import that does not exist here, from {}{}{}.",
                         frame.name(), import->name, import->library.empty() ? "" : " of ",
                         import->library, from, place.symbol.empty() ? "" : " ", place.symbol);
  }
  kernel.bug_check(
      "NT-15", import->name.c_str(), 0xD1, 0, std::move(actual),
      "Every function a driver calls is exported by the kernel it runs on.",
      fmt::format("Do not use {} here, or add it to src/nt: `dxgkit support` lists what exists.",
                  import->name));
}

}  // namespace

const void* Kernel::unresolved_import(std::string_view name, std::string_view library) {
  std::string key = fmt::format("{}!{}", library, name);
  if (const auto known = impl_->traps.find(key); known != impl_->traps.end()) return known->second;
  // mov rcx, name ; mov rdx, [rsp] ; mov rax, handler ; and rsp, -16 ; sub rsp, 32 ; call rax
  // (never returns)
  constexpr size_t kStubBytes = 64;
  const size_t index = impl_->trap_imports.size();
  const size_t per_page = kPageBytes / kStubBytes;
  if (index % per_page == 0) {
    void* page = map_fixed(FixedRange::kImages, kPageBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS);
    DXGKIT_CHECK(page != MAP_FAILED);
    std::memset(page, 0xCC, kPageBytes);
    impl_->trap_pages.emplace_back(page, kPageBytes);
  }
  void* const page = impl_->trap_pages.back().first;
  DXGKIT_CHECK(mprotect(page, kPageBytes, PROT_READ | PROT_WRITE) == 0);
  UnresolvedImport& import =
      impl_->trap_imports.emplace_back(std::string(name), std::string(library));
  auto* code = static_cast<uint8_t*>(page) + (index % per_page) * kStubBytes;
  uint8_t* at = code;
  const auto put = [&](std::initializer_list<uint8_t> bytes) {
    at = std::copy(bytes.begin(), bytes.end(), at);
  };
  const auto put_pointer = [&](const void* pointer) {
    std::memcpy(at, &pointer, sizeof(pointer));
    at += sizeof(pointer);
  };
  put({0x48, 0xB9});
  put_pointer(&import);
  put({0x48, 0x8B, 0x14, 0x24});
  put({0x48, 0xB8});
  put_pointer(reinterpret_cast<const void*>(&unresolved_import_called));
  put({0x48, 0x83, 0xE4, 0xF0, 0x48, 0x83, 0xEC, 0x20, 0xFF, 0xD0});
  DXGKIT_CHECK(mprotect(page, kPageBytes, PROT_READ | PROT_EXEC) == 0);
  const void* const trap = door(import.name.c_str(), code, 0);
  impl_->traps.emplace(std::move(key), trap);
  return trap;
}

}  // namespace dxgkit::nt
