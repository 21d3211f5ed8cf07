#include "wire/server_session.h"

#include <d3dkmthk.h>
#include <fcntl.h>
#include <ntstatus.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/arithmetic.h"
#include "base/guarded_copy.h"
#include "dxgk/core/client_memory.h"
#include "dxgk/core/late_selection.h"
#include "dxgk/memory/paging_queue.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/work/context.h"
#include "dxgk/work/device.h"
#include "dxgk/work/hw_queue.h"
#include "thunks/client.h"
#include "wire/arena.h"
#include "wire/call_text.h"
#include "wire/call_traits.h"
#include "wire/invoke.h"
#include "wire/queue_room.h"
#include "wire/server_call.h"
#include "wire/windows.h"

namespace dxgkit::wire {
namespace {

template <typename Args>
Args as(const std::byte* arguments) {
  Args args;
  std::memcpy(&args, arguments, sizeof args);
  return args;
}

/// Where the structure of a function names what it is about; an offset, or none.
struct Owner {
  std::string_view function;
  size_t fence;   // the handle of the fence
  size_t object;  // whose destruction ends it
};
constexpr std::array kFences = {
    Owner{"D3DKMTCreateHwQueue", offsetof(D3DKMT_CREATEHWQUEUE, hHwQueueProgressFence),
          offsetof(D3DKMT_CREATEHWQUEUE, hHwQueue)},
    Owner{"D3DKMTCreateNativeFence", offsetof(D3DKMT_CREATENATIVEFENCE, hSyncObject),
          offsetof(D3DKMT_CREATENATIVEFENCE, hSyncObject)},
    Owner{"D3DKMTCreatePagingQueue", offsetof(D3DKMT_CREATEPAGINGQUEUE, hSyncObject),
          offsetof(D3DKMT_CREATEPAGINGQUEUE, hPagingQueue)},
    Owner{"D3DKMTCreateSynchronizationObject2",
          offsetof(D3DKMT_CREATESYNCHRONIZATIONOBJECT2, hSyncObject),
          offsetof(D3DKMT_CREATESYNCHRONIZATIONOBJECT2, hSyncObject)},
    Owner{"D3DKMTOpenNativeFenceFromNtHandle",
          offsetof(D3DKMT_OPENNATIVEFENCEFROMNTHANDLE, hSyncObject),
          offsetof(D3DKMT_OPENNATIVEFENCEFROMNTHANDLE, hSyncObject)},
    Owner{"D3DKMTOpenSyncObjectFromNtHandle2",
          offsetof(D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2, hSyncObject),
          offsetof(D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2, hSyncObject)},
    Owner{"D3DKMTOpenSyncObjectFromSyncFile",
          offsetof(D3DKMT_OPENSYNCOBJECTFROMSYNCFILE, hSyncObject),
          offsetof(D3DKMT_OPENSYNCOBJECTFROMSYNCFILE, hSyncObject)},
};

/// Functions of which this file knows more than traits_of says.
struct Known {
  uint32_t create_allocation = arguments::number_of("D3DKMTCreateAllocation");
  uint32_t create_allocation2 = arguments::number_of("D3DKMTCreateAllocation2");
  uint32_t destroy_allocation = arguments::number_of("D3DKMTDestroyAllocation");
  uint32_t destroy_allocation2 = arguments::number_of("D3DKMTDestroyAllocation2");
  uint32_t destroy_device = arguments::number_of("D3DKMTDestroyDevice");
  uint32_t render = arguments::number_of("D3DKMTRender");
  uint32_t unlock = arguments::number_of("D3DKMTUnlock");
  uint32_t unlock2 = arguments::number_of("D3DKMTUnlock2");
};
const Known& known() {
  static const Known numbers;
  return numbers;
}

}  // namespace

struct ServerSession::Impl {
  dxgk::System& system;
  dxgk::Process& process;
  std::shared_ptr<Windows> windows;
  Arena arena{};
  bool texts = false;
  /// What the reply to this call says beside: windows that have ended, and pages to exchange.
  std::vector<WindowNote> notes{};
  std::vector<UniqueFd> objects{};  // of such pages

  dxgk::LateSelection late{};
  bool answers_early = false;

