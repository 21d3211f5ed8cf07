#include "devices/softgpu/engine.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/arithmetic.h"
#include "trace/trace.h"

namespace dxgkit::softgpu {

Engine::Engine(EngineContext& context, uint32_t node)
    : context_(context), runtime_(context.runtime), node_(node) {
  thread_ = runtime_.spawn("softgpu.node" + std::to_string(node), [this] { run(); });
}

Engine::~Engine() = default;

void Engine::stop() {
  stop_.store(true, std::memory_order_release);
  ring_bell();
  thread_->join();
}

void Engine::lose_power() {
  write(SGPU_NODE_CONTROL, SGPU_CONTROL_RESET);
  // The engine takes the reset on its own thread, and the read lets it get there.
  while ((read(SGPU_NODE_STATUS) & SGPU_STATUS_RESETTING) != 0) {
  }
  const runtime::MutexLock lock(mutex_);
  ring_base_ = 0;
  ring_size_ = 0;
  for (std::atomic<uint32_t>* one :
       {&completed_fence_, &fetched_fence_, &aborted_fence_, &preempt_done_, &preempt_completed_,
        &preempt_fence_, &preempt_offset_}) {
    one->store(0, std::memory_order_release);
  }
  executed_.store(0, std::memory_order_release);
}

void Engine::ring_bell() {
  bell_.fetch_add(1, std::memory_order_acq_rel);
  runtime_.wake_all(bell_);
}

void Engine::semaphore_doorbell() {
  // Read-modify-write on both sides. Either this code sees the flag that sem_wait set, or
  // sem_wait's flag comes later and its first read sees all memory written before this call.
  if (waiting_.fetch_add(0, std::memory_order_acq_rel) != 0) ring_bell();
}

// --- registers

uint32_t Engine::status() const {
  uint32_t status = 0;
  if (enabled_.load(std::memory_order_acquire)) status |= SGPU_STATUS_ENABLED;
  if (busy_.load(std::memory_order_acquire)) status |= SGPU_STATUS_BUSY;
  if (faulted_.load(std::memory_order_acquire)) status |= SGPU_STATUS_FAULTED;
  if (waiting_.load(std::memory_order_acquire) != 0) status |= SGPU_STATUS_WAITING;
  if (reset_requested()) status |= SGPU_STATUS_RESETTING;
  if (preemption_requested()) status |= SGPU_STATUS_PREEMPTING;
  return status;
}

bool Engine::may_access_memory() const {
  if (busy_.load(std::memory_order_acquire)) return true;
  if (faulted_.load(std::memory_order_acquire) || !enabled_.load(std::memory_order_acquire))
    return false;
  return head_.load(std::memory_order_acquire) != tail_.load(std::memory_order_acquire);
}

uint64_t Engine::read(uint32_t offset) {
  switch (offset) {
    case SGPU_NODE_RING_BASE: {
      const runtime::MutexLock lock(mutex_);
      return ring_base_;
    }
    case SGPU_NODE_RING_SIZE: {
      const runtime::MutexLock lock(mutex_);
      return ring_size_;
    }
    case SGPU_NODE_RING_HEAD:
      return head_.load(std::memory_order_acquire);
    case SGPU_NODE_RING_TAIL:
      return tail_.load(std::memory_order_acquire);
    case SGPU_NODE_CONTROL:
      return enabled_.load(std::memory_order_acquire) ? SGPU_CONTROL_ENABLE : 0;
    case SGPU_NODE_STATUS: {
      const uint32_t value = status();
      if ((value & SGPU_STATUS_RESETTING) != 0) {
        // A thread that polls for the end of a reset must let the engine reach it: a stalled read
        // takes a microsecond.
        if (runtime_.is_simulated()) {
          runtime_.consume(runtime::kMicrosecond);
        } else {
          runtime_.yield();
        }
      }
      return value;
    }
    case SGPU_NODE_COMPLETED_FENCE:
      return completed_fence_.load(std::memory_order_acquire);
    case SGPU_NODE_CURRENT_FENCE:
      return current_fence_.load(std::memory_order_acquire);
    case SGPU_NODE_FETCHED_FENCE:
      return fetched_fence_.load(std::memory_order_acquire);
    case SGPU_NODE_PREEMPT_REQUEST:
      return preempt_request_.load(std::memory_order_acquire);
    case SGPU_NODE_PREEMPT_DONE:
      return preempt_done_.load(std::memory_order_acquire);
    case SGPU_NODE_PREEMPT_COMPLETED:
      return preempt_completed_.load(std::memory_order_acquire);
    case SGPU_NODE_PREEMPT_FENCE:
      return preempt_fence_.load(std::memory_order_acquire);
    case SGPU_NODE_PREEMPT_OFFSET:
      return preempt_offset_.load(std::memory_order_acquire);
    case SGPU_NODE_FAULT_REASON:
      return fault_reason_.load(std::memory_order_acquire);
    case SGPU_NODE_FAULT_FENCE:
      return fault_fence_.load(std::memory_order_acquire);
    case SGPU_NODE_FAULT_ADDRESS:
      return fault_address_.load(std::memory_order_acquire);
    case SGPU_NODE_FAULT_OFFSET:
      return fault_offset_.load(std::memory_order_acquire);
    case SGPU_NODE_FAULT_DETAIL:
      return fault_detail_.load(std::memory_order_acquire);
    case SGPU_NODE_FAULT_ROOT:
      return fault_root_.load(std::memory_order_acquire);
    case SGPU_NODE_ABORTED_FENCE:
      return aborted_fence_.load(std::memory_order_acquire);
    case SGPU_NODE_EXECUTED:
      return executed_.load(std::memory_order_acquire);
    default:
      return 0;
  }
}

void Engine::write(uint32_t offset, uint64_t value) {
  const auto word = static_cast<uint32_t>(value);
  switch (offset) {
    case SGPU_NODE_RING_TAIL:
      tail_.store(word, std::memory_order_release);
      ring_bell();
      return;
    case SGPU_NODE_PREEMPT_REQUEST: {
      if (word == 0) return;
      uint32_t none = 0;
      if (preempt_request_.compare_exchange_strong(none, word, std::memory_order_acq_rel))
        ring_bell();
      return;
    }
    case SGPU_NODE_CONTROL:
      if ((word & SGPU_CONTROL_RESET) != 0) {
        enabled_.store(false, std::memory_order_release);
        reset_.store(true, std::memory_order_release);
      } else {
        const runtime::MutexLock lock(mutex_);
        if (reset_requested()) return;
        enabled_.store((word & SGPU_CONTROL_ENABLE) != 0, std::memory_order_release);
      }
      ring_bell();
      return;
    default:
      break;
  }
  // The rest is configuration: writable only at rest.
  const runtime::MutexLock lock(mutex_);
  if (enabled_.load(std::memory_order_acquire)) return;
  if (busy_.load(std::memory_order_acquire)) return;
  if (reset_requested()) return;
  switch (offset) {
    case SGPU_NODE_RING_BASE:
      ring_base_ = value;
      break;
    case SGPU_NODE_RING_SIZE:
      ring_size_ = word;
      break;
    case SGPU_NODE_COMPLETED_FENCE:
      completed_fence_.store(word, std::memory_order_release);
      return;
    default:
      return;
  }
  ring_ = nullptr;
  head_.store(0, std::memory_order_release);
  tail_.store(0, std::memory_order_release);
}

// --- the thread

void Engine::run() {
  while (true) {
    const uint32_t seen = bell_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    if (reset_requested()) {
      take_reset();
      continue;
    }
    if (!faulted_.load(std::memory_order_relaxed)) {
      if (must_give_way()) {
        answer_preemption(0, 0);
        continue;
      }
      SgpuRingEntry entry;
      if (fetch(&entry)) {
        execute(entry);
        continue;
      }
      if (faulted_.load(std::memory_order_relaxed)) continue;
      if (preemption_requested() && context_.faults.preempts_when_idle(node_)) {
        answer_preemption(0, 0);
        continue;
      }
    }
    runtime_.wait(bell_, seen);
  }
}

/// Takes the next entry out of the ring. False if there is none, or if the ring itself is at fault.
bool Engine::fetch(SgpuRingEntry* entry) {
  Fault ring_fault;
  {
    const runtime::MutexLock lock(mutex_);
    if (!enabled_.load(std::memory_order_acquire)) return false;
    const uint32_t tail = tail_.load(std::memory_order_acquire);
    const uint32_t head = head_.load(std::memory_order_relaxed);
    if (head == tail) return false;
    if (ring_ == nullptr) {
      const bool size_ok = is_power_of_two(ring_size_) && ring_size_ >= SGPU_RING_ENTRIES_MIN &&
                           ring_size_ <= SGPU_RING_ENTRIES_MAX;
      if (!size_ok || ring_base_ % sizeof(SgpuRingEntry) != 0) {
        ring_fault = {SGPU_FAULT_RING, ring_base_};
      } else if (ring_base_ >= SGPU_APERTURE_BASE) {
        ring_fault = {SGPU_FAULT_RING, ring_base_};  // must be one piece
      } else if (context_.memory.resolve(ring_base_, uint64_t{ring_size_} * sizeof(SgpuRingEntry),
                                         Access::kRead, source_)) {
        ring_fault = {SGPU_FAULT_RING, ring_base_};
      } else {
        ring_ = source_.contiguous();
      }
    }
    // The head is below the size: it only ever takes checked tails and masked successors.
    if (!ring_fault && tail >= ring_size_) ring_fault = {SGPU_FAULT_RING, 0};
    if (!ring_fault) {
      std::memcpy(entry, ring_ + uint64_t{head} * sizeof *entry, sizeof *entry);
      busy_.store(true, std::memory_order_release);
      current_fence_.store(entry->fence, std::memory_order_release);
      fetched_fence_.store(entry->fence, std::memory_order_release);
      head_.store((head + 1) & (ring_size_ - 1), std::memory_order_release);
      return true;
    }
  }
  virtual_ = false;
  report_fault(ring_fault, 0, 0);
  return false;
}

bool Engine::is_sound(const SgpuRingEntry& entry) const {
  constexpr uint32_t kVirtualOnly = SGPU_EXECUTE_FOUR_LEVELS | SGPU_EXECUTE_PRIVILEGED;
  constexpr uint32_t kFlags =
      SGPU_EXECUTE_NO_INTERRUPT | SGPU_EXECUTE_NULL | SGPU_EXECUTE_VIRTUAL | kVirtualOnly;
  if (entry.type != SGPU_RING_EXECUTE && entry.type != SGPU_RING_FENCE) return false;
  if ((entry.flags & ~kFlags) != 0) return false;
  if (entry.reserved[0] != 0 || entry.reserved[1] != 0 || entry.reserved[2] != 0) return false;
  if (virtual_) return space_.is_sound();
  return entry.root == 0 && entry.root_entries == 0 && (entry.flags & kVirtualOnly) == 0;
}

void Engine::execute(const SgpuRingEntry& entry) {
  if (entry.type == SGPU_RING_NOP) {
    current_fence_.store(0, std::memory_order_release);
    busy_.store(false, std::memory_order_release);
    return;
  }
  virtual_ = (entry.flags & SGPU_EXECUTE_VIRTUAL) != 0;
  privileged_ = !virtual_ || (entry.flags & SGPU_EXECUTE_PRIVILEGED) != 0;
  space_ = {entry.root, entry.root_entries, (entry.flags & SGPU_EXECUTE_FOUR_LEVELS) != 0};
  if (!is_sound(entry)) {
    virtual_ = false;  // no root to blame
    report_fault({SGPU_FAULT_RING, 0}, entry.fence, 0);
    return;
  }
  trace::emit(trace::EventKind::kHardwareStart, 0, 0, entry.fence, 0, static_cast<uint16_t>(node_));
  executing_ = true;
  const EntryFate fate = context_.faults.entry_fate(node_, entry.fence);
  if (fate == EntryFate::kHangs) {
    hang();
    return;
  }
  if (!spend(context_.timing.entry_ns)) return;  // the loop takes the reset
  Outcome outcome = Outcome::kDone;
  stopped_offset_ = entry.start_offset;
  if (fate == EntryFate::kMemoryError) {
    const runtime::TimeNs due = runtime_.now() + context_.faults.memory_error_after(node_);
    if (wait_until(due, false) == Outcome::kReset) return;
    outcome = fault(SGPU_FAULT_MEMORY, SGPU_VRAM_BASE);
  } else if (entry.type == SGPU_RING_EXECUTE && (entry.flags & SGPU_EXECUTE_NULL) == 0) {
    outcome = run_buffer(entry);
  }
  switch (outcome) {
    case Outcome::kDone:
    case Outcome::kEnd:
      if (fate == EntryFate::kHangsLate) {
        hang();
        if (stop_.load(std::memory_order_acquire)) return;
      }
      trace_end(entry.fence, TraceEnd::kFinished);
      complete(entry);
      return;
    case Outcome::kFaulted:
      trace_end(entry.fence, TraceEnd::kFaulted);
      report_fault(pending_fault_, entry.fence, stopped_offset_);
      return;
    case Outcome::kPreempted:
      trace_end(entry.fence, TraceEnd::kPreempted);
      answer_preemption(entry.fence, stopped_offset_);
      return;
    case Outcome::kReset:
      return;  // the loop takes the reset
  }
}

void Engine::trace_end(uint32_t fence, TraceEnd how) {
  executing_ = false;
  trace::emit(trace::EventKind::kHardwareEnd, 0, static_cast<uint64_t>(how), fence, 0,
              static_cast<uint16_t>(node_));
}

Engine::Outcome Engine::run_buffer(const SgpuRingEntry& entry) {
  if (entry.length > SGPU_DMA_BYTES_MAX || entry.length % 8 != 0 || entry.start_offset % 8 != 0 ||
      entry.start_offset > entry.length) {
    return fault(SGPU_FAULT_BUFFER, entry.address);
  }
  if (entry.length == entry.start_offset) return Outcome::kDone;
  if (entry.address % 8 != 0) return fault(SGPU_FAULT_BUFFER, entry.address);
  if (virtual_) {
    if (entry.address + entry.length < entry.address) {
      return fault(SGPU_FAULT_BUFFER, entry.address);
    }
  } else if (const Fault unreadable =
                 context_.memory.resolve(entry.address, entry.length, Access::kRead, buffer_)) {
    return fault(SGPU_FAULT_BUFFER, unreadable.address);
  }
  for (uint64_t offset = entry.start_offset; offset < entry.length;) {
    stopped_offset_ = static_cast<uint32_t>(offset);
    if (must_stop()) return Outcome::kReset;
    if (must_give_way()) return Outcome::kPreempted;
    SgpuCommandHeader header;
    if (virtual_) {
      if (fetch_virtual(entry, offset, &header) != Outcome::kDone) return Outcome::kFaulted;
    } else {
      buffer_.read(offset, reinterpret_cast<std::byte*>(&header), sizeof header);
    }
    if (header.size < sizeof header || header.size % 8 != 0 ||
        !range_within(offset, header.size, entry.length)) {
      return fault(SGPU_FAULT_SIZE, entry.address + offset);
    }
    if (!spend(context_.timing.command_ns)) return Outcome::kReset;
    const Outcome outcome = run_command(header, offset);
    if (virtual_) context_.mmu.release(node_);  // a waiting flush may continue
    if (outcome != Outcome::kDone) return outcome;
    offset += header.size;
  }
  return Outcome::kDone;
}

Engine::Outcome Engine::fetch_virtual(const SgpuRingEntry& entry, uint64_t offset,
                                      SgpuCommandHeader* header) {
  const uint64_t address = entry.address + offset;
  Fault bad = resolve(address, sizeof *header, Access::kFetch, buffer_);
  if (!bad) {
    buffer_.read(0, reinterpret_cast<std::byte*>(header), sizeof *header);
    // Sizes that cannot be are run_buffer's to refuse.
    const bool holds = header->size >= sizeof *header && header->size <= entry.length - offset;
    command_bytes_.resize(holds ? header->size : 0);
    bad = resolve(address, command_bytes_.size(), Access::kFetch, buffer_);
  }
  if (!bad) buffer_.read(0, command_bytes_.data(), command_bytes_.size());
  context_.mmu.release(node_);
  return bad ? fault(bad) : Outcome::kDone;
}

void Engine::complete(const SgpuRingEntry& entry) {
  const uint32_t reported = context_.faults.reported_fence(node_, entry.fence);
  executed_.fetch_add(1, std::memory_order_relaxed);
  completed_fence_.store(reported, std::memory_order_release);
  current_fence_.store(0, std::memory_order_release);
  busy_.store(false, std::memory_order_release);
  if ((entry.flags & SGPU_EXECUTE_NO_INTERRUPT) != 0) return;
  const uint32_t cause = SGPU_INT_COMPLETE(node_);
  runtime::DurationNs late_by_ns = 0;
  switch (context_.faults.interrupt_fate(node_, entry.fence, &late_by_ns)) {
    case InterruptFate::kNormal:
      context_.interrupts.set(cause);
      break;
    case InterruptFate::kLost:
      context_.interrupts.set_silently(cause);
      break;
    case InterruptFate::kLate:
      context_.interrupts.set_later(cause, late_by_ns);
      break;
    case InterruptFate::kDuplicate:
      context_.interrupts.set(cause);
      context_.interrupts.set(cause);
      break;
  }
}

void Engine::answer_preemption(uint32_t stopped_fence, uint32_t stopped_offset) {
  const uint32_t id = preempt_request_.load(std::memory_order_acquire);
  {
    const runtime::MutexLock lock(mutex_);
    const uint32_t tail = tail_.load(std::memory_order_acquire);
    if (tail < ring_size_)
      head_.store(tail, std::memory_order_release);  // otherwise the next fetch faults
  }
  preempt_completed_.store(completed_fence_.load(std::memory_order_relaxed),
                           std::memory_order_release);
  preempt_fence_.store(stopped_fence, std::memory_order_release);
  preempt_offset_.store(stopped_offset, std::memory_order_release);
  preempt_done_.store(id, std::memory_order_release);
  current_fence_.store(0, std::memory_order_release);
  busy_.store(false, std::memory_order_release);
  preempt_request_.store(0, std::memory_order_release);
  interrupt(SGPU_INT_PREEMPTED(node_));
}

void Engine::report_fault(Fault what, uint32_t fence, uint32_t offset) {
  fault_address_.store(what.address, std::memory_order_release);
  fault_detail_.store(what.detail, std::memory_order_release);
  fault_root_.store(virtual_ ? space_.root : 0, std::memory_order_release);
  fault_fence_.store(fence, std::memory_order_release);
  fault_offset_.store(offset, std::memory_order_release);
  fault_reason_.store(what.reason, std::memory_order_release);
  faulted_.store(true, std::memory_order_release);
  interrupt(SGPU_INT_FAULT(node_));
}

void Engine::interrupt(uint32_t cause) {
  if (context_.faults.is_silent(node_)) {
    context_.interrupts.set_silently(cause);
  } else {
    context_.interrupts.set(cause);
  }
}

void Engine::take_reset() {
  if (executing_) trace_end(current_fence_.load(std::memory_order_relaxed), TraceEnd::kReset);
  context_.mmu.release(node_);
  context_.mmu.forget(node_);
  // RESET may be written again meanwhile, which changes nothing.
  if (const runtime::DurationNs time = context_.faults.reset_time(node_); time != 0)
    runtime_.sleep_for(time);
  const runtime::MutexLock lock(mutex_);
  aborted_fence_.store(current_fence_.load(std::memory_order_relaxed), std::memory_order_release);
  current_fence_.store(0, std::memory_order_release);
  preempt_request_.store(0, std::memory_order_release);
  fault_reason_.store(SGPU_FAULT_NONE, std::memory_order_release);
  fault_fence_.store(0, std::memory_order_release);
  fault_address_.store(0, std::memory_order_release);
  fault_offset_.store(0, std::memory_order_release);
  fault_detail_.store(0, std::memory_order_release);
  fault_root_.store(0, std::memory_order_release);
  faulted_.store(false, std::memory_order_release);
  waiting_.store(0, std::memory_order_release);
  busy_.store(false, std::memory_order_release);
  enabled_.store(false, std::memory_order_release);
  head_.store(0, std::memory_order_release);
  tail_.store(0, std::memory_order_release);
  ring_ = nullptr;
  virtual_ = false;
  reset_.store(false, std::memory_order_release);  // last: the engine is at rest
}

void Engine::hang() {
  while (!must_stop()) {
    const uint32_t seen = bell_.load(std::memory_order_acquire);
    if (must_stop()) return;
    runtime_.wait(bell_, seen);
  }
}

// --- time

Engine::Outcome Engine::wait_until(runtime::TimeNs due, bool preemptible) {
  while (true) {
    const uint32_t seen = bell_.load(std::memory_order_acquire);
    if (must_stop()) return Outcome::kReset;
    if (preemptible && must_give_way()) return Outcome::kPreempted;
    if (runtime_.now() >= due) return Outcome::kDone;
    runtime_.wait(bell_, seen, due);
  }
}

bool Engine::spend(runtime::DurationNs duration) {
  const uint32_t factor = context_.faults.slow_factor(node_);
  if (!runtime_.is_simulated() && factor <= 1) return true;
  if (duration <= 0) return true;
  // Not Runtime::consume: a reset must be able to cut it short.
  return wait_until(runtime_.now() + duration * std::max<uint32_t>(factor, 1), false) ==
         Outcome::kDone;
}

runtime::DurationNs Engine::transfer_time(const Range& range, uint64_t bytes) const {
  if (range.pieces().empty()) return 0;
  const bool local = context_.memory.is_vram(range.pieces().front().pointer);
  const uint64_t speed =
      local ? context_.timing.vram_bytes_per_us : context_.timing.bus_bytes_per_us;
  if (speed == 0) return 0;
  return static_cast<runtime::DurationNs>(bytes * 1000 / speed);
}

}  // namespace dxgkit::softgpu
