// A program's side of a session without a socket, and a backend that writes down its calls: for
// tests and for fuzzing.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/dxgkit/gl/session.h"

namespace dxgkit::gl {

using Words = std::vector<uint32_t>;

/// What the program sends lies ready; what it gets is kept. The program closes at the end.
class ScriptedChannel final : public Channel {
 public:
  void send(std::span<const std::byte> bytes) {
    input_.insert(input_.end(), bytes.begin(), bytes.end());
  }
  void send(Command command, const Words& payload) {
    send(static_cast<uint32_t>(payload.size()), command, payload);
  }
  /// With another length than it has.
  void send(uint32_t length, Command command, const Words& payload) {
    const auto head = encode(Header{length, static_cast<uint32_t>(command)});
    send(std::as_bytes(std::span(head)));
    send(std::as_bytes(std::span(payload)));
  }
  template <size_t N>
  void send(Command command, const std::array<uint32_t, N>& payload) {
    send(command, Words(payload.begin(), payload.end()));
  }
  /// What a program begins with.
  void send_greeting(const std::string& name = "program") {
    const auto head = encode(Header{static_cast<uint32_t>(name.size()) + 1,
                                    static_cast<uint32_t>(Command::kCreateRenderer)});
    send(std::as_bytes(std::span(head)));
    send(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
    send(Command::kPingProtocolVersion, Words{});
    send(Command::kResourceBusyWait, Words{0, 0});
    send(Command::kProtocolVersion, Words{2});
  }
  /// All replies that it got since the last call.
  std::vector<std::byte> take_output() { return std::exchange(output_, {}); }
  std::vector<vfiouser::Descriptor>& descriptors() { return descriptors_; }

  std::expected<bool, std::string> read(std::span<std::byte> out, bool begun) override {
    if (input_.size() - at_ < out.size()) {
      if (input_.size() == at_ && !begun) return false;
      return std::unexpected(std::string("the script ends in a message"));
    }
    std::copy_n(input_.begin() + static_cast<ptrdiff_t>(at_), out.size(), out.begin());
    at_ += out.size();
    return true;
  }
  std::expected<void, std::string> write(std::span<const std::byte> bytes) override {
    output_.insert(output_.end(), bytes.begin(), bytes.end());
    return {};
  }
  std::expected<void, std::string> send_descriptor(int fd) override {
    descriptors_.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    return {};
  }

 private:
  std::vector<std::byte> input_;
  size_t at_ = 0;  // what was read
  std::vector<std::byte> output_;
  std::vector<vfiouser::Descriptor> descriptors_;
};

/// Keeps a backing for each resource. FROM_HOST fills the backing from the offset on with the
/// level. CHECKs are the caller's: `misuse` says what a session must never do.
class RecordingBackend final : public Backend {
 public:
  struct State {
    std::vector<std::string> calls;
    std::map<Id, std::vector<std::byte>> backings;
    std::string misuse;
    bool busy = false;          // idle(kNo) answers so
    std::string refuse_create;  // create() fails with it
    size_t capability_bytes = 308;
    std::map<Id, std::byte> results;  // what submit() writes into a backing
  };
  explicit RecordingBackend(State& state) : state_(state) {}
  ~RecordingBackend() override { state_.calls.emplace_back("end"); }

  Answer<std::vector<std::byte>> capabilities(uint32_t set) override {
    return std::vector<std::byte>(state_.capability_bytes * set, std::byte(set));
  }
  Answer<Id> create(const ResourceDescription& resource) override {
    if (!state_.refuse_create.empty()) return wrong(state_.refuse_create);
    const Id id = next_id_++;
    state_.backings[id].resize(resource.data_bytes);
    say("create " + std::to_string(id) + " of " + std::to_string(resource.data_bytes));
    return id;
  }
  Answer<void> destroy(Id resource) override {
    if (state_.backings.erase(resource) == 0) misuse("destroy of nothing");
    say("destroy " + std::to_string(resource));
    return {};
  }
  Answer<void> write(Id resource, uint64_t offset, std::span<const std::byte> bytes) override {
    if (auto* to = part(resource, offset, bytes.size())) std::ranges::copy(bytes, to);
    say("write " + text(resource, offset, bytes.size()));
    return {};
  }
  Answer<void> read(Id resource, uint64_t offset, std::span<std::byte> bytes) override {
    if (const auto* from = part(resource, offset, bytes.size()))
      std::copy_n(from, bytes.size(), bytes.begin());
    say("read " + text(resource, offset, bytes.size()));
    return {};
  }
  Answer<void> transfer(Id resource, Direction direction, const Transfer& transfer) override {
    const auto found = state_.backings.find(resource);
    if (found == state_.backings.end() || transfer.offset > found->second.size()) {
      misuse("a transfer outside a backing");
    } else if (direction == Direction::kFromHost) {
      const size_t rest = found->second.size() - transfer.offset;
      std::fill_n(found->second.begin() + transfer.offset,
                  std::min<size_t>(transfer.data_bytes, rest), std::byte(0xA0 + transfer.level));
    }
    say(std::string(direction == Direction::kToHost ? "to host " : "from host ") +
        text(resource, transfer.offset, transfer.data_bytes));
    return {};
  }
  Answer<void> submit(std::span<uint32_t> stream, std::span<const StreamCommand> commands,
                      std::span<const Use> uses, std::span<const Id> also) override {
    std::string line =
        "submit " + std::to_string(stream.size()) + " in " + std::to_string(commands.size()) + ":";
    for (const Use& use : uses) {
      if (use.position >= stream.size()) misuse("a use outside the stream");
      if (!state_.backings.contains(use.resource)) misuse("a use of nothing");
      line += " " + std::to_string(use.position) + "=" + std::to_string(use.resource) +
              (use.written ? "w" : "r");
    }
    for (const Id id : also) {
      if (!state_.backings.contains(id)) misuse("another use of nothing");
      line += " also " + std::to_string(id);
    }
    for (const auto& [id, value] : state_.results) std::ranges::fill(state_.backings[id], value);
    say(line);
    return {};
  }
  Answer<bool> idle(Waiting waiting) override {
    say(waiting == Waiting::kYes ? "wait" : "ask");
    return waiting == Waiting::kYes || !state_.busy;
  }
  void cancel() override {}

 private:
  std::byte* part(Id resource, uint64_t offset, size_t bytes) {
    const auto found = state_.backings.find(resource);
    if (found == state_.backings.end() || offset > found->second.size() ||
        bytes > found->second.size() - offset) {
      misuse("an access outside a backing");
      return nullptr;
    }
    return found->second.data() + offset;
  }
  static std::string text(Id resource, uint64_t offset, size_t bytes) {
    return std::to_string(resource) + "[" + std::to_string(offset) + "+" + std::to_string(bytes) +
           "]";
  }
  void say(std::string line) { state_.calls.push_back(std::move(line)); }
  void misuse(const char* what) { state_.misuse = what; }

  State& state_;
  Id next_id_ = 100;
};

/// A session on both.
struct SessionRig {
  explicit SessionRig(SessionLimits limits = {})
      : session(
            channel,
            [this](const std::string&) -> Answer<std::unique_ptr<Backend>> {
              return std::make_unique<RecordingBackend>(state);
            },
            limits) {}
  RecordingBackend::State state;
  ScriptedChannel channel;
  Session session;
};

}  // namespace dxgkit::gl
