#include "dxgk/exercise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include "base/arithmetic.h"
#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/display/display_level_two.h"
#include "dxgk/memory/cpu_windows.h"
#include "dxgk/memory/residency.h"
#include "dxgk/power/power.h"
#include "dxgk/system_impl.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/device.h"
#include "dxgk/work/timeout.h"
#include "nt/stack_fill.h"

namespace dxgkit::dxgk {
namespace {

bool same_segment(const port::SegmentInfo& a, const port::SegmentInfo& b) {
  return a.flags == b.flags && a.base_address == b.base_address &&
         a.cpu_translated_address == b.cpu_translated_address && a.size == b.size &&
         a.commit_limit == b.commit_limit && a.bank_ends == b.bank_ends &&
         a.invalid_ranges == b.invalid_ranges;
}

/// All that decides how page tables are made.
auto facts_of(const port::GpuMmuCaps& caps) {
  std::vector<uint64_t> levels;
  for (const port::PageTableLevelDesc& level : caps.levels) {
    for (const uint64_t number :
         {uint64_t{level.index_bits}, uint64_t{level.segment},
          uint64_t{level.paging_process_segment}, uint64_t{level.table_bytes},
          uint64_t{level.table_alignment_bytes}})
      levels.push_back(number);
  }
  return std::tuple(caps.read_only, caps.no_execute, caps.zero_in_pte, caps.explicit_invalidation,
                    caps.cache_coherent, caps.update_needs_idle, caps.large_page, caps.dual_pte,
                    caps.unaligned_large_page, caps.system_64kb_pages, caps.invalid_not_cached,
                    caps.system_large_page, caps.cached_page_tables,
                    caps.source_page_table_in_transfer, caps.update_mode, caps.va_bits,
                    caps.leaf_bytes_for_64kb, caps.level_count, levels);
}

}  // namespace

Exercise::Exercise(Ref<Adapter> adapter) : adapter_(std::move(adapter)) {}
Exercise::~Exercise() = default;
Exercise::Exercise(Exercise&&) noexcept = default;

DisplayFloor& Exercise::floor() const { return adapter_->floor(); }

Result<Exercise> Exercise::on(System& system, Luid luid) {
  Ref<Adapter> adapter = system.impl().find(luid);
  if (!adapter) return Error(Status::kInvalidParameter);
  return Exercise(std::move(adapter));
}

const port::DriverCaps& Exercise::caps() const { return floor().core.caps(); }
const std::vector<port::SegmentInfo>& Exercise::segments() const {
  return floor().core.segment_infos().segments;
}
uint32_t Exercise::interface_version() const { return floor().core.interface_version(); }
uint32_t Exercise::video_present_sources() const {
  return floor().core.facts().start.video_present_sources;
}
bool Exercise::running() const { return floor().core.running(); }

bool Exercise::cpu_reaches(uint64_t bus_address, uint64_t size_bytes) const {
  AdapterCore& core = floor().core;
  for (const bus::Bar& bar : core.function().bars()) {
    if (bar.kind != bus::BarKind::kMemory || bus_address < bar.base.value) continue;
    if (range_within(bus_address - bar.base.value, size_bytes, bar.size)) return true;
  }
  return core.machine().system_pointer(bus::PhysicalAddress{bus_address}, size_bytes) != nullptr;
}

Status Exercise::repeat_queries() {
  DisplayFloor& floor = this->floor();
  if (!running()) return Status::kDeviceRemoved;
  const bool filled = floor.core.port().output_fill() != std::byte{0};
  const auto changed = [&](const char* what, std::string actual,
                           const char* ddi = "DxgkDdiQueryAdapterInfo") {
    if (filled) {
      floor.core.findings().report(
          {.rule = "LIFE-29",
           .severity = verifier::Severity::kViolation,
           .ddi = ddi,
           .actual = std::move(actual) +
                     fmt::format(" In between, the buffer was filled with {:#04x} before the call.",
                                 std::to_integer<unsigned>(floor.core.port().output_fill())),
           .expected = fmt::format("The same {}, whatever is in the buffer before.", what),
           .fix = "Zero the structure first, then set its members.",
           .why = "Nothing promises that the buffer is zero."});
      return;
    }
    floor.core.findings().report(
        {.rule = "LIFE-17",
         .severity = verifier::Severity::kViolation,
         .ddi = ddi,
         .actual = std::move(actual),
         .expected = fmt::format("The same {} as at the start.", what),
         .fix = "Answer from constants, or from what StartDevice found out once.",
         .why = "The kernel may ask again at any time, and has planned with the first answer.",
         .confidence = verifier::Confidence::kDocumented});
  };
  const Result<port::DriverCaps> caps_now = floor.core.port().caps().query_driver_caps();
  if (!caps_now.has_value()) return caps_now.error();
  const std::vector<std::byte>& before = floor.core.caps().raw;
  const auto [was, is] = std::ranges::mismatch(before, caps_now->raw);
  if (was != before.end()) {  // both are as long as the version says
    changed("caps", fmt::format("Byte {:#x} of DXGK_DRIVERCAPS was {:#04x} and is {:#04x} now.",
                                was - before.begin(), static_cast<unsigned>(*was),
                                static_cast<unsigned>(*is)));
  }
  if (floor.core.display_only()) return running() ? Status::kSuccess : Status::kDeviceRemoved;
  const Result<port::SegmentsInfo> segments_now = floor.core.port().caps().query_segments();
  if (!segments_now.has_value()) return segments_now.error();
  const port::SegmentsInfo& first = floor.core.segment_infos();
  if (first.segments.size() != segments_now->segments.size()) {
    changed("segments", fmt::format("There were {} segments, there are {} now.",
                                    first.segments.size(), segments_now->segments.size()));
  } else {
    for (size_t i = 0; i < first.segments.size(); ++i) {
      if (!same_segment(first.segments[i], segments_now->segments[i]))
        changed("segments", fmt::format("The description of segment {} has changed.", i + 1));
    }
  }
  if (first.paging_buffer_bytes != segments_now->paging_buffer_bytes ||
      first.paging_private_bytes != segments_now->paging_private_bytes ||
      first.paging_buffer_segment != segments_now->paging_buffer_segment) {
    changed("segments", "The description of the paging buffer has changed.");
  }
  if (floor.gpu_va != nullptr && filled) {
    const std::byte fill = floor.core.port().output_fill();
    const Result<port::GpuMmuCaps> with = floor.core.port().gpu_va().query_gpu_mmu();
    fill_outputs(std::byte{0});
    const Result<port::GpuMmuCaps> without = floor.core.port().gpu_va().query_gpu_mmu();
    fill_outputs(fill);
    if (!with.has_value()) return with.error();
    if (!without.has_value()) return without.error();
    if (facts_of(*with) != facts_of(*without))
      changed("page tables", "DXGK_GPUMMUCAPS or the description of a level has changed.");
  }
  for (uint32_t i = 0; i < floor.core.caps().node_count; ++i) {
    port::NodeMetadata metadata;
    const Status status = floor.core.port().caps().get_node_metadata(NodeOrdinal{i}, &metadata);
    if (filled && status == Status::kSuccess) {
      port::NodeMetadata without;
      const std::byte fill = floor.core.port().output_fill();
      fill_outputs(std::byte{0});
      static_cast<void>(floor.core.port().caps().get_node_metadata(NodeOrdinal{i}, &without));
      fill_outputs(fill);
      if (metadata.raw != without.raw)
        changed("metadata", fmt::format("The metadata of node {} have changed.", i),
                "DxgkDdiGetNodeMetadata");
    }
    if (status != Status::kNotSupported && !is_success(status)) return status;
  }
  const uint32_t beyond = floor.core.caps().node_count;
  const Status past = floor.core.port().caps().get_node_metadata(NodeOrdinal{beyond});
  if (past != Status::kNotSupported && past != Status::kInvalidParameter && running()) {
    floor.core.findings().report(
        {.rule = "SCHED-04",
         .severity = verifier::Severity::kViolation,
         .ddi = "DxgkDdiGetNodeMetadata",
         .actual = fmt::format("It returned 0x{:08X} for NodeOrdinal {} of {} nodes.",
                               static_cast<uint32_t>(past), beyond, beyond),
         .expected = "STATUS_INVALID_PARAMETER for an ordinal the adapter does not have.",
         .fix = "Compare the ordinal with NbAsymetricProcessingNodes first.",
         .confidence = verifier::Confidence::kDocumented});
  }
  return running() ? Status::kSuccess : Status::kDeviceRemoved;
}

void Exercise::fill_outputs(std::byte fill) {
  floor().core.port().set_output_fill(fill);
  nt::set_stack_fill(floor().core.kernel(), fill);
}

void Exercise::collect_debug_info(uint32_t bytes) {
  constexpr uint32_t kTimeoutDetected = 0x117;  // VIDEO_TDR_TIMEOUT_DETECTED
  if (running())
    static_cast<void>(floor().core.port().timeouts().collect_debug_info(kTimeoutDetected, bytes));
}

void Exercise::interrupt_of_another_device() {
  if (running()) floor().core.port().interrupt_of_another_device();
}

bool Exercise::engines_are_idle() {
  DisplayFloor& floor = this->floor();
  if (!floor.core.has_memory()) return true;
  bool idle = true;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor.core.failed()) return;
    for (uint32_t i = 0; i < floor.core.caps().node_count; ++i) {
      const vidsch::NodeStatus status = floor.core.scheduler().node_status(NodeOrdinal{i});
      if (status.hardware_queue_length != 0 || status.preemption_pending) idle = false;
    }
  });
  return idle;
}

