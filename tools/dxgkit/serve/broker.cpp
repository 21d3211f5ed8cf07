#include "tools/dxgkit/serve/broker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <ntstatus.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/spelling.h"
#include "runtime/descriptors.h"
#include "tools/dxgkit/serve/supply.h"

namespace dxgkit::serve {
namespace {

using runtime::TimeNs;

/// How soon the broker looks again at a connection that has sent a part of its first bytes, and at
/// a listener for which it has no descriptor left.
constexpr runtime::DurationNs kPause = 50 * runtime::kMillisecond;
/// How long an adapter process waits for a client that takes no answer.
constexpr time_t kReaderSeconds = 10;
/// Messages of one adapter process that are read before others have their turn.
constexpr int kMessagesInTurn = 64;

/// The threads of an adapter process wait inside their reads and writes. They cannot set options of
/// a socket themselves.
void prepare_for_adapter(int socket) {
  const timeval patience{.tv_sec = kReaderSeconds, .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    const auto code = static_cast<unsigned char>(c);
    if ((code < 0x20 && c != '\n') || code == 0x7F) c = '?';
  }
  return out;
}

Broker::Broker(runtime::Runtime& runtime, int listener, BrokerWorld& world,
               std::vector<std::string> adapters, BrokerOptions options)
    : runtime_(runtime), listener_(listener), world_(world), options_(std::move(options)) {
  DXGKIT_CHECK(adapters.size() <= kAdaptersMost);
  adapters_.resize(adapters.size());
  for (size_t i = 0; i < adapters.size(); ++i) adapters_[i].name = std::move(adapters[i]);
}

Broker::~Broker() {
  for (const Adapter& adapter : adapters_) {
    if (adapter.state != State::kDown) world_.kill(adapter.process);
  }
}

size_t Broker::alive() const {
  return static_cast<size_t>(std::ranges::count_if(
      adapters_, [](const Adapter& adapter) { return adapter.state != State::kDown; }));
}

void Broker::start() {
  for (Adapter& adapter : adapters_) start(adapter);
}

// --- adapter processes

void Broker::start(Adapter& adapter) {
  adapter.luid = ++last_luid_;
  adapter.why_not.clear();
  adapter.figures = {};
  adapter.users.clear();
  adapter.report = {};
  adapter.report.luid = adapter.luid;
  auto started = world_.start(index_of(adapter), adapter.luid);
  if (!started.has_value()) {
    adapter.state = State::kDown;
    world_.say(fmt::format("{}: its process does not start: {}", adapter.name, started.error()));
    return;
  }
  adapter.state = State::kStarting;
  adapter.process = adapter.report.process = started->process;
  adapter.control = std::move(started->control);
  adapter.supply = std::move(started->supply);
  adapter.ended = std::move(started->ended);
  adapter.errors = std::move(started->errors);
  adapter.started_at = runtime_.now();
}

void Broker::listen(Adapter& adapter) {
  for (int i = 0; i < kMessagesInTurn; ++i) {
    ControlReceived received;
    switch (receive_control(adapter.control.get(), &received)) {
      case ControlState::kNothing:
        return;
      case ControlState::kEnded:
        // It ends. If it was ending by itself, the signal comes too late to be the reason.
        return kill(adapter, "");
      case ControlState::kNonsense:
        return kill(adapter, "it sent nonsense");
      case ControlState::kMessage:
        take(adapter, received);
        break;
    }
    if (!adapter.control) return;  // it was killed
  }
}

void Broker::take(Adapter& adapter, const ControlReceived& received) {
  const ControlMessage& message = received.message;
  switch (message.kind) {
    case Control::kReady:
      if (adapter.state != State::kStarting) return kill(adapter, "it sent nonsense");
      adapter.state = State::kRunning;
      world_.say(fmt::format("{}: it runs, LUID {}, process {}", adapter.name, adapter.luid,
                             adapter.process));
      return;
    case Control::kFailed:
      adapter.why_not = printable(received.text);
      return;
    case Control::kFinding: {
      AdapterReport& report = adapter.report;
      if (report.findings.size() >= kFindingsMost) {
        ++report.findings_lost;
        return;
      }
      report.findings.push_back(printable(received.text));
      world_.say(fmt::format("{}: {}", adapter.name, report.findings.back()));
      return;
    }
    case Control::kClosed: {
      const auto found = connections_.find(message.connection);
      // One adapter cannot end what another one has.
      if (found == connections_.end() || found->second.adapter != index_of(adapter))
        return kill(adapter, "it sent nonsense");
      forget(message.connection);
      return;
    }
    case Control::kFigures:
      if (message.connection > adapter.asked) return kill(adapter, "it sent nonsense");
      adapter.answered = std::max(adapter.answered, message.connection);
      if (received.text.size() % sizeof(UserFigures) != 0) return kill(adapter, "it sent nonsense");
      adapter.figures = message.figures;
      adapter.users.resize(received.text.size() / sizeof(UserFigures));
      if (!adapter.users.empty())
        std::memcpy(adapter.users.data(), received.text.data(), received.text.size());
      return;
    case Control::kConnection:
    case Control::kRecording:
    case Control::kQuery:
    case Control::kEnd:
      break;
  }
  kill(adapter, "it sent nonsense");
}

void Broker::supply(Adapter& adapter) {
  for (int i = 0; i < kMessagesInTurn; ++i) {
    switch (answer_supply(adapter.supply.get(), options_.object_bytes_most)) {
      case SupplyState::kAnswered:
        break;
      case SupplyState::kNothing:
        return;
      case SupplyState::kEnded:
        adapter.supply = Descriptor();
        return;
      case SupplyState::kNonsense:
        return kill(adapter, "it sent nonsense");
    }
  }
}

void Broker::read_errors(Adapter& adapter) {
  char bytes[4096];
  const ssize_t got = ::read(adapter.errors.get(), bytes, sizeof bytes);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    adapter.errors = Descriptor();
    return;
  }
  std::string& kept = adapter.report.errors;
  kept += printable({bytes, static_cast<size_t>(got)});
  if (kept.size() > kErrorBytesMost) kept.erase(0, kept.size() - kErrorBytesMost);
}

void Broker::kill(Adapter& adapter, const std::string& why) {
  if (adapter.state == State::kKilled || adapter.state == State::kDown) return;
  adapter.report.how = why;
  adapter.state = State::kKilled;
  adapter.control = Descriptor();
  adapter.supply = Descriptor();
  world_.kill(adapter.process);
  drop_connections_of(index_of(adapter));
}

void Broker::bury(Adapter& adapter) {
  // What it said last.
  if (adapter.control) listen(adapter);
  for (int i = 0; i < 16 && adapter.errors; ++i) {
    runtime::DescriptorWait wait{.fd = adapter.errors.get()};
    if (!runtime::wait_for_descriptors(runtime_, {&wait, 1}, runtime_.now())) break;
    read_errors(adapter);
  }
  const std::string how = world_.how_ended(adapter.process);
  AdapterReport& report = adapter.report;
  if (report.how.empty()) report.how = adapter.why_not.empty() ? how : adapter.why_not;
  report.lived_ns = runtime_.now() - adapter.started_at;
  drop_connections_of(index_of(adapter));
  adapter.control = Descriptor();
  adapter.supply = Descriptor();
  adapter.ended = Descriptor();
  adapter.errors = Descriptor();
  adapter.state = State::kDown;
  world_.say(fmt::format("{}: its process has ended: {}", adapter.name, report.how));
  adapter.reports.push_back(std::move(report));
  if (adapter.reports.size() > kReportsMost) adapter.reports.pop_front();
  if (is_ending_) return;
  adapter.ends.push_back(runtime_.now());
  while (!adapter.ends.empty() &&
         adapter.ends.front() + options_.restarts_within_ns <= runtime_.now())
    adapter.ends.pop_front();
  if (adapter.ends.size() > options_.restarts_most) {
    world_.say(fmt::format("{}: it is not started again: it ended {} in {} s", adapter.name,
                           counted(adapter.ends.size(), "time"),
                           options_.restarts_within_ns / runtime::kSecond));
    return;
  }
  ++adapter.restarts;
  start(adapter);
}

void Broker::drop_connections_of(size_t adapter) {
  for (auto it = connections_.begin(); it != connections_.end();) {
    const uint64_t id = it->first;
    const bool is_of_it = it->second.adapter == adapter;
    ++it;
    if (is_of_it) forget(id);
  }
}

void Broker::forget(uint64_t connection) {
  const auto found = connections_.find(connection);
  User& user = users_[found->second.user];
  --user.connections;
  const auto process = user.processes.find(found->second.process);
  if (--process->second == 0) user.processes.erase(process);
  // Users come and go; what was refused is worth remembering only as long as somebody is there.
  if (user.connections == 0) users_.erase(found->second.user);
  connections_.erase(found);
}

// --- clients

bool Broker::may_enter(const Peer& peer) const {
  if (std::ranges::find(options_.users, peer.user) != options_.users.end()) return true;
  return std::ranges::any_of(options_.groups, [&](uint32_t group) {
    return group == peer.group || std::ranges::find(peer.groups, group) != peer.groups.end();
  });
}

void Broker::accept_all() {
  while (guests_.size() < kGuestsMost) {
    Descriptor socket(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) accept_not_before_ = runtime_.now() + kPause;
      return;
    }
    std::optional<Peer> peer = world_.peer_of(socket.get());
    const auto of_user = [&] {
      return std::ranges::count_if(
          guests_, [&](const auto& guest) { return guest->peer.user == peer->user; });
    };
    if (!peer.has_value() || !may_enter(*peer) ||
        of_user() >= static_cast<ptrdiff_t>(kGuestsOfUserMost)) {
      ++refused_;
      continue;  // closes it
    }
    auto guest = std::make_unique<Guest>();
    guest->socket = std::move(socket);
    guest->peer = std::move(*peer);
    guest->deadline = runtime_.now() + options_.greeting_ns;
    guests_.push_back(std::move(guest));
  }
}

