#include "dxgk/core/handle_table.h"

#include "trace/causes.h"
#include "trace/trace.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint32_t kLiveBit = 1U << 30;
constexpr uint32_t kSlotShift = 6;
constexpr uint32_t kGenerationShift = 24;
constexpr uint32_t kGenerationMask = 0x3F;

/// For the trace: the handle names no object of the type. `found` is null, or the object it names.
void note_refusal(Handle handle, ObjectType expected, const Object* found) {
  const auto reason =
      found == nullptr ? trace::RefusalReason::kHandle : trace::RefusalReason::kHandleType;
  trace::emit(trace::EventKind::kWhyRefused, static_cast<uint64_t>(reason), handle,
              static_cast<uint64_t>(expected),
              found == nullptr ? 0 : static_cast<uint64_t>(found->type()));
}

}  // namespace

Handle HandleTable::make_handle(uint32_t slot, uint32_t generation) const {
  return kLiveBit | (generation & kGenerationMask) << kGenerationShift | slot << kSlotShift | mark_;
}

void HandleTable::note_opened(Handle handle, const Object& object) const {
  trace::emit(trace::EventKind::kHandleOpened, process_, handle,
              static_cast<uint64_t>(object.type()), object.trace_id());
}

void HandleTable::note_closed(Handle handle, const Slot& slot) const {
  if (slot.published) trace::emit(trace::EventKind::kHandleClosed, process_, handle);
}

Result<Handle> HandleTable::insert(Ref<Object> object) {
  return insert_slot(std::move(object), true);
}

Result<Handle> HandleTable::insert_hidden(Ref<Object> object) {
  return insert_slot(std::move(object), false);
}

void HandleTable::publish(Handle handle) {
  runtime::MutexLock lock(mutex_);
  const Slot* found = locate(handle);
  if (found == nullptr || found->published) return;
  slots_[static_cast<size_t>(found - slots_.data())].published = true;
  note_opened(handle, *found->object);
}

Result<Handle> HandleTable::insert_slot(Ref<Object> object, bool published) {
  runtime::MutexLock lock(mutex_);
  uint32_t slot = 0;
  // Slots are taken fresh while there are many left, so that a stale handle stays refused for long.
  constexpr size_t kFreshUntil = 1024;
  if (!free_.empty() && (slots_.size() >= kFreshUntil)) {
    slot = free_.front();
    free_.pop_front();
  } else if (slots_.size() < kMaxHandles) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    return Error(Status::kNoMemory);
  }
  slots_[slot].object = std::move(object);
  slots_[slot].published = published;
  ++live_;
  const Handle handle = make_handle(slot, slots_[slot].generation);
  if (published) note_opened(handle, *slots_[slot].object);
  return handle;
}

const HandleTable::Slot* HandleTable::locate(Handle handle) const {
  if ((handle & kLiveBit) == 0) return nullptr;
  const uint32_t slot = (handle & ((1U << kGenerationShift) - 1)) >> kSlotShift;
  if (slot >= slots_.size()) return nullptr;
  if (!slots_[slot].object) return nullptr;
  // Compare the whole value: stray low bits or bit 31 make a different, invalid handle.
  if (make_handle(slot, slots_[slot].generation) != handle) return nullptr;
  return &slots_[slot];
}

const HandleTable::Slot* HandleTable::locate_object(Handle handle, ObjectType type,
                                                    bool even_hidden) const {
  const Slot* slot = locate(handle);
  if (slot != nullptr && !slot->published && !even_hidden) slot = nullptr;
  if (slot != nullptr && slot->object->type() == type) return slot;
  note_refusal(handle, type, slot == nullptr ? nullptr : slot->object.get());
  return nullptr;
}

Result<Ref<Object>> HandleTable::find_object(Handle handle, ObjectType type,
                                             bool even_hidden) const {
  runtime::MutexLock lock(mutex_);
  const Slot* slot = locate_object(handle, type, even_hidden);
  if (slot == nullptr) return Error(Status::kInvalidParameter);
  return slot->object;
}

Result<Ref<Object>> HandleTable::take_object(Handle handle, ObjectType type) {
  runtime::MutexLock lock(mutex_);
  const Slot* found = locate(handle);
  if (found != nullptr && !found->published) found = nullptr;
  if (found == nullptr || found->object->type() != type) {
    note_refusal(handle, type, found == nullptr ? nullptr : found->object.get());
    return Error(Status::kInvalidParameter);
  }
  Slot& slot = slots_[static_cast<size_t>(found - slots_.data())];
  note_closed(handle, slot);
  Ref<Object> object = std::move(slot.object);
  slot.object = Ref<Object>();
  slot.generation = (slot.generation + 1) & kGenerationMask;
  free_.push_back(static_cast<uint32_t>(found - slots_.data()));
  --live_;
  return object;
}

void HandleTable::erase(Handle handle) {
  Ref<Object> object;  // dropped outside the lock: a destructor may come back here
  runtime::MutexLock lock(mutex_);
  const Slot* found = locate(handle);
  if (found == nullptr) return;
  Slot& slot = slots_[static_cast<size_t>(found - slots_.data())];
  note_closed(handle, slot);
  object = std::move(slot.object);
  slot.object = Ref<Object>();
  slot.generation = (slot.generation + 1) & kGenerationMask;
  free_.push_back(static_cast<uint32_t>(found - slots_.data()));
  --live_;
}

size_t HandleTable::size() const {
  runtime::MutexLock lock(mutex_);
  return live_;
}

std::vector<std::pair<Handle, ObjectType>> HandleTable::live() const {
  runtime::MutexLock lock(mutex_);
  std::vector<std::pair<Handle, ObjectType>> handles;
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].object)
      handles.emplace_back(make_handle(slot, slots_[slot].generation), slots_[slot].object->type());
  }
  return handles;
}

}  // namespace dxgkit::dxgk
