#include "dxgk/memory/paging_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

/// A buffer with less left than this is not worth another operation; the next one is opened.
constexpr uint32_t kSmallestUsefulRemainder = 256;
/// PAGE-11: passes over an empty, full-size buffer in which MultipassOffset did not move.
constexpr uint32_t kMaxPassesWithoutProgress = 2;
/// More passes than it has pages, by so many, mean that an operation does not get on (PAGE-11).
constexpr uint64_t kSparePasses = 8;

uint64_t pages_of(const port::PagingOperation& operation) {
  using Kind = port::PagingOperation::Kind;
  switch (operation.kind) {
    case Kind::kTransfer:
    case Kind::kFill:
    case Kind::kTransferVirtual:
    case Kind::kFillVirtual:
    case Kind::kUpdateContextAllocation:
      return operation.size_bytes / kPageBytes;
    case Kind::kMapAperture:
    case Kind::kUnmapAperture:
      return operation.page_count;
    case Kind::kUpdatePageTable:
      return operation.page_table.count;
    case Kind::kCopyPageTableEntries:
      return operation.copies.size();
    default:
      return 0;
  }
}
/// One MDL describes less than 4 GiB, and TransferOffset has 32 bits: larger allocations are taken
/// in windows of this size, each with its own MDL and its own segment address.
constexpr uint64_t kWindowBytes = uint64_t{2} << 30;

}  // namespace

PagingExecutor::PagingExecutor(Owner& owner, port::AdapterPort& port, bus::Machine& machine)
    : owner_(owner), port_(port), machine_(machine) {}

PagingExecutor::~PagingExecutor() {
  for (const auto& buffer : buffers_)
    machine_.free_contiguous(buffer->dma.pages, buffer->dma.page_count);
}

Status PagingExecutor::configure(const Config& config) {
  config_ = config;
  config_.transfer_chunk_bytes =
      std::max(align_down(config.transfer_chunk_bytes, kPageBytes), kPageBytes);
  for (size_t i = 0; i < config.buffer_count; ++i) {
    auto buffer = std::make_unique<Buffer>();
    DmaBuffer& dma = buffer->dma;
    dma.page_count =
        align_up(uint64_t{config.buffer_bytes} + port::kGuardBytes, kPageBytes) / kPageBytes;
    Result<bus::PageFrame> pages = machine_.allocate_contiguous(dma.page_count);
    if (!pages.has_value()) return pages.error();
    dma.pages = *pages;
    dma.private_storage.assign(size_t{config.private_bytes} + port::kGuardBytes, std::byte{0});
    dma.view.segment = kSystemMemory;
    dma.view.physical_address = dma.pages.value * kPageBytes;
    dma.view.cpu = machine_.system_pointer(bus::PhysicalAddress{dma.view.physical_address},
                                           config.buffer_bytes);
    dma.view.size_bytes = config.buffer_bytes;
    dma.view.private_data = dma.private_storage.data();
    dma.view.private_size_bytes = config.private_bytes;
    dma.view.guarded = true;
    dma.view.private_guarded = config.private_bytes != 0;
    buffers_.push_back(std::move(buffer));
  }
  return Status::kSuccess;
}

void PagingExecutor::move_buffer(size_t index, const vidmm::Placement& place) {
  DmaBuffer& dma = buffers_[index]->dma;
  dma.view.segment = place.segment;
  dma.view.physical_address =
      place.segment == kSystemMemory ? dma.pages.value * kPageBytes : place.gpu_address;
}

void PagingExecutor::push(Queued queued) {
  queue_.push_back(std::move(queued));
  ++operations_queued_;
}

