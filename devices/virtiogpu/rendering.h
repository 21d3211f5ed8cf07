// The 3D half of the virtio GPU: contexts, and its commands as questions to renderers.
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
#include "runtime/sync.h"

namespace dxgkit::virtiogpu {

/// Where a range of bus addresses is in the memory object that the renderer has mapped; nullopt: it
/// is not, or not in one piece. Any thread.
using LocateMemory = std::function<std::optional<uint64_t>(uint64_t address, uint64_t bytes)>;

/// Which contexts have a renderer together. With one for all, a resource may belong to several
/// contexts, and whoever loses the renderer takes the device along. With one for each, a resource
/// belongs to one context, and only that is lost with its renderer.
enum class Renderers { kOne, kEach };

/// Commands come one at a time. Each checks what it can before the renderer hears of it, and
/// returns the type of the answer. If the device is lost meanwhile, the type means nothing, and it
/// has to be reset.
class Rendering {
 public:
  /// The renderer serves all contexts, or what belongs to no context.
  /// @param odd_sets  beside the renderer's capability sets there are some that no context can have
  Rendering(std::unique_ptr<Renderer> renderer, LocateMemory locate,
            Renderers renderers = Renderers::kOne, bool odd_sets = false);

  /// Any thread.
  uint32_t capset_count() const { return static_cast<uint32_t>(listed_.size()); }
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

  /// Waits until the work of the context's commands so far is done; context 0: of all.
  void finish(uint32_t context);
  /// Any thread.
  void interrupt();
  void reset();
  bool is_lost() const { return !why_lost_.empty(); }
  const std::string& why_lost() const { return why_lost_; }

 private:
  /// A renderer with what lives in it.
  struct Home {
    std::unique_ptr<Renderer> renderer;
    bool has_context = false;
    size_t resources = 0;
    bool has_unfinished = false;  // commands whose end was not waited for
    bool is_lost = false;
  };
  using HomeId = uint64_t;
  static constexpr HomeId kCommonHome = 0;
  struct Context {
    HomeId home = kCommonHome;
    std::string name;  // as the driver calls it, for people
    std::set<uint32_t> resources;
  };
  struct Item {
    Shape shape;
    std::vector<MemoryRange> backing;
    std::optional<HomeId> home;  // nullopt: no renderer knows it yet
  };

  Context* find(uint32_t id);
  /// Asks the renderer of a home, and turns the answer's error into a type; `done` if there is
  /// none.
  uint32_t ask(HomeId home, const Question& question, Answer* answer = nullptr,
               uint32_t done = VGPU_OK_NODATA);
  /// The same for the end of something: with a lost renderer it has ended already.
  uint32_t ask_to_end(HomeId home, const Question& question);
  /// The trace gets a marker that names the contexts.
  void lose(HomeId home, const std::string& why);
  void mark_loss(HomeId home, const std::string& why) const;
  /// Where a context will live; nullopt: no memory.
  std::optional<HomeId> move_in();
  /// Ends a home that nothing lives in.
  void leave(HomeId home);
  uint32_t place(uint32_t id, Item* item, HomeId home);
  /// The home of a resource that is looked at. It is placed in the common one if it has none.
  uint32_t home_of(uint32_t id, HomeId* home);
  uint32_t attach_ranges(uint32_t id, HomeId home, std::span<const MemoryRange> ranges);

  const LocateMemory locate_;
  const Renderers renderers_;
  const std::vector<Capset> capsets_;  // of the renderer
  const std::vector<Capset> listed_;   // those that are told
  std::map<uint32_t, Context> contexts_;
  std::map<uint32_t, Item> items_;
  size_t attachments_ = 0;  // of all contexts
  HomeId next_home_ = kCommonHome + 1;
  std::string why_lost_;  // empty: the device goes on

  runtime::Mutex mutex_;  // held while homes come and go, and by `interrupt`
  std::map<HomeId, Home> homes_;
  bool is_interrupted_ DXGKIT_GUARDED_BY(mutex_) = false;
};

}  // namespace dxgkit::virtiogpu
