// The 3D half of the virtio GPU: contexts, and its commands as questions to the renderer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "devices/virtio/model.h"
#include "devices/virtiogpu/renderer.h"
#include "devices/virtiogpu/virtiogpu_hw.h"

namespace dxgkit::virtiogpu {

/// Where a range of bus addresses is in the memory object that the renderer has mapped; nullopt: it
/// is not, or not in one piece. Any thread.
using LocateMemory = std::function<std::optional<uint64_t>(uint64_t address, uint64_t bytes)>;

/// Commands come one at a time. Each checks what it can before the renderer hears of it, and
/// returns the type of the answer. If the renderer is lost meanwhile, the type means nothing, and
/// the device has to be reset.
class Rendering {
 public:
  Rendering(std::unique_ptr<Renderer> renderer, LocateMemory locate)
      : renderer_(std::move(renderer)), locate_(std::move(locate)) {}

  uint32_t capset_count() const { return static_cast<uint32_t>(renderer_->capsets().size()); }
  uint32_t capset_info(virtio::Request& request, std::vector<std::byte>* answer);
  uint32_t capset(virtio::Request& request, std::vector<std::byte>* answer);

  uint32_t create_context(uint32_t id, virtio::Request& request);
  uint32_t destroy_context(uint32_t id);
  uint32_t submit(uint32_t context, virtio::Request& request);
  /// The resource exists.
  uint32_t attach(uint32_t context, uint32_t resource);
  uint32_t detach(uint32_t context, uint32_t resource);

  /// Bytes that a resource counts for; nullopt: there is no such resource.
  static std::optional<uint64_t> bytes_of(const Shape& shape);
  uint32_t create(uint32_t id, const Shape& shape);
  uint32_t unref(uint32_t id);
  uint32_t attach_backing(uint32_t id, std::span<const VgpuEntry> entries);
  uint32_t detach_backing(uint32_t id);
  /// The resource has backing of that many bytes.
  uint32_t transfer(const VgpuTransfer3D& command, const Shape& shape, uint64_t backing_bytes);
  /// A rectangle of level 0, four bytes per pixel, rows without padding.
  uint32_t read(uint32_t id, const VgpuRect& rect, std::vector<uint8_t>* pixels);

  /// Waits until the work of all commands so far is done.
  void finish();
  void interrupt() { renderer_->interrupt(); }
  void reset();
  bool is_lost() const { return !why_lost_.empty(); }
  const std::string& why_lost() const { return why_lost_; }

 private:
  struct Context {
    std::set<uint32_t> resources;
  };
  Context* find(uint32_t id);
  /// Asks, and turns the answer's error into a type; `done` if there is none.
  uint32_t ask(const Question& question, Answer* answer = nullptr, uint32_t done = VGPU_OK_NODATA);
  void lose(std::string why);

  const std::unique_ptr<Renderer> renderer_;
  const LocateMemory locate_;
  std::map<uint32_t, Context> contexts_;
  size_t attachments_ = 0;       // of all contexts
  bool has_unfinished_ = false;  // commands whose end was not waited for
  std::string why_lost_;         // empty: the renderer is there
};

}  // namespace dxgkit::virtiogpu
