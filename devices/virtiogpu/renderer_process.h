// The renderer as a process of its own: libvirglrenderer is C that trusts its input, and whatever
// becomes of it, the kernel beside the device goes on.
#pragma once

#include <sys/types.h>

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "devices/virtiogpu/renderer.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"

namespace dxgkit::virtiogpu {

struct RendererOptions {
  std::string program;      // empty: find_renderer
  int memory = -1;          // descriptor of the machine's memory object; stays the caller's
  uint64_t data_bytes = 0;  // limit of the process's own memory
  runtime::DurationNs timeout = 10 * runtime::kSecond;  // real time that an answer may take
};

/// The renderer that comes with the project: beside the running program, where an installed one
/// keeps it, or where the build left it. Empty: there is none, because it was built without
/// libvirglrenderer.
std::string find_renderer();

class RendererProcess final : public Renderer {
 public:
  /// Starts the process. The error is one sentence without a full stop.
  static std::expected<std::unique_ptr<RendererProcess>, std::string> start(
      const RendererOptions& options);
  /// Kills the process and waits for its end.
  ~RendererProcess() override;

  std::span<const Capset> capsets() const override { return capsets_; }
  /// If no process runs, it starts one.
  bool ask(const Question& question, Answer* answer) override;
  std::unique_ptr<Renderer> another() override;
  std::string why_lost() const override { return why_lost_; }
  std::span<std::byte> mailbox() override { return {mailbox_, kMailboxBytes}; }
  void interrupt() override;
  /// Ends the process, unless nothing but kStart was asked. The next question starts another one.
  void restart() override;

  /// For tests.
  pid_t process() const { return process_; }

 private:
  explicit RendererProcess(const RendererOptions& options) : options_(options) {}
  /// Without a process, which its first question starts. The error is one sentence.
  static std::expected<std::unique_ptr<RendererProcess>, std::string> prepare(
      const RendererOptions& options);
  /// Starts the process. Fails with a sentence.
  std::optional<std::string> launch();
  /// The same, and asks what it can do.
  std::optional<std::string> spawn();
  void end();
  /// Sends and receives. Fails with a sentence.
  std::optional<std::string> exchange(const Question& question, Answer* answer);
  std::optional<std::string> receive(int socket, uint32_t sequence, Answer* answer);

  RendererOptions options_;
  std::byte* mailbox_ = nullptr;
  int mailbox_fd_ = -1;
  pid_t process_ = -1;
  int life_ = -1;
  uint32_t sequence_ = 0;
  bool is_used_ = false;
  std::vector<Capset> capsets_;
  std::string why_lost_;  // empty: it is not lost

  runtime::Mutex mutex_;                       // a leaf
  int socket_ DXGKIT_GUARDED_BY(mutex_) = -1;  // written by the asking thread only
  bool is_asking_ DXGKIT_GUARDED_BY(mutex_) = false;
  bool is_interrupted_ DXGKIT_GUARDED_BY(mutex_) = false;
  bool is_shut_ DXGKIT_GUARDED_BY(mutex_) = false;  // the connection was ended
};

}  // namespace dxgkit::virtiogpu
