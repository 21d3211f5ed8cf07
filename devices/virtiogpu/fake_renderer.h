// A renderer that does what a test says, for tests.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "devices/virtiogpu/renderer.h"

namespace dxgkit::virtiogpu {

class FakeRenderer final : public Renderer {
 public:
  explicit FakeRenderer(std::vector<Capset> capsets) : capsets_(std::move(capsets)) {}

  std::span<const Capset> capsets() const override { return capsets_; }
  bool ask(const Question& question, Answer* answer) override {
    asked.push_back(question);
    *answer = {};
    if (is_lost || !respond) return !is_lost;
    is_lost = !respond(question, answer);
    return !is_lost;
  }
  std::string why_lost() const override { return "the renderer is lost"; }
  std::span<std::byte> mailbox() override { return mailbox_; }
  void interrupt() override { is_lost = true; }
  void restart() override {
    is_lost = false;
    ++restarts;
  }

  /// Fills an answer, which says "done" before; false: the renderer is lost.
  std::function<bool(const Question& question, Answer* answer)> respond;
  std::vector<Question> asked;
  bool is_lost = false;
  int restarts = 0;

 private:
  std::vector<Capset> capsets_;
  std::vector<std::byte> mailbox_ = std::vector<std::byte>(kMailboxBytes);
};

}  // namespace dxgkit::virtiogpu
