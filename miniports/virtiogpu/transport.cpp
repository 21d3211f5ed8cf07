// Virtio on PCI, from the driver's side: capabilities, set-up, queues.
#include "miniports/virtiogpu/driver.h"

namespace virtiogpu {
namespace {

constexpr ULONG kStatusOffset = 0x06, kCapabilitiesOffset = 0x34, kBarsOffset = 0x10;
constexpr USHORT kStatusCapabilities = 0x0010;
constexpr UINT kBars = 6;
constexpr ULONG kBarIsPorts = 1, kBarIsWide = 4;

template <typename T>
bool read_config(const Adapter& adapter, ULONG offset, T* value) {
  ULONG read = 0;
  const NTSTATUS status = adapter.dxgk.DxgkCbReadDeviceSpace(
      adapter.dxgk.DeviceHandle, DXGK_WHICHSPACE_CONFIG, value, offset, sizeof(*value), &read);
  return NT_SUCCESS(status) && read == sizeof(*value);
}

// A device that left reads all ones, whoever asks; here nobody asks any more.
UCHAR read8(const Adapter& adapter, ULONG offset) {
  return adapter.gone ? 0xFF : READ_REGISTER_UCHAR(adapter.registers.common + offset);
}
USHORT read16(const Adapter& adapter, ULONG offset) {
  if (adapter.gone) return 0xFFFF;
  return READ_REGISTER_USHORT(
      reinterpret_cast<volatile USHORT*>(adapter.registers.common + offset));
}
ULONG read32(const Adapter& adapter, ULONG offset) {
  if (adapter.gone) return 0xFFFFFFFF;
  return READ_REGISTER_ULONG(reinterpret_cast<volatile ULONG*>(adapter.registers.common + offset));
}
void write8(const Adapter& adapter, ULONG offset, UCHAR value) {
  if (!adapter.gone) WRITE_REGISTER_UCHAR(adapter.registers.common + offset, value);
}
void write16(const Adapter& adapter, ULONG offset, USHORT value) {
  if (adapter.gone) return;
  WRITE_REGISTER_USHORT(reinterpret_cast<volatile USHORT*>(adapter.registers.common + offset),
                        value);
}
void write32(const Adapter& adapter, ULONG offset, ULONG value) {
  if (adapter.gone) return;
  WRITE_REGISTER_ULONG(reinterpret_cast<volatile ULONG*>(adapter.registers.common + offset), value);
}
/// Registers of 64 bits are two of 32.
void write64(const Adapter& adapter, ULONG offset, ULONG64 value) {
  write32(adapter, offset, static_cast<ULONG>(value));
  write32(adapter, offset + 4, static_cast<ULONG>(value >> 32));
}

/// The memory resource of a BAR. Resources come in the order of the BARs, without those of ports.
bool find_bar(const Adapter& adapter, PCM_RESOURCE_LIST resources, UINT bar,
              PHYSICAL_ADDRESS* start, ULONG* bytes) {
  if (resources == nullptr || resources->Count == 0) return false;
  UINT ordinal = 0;
  for (UINT i = 0; i <= bar; ++i) {
    ULONG value = 0;
    if (!read_config(adapter, kBarsOffset + 4 * i, &value)) return false;
    if (i == bar) {
      if (value == 0 || (value & kBarIsPorts) != 0) return false;
      break;
    }
    if (value == 0 || (value & kBarIsPorts) != 0) continue;
    ++ordinal;
    if ((value & kBarIsWide) != 0 && ++i == bar) return false;  // an upper half
  }
  const CM_PARTIAL_RESOURCE_LIST& list = resources->List[0].PartialResourceList;
  for (ULONG i = 0; i < list.Count; ++i) {
    const CM_PARTIAL_RESOURCE_DESCRIPTOR& one = list.PartialDescriptors[i];
    if (one.Type != CmResourceTypeMemory) continue;
    if (ordinal-- != 0) continue;
    RtlCopyMemory(start, &one.u.Memory.Start, sizeof(*start));  // the list is not aligned
    *bytes = one.u.Memory.Length;
    return true;
  }
  return false;
}

/// Where a vendor capability leads to; null if that is nowhere, or has less than `least` bytes.
volatile UCHAR* map_capability(Adapter* adapter, PCM_RESOURCE_LIST resources, ULONG at,
                               ULONG least) {
  UCHAR bar = 0;
  ULONG offset = 0, bytes = 0;
  if (!read_config(*adapter, at + VIRTIO_PCI_CAP_BAR, &bar)) return nullptr;
  if (!read_config(*adapter, at + VIRTIO_PCI_CAP_OFFSET, &offset)) return nullptr;
  if (!read_config(*adapter, at + VIRTIO_PCI_CAP_BYTES, &bytes)) return nullptr;
  PHYSICAL_ADDRESS start = {};
  ULONG bar_bytes = 0;
  if (bar >= kBars || bytes < least) return nullptr;
  if (!find_bar(*adapter, resources, bar, &start, &bar_bytes)) return nullptr;
  if (offset > bar_bytes || bytes > bar_bytes - offset) return nullptr;
  PVOID& mapped = adapter->registers.mapped[bar];
  if (mapped == nullptr) {
    const NTSTATUS status = adapter->dxgk.DxgkCbMapMemory(
        adapter->dxgk.DeviceHandle, start, bar_bytes, FALSE, FALSE, MmNonCached, &mapped);
    if (!NT_SUCCESS(status)) mapped = nullptr;
  }
  return mapped == nullptr ? nullptr : static_cast<volatile UCHAR*>(mapped) + offset;
}

// Memory of a queue: descriptors, the available ring, the used ring, then requests, answers and
// tables of descriptors.
constexpr USHORT kDescriptorsEach = 3;
constexpr ULONG kTableBytes = VIRTQ_DESC_BYTES * kDescriptorsEach;
constexpr ULONG kAvailOffset = VIRTQ_DESC_BYTES * kQueueEntries;
constexpr ULONG kUsedOffset = (kAvailOffset + VIRTQ_AVAIL_BYTES(kQueueEntries) + 3) & ~3U;
constexpr ULONG kRequestsOffset = (kUsedOffset + VIRTQ_USED_BYTES(kQueueEntries) + 63) & ~63U;
constexpr ULONG kAnswersOffset = kRequestsOffset + kSlotsMost * kRequestBytes;
constexpr ULONG kTablesOffset = kAnswersOffset + kSlotsMost * kAnswerBytes;
constexpr ULONG kLongAnswerOffset = kTablesOffset + kSlotsMost * kTableBytes;
constexpr ULONG kMemoryBytes = kLongAnswerOffset + kLongAnswerBytes;

template <typename T>
volatile T* at(const Queue& queue, ULONG offset) {
  return reinterpret_cast<volatile T*>(queue.memory + offset);
}

/// A descriptor in a table that begins at `table` of the queue's memory.
void put_descriptor(const Queue& queue, ULONG table, USHORT index, ULONG64 address, ULONG bytes,
                    USHORT flags, USHORT next) {
  const ULONG offset = table + ULONG{VIRTQ_DESC_BYTES} * index;
  *at<ULONG64>(queue, offset) = address;
  *at<ULONG>(queue, offset + 8) = bytes;
  *at<USHORT>(queue, offset + 12) = flags;
  *at<USHORT>(queue, offset + 14) = next;
}

/// Tells the device where the queue is. STATUS_DEVICE_CONFIGURATION_ERROR: it has none like it.
NTSTATUS enable_queue(Adapter* adapter, Queue* queue) {
  RtlZeroMemory(queue->memory, kMemoryBytes);
  queue->offered = queue->taken = 0;
  RtlZeroMemory(queue->busy, sizeof(queue->busy));
  write16(*adapter, VIRTIO_COMMON_QUEUE_SELECT, queue->index);
  const USHORT most = read16(*adapter, VIRTIO_COMMON_QUEUE_SIZE);
  if (most == 0 || most == 0xFFFF || most < kDescriptorsEach)
    return STATUS_DEVICE_CONFIGURATION_ERROR;
  const USHORT entries = most < kQueueEntries ? most : kQueueEntries;
  queue->entries = entries;
  queue->indirect = adapter->has_indirect;
  const USHORT slots = queue->indirect ? entries : entries / kDescriptorsEach;
  queue->slots = slots < kSlotsMost ? slots : kSlotsMost;
  const ULONG64 base = static_cast<ULONG64>(queue->address.QuadPart);
  write16(*adapter, VIRTIO_COMMON_QUEUE_SIZE, entries);
  write16(*adapter, VIRTIO_COMMON_QUEUE_VECTOR, VIRTIO_NO_VECTOR);  // INTx
  write64(*adapter, VIRTIO_COMMON_QUEUE_DESC, base);
  write64(*adapter, VIRTIO_COMMON_QUEUE_DRIVER, base + kAvailOffset);
  write64(*adapter, VIRTIO_COMMON_QUEUE_DEVICE, base + kUsedOffset);
  queue->notify_offset =
      read16(*adapter, VIRTIO_COMMON_QUEUE_NOTIFY) * adapter->registers.notify_multiplier;
  write16(*adapter, VIRTIO_COMMON_QUEUE_ENABLE, 1);
  return STATUS_SUCCESS;
}

}  // namespace

NTSTATUS find_device(Adapter* adapter) {
  constexpr NTSTATUS kOther = STATUS_DEVICE_CONFIGURATION_ERROR;
  DXGK_DEVICE_INFO info = {};
  const NTSTATUS status =
      adapter->dxgk.DxgkCbGetDeviceInformation(adapter->dxgk.DeviceHandle, &info);
  if (!NT_SUCCESS(status)) return status;
  USHORT ids[2] = {0, 0}, pci_status = 0;
  if (!read_config(*adapter, 0, &ids) || !read_config(*adapter, kStatusOffset, &pci_status))
    return kOther;
  if (ids[0] != VIRTIO_PCI_VENDOR_ID || ids[1] != VIRTIO_PCI_DEVICE_ID(VGPU_VIRTIO_TYPE))
    return kOther;
  if ((pci_status & kStatusCapabilities) == 0) return kOther;
  Registers& registers = adapter->registers;
  UCHAR at = 0;
  if (!read_config(*adapter, kCapabilitiesOffset, &at)) return kOther;
  // The list is the device's word: it may be a loop. No list has more members than room for them.
  for (UINT left = 48; (at & ~3) != 0 && left != 0; --left) {
    at &= static_cast<UCHAR>(~3);
    UCHAR head[4] = {};  // id, next, length, type
    if (!read_config(*adapter, at, &head)) return kOther;
    const PCM_RESOURCE_LIST resources = info.TranslatedResourceList;
    if (head[0] == VIRTIO_PCI_CAP_ID && head[2] >= VIRTIO_PCI_CAP_LEAST) {
      // The first of each kind that can be used is the one that the device prefers.
      if (head[3] == VIRTIO_PCI_CAP_COMMON && registers.common == nullptr) {
        registers.common = map_capability(adapter, resources, at, VIRTIO_COMMON_BYTES);
      } else if (head[3] == VIRTIO_PCI_CAP_ISR && registers.isr == nullptr) {
        registers.isr = map_capability(adapter, resources, at, 1);
      } else if (head[3] == VIRTIO_PCI_CAP_DEVICE && registers.config == nullptr) {
        registers.config = map_capability(adapter, resources, at, VGPU_CONFIG_BYTES);
      } else if (head[3] == VIRTIO_PCI_CAP_NOTIFY && registers.notify == nullptr &&
                 head[2] >= VIRTIO_PCI_CAP_LEAST_EXTENDED &&
                 read_config(*adapter, at + VIRTIO_PCI_CAP_MULTIPLIER,
                             &registers.notify_multiplier)) {
        registers.notify = map_capability(adapter, resources, at, 2);
      }
    }
    at = head[1];
  }
  const bool all = registers.common != nullptr && registers.isr != nullptr &&
                   registers.config != nullptr && registers.notify != nullptr;
  if (!all) return kOther;
  adapter->ready = true;
  return STATUS_SUCCESS;
}

void unmap_device(Adapter* adapter) {
  adapter->ready = false;
  for (PVOID& mapped : adapter->registers.mapped) {
    if (mapped != nullptr)
      (void)adapter->dxgk.DxgkCbUnmapMemory(adapter->dxgk.DeviceHandle, mapped);
  }
  RtlZeroMemory(&adapter->registers, sizeof(adapter->registers));
}

NTSTATUS allocate_queue(Queue* queue, USHORT index) {
  PHYSICAL_ADDRESS lowest = {}, highest = {}, boundary = {};
  highest.QuadPart = -1;  // the device has 64 bits
  queue->index = index;
  queue->memory = static_cast<PUCHAR>(
      MmAllocateContiguousMemorySpecifyCache(kMemoryBytes, lowest, highest, boundary, MmCached));
  if (queue->memory == nullptr) return STATUS_NO_MEMORY;
  queue->address = MmGetPhysicalAddress(queue->memory);
  return STATUS_SUCCESS;
}

void free_queue(Queue* queue) {
  if (queue->memory != nullptr)
    MmFreeContiguousMemorySpecifyCache(queue->memory, kMemoryBytes, MmCached);
  queue->memory = nullptr;
}

NTSTATUS reset_device(Adapter* adapter) {
  ++adapter->generation;
  write8(*adapter, VIRTIO_COMMON_STATUS, 0);
  for (UINT i = 0; i < 100000; ++i) {  // a second
    const UCHAR status = read8(*adapter, VIRTIO_COMMON_STATUS);
    if (status == 0) return STATUS_SUCCESS;
    if (status == 0xFF) return STATUS_DEVICE_REMOVED;  // it touches nothing any more
    KeStallExecutionProcessor(10);
  }
  return STATUS_IO_DEVICE_ERROR;
}

NTSTATUS start_device(Adapter* adapter) {
  if (const NTSTATUS status = reset_device(adapter); !NT_SUCCESS(status)) return status;
  write8(*adapter, VIRTIO_COMMON_STATUS, VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER);
  write32(*adapter, VIRTIO_COMMON_DEVICE_FEATURE_SELECT, 1);
  const ULONG high = read32(*adapter, VIRTIO_COMMON_DEVICE_FEATURE);
  write32(*adapter, VIRTIO_COMMON_DEVICE_FEATURE_SELECT, 0);
  const ULONG low = read32(*adapter, VIRTIO_COMMON_DEVICE_FEATURE);
  constexpr ULONG kVersion1 = 1U << (VIRTIO_F_VERSION_1 - 32);
  // A device that offers it may refuse a driver that does not take it. The addresses of this driver
  // are those of the bus in any case.
  constexpr ULONG kAccessPlatform = 1U << (VIRTIO_F_ACCESS_PLATFORM - 32);
  if ((high & kVersion1) == 0) return STATUS_DEVICE_CONFIGURATION_ERROR;
  // Without the event index: every answer is wanted at once.
  constexpr ULONG kWanted = 1U << VGPU_F_VIRGL | 1U << VGPU_F_EDID | 1U << VGPU_F_CONTEXT_INIT |
                            1U << VIRTIO_F_INDIRECT_DESC;
  const ULONG wanted = low & kWanted;
  adapter->has_3d = (wanted & 1U << VGPU_F_VIRGL) != 0;
  adapter->has_context_init = (wanted & 1U << VGPU_F_CONTEXT_INIT) != 0;
  adapter->has_edid = (wanted & 1U << VGPU_F_EDID) != 0;
  adapter->has_indirect = (wanted & 1U << VIRTIO_F_INDIRECT_DESC) != 0;
  write32(*adapter, VIRTIO_COMMON_DRIVER_FEATURE_SELECT, 0);
  write32(*adapter, VIRTIO_COMMON_DRIVER_FEATURE, wanted);
  write32(*adapter, VIRTIO_COMMON_DRIVER_FEATURE_SELECT, 1);
  write32(*adapter, VIRTIO_COMMON_DRIVER_FEATURE, high & (kVersion1 | kAccessPlatform));
  constexpr UCHAR kAgreed =
      VIRTIO_STATUS_ACKNOWLEDGE | VIRTIO_STATUS_DRIVER | VIRTIO_STATUS_FEATURES_OK;
  write8(*adapter, VIRTIO_COMMON_STATUS, kAgreed);
  if ((read8(*adapter, VIRTIO_COMMON_STATUS) & VIRTIO_STATUS_FEATURES_OK) == 0)
    return STATUS_DEVICE_CONFIGURATION_ERROR;
  write16(*adapter, VIRTIO_COMMON_CONFIG_VECTOR, VIRTIO_NO_VECTOR);
  Queue* const queues[] = {&adapter->control, &adapter->cursor_queue};
  for (Queue* queue : queues) {
    if (const NTSTATUS status = enable_queue(adapter, queue); !NT_SUCCESS(status)) return status;
  }
  write8(*adapter, VIRTIO_COMMON_STATUS, kAgreed | VIRTIO_STATUS_DRIVER_OK);
  const UCHAR status = read8(*adapter, VIRTIO_COMMON_STATUS);
  if (status == 0xFF) return STATUS_DEVICE_REMOVED;
  return (status & VIRTIO_STATUS_NEEDS_RESET) == 0 ? STATUS_SUCCESS : STATUS_IO_DEVICE_ERROR;
}

ULONG capset_count_of(const Adapter& adapter) {
  if (adapter.gone) return 0;
  return READ_REGISTER_ULONG(
      reinterpret_cast<volatile ULONG*>(adapter.registers.config + VGPU_CONFIG_CAPSETS));
}

bool needs_reset(const Adapter& adapter) {
  return (read8(adapter, VIRTIO_COMMON_STATUS) & VIRTIO_STATUS_NEEDS_RESET) != 0;
}

// --- commands

int find_slot(const Queue& queue) {
  for (int slot = 0; slot < queue.slots; ++slot) {
    if (!queue.busy[slot]) return slot;
  }
  return -1;
}

PUCHAR request_of(const Queue& queue, int slot) {
  return queue.memory + kRequestsOffset + slot * kRequestBytes;
}
const UCHAR* answer_of(const Queue& queue, int slot) {
  return queue.memory + kAnswersOffset + slot * kAnswerBytes;
}
const UCHAR* long_answer_of(const Queue& queue) { return queue.memory + kLongAnswerOffset; }

void offer(Adapter* adapter, Queue* queue, int slot, const Command& command) {
  const ULONG64 base = static_cast<ULONG64>(queue->address.QuadPart);
  const auto number = static_cast<ULONG>(slot);
  const ULONG64 request =
      command.request != 0 ? command.request : base + kRequestsOffset + number * kRequestBytes;
  const ULONG answer = command.is_long ? kLongAnswerOffset : kAnswersOffset + number * kAnswerBytes;
  // An answer that is not written must not look like one from before.
  RtlZeroMemory(queue->memory + answer, sizeof(VgpuHeader));
  const ULONG table_offset = kTablesOffset + number * kTableBytes;
  const ULONG table = queue->indirect ? table_offset : 0;
  const auto head = static_cast<USHORT>(queue->indirect ? slot : slot * kDescriptorsEach);
  const USHORT first = queue->indirect ? 0 : head;
  const USHORT last = first + kDescriptorsEach - 1;
  put_descriptor(*queue, table, first, request, command.request_bytes, VIRTQ_DESC_NEXT,
                 command.data != 0 ? first + 1 : last);
  if (command.data != 0)
    put_descriptor(*queue, table, first + 1, command.data, command.data_bytes, VIRTQ_DESC_NEXT,
                   last);
  put_descriptor(*queue, table, last, base + answer,
                 command.is_long ? kLongAnswerBytes : kAnswerBytes, VIRTQ_DESC_WRITE, 0);
  if (queue->indirect)
    put_descriptor(*queue, 0, head, base + table_offset, kTableBytes, VIRTQ_DESC_INDIRECT, 0);
  queue->busy[slot] = true;
  *at<USHORT>(*queue, kAvailOffset + 4 + 2U * (queue->offered % queue->entries)) = head;
  KeMemoryBarrier();  // the chain before the index that shows it
  *at<USHORT>(*queue, kAvailOffset + 2) = ++queue->offered;
  KeMemoryBarrier();  // the index before the notification
  if (adapter->gone) return;
  WRITE_REGISTER_USHORT(
      reinterpret_cast<volatile USHORT*>(adapter->registers.notify + queue->notify_offset),
      queue->index);
}

int take_used(Queue* queue) {
  while (queue->taken != *at<USHORT>(*queue, kUsedOffset + 2)) {
    KeMemoryBarrier();  // the index before the entry that it shows
    const ULONG entry = kUsedOffset + 4 + 8U * (queue->taken % queue->entries);
    const ULONG head = *at<ULONG>(*queue, entry);
    const ULONG slot = queue->indirect ? head : head / kDescriptorsEach;
    ++queue->taken;
    // The device's word: what is not under way is not done.
    if (slot >= queue->slots || !queue->busy[slot]) continue;
    queue->busy[slot] = false;
    return static_cast<int>(slot);
  }
  return -1;
}

}  // namespace virtiogpu
