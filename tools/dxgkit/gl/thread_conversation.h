// A session in the process of the kernel, on the thread that serves its connection.
#pragma once

#include "devices/vfiouser/connection.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"
#include "tools/dxgkit/gl/channel.h"
#include "tools/dxgkit/gl/conversation.h"

namespace dxgkit::gl {

enum class KeepFrames { kNo, kYes };

/// For the rest of a message that has begun, and for room for a reply: a program that is stopped in
/// a debugger right there loses its connection.
inline constexpr runtime::DurationNs kMessageTimeoutNs = 60 * runtime::kSecond;

/// Real threads only. With kept frames, the trace gets a marker for each frame.
class ThreadConversation final : public Conversation {
 public:
  ThreadConversation(runtime::Runtime& runtime, vfiouser::Descriptor socket,
                     Session::MakeBackend make_backend, KeepFrames keep);
  ProgramRecord run() override;
  void shut_down() override { channel_.shut_down(); }
  void cancel() override;

 private:
  runtime::Runtime& runtime_;
  SocketChannel channel_;
  const Session::MakeBackend make_backend_;
  const KeepFrames keep_;
  runtime::Mutex mutex_;                                  // outside those of a session
  Session* session_ DXGKIT_GUARDED_BY(mutex_) = nullptr;  // while it is there
};

}  // namespace dxgkit::gl
