#include "dxgk/display/owned_sources.h"

#include <algorithm>
#include <cstddef>

#include "dxgk/work/device.h"

namespace dxgkit::dxgk {
namespace {

constexpr Status kSourceInUse{0xC01E0342};   // STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE
constexpr Status kNoSuchSource{0xC01E0304};  // STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE

}  // namespace

Status OwnedSources::set(Device& device, std::span<const uint32_t> sources,
                         std::span<const SourceOwnership> types) {
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] >= sources_.size()) return kNoSuchSource;
    const Source& source = sources_[sources[i]];
    const SourceOwnership now = source.ownership, asked = types[i];
    const bool takes = asked == SourceOwnership::kExclusive || asked == SourceOwnership::kEmulated;
    const bool taken = now == SourceOwnership::kExclusive || now == SourceOwnership::kEmulated;
    if (source.owner == &device) {
      // An owner has to give the source up before it takes it in another way.
      if (now == SourceOwnership::kExclusive &&
          (asked == SourceOwnership::kShared || asked == SourceOwnership::kEmulated))
        return Status::kInvalidParameter;
      if (now == SourceOwnership::kEmulated && asked == SourceOwnership::kExclusive)
        return Status::kInvalidParameter;
    } else if (taken && takes) {
      return kSourceInUse;
    }
    // The kernel shows its own primary on each source, and does not share a source.
    if (asked == SourceOwnership::kShared) return kSourceInUse;
    if (asked == SourceOwnership::kExclusiveGdi) return Status::kInvalidParameter;
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    Source& source = sources_[sources[i]];
    if (types[i] == SourceOwnership::kUnowned) {
      if (source.owner != &device) continue;  // the device does not own it
      source.owner = nullptr;
    } else {
      source.owner = &device;
    }
    source.ownership = types[i];
  }
  return Status::kSuccess;
}

std::vector<uint32_t> OwnedSources::release(Device& device) {
  std::vector<uint32_t> released;
  for (uint32_t id = 0; id < sources_.size(); ++id) {
    if (sources_[id].owner != &device) continue;
    sources_[id] = Source{};
    released.push_back(id);
  }
  return released;
}

void OwnedSources::release_all() { sources_.assign(sources_.size(), Source{}); }

std::vector<std::pair<uint32_t, SourceOwnership>> OwnedSources::of_process(
    const Process& process) const {
  std::vector<std::pair<uint32_t, SourceOwnership>> owned;
  for (uint32_t id = 0; id < sources_.size(); ++id) {
    if (sources_[id].owner != nullptr && &sources_[id].owner->process() == &process)
      owned.emplace_back(id, sources_[id].ownership);
  }
  return owned;
}

std::vector<Ref<Device>> OwnedSources::owners_of(const Process& process) const {
  std::vector<Ref<Device>> owners;
  for (const Source& source : sources_) {
    if (source.owner == nullptr || &source.owner->process() != &process) continue;
    if (std::ranges::find(owners, source.owner, &Ref<Device>::get) == owners.end())
      owners.emplace_back(source.owner);
  }
  return owners;
}

bool OwnedSources::owns(const Device& device, uint32_t source) const {
  return source < sources_.size() && sources_[source].owner == &device &&
         sources_[source].ownership == SourceOwnership::kExclusive;
}

bool OwnedSources::is_exclusive(uint32_t source) const {
  return source < sources_.size() && sources_[source].ownership == SourceOwnership::kExclusive;
}

}  // namespace dxgkit::dxgk
