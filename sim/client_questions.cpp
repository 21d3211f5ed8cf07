// Questions about the adapter and its statistics, and fences that clients share by name.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/spelling.h"
#include "dxgk/memory/sharing.h"
#include "sim/client_call.h"

namespace dxgkit::sim {
namespace {

constexpr size_t kNamedMost = 6;
constexpr uint32_t kGpuNodes = 2;  // of softgpu

/// Answers that stay the same for as long as the adapter runs.
struct Question {
  KMTQUERYADAPTERINFOTYPE type;
  uint32_t bytes;
};
constexpr auto kQuestions = std::to_array<Question>({
    {KMTQAITYPE_GETSEGMENTSIZE, sizeof(D3DKMT_SEGMENTSIZEINFO)},
    {KMTQAITYPE_ADAPTERGUID, sizeof(GUID)},
    {KMTQAITYPE_ADAPTERADDRESS, sizeof(D3DKMT_ADAPTERADDRESS)},
    {KMTQAITYPE_DRIVERVERSION, sizeof(D3DKMT_DRIVERVERSION)},
    {KMTQAITYPE_ADAPTERTYPE, sizeof(D3DKMT_ADAPTERTYPE)},
    {KMTQAITYPE_WDDM_1_2_CAPS, sizeof(D3DKMT_WDDM_1_2_CAPS)},
    {KMTQAITYPE_WDDM_1_3_CAPS, sizeof(D3DKMT_WDDM_1_3_CAPS)},
    {KMTQAITYPE_WDDM_2_0_CAPS, sizeof(D3DKMT_WDDM_2_0_CAPS)},
    {KMTQAITYPE_WDDM_2_7_CAPS, sizeof(D3DKMT_WDDM_2_7_CAPS)},
    {KMTQAITYPE_PHYSICALADAPTERCOUNT, sizeof(D3DKMT_PHYSICAL_ADAPTER_COUNT)},
    {KMTQAITYPE_GETSEGMENTGROUPSIZE, sizeof(D3DKMT_SEGMENTGROUPSIZEINFO)},
    {KMTQAITYPE_NODEMETADATA, sizeof(D3DKMT_NODEMETADATA)},
});

std::u16string wide(std::string_view text) { return {text.begin(), text.end()}; }

/// The name of an object as callers of NT pass it. Points into `text`, which must not move.
struct ObjectName {
  explicit ObjectName(std::u16string& text) {
    name.Length = static_cast<USHORT>(text.size() * sizeof(char16_t));
    name.MaximumLength = name.Length;
    name.Buffer = text.data();
    attributes.Length = sizeof attributes;
    attributes.ObjectName = &name;
  }
  UNICODE_STRING name = {};
  OBJECT_ATTRIBUTES attributes = {};
};

int descriptor_of(HANDLE handle) { return static_cast<int>(reinterpret_cast<intptr_t>(handle)); }

/// A descriptor of the client's, closed also if the client dies in the call that made it.
class Descriptor {
 public:
  explicit Descriptor(HANDLE& handle) : handle_(handle) {}
  ~Descriptor() {
    if (handle_ != nullptr) close(descriptor_of(handle_));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

 private:
  HANDLE& handle_;  // null: none
};

}  // namespace

void Client::ask_questions() {
  if (world_.faults.phase() != Faults::Phase::kWorking || !extra_.percent(world_.plan.questions))
    return;
  switch (extra_.below(10)) {
    case 0:
    case 1:
      return ask_about_adapter();
    case 2:
    case 3:
      return ask_about_segments();
    case 4:
    case 5:
      return ask_about_nodes();
    case 6:
      return list_adapters();
    case 7:
      return share_by_name();
    case 8:
      return use_by_name();
    default:
      return extra_.percent(85) ? flush_transitions() : give_device_up();
  }
}

void Client::ask_about_adapter() {
  const Question& question = kQuestions[extra_.below(kQuestions.size())];
  std::array<std::byte, 512> answer{};
  const auto node = static_cast<uint32_t>(extra_.below(kGpuNodes + 1));  // the last does not exist
  const bool of_node = question.type == KMTQAITYPE_NODEMETADATA;
  if (of_node) std::memcpy(answer.data(), &node, sizeof node);
  const auto before = answer;
  const bool short_buffer = extra_.percent(10);
  D3DKMT_QUERYADAPTERINFO query{};
  query.hAdapter = adapter_;
  query.Type = question.type;
  query.pPrivateDriverData = answer.data();
  query.PrivateDriverDataSize = question.bytes - (short_buffer ? 1 : 0);
  const NTSTATUS status =
      call("D3DKMTQueryAdapterInfo", [&] { return D3DKMTQueryAdapterInfo(&query); });
  const Status answered = from_ntstatus(status);
  ++world_.counters.property_checks;
  if (short_buffer || (of_node && node == kGpuNodes)) {
    if (is_success(answered))
      fail(fmt::format("D3DKMTQueryAdapterInfo {} succeeds with wrong inputs",
                       static_cast<int>(question.type)));
    if (answer != before) fail("a refused D3DKMTQueryAdapterInfo has changed the client's buffer");
    return throw_if_adapter_lost();
  }
  if (!accepted("D3DKMTQueryAdapterInfo", status)) return;
  if (!std::equal(answer.begin() + question.bytes, answer.end(), before.begin() + question.bytes))
    fail("D3DKMTQueryAdapterInfo has written behind the client's buffer");
  // Every client gets the same answer, whenever it asks.
  const auto key = std::pair(static_cast<uint32_t>(question.type), of_node ? node : 0);
  const std::vector<std::byte> bytes(answer.begin(), answer.begin() + question.bytes);
  const auto [first, is_new] = world_.answers.try_emplace(key, bytes);
  if (!is_new && first->second != bytes)
    fail(fmt::format("D3DKMTQueryAdapterInfo {} answers something else than before",
                     static_cast<int>(question.type)));
  if (question.type != KMTQAITYPE_GETSEGMENTSIZE) return;
  D3DKMT_SEGMENTSIZEINFO sizes;
  std::memcpy(&sizes, answer.data(), sizeof sizes);
  if (sizes.DedicatedVideoMemorySize > world_.plan.vram_bytes ||
      sizes.SharedSystemMemorySize > world_.plan.aperture_bytes)
    fail("D3DKMTQueryAdapterInfo knows more memory than the device has");
}

bool Client::ask_statistics(D3DKMT_QUERYSTATISTICS& query) {
  query.AdapterLuid.LowPart = world_.adapter.low;
  query.AdapterLuid.HighPart = world_.adapter.high;
  query.hProcess = reinterpret_cast<HANDLE>(intptr_t{-1});  // its own
  const NTSTATUS status =
      call("D3DKMTQueryStatistics", [&] { return D3DKMTQueryStatistics(&query); });
  // An adapter that stopped has no LUID any more.
  throw_if_adapter_lost();
  return accepted("D3DKMTQueryStatistics", status);
}

void Client::ask_about_segments() {
  D3DKMT_QUERYSTATISTICS all{};
  all.Type = D3DKMT_QUERYSTATISTICS_ADAPTER;
  if (!ask_statistics(all)) return;
  const ULONG segments = all.QueryResult.AdapterInformation.NbSegments;
  uint64_t mine = 0;
  for (ULONG id = 1; id <= segments; ++id) {
    D3DKMT_QUERYSTATISTICS segment{}, own{};
    segment.Type = D3DKMT_QUERYSTATISTICS_SEGMENT;
    segment.QuerySegment.SegmentId = id;
    own.Type = D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT;
    own.QueryProcessSegment.SegmentId = id;
    if (!ask_statistics(segment) || !ask_statistics(own)) return;
    const auto& found = segment.QueryResult.SegmentInformation;
    ++world_.counters.property_checks;
    if (found.BytesCommitted > found.CommitLimit)
      fail(fmt::format("segment {} has {} bytes committed, and its limit is {}", id,
                       found.BytesCommitted, found.CommitLimit));
    mine += own.QueryResult.ProcessSegmentInformation.VideoMemory.AllocsCommitted;
  }
  // Each context may have a page of commands.
  if (mine > allocations_.size() + contexts_.size())
    fail(fmt::format("the process has {} in segments, and it made {} and {}",
                     counted(mine, "allocation"), counted(allocations_.size(), "allocation"),
                     counted(contexts_.size(), "context")));
}

void Client::ask_about_nodes() {
  const auto node = static_cast<uint32_t>(extra_.below(kGpuNodes));
  D3DKMT_QUERYSTATISTICS own{}, all{};
  own.Type = D3DKMT_QUERYSTATISTICS_PROCESS_NODE;
  own.QueryProcessNode.NodeId = node;
  all.Type = D3DKMT_QUERYSTATISTICS_NODE;
  all.QueryNode.NodeId = node;
  // In this order: what the process has done by then is in the sum.
  if (!ask_statistics(own) || !ask_statistics(all)) return;
  const auto packets = [](const D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION& information) {
    return information.PacketStatistics.DmaPacket[D3DKMT_ClientRenderBuffer];
  };
  const auto mine = packets(own.QueryResult.ProcessNodeInformation);
  const auto sum = packets(all.QueryResult.NodeInformation.GlobalInformation);
  ++world_.counters.property_checks;
  if (mine.PacketSubmited > sum.PacketSubmited || mine.PacketCompleted > sum.PacketCompleted)
    fail(fmt::format("node {}: the process completed {} of {}, all together {} of {}", node,
                     mine.PacketCompleted, counted(mine.PacketSubmited, "packet"),
                     sum.PacketCompleted, sum.PacketSubmited));
  if (mine.PacketCompleted > mine.PacketSubmited)
    fail(fmt::format("node {}: {} completed, and {} submitted", node,
                     counted(mine.PacketCompleted, "packet"), mine.PacketSubmited));
  NodeAnswer& before = node_answers_[node];
  if (mine.PacketSubmited < before.submitted || mine.PacketCompleted < before.completed)
    fail(fmt::format("node {}: the counters of packets went back", node));
  before = {mine.PacketSubmited, mine.PacketCompleted};
}

void Client::list_adapters() {
  D3DKMT_ENUMADAPTERS list{};
  const NTSTATUS status = call("D3DKMTEnumAdapters", [&] { return D3DKMTEnumAdapters(&list); });
  throw_if_adapter_lost();
  if (!accepted("D3DKMTEnumAdapters", status)) return;
  ++world_.counters.property_checks;
  const bool right = list.NumAdapters == 1 &&
                     list.Adapters[0].AdapterLuid.LowPart == world_.adapter.low &&
                     list.Adapters[0].AdapterLuid.HighPart == world_.adapter.high;
  for (ULONG i = 0; i < list.NumAdapters; ++i) {
    const D3DKMT_CLOSEADAPTER close{.hAdapter = list.Adapters[i].hAdapter};
    const NTSTATUS closed = call("D3DKMTCloseAdapter", [&] { return D3DKMTCloseAdapter(&close); });
    if (!accepted("D3DKMTCloseAdapter", closed)) return;
  }
  throw_if_adapter_lost();
  if (!right)
    fail(fmt::format("D3DKMTEnumAdapters lists {}", counted(list.NumAdapters, "adapter")));
}

void Client::flush_transitions() {
  D3DKMT_FLUSHHEAPTRANSITIONS flush{.hAdapter = adapter_};
  const NTSTATUS status =
      call("D3DKMTFlushHeapTransitions", [&] { return D3DKMTFlushHeapTransitions(&flush); });
  static_cast<void>(accepted("D3DKMTFlushHeapTransitions", status));
}

void Client::give_device_up() {
  D3DKMT_MARKDEVICEASERROR mark{};
  mark.hDevice = device_;
  mark.Reason = D3DKMT_DEVICE_ERROR_REASON_GENERIC;
  marked_ = true;
  const NTSTATUS status =
      call("D3DKMTMarkDeviceAsError", [&] { return D3DKMTMarkDeviceAsError(&mark); });
  if (!accepted("D3DKMTMarkDeviceAsError", status)) return;
  // From now on nothing works on it.
  D3DKMT_HANDLE fence = 0;
  if (create_fence(&fence)) fail("a device that was marked as failed makes a fence");
}

void Client::share_by_name() {
  if (world_.named.size() >= kNamedMost) return;
  D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
  create.hDevice = device_;
  create.Info.Type = D3DDDI_MONITORED_FENCE;
  create.Info.Flags.Shared = 1;
  create.Info.Flags.NtSecuritySharing = 1;
  const NTSTATUS made = call("D3DKMTCreateSynchronizationObject2",
                             [&] { return D3DKMTCreateSynchronizationObject2(&create); });
  if (!accepted("D3DKMTCreateSynchronizationObject2", made)) return;
  fence_pages_.insert(create.Info.MonitoredFence.FenceValueGPUVirtualAddress / kPageBytes);
  const bool again = !world_.named.empty() && extra_.percent(20);  // a name that is taken
  std::u16string text = again
                            ? world_.named[extra_.below(world_.named.size())].name
                            : wide(fmt::format("fence {} of client {}", ++names_, options_.number));
  ObjectName name(text);
  HANDLE shared = nullptr;
  const Descriptor descriptor(shared);
  const NTSTATUS status = call("D3DKMTShareObjects", [&] {
    return D3DKMTShareObjects(1, &create.hSyncObject, &name.attributes, GENERIC_ALL, &shared);
  });
  if (is_success(from_ntstatus(status))) {
    const bool twice = named(text) != nullptr;
    world_.named.push_back(
        {.name = text, .descriptor = descriptor_of(std::exchange(shared, nullptr))});
    if (twice) fail("two objects have the same name");
  } else if (!again || from_ntstatus(status) != dxgk::kObjectNameCollision) {
    static_cast<void>(accepted("D3DKMTShareObjects", status));
  }
  // The descriptor keeps the fence, so it may go, and so may the client.
  if (extra_.percent(50)) destroy_fence(create.hSyncObject);
}

Named* Client::named(std::u16string_view name) {
  const auto found = std::ranges::find(world_.named, name, &Named::name);
  return found == world_.named.end() ? nullptr : &*found;
}

void Client::use_by_name() {
  if (world_.named.empty()) return;
  const size_t index = extra_.below(world_.named.size());
  if (world_.named[index].taken) return;
  if (extra_.percent(20)) {  // its last descriptor: the name ends with it
    close(world_.named[index].descriptor);
    world_.named.erase(world_.named.begin() + static_cast<ptrdiff_t>(index));
    return;
  }
  std::u16string text = world_.named[index].name;
  world_.named[index].taken = true;
  named_turn_ = text;
  signal_by_name(text);
  give_up_turn();
}

void Client::signal_by_name(std::u16string& text) {
  ObjectName name(text);
  D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME find{};
  find.dwDesiredAccess = GENERIC_ALL;
  find.pObjAttrib = &name.attributes;
  const Descriptor descriptor(find.hNtHandle);
  const NTSTATUS found = call("D3DKMTOpenSyncObjectNtHandleFromName",
                              [&] { return D3DKMTOpenSyncObjectNtHandleFromName(&find); });
  if (!accepted("D3DKMTOpenSyncObjectNtHandleFromName", found)) return;
  D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 open{};
  open.hNtHandle = find.hNtHandle;
  open.hDevice = device_;
  const NTSTATUS opened = call("D3DKMTOpenSyncObjectFromNtHandle2",
                               [&] { return D3DKMTOpenSyncObjectFromNtHandle2(&open); });
  if (!accepted("D3DKMTOpenSyncObjectFromNtHandle2", opened)) return;
  fence_pages_.insert(open.MonitoredFence.FenceValueGPUVirtualAddress / kPageBytes);
  const volatile uint64_t* const value =
      static_cast<const uint64_t*>(open.MonitoredFence.FenceValueCPUVirtualAddress);
  ++world_.counters.property_checks;
  ++world_.counters.names_opened;
  const uint64_t seen = *value;
  if (seen < named(text)->value)
    fail(fmt::format("a fence opened by its name has the value {}, and {} was signalled", seen,
                     named(text)->value));
  // A device that had it open was lost, which releases whoever waits.
  if (seen == UINT64_MAX) return destroy_fence(open.hSyncObject);
  const uint64_t next = seen + extra_.between(1, 1000);
  D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal{};
  signal.hDevice = device_;
  signal.ObjectCount = 1;
  signal.ObjectHandleArray = &open.hSyncObject;
  signal.FenceValueArray = &next;
  const NTSTATUS signalled = call("D3DKMTSignalSynchronizationObjectFromCpu", [&] {
    return D3DKMTSignalSynchronizationObjectFromCpu(&signal);
  });
  if (!accepted("D3DKMTSignalSynchronizationObjectFromCpu", signalled)) return;
  if (const uint64_t now = *value; now != next && now != UINT64_MAX)
    fail(fmt::format("a fence was signalled with {}, and has {}", next, now));
  named(text)->value = next;
  destroy_fence(open.hSyncObject);
}

}  // namespace dxgkit::sim
