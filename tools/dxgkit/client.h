// The calls that a user-mode driver makes: how a client process uses the softgpu adapter.
#pragma once

#include <d3dkmthk.h>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "devices/softgpu/reference.h"
#include "dxgk/core/adapter_options.h"
#include "miniports/softgpu/softgpu_umd.h"
#include "tools/dxgkit/client_calls.h"

namespace dxgkit::tool {

/// A call that was refused, or an answer without sense.
struct ClientError {
  std::string text;
};
template <typename T>
using ClientResult = std::expected<T, ClientError>;

struct ClientAllocation {
  D3DKMT_HANDLE handle = 0;
  uint64_t size_bytes = 0;
  uint32_t pitch_bytes = 0;
  bool primary = false;  // may be on the screen
  // With GPU virtual addresses: its address, and the value of the paging queue's fence from which
  // on the GPU may access it.
  uint64_t address = 0, mapped_fence = 0;
};

/// How a context of a WDDM 2.0 device makes the allocations of its submissions resident. Empty
/// below 2.0.
struct ClientResidency {
  D3DKMT_HANDLE queue = 0, fence = 0;
};

/// Where a context with GPU virtual addresses keeps its commands. Slots are used one after the
/// other. A slot is used again when `progress` says that the GPU has finished with it.
struct ClientCommands {
  ClientAllocation memory;
  std::byte* bytes = nullptr;  // the CPU's view
  D3DKMT_HANDLE progress = 0;  // a fence: submissions completed
};

/// One context with the command buffer being filled. Not thread-safe; the thread is bound to the
/// process by a ClientScope.
///
/// Fill, then submit:
///     uint32_t s = context.use(source, Access::kRead), d = context.use(target, Access::kWrite);
///     context.copy({s, 0}, {d, 0}, bytes);
///     context.submit();
///
/// The same in both models: with GPU virtual addresses an index and an offset become an address
/// when the command is added.
class ClientContext {
 public:
  enum class Access { kRead, kWrite };

  /// Takes over the answer of D3DKMTCreateContext. `calls` are the device's, which outlives it.
  ClientContext(ClientCalls& calls, const D3DKMT_CREATECONTEXT& created,
                const ClientResidency& residency);
  /// A context with GPU virtual addresses.
  ClientContext(ClientCalls& calls, D3DKMT_HANDLE context, const ClientResidency& residency,
                const ClientCommands& commands);

  D3DKMT_HANDLE handle() const { return handle_; }
  /// The index of the allocation in the list of this submission. The same allocation twice gives
  /// one entry.
  uint32_t use(const ClientAllocation& allocation, Access access);
  void copy(SgpuUmdReference source, SgpuUmdReference destination, uint64_t size_bytes);
  void blit(SgpuUmdReference source, uint32_t source_pitch, SgpuUmdReference destination,
            uint32_t destination_pitch, uint32_t width_bytes, uint32_t height);
  struct Convolution {
    SgpuUmdReference source, destination;
    uint32_t source_pitch, destination_pitch, source_width, source_height;
    uint32_t output_x, output_y, output_width, output_height;
  };
  void convolve(const Convolution& job, const softgpu::reference::Filter& filter);
  void downscale(SgpuUmdReference source, uint32_t source_pitch, SgpuUmdReference destination,
                 uint32_t destination_pitch, uint32_t source_width, uint32_t source_height);
  void checksum(SgpuUmdReference source, uint32_t pitch, uint32_t width_bytes, uint32_t height,
                SgpuUmdReference result);

  /// Submits the added commands with Render or SubmitCommand. The context is empty
  /// again afterwards, also after an error. Blocks while all slots for commands are in use.
  ClientResult<void> submit();
  /// The context signals or waits after all earlier submissions.
  ClientResult<void> signal(D3DKMT_HANDLE fence, uint64_t value);
  ClientResult<void> wait(D3DKMT_HANDLE fence, uint64_t value);
  /// Presents a primary of source 0, behind all earlier submissions. Later submissions wait
  /// for the vertical sync that shows it.
  ClientResult<void> flip(const ClientAllocation& primary, uint32_t interval);