Result<uint32_t> Exercise::query_fences() {
  DisplayFloor& floor = this->floor();
  if (!floor.core.has_memory()) return Error(Status::kNotSupported);
  uint32_t answered = 0;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor.core.failed()) return;
    for (uint32_t i = 0; i < floor.core.caps().node_count; ++i) {
      const NodeOrdinal node{i};
      const vidsch::NodeStatus status = floor.core.scheduler().node_status(node);
      if (status.hardware_queue_length != 0 || status.preemption_pending) continue;
      const Result<uint32_t> fence = floor.core.port().submission().query_current_fence(node);
      if (!fence.has_value()) {
        if (!floor.core.port().has_entry("DxgkDdiQueryCurrentFence") || !running()) continue;
        floor.core.findings().report(
            {.rule = "INT-22",
             .severity = verifier::Severity::kViolation,
             .ddi = "DxgkDdiQueryCurrentFence",
             .actual = fmt::format("It answered 0x{:08X} for node {}, which is idle.",
                                   static_cast<uint32_t>(fence.error()), i),
             .expected = "STATUS_SUCCESS, and the last fence the node has passed.",
             .fix = "Read the fence where the hardware writes it, and write CurrentFence.",
             .why = "The kernel asks when an interrupt may have been lost, and has no other way to "
                    "hear that the work is done."});
        continue;
      }
      ++answered;
      // Newer is a preemption's own id, or what the driver has yet to report; older cannot be.
      if (!fence_newer(status.last_completed, SubmissionFenceId{*fence})) continue;
      floor.core.findings().report(
          {.rule = "INT-22",
           .severity = verifier::Severity::kViolation,
           .ddi = "DxgkDdiQueryCurrentFence",
           .actual =
               fmt::format("Node {} is idle and says fence {}; {} was reported complete last, "
                           "{} submitted last.",
                           i, *fence, status.last_completed.value, status.last_submitted.value),
           .expected = "The last fence the node has passed.",
           .fix = "Read the fence where the hardware writes it, and write CurrentFence."});
    }
  });
  if (!running()) return Error(Status::kDeviceRemoved);
  return answered;
}

