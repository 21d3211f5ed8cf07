// Work items: queued at any level, run at PASSIVE_LEVEL on the kernel's worker threads.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "nt/executive.h"

namespace dxgkit::nt {
namespace {

/// Work items may wait for each other; Windows too has a small number of workers per queue.
constexpr size_t kWorkersMax = 8;
constexpr uint32_t kIoWorkItemBytes = 64;

struct WorkQueueItem {  // WORK_QUEUE_ITEM
  ListEntry list;
  void(DXGKIT_NT_ABI* routine)(void*);
  void* parameter;
};
static_assert(sizeof(WorkQueueItem) == 32);

void run_entry(Kernel& kernel, const WorkEntry& entry) {
  CallFrame frame(kernel, "work item", kPassiveLevel);
  switch (entry.kind) {
    case WorkEntry::Kind::kIo:
      frame.call_void(reinterpret_cast<void(DXGKIT_NT_ABI*)(void*, void*)>(entry.routine),
                      entry.object, entry.context);
      break;
    case WorkEntry::Kind::kIoEx:
      frame.call_void(reinterpret_cast<void(DXGKIT_NT_ABI*)(void*, void*, void*)>(entry.routine),
                      entry.object, entry.context, entry.item);
      break;
    case WorkEntry::Kind::kExecutive:
      frame.call_void(reinterpret_cast<void(DXGKIT_NT_ABI*)(void*)>(entry.routine), entry.context);
      break;
  }
  if (frame.abandoned() || frame.irql() == kPassiveLevel) return;
  kernel.violation("IRQL-01", "work item routine",
                   fmt::format("The work item returned at {}.", irql_name(frame.irql())),
                   "A work item returns at PASSIVE_LEVEL, the level it was called at.",
                   "Pair every raise, lower and spin-lock call in the routine.");
  frame.restore_entry_irql();
}

void run_worker(Kernel& kernel) {
  Executive& state = executive_of(kernel);
  const runtime::WaitReason reason(kernel.runtime(), "a work item to run");
  for (;;) {
    state.lock.lock();
    if (state.work.empty()) {
      if (state.work_stops) {
        state.lock.unlock();
        return;
      }
      const uint32_t seen = state.work_signal.load(std::memory_order_relaxed);
      ++state.workers_idle;
      state.lock.unlock();
      (void)kernel.runtime().wait(state.work_signal, seen);
      runtime::MutexLock lock(state.lock);
      --state.workers_idle;
      continue;
    }
    const WorkEntry entry = state.work.front();
    state.work.pop_front();
    if (const auto item = state.work_items.find(entry.item); item != state.work_items.end())
      item->second.queued = false;
    state.lock.unlock();
    if (!kernel.driver_is_dead()) run_entry(kernel, entry);
    if (state.work_outstanding.fetch_sub(1, std::memory_order_acq_rel) == 1)
      kernel.runtime().wake_all(state.work_outstanding);
  }
}

[[noreturn]] void queued_already(const char* function, const void* item) {
  CallFrame::current().kernel().bug_check(
      "NT-29", function, 0xC4, static_cast<uint32_t>(reinterpret_cast<uint64_t>(item)),
      fmt::format("The work item {} is in the queue.", item),
      "A work item is in the queue once at a time and is not freed while it is there.",
      "Keep a flag that says whether it is queued, cleared by the routine.");
}

void queue(const char* function, WorkEntry entry) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kDispatchLevel);
  Kernel& kernel = frame.kernel();
  Executive& state = executive_of(kernel);
  bool twice = false, spawn = false;
  {
    runtime::MutexLock lock(state.lock);
    twice =
        std::ranges::any_of(state.work, [&](const WorkEntry& w) { return w.item == entry.item; });
    if (state.work_stops) return;  // the driver is being unloaded: none of its code runs any more
    if (!twice) {
      if (const auto item = state.work_items.find(entry.item); item != state.work_items.end()) {
        item->second.queued = true;
        if (entry.object == nullptr) entry.object = item->second.object;
      }
      state.work.push_back(entry);
      state.work_outstanding.fetch_add(1, std::memory_order_relaxed);
      state.work_signal.fetch_add(1, std::memory_order_relaxed);
      spawn = state.work.size() > state.workers_idle && state.workers.size() < kWorkersMax;
      if (spawn) state.workers.emplace_back();
    }
  }
  if (twice) queued_already(function, entry.item);
  if (!spawn) {
    kernel.runtime().wake_all(state.work_signal);
    return;
  }
  auto thread = kernel.runtime().spawn("worker", [&kernel] { run_worker(kernel); });
  runtime::MutexLock lock(state.lock);
  *std::ranges::find_if(state.workers, [](const auto& slot) { return slot == nullptr; }) =
      std::move(thread);
}

DXGKIT_NT_ABI void* io_allocate_work_item(void* object) {
  required("IoAllocateWorkItem", "DeviceObject", static_cast<std::byte*>(object));
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "IoAllocateWorkItem", kDispatchLevel);
  if (frame.kernel().impl().allocation_fails("IoAllocateWorkItem")) return nullptr;
  HeapBlock memory = take_block(frame.kernel().impl().heap, kIoWorkItemBytes);
  if (memory == nullptr) return nullptr;
  void* const item = memory.get();
  Executive& state = executive_of(frame.kernel());
  runtime::MutexLock lock(state.lock);
  state.work_items.emplace(item,
                           IoWorkItem{state.next_sequence++, object, false, std::move(memory)});
  return item;
}

