// Connections of this program to a server: to its broker, and to its adapters.
#pragma once

#include <atomic>
#include <expected>
#include <string>
#include <vector>

#include "wire/client_connection.h"
#include "wire/greeting.h"
#include "wire/unique_fd.h"

namespace dxgkit::dxcore {

/// Asks the broker which adapters there are. The error is one sentence.
std::expected<std::vector<wire::AdapterLine>, std::string> list_adapters();
/// A connection to an adapter, before its greeting. The error is one sentence.
std::expected<wire::UniqueFd, std::string> open_adapter(const wire::AdapterLine& adapter);

struct SocketRecord;

/// A connection to an adapter. A forked child does not have those of its parent: the server sees
/// the parent's end.
class Connected {
 public:
  explicit Connected(wire::ClientConnection connection);
  /// Closes it, unless a fork has done that: its number may belong to something else by now.
  ~Connected();
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;
  wire::ClientConnection& connection() { return *connection_; }

 private:
  wire::ClientConnection* connection_;
  SocketRecord& record_;
};

/// In a forked child: closes all that its parent has.
void close_connections_of_parent();

}  // namespace dxgkit::dxcore
