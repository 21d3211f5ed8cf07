// A run as fixed-size binary events. Every module may emit events, a Recorder collects them,
// exporters read them.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dxgkit::trace {

/// One kind per fact that a reader wants to see. The schema table in schema.cpp gives each kind a
/// name, and names for a..d. Text export, Perfetto export and the report are generated from it.
/// Append only, because files hold the numbers.
enum class EventKind : uint16_t {
  kNone = 0,
  // The driver boundary. a = DDI or callback index (name through `name_id`), b = status / return
  // value, c = duration ns.
  kDdiEnter = 1,       // a name_id, b irql, c argument of note (fence, handle), node
  kDdiExit = 2,        // a name_id, b NTSTATUS, c irql
  kCallbackEnter = 3,  // a name_id, b irql
  kCallbackExit = 4,   // a name_id, b NTSTATUS or value
  kThunkEnter = 5,     // a name_id, b process
  kThunkExit = 6,      // a name_id, b NTSTATUS
  // Packets. a = packet id, b = context id, c / d as named.
  kPacketQueued = 10,     // c kind, d software-queue length
  kPacketReady = 11,      // resident, about to be patched
  kPacketPatched = 12,    // c patch locations
  kPacketSubmitted = 13,  // c fence, d hardware-queue length
  kPacketCompleted = 14,  // c fence
  kPacketPreempted = 15,  // c fence
  kPacketCancelled = 16,
  kPacketFaulted = 17,  // c fence
  kHardwareStart = 18,  // device model: node begins the buffer with fence c
  kHardwareEnd = 19,    // device model: node finished fence c
  // Interrupts.
  kInterrupt = 30,  // a type, c fence, node
  kDpcQueued = 31,
  kDpcRun = 32,
  // Memory. a = allocation id, b = segment, c = offset, d = size.
  kAllocationCreated = 40,  // b: the owner process, 0 the kernel
  kAllocationDestroyed = 41,
  kPlaced = 42,
  kEvicted = 43,
  kPageIn = 44,  // bytes moved in d
  kPageOut = 45,
  kApertureMapped = 46,
  kApertureUnmapped = 47,
  kLocked = 48,
  kUnlocked = 49,
  kPagingOperation = 50,  // a operation, b allocation, c bytes, d bytes of the buffer
  // A process's budget or its usage changed. a process, b group (0 local, 1 non-local), c budget,
  // d usage, both in bytes.
  kBudget = 51,
  // Synchronisation objects. a = object, b = value.
  kSyncSignal = 60,  // c context or 0 for CPU
  kSyncWait = 61,    // c context or 0 for CPU
  kSyncSatisfied = 62,
  // Adapter life. a = adapter.
  kAdapterState = 70,  // b state: 0 stopped, 1 running, 2 failed, 3 asleep, 4 removed
  kFinding = 71,       // a name_id of the rule, b severity
  kMarker = 72,        // a name_id of free text
  kSegment = 73,       // b segment, c base, d size
  kObjectName = 74,    // a id, b name_id, c ObjectClass
  // GPU virtual addresses. a = process (0: the kernel's own, for paging). Addresses and sizes are
  // in bytes. The content of a range changes when the call is made; entries follow in the paging
  // queue.
  kGpuVaSpace = 100,     // b address bits, c levels, d index bits of each level: 8 bits, leaf first
  kGpuVaReserved = 101,  // b address, c size, d 1: reads zeros, 2: by the driver
  kGpuVaFreed = 102,     // b address, c size: a client's call
  kGpuVaUpdated = 103,   // b context, c operations, d fence value: a batch took effect
  kGpuVaMapped = 104,    // b address, c size, d allocation; 0: zeros
  // Of the event before: b allocation offset, c protection, d the driver's protection.
  kGpuVaView = 105,
  kGpuVaUnmapped = 106,     // b address, c size
  kPageTableWrite = 107,    // b level, c offset, d segment of the table: whose kPageTableEntries
                            // follow
  kPageTableEntries = 108,  // a first address, b count, c page of the first, d bits 0..31 flags of
                            // each, 32..63 pages from one to the next
  kGpuVaRoot = 109,         // b context, c offset, d segment of the table
  kTlbFlushed = 110,        // b first address, c end
  kGpuVaFault = 111,        // a fence, b address, c flags, d level where translation ended; node
  kGpuVaSpaceEnded = 112,
  kPageTablesLost = 113,  // of a process, 0: of all; they are written again
  // Causes: why the events around them happen, and whose objects are. Reasons are those of
  // causes.h. They are no part of the run: hash_of leaves them out.
  kWhyEvicted = 1000,  // a allocation, b reason, c allocation and d packet that need the room, or 0
  kWhyBusy = 1001,     // a packet that cannot be prepared, b context, c reason, d allocation or 0
  kWhyPreempted = 1002,   // a packet that is ready, or 0, b its context, c reason, d fence of the
                          // preemption; node
  kWhyTimeout = 1003,     // a packet at the head, or 0, b context, c its fence, d fence of the
                          // preemption without an answer, or 0; node
  kWhyDeviceLost = 1004,  // a process, b device handle, c D3DKMT_DEVICEEXECUTION_STATE
  kWhyRefused = 1005,    // a reason, b handle, c type that was expected, d type that it has: inside
                         // the thunk
  kContextOwner = 1006,  // a context, b process, c device handle; node
  kHandleOpened = 1007,  // a process, b handle, c type, d id of its context, allocation or
                         // synchronization object, or 0: clients can use it from here on
  kHandleClosed = 1008,  // a process, b handle
  // Of each packet on an engine that timed out, after kWhyTimeout: a packet.
  kHungBuffer = 1009,  // b segment (kVirtual: by GPU virtual address), c address, d bytes; node
  kHungPatch = 1010,   // b offset in the DMA buffer, c allocation or 0, d offset in the allocation
  kHungBytes = 1011,   // b offset from the start of its commands, c, d: 16 bytes, the lowest first
};
/// True for the kinds that say why, and not what.
constexpr bool is_cause(uint16_t kind) { return kind >= 1000; }