void Exercise::skip_fences(uint32_t count) {
  if (!floor().core.has_memory() || !floor().core.block_until([&]() DXGKIT_REQUIRES(on_lane) {
        return floor().core.scheduler().drained();
      }))
    return;
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor().core.scheduler().drained()) floor().core.scheduler().skip_fences(count);
  });
}

uint64_t Exercise::gpu_va_pages() const {
  AddressSpaces* const spaces = floor().spaces;
  return spaces == nullptr ? 0 : spaces->geometry().space_pages();
}

Exercise::GpuVaFacts Exercise::gpu_va_facts() const {
  GpuVaFacts facts;
  const AddressSpaces* const spaces = floor().spaces;
  if (spaces == nullptr) return facts;
  const gpuva::Geometry& geometry = spaces->geometry();
  facts.read_only = geometry.read_only;
  facts.no_execute = geometry.no_execute;
  facts.zero = geometry.zero;
  for (uint32_t level = 1; level < geometry.level_count; ++level)
    facts.table_pages.push_back(uint64_t{1} << geometry.entry_shift(level));
  return facts;
}

Result<Exercise::GpuVaRoot> Exercise::gpu_va_root(Process& process) {
  PlanEffects* const effects = floor().plan_effects;
  if (effects == nullptr) return Error(Status::kNotSupported);
  Result<GpuVaRoot> root = Error(Status::kInvalidParameter);
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    const std::optional<PlanEffects::Root> there = effects->root_of(process.number());
    if (there) root = GpuVaRoot{there->place.segment, there->place.offset, there->entries};
  });
  return root;
}

