#include "sim/hostile/caller.h"

#include <d3dkmthk.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/guarded_copy.h"

namespace dxgkit::hostile {
namespace {

constexpr size_t kArenaBytes = size_t{1} << 20;
constexpr size_t kGuardBytes = size_t{1} << 16;
/// With a watch each list is alone: a size that is too long leads to no other.
constexpr size_t kSlotBytes = size_t{16} << 10, kSlotGuard = 4096, kSlots = 512;
constexpr size_t kSlotStep = kSlotBytes + kSlotGuard;
constexpr size_t kKnownMost = 24;  // of a kind of handle

size_t index_of(Pool pool) { return static_cast<size_t>(pool); }

template <typename T>
T pick(const std::vector<T>& from, uint64_t choice) {
  return from.empty() ? T{} : from[choice % from.size()];
}

/// Members may be longer than a number (LUIDs with more, GUIDs): the rest is zeros, and is not
/// read.
void put(std::byte* out, uint64_t value, size_t bytes) {
  std::memset(out, 0, bytes);
  std::memcpy(out, &value, std::min(bytes, sizeof value));
}
uint64_t get(const std::byte* in, size_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, in, std::min(bytes, sizeof value));
  return value;
}

void no_callback(void*) {}

/// The most frequent calls of clients. Otherwise drivers would see little work among so many calls.
constexpr std::string_view kWork[] = {"D3DKMTRender",
                                      "D3DKMTRender",
                                      "D3DKMTSubmitCommand",
                                      "D3DKMTCreateAllocation2",
                                      "D3DKMTMakeResident",
                                      "D3DKMTLock2",
                                      "D3DKMTMapGpuVirtualAddress",
                                      "D3DKMTUnlock2",
                                      "D3DKMTEvict",
                                      "D3DKMTDestroyAllocation2"};

template <typename Arguments>
Planned planned_as(const char* name, const Arguments& arguments) {
  Planned planned;
  planned.call = find_call(name);
  DXGKIT_CHECK(planned.call != nullptr);
  planned.arguments.resize(sizeof arguments);
  std::memcpy(planned.arguments.data(), &arguments, sizeof arguments);
  planned.before = planned.arguments;
  return planned;
}

}  // namespace

Market::~Market() {
  for (const int64_t descriptor : nt_handles) close(static_cast<int>(descriptor));
}

const Call* find_call(std::string_view name) {
  for (const Call& call : calls()) {
    if (name == call.name) return &call;
  }
  return nullptr;
}

std::string Planned::text() const {
  std::string out = fmt::format("{}(", call->name);
  bool first = true;
  for (const Field& field : records()[static_cast<size_t>(call->record)].fields) {
    for (uint32_t i = 0; i < std::min<uint32_t>(field.count, 2); ++i) {
      const uint64_t number = get(before.data() + field.offset + i * field.size, field.size);
      if (number == 0) continue;
      out += fmt::format("{}{}={:#x}", first ? "" : ", ", field.name, number);
      first = false;
    }
  }
  return out + ")";
}

