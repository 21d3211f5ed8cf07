// A client's context, as the address space of its process sees it.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "dxgk/core/device_state.h"
#include "port/types.h"
#include "runtime/thread_annotations.h"

namespace dxgkit::dxgk {

/// The work floor implements it for contexts and hardware queues. Lane, except where a member says
/// otherwise.
class SpaceUser {
 public:
  /// What is constant while the context is attached. Any thread.
  struct Names {
    ContextId id;
    uint32_t process = 0;           // whose space it is
    void* driver_handle = nullptr;  // of the context
    void* driver_device = nullptr;  // of its device
    uint32_t handle = 0;            // the client's
    /// Engines take its work from memory by themselves, so nobody announces that work.
    bool of_hw_queue = false;
  };
  explicit SpaceUser(const Names& names) : names_(names) {}
  virtual ~SpaceUser() = default;
  SpaceUser(const SpaceUser&) = delete;
  SpaceUser& operator=(const SpaceUser&) = delete;

  const Names& names() const { return names_; }
  ContextId id() const { return names_.id; }

  /// Its device is lost. Any thread.
  virtual bool device_lost() const = 0;
  /// Puts its device in error.
  virtual void fail_device(DeviceState state) DXGKIT_REQUIRES(on_lane) = 0;
  /// Keeps the context off the engines, or lets it back: each is called in turn.
  virtual void keep_off(bool off) DXGKIT_REQUIRES(on_lane) = 0;
  /// Nothing of the context is on an engine.
  virtual bool off_engines() const DXGKIT_REQUIRES(on_lane) = 0;
  /// The driver knows this root already, from another queue of the same hardware context.
  virtual bool knows_root(const port::RootPageTable& root) const DXGKIT_REQUIRES(on_lane) = 0;
  virtual void root_was_set(const port::RootPageTable& root) DXGKIT_REQUIRES(on_lane) = 0;

  /// The driver knows the context's root (VA-06).
  bool rooted DXGKIT_GUARDED_BY(on_lane) = false;

 private:
  const Names names_;
};

}  // namespace dxgkit::dxgk