void PagingExecutor::enqueue(std::span<const vidmm::PagingOp> operations,
                             std::function<void()> done) {
  if (halted_) return;
  std::vector<std::unique_ptr<PagingWork>> around;
  const auto push_all = [&]() DXGKIT_REQUIRES(on_lane) {
    for (std::unique_ptr<PagingWork>& work : around)
      push({.kind = Queued::Kind::kWork, .work = std::move(work)});
    around.clear();
  };
  for (const vidmm::PagingOp& op : operations) {
    owner_.before(op, &around);
    push_all();
    push({.kind = Queued::Kind::kPlanned, .op = op});
  }
  owner_.behind(operations, &around);
  push_all();
  if (done) barriers_.push_back({operations_queued_, std::move(done)});
  pump();
}

void PagingExecutor::enqueue_plain(const port::PagingOperation& operation,
                                   std::function<void()> done) {
  if (halted_) return;
  push({.kind = Queued::Kind::kPlain, .plain = operation});
  if (done) barriers_.push_back({operations_queued_, std::move(done)});
  pump();
}

void PagingExecutor::enqueue_work(std::vector<std::unique_ptr<PagingWork>> work,
                                  std::function<void()> done) {
  if (halted_) return;
  for (std::unique_ptr<PagingWork>& one : work)
    push({.kind = Queued::Kind::kWork, .work = std::move(one)});
  if (done) barriers_.push_back({operations_queued_, std::move(done)});
  pump();
}

void PagingExecutor::pause() { paused_ = true; }

void PagingExecutor::resume() {
  paused_ = false;
  pump();
}

std::vector<std::function<void()>> PagingExecutor::abandon() {
  std::vector<std::function<void()>> waited;
  for (Barrier& barrier : barriers_) waited.push_back(std::move(barrier.done));
  drop_queue();
  barriers_.clear();
  for (InFlight& flight : in_flight_) flight.completes.clear();
  operations_done_ = operations_queued_;
  multipass_offset_ = 0;
  passes_without_progress_ = 0;
  whole_passes_ = 0;
  head_must_be_idle_ = false;
  current_ = nullptr;
  return waited;
}

void PagingExecutor::halt() {
  halted_ = true;
  drop_queue();
  barriers_.clear();
}

void PagingExecutor::drop_queue() {
  queue_.clear();
  part_ = {};
  in_part_ = false;
  slice_completes_.clear();
  slice_holds_.clear();
}

PagingExecutor::Buffer* PagingExecutor::open_buffer() {
  for (const auto& buffer : buffers_) {
    if (buffer->packets == 0) {
      buffer->used = 0;
      buffer->private_used = 0;
      return buffer.get();
    }
  }
  return nullptr;
}

