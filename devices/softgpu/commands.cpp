// The command processor: fetch a command whole, check all of it, then act.
//
// A command is copied out of the DMA buffer before it is checked, so that memory that changes
// meanwhile cannot bypass the checks. Nothing is written before every range of the command has been
// resolved. Addresses go through resolve(), which knows whether they are virtual.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/arithmetic.h"
#include "base/pattern.h"
#include "devices/softgpu/engine.h"
#include "devices/softgpu/image_ops.h"

namespace dxgkit::softgpu {

namespace {

// The bytes moved between two reads of the reset flag: about 100 us of work.
constexpr uint64_t kChunk = 1 << 20;
constexpr runtime::DurationNs kPollFirst = 2 * runtime::kMicrosecond;
constexpr runtime::DurationNs kPollLast = runtime::kMillisecond;

bool overlaps(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size) {
  return a < b + b_size && b < a + a_size;
}

uint64_t load_word(const std::byte* pointer, uint32_t width) {
  // CPUs and the other engine change these words meanwhile. So access is atomic, with acquire for
  // the memory that they published.
  if (width == 4)
    return __atomic_load_n(reinterpret_cast<const uint32_t*>(pointer), __ATOMIC_ACQUIRE);
  return __atomic_load_n(reinterpret_cast<const uint64_t*>(pointer), __ATOMIC_ACQUIRE);
}

void store_word(std::byte* pointer, uint32_t width, uint64_t value) {
  if (width == 4) {
    __atomic_store_n(reinterpret_cast<uint32_t*>(pointer), static_cast<uint32_t>(value),
                     __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(reinterpret_cast<uint64_t*>(pointer), value, __ATOMIC_RELEASE);
  }
}

template <typename Word>
void raise_to(std::byte* pointer, uint64_t value) {
  auto* word = reinterpret_cast<Word*>(pointer);
  const Word wanted = static_cast<Word>(value);
  Word seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  while (seen < wanted && !__atomic_compare_exchange_n(word, &seen, wanted, true, __ATOMIC_ACQ_REL,
                                                       __ATOMIC_ACQUIRE)) {
  }
}

/// Width, value and reserved field of the three semaphore commands.
bool word_is_sound(const SgpuFenceWrite& command) {
  if (command.reserved != 0) return false;
  if (command.width == 4) return command.value <= UINT32_MAX;
  return command.width == 8;
}

bool is_side(uint32_t pixels) { return pixels >= 1 && pixels <= SGPU_IMAGE_PIXELS_MAX; }
bool is_kernel_side(uint32_t taps) { return taps % 2 == 1 && taps <= SGPU_KERNEL_MAX; }

/// True if it names bus addresses, page tables or the aperture: not allowed in a process's own
/// buffers.
bool is_privileged(uint32_t opcode) {
  switch (opcode) {
    case SGPU_OP_COPY_PAGES:
    case SGPU_OP_MAP_APERTURE:
    case SGPU_OP_UNMAP_APERTURE:
    case SGPU_OP_WRITE_PTES:
    case SGPU_OP_COPY_PTES:
    case SGPU_OP_FLUSH_TLB:
      return true;
    default:
      return false;
  }
}

/// Bytes from the first to past the last byte of a rectangle; false if they do not fit in 64 bits.
bool rect_bytes(uint32_t pitch, uint64_t width_bytes, uint32_t height, uint64_t* bytes) {
  uint64_t lead = 0;
  if (!checked_mul(uint64_t{height} - 1, uint64_t{pitch}, &lead)) return false;
  return checked_add(lead, width_bytes, bytes);
}

}  // namespace

Engine::Outcome Engine::fault(uint32_t reason, uint64_t address) {
  return fault(Fault{reason, address});
}

Engine::Outcome Engine::fault(Fault fault_of_access) {
  pending_fault_ = fault_of_access;
  return Outcome::kFaulted;
}

Fault Engine::resolve(uint64_t address, uint64_t size, Access access, Range& out) {
  if (virtual_) return context_.mmu.resolve(node_, space_, address, size, access, out);
  return context_.memory.resolve(address, size, access, out);
}

Fault Engine::resolve_word(uint64_t address, uint32_t width, Access access, std::byte** out) {
  if (!virtual_) return context_.memory.resolve_word(address, width, access, out);
  if (width != 4 && width != 8) return {SGPU_FAULT_ARGUMENT, address};
  if (address % width != 0) return {SGPU_FAULT_ALIGNMENT, address};
  Range range;
  if (const Fault fault = resolve(address, width, access, range)) return fault;
  *out = range.contiguous();  // aligned, so never across pages
  return {};
}

void Engine::read_command(uint64_t offset, uint64_t in_command, void* out, uint64_t count) const {
  if (count == 0) return;
  if (virtual_) {
    std::memcpy(out, command_bytes_.data() + in_command, count);
  } else {
    buffer_.read(offset + in_command, static_cast<std::byte*>(out), count);
  }
}

template <typename Command>
bool Engine::fetch_command(const SgpuCommandHeader& header, uint64_t offset, Command* command) {
  if (header.size != sizeof *command) return false;
  read_command(offset, 0, command, sizeof *command);
  return true;
}

template <typename Command>
bool Engine::fetch_list(const SgpuCommandHeader& header, uint64_t offset, Command* command) {
  if (header.size < sizeof *command) return false;
  read_command(offset, 0, command, sizeof *command);
  const uint64_t list_bytes = uint64_t{command->page_count} * sizeof(uint64_t);
  if (header.size - sizeof *command != list_bytes) return false;
  list_.resize(command->page_count);
  read_command(offset, sizeof *command, list_.data(), list_bytes);
  return true;
}

Engine::Outcome Engine::run_command(const SgpuCommandHeader& header, uint64_t offset) {
  if (!privileged_ && is_privileged(header.opcode)) return fault(SGPU_FAULT_PRIVILEGE);
  const auto fixed = [&]<typename Command>(Outcome (Engine::*act)(const Command&)) {
    Command command;
    if (!fetch_command(header, offset, &command)) return fault(SGPU_FAULT_SIZE);
    return (this->*act)(command);
  };
  const auto listed = [&]<typename Command>(Outcome (Engine::*act)(const Command&)) {
    Command command;
    if (!fetch_list(header, offset, &command)) return fault(SGPU_FAULT_SIZE);
    return (this->*act)(command);
  };
  switch (header.opcode) {
    case SGPU_OP_NOP:
      return Outcome::kDone;
    case SGPU_OP_END:
      return header.size == sizeof header ? Outcome::kEnd : fault(SGPU_FAULT_SIZE);
    case SGPU_OP_FENCE_WRITE:
      return fixed(&Engine::fence_write);
    case SGPU_OP_COPY:
      return fixed(&Engine::copy);
    case SGPU_OP_COPY_PAGES:
      return listed(&Engine::copy_pages);
    case SGPU_OP_FILL:
      return fixed(&Engine::fill);
    case SGPU_OP_BLIT2D:
      return fixed(&Engine::blit2d);
    case SGPU_OP_CONVOLVE:
      if (node_ != SGPU_NODE_3D) return fault(SGPU_FAULT_NODE);
      return fixed(&Engine::convolve);
    case SGPU_OP_DOWNSCALE:
      if (node_ != SGPU_NODE_3D) return fault(SGPU_FAULT_NODE);
      return fixed(&Engine::downscale);
    case SGPU_OP_CHECKSUM:
      return fixed(&Engine::checksum);
    case SGPU_OP_SEM_WAIT:
      return fixed(&Engine::sem_wait);
    case SGPU_OP_SEM_SIGNAL:
      return fixed(&Engine::sem_signal);
    case SGPU_OP_MAP_APERTURE:
      return listed(&Engine::map_aperture);
    case SGPU_OP_UNMAP_APERTURE:
      return fixed(&Engine::unmap_aperture);
    case SGPU_OP_DELAY:
      return fixed(&Engine::delay);
    case SGPU_OP_WRITE_PTES:
      return write_ptes(header, offset);
    case SGPU_OP_COPY_PTES:
      return fixed(&Engine::copy_ptes);
    case SGPU_OP_FLUSH_TLB:
      return fixed(&Engine::flush_tlb);
    default:
      return fault(SGPU_FAULT_OPCODE);
  }
}

// --- semaphores

Engine::Outcome Engine::fence_write(const SgpuFenceWrite& command) {
  if (!word_is_sound(command)) return fault(SGPU_FAULT_ARGUMENT);
  std::byte* word = nullptr;
  if (const Fault bad = resolve_word(command.address, command.width, Access::kWrite, &word)) {
    return fault(bad);
  }
  store_word(word, command.width, command.value);
  context_.semaphore_changed();
  return Outcome::kDone;
}

Engine::Outcome Engine::sem_signal(const SgpuSemSignal& command) {
  if (!word_is_sound(command)) return fault(SGPU_FAULT_ARGUMENT);
  std::byte* word = nullptr;
  if (const Fault bad = resolve_word(command.address, command.width, Access::kWrite, &word)) {
    return fault(bad);
  }
  if (command.width == 4) {
    raise_to<uint32_t>(word, command.value);
  } else {
    raise_to<uint64_t>(word, command.value);
  }
  context_.semaphore_changed();
  return Outcome::kDone;
}

Engine::Outcome Engine::sem_wait(const SgpuSemWait& command) {
  if (!word_is_sound(command)) return fault(SGPU_FAULT_ARGUMENT);
  std::byte* word = nullptr;
  const auto look = [&] {
    return resolve_word(command.address, command.width, Access::kRead, &word);
  };
  if (const Fault bad = look()) return fault(bad);
  if (load_word(word, command.width) >= command.value) return Outcome::kDone;
  waiting_.exchange(1, std::memory_order_acq_rel);  // pairs with semaphore_doorbell
  runtime::DurationNs poll = kPollFirst;
  Outcome outcome = Outcome::kDone;
  while (true) {
    const uint32_t seen = bell_.load(std::memory_order_acquire);
    // A virtual address is translated anew each time: the page may be taken away meanwhile.
    if (const Fault bad = virtual_ ? look() : Fault{}) {
      outcome = fault(bad);
      break;
    }
    if (load_word(word, command.width) >= command.value) break;
    if (virtual_) context_.mmu.release(node_);
    if (must_stop()) {
      outcome = Outcome::kReset;
      break;
    }
    if (preemption_requested()) {
      outcome = Outcome::kPreempted;
      break;
    }
    // CPUs may write the word without ringing SEM_DOORBELL, so read it again from time to time.
    runtime_.wait(bell_, seen, runtime_.now() + poll);
    poll = std::min(poll * 2, kPollLast);
  }
  waiting_.store(0, std::memory_order_release);
  return outcome;
}

// --- copies

bool Engine::move_between(const Range& from, const Range& to, bool backwards) {
  const uint64_t size = from.size();
  uint64_t done = 0;
  size_t from_index = backwards ? from.pieces().size() - 1 : 0;
  size_t to_index = backwards ? to.pieces().size() - 1 : 0;
  while (done < size) {
    if (must_stop()) return false;
    const Range::Piece& source = from.pieces()[from_index];
    const Range::Piece& target = to.pieces()[to_index];
    uint64_t step = std::min(size - done, kChunk);
    if (!backwards) {
      const uint64_t in_source = done - source.offset;
      const uint64_t in_target = done - target.offset;
      step = std::min({step, source.size - in_source, target.size - in_target});
      std::memmove(target.pointer + in_target, source.pointer + in_source, step);
      done += step;
      if (done == source.offset + source.size) ++from_index;
      if (done == target.offset + target.size) ++to_index;
    } else {
      const uint64_t end = size - done;
      step = std::min({step, end - source.offset, end - target.offset});
      std::memmove(target.pointer + (end - step - target.offset),
                   source.pointer + (end - step - source.offset), step);
      done += step;
      if (end - step == source.offset) --from_index;
      if (end - step == target.offset) --to_index;
    }
  }
  return true;
}

Engine::Outcome Engine::copy(const SgpuCopy& command) {
  if (const Fault bad = resolve(command.source, command.size, Access::kRead, source_)) {
    return fault(bad);
  }
  if (const Fault bad = resolve(command.destination, command.size, Access::kWrite, destination_)) {
    return fault(bad);
  }
  if (command.size == 0) return Outcome::kDone;
  const runtime::DurationNs time =
      std::max(transfer_time(source_, command.size), transfer_time(destination_, command.size));
  if (!spend(time)) return Outcome::kReset;
  const bool backwards = command.destination > command.source &&
                         overlaps(command.source, command.size, command.destination, command.size);
  return move_between(source_, destination_, backwards) ? Outcome::kDone : Outcome::kReset;
}

Engine::Outcome Engine::copy_pages(const SgpuCopyPages& command) {
  if (command.reserved != 0) return fault(SGPU_FAULT_ARGUMENT);
  if (command.direction != SGPU_COPY_TO_PAGES && command.direction != SGPU_COPY_FROM_PAGES) {
    return fault(SGPU_FAULT_ARGUMENT);
  }
  if (command.page_offset >= SGPU_PAGE_BYTES) return fault(SGPU_FAULT_ARGUMENT);
  uint64_t end = 0;
  if (!checked_add(uint64_t{command.page_offset}, uint64_t{command.size}, &end)) {
    return fault(SGPU_FAULT_ARGUMENT);
  }
  if (end > uint64_t{command.page_count} * SGPU_PAGE_BYTES) return fault(SGPU_FAULT_ARGUMENT);
  const bool to_pages = command.direction == SGPU_COPY_TO_PAGES;
  Range& linear = to_pages ? source_ : destination_;
  Range& pages = to_pages ? destination_ : source_;
  const Access access = to_pages ? Access::kRead : Access::kWrite;
  if (const Fault bad = resolve(command.linear, command.size, access, linear)) {
    return fault(bad);
  }
  if (const Fault bad =
          context_.memory.resolve_pages(list_, command.page_offset, command.size, pages)) {
    return fault(bad);
  }
  if (command.size == 0) return Outcome::kDone;
  const runtime::DurationNs time =
      std::max(transfer_time(pages, command.size), transfer_time(linear, command.size));
  if (!spend(time)) return Outcome::kReset;
  return move_between(source_, destination_, false) ? Outcome::kDone : Outcome::kReset;
}

Engine::Outcome Engine::fill(const SgpuFill& command) {
  if (command.reserved != 0) return fault(SGPU_FAULT_ARGUMENT);
  if (command.size % 4 != 0) return fault(SGPU_FAULT_ARGUMENT);
  if (command.destination % 4 != 0) return fault(SGPU_FAULT_ALIGNMENT, command.destination);
  if (const Fault bad = resolve(command.destination, command.size, Access::kWrite, destination_)) {
    return fault(bad);
  }
  if (!spend(transfer_time(destination_, command.size))) return Outcome::kReset;
  for (const Range::Piece& piece : destination_.pieces()) {
    for (uint64_t at = 0; at < piece.size; at += kChunk) {
      if (must_stop()) return Outcome::kReset;
      fill_pattern(piece.pointer + at, std::min(kChunk, piece.size - at), command.pattern);
    }
  }
  return Outcome::kDone;
}

// --- rectangles

Fault Engine::resolve_rect(uint64_t address, uint32_t pitch, uint64_t width_bytes, uint32_t height,
                           Access access, Range& out) {
  uint64_t bytes = 0;
  if (!rect_bytes(pitch, width_bytes, height, &bytes)) return {SGPU_FAULT_ADDRESS, address};
  return resolve(address, bytes, access, out);
}

const std::byte* Engine::gather(const Range& range) {
  if (const std::byte* whole = range.contiguous()) return whole;
  source_scratch_.resize(range.size());
  range.read(0, source_scratch_.data(), range.size());
  return source_scratch_.data();
}

template <typename MakeRow>
Engine::Outcome Engine::write_rows(const Range& rect, uint32_t pitch, uint64_t width_bytes,
                                   uint32_t height, MakeRow make_row) {
  std::byte* whole = rect.contiguous();
  if (whole == nullptr) destination_scratch_.resize(width_bytes);
  for (uint32_t y = 0; y < height; ++y) {
    if (must_stop()) return Outcome::kReset;
    const uint64_t offset = uint64_t{y} * pitch;
    if (whole != nullptr) {
      make_row(y, whole + offset);
    } else {
      make_row(y, destination_scratch_.data());
      rect.write(offset, destination_scratch_.data(), width_bytes);
    }
  }
  return Outcome::kDone;
}

Engine::Outcome Engine::blit2d(const SgpuBlit2d& command) {
  if (command.width_bytes == 0 || command.height == 0) return fault(SGPU_FAULT_ARGUMENT);
  if (command.source_pitch < command.width_bytes) return fault(SGPU_FAULT_ARGUMENT);
  if (command.destination_pitch < command.width_bytes) return fault(SGPU_FAULT_ARGUMENT);
  if (const Fault bad = resolve_rect(command.source, command.source_pitch, command.width_bytes,
                                     command.height, Access::kRead, source_)) {
    return fault(bad);
  }
  if (const Fault bad =
          resolve_rect(command.destination, command.destination_pitch, command.width_bytes,
                       command.height, Access::kWrite, destination_)) {
    return fault(bad);
  }
  const uint64_t bytes = uint64_t{command.width_bytes} * command.height;
  if (!spend(std::max(transfer_time(source_, bytes), transfer_time(destination_, bytes)))) {
    return Outcome::kReset;
  }
  const std::byte* source = source_.contiguous();
  return write_rows(destination_, command.destination_pitch, command.width_bytes, command.height,
                    [&](uint32_t y, std::byte* out) {
                      const uint64_t offset = uint64_t{y} * command.source_pitch;
                      if (source != nullptr) {
                        std::memmove(out, source + offset, command.width_bytes);
                      } else {
                        source_.read(offset, out, command.width_bytes);
                      }
                    });
}

Engine::Outcome Engine::convolve(const SgpuConvolve& command) {
  constexpr uint32_t kFlags = SGPU_CONVOLVE_ABS | SGPU_CONVOLVE_GRADIENT | SGPU_CONVOLVE_KEEP_ALPHA;
  if ((command.flags & ~kFlags) != 0) return fault(SGPU_FAULT_ARGUMENT);
  if (command.reserved != 0 || command.reserved2 != 0) return fault(SGPU_FAULT_ARGUMENT);
  if (!is_side(command.source_width) || !is_side(command.source_height))
    return fault(SGPU_FAULT_ARGUMENT);
  if (!is_side(command.output_width) || !is_side(command.output_height))
    return fault(SGPU_FAULT_ARGUMENT);
  if (!range_within(command.output_x, command.output_width, command.source_width)) {
    return fault(SGPU_FAULT_ARGUMENT);
  }
  if (!range_within(command.output_y, command.output_height, command.source_height)) {
    return fault(SGPU_FAULT_ARGUMENT);
  }
  if (!is_kernel_side(command.kernel_width)) return fault(SGPU_FAULT_ARGUMENT);
  if (!is_kernel_side(command.kernel_height)) return fault(SGPU_FAULT_ARGUMENT);
  if (command.divisor < 1 || command.divisor > SGPU_DIVISOR_MAX) return fault(SGPU_FAULT_ARGUMENT);
  if (command.bias < -255 || command.bias > 255) return fault(SGPU_FAULT_ARGUMENT);
  const uint64_t source_row = uint64_t{command.source_width} * SGPU_PIXEL_BYTES;
  const uint64_t output_row = uint64_t{command.output_width} * SGPU_PIXEL_BYTES;
  if (command.source_pitch % 4 != 0 || command.source_pitch < source_row)
    return fault(SGPU_FAULT_ARGUMENT);
  if (command.destination_pitch % 4 != 0 || command.destination_pitch < output_row) {
    return fault(SGPU_FAULT_ARGUMENT);
  }
  if (command.source % 4 != 0) return fault(SGPU_FAULT_ALIGNMENT, command.source);
  if (command.destination % 4 != 0) return fault(SGPU_FAULT_ALIGNMENT, command.destination);
  if (const Fault bad = resolve_rect(command.source, command.source_pitch, source_row,
                                     command.source_height, Access::kRead, source_)) {
    return fault(bad);
  }
  if (const Fault bad = resolve_rect(command.destination, command.destination_pitch, output_row,
                                     command.output_height, Access::kWrite, destination_)) {
    return fault(bad);
  }
  if (overlaps(command.source, source_.size(), command.destination, destination_.size())) {
    return fault(SGPU_FAULT_ARGUMENT, command.destination);
  }
  const uint64_t kernels = (command.flags & SGPU_CONVOLVE_GRADIENT) != 0 ? 2 : 1;
  const uint64_t taps = kernels * command.kernel_width * command.kernel_height *
                        command.output_width * command.output_height;
  runtime::DurationNs time = transfer_time(source_, source_.size());
  if (context_.timing.taps_per_us > 0) {
    time =
        std::max(time, static_cast<runtime::DurationNs>(taps * 1000 / context_.timing.taps_per_us));
  }
  if (!spend(time)) return Outcome::kReset;
  Convolver convolver(command, gather(source_));
  return write_rows(destination_, command.destination_pitch, output_row, command.output_height,
                    [&](uint32_t, std::byte* out) { convolver.next_row(out); });
}

Engine::Outcome Engine::downscale(const SgpuDownscale& command) {
  if (!is_side(command.source_width) || !is_side(command.source_height))
    return fault(SGPU_FAULT_ARGUMENT);
  const uint64_t source_row = uint64_t{command.source_width} * SGPU_PIXEL_BYTES;
  const uint64_t output_row = uint64_t{(command.source_width + 1) / 2} * SGPU_PIXEL_BYTES;
  const uint32_t output_height = (command.source_height + 1) / 2;
  if (command.source_pitch % 4 != 0 || command.source_pitch < source_row)
    return fault(SGPU_FAULT_ARGUMENT);
  if (command.destination_pitch % 4 != 0 || command.destination_pitch < output_row) {
    return fault(SGPU_FAULT_ARGUMENT);
  }
  if (command.source % 4 != 0) return fault(SGPU_FAULT_ALIGNMENT, command.source);
  if (command.destination % 4 != 0) return fault(SGPU_FAULT_ALIGNMENT, command.destination);
  if (const Fault bad = resolve_rect(command.source, command.source_pitch, source_row,
                                     command.source_height, Access::kRead, source_)) {
    return fault(bad);
  }
  if (const Fault bad = resolve_rect(command.destination, command.destination_pitch, output_row,
                                     output_height, Access::kWrite, destination_)) {
    return fault(bad);
  }
  if (overlaps(command.source, source_.size(), command.destination, destination_.size())) {
    return fault(SGPU_FAULT_ARGUMENT, command.destination);
  }
  if (!spend(transfer_time(source_, source_.size()))) return Outcome::kReset;
  const std::byte* source = gather(source_);
  return write_rows(destination_, command.destination_pitch, output_row, output_height,
                    [&](uint32_t y, std::byte* out) {
                      const uint32_t lower = std::min(2 * y + 1, command.source_height - 1);
                      downscale_row(source + uint64_t{2 * y} * command.source_pitch,
                                    source + uint64_t{lower} * command.source_pitch,
                                    command.source_width, out);
                    });
}

Engine::Outcome Engine::checksum(const SgpuChecksum& command) {
  if (command.width_bytes == 0 || command.height == 0) return fault(SGPU_FAULT_ARGUMENT);
  if (command.pitch < command.width_bytes) return fault(SGPU_FAULT_ARGUMENT);
  if (command.kind != SGPU_CHECKSUM_FNV1A64 && command.kind != SGPU_CHECKSUM_SUM64) {
    return fault(SGPU_FAULT_ARGUMENT);
  }
  if (const Fault bad = resolve_rect(command.source, command.pitch, command.width_bytes,
                                     command.height, Access::kRead, source_)) {
    return fault(bad);
  }
  std::byte* result = nullptr;
  if (const Fault bad = resolve_word(command.result, 8, Access::kWrite, &result)) {
    return fault(bad);
  }
  const uint64_t bytes = uint64_t{command.width_bytes} * command.height;
  if (!spend(transfer_time(source_, bytes))) return Outcome::kReset;
  const bool fnv = command.kind == SGPU_CHECKSUM_FNV1A64;
  uint64_t state = fnv ? kFnvOffset : 0;
  uint64_t since_look = 0;
  for (uint32_t y = 0; y < command.height; ++y) {
    uint64_t at = uint64_t{y} * command.pitch;
    const uint64_t end = at + command.width_bytes;
    for (size_t i = source_.piece_at(at); at < end; ++i) {
      const Range::Piece& piece = source_.pieces()[i];
      const uint64_t piece_end = std::min(end, piece.offset + piece.size);
      while (at < piece_end) {
        const uint64_t step = std::min(kChunk, piece_end - at);
        const std::byte* from = piece.pointer + (at - piece.offset);
        state = fnv ? fnv1a64(state, from, step) : state + sum_bytes(from, step);
        at += step;
        since_look += step;
        if (since_look < kChunk) continue;
        since_look = 0;
        if (must_stop()) return Outcome::kReset;
      }
    }
  }
  store_word(result, 8, state);
  context_.semaphore_changed();
  return Outcome::kDone;
}

// --- aperture and time

Engine::Outcome Engine::map_aperture(const SgpuMapAperture& command) {
  if (!range_within(command.first_page, command.page_count, SGPU_APERTURE_PAGES)) {
    return fault(SGPU_FAULT_ARGUMENT);
  }
  const uint64_t bytes = uint64_t{command.page_count} * SGPU_PAGE_BYTES;
  if (const Fault bad = context_.memory.resolve_pages(list_, 0, bytes, source_)) return fault(bad);
  for (uint32_t i = 0; i < command.page_count; ++i) {
    context_.memory.set_entry(command.first_page + i, list_[i] | SGPU_ENTRY_VALID);
  }
  return Outcome::kDone;
}

Engine::Outcome Engine::unmap_aperture(const SgpuUnmapAperture& command) {
  if (!range_within(command.first_page, command.page_count, SGPU_APERTURE_PAGES)) {
    return fault(SGPU_FAULT_ARGUMENT);
  }
  uint64_t entry = 0;
  if (command.dummy_page != 0) {
    const std::array<uint64_t, 1> page = {command.dummy_page};
    if (const Fault bad = context_.memory.resolve_pages(page, 0, SGPU_PAGE_BYTES, source_)) {
      return fault(bad);
    }
    entry = command.dummy_page | SGPU_ENTRY_VALID | SGPU_ENTRY_DUMMY;
  }
  for (uint32_t i = 0; i < command.page_count; ++i) {
    context_.memory.set_entry(command.first_page + i, entry);
  }
  return Outcome::kDone;
}

Engine::Outcome Engine::delay(const SgpuDelay& command) {
  if (command.reserved != 0) return fault(SGPU_FAULT_ARGUMENT);
  if ((command.flags & ~SGPU_DELAY_PREEMPTIBLE) != 0) return fault(SGPU_FAULT_ARGUMENT);
  if (command.duration_ns > SGPU_DELAY_MAX_NS) return fault(SGPU_FAULT_ARGUMENT);
  const auto duration = static_cast<runtime::DurationNs>(command.duration_ns);
  const uint32_t factor = std::max<uint32_t>(context_.faults.slow_factor(node_), 1);
  return wait_until(runtime_.now() + duration * factor,
                    (command.flags & SGPU_DELAY_PREEMPTIBLE) != 0);
}

// --- page tables

Fault Engine::resolve_table(uint64_t address, uint64_t size, Access access, uint32_t flags,
                            Range& out) {
  if (address % sizeof(uint64_t) != 0) return {SGPU_FAULT_ALIGNMENT, address};
  if ((flags & SGPU_PTES_PHYSICAL) != 0) {
    return context_.memory.resolve(address, size, access, out);
  }
  return resolve(address, size, access, out);
}

Engine::Outcome Engine::store_entries(uint64_t count) {
  if (!spend(transfer_time(destination_, count * sizeof(uint64_t)))) return Outcome::kReset;
  uint64_t index = 0;
  for (const Range::Piece& piece : destination_.pieces()) {
    for (uint64_t at = 0; at < piece.size; at += sizeof(uint64_t), ++index) {
      if (index % (kChunk / sizeof(uint64_t)) == 0 && must_stop()) return Outcome::kReset;
      // Whole entries: the other engine may be walking this table.
      store_word(piece.pointer + at, sizeof(uint64_t), list_[list_.size() == 1 ? 0 : index]);
    }
  }
  return Outcome::kDone;
}

Engine::Outcome Engine::write_ptes(const SgpuCommandHeader& header, uint64_t offset) {
  SgpuWritePtes command;
  if (header.size < sizeof command) return fault(SGPU_FAULT_SIZE);
  read_command(offset, 0, &command, sizeof command);
  const bool repeat = (command.flags & SGPU_PTES_REPEAT) != 0;
  const uint64_t listed = repeat ? 1 : command.count;
  if (header.size - sizeof command != listed * sizeof(uint64_t)) return fault(SGPU_FAULT_SIZE);
  if ((command.flags & ~(SGPU_PTES_PHYSICAL | SGPU_PTES_REPEAT)) != 0 ||
      command.count > SGPU_PTES_MAX) {
    return fault(SGPU_FAULT_ARGUMENT);
  }
  list_.resize(listed);
  read_command(offset, sizeof command, list_.data(), listed * sizeof(uint64_t));
  const uint64_t bytes = uint64_t{command.count} * sizeof(uint64_t);
  if (const Fault bad =
          resolve_table(command.table, bytes, Access::kWrite, command.flags, destination_)) {
    return fault(bad);
  }
  return store_entries(command.count);
}

Engine::Outcome Engine::copy_ptes(const SgpuCopyPtes& command) {
  if ((command.flags & ~SGPU_PTES_PHYSICAL) != 0 || command.count > SGPU_PTES_MAX) {
    return fault(SGPU_FAULT_ARGUMENT);
  }
  const uint64_t bytes = uint64_t{command.count} * sizeof(uint64_t);
  if (const Fault bad =
          resolve_table(command.source, bytes, Access::kRead, command.flags, source_)) {
    return fault(bad);
  }
  if (const Fault bad =
          resolve_table(command.destination, bytes, Access::kWrite, command.flags, destination_)) {
    return fault(bad);
  }
  if (!spend(transfer_time(source_, bytes))) return Outcome::kReset;
  // All of them before the first is stored: the ranges may overlap, or be the same memory under
  // different addresses.
  list_.resize(command.count);
  size_t index = 0;
  for (const Range::Piece& piece : source_.pieces()) {
    for (uint64_t at = 0; at < piece.size; at += sizeof(uint64_t)) {
      list_[index++] = load_word(piece.pointer + at, sizeof(uint64_t));
    }
  }
  return store_entries(command.count);
}

Engine::Outcome Engine::flush_tlb(const SgpuFlushTlb& command) {
  for (const uint64_t address : {command.root, command.start, command.end}) {
    if (address % SGPU_PAGE_BYTES != 0) return fault(SGPU_FAULT_ALIGNMENT, address);
  }
  if (command.end < command.start) return fault(SGPU_FAULT_ARGUMENT);
  const Mmu::Uses uses = context_.mmu.flush(command.root, command.start, command.end);
  // The driver may free the old pages afterwards, but not before the other engine has released
  // them. This engine holds no pages, so two that flush at once do not wait for each other.
  for (uint32_t other = 0; other < SGPU_NODE_COUNT; ++other) {
    while (other != node_ && context_.mmu.still_uses(other, uses)) {
      const uint32_t seen = bell_.load(std::memory_order_acquire);
      if (must_stop()) return Outcome::kReset;
      context_.mmu.wait_for_release(other, uses, bell_, seen);
    }
  }
  return Outcome::kDone;
}

}  // namespace dxgkit::softgpu
