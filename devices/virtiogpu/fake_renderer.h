// A renderer that does what a test says, for tests.
#pragma once

#include <functional>
#include <memory>
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
  std::unique_ptr<Renderer> another() override {
    auto made = std::make_unique<FakeRenderer>(capsets_);
    made->respond = respond;
    others.push_back(made.get());
    return made;
  }
  std::string why_lost() const override { return "the renderer is lost"; }
  /// One for all fakes: to fill it anew takes longer than what most tests do.
  std::span<std::byte> mailbox() override {
    static std::vector<std::byte> mailbox(kMailboxBytes);
    return mailbox;
  }
  void interrupt() override { is_lost = true; }
  void restart() override {
    is_lost = false;
    ++restarts;
  }

  /// Fills an answer, which says "done" before; false: the renderer is lost.
  std::function<bool(const Question& question, Answer* answer)> respond;
  std::vector<Question> asked;
  std::vector<FakeRenderer*> others;  // that were made; those may have ended
  bool is_lost = false;
  int restarts = 0;

 private:
  std::vector<Capset> capsets_;
};

}  // namespace dxgkit::virtiogpu