port::PagingOperation PagingExecutor::describe(const vidmm::PagingOp& op) {
  const PagingTarget target = owner_.paging_target(op.allocation);
  port::PagingOperation out;
  out.allocation = target.driver_allocation;
  out.size_bytes = op.size_bytes;
  out.segment = op.place.segment;
  out.segment_address = op.place.gpu_address;
  out.offset_pages = op.place.offset_bytes / kPageBytes;
  out.page_count = op.size_bytes / kPageBytes;
  const port::TransferSide segment_side{op.place.segment, op.place.gpu_address, {}};
  const port::TransferSide pages_side{kSystemMemory, 0, target.pages};
  switch (op.kind) {
    case vidmm::PagingOp::Kind::kFill:
      out.kind = port::PagingOperation::Kind::kFill;
      out.fill_pattern = op.fill_pattern;
      break;
    case vidmm::PagingOp::Kind::kTransferIn:
    case vidmm::PagingOp::Kind::kWriteUp:
      out.kind = port::PagingOperation::Kind::kTransfer;
      out.source = pages_side;
      out.destination = segment_side;
      break;
    case vidmm::PagingOp::Kind::kTransferOut:
    case vidmm::PagingOp::Kind::kWriteBack:
      out.kind = port::PagingOperation::Kind::kTransfer;
      out.source = segment_side;
      out.destination = pages_side;
      if (op.backing.segment != kSystemMemory)  // parked: through the aperture (ALLOC-09)
        out.destination = {op.backing.segment, op.backing.gpu_address, {}};
      break;
    case vidmm::PagingOp::Kind::kContentLost:  // PAGE-22
      out.kind = port::PagingOperation::Kind::kTransfer;
      out.source = segment_side;
      out.destination = pages_side;
      out.size_bytes = 0;
      break;
    case vidmm::PagingOp::Kind::kInitContext:
      out.kind = port::PagingOperation::Kind::kInitContextResource;
      out.allocation = target.context_handle;  // as documented, not the driver's own
      out.virtual_address = target.virtual_address;
      break;
    case vidmm::PagingOp::Kind::kNotifyResident:
    case vidmm::PagingOp::Kind::kNotifyNotResident:
      out.kind = port::PagingOperation::Kind::kNotifyResidency;
      out.resident = op.kind == vidmm::PagingOp::Kind::kNotifyResident;
      out.offset_bytes = op.place.offset_bytes;
      break;
    case vidmm::PagingOp::Kind::kNotifyEviction:
      out.kind = port::PagingOperation::Kind::kNotifyEviction;
      break;
    case vidmm::PagingOp::Kind::kDiscard:
      out.kind = port::PagingOperation::Kind::kDiscardContent;
      break;
    case vidmm::PagingOp::Kind::kMapAperture:
      out.kind = port::PagingOperation::Kind::kMapAperture;
      out.device = target.device;
      out.pages = target.pages;
      out.cache_coherent = target.cached;
      break;
    case vidmm::PagingOp::Kind::kUnmapAperture:
      out.kind = port::PagingOperation::Kind::kUnmapAperture;
      out.dummy_page = config_.dummy_page;
      break;
  }
  return out;
}

uint64_t PagingExecutor::narrow(port::PagingOperation* operation, uint64_t start) const {
  using Kind = port::PagingOperation::Kind;
  const uint64_t end = start + operation->size_bytes;
  const uint64_t first = start + head_done_bytes_;
  const uint64_t window = first / kWindowBytes * kWindowBytes;
  const uint64_t window_bytes = std::min(kWindowBytes, end - window);
  const uint64_t window_pages = align_up(window_bytes, kPageBytes) / kPageBytes;
  const uint64_t bytes = std::min(window + window_bytes - first, config_.transfer_chunk_bytes);
  if (operation->kind == Kind::kMapAperture) {
    operation->offset_pages += first / kPageBytes;
    operation->mdl_offset_pages = static_cast<uint32_t>((first - window) / kPageBytes);
    operation->page_count = align_up(bytes, kPageBytes) / kPageBytes;
    operation->pages = operation->pages.subspan(window / kPageBytes, window_pages);
    return bytes;
  }
  if (operation->kind != Kind::kTransfer || operation->size_bytes == 0)
    return operation->size_bytes;
  for (port::TransferSide* side : {&operation->source, &operation->destination}) {
    if (side->segment != kSystemMemory) {
      side->segment_address += window;
    } else {
      side->pages = side->pages.subspan(window / kPageBytes, window_pages);
    }
  }
  operation->transfer_offset = static_cast<uint32_t>(first - window);
  operation->mdl_offset_pages = static_cast<uint32_t>((first - window) / kPageBytes);
  operation->size_bytes = bytes;
  operation->transfer_start = first == start;
  operation->transfer_end = first + bytes == end;
  return bytes;
}