  void before(const ServerCall& call);
  int64_t make(const ServerCall& call);
  void after(const ServerCall& call, int64_t result);
  void take_notes(const ServerCall& call);
  std::vector<WindowNote> take_notes_for_client();
  void after_creation(const ServerCall& call);
  template <typename Info>
  void exchange(uint32_t device, const Info* infos, uint32_t count);
  void after_destruction(const ServerCall& call);
  std::vector<uint32_t> handles_of(const ServerCall& call) const;
  std::vector<uint32_t> unlocked_by(const ServerCall& call) const;
  bool show(const ServerCall& call, Memory memory, WindowNote* note, UniqueFd* descriptor);
  bool show_fence(const ServerCall& call, WindowNote* note, UniqueFd* descriptor);
  bool show_commands(const ServerCall& call, Memory memory, WindowNote* note);
};

ServerSession::ServerSession(dxgk::System& system, dxgk::Process& process,
                             std::shared_ptr<Windows> windows)
    : impl_(new Impl{.system = system, .process = process, .windows = std::move(windows)}) {
  bus::PageApart::allow();
}

ServerSession::~ServerSession() = default;

void ServerSession::set_texts(bool wanted) { impl_->texts = wanted; }

void ServerSession::set_answers_early(bool wanted) { impl_->answers_early = wanted; }

void ServerSession::answered() { impl_->late.run(); }

Reply ServerSession::handle(std::span<const std::byte> request, std::vector<UniqueFd> descriptors) {
  Reply reply;
  impl_->late.run();  // the caller may have had no way to answer
  if (!impl_->arena.there()) {
    reply.refusal = "there is no address space for a call";
    return reply;
  }
  impl_->arena.clear();
  auto call = ServerCall::decode(request, descriptors, impl_->arena);
  if (!call.has_value()) {
    reply.refusal = std::move(call.error());
    return reply;
  }
  const thunks::ClientScope scope(impl_->system, impl_->process);
  const QueueRoom room(dxgk::quota_of(impl_->process), call->function(), call->captured());
  int64_t result = NTSTATUS{STATUS_NO_MEMORY};
  if (!room.is_full()) {
    impl_->before(*call);
    result = impl_->make(*call);
    impl_->after(*call, result);
  }
  const auto show = [&](Memory memory, WindowNote* note, UniqueFd* descriptor) {
    return impl_->show(*call, memory, note, descriptor);
  };
  reply.bytes = call->reply(result, show, impl_->take_notes_for_client(), &reply.descriptors);
  std::ranges::move(std::exchange(impl_->objects, {}), std::back_inserter(reply.descriptors));
  if (impl_->texts) reply.text = call_text(call->function(), call->captured(), result);
  return reply;
}

/// The list of a call that points to nothing else.
std::vector<uint32_t> ServerSession::Impl::handles_of(const ServerCall& call) const {
  const std::span<const std::byte> list = call.block(1);
  std::vector<uint32_t> handles(list.size() / sizeof(uint32_t));
  if (!handles.empty()) std::memcpy(handles.data(), list.data(), handles.size() * sizeof(uint32_t));
  return handles;
}

std::vector<uint32_t> ServerSession::Impl::unlocked_by(const ServerCall& call) const {
  if (call.function() == known().unlock2) return {as<D3DKMT_UNLOCK2>(call.captured()).hAllocation};
  if (call.function() == known().unlock) return handles_of(call);
  return {};
}

std::vector<WindowNote> ServerSession::Impl::take_notes_for_client() {
  if (process.client_memory() != nullptr) {
    for (const uint64_t number : process.client_memory()->take_ended())
      notes.push_back({.memory = static_cast<uint32_t>(Memory::kPages), .id = number});
  }
  return std::exchange(notes, {});
}

template <typename Info>
void ServerSession::Impl::exchange(uint32_t device, const Info* infos, uint32_t count) {
  const auto found = process.handles().find<dxgk::Device>(device);
  if (!found.has_value() || infos == nullptr) return;
  for (uint32_t i = 0; i < count; ++i) {
    if (infos[i].pSystemMem == nullptr) continue;
    const auto given = (*found)->locks().give_user_memory(infos[i].hAllocation);
    if (!given.has_value()) return;  // the client finds one too few, and destroys them all
    const auto& [part, number] = *given;
    objects.emplace_back(part.window.fd);
    notes.push_back({.memory = static_cast<uint32_t>(Memory::kPages),
                     .owner = infos[i].hAllocation,
                     .bytes = part.window.size,
                     .has_descriptor = 1,
                     .offset = part.window.offset,
                     .id = number});
  }
}

void ServerSession::Impl::after_creation(const ServerCall& call) {
  const auto args = as<D3DKMT_CREATEALLOCATION>(call.arguments());
  // As many as there are in the list that came.
  const auto count = as<D3DKMT_CREATEALLOCATION>(call.captured()).NumAllocations;
  if (call.function() == known().create_allocation2)
    exchange(args.hDevice, args.pAllocationInfo2, count);
  else
    exchange(args.hDevice, args.pAllocationInfo, count);
}

void ServerSession::Impl::after_destruction(const ServerCall& call) {
  GivenMemory& given = windows->given();
  if (call.function() == known().destroy_allocation) {
    const auto args = as<D3DKMT_DESTROYALLOCATION>(call.captured());
    given.destroyed(handles_of(call), args.hResource, 0, &notes);
  } else if (call.function() == known().destroy_allocation2) {
    const auto args = as<D3DKMT_DESTROYALLOCATION2>(call.captured());
    given.destroyed(handles_of(call), args.hResource, 0, &notes);
  } else if (call.function() == known().destroy_device) {
    given.destroyed({}, 0, as<D3DKMT_DESTROYDEVICE>(call.captured()).hDevice, &notes);
  }
}

void ServerSession::Impl::before(const ServerCall& call) {
  if (!call.notes().empty()) take_notes(call);
  if (traits_of(call.function()).submits) windows->push_all(process);
  const std::vector<uint32_t> handles = unlocked_by(call);
  if (!handles.empty()) windows->before_unlock(process, handles);
}

int64_t ServerSession::Impl::make(const ServerCall& call) {
  if (!answers_early || !traits_of(call.function()).answers_early)
    return invoke(call.function(), call.arguments());
  const dxgk::LateSelection::Offer offer(late);
  return invoke(call.function(), call.arguments());
}

void ServerSession::Impl::after(const ServerCall& call, int64_t result) {
  if (traits_of(call.function()).waits) {
    windows->push_all(process);
    windows->pull_all(process);
  }
  if (result < 0) return;
  const std::vector<uint32_t> handles = unlocked_by(call);
  if (!handles.empty()) windows->unlocked(handles);
  after_destruction(call);
  const bool creates =
      call.function() == known().create_allocation || call.function() == known().create_allocation2;
  if (creates && process.client_memory() != nullptr) after_creation(call);
}

void ServerSession::Impl::take_notes(const ServerCall& call) {
  if (call.function() != known().render) return;
  const auto args = as<D3DKMT_RENDER>(call.captured());
  const auto context = process.handles().find<dxgk::Context>(args.hContext);
  if (!context.has_value()) return;
  const dxgk::ClientBuffers buffers = (*context)->rendering().buffers();
  for (const ServerCall::Note& one : call.notes()) {
    std::byte* to = nullptr;
    size_t bytes = 0;
    switch (static_cast<Memory>(one.note.memory)) {
      case Memory::kCommands:
        to = buffers.command;
        bytes = buffers.command_bytes;
        break;
      case Memory::kAllocations:
        to = reinterpret_cast<std::byte*>(buffers.allocations);
        bytes = buffers.allocation_count * sizeof(dxgk::ClientAllocation);
        break;
      case Memory::kPatches:
        to = reinterpret_cast<std::byte*>(buffers.patches);
        bytes = buffers.patch_count * sizeof(port::PatchLocation);
        break;
      default:
        break;
    }
    if (to == nullptr || !range_within(one.note.offset, one.note.bytes, bytes)) continue;
    // Another thread of the client may have it resized meanwhile, as in one process.
    static_cast<void>(guarded_copy(to + one.note.offset, one.bytes.data(), one.bytes.size()));
  }
}

bool ServerSession::Impl::show(const ServerCall& call, Memory memory, WindowNote* note,
                               UniqueFd* descriptor) {
  switch (memory) {
    case Memory::kFence:
      return show_fence(call, note, descriptor);
    case Memory::kLock: {
      // D3DKMT_LOCK and D3DKMT_LOCK2 begin alike; D3DKMTLock may have named another instance.
      static_assert(offsetof(D3DKMT_LOCK, hAllocation) == offsetof(D3DKMT_LOCK2, hAllocation));
      const auto args = as<D3DKMT_LOCK2>(call.arguments());
      note->owner = args.hAllocation;
      return windows->locked(process, args.hDevice, args.hAllocation, note, descriptor);
    }
    default:
      return show_commands(call, memory, note);
  }
}

bool ServerSession::Impl::show_fence(const ServerCall& call, WindowNote* note,
                                     UniqueFd* descriptor) {
  const std::string_view name = functions()[call.function()].name;
  const auto* const owner = std::ranges::find(kFences, name, &Owner::function);
  if (owner == kFences.end()) return false;
  const auto handle =
      static_cast<uint32_t>(number_at(call.arguments(), {static_cast<uint16_t>(owner->fence), 4}));
  const auto object = process.handles().find<dxgk::SyncObject>(handle);
  if (!object.has_value() || (*object)->client_view == nullptr) return false;
  const auto& page = (*object)->shared->page_apart;
  if (page == nullptr) return false;
  *descriptor = UniqueFd(fcntl(page->window().fd, F_DUPFD_CLOEXEC, 0));
  note->owner =
      static_cast<uint32_t>(number_at(call.arguments(), {static_cast<uint16_t>(owner->object), 4}));
  note->bytes = kPageBytes;
  return static_cast<bool>(*descriptor);
}

bool ServerSession::Impl::show_commands(const ServerCall& call, Memory memory, WindowNote* note) {
  const auto sized = [&](uint32_t context, uint64_t commands, uint64_t allocations,
                         uint64_t patches) {
    note->owner = context;
    if (memory == Memory::kCommands)
      note->bytes = commands;
    else if (memory == Memory::kAllocations)
      note->bytes = allocations * sizeof(D3DDDI_ALLOCATIONLIST);
    else
      note->bytes = patches * sizeof(D3DDDI_PATCHLOCATIONLIST);
    return note->bytes != 0;
  };
  // Read in place, for Render asks three times; the arena's blocks are aligned.
  if (call.function() == known().render) {
    const auto& render = *reinterpret_cast<const D3DKMT_RENDER*>(call.arguments());
    return sized(render.hContext, render.NewCommandBufferSize, render.NewAllocationListSize,
                 render.NewPatchLocationListSize);
  }
  const auto context = as<D3DKMT_CREATECONTEXT>(call.arguments());
  return sized(context.hContext, context.CommandBufferSize, context.AllocationListSize,
               context.PatchLocationListSize);
}

}  // namespace dxgkit::wire