MemoryExercise Exercise::memory() const { return MemoryExercise(*adapter_); }

Status Exercise::evict_all() { return empty_segments(Tables::kStay); }

Status Exercise::empty_segments(Tables tables) {
  DisplayFloor& floor = this->floor();
  if (!floor.core.has_memory()) return Status::kNotSupported;
  Status status = Status::kSuccess;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor.core.failed()) {
      status = Status::kDeviceRemoved;
      return;
    }
    static_cast<void>(floor.context_allocations->let_go());
    if (floor.updates != nullptr) static_cast<void>(floor.updates->let_go());
    if (tables == Tables::kLeave) floor.residency->let_all_go();
    floor.paging->set_context(nullptr);  // PWR-09
    for (const vidmm::SegmentDesc& segment : floor.core.memory().segments()) {
      // Overlays leave for this, too; what is pinned in an aperture are our own DMA buffers. Page
      // tables are pinned and stay: nobody could make them again on the way.
      const bool all_leave = segment.kind == vidmm::SegmentKind::kMemory && floor.gpu_va == nullptr;
      Result<std::vector<vidmm::PagingOp>> operations =
          tables == Tables::kLeave
              ? floor.core.memory().purge(segment.id, 0)
              : floor.core.memory().evict_segment(
                    segment.id, all_leave ? vidmm::Pinned::kLeave : vidmm::Pinned::kStay);
      if (!operations.has_value()) {
        status = operations.error();
        continue;
      }
      floor.paging->enqueue(*operations, nullptr);
    }
    floor.core.pump();
  });
  const bool idle =
      floor.core.block_until([&]() DXGKIT_REQUIRES(on_lane) { return floor.paging->idle(); });
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor.core.has_memory()) floor.paging->set_context(floor.system_objects->context());
  });
  return idle ? status : Status::kDeviceRemoved;
}

Status Exercise::without_content(Status (*work)(DisplayFloor& floor)) {
  DisplayFloor& floor = this->floor();
  if (!running()) return Status::kDeviceRemoved;
  if (!floor.core.has_memory()) return Status::kNotSupported;
  const bool mapped = !floor.paging_buffers->empty();
  if (mapped) floor.paging_buffers->unmap();
  Status status = empty_segments(floor.gpu_va != nullptr ? Tables::kLeave : Tables::kStay);
  if (is_success(status) && running()) status = work(floor);
  if (mapped && running()) {
    const Status again = floor.paging_buffers->map();
    if (is_success(status)) status = again;
  }
  return running() ? status : Status::kDeviceRemoved;
}