 private:
  bool has_addresses() const { return commands_.bytes != nullptr; }
  template <typename Command>
  void add(const Command& command);
  /// The value that a command of this model holds for a place in an allocation of the submission.
  SgpuUmdReference place(SgpuUmdReference reference) const;
  void reset();
  ClientResult<void> render();
  ClientResult<void> submit_command();
  /// Makes the allocations of the submission resident, and lets the context wait until they are
  /// there and mapped.
  ClientResult<void> make_resident(const std::vector<D3DKMT_HANDLE>& list);
  /// Evicts them again. They stay for queued work, and after that while no other work needs the
  /// room.
  ClientResult<void> evict(const std::vector<D3DKMT_HANDLE>& list);

  ClientCalls* calls_;
  D3DKMT_HANDLE handle_;
  ClientResidency residency_;
  ClientCommands commands_;
  std::byte* buffer_ = nullptr;
  uint32_t buffer_bytes_ = 0;
  D3DDDI_ALLOCATIONLIST* list_ = nullptr;
  uint32_t list_size_ = 0;
  std::vector<ClientAllocation> used_;  // of this submission, with addresses
  // The written primaries of this submission: the GPU waits until they are off the screen.
  std::vector<D3DKMT_HANDLE> written_primaries_;
  std::vector<std::byte> added_;  // commands, with addresses
  uint64_t submissions_ = 0;      // with addresses
  uint64_t waited_ = 0;           // the latest value of the paging fence that it waits for
  uint32_t used_bytes_ = 0;
  uint32_t used_entries_ = 0;
  bool overflow_ = false;  // more was added than the buffers hold, so submit() refuses
};

/// One device of one process. close() destroys all objects that it made, in the order of a tidy
/// client.
class ClientDevice {
 public:
  static ClientResult<ClientDevice> open(dxgk::Luid adapter, CallsMaker calls = make_d3dkmt_calls);

  ClientResult<ClientContext> create_context(uint32_t node);
  /// @param placement  SGPU_UMD_PLACE_*
  ClientResult<ClientAllocation> create_surface(uint32_t width, uint32_t height,
                                                uint32_t placement);
  ClientResult<ClientAllocation> create_buffer(uint64_t size_bytes, uint32_t placement);
  ClientResult<D3DKMT_HANDLE> create_fence();
  // --- source 0, on an adapter that has it
  ClientResult<ClientAllocation> create_primary(uint32_t width, uint32_t height);
  /// Takes source 0 exclusively; the device releases it at its end.
  ClientResult<void> own_screen();
  ClientResult<void> set_display_mode(const ClientAllocation& primary);
  ClientResult<std::byte*> lock(const ClientAllocation& allocation);
  ClientResult<void> unlock(const ClientAllocation& allocation);
  /// Blocks until `fence` has reached `value`.
  ClientResult<void> wait(D3DKMT_HANDLE fence, uint64_t value);
  ClientResult<void> wait_idle();
  /// Why calls answer STATUS_DEVICE_REMOVED: a clause. Empty while the device works.
  std::string why_lost() const;
  ClientResult<void> close();

 private:
  ClientResult<ClientAllocation> create(const SgpuUmdAllocation& wanted, bool commands = false,
                                        bool primary = false);
  ClientResult<ClientContext> create_context_virtual(uint32_t node);
  /// Sets `address` and `mapped_fence`.
  ClientResult<void> map(ClientAllocation& allocation, bool commands);

  std::unique_ptr<ClientCalls> calls_;
  D3DKMT_HANDLE adapter_ = 0, device_ = 0;
  ClientResidency residency_;
  bool has_addresses_ = false;
  std::vector<ClientAllocation> mapped_, locked_;
  std::vector<D3DKMT_HANDLE> contexts_, allocations_, fences_;
};

}  // namespace dxgkit::tool
