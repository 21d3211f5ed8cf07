#include "tools/dxgkit/serve/adapter_host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/descriptors.h"

namespace dxgkit::serve {
namespace {

/// The broker is never far behind: it reads whatever comes. If it does not, it is gone.
void send_surely(runtime::Runtime& runtime, int socket, const ControlMessage& message,
                 std::string_view text = {}) {
  while (!send_control(socket, message, text)) {
    runtime::DescriptorWait wait{.fd = socket, .input = false, .output = true};
    runtime::wait_for_descriptors(runtime, {&wait, 1});
    if (wait.ended) return;
  }
}

}  // namespace

void AdapterHost::run() {
  ControlMessage ready;
  ready.kind = Control::kReady;
  send_surely(runtime_, control_, ready);
  while (true) {
    std::vector<runtime::DescriptorWait> waits{{.fd = control_}, {.fd = wake_}};
    for (const auto& talk : talks_)
      waits.push_back({.fd = talk->is_hung_up ? -1 : talk->conversation->fd(), .input = false});
    runtime::wait_for_descriptors(runtime_, waits);
    for (size_t i = 0; i < talks_.size(); ++i) {
      Talk& talk = *talks_[i];
      if (!waits[i + 2].ended || talk.is_hung_up) continue;
      talk.is_hung_up = true;
      talk.conversation->hang_up();
    }
    if (waits[1].ready) {
      uint64_t count = 0;
      static_cast<void>(!read(wake_, &count, sizeof count));
    }
    reap();
    if (waits[0].ready && !take_message()) break;
  }
  hang_up_all();
}

bool AdapterHost::take_message() {
  ControlReceived received;
  switch (receive_control(control_, &received)) {
    case ControlState::kNothing:
      return true;
    case ControlState::kEnded:
    case ControlState::kNonsense:
      return false;
    case ControlState::kMessage:
      break;
  }
  if (received.message.kind == Control::kConnection) begin(received);
  if (received.message.kind == Control::kRecording && received.descriptor)
    conversations_.record(std::move(received.descriptor), received.message.user,
                          received.message.process);
  if (received.message.kind == Control::kQuery) {
    ControlMessage answer;
    answer.kind = Control::kFigures;
    answer.connection = received.message.connection;
    std::vector<UserFigures> users;
    answer.figures = conversations_.figures(&users);
    users.resize(std::min(users.size(), kControlTextMost / sizeof(UserFigures)));
    send_surely(runtime_, control_, answer,
                {reinterpret_cast<const char*>(users.data()), users.size() * sizeof(UserFigures)});
  }
  return received.message.kind != Control::kEnd;
}

void AdapterHost::begin(ControlReceived& received) {
  auto talk = std::make_unique<Talk>();
  talk->connection = received.message.connection;
  if (!received.descriptor || talks_.size() >= kConnectionsMost) {
    ControlMessage closed;
    closed.kind = Control::kClosed;
    closed.connection = talk->connection;
    return send_surely(runtime_, control_, closed, "no thread is left");
  }
  talk->conversation = conversations_.begin(std::move(received.descriptor), received.message.user,
                                            received.message.process);
  talk->thread =
      runtime_.spawn(fmt::format("client {}", received.message.process), [this, mine = talk.get()] {
        mine->why = mine->conversation->talk();
        mine->is_over.store(true);
        const uint64_t one = 1;
        static_cast<void>(!write(wake_, &one, sizeof one));
      });
  talks_.push_back(std::move(talk));
}

void AdapterHost::reap() {
  std::erase_if(talks_, [this](const std::unique_ptr<Talk>& talk) {
    if (!talk->is_over.load()) return false;
    talk->thread->join();
    ControlMessage closed;
    closed.kind = Control::kClosed;
    closed.connection = talk->connection;
    talk->conversation.reset();  // before the broker counts one less
    send_surely(runtime_, control_, closed, talk->why);
    return true;
  });
}

void AdapterHost::hang_up_all() {
  for (const auto& talk : talks_) {
    if (!talk->is_hung_up) talk->conversation->hang_up();
  }
  for (const auto& talk : talks_) talk->thread->join();
  talks_.clear();
}

}  // namespace dxgkit::serve
