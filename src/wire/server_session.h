// The kernel's side of one connection: rebuilds a client's call, makes it in the client's name, and
// packs what comes out.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dxgk/core/client_quota.h"
#include "dxgk/core/process.h"
#include "dxgk/system.h"
#include "wire/unique_fd.h"

namespace dxgkit::wire {

class Windows;

/// The memory that client and kernel exchange. Make one for each client process, and give it to all
/// sessions of this process. With system and process: the client is in another process, and has
/// made no call yet.
std::shared_ptr<Windows> make_windows();
/// `quota`: of the client's user; null: there is no limit.
std::shared_ptr<Windows> make_windows(dxgk::System& system, dxgk::Process& process,
                                      std::shared_ptr<dxgk::ClientQuota> quota = nullptr);

struct Reply {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;
  /// Not empty: the request was no request of a client of ours, in one sentence. `bytes` is empty;
  /// close the connection.
  std::string refusal;
  /// For a trace: "D3DKMTCreateDevice(hAdapter=0x40000040) = 0". Only if asked for.
  std::string text;
};

class ServerSession {
 public:
  ServerSession(dxgk::System& system, dxgk::Process& process,
                std::shared_ptr<Windows> windows = make_windows());
  ~ServerSession();
  ServerSession(const ServerSession&) = delete;
  ServerSession& operator=(const ServerSession&) = delete;

  /// Blocks as long as the function does. Any thread of the kernel's runtime; one call at a time.
  /// `request`: the bytes of one frame, which may be anything. Costs memory in proportion to it.
  Reply handle(std::span<const std::byte> request, std::vector<UniqueFd> descriptors);
  /// Whether the caller calls `answered` as soon as the client has its reply. The scheduler then
  /// gets to packets that a call has queued only after the reply: the client goes on meanwhile.
  void set_answers_early(bool wanted);
  /// The reply is on its way. Does what the call has left; so does the next call.
  void answered();
  /// Whether replies have a text.
  void set_texts(bool wanted);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dxgkit::wire
