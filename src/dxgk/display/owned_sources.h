// Which device owns which video present source.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "dxgk/core/object.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

class Device;
class Process;

/// D3DKMT_VIDPNSOURCEOWNER_TYPE.
enum class SourceOwnership : uint32_t {
  kUnowned = 0,
  kShared = 1,
  kExclusive = 2,
  kExclusiveGdi = 3,
  kEmulated = 4,
};

/// A device gives up its sources before it goes. What an owner shows is not known here.
class OwnedSources {
 public:
  explicit OwnedSources(uint32_t sources) : sources_(sources) {}

  /// D3DKMTSetVidPnSourceOwner: all or nothing (DISP-18). See the thunk for statuses.
  Status set(Device& device, std::span<const uint32_t> sources,
             std::span<const SourceOwnership> types) DXGKIT_REQUIRES(on_lane);
  /// The device gives up all its sources; returns them.
  std::vector<uint32_t> release(Device& device) DXGKIT_REQUIRES(on_lane);
  void release_all() DXGKIT_REQUIRES(on_lane);
  /// The sources that devices of the process own, and how.
  std::vector<std::pair<uint32_t, SourceOwnership>> of_process(const Process& process) const
      DXGKIT_REQUIRES(on_lane);
  /// The devices of the process that own sources, each once.
  std::vector<Ref<Device>> owners_of(const Process& process) const DXGKIT_REQUIRES(on_lane);
  /// The device owns the source exclusively. False for an unknown source.
  bool owns(const Device& device, uint32_t source) const DXGKIT_REQUIRES(on_lane);
  /// Some device owns the source exclusively. False for an unknown source.
  bool is_exclusive(uint32_t source) const DXGKIT_REQUIRES(on_lane);

 private:
  struct Source {
    Device* owner = nullptr;
    SourceOwnership ownership = SourceOwnership::kUnowned;
  };
  std::vector<Source> sources_ DXGKIT_GUARDED_BY(on_lane);
};

}  // namespace dxgkit::dxgk
