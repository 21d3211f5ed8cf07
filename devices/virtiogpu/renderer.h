// The renderer as the device sees it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/virtiogpu/renderer_protocol.h"

namespace dxgkit::virtiogpu {

/// Draws for one device, or for one context of it. Calls come one at a time, but for `interrupt`.
class Renderer {
 public:
  virtual ~Renderer() = default;
  /// What it understands; the same for all of its life, one at least. Any thread.
  virtual std::span<const Capset> capsets() const = 0;
  /// Asks and waits for the answer, whose `bytes` are at most kMailboxBytes. Of an answer nothing
  /// else is checked. False: the renderer is lost, and stays so until `restart`; `why_lost` says
  /// why, one sentence without a full stop.
  virtual bool ask(const Question& question, Answer* answer) = 0;
  virtual std::string why_lost() const = 0;
  /// kMailboxBytes. The other side may write into it at any time: copy first, then look.
  virtual std::span<std::byte> mailbox() = 0;
  /// Lets a running `ask` fail soon, and each one after it until `restart`. Any thread.
  virtual void interrupt() = 0;
  /// One more of the same kind, which starts with its first question. Null: no memory, or there is
  /// one only.
  virtual std::unique_ptr<Renderer> another() { return nullptr; }
  /// A renderer without contexts and resources, which touches no memory of the machine.
  virtual void restart() = 0;
};

/// What the answer to Ask::kStart lists. nullopt: it makes no sense.
std::optional<std::vector<Capset>> read_capsets(const Answer& answer,
                                                std::span<const std::byte> mailbox);

}  // namespace dxgkit::virtiogpu
