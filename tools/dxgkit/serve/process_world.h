// The broker's world, for real: adapter processes of this program.
#pragma once

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/dxgkit/serve/broker.h"

namespace dxgkit::serve {

/// Descriptor of an adapter process's connection to its broker.
inline constexpr int kAdapterControl = 3;
/// The one over which it asks for new descriptors.
inline constexpr int kAdapterSupply = 4;
inline constexpr int kAdapterDescriptorsEnd = 5;

class ProcessWorld final : public BrokerWorld {
 public:
  /// @param arguments  of the process of an adapter, without the name of the program
  /// @param say        takes lines for people; without it they go to stdout
  explicit ProcessWorld(
      std::function<std::vector<std::string>(size_t adapter, uint32_t luid)> arguments,
      std::function<void(const std::string& line)> say = {})
      : arguments_(std::move(arguments)), say_(std::move(say)) {}

  /// The process has its two connections, its standard error, and nothing else. It ends when
  /// this thread does.
  std::expected<Started, std::string> start(size_t adapter, uint32_t luid) override;
  void kill(int32_t process) override;
  std::string how_ended(int32_t process) override;
  std::optional<Peer> peer_of(int socket) override;
  uint64_t memory_of(int32_t process) override;
  std::expected<Descriptor, std::string> make_recording(const std::string& folder,
                                                        const std::string& name) override;
  void say(const std::string& line) override;

 private:
  const std::function<std::vector<std::string>(size_t adapter, uint32_t luid)> arguments_;
  const std::function<void(const std::string& line)> say_;
};

/// Who is at the other end of a Unix socket.
std::optional<Peer> peer_of_socket(int socket);

}  // namespace dxgkit::serve
