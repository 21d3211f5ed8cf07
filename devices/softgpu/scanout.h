// The screen of a software GPU, if it has one: a clock of vertical syncs, and the address that each
// sync takes over.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "devices/softgpu/address_space.h"
#include "devices/softgpu/interrupts.h"
#include "devices/softgpu/softgpu_hw.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"

namespace dxgkit::softgpu {

/// The picture on a monitor. Rows top to bottom without padding: R, G, B, 255. Empty: no picture.
struct ScreenPicture {
  uint32_t width = 0, height = 0;
  uint64_t address = 0;  // GPU address it was read from
  std::vector<uint8_t> pixels;
};

/// Any thread may use the registers. Vertical sync n happens n periods after the runtime's start.
/// The clock runs only while it has an effect: an address waits to be taken over, or the interrupt
/// is enabled.
class Scanout {
 public:
  /// @param refresh_hz  1..1000
  Scanout(runtime::Runtime& runtime, AddressSpace& memory, Interrupts& interrupts,
          uint32_t refresh_hz);
  ~Scanout();
  Scanout(const Scanout&) = delete;
  Scanout& operator=(const Scanout&) = delete;

  /// `offset` is that of a SGPU_REG_SCANOUT register, of SGPU_REG_PLANES, or of a plane.
  uint64_t read(uint64_t offset);
  void write(uint64_t offset, uint64_t value);
  /// INT_ENABLE was written.
  void interrupts_changed();
  /// Registers at power-on values, nothing shown.
  void lose_power();
  /// The picture in the memory that is shown, as it is now.
  ScreenPicture picture();
  /// Called with each picture that an address change puts on the screen, on the thread that made
  /// the change or on the clock's. It may not use the device. Set it before anything is shown.
  void on_flip(std::function<void(const ScreenPicture&)> flipped);

 private:
  /// The registers of an overlay plane.
  struct Plane {
    uint64_t address = 0, source = 0, target = 0, clip = 0;
    uint32_t pitch = 0, control = 0;
    bool enabled() const { return (control & SGPU_PLANE_ENABLE) != 0; }
  };
  uint64_t read_plane(uint32_t plane, uint64_t offset) DXGKIT_REQUIRES(mutex_);
  /// True: the write was a COMMIT that takes effect now.
  bool write_plane(uint32_t plane, uint64_t offset, uint64_t value) DXGKIT_REQUIRES(mutex_);
  void take_planes(uint32_t mask) DXGKIT_REQUIRES(mutex_);
  void draw(const Plane& plane, ScreenPicture* picture) DXGKIT_REQUIRES(mutex_);
  ScreenPicture compose() DXGKIT_REQUIRES(mutex_);
  bool waits() const DXGKIT_REQUIRES(mutex_) { return waiting_ || waiting_planes_ != 0; }
  void tick();
  void arm() DXGKIT_REQUIRES(mutex_);
  void take() DXGKIT_REQUIRES(mutex_);
  ScreenPicture read_picture() DXGKIT_REQUIRES(mutex_);
  bool enabled() const DXGKIT_REQUIRES(mutex_);

  runtime::Runtime& runtime_;
  AddressSpace& memory_;
  Interrupts& interrupts_;
  const uint32_t refresh_hz_;
  const runtime::DurationNs period_;
  runtime::Mutex mutex_;
  uint32_t control_ DXGKIT_GUARDED_BY(mutex_) = 0;
  uint32_t size_ DXGKIT_GUARDED_BY(mutex_) = 0;
  uint32_t pitch_ DXGKIT_GUARDED_BY(mutex_) = 0;
  uint64_t address_ DXGKIT_GUARDED_BY(mutex_) = 0;
  uint64_t shown_ DXGKIT_GUARDED_BY(mutex_) = 0;
  bool waiting_ DXGKIT_GUARDED_BY(mutex_) = false;  // `address_` has not taken effect yet
  bool armed_ DXGKIT_GUARDED_BY(mutex_) = false;
  std::array<Plane, SGPU_PLANE_COUNT> written_ DXGKIT_GUARDED_BY(mutex_);  // by the driver
  std::array<Plane, SGPU_PLANE_COUNT> planes_ DXGKIT_GUARDED_BY(mutex_);   // in effect
  uint32_t waiting_planes_ DXGKIT_GUARDED_BY(mutex_) = 0;  // committed, not in effect: a bit each
  bool composed_ DXGKIT_GUARDED_BY(mutex_) = false;        // of planes; else the address is shown
  std::function<void(const ScreenPicture&)> flipped_ DXGKIT_GUARDED_BY(mutex_);
  std::unique_ptr<runtime::Timer> clock_;
};

}  // namespace dxgkit::softgpu
