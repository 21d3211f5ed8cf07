// Driver stacks, generated stubs, and the slow path of a door.
#include "nt/door.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/fixed_memory.h"
#include "nt/call_log.h"
#include "nt/kernel_impl.h"
#include "nt/stack_fill.h"
#include "trace/trace.h"

namespace dxgkit::nt {

// --- stacks

constinit thread_local DriverStack* t_free_driver_stacks = nullptr;

namespace {

/// Of a driver stack, from its top: as deep as most calls go.
constexpr uint64_t kFilledBytes = 8192;

/// Unmaps the thread's stacks when it ends.
struct FreeStacksOwner {
  ~FreeStacksOwner() {
    while (DriverStack* const stack = t_free_driver_stacks) {
      t_free_driver_stacks = stack->next;
      unmap_fixed(reinterpret_cast<void*>(stack->low - kStackGuardBytes),
                  kStackGuardBytes + stack->bytes + 2 * kPageBytes);
      delete stack;
    }
  }
};

DriverStack* map_driver_stack(uint64_t bytes) {
  thread_local FreeStacksOwner owner;
  static_cast<void>(&owner);
  make_signal_stack();
  void* const mapping = map_fixed(FixedRange::kStacks, kStackGuardBytes + bytes + 2 * kPageBytes,
                                  PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  DXGKIT_CHECK(mapping != MAP_FAILED);
  auto* const stack = new DriverStack();
  stack->low = reinterpret_cast<uint64_t>(mapping) + kStackGuardBytes;
  stack->bytes = bytes;
  // The page above stands for the callers' frames. A driver that copies more than its caller's
  // structure reads other data there on Windows, and here too.
  DXGKIT_CHECK(mprotect(reinterpret_cast<void*>(stack->low), bytes + kPageBytes,
                        PROT_READ | PROT_WRITE) == 0);
  return stack;
}

}  // namespace

DriverStack* acquire_other_driver_stack(uint64_t bytes) {
  for (DriverStack** link = &t_free_driver_stacks; *link != nullptr; link = &(*link)->next) {
    if ((*link)->bytes != bytes) continue;
    DriverStack* const stack = *link;
    *link = stack->next;
    return stack;
  }
  return map_driver_stack(bytes);
}

void sort_free_driver_stacks() {
  std::vector<DriverStack*> stacks;
  for (DriverStack* stack = t_free_driver_stacks; stack != nullptr; stack = stack->next)
    stacks.push_back(stack);
  std::ranges::sort(stacks, std::greater(), &DriverStack::low);
  t_free_driver_stacks = nullptr;
  for (DriverStack* const stack : stacks) release_driver_stack(stack);
}

void set_stack_fill(Kernel& kernel, std::byte fill) { kernel.impl().stack_fill = fill; }

void CallFrame::take_stack() {
  if (kernel_.hang_limit() != 0) watch_driver_thread();
  const uint64_t bytes = kernel_.stack_bytes_;
  if (bytes == 0) return;
  stack_ = acquire_driver_stack(bytes);
  stack_low = stack_->low;
  stack_bytes = stack_->bytes;
  driver_sp = base_sp = stack_low + stack_bytes;
  const std::byte fill = kernel_.impl_->stack_fill.load(std::memory_order_relaxed);
  if (fill == std::byte{0}) [[likely]]
    return;
  const uint64_t filled = std::min(bytes, kFilledBytes);
  std::memset(reinterpret_cast<void*>(driver_sp - filled), std::to_integer<int>(fill), filled);
}

bool Kernel::is_stack_guard(const void* address) {
  const CallFrame* const frame = CallFrame::current_or_null();
  if (frame == nullptr || frame->driver_stack_bytes() == 0) return false;
  const uint64_t low = frame->driver_stack_low();
  return reinterpret_cast<uint64_t>(address) - (low - kStackGuardBytes) < kStackGuardBytes;
}

// --- stubs

namespace {

/// mov r11, target ; mov rax, dxgkit_nt_door ; jmp rax
constexpr size_t kStubBytes = 32;
constexpr size_t kBlockBytes = 64 * 1024;

}  // namespace

DoorBlock::DoorBlock() {
  // Two views of the same pages, so that none is ever writable and executable: driver threads run
  // stubs while others are being written.
  const int file = memfd_create("dxgkit doors", MFD_CLOEXEC);
  DXGKIT_CHECK(file >= 0);
  DXGKIT_CHECK(ftruncate(file, kBlockBytes) == 0);
  void* const write_view = mmap(nullptr, kBlockBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* const code_view =
      map_fixed(FixedRange::kImages, kBlockBytes, PROT_READ | PROT_EXEC, MAP_SHARED, file);
  DXGKIT_CHECK(write_view != MAP_FAILED);
  DXGKIT_CHECK(code_view != MAP_FAILED);
  close(file);
  writable = static_cast<uint8_t*>(write_view);
  code = static_cast<const uint8_t*>(code_view);
}

DoorBlock::~DoorBlock() {
  munmap(writable, kBlockBytes);
  unmap_fixed(const_cast<uint8_t*>(code), kBlockBytes);
}

size_t DoorBlock::room() const { return kBlockBytes - used; }

const void* DoorBlock::add_code(std::span<const uint8_t> bytes) {
  if (bytes.size() > room()) return nullptr;
  std::memcpy(writable + used, bytes.data(), bytes.size());
  const uint8_t* const at = code + used;
  used += bytes.size();
  return at;
}

const void* DoorBlock::add(const DoorTarget& target) {
  if (used + kStubBytes > kBlockBytes) return nullptr;
  uint8_t* at = writable + used;
  const auto put = [&](std::initializer_list<uint8_t> bytes) {
    at = std::copy(bytes.begin(), bytes.end(), at);
  };
  const auto put_pointer = [&](const void* pointer) {
    std::memcpy(at, &pointer, sizeof(pointer));
    at += sizeof(pointer);
  };
  put({0x49, 0xBB});
  put_pointer(&target);
  put({0x48, 0xB8});
  put_pointer(reinterpret_cast<const void*>(&dxgkit_nt_door));
  put({0xFF, 0xE0});
  const uint8_t* const stub = code + used;
  used += kStubBytes;
  return stub;
}

const void* Kernel::door(const Export& target) {
  if (target.address == &kNumberProcessors) return &impl_->number_of_processors;
  if (target.direct || target.data_bytes > 0) return target.address;
  return impl_->doors.make({.function = target.address,
                            .name = target.name,
                            .stack_arguments = target.stack_arguments,
                            .irql_max = target.irql_max,
                            .irql_min = target.irql_min,
                            .traced = config_.trace_imports,
                            .result_kind = target.result_kind});
}

const void* Kernel::door(const char* name, const void* function, uint32_t stack_arguments,
                         Irql irql_max, ResultKind result_kind) {
  if (function == nullptr) return nullptr;
  return impl_->doors.make({.function = function,
                            .name = name,
                            .stack_arguments = stack_arguments,
                            .irql_max = irql_max,
                            .irql_min = 0,
                            .traced = false,
                            .result_kind = result_kind});
}

const void* Doors::make(DoorTarget target) {
  target.fast_irql_max = target.traced || target.irql_min > 0
                             ? int8_t{-1}
                             : static_cast<int8_t>(std::min<Irql>(target.irql_max, 15));
  prepare_for_log(&target);
  runtime::MutexLock hold(lock);
  const auto key = std::make_pair(target.function, std::string_view(target.name));
  if (const auto known = stubs.find(key); known != stubs.end()) return known->second;
  targets.push_back(target);
  const void* stub = blocks.empty() ? nullptr : blocks.back()->add(targets.back());
  if (stub == nullptr) {
    blocks.push_back(std::make_unique<DoorBlock>());
    stub = blocks.back()->add(targets.back());
  }
  stubs.emplace(key, stub);
  return stub;
}

// --- calls that are not plain

void report_irql(CallFrame& frame, const char* function, Irql lowest, Irql highest) {
  verifier::Finding finding{
      .rule = "NT-07",
      .severity = verifier::Severity::kViolation,
      .ddi = function,
      .actual = fmt::format("{} was called at {} (IRQL {}) in {}.", function,
                            irql_name(frame.irql()), frame.irql(), frame.name()),
      .expected = lowest == 0 ? fmt::format("It may be called at {} or below.", irql_name(highest))
                              : fmt::format("It is called at {} to {}.", irql_name(lowest),
                                            irql_name(highest)),
      .fix = frame.irql() > highest
                 ? "Move the call out of the raised section, or hand the work to a thread or DPC."
                 : "Raise the level first, or use the form of the routine that does it."};
  finding.windows =
      "Works on an idle machine and stops a busy one (often 0xA or 0xD1); Driver Verifier stops it "
      "at once with 0xC4.";
  finding.place = frame.kernel().place_of(frame.caller());
  frame.kernel().findings().report(std::move(finding));
}

bool require_irql(CallFrame& frame, const char* function, Irql highest) {
  if (frame.irql() <= highest) [[likely]]
    return true;
  if (!frame.irql_was_reported()) report_irql(frame, function, 0, highest);
  return false;
}

extern "C" void dxgkit_nt_door_watched(DoorFrame* door, const DoorTarget* target);
extern "C" void dxgkit_nt_door_answered(DoorFrame* door, uint64_t answer);

/// Runs before a call that is above the level of its target, traced or logged. On the host stack.
void dxgkit_nt_door_watched(DoorFrame* door, const DoorTarget* target) {
  CallFrame& frame = CallFrame::current();
  if (target->traced) {
    if (trace::Recorder* recorder = trace::current()) {
      recorder->record(trace::EventKind::kCallbackEnter, recorder->name_id(target->name),
                       frame.irql());
    }
  }
  if (frame.irql() > target->irql_max || frame.irql() < target->irql_min) {
    report_irql(frame, target->name, target->irql_min, target->irql_max);
    door->irql_reported = 1;
  }
  if (CallLog* const log = CallLog::current(); log != nullptr && door->logged != 0)
    door->logged_call = log->enter(*target, *door);
}

/// Runs after a logged call. On the host stack.
void dxgkit_nt_door_answered(DoorFrame* door, uint64_t answer) {
  if (CallLog* const log = CallLog::current()) log->answered(door->logged_call, answer);
}

// --- places

bool Kernel::is_code_of_any_image(const void* address) const {
  return std::ranges::any_of(impl_->images, [&](const DriverImage& image) {
    return static_cast<uint64_t>(static_cast<const std::byte*>(address) - image.base) < image.size;
  });
}

void Kernel::images_changed() {
  const std::vector<DriverImage>& images = impl_->images;
  code_low_ = images.empty() ? 0 : reinterpret_cast<uint64_t>(images[0].base);
  code_bytes_ = images.empty() ? 0 : images[0].size;
  several_images_ = images.size() > 1;
}

verifier::Place Kernel::place_of(const void* address) const {
  verifier::Place place;
  for (const DriverImage& image : impl_->images) {
    const auto rva = static_cast<uint64_t>(static_cast<const std::byte*>(address) - image.base);
    if (rva >= image.size) continue;
    place.image = image.name;
    place.rva = rva;
    // Most addresses here are return addresses: the call is the instruction before.
    place.path = image.path;
    place.after_call = true;
    // The call is the instruction before, which may be the last of its function.
    if (image.symbol) place.symbol = image.symbol(rva == 0 ? 0 : rva - 1);
    break;
  }
  return place;
}

verifier::Place Kernel::entry_place_of(const void* function) const {
  verifier::Place place;
  for (const DriverImage& image : impl_->images) {
    const auto rva = static_cast<uint64_t>(static_cast<const std::byte*>(function) - image.base);
    if (rva >= image.size) continue;
    place.image = image.name;
    place.path = image.path;
    place.rva = rva;
    place.entry = true;
    if (image.symbol) place.symbol = image.symbol(rva);
    break;
  }
  return place;
}

}  // namespace dxgkit::nt