Status Exercise::power_cycle() {
  if (running() && floor().gpu_va != nullptr) {
    // Tables have to be made again before anything is paged: the whole way down and up.
    for (const PowerTarget target : {PowerTarget::kD3, PowerTarget::kD0}) {
      if (const auto done = floor().power->set(target); !done.has_value()) return done.error();
    }
    return running() ? Status::kSuccess : Status::kDeviceRemoved;
  }
  return without_content([](DisplayFloor& floor) {
    return level_two(floor, [&] {
      port::PowerPort& power = floor.core.port().power();
      DXGKIT_RETURN_IF_FAILED(power.set_power_state(std::nullopt, port::PowerState::kD3));
      return power.set_power_state(std::nullopt, port::PowerState::kD0);
    });
  });
}

const TimeoutPolicy& Exercise::timeout_policy() const { return floor().timeout->policy(); }

void Exercise::provoke_timeouts(ProvokedTimeouts provoked) {
  floor().core.lane().run([&]() DXGKIT_REQUIRES(on_lane) { floor().timeout->provoke(provoked); });
}

void Exercise::ask_silent_nodes_after(int64_t patience_ns) {
  DisplayFloor& floor = this->floor();
  floor.core.lane().run(
      [&]() DXGKIT_REQUIRES(on_lane) { floor.timeout->be_patient_for(patience_ns); });
}

Status Exercise::preempt_idle(NodeOrdinal node) {
  DisplayFloor& floor = this->floor();
  if (!running()) return Status::kDeviceRemoved;
  if (!floor.core.has_memory()) return Status::kNotSupported;
  bool asked = false;
  floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
    if (floor.core.failed()) return;
    asked = floor.core.scheduler().request_preemption(node);
  });
  if (!asked) return running() ? Status::kNotSupported : Status::kDeviceRemoved;
  // The driver answers from a worker of its own, or at once. A little before the watch would call
  // it a timeout and recover, so that the silence is what is told.
  const runtime::TimeNs deadline =
      floor.core.runtime().now() + floor.core.options().tdr_delay_ns / 10 * 9;
  while (running()) {
    bool pending = true;
    floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (!floor.core.failed())
        pending = floor.core.scheduler().node_status(node).preemption_pending;
    });
    if (!pending) return Status::kSuccess;
    if (floor.core.runtime().now() >= deadline) {
      floor.core.fail(
          {.rule = "PREEMPT-06",
           .severity = verifier::Severity::kBugCheck,
           .ddi = "DxgkDdiPreemptCommand",
           .actual =
               fmt::format("Node {} was idle when asked; no DMA_PREEMPTED came within "
                           "{} ms.",
                           node.value, floor.core.options().tdr_delay_ns / runtime::kMillisecond),
           .expected = "Every request is answered by DMA_PREEMPTED with its "
                       "PreemptionFenceId, also when nothing is left to preempt.",
           .fix = "When the queue is empty, report the preemption yourself, from a routine "
                  "run by DxgkCbSynchronizeExecution.",
           .bugcheck_code = 0x116,
           .bugcheck_parameter = 0,
           .why = "The request may cross the last completion on its way: the node is idle "
                  "then, and nothing of its own would ever answer."});
      return Status::kDeviceRemoved;
    }
    floor.core.runtime().sleep_for(runtime::kMillisecond);
  }
  return Status::kDeviceRemoved;
}

void Exercise::lose_tables(DisplayFloor& floor, bool losing_content) {
  if (losing_content) {
    // As after a timeout: the driver is told by the tables it gets.
    if (floor.core.has_memory()) floor.residency->let_all_go();
    static_cast<void>(floor.context_allocations->let_go());
    static_cast<void>(floor.core.memory().lose_power([](SegmentId) { return uint64_t{0}; }));
    floor.cpu_windows->hardware_was_reset();
    floor.power->show_locked();
  }
  floor.paging->pause();  // what is built runs after the restart
  floor.gpu_va->rebuild();
}

