// One GL program's connection: reads its messages, and carries them out on a backend.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/vfiouser/connection.h"
#include "tools/dxgkit/gl/backend.h"
#include "tools/dxgkit/gl/channel.h"
#include "tools/dxgkit/gl/virgl_stream.h"
#include "tools/dxgkit/gl/vtest_protocol.h"

namespace dxgkit::gl {

/// Memory of a resource that the program has mapped, too. Nobody can change its size.
class SharedMemory {
 public:
  /// Null: the system has no memory or no descriptors left.
  static std::unique_ptr<SharedMemory> create(uint32_t bytes);
  /// Memory that another process made so. Null: it is none, or it is smaller.
  static std::unique_ptr<SharedMemory> open(vfiouser::Descriptor fd, uint32_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  int fd() const { return fd_.get(); }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  static std::unique_ptr<SharedMemory> map(vfiouser::Descriptor fd, uint32_t bytes);
  SharedMemory(vfiouser::Descriptor fd, std::span<std::byte> bytes)
      : fd_(std::move(fd)), bytes_(bytes) {}
  const vfiouser::Descriptor fd_;
  const std::span<std::byte> bytes_;
};

/// What a program may have at a time; more ends its connection.
struct SessionLimits {
  size_t resources = 65'536;
  uint64_t shared_bytes = uint64_t{2} << 30;
};

/// What a session has done, for people.
struct SessionCounts {
  uint64_t messages = 0, streams = 0, transfers = 0, resources = 0;
  uint64_t frames = 0;  // that the program fetched to show them in a window
};

/// The last frame that a program fetched to show it. The memory stays the program's, which may
/// change it.
struct Frame {
  ResourceDescription resource;
  std::shared_ptr<const SharedMemory> memory;
};

/// Not thread-safe.
class Session {
 public:
  /// Makes the backend when the program asks for a renderer, with its name.
  using MakeBackend =
      std::function<Answer<std::unique_ptr<Backend>>(const std::string& program_name)>;

  Session(Channel& channel, MakeBackend make_backend, SessionLimits limits = {});

  /// Carries out messages until the program closes its connection: nullopt. Otherwise what was
  /// wrong, as one sentence without a full stop: the program broke the protocol, or the backend
  /// refused.
  std::optional<std::string> run();
  /// Calls `shown` for each frame that the program fetches to show it, with its number from 1, on
  /// the thread of run(). Before run().
  void on_frame(std::function<void(const Frame& frame, uint64_t number)> shown) {
    shown_ = std::move(shown);
  }
  /// Any thread: run() returns soon, also from a call of the backend that waits.
  void cancel();
  /// As the program calls itself; empty before it did.
  const std::string& program_name() const { return program_name_; }
  const SessionCounts& counts() const { return counts_; }
  /// None: it has shown nothing.
  const std::optional<Frame>& frame() const { return frame_; }

 private:
  struct Resource {
    ResourceDescription description;
    Backend::Id id = 0;
    std::shared_ptr<SharedMemory> memory;  // null: it has none
  };

  Answer<bool> step();
  Answer<void> handle(Command command, std::span<const std::byte> payload);
  Answer<void> create_renderer(std::span<const std::byte> payload);
  Answer<void> send_capabilities(uint32_t set);
  Answer<void> choose_version(uint32_t version);
  Answer<void> create_resource(std::span<const uint32_t> payload);
  Answer<void> unref(uint32_t handle);
  Answer<void> transfer(Direction direction, std::span<const uint32_t> payload);
  Answer<void> submit(std::span<uint32_t> stream);
  Answer<void> busy_wait(std::span<const uint32_t> payload);
  Answer<void> fetch_written();
  Answer<void> reply(Command command, std::span<const uint32_t> payload);
  Answer<Resource*> find(uint32_t handle);

  Channel& channel_;
  const MakeBackend make_backend_;
  const SessionLimits limits_;
  std::string program_name_;
  std::unique_ptr<Backend> backend_;  // null: the program has no renderer yet
  std::atomic<bool> cancelled_{false};
  std::atomic<Backend*> cancellable_{nullptr};  // backend_, for other threads
  bool versions_agreed_ = false;
  StreamReader reader_;
  std::map<uint32_t, Resource> resources_;  // by the program's numbers
  /// Resources whose backing the renderer has written or will write, unasked: the results of
  /// queries.
  std::set<uint32_t> written_;
  uint64_t shared_bytes_ = 0;
  SessionCounts counts_;
  std::optional<Frame> frame_;
  std::function<void(const Frame&, uint64_t)> shown_;
};

}  // namespace dxgkit::gl