void PagingExecutor::submit_slice() {
  if (current_ == nullptr || current_->used == slice_start_) {
    if (slice_completes_.empty() && slice_holds_.empty()) return;
    // The driver had nothing for the hardware to do (a discard it does not care about): no packet,
    // but in order.
    if (!in_flight_.empty()) {
      InFlight& last = in_flight_.back();
      last.completes.insert(last.completes.end(), slice_completes_.begin(), slice_completes_.end());
      last.holds.insert(last.holds.end(), slice_holds_.begin(), slice_holds_.end());
      slice_completes_.clear();
      slice_holds_.clear();
      return;
    }
    port_.paging().release_paging_mdls(port_.paging().paging_mdls_issued());
    slice_holds_.clear();
    complete(std::exchange(slice_completes_, {}));
    return;
  }
  const PacketId packet = owner_.new_packet();
  PagingSlice built;
  built.buffer = &current_->dma;
  built.driver_context = slice_context_ != nullptr ? slice_context_ : config_.system_context;
  built.slice.start = slice_start_;
  built.slice.end = current_->used;
  // PATCH-15: a driver that left the private pointer alone shares one range among all submissions
  // of the buffer; one that moved it gets its own part.
  if (current_->private_used == slice_private_start_) {
    built.slice.private_start = 0;
    built.slice.private_end = config_.private_bytes;
  } else {
    built.slice.private_start = slice_private_start_;
    built.slice.private_end = current_->private_used;
  }
  ++current_->packets;
  in_flight_.push_back({packet, current_, std::move(slice_completes_), std::move(slice_holds_),
                        port_.paging().paging_mdls_issued()});
  slice_completes_.clear();
  slice_holds_.clear();
  slice_start_ = current_->used;
  slice_private_start_ = current_->private_used;
  owner_.queue_paging(packet, built);
}

void PagingExecutor::pump() {
  if (pumping_ || halted_ || paused_) return;
  pumping_ = true;
  for (bool more = true; more;) {
    while (!queue_.empty() && !halted_ && build_head()) head_is_built();
    // What needs no hardware completes here, and who hears of it may queue more: nobody else comes
    // for that.
    const uint64_t queued = operations_queued_;
    if (!halted_) submit_slice();
    more = !halted_ && !paused_ && operations_queued_ != queued;
  }
  pumping_ = false;
  if (!halted_) run_barriers();
}

bool PagingExecutor::build_head() {
  Queued& head = queue_.front();
  const vidmm::PagingOp& op = head.op;
  const auto traced_kind = static_cast<uint64_t>(op.kind);
  if (head.kind == Queued::Kind::kPlanned && !head.work) {
    if (head_done_bytes_ == 0 && multipass_offset_ == 0 && !head_must_be_idle_) {
      if (owner_.perform(op)) return true;
      head.work = owner_.translate(op);
    }
  }
  if (head.work) return build_work(*head.work, traced_kind, op.allocation.value);
  for (;;) {
    port::PagingOperation described = head.kind == Queued::Kind::kPlain ? head.plain : describe(op);
    const uint64_t whole_bytes = described.size_bytes;
    const uint64_t start = head.kind == Queued::Kind::kPlain ? 0 : op.content_offset_bytes;
    const uint64_t part_bytes = narrow(&described, start);
    const Progress progress =
        build(described, nullptr, traced_kind, op.allocation.value, part_bytes);
    if (progress == Progress::kStop) return false;
    if (progress == Progress::kAgain) continue;
    head_done_bytes_ += part_bytes;
    if (head_done_bytes_ >= whole_bytes) return true;
  }
}

bool PagingExecutor::build_work(PagingWork& work, uint64_t traced_kind,
                                uint64_t traced_allocation) {
  for (;;) {
    if (!in_part_) {
      const PagingWork::Next next = work.next(&part_);
      if (next == PagingWork::Next::kOver) return true;
      if (next == PagingWork::Next::kLater || halted_) return false;
      in_part_ = true;
      part_done_ = 0;
    }
    while (part_done_ < part_.operations.size()) {
      port::PagingOperation& operation = part_.operations[part_done_];
      const Progress progress =
          build(operation, part_.context, traced_kind, traced_allocation, operation.size_bytes);
      if (progress == Progress::kStop) return false;
      if (progress == Progress::kDone) ++part_done_;
    }
    in_part_ = false;
    // It is there for its deleter and need not point at anything.
    if (part_.hold.use_count() != 0) slice_holds_.push_back(std::move(part_.hold));
    part_ = {};
  }
}

