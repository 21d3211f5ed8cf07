#include "dxgkit/trace.h"

#include "api/trace_impl.h"

namespace dxgkit {

Trace::Trace() : impl_(std::make_shared<const Impl>()) {}
Trace::Trace(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
uint64_t Trace::events() const { return impl_->recording.events.size(); }
uint64_t Trace::dropped() const { return impl_->recording.dropped; }
std::string Trace::perfetto() const { return trace::to_perfetto(impl_->recording); }
std::string Trace::text() const { return trace::to_text(impl_->recording); }

Trace make_trace(const trace::Recorder& recorder, std::vector<std::string> threads) {
  return Trace(std::make_shared<const Trace::Impl>(
      Trace::Impl{.recording = {.events = recorder.events(),
                                .names = recorder.names(),
                                .threads = std::move(threads),
                                .dropped = recorder.dropped()}}));
}

}  // namespace dxgkit