void Broker::talk(Guest& guest) {
  Greeting hello;
  guest.not_before = 0;
  const ssize_t got = recv(guest.socket.get(), &hello, sizeof hello, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got <= 0) {
    guest.is_over = true;
    return;
  }
  const auto bytes = static_cast<size_t>(got);
  const size_t compared = std::min(bytes, sizeof hello.magic);
  if (std::memcmp(&hello.magic, &kGreetingMagic, compared) != 0) {
    // A client that speaks the adapter's protocol at once. Its bytes stay in the socket.
    guest.state = Guest::State::kAdapter;
    guest.knows_adapter = false;
    guest.deadline = runtime_.now() + options_.start_ns;
    return hand_over(guest);
  }
  if (bytes < sizeof hello) {
    guest.not_before = runtime_.now() + kPause;
    return;
  }
  // The same bytes again, this time for good. Descriptors that came with them are closed.
  if (recv(guest.socket.get(), &hello, sizeof hello, MSG_DONTWAIT) != ssize_t{sizeof hello}) {
    guest.is_over = true;
    return;
  }
  if (hello.version != kGreetingVersion) return answer(guest, STATUS_REVISION_MISMATCH);
  switch (hello.ask) {
    case Ask::kAdapters:
      return answer_adapters(guest);
    case Ask::kStatus:
      return ask_figures(guest);
    case Ask::kOpen:
      guest.state = Guest::State::kAdapter;
      guest.knows_adapter = true;
      guest.luid = hello.luid_low;
      if (hello.luid_high != 0) return answer(guest, STATUS_INVALID_PARAMETER);
      return hand_over(guest);
  }
  answer(guest, STATUS_INVALID_PARAMETER);
}