Caller::Caller(Market& market, CallerOptions options)
    : market_(market), options_(std::move(options)), event_(eventfd(0, EFD_NONBLOCK)) {
  void* const memory = mmap(nullptr, kArenaBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  DXGKIT_CHECK(memory != MAP_FAILED && event_ >= 0);
  arena_ = static_cast<std::byte*>(memory);
  DXGKIT_CHECK(mprotect(arena_ + kArenaBytes, kGuardBytes, PROT_NONE) == 0);
  void* const pages = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  DXGKIT_CHECK(pages != MAP_FAILED);
  backing_ = static_cast<std::byte*>(pages);
  if (options_.watch == nullptr) return;
  void* const slots = mmap(nullptr, kSlots * kSlotStep, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  DXGKIT_CHECK(slots != MAP_FAILED);
  slots_ = static_cast<std::byte*>(slots);
  for (size_t i = 1; i <= kSlots; ++i)
    DXGKIT_CHECK(mprotect(slots_ + i * kSlotStep - kSlotGuard, kSlotGuard, PROT_NONE) == 0);
}

Caller::~Caller() {
  munmap(arena_, kArenaBytes + kGuardBytes);
  munmap(backing_, kArenaBytes);
  if (slots_ != nullptr) munmap(slots_, kSlots * kSlotStep);
  close(event_);
}

std::byte* Caller::room(size_t bytes) {
  if (slots_ != nullptr && bytes <= kSlotBytes) {
    std::byte* const end = slots_ + (slot_++ % kSlots + 1) * kSlotStep - kSlotGuard;
    return end - ((bytes + 15) & ~size_t{15});
  }
  if (used_ + bytes > kArenaBytes) used_ = 0;
  std::byte* const at = arena_ + used_;
  used_ += (bytes + 15) & ~size_t{15};
  return at;
}

std::byte* Caller::backing(size_t bytes, bool aligned) {
  backing_used_ = (backing_used_ + 0xFFF) & ~size_t{0xFFF};
  if (backing_used_ + bytes + 16 > kArenaBytes) backing_used_ = 0;
  std::byte* const at = backing_ + backing_used_ + (aligned ? 0 : 16);
  backing_used_ += bytes + 16;
  return at;
}

Planned Caller::placed(Planned planned) {
  if (options_.watch == nullptr) return planned;
  planned.watch = options_.watch;
  planned.place = room(planned.arguments.size());
  planned.memory = {slots_, kSlots * kSlotStep};
  return planned;
}

NTSTATUS Caller::make(Planned& planned) {
  if (planned.watch == nullptr) return planned.call->run(planned.arguments.data());
  std::ranges::copy(planned.arguments, planned.place);
  planned.watch->begins(planned.memory);
  const NTSTATUS status = planned.call->run(planned.place);
  planned.watch->ends();
  std::copy_n(planned.place, planned.arguments.size(), planned.arguments.data());
  return status;
}

Planned Caller::plan(const Choices& choices) { return placed(plan_any(choices)); }
Planned Caller::plan_opening(uint32_t step) { return placed(plan_one_of_opening(step)); }

uint32_t Caller::handle(Pool pool, const Choices& choices) {
  const uint64_t choice = choices();
  const uint64_t rest = choice / 32;
  const auto& known = mine_[index_of(pool)];
  switch (choice % 32) {
    case 0:
    case 1:
    case 2:
      return 0;
    case 3:
      return pick(mine_[rest % kPoolCount], rest / kPoolCount);
    case 4:
    case 5:
      return pick(market_.handles[index_of(pool)], rest);
    case 6:
      return static_cast<uint32_t>(choices());
    default:
      // The newest are most likely alive.
      if (known.size() > 2 && rest % 2 == 0) return known[known.size() - 1 - rest / 2 % 2];
      return pick(known, rest / 2);
  }
}

uint64_t Caller::value(const Field& field, uint32_t count, uint32_t depth, const Choices& choices) {
  static constexpr uint64_t kOdd[] = {
      0,          1,          2,          0xFFF,       0x1000,
      0x1001,     0xFFFF,     0x10000,    0x10001,     0x100000,
      0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, UINT64_MAX - 0xFFF,
      UINT64_MAX};
  switch (field.kind) {
    case Kind::kHandle:
      return handle(field.pool, choices);
    case Kind::kList: {
      const uint64_t choice = choices() % 32;
      if (choice == 0) return 0;
      if (choice == 1) return reinterpret_cast<uint64_t>(arena_) + kArenaBytes - 8;
      if (choice == 2) return choices();
      const Record& record = records()[static_cast<size_t>(field.record)];
      const uint32_t length = std::max<uint32_t>(count, 1);
      std::byte* const list = room(size_t{record.size} * length);
      if (depth > 3) return reinterpret_cast<uint64_t>(list);
      for (uint32_t i = 0; i < length; ++i)
        fill(record, list + size_t{i} * record.size, depth + 1, choices);
      return reinterpret_cast<uint64_t>(list);
    }
    default:
      break;
  }
  const uint64_t choice = choices();
  const uint64_t rest = choice / 16;
  const bool odd = choice % 16 == 0;
  switch (field.kind) {
    case Kind::kReserved:
      return odd ? rest : 0;
    case Kind::kSmall:
      return odd ? kOdd[rest % std::size(kOdd)] : rest % 8;
    case Kind::kCount:
      if (odd) return kOdd[rest % std::size(kOdd)];
      return choice % 16 == 1 ? rest % 70 : count;
    case Kind::kPages:
      return odd ? kOdd[rest % std::size(kOdd)] : rest % 17;
    case Kind::kBytes:
      if (odd) return kOdd[rest % std::size(kOdd)];
      return choice % 2 == 0 ? rest % 9 * 0x10000 : rest % 5 * 16;
    case Kind::kPrivateBytes:
      if (odd) return kOdd[rest % std::size(kOdd)];
      return choice % 4 == 1 ? rest % 300 : options_.allocation_data.size();
    case Kind::kFlags: {
      if (odd) return choices();
      if (choice % 16 < 9) return 0;
      uint64_t flags = 0;
      // One bit that means something, or two.
      for (uint64_t bits = choice % 16 < 14 ? 1 : 2, at = rest; bits > 0; --bits, at /= 64) {
        const auto meaning = static_cast<uint32_t>(__builtin_popcountll(field.mask));
        if (meaning == 0) break;
        uint64_t mask = field.mask;
        for (uint64_t skip = at % meaning; skip > 0; --skip) mask &= mask - 1;
        flags |= mask & -mask;
      }
      return flags;
    }
    case Kind::kNtHandle:
      if (odd) return 9'999;
      if (choice % 4 == 1) return static_cast<uint64_t>(event_);
      return choice % 4 == 2 ? static_cast<uint64_t>(pick(market_.nt_handles, rest)) : 0;
    case Kind::kAddress:
      if (odd) return kOdd[rest % std::size(kOdd)];
      if (choice % 4 == 1) return 0;
      return pick(addresses_, rest) + (choice % 4 == 2 ? rest / 64 % 4 * 0x1000 : 0);
    case Kind::kBuffer:
      if (odd) return choice;
      return choice % 4 == 1 ? 0 : reinterpret_cast<uint64_t>(room(4096));
    case Kind::kMemory:
      if (odd) return choice;
      if (choice % 8 != 1) return 0;  // most allocations are the kernel's to back
      return reinterpret_cast<uint64_t>(backing(0x20000, rest % 8 != 0));
    case Kind::kPrivateData: {
      if (odd) return rest % 2 == 0 ? 0 : reinterpret_cast<uint64_t>(arena_) + kArenaBytes - 4;
      std::byte* const data = room(std::max<size_t>(options_.allocation_data.size(), 64));
      std::copy(options_.allocation_data.begin(), options_.allocation_data.end(), data);
      if (choice % 4 == 1 && !options_.allocation_data.empty())
        put(data + rest % options_.allocation_data.size() / 4 * 4, choices(), 4);
      return reinterpret_cast<uint64_t>(data);
    }
    case Kind::kOpaque:
      return odd ? choice : pick(opaque_, rest);
    case Kind::kFunction:
      return odd ? 0 : reinterpret_cast<uint64_t>(&no_callback);
    default:
      if (odd) return kOdd[rest % std::size(kOdd)];
      return choice % 16 < 12 ? rest % 4 : choices();
  }
}

void Caller::fill(const Record& record, std::byte* out, uint32_t depth, const Choices& choices) {
  std::memset(out, 0, record.size);
  static constexpr uint32_t kCounts[] = {1, 1, 1, 1, 2, 2, 3, 0};
  const uint32_t count = kCounts[choices() % std::size(kCounts)];
  uint32_t filled = 0;
  for (const Field& field : record.fields) {
    // One member of a union, as a rule the first.
    if (field.offset < filled && choices() % 8 != 0) continue;
    for (uint32_t i = 0; i < std::min<uint32_t>(field.count, std::max<uint32_t>(count, 1)); ++i)
      put(out + field.offset + i * field.size, value(field, count, depth, choices), field.size);
    filled = std::max<uint32_t>(filled, field.offset + uint32_t{field.size} * field.count);
  }
}

Planned Caller::plan_again(const Choices& choices) {
  Planned planned = accepted_[choices() % accepted_.size()];
  const auto fields = records()[static_cast<size_t>(planned.call->record)].fields;
  if (fields.empty()) return planned;
  const Field& field = fields[choices() % fields.size()];
  std::byte* const at = planned.before.data() + field.offset;
  const uint64_t choice = choices();
  uint64_t number = get(at, field.size);
  // A pointer beside itself may lead into the memory of the test.
  static constexpr Kind kNumbers[] = {Kind::kNumber, Kind::kSmall,    Kind::kCount,
                                      Kind::kBytes,  Kind::kPages,    Kind::kFlags,
                                      Kind::kHandle, Kind::kReserved, Kind::kPrivateBytes};
  const bool is_number = std::ranges::find(kNumbers, field.kind) != std::end(kNumbers);
  switch (is_number ? choice % 4 : 3) {
    case 0:
      ++number;
      break;
    case 1:
      --number;
      break;
    case 2:
      number ^= uint64_t{1} << choice / 4 % 64;
      break;
    default:
      number = value(field, 1, 0, choices);
  }
  put(at, number, field.size);
  planned.arguments = planned.before;
  return planned;
}

Planned Caller::plan_any(const Choices& choices) {
  if (options_.repeats && !accepted_.empty() && choices() % 2 == 0) {
    Planned again = plan_again(choices);
    if (std::string_view(again.call->name).starts_with("D3DKMTDestroy")) buffers_.clear();
    return again;
  }
  Planned planned;
  const uint64_t choice = choices();
  planned.call = choice % 4 == 0 ? find_call(kWork[choice / 4 % std::size(kWork)])
                                 : &calls()[choice / 4 % calls().size()];
  DXGKIT_CHECK(planned.call != nullptr);
  const Record& record = records()[static_cast<size_t>(planned.call->record)];
  planned.arguments.resize(record.size);
  fill(record, planned.arguments.data(), 0, choices);
  const std::string_view name(planned.call->name);
  // The client's address space is the kernel's here, so buffers of a context are not touched once
  // they may be freed.
  if (name == "D3DKMTDestroyContext" || name == "D3DKMTDestroyDevice") buffers_.clear();
  if (name == "D3DKMTRender") prepare_render(planned, choices);
  planned.before = planned.arguments;
  return planned;
}

void Caller::prepare_render(Planned& planned, const Choices& choices) {
  if (buffers_.empty()) return;
  const Buffers& buffers = buffers_[choices() % buffers_.size()];
  D3DKMT_RENDER render{};
  std::memcpy(&render, planned.arguments.data(), sizeof render);
  render.hContext = buffers.context;
  render.CommandOffset = choices() % 4 == 0 ? 64 : 0;
  render.CommandLength = static_cast<UINT>(16 * (1 + choices() % 16));
  render.AllocationCount = static_cast<UINT>(choices() % 4);
  render.PatchLocationCount = static_cast<UINT>(choices() % 4);
  std::array<std::byte, 320> command;
  for (std::byte& one : command) one = static_cast<std::byte>(0x11);
  if (const auto& known = options_.commands; !known.empty()) {
    const size_t bytes = std::min(known.size(), command.size());
    std::copy_n(known.begin(), bytes, command.begin());
    render.CommandLength = static_cast<UINT>(bytes);
    if (choices() % 4 != 0) render.CommandOffset = 0;
    if (const uint64_t spoil = choices(); spoil % 4 == 0)
      put(command.data() + spoil / 4 % bytes / 4 * 4, choices(), 4);
  } else {
    put(command.data() + 16, choices(), 8);
  }
  std::memcpy(planned.arguments.data(), &render, sizeof render);
  static_cast<void>(guarded_copy(buffers.command, command.data(),
                                 std::min<size_t>(command.size(), buffers.command_bytes)));
  std::array<D3DDDI_ALLOCATIONLIST, 3> listed{};
  for (uint32_t i = 0; i < render.AllocationCount; ++i) {
    listed[i].hAllocation = handle(Pool::kAllocation, choices);
    listed[i].WriteOperation = choices() % 2;
  }
  std::array<D3DDDI_PATCHLOCATIONLIST, 3> patches{};
  for (uint32_t i = 0; i < render.PatchLocationCount; ++i) {
    const uint64_t choice = choices();
    patches[i].AllocationIndex =
        choice % 16 == 0 ? static_cast<UINT>(choices())
                         : static_cast<UINT>(choice / 16 % (render.AllocationCount + 1));
    patches[i].SlotId = static_cast<UINT>(choice / 64 % 4);
    patches[i].PatchOffset = i * 16 + (choice % 32 == 1 ? 0x100000 : 0);
    patches[i].AllocationOffset = choice % 32 == 2 ? UINT32_MAX : 0;
    patches[i].SplitOffset = choice % 32 == 3 ? static_cast<UINT>(choices()) : 0;
  }
  static_cast<void>(guarded_copy(buffers.allocations, listed.data(),
                                 render.AllocationCount * sizeof(D3DDDI_ALLOCATIONLIST)));
  static_cast<void>(guarded_copy(buffers.patches, patches.data(),
                                 render.PatchLocationCount * sizeof(D3DDDI_PATCHLOCATIONLIST)));
}

Planned Caller::plan_one_of_opening(uint32_t step) {
  const auto newest = [&](Pool pool) {
    const auto& known = mine_[index_of(pool)];
    return known.empty() ? 0 : known.back();
  };
  switch (step) {
    case 0: {
      D3DKMT_OPENADAPTERFROMLUID args{};
      args.AdapterLuid.LowPart = options_.luid_low;
      args.AdapterLuid.HighPart = static_cast<LONG>(options_.luid_high);
      return planned_as("D3DKMTOpenAdapterFromLuid", args);
    }
    case 1: {
      D3DKMT_CREATEDEVICE args{};
      args.hAdapter = newest(Pool::kAdapter);
      return planned_as("D3DKMTCreateDevice", args);
    }
    case 2: {
      D3DKMT_CREATECONTEXT args{};
      args.hDevice = newest(Pool::kDevice);
      return planned_as("D3DKMTCreateContext", args);
    }
    case 3: {
      D3DKMT_CREATECONTEXTVIRTUAL args{};
      args.hDevice = newest(Pool::kDevice);
      return planned_as("D3DKMTCreateContextVirtual", args);
    }
    case 4: {
      D3DKMT_CREATEPAGINGQUEUE args{};
      args.hDevice = newest(Pool::kDevice);
      return planned_as("D3DKMTCreatePagingQueue", args);
    }
    case 5: {
      D3DKMT_CREATESYNCHRONIZATIONOBJECT2 args{};
      args.hDevice = newest(Pool::kDevice);
      args.Info.Type = D3DDDI_MONITORED_FENCE;
      return planned_as("D3DKMTCreateSynchronizationObject2", args);
    }
    default: {
      std::byte* const data = room(std::max<size_t>(options_.allocation_data.size(), 16));
      std::copy(options_.allocation_data.begin(), options_.allocation_data.end(), data);
      auto* const info =
          reinterpret_cast<D3DDDI_ALLOCATIONINFO2*>(room(sizeof(D3DDDI_ALLOCATIONINFO2)));
      *info = {};
      info->pPrivateDriverData = data;
      info->PrivateDriverDataSize = static_cast<UINT>(options_.allocation_data.size());
      D3DKMT_CREATEALLOCATION args{};
      args.hDevice = newest(Pool::kDevice);
      args.NumAllocations = 1;
      args.pAllocationInfo2 = info;
      args.Flags.CreateResource = step == 7;
      args.Flags.CreateShared = step == 7;
      return planned_as("D3DKMTCreateAllocation2", args);
    }
  }
}

void Caller::note(Pool pool, uint32_t handle) {
  if (handle == 0) return;
  for (auto* known : {&mine_[index_of(pool)], &market_.handles[index_of(pool)]}) {
    if (std::ranges::find(*known, handle) != known->end()) continue;
    if (known->size() == kKnownMost) known->erase(known->begin());
    known->push_back(handle);
  }
}

void Caller::own(uint64_t descriptor) {
  const auto number = static_cast<int64_t>(descriptor);
  if (number > 2 && std::ranges::find(market_.nt_handles, number) == market_.nt_handles.end())
    market_.nt_handles.push_back(number);
}

void Caller::learn(const Planned& planned, NTSTATUS status) {
  ++made;
  if (options_.log)
    options_.log(fmt::format("{}: {} = {:#010x}", options_.name, planned.text(),
                             static_cast<uint32_t>(status)));
  if (options_.answered) options_.answered(planned.call->name, status);
  if (status < 0) return;
  ++succeeded;
  if (options_.repeats) {
    const auto known = std::ranges::find(accepted_, planned.call, &Planned::call);
    if (known == accepted_.end())
      accepted_.push_back(planned);
    else
      *known = planned;
  }
  const std::byte* const arguments = planned.arguments.data();
  for (const Field& field : records()[static_cast<size_t>(planned.call->record)].fields) {
    const uint64_t number = get(arguments + field.offset, field.size);
    const bool changed = number != get(planned.before.data() + field.offset, field.size);
    if (field.kind == Kind::kHandle && changed) note(field.pool, static_cast<uint32_t>(number));
    if (field.kind == Kind::kAddress && changed && number != 0) addresses_.push_back(number);
    if (field.kind == Kind::kNtHandle && changed) own(number);
    if (field.kind == Kind::kOpaque && changed && number != 0) opaque_.push_back(number);
    // Lists that were filled in: the handles of new objects.
    if (field.kind != Kind::kList || number == 0) continue;
    const Record& record = records()[static_cast<size_t>(field.record)];
    for (uint32_t i = 0; i < 3; ++i) {
      for (const Field& inner : record.fields) {
        uint64_t found = 0;
        const auto* const at =
            reinterpret_cast<const std::byte*>(number) + size_t{i} * record.size + inner.offset;
        if (inner.kind != Kind::kHandle && inner.kind != Kind::kNtHandle) continue;
        if (!guarded_copy(&found, at, inner.size)) continue;
        if (inner.kind == Kind::kHandle && found >> 30 != 0)
          note(inner.pool, static_cast<uint32_t>(found));
        // Descriptors that the call made, never invented ones.
        if (inner.kind == Kind::kNtHandle && i == 0 &&
            std::string_view(field.name) == "phSharedNtHandle")
          own(found);
      }
    }
  }
  if (addresses_.size() > kKnownMost) addresses_.erase(addresses_.begin());
  const std::string_view name(planned.call->name);
  if (name == "D3DKMTCreateContext") {
    D3DKMT_CREATECONTEXT made_context{};
    std::memcpy(&made_context, arguments, sizeof made_context);
    buffers_.push_back({made_context.hContext, static_cast<std::byte*>(made_context.pCommandBuffer),
                        made_context.CommandBufferSize,
                        reinterpret_cast<std::byte*>(made_context.pAllocationList),
                        reinterpret_cast<std::byte*>(made_context.pPatchLocationList)});
  } else if (name == "D3DKMTRender") {
    D3DKMT_RENDER render{};
    std::memcpy(&render, arguments, sizeof render);
    for (Buffers& buffers : buffers_) {
      if (buffers.context != render.hContext || render.pNewCommandBuffer == nullptr) continue;
      buffers.command = static_cast<std::byte*>(render.pNewCommandBuffer);
      buffers.command_bytes = render.NewCommandBufferSize;
      buffers.allocations = reinterpret_cast<std::byte*>(render.pNewAllocationList);
      buffers.patches = reinterpret_cast<std::byte*>(render.pNewPatchLocationList);
    }
  } else if (name == "D3DKMTLock" || name == "D3DKMTLock2") {
    // It is ours to write now.
    void* data = nullptr;
    const size_t at =
        name == "D3DKMTLock" ? offsetof(D3DKMT_LOCK, pData) : offsetof(D3DKMT_LOCK2, pData);
    std::memcpy(&data, arguments + at, sizeof data);
    const uint64_t word = made * 0x0101010101010101ULL;
    if (data != nullptr) static_cast<void>(guarded_copy(data, &word, sizeof word));
  }
}

}  // namespace dxgkit::hostile
