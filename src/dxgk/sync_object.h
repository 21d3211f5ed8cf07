// Client side of a synchronisation object.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "bus/machine.h"
#include "dxgk/handle_table.h"
#include "dxgk/object.h"
#include "vidsch/sync_objects.h"

namespace dxgkit::dxgk {

class Device;

class SyncObject : public Object {
 public:
  static constexpr ObjectType kType = ObjectType::kSyncObject;
  SyncObject();
  ~SyncObject() override;

  Ref<Device> device;
  Handle handle = 0;
  SyncObjectId id;
  vidsch::SyncKind kind = vidsch::SyncKind::kMonitoredFence;
  // Monitored fence: one page of system memory; the client sees it read-only (SYNC-15).
  bus::Machine* machine = nullptr;  // where `page` came from
  bus::PageFrame page;
  std::atomic<uint64_t>* storage = nullptr;
  std::unique_ptr<bus::CpuView> client_view;
  int event_fd = -1;             // CPU notification: our duplicate of the client's event
  bool of_paging_queue = false;  // goes with its queue, never alone (PAGE-47)
};

}  // namespace dxgkit::dxgk