void Exercise::lose_content(DisplayFloor& floor) {
  static_cast<void>(floor.context_allocations->let_go());
  // The driver hears of it now; what it builds for it runs after the restart.
  floor.core.scheduler().begin_adapter_reset();
  const vidmm::LostContent lost = floor.core.memory().lose_memory_segments();
  floor.paging->enqueue(lost.operations, nullptr);
  for (const vidmm::SegmentDesc& segment : floor.core.memory().segments()) {
    if (segment.kind != vidmm::SegmentKind::kAperture) continue;
    // One that shows DMA or paging buffers keeps all its mappings.
    const auto unmaps = floor.core.memory().evict_segment(segment.id);
    if (unmaps.has_value()) floor.paging->enqueue(*unmaps, nullptr);
  }
  floor.power->show_locked();
}

Status Exercise::reset_device(DisplayFloor& floor, bool losing_content) {
  const auto refuse = [&](const char* ddi, Status status) {
    if (status == Status::kDeviceRemoved) return status;
    const std::string_view name = status_name(status);
    floor.core.fail(
        {.rule = "TDR-23",
         .severity = verifier::Severity::kBugCheck,
         .ddi = ddi,
         .actual = fmt::format("It answered {} on an idle adapter.",
                               name.empty() ? fmt::format("0x{:08X}", static_cast<uint32_t>(status))
                                            : std::string(name)),
         .expected = "STATUS_SUCCESS.",
         .fix = "A reset takes the hardware back to a known state by whatever means; "
                "there is no way for it to fail that the kernel could act upon.",
         .bugcheck_code = 0x116,
         .bugcheck_parameter = static_cast<uint32_t>(status)});
    return Status::kDeviceRemoved;
  };
  const bool tables = floor.gpu_va != nullptr;
  // On the lane, as after a timeout: what the lane does for others must not enter the driver beside
  // it, nor reach the hardware before its content is given up. What a client that ends leaves to be
  // paged waits for the restart (TDR-24).
  Status reset = Status::kDeviceRemoved, restarted = Status::kDeviceRemoved;
  static_cast<void>(level_two(floor, [&] {
    floor.core.lane().assert_current();
    reset = floor.core.port().timeouts().reset_from_timeout();
    if (reset != Status::kSuccess || !floor.core.running_or_starting()) return reset;
    if (tables) {
      lose_tables(floor, losing_content);
    } else if (losing_content) {
      lose_content(floor);
    }
    if (!floor.core.running_or_starting()) return Status::kDeviceRemoved;
    restarted = floor.core.port().timeouts().restart_from_timeout();
    return restarted;
  }));
  if (reset != Status::kSuccess) return refuse("DxgkDdiResetFromTimeout", reset);
  if (tables || losing_content) {
    floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (floor.core.failed()) return;
      if (tables) {
        floor.paging->resume();
      } else {
        floor.core.scheduler().end_adapter_reset();
      }
      floor.core.pump();
    });
    static_cast<void>(
        floor.core.block_until([&]() DXGKIT_REQUIRES(on_lane) { return floor.paging->idle(); }));
    floor.core.lane().run([&]() DXGKIT_REQUIRES(on_lane) {
      if (floor.core.failed()) return;
      if (tables) floor.residency->advance();
      floor.core.progress();
    });
  }
  if (restarted != Status::kSuccess) return refuse("DxgkDdiRestartFromTimeout", restarted);
  return floor.core.running() ? Status::kSuccess : Status::kDeviceRemoved;
}

Status Exercise::reset() {
  return without_content([](DisplayFloor& floor) { return reset_device(floor, false); });
}

Status Exercise::reset_losing_content() {
  if (!running()) return Status::kDeviceRemoved;
  if (!floor().core.has_memory()) return Status::kNotSupported;
  return reset_device(floor(), true);
}

}  // namespace dxgkit::dxgk