/// In place of a segment: the address is one of the process's GPU virtual addresses.
inline constexpr uint64_t kVirtual = UINT32_MAX;

struct Event {
  int64_t time_ns = 0;
  uint32_t thread = 0;
  uint16_t kind = 0;
  uint16_t node = 0xFFFF;  // 0xFFFF: none
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t c = 0;
  uint64_t d = 0;
};
static_assert(sizeof(Event) == 48);
inline constexpr uint16_t kNoNode = 0xFFFF;
inline std::optional<uint16_t> node_of(const Event& event) {
  if (event.node == kNoNode) return std::nullopt;
  return event.node;
}

/// Collects events of all threads of one run. Thread-safe. In sim the order is the run's order, so
/// equal seeds give equal bytes. Memory is bounded: beyond `max_events` the oldest events are
/// dropped and counted.
class Recorder {
 public:
  struct Clock {  // the runtime provides these: trace stays below it
    std::function<int64_t()> now_ns;
    std::function<uint32_t()> thread;
  };
  explicit Recorder(Clock clock, size_t max_events = size_t{1} << 24);
  ~Recorder();

  void record(EventKind kind, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0,
              uint16_t node = kNoNode);
  /// Interns a string: same text, same id, ids dense in order of first use.
  uint32_t name_id(std::string_view text);

  /// A merged copy, by time, then thread, then order of recording. Events of one OS thread keep the
  /// order in which they were recorded, so events of a simulation are in the run's order. Call it
  /// when the run is quiet.
  /// @param first  so many events are left out at the start, as when a run is looked at in parts
  std::vector<Event> events(size_t first = 0) const;
  std::vector<std::string> names() const;
  uint64_t dropped() const;
  /// The number of events so far, dropped ones among them. In a simulation the next event is that
  /// one of the run's order.
  uint64_t recorded() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

namespace detail {
inline constinit thread_local Recorder* t_current = nullptr;
}  // namespace detail

/// The recorder for events of the calling thread, or null: then `emit` costs one load. Set it
/// before a run and clear it after. It is per OS thread. A runtime passes it on to the threads that
/// it spawns, so parallel simulations do not mix.
inline Recorder* current() { return detail::t_current; }
inline void set_current(Recorder* recorder) { detail::t_current = recorder; }

inline void emit(EventKind kind, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0,
                 uint16_t node = kNoNode) {
  if (Recorder* recorder = current()) recorder->record(kind, a, b, c, d, node);
}

/// The class of object that a kObjectName names.
enum class ObjectClass : uint64_t { kContext = 1, kProcess = 2, kNode = 3, kThread = 4 };
/// Names an object in the recording, if there is a recorder.
void emit_name(ObjectClass object_class, uint64_t id, std::string_view name);

/// Schema: the name of a kind and the meaning of its arguments. Null for a number that is not a
/// kind.
struct ArgumentInfo {
  const char* name = nullptr;  // null: the argument is not used
  bool is_name_id = false;     // an id from Recorder::name_id
};
struct KindInfo {
  EventKind kind;
  const char* name;
  ArgumentInfo arguments[4];
};
const KindInfo* kind_info(uint16_t kind);
/// The whole table, by kind.
std::span<const KindInfo> schema();

/// A hash of the content of all events but causes in their order: equal runs give equal hashes.
/// Files keep hashes, so the function must not change.
uint64_t hash_of(std::span<const Event> events);

/// All data that a viewer needs, detached from the run.
struct Recording {
  std::vector<Event> events;
  std::vector<std::string> names;
  std::vector<std::string> threads;  // by number
  uint64_t dropped = 0;
};

/// Perfetto protobuf (.pftrace): one track per node's hardware queue, software queue per context,
/// interrupts, DPCs, memory counters per segment, threads with DDI slices. Deterministic bytes.
std::string to_perfetto(const Recording& recording);
/// One line per event, stable, for golden tests.
std::string to_text(const Recording& recording);
/// Reads the output of to_text; lines that begin with # are comments. For any other text the error
/// is one sentence that begins with "line N: ". The text has no names of threads; events keep their
/// order. Cost: linear in the text.
std::expected<Recording, std::string> from_text(std::string_view text);
/// The JSON for report.html; README.md describes the format.
std::string to_report_json(const Recording& recording);

}  // namespace dxgkit::trace
