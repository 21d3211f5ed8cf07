// One page over HTTP, to browsers of this computer: for a run on a machine that has no browser.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "devices/vfiouser/connection.h"
#include "runtime/runtime.h"

namespace dxgkit::tool {

/// The answer to a whole request of a browser: the page, if it asks for exactly `path`. Anything
/// else gets a status and nothing of the page. Pure; requests are hostile.
///
/// The Host must name this computer: a page of somebody else that has its own name point here
/// (DNS rebinding) is refused. The port does not count: it may be the near end of an ssh tunnel.
std::string answer_request(std::string_view request, std::string_view path, std::string_view page);

/// Listens at 127.0.0.1 only. The page has a secret in its path, because other users of the
/// computer reach the port, too. No file is read: there is one page, in memory.
class PageServer {
 public:
  static constexpr size_t kGuestsMost = 32, kRequestMost = 16384;
  static constexpr runtime::DurationNs kAskPatience = 10 * runtime::kSecond,
                                       kTakePatience = 60 * runtime::kSecond;

  /// @param port  0: one that is free. The error is one sentence.
  static std::expected<PageServer, std::string> listen(uint16_t port);
  /// Where the page is.
  std::string address() const;
  /// Until `stop` is readable. Real threads only. A guest that does not ask or does not take its
  /// answer in time is dropped.
  void serve(runtime::Runtime& runtime, std::string_view page, int stop);

 private:
  PageServer(vfiouser::Descriptor listener, uint16_t port, std::string path)
      : listener_(std::move(listener)), port_(port), path_(std::move(path)) {}
  vfiouser::Descriptor listener_;
  uint16_t port_;
  std::string path_;
};

}  // namespace dxgkit::tool
