// The virtio GPU behind the transport: resources, scanouts, cursors (virtio 1.2, 5.7).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "bus/device.h"
#include "devices/virtio/model.h"
#include "devices/virtiogpu/rendering.h"
#include "devices/virtiogpu/screen_edid.h"
#include "devices/virtiogpu/virtiogpu_hw.h"
#include "runtime/sync.h"

namespace dxgkit::virtiogpu {

struct GpuConfig {
  uint32_t scanouts = 1;  // 1 to VGPU_SCANOUTS_MOST
  std::vector<Mode> modes = {{1280, 800}};
  /// Limits of what a driver may make the device keep: pixels and lists of backing pages. A texel
  /// of a 3D resource counts as four bytes.
  uint64_t memory_bytes = uint64_t{256} << 20;
  uint32_t resources = 4096;
  uint16_t control_entries = 256;  // of the control queue, at most: a power of two
  bool edid = true;                // the feature is offered
  bool connected = true;           // GET_DISPLAY_INFO says that the scanouts are enabled
  EdidDamage damage = EdidDamage::kNone;
};

/// Everything in a command is hostile: a wrong one gets the error that the specification has for
/// it, and changes nothing. Without a renderer 3D is not offered, and its commands are unknown.
class Gpu final : public virtio::Model {
 public:
  explicit Gpu(GpuConfig config, std::unique_ptr<Rendering> rendering = nullptr);

  uint64_t features() const override;
  std::vector<uint16_t> queue_sizes() const override;
  uint32_t config_bytes() const override { return VGPU_CONFIG_BYTES; }
  void config_read(uint64_t offset, std::span<std::byte> to) override;
  void config_write(uint64_t offset, std::span<const std::byte> from) override;
  runtime::DurationNs time_of(uint16_t queue, virtio::Request& request) override;
  void execute(uint16_t queue, virtio::Request& request) override;
  void refuse(uint16_t queue, virtio::Request& request) override;
  void interrupt() override;
  void reset() override;
  /// The device left the machine: the renderer touches no memory any more. No command runs.
  void pull_out();

  /// What the screens show, side by side, with their cursors. A screen shows what was flushed last,
  /// not what is in the resource. Any thread.
  bus::ScreenImage image();
  /// See bus::DeviceScreen: called for each SET_SCANOUT, each flush that a screen shows, and each
  /// command of the cursor queue.
  void on_flip(std::function<void(const bus::ScreenImage&)> flipped);

  /// What GET_EDID, or without a good EDID GET_DISPLAY_INFO, tells of each scanout. Any thread.
  std::vector<bus::DeviceMonitor> monitors() const;

  /// Commands that were refused for what they say, since the last call. Of those of 3D that no
  /// client can be to blame for: unknown ones, and ids that are not there. Any thread.
  std::vector<std::string> take_misuses();

  // --- for tests, while no command runs
  size_t resource_count() const { return resources_.size(); }
  /// Bytes that count for GpuConfig::memory_bytes.
  uint64_t memory_used() const { return used_bytes_; }

 private:
  struct Resource {
    uint32_t format = 0, width = 0, height = 0;
    std::optional<Shape> shape;   // of 3D: the renderer has its content
    uint64_t bytes = 0;           // for which it counts
    std::vector<uint8_t> pixels;  // of 2D: rows without padding
    std::vector<VgpuEntry> backing;
    std::vector<uint64_t> starts;  // offset of each entry in the backing, and its end
    bool is_attached() const { return !backing.empty(); }
  };
  struct Cursor {
    uint32_t x = 0, y = 0;
    std::vector<uint8_t> pixels;  // red, green, blue, alpha; empty: none
  };
  struct Scanout {
    uint32_t resource = 0;       // 0: off
    VgpuRect rect = {};          // of the resource
    std::vector<uint8_t> shown;  // red, green, blue, 255
    Cursor cursor;
  };

  /// The type of the answer; the answer itself, if it is more than a header, into `answer`.
  uint32_t carry_out(const VgpuHeader& header, virtio::Request& request,
                     std::vector<std::byte>* answer);
  uint32_t create(virtio::Request& request);
  uint32_t create_3d(virtio::Request& request);
  /// The commands that only a device with 3D knows.
  uint32_t carry_out_3d(const VgpuHeader& header, virtio::Request& request,
                        std::vector<std::byte>* answer);
  uint32_t transfer_3d(virtio::Request& request);
  uint32_t unref(virtio::Request& request);
  uint32_t attach(virtio::Request& request);
  uint32_t detach(virtio::Request& request);
  uint32_t transfer(virtio::Request& request);
  uint32_t set_scanout(virtio::Request& request);
  uint32_t flush(virtio::Request& request);
  uint32_t display_info(std::vector<std::byte>* answer) const;
  uint32_t edid(virtio::Request& request, std::vector<std::byte>* answer) const;
  uint32_t cursor(virtio::Request& request, bool is_update);

  void note_misuse(uint32_t command, uint32_t answer);
  Resource* find(uint32_t id);
  /// Takes bytes of the limit. False: it would be exceeded.
  bool reserve(uint64_t bytes);
  void drop_backing(Resource* resource);
  /// Copies a row of a backing. False: a part is in no memory, or behind the end.
  static bool read_backing(virtio::Memory& memory, const Resource& resource, uint64_t offset,
                           std::span<std::byte> to);
  void switch_off(Scanout* scanout) DXGKIT_REQUIRES(mutex_);
  /// Pixels and where they are in their resource.
  struct Part {
    VgpuRect rect;
    std::span<const uint8_t> pixels;  // rows without padding
  };
  /// The pixels of `rect`, which lies in the resource, and maybe more. Those of a 3D resource are
  /// fetched into `room`. Returns OK_NODATA or an error.
  uint32_t look_at(uint32_t id, const Resource& resource, const VgpuRect& rect,
                   std::vector<uint8_t>* room, Part* part);
  /// Takes the part of `rect` that the scanout shows over from `from`, which has all of `rect`.
  static void show(uint32_t format, const Part& from, const VgpuRect& rect, Scanout* scanout);
  bus::ScreenImage compose() const DXGKIT_REQUIRES(mutex_);
  void tell() DXGKIT_REQUIRES(mutex_);

  const GpuConfig config_;
  const std::unique_ptr<Rendering> rendering_;  // null: 2D only
  // Touched by execute and reset only, which come one at a time.
  std::map<uint32_t, Resource> resources_;
  uint64_t used_bytes_ = 0;

  runtime::Mutex mutex_;  // a leaf but for the flip handler, which must not come back
  std::vector<std::string> misuses_ DXGKIT_GUARDED_BY(mutex_);  // the first few
  std::array<Scanout, VGPU_SCANOUTS_MOST> scanouts_ DXGKIT_GUARDED_BY(mutex_);
  std::function<void(const bus::ScreenImage&)> flipped_ DXGKIT_GUARDED_BY(mutex_);
};

}  // namespace dxgkit::virtiogpu