void forget_work_item(const char* function, void* item, bool allocated) {
  Executive& state = executive();
  bool known = false, queued = false;
  {
    runtime::MutexLock lock(state.lock);
    const auto found = state.work_items.find(item);
    known = found != state.work_items.end() && found->second.allocated() == allocated;
    queued = known && found->second.queued;
    if (known && !queued) state.work_items.erase(found);
  }
  if (!known) {
    CallFrame::current().kernel().bug_check(
        "NT-29", function, 0xC4, static_cast<uint32_t>(reinterpret_cast<uint64_t>(item)),
        fmt::format("{} is no work item to give back here.", item),
        "A work item is given back once, by the counterpart of what made it.",
        "Look for a second IoFreeWorkItem.");
  }
  if (queued) queued_already(function, item);
}

DXGKIT_NT_ABI void io_free_work_item(void* item) {
  require_irql(CallFrame::current(), "IoFreeWorkItem", kDispatchLevel);
  forget_work_item("IoFreeWorkItem", item, true);
}
DXGKIT_NT_ABI uint32_t io_sizeof_work_item() { return kIoWorkItemBytes; }
DXGKIT_NT_ABI void io_initialize_work_item(void* object, void* item) {
  required("IoInitializeWorkItem", "IoWorkItem", static_cast<std::byte*>(item));
  Executive& state = executive();
  runtime::MutexLock lock(state.lock);
  state.work_items.insert_or_assign(item, IoWorkItem{state.next_sequence++, object, false, {}});
}
DXGKIT_NT_ABI void io_uninitialize_work_item(void* item) {
  forget_work_item("IoUninitializeWorkItem", item, false);
}

void require_work_item(const char* function, void* item) {
  Executive& state = executive();
  bool known = false;
  {
    runtime::MutexLock lock(state.lock);
    known = state.work_items.contains(item);
  }
  if (known) return;
  CallFrame::current().kernel().bug_check(
      "NT-29", function, 0xC4, static_cast<uint32_t>(reinterpret_cast<uint64_t>(item)),
      fmt::format("{} is no work item.", item), "Work items come from IoAllocateWorkItem.",
      "Look for a use after IoFreeWorkItem.");
}

DXGKIT_NT_ABI void io_queue_work_item(void* item, void* routine, uint32_t, void* context) {
  require_work_item("IoQueueWorkItem", item);
  required("IoQueueWorkItem", "WorkerRoutine", static_cast<std::byte*>(routine));
  queue("IoQueueWorkItem", {WorkEntry::Kind::kIo, item, routine, nullptr, context});
}
DXGKIT_NT_ABI void io_queue_work_item_ex(void* item, void* routine, uint32_t, void* context) {
  require_work_item("IoQueueWorkItemEx", item);
  required("IoQueueWorkItemEx", "WorkerRoutine", static_cast<std::byte*>(routine));
  queue("IoQueueWorkItemEx", {WorkEntry::Kind::kIoEx, item, routine, nullptr, context});
}
DXGKIT_NT_ABI uint8_t io_try_queue_work_item(void* item, void* routine, uint32_t, void* context) {
  require_work_item("IoTryQueueWorkItem", item);
  required("IoTryQueueWorkItem", "WorkerRoutine", static_cast<std::byte*>(routine));
  {
    Executive& state = executive();
    runtime::MutexLock lock(state.lock);
    if (state.work_items.at(item).queued) return 0;
  }
  queue("IoTryQueueWorkItem", {WorkEntry::Kind::kIoEx, item, routine, nullptr, context});
  return 1;
}

DXGKIT_NT_ABI void ex_queue_work_item(WorkQueueItem* item, uint32_t) {
  WorkQueueItem& given = required("ExQueueWorkItem", "WorkItem", item);
  required("ExQueueWorkItem", "WorkItem->WorkerRoutine",
           reinterpret_cast<std::byte*>(given.routine));
  queue("ExQueueWorkItem", {WorkEntry::Kind::kExecutive, item,
                            reinterpret_cast<void*>(given.routine), nullptr, given.parameter});
}

}  // namespace

void stop_work(Kernel& kernel) {
  Executive& state = executive_of(kernel);
  std::vector<std::unique_ptr<runtime::Thread>> workers;
  {
    runtime::MutexLock lock(state.lock);
    state.work_outstanding.fetch_sub(static_cast<uint32_t>(state.work.size()),
                                     std::memory_order_relaxed);
    state.work.clear();
    state.work_stops = true;
    state.work_signal.fetch_add(1, std::memory_order_relaxed);
    workers.swap(state.workers);
  }
  kernel.runtime().wake_all(state.work_signal);
  for (const auto& worker : workers) {
    if (worker != nullptr) worker->join();
  }
  runtime::MutexLock lock(state.lock);
  state.work_stops = false;
}

std::span<const Export> work_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("ExQueueWorkItem", ex_queue_work_item, kPartial,
                    "one queue: types have no effect"),
      DXGKIT_EXPORT("IoAllocateWorkItem", io_allocate_work_item, kSupported, ""),
      DXGKIT_EXPORT("IoFreeWorkItem", io_free_work_item, kSupported, ""),
      DXGKIT_EXPORT("IoInitializeWorkItem", io_initialize_work_item, kSupported, ""),
      DXGKIT_EXPORT("IoQueueWorkItem", io_queue_work_item, kPartial,
                    "one queue: types have no effect"),
      DXGKIT_EXPORT("IoQueueWorkItemEx", io_queue_work_item_ex, kPartial,
                    "one queue: types have no effect"),
      DXGKIT_EXPORT("IoSizeofWorkItem", io_sizeof_work_item, kSupported, ""),
      DXGKIT_EXPORT("IoTryQueueWorkItem", io_try_queue_work_item, kPartial,
                    "one queue: types have no effect"),
      DXGKIT_EXPORT("IoUninitializeWorkItem", io_uninitialize_work_item, kSupported, ""),
  };
  return kTable;
}

}  // namespace dxgkit::nt
