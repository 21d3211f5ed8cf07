// How a client reaches the kernel: through D3DKMT functions, or through the callbacks that a
// user-mode driver gets from the Direct3D runtime.
#pragma once

#include <d3dkmthk.h>

#include <memory>
#include <string>

#include "tools/dxgkit/options.h"

namespace dxgkit::tool {

struct CallAnswer {
  enum class Kind {
    kDone,
    kPending,   // done, once the paging fence has the value that the call gave
    kNoMemory,  // refused
    kFailed,    // refused
  };
  Kind kind = Kind::kDone;
  std::string error;  // of a refusal: "D3DKMTRender answered STATUS_DEVICE_REMOVED"

  bool refused() const { return kind == Kind::kNoMemory || kind == Kind::kFailed; }
};

/// The calls that the driver's user half makes on one adapter. What only the runtime does (opening
/// the adapter, making the device, owning the screen) is not here. The structures are those of
/// D3DKMT, with handles as the kernel gives them; hAdapter and hDevice in them are filled in here.
/// Outputs are valid unless the call is refused, but of render: its buffers come with refusals,
/// too. Any thread of the client process.
class ClientCalls {
 public:
  virtual ~ClientCalls() = default;

  virtual CallAnswer query_private(void* data, UINT bytes) = 0;
  /// The device of all calls below. Once; it stays the caller's.
  virtual void use_device(D3DKMT_HANDLE device) = 0;

  virtual CallAnswer create_context(D3DKMT_CREATECONTEXT& args) = 0;
  virtual CallAnswer create_context_virtual(D3DKMT_CREATECONTEXTVIRTUAL& args) = 0;
  virtual CallAnswer destroy_context(D3DKMT_HANDLE context) = 0;
  virtual CallAnswer render(D3DKMT_RENDER& args) = 0;
  virtual CallAnswer submit_command(const D3DKMT_SUBMITCOMMAND& args) = 0;
  virtual CallAnswer present(const D3DKMT_PRESENT& args) = 0;
  virtual CallAnswer set_display_mode(D3DKMT_HANDLE primary) = 0;

  virtual CallAnswer create_paging_queue(D3DKMT_CREATEPAGINGQUEUE& args) = 0;
  virtual CallAnswer destroy_paging_queue(D3DKMT_HANDLE queue) = 0;
  virtual CallAnswer make_resident(D3DDDI_MAKERESIDENT& args) = 0;
  virtual CallAnswer evict(D3DKMT_EVICT& args) = 0;
  virtual CallAnswer map(D3DDDI_MAPGPUVIRTUALADDRESS& args) = 0;
  virtual CallAnswer free(D3DGPU_VIRTUAL_ADDRESS address, D3DGPU_SIZE_T bytes) = 0;

  virtual CallAnswer create_allocation(D3DDDI_ALLOCATIONINFO2& info) = 0;
  virtual CallAnswer destroy_allocations(const D3DKMT_HANDLE* list, UINT count) = 0;
  virtual CallAnswer lock(D3DKMT_HANDLE allocation, void** address) = 0;
  virtual CallAnswer unlock(D3DKMT_HANDLE allocation) = 0;

  virtual CallAnswer create_fence(D3DKMT_CREATESYNCHRONIZATIONOBJECT2& args) = 0;
  virtual CallAnswer destroy_fence(D3DKMT_HANDLE fence) = 0;
  virtual CallAnswer signal_from_gpu(D3DKMT_HANDLE context, D3DKMT_HANDLE fence, UINT64 value) = 0;
  virtual CallAnswer wait_from_gpu(D3DKMT_HANDLE context, D3DKMT_HANDLE fence, UINT64 value) = 0;
  /// Blocks until the fence has the value.
  virtual CallAnswer wait_from_cpu(D3DKMT_HANDLE fence, UINT64 value) = 0;
};

/// Success class, STATUS_PENDING included (THUNK-06); otherwise an error that names the function.
CallAnswer answer_of(const char* function, NTSTATUS status);

/// Of a call to which a device that is gone is a bad parameter (THUNK-07): the error says that it
/// is gone.
CallAnswer with_removal(CallAnswer answer, D3DKMT_HANDLE device);

/// Why a device takes no more work, as a clause: "an adapter reset took its device". Empty if it
/// works.
std::string why_lost(D3DKMT_HANDLE device);

/// D3DKMT functions.
/// @param adapter  stays the caller's.
std::unique_ptr<ClientCalls> make_d3dkmt_calls(D3DKMT_HANDLE adapter);
/// The callbacks of src/umd.
std::unique_ptr<ClientCalls> make_umd_calls(D3DKMT_HANDLE adapter);
using CallsMaker = std::unique_ptr<ClientCalls> (*)(D3DKMT_HANDLE adapter);
CallsMaker maker_of(ClientApi api);

}  // namespace dxgkit::tool
