#include "tools/dxgkit/serve/adapter_trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "tools/dxgkit/view/notes.h"

namespace dxgkit::serve {

std::expected<std::unique_ptr<AdapterTrace>, std::string> AdapterTrace::begin(
    runtime::Runtime& runtime, const std::string& path) {
  vfiouser::Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file) return std::unexpected(fmt::format("--trace: {}: {}", path, std::strerror(errno)));
  return std::unique_ptr<AdapterTrace>(new AdapterTrace(runtime, std::move(file)));
}

AdapterTrace::AdapterTrace(runtime::Runtime& runtime, vfiouser::Descriptor file)
    : file_(std::move(file)),
      recorder_({.now_ns = [&runtime] { return runtime.now(); },
                 .thread = [&runtime] { return runtime.thread_number(); }},
                kEventsMost) {
  trace::set_current(&recorder_);
}

AdapterTrace::~AdapterTrace() { trace::set_current(nullptr); }

void AdapterTrace::write(const std::string& driver, const verifier::Findings& findings) {
  if (written_.exchange(true)) return;
  std::string text = trace::to_text({.events = recorder_.events(),
                                     .names = recorder_.names(),
                                     .threads = {},
                                     .dropped = recorder_.dropped()});
  text +=
      tool::notes_line({{"driver", driver}, {"findings", tool::findings_for_page(findings.all())}});
  for (std::string_view left = text; !left.empty();) {
    const ssize_t bytes = ::write(file_.get(), left.data(), left.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return;  // the disk is full, or the file is as long as it may be
    left.remove_prefix(static_cast<size_t>(bytes));
  }
}

}  // namespace dxgkit::serve
