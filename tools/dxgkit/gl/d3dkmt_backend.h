// A GL program as a client process of the kernel, on the virtio GPU's driver
// (miniports/virtiogpu/virtiogpu_umd.h).
#pragma once

#include <d3dkmthk.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "miniports/virtiogpu/virtiogpu_umd.h"
#include "tools/dxgkit/client_calls.h"
#include "tools/dxgkit/gl/backend.h"

namespace dxgkit::gl {

/// What makes the calling thread a client of a kernel.
class KernelClient {
 public:
  virtual ~KernelClient() = default;  // ends the client process, if end() did not
  /// Any thread: ends the client process, with all that it has. Its calls return.
  virtual void end() = 0;
};

/// What the driver says of itself to user mode. The error is one sentence without a full stop: it
/// is not the virtio GPU's driver, or its device has no 3D. For a client of the kernel.
Answer<void> check_driver(LUID adapter);

/// A device and a context of D3DKMT. Resources are allocations, streams go through Render with a
/// list of what they name, and a monitored fence counts the submissions.
///
/// One thread makes, uses and destroys it.
class D3dkmtBackend final : public Backend {
 public:
  /// @param client  of the calling thread; it ends with the backend
  static Answer<std::unique_ptr<Backend>> create(std::unique_ptr<KernelClient> client, LUID adapter,
                                                 const std::string& program_name);

  Answer<std::vector<std::byte>> capabilities(uint32_t set) override;
  Answer<Id> create(const ResourceDescription& resource) override;
  Answer<void> destroy(Id resource) override;
  Answer<void> write(Id resource, uint64_t offset, std::span<const std::byte> bytes) override;
  Answer<void> read(Id resource, uint64_t offset, std::span<std::byte> bytes) override;
  Answer<void> transfer(Id resource, Direction direction, const Transfer& transfer) override;
  Answer<void> submit(std::span<uint32_t> stream, std::span<const StreamCommand> commands,
                      std::span<const Use> uses, std::span<const Id> also) override;
  Answer<bool> idle(Waiting waiting) override;
  void cancel() override { client_->end(); }

 private:
  struct Allocation {
    D3DKMT_HANDLE handle = 0;
    uint32_t device_id = 0;  // what streams call it
    uint64_t last_use = 0;   // the submission that used it last
    uint64_t listed = 0;     // the submission on whose list it is
    uint32_t index = 0;      // there
  };
  explicit D3dkmtBackend(std::unique_ptr<KernelClient> client) : client_(std::move(client)) {}

  Answer<void> open(LUID adapter, const std::string& program_name);
  /// The allocation's place on the list of the submission that is being filled; nullopt: the list
  /// is full.
  std::optional<uint32_t> list(Allocation& allocation, bool written);
  /// Sends what is in the command buffer and on the list.
  Answer<void> render(uint32_t bytes);
  /// WDDM 2.0: what is on the list is resident when the context comes to what is sent next. It may
  /// leave behind that.
  Answer<void> make_resident(const std::vector<D3DKMT_HANDLE>& list);
  Answer<void> let_go(const std::vector<D3DKMT_HANDLE>& list);
  Answer<void> wait_for(uint64_t submission);
  /// The call's refusal, with what became of the device.
  std::unexpected<std::string> refused(const tool::CallAnswer& answer) const;
  Allocation& allocation(Id id) { return allocations_.at(id); }

  const std::unique_ptr<KernelClient> client_;
  std::unique_ptr<tool::ClientCalls> calls_;
  D3DKMT_HANDLE adapter_ = 0, device_ = 0;
  D3DKMT_CREATECONTEXT context_{};     // with the buffers of the next submission
  uint32_t listed_ = 0;                // allocations on its list
  D3DKMT_CREATEPAGINGQUEUE paging_{};  // without explicit residency no handle
  uint64_t paged_ = 0;                 // the value of its fence that the context waits for
  D3DKMT_HANDLE fence_ = 0;
  const volatile uint64_t* completed_ = nullptr;  // the fence's value
  uint64_t submissions_ = 0;
  uint32_t submit_bytes_max_ = 0;
  uint32_t list_max_ = 0;
  std::vector<VgpuUmdCapsetInfo> capability_sets_;
  std::map<Id, Allocation> allocations_;
  Id next_id_ = 1;
};

}  // namespace dxgkit::gl