void Broker::answer(Guest& guest, int32_t status, const std::string& rest) {
  const Greeted welcome{.status = status, .bytes = static_cast<uint32_t>(rest.size())};
  guest.answer.assign(reinterpret_cast<const char*>(&welcome), sizeof welcome);
  guest.answer += rest;
  guest.state = Guest::State::kAnswer;
  guest.deadline = runtime_.now() + options_.greeting_ns;
  write(guest);
}

void Broker::write(Guest& guest) {
  while (!guest.answer.empty()) {
    const ssize_t sent = send(guest.socket.get(), guest.answer.data(), guest.answer.size(),
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent <= 0) break;
    guest.answer.erase(0, static_cast<size_t>(sent));
  }
  guest.is_over = true;
}

void Broker::answer_adapters(Guest& guest) {
  std::string lines;
  for (const Adapter& adapter : adapters_) {
    if (adapter.state == State::kStarting) {
      // It may be there soon.
      guest.state = Guest::State::kAdapter;
      guest.asked = 1;
      guest.deadline = runtime_.now() + options_.start_ns;
      return;
    }
    if (adapter.state != State::kRunning) continue;
    const AdapterLine line{.luid_low = adapter.luid};
    lines.append(reinterpret_cast<const char*>(&line), sizeof line);
  }
  const Greeted welcome{.bytes = static_cast<uint32_t>(lines.size())};
  std::string all(reinterpret_cast<const char*>(&welcome), sizeof welcome);
  all += lines;
  // It is the first that this socket has to hold, so there is room; a client that asks again and
  // again without reading is dropped.
  if (send(guest.socket.get(), all.data(), all.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
      static_cast<ssize_t>(all.size())) {
    guest.is_over = true;
    return;
  }
  guest.state = Guest::State::kHello;
  guest.asked = 0;
}

void Broker::hand_over(Guest& guest) {
  if (guest.asked != 0) return answer_adapters(guest);  // it waits for a list
  Adapter* chosen = nullptr;
  bool may_come = false;
  for (Adapter& adapter : adapters_) {
    if (guest.knows_adapter && adapter.luid != guest.luid) continue;
    may_come |= adapter.state == State::kStarting;
    if (adapter.state == State::kRunning && chosen == nullptr) chosen = &adapter;
  }
  if (chosen == nullptr) {
    if (may_come) return;  // later
    if (guest.knows_adapter) return answer(guest, STATUS_DEVICE_REMOVED);
    guest.is_over = true;
    return;
  }
  User& user = users_[guest.peer.user];
  const auto process = user.processes.find(guest.peer.process);
  const bool is_full =
      user.connections >= options_.connections_most ||
      (process == user.processes.end() && user.processes.size() >= options_.processes_most);
  if (is_full) {
    ++user.refused;
    if (user.connections == 0) users_.erase(guest.peer.user);
    if (guest.knows_adapter) return answer(guest, STATUS_QUOTA_EXCEEDED);
    guest.is_over = true;
    return;
  }
  guest.is_over = true;  // from here on the adapter's, or nobody's
  prepare_for_adapter(guest.socket.get());
  const Greeted welcome;
  bool is_sent = !guest.knows_adapter ||
                 send(guest.socket.get(), &welcome, sizeof welcome, MSG_DONTWAIT | MSG_NOSIGNAL) ==
                     ssize_t{sizeof welcome};
  const uint64_t id = ++last_connection_;
  ControlMessage message;
  message.kind = Control::kConnection;
  message.connection = id;
  message.user = guest.peer.user;
  message.process = guest.peer.process;
  if (is_sent) record(*chosen, guest.peer);
  is_sent = is_sent && send_control(chosen->control.get(), message, {}, guest.socket.get());
  if (!is_sent) {
    if (user.connections == 0) users_.erase(guest.peer.user);
    return;
  }
  ++user.connections;
  ++user.processes[guest.peer.process];
  connections_[id] = {
      .adapter = index_of(*chosen), .user = guest.peer.user, .process = guest.peer.process};
}

void Broker::record(const Adapter& adapter, const Peer& peer) {
  if (options_.recordings.empty() || recordings_ > options_.recordings_most) return;
  const bool is_known = std::ranges::any_of(connections_, [&](const auto& entry) {
    return entry.second.adapter == index_of(adapter) && entry.second.process == peer.process;
  });
  if (is_known) return;
  if (++recordings_ > options_.recordings_most) {
    world_.say(fmt::format("process {} is not recorded, nor any later one: there are {}",
                           peer.process, counted(options_.recordings_most, "recording")));
    return;
  }
  const auto file =
      world_.make_recording(options_.recordings, fmt::format("{}-{}", peer.process, adapter.luid));
  if (!file.has_value()) {
    world_.say(fmt::format("process {} is not recorded: {}", peer.process, file.error()));
    return;
  }
  ControlMessage message;
  message.kind = Control::kRecording;
  message.user = peer.user;
  message.process = peer.process;
  static_cast<void>(send_control(adapter.control.get(), message, {}, file->get()));
}

void Broker::ask_figures(Guest& guest) {
  guest.asked = ++last_query_;
  guest.state = Guest::State::kFigures;
  guest.deadline = runtime_.now() + options_.figures_ns;
  for (Adapter& adapter : adapters_) {
    if (adapter.state != State::kRunning) continue;
    ControlMessage query;
    query.kind = Control::kQuery;
    query.connection = guest.asked;
    if (send_control(adapter.control.get(), query)) adapter.asked = guest.asked;
  }
}

bool Broker::has_figures(const Guest& guest) const {
  return std::ranges::all_of(adapters_, [&](const Adapter& adapter) {
    return adapter.state != State::kRunning || adapter.asked < guest.asked ||
           adapter.answered >= guest.asked;
  });
}

// --- the loop

void Broker::step(int stop, TimeNs deadline) {
  std::vector<runtime::DescriptorWait> waits;
  const auto wait_for = [&](int fd, bool input = true, bool output = false) {
    waits.push_back({.fd = fd, .input = input, .output = output});
  };
  const TimeNs now = runtime_.now();
  wait_for(stop);
  const bool takes_more = guests_.size() < kGuestsMost && accept_not_before_ <= now && !is_ending_;
  if (accept_not_before_ > now) deadline = std::min(deadline, accept_not_before_);
  wait_for(takes_more ? listener_ : -1);
  for (const Adapter& adapter : adapters_) {
    wait_for(adapter.control.get());
    wait_for(adapter.ended.get());
    wait_for(adapter.errors.get());
    wait_for(adapter.supply.get());
    if (adapter.state == State::kStarting)
      deadline = std::min(deadline, adapter.started_at + options_.start_ns);
  }
  const size_t guests_at = waits.size();
  for (const auto& guest : guests_) {
    const bool reads = guest->state == Guest::State::kHello && guest->not_before <= now;
    wait_for(guest->socket.get(), reads, guest->state == Guest::State::kAnswer);
    deadline = std::min(deadline, guest->deadline);
    if (guest->not_before > now) deadline = std::min(deadline, guest->not_before);
  }
  runtime::wait_for_descriptors(runtime_, waits, deadline);

  // Guests first: they are those of `waits`.
  for (size_t i = 0; i < guests_.size(); ++i) {
    Guest& guest = *guests_[i];
    const runtime::DescriptorWait& wait = waits[guests_at + i];
    if (guest.state == Guest::State::kHello && (wait.ready || guest.not_before != 0))
      talk(guest);
    else if (guest.state == Guest::State::kAnswer && wait.ready)
      write(guest);
    else if (wait.ended)
      guest.is_over = true;
  }
  if (waits[1].ready) accept_all();
  for (size_t i = 0; i < adapters_.size(); ++i) {
    Adapter& adapter = adapters_[i];
    const size_t at = 2 + 4 * i;
    if (waits[at].ready && adapter.control) listen(adapter);
    if (waits[at + 3].ready && adapter.supply) supply(adapter);
    if (waits[at + 2].ready && adapter.errors) read_errors(adapter);
    if (waits[at + 1].ready) bury(adapter);
    if (adapter.state == State::kStarting &&
        adapter.started_at + options_.start_ns <= runtime_.now())
      kill(adapter, "it did not get ready in time");
  }
  for (const auto& guest : guests_) {
    if (guest->is_over) continue;
    const bool is_late = guest->deadline <= runtime_.now();
    if (guest->state == Guest::State::kAdapter) hand_over(*guest);
    if (guest->state == Guest::State::kFigures && (is_late || has_figures(*guest)))
      answer(*guest, STATUS_SUCCESS, status_text(guest->peer));
    else if (is_late)
      guest->is_over = true;
  }
  std::erase_if(guests_, [](const auto& guest) { return guest->is_over; });
}

void Broker::end(runtime::DurationNs patience) {
  is_ending_ = true;
  guests_.clear();
  for (Adapter& adapter : adapters_) {
    if (adapter.state != State::kRunning && adapter.state != State::kStarting) continue;
    ControlMessage message;
    message.kind = Control::kEnd;
    if (!send_control(adapter.control.get(), message)) kill(adapter, "it took no message");
  }
  const TimeNs deadline = runtime_.now() + patience;
  while (alive() > 0 && runtime_.now() < deadline) step(-1, deadline);
  for (Adapter& adapter : adapters_) kill(adapter, "it did not end in time");
  // A killed process is gone soon; if not, the system has lost it.
  const TimeNs last = runtime_.now() + patience;
  while (alive() > 0 && runtime_.now() < last) step(-1, last);
}

}  // namespace dxgkit::serve