void PagingExecutor::head_is_built() {
  Queued& head = queue_.front();
  slice_completes_.push_back({head.kind == Queued::Kind::kPlanned, head.op});
  head_done_bytes_ = 0;
  head_must_be_idle_ = false;
  queue_.pop_front();
}

PagingExecutor::Progress PagingExecutor::build(port::PagingOperation& operation, void* context,
                                               uint64_t traced_kind, uint64_t traced_allocation,
                                               uint64_t traced_bytes) {
  if (head_must_be_idle_ && !in_flight_.empty()) return Progress::kStop;
  port::BuildPagingArgs args;
  args.system_context = context != nullptr ? context : config_.system_context;
  args.multipass_offset = multipass_offset_;
  args.operation = &operation;
  operation.allocation_is_idle = head_must_be_idle_;
  // The CPU writes such tables before the call returns (PAGE-03).
  const bool immediate = operation.kind == port::PagingOperation::Kind::kUpdatePageTable &&
                         operation.page_table.mode == port::PageTableUpdateMode::kCpuVirtual;
  bool whole_buffer = false;
  if (!immediate) {
    if (context != slice_context_) {  // a submission has one
      submit_slice();
      slice_context_ = context;
    }
    if (current_ != nullptr && config_.buffer_bytes - current_->used < kSmallestUsefulRemainder) {
      submit_slice();
      current_ = nullptr;
    }
    if (current_ == nullptr) {
      current_ = open_buffer();
      // Every buffer is on hardware: packet_retired comes back here.
      if (current_ == nullptr) return Progress::kStop;
      slice_start_ = 0;
      slice_private_start_ = 0;
    }
    args.buffer = current_->dma.view.cpu + current_->used;
    args.buffer_bytes = config_.buffer_bytes - current_->used;
    args.private_data = current_->dma.view.private_data + current_->private_used;
    args.private_bytes = config_.private_bytes - current_->private_used;
    args.guarded = current_->dma.view.guarded;
    args.private_guarded = current_->dma.view.private_guarded;
    args.buffer_physical_address = current_->dma.view.physical_address;
    args.buffer_va = current_->dma.gpu_va;
    args.buffer_offset = current_->used;
    whole_buffer = current_->used == 0;
  }
  const port::BuildPagingResult result = port_.paging().build_paging(args);
  if (halted_) return Progress::kStop;  // the driver broke a fatal rule inside the call
  trace::emit(trace::EventKind::kPagingOperation, traced_kind, traced_allocation, traced_bytes,
              result.bytes_written);
  // What a driver did wrong has been said (PAGE-03), and nothing can be done about it: who waits
  // for what is behind it does not wait for ever.
  if (immediate) return result.status == Status::kDeviceRemoved ? Progress::kStop : Progress::kDone;
  current_->used += result.bytes_written;
  current_->private_used += result.private_bytes_written;
  if (result.status == Status::kGraphicsInsufficientDmaBuffer) {
    const bool progress = result.multipass_offset != multipass_offset_ || result.bytes_written != 0;
    if (whole_buffer && !progress && ++passes_without_progress_ >= kMaxPassesWithoutProgress) {
      owner_.paging_failed(verifier::Finding{
          .rule = "PAGE-11",
          .severity = verifier::Severity::kBugCheck,
          .ddi = "DxgkDdiBuildPagingBuffer",
          .actual =
              fmt::format("It returned STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER {} times on an "
                          "empty paging buffer of "
                          "{} bytes and left MultipassOffset at {}.",
                          passes_without_progress_, config_.buffer_bytes, multipass_offset_),
          .expected = "Each pass over a fresh, full-size buffer writes a part of the operation "
                      "and advances MultipassOffset.",
          .fix = "Split the operation: write what fits, store how far you came in "
                 "MultipassOffset, or declare a larger "
                 "PagingBufferSize in the segment query.",
          .bugcheck_code = 0x10E,
          .bugcheck_parameter = 0xB});
      return Progress::kStop;
    }
    if (progress) passes_without_progress_ = 0;
    // Bytes are progress, but the same ones for ever are not: each pass over a whole buffer does at
    // least one page of the operation.
    if (whole_buffer && ++whole_passes_ > pages_of(operation) + kSparePasses) {
      owner_.paging_failed(verifier::Finding{
          .rule = "PAGE-11",
          .severity = verifier::Severity::kBugCheck,
          .ddi = "DxgkDdiBuildPagingBuffer",
          .actual = fmt::format(
              "It returned STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER {} times over whole paging "
              "buffers of {} bytes, for one operation of {} pages; the last time it wrote {} "
              "bytes, "
              "and MultipassOffset went from {} to {}.",
              whole_passes_, config_.buffer_bytes, pages_of(operation), result.bytes_written,
              multipass_offset_, result.multipass_offset),
          .expected =
              "Each pass over a fresh, full-size buffer does another part of the operation, "
              "and the last one returns STATUS_SUCCESS.",
          .fix = "Store how far you came in MultipassOffset, go on from there in the next pass, "
                 "and return STATUS_SUCCESS when the rest fitted.",
          .bugcheck_code = 0x10E,
          .bugcheck_parameter = 0xB});
      return Progress::kStop;
    }
    multipass_offset_ = result.multipass_offset;
    owner_.count_multipass();
    submit_slice();
    current_ = nullptr;
    return Progress::kAgain;
  }
  if (result.status == Status::kGraphicsAllocationBusy) {
    // PAGE-12: finish what was built before, wait for it, ask again with AllocationIsIdle.
    head_must_be_idle_ = true;
    submit_slice();
    return Progress::kAgain;
  }
  // The port reported anything else; the adapter is stopping.
  if (result.status != Status::kSuccess) return Progress::kStop;
  multipass_offset_ = 0;
  passes_without_progress_ = 0;
  whole_passes_ = 0;
  return Progress::kDone;
}

