#include "tools/dxgkit/gl/thread_conversation.h"

#include <utility>

#include "trace/trace.h"

namespace dxgkit::gl {

ThreadConversation::ThreadConversation(runtime::Runtime& runtime, vfiouser::Descriptor socket,
                                       Session::MakeBackend make_backend, KeepFrames keep)
    : runtime_(runtime),
      channel_(runtime, std::move(socket), kMessageTimeoutNs),
      make_backend_(std::move(make_backend)),
      keep_(keep) {}

ProgramRecord ThreadConversation::run() {
  ProgramRecord record;
  Session session(channel_, make_backend_);
  FrameLog frames;
  if (keep_ == KeepFrames::kYes)
    session.on_frame([&](const Frame& frame, uint64_t number) {
      frames.add(frame, number, runtime_.now());
      if (trace::Recorder* const recorder = trace::current())
        recorder->record(
            trace::EventKind::kMarker,
            recorder->name_id(name_for_people(session.program_name()) + " has a frame"));
    });
  {
    const runtime::MutexLock lock(mutex_);
    session_ = &session;
  }
  record.wrong = session.run().value_or("");
  // The program sees the end before its process in the kernel has ended.
  channel_.shut_down();
  record.name = session.program_name();
  record.counts = session.counts();
  record.frame = session.frame();
  record.last_frames = frames.take();
  const runtime::MutexLock lock(mutex_);
  session_ = nullptr;
  return record;
}

void ThreadConversation::cancel() {
  const runtime::MutexLock lock(mutex_);
  if (session_ != nullptr) session_->cancel();
}

}  // namespace dxgkit::gl