void PagingExecutor::complete(std::vector<Built> operations) {
  // Whoever hears of one may enqueue more, and what needs no hardware completes at once: in its
  // turn, because barriers count.
  completed_.insert(completed_.end(), operations.begin(), operations.end());
  if (completing_) return;
  completing_ = true;
  while (!completed_.empty()) {
    const Built built = completed_.front();
    completed_.pop_front();
    ++operations_done_;
    if (built.planned) owner_.operation_done(built.op);
  }
  completing_ = false;
}

void PagingExecutor::run_barriers() {
  while (!barriers_.empty() && barriers_.front().after <= operations_done_) {
    const std::function<void()> done = std::move(barriers_.front().done);
    barriers_.pop_front();
    done();
    if (halted_) return;
  }
}

void PagingExecutor::packet_retired(PacketId packet, bool completed, bool may_be_read) {
  DXGKIT_CHECK(!in_flight_.empty());
  if (!completed && in_flight_.front().packet != packet) {
    // The driver refused an earlier one: the scheduler takes no more, and the adapter is stopping.
    const auto found = std::ranges::find(in_flight_, packet, &InFlight::packet);
    DXGKIT_CHECK(found != in_flight_.end());
    if (!may_be_read) --found->buffer->packets;
    in_flight_.erase(found);
    return;
  }
  DXGKIT_CHECK(in_flight_.front().packet == packet);
  InFlight flight = std::move(in_flight_.front());
  in_flight_.pop_front();
  port_.paging().release_paging_mdls(flight.mdls);
  if (!may_be_read) --flight.buffer->packets;
  if (flight.buffer->packets == 0 && flight.buffer == current_ && current_->used == slice_start_) {
    // Nothing of it is in use any more: start over at its beginning.
    current_ = nullptr;
  }
  if (!completed || halted_) return;
  flight.holds.clear();  // work that is asked again below may need what they held
  complete(flight.completes);
  run_barriers();
  pump();
}

}  // namespace dxgkit::dxgk
