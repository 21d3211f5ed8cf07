// Connections that make D3DKMT calls by the protocol of src/wire. A client process has a connection
// for each of its threads, and is known by the token of the first one.
#include <fmt/format.h>
#include <ntstatus.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "dxgk/core/process.h"
#include "runtime/sync.h"
#include "tools/dxgkit/serve/conversations.h"
#include "wire/channel.h"
#include "wire/hello.h"
#include "wire/mailbox.h"
#include "wire/server_session.h"

namespace dxgkit::serve {
namespace {

/// A client process. Guarded by the mutex of Clients, but for what says otherwise.
struct Client {
  std::shared_ptr<dxgk::Process> process;  // never changes
  std::shared_ptr<wire::Windows> windows;  // the same
  wire::Token token{};
  uint32_t user = 0;
  int32_t number = 0;
  size_t connections = 0;
  size_t hung_up = 0;  // of these
  bool is_ending = false;
};

class Clients final : public Conversations {
 public:
  Clients(runtime::Runtime& runtime, dxgk::System& system, dxgk::Luid adapter,
          const ClientQuotas& quotas)
      : runtime_(runtime), system_(system), adapter_(adapter), quotas_(quotas) {}
  ~Clients() override {
    for (const Ender& ender : enders_) ender.thread->join();
  }

  std::unique_ptr<Conversation> begin(Descriptor socket, uint32_t user, int32_t process) override;
  Figures figures() override;

  /// The client process that a first frame names, with one connection more. Null: `status` says
  /// why.
  std::shared_ptr<Client> join(const wire::Hello& hello, uint32_t user, int32_t process,
                               int32_t* status);
  /// The client has closed one connection, whose thread may be inside a call. When it has closed
  /// them all, calls that never come back are ended.
  void hang_up(const std::shared_ptr<Client>& client);
  /// A connection is over, on its thread. The last one ends the client process.
  void leave(const std::shared_ptr<Client>& client, bool was_hung_up);
  bool is_over_quota(uint32_t user);

  runtime::Runtime& runtime() { return runtime_; }
  dxgk::System& system() { return system_; }
  const ClientQuotas& quotas() const { return quotas_; }
  std::atomic<uint64_t> requests{0}, bytes_in{0}, bytes_out{0};

 private:
  runtime::Runtime& runtime_;
  dxgk::System& system_;
  const dxgk::Luid adapter_;
  const ClientQuotas quotas_;
  runtime::Mutex mutex_;  // the kernel's locks may be taken under it
  std::vector<std::shared_ptr<Client>> clients_ DXGKIT_GUARDED_BY(mutex_);
  struct Ender {
    std::unique_ptr<runtime::Thread> thread;
    std::shared_ptr<std::atomic<bool>> is_done;
  };
  std::vector<Ender> enders_ DXGKIT_GUARDED_BY(mutex_);
  uint64_t last_token_ DXGKIT_GUARDED_BY(mutex_) = 0;
};

class Calls final : public Conversation {
 public:
  Calls(Clients& clients, Descriptor socket, uint32_t user, int32_t process)
      : clients_(clients), socket_(std::move(socket)), user_(user), process_(process) {}

  std::string talk() override {
    std::string why = greet();
    if (why.empty()) why = serve();
    std::shared_ptr<Client> client;
    bool was_hung_up = false;
    {
      const runtime::MutexLock lock(mutex_);
      client = std::exchange(client_, nullptr);
      was_hung_up = is_hung_up_;
    }
    if (client != nullptr) clients_.leave(client, was_hung_up);
    shutdown(fd(), SHUT_RDWR);
    return why;
  }

  void hang_up() override {
    std::shared_ptr<Client> client;
    {
      const runtime::MutexLock lock(mutex_);
      is_hung_up_ = true;
      client = client_;
      if (client != nullptr) clients_.hang_up(client);
    }
    shutdown(fd(), SHUT_RDWR);
  }

  int fd() const override { return socket_.get(); }

 private:
  /// Empty, or why there is nothing to serve.
  std::string greet() {
    wire::Frame frame;
    if (wire::receive_frame(fd(), &frame) != wire::Received::kFrame)
      return "the client left before its greeting";
    const auto hello = wire::decode_hello(frame.bytes);
    if (!hello.has_value()) return hello.error();
    wire::Welcome welcome;
    std::vector<wire::UniqueFd> descriptors;
    auto client = clients_.join(*hello, user_, process_, &welcome.status);
    if (client != nullptr) {
      welcome.token = client->token;
      wire::UniqueFd memory;
      mailbox_ = wire::Mailbox::make(&memory);
      if (mailbox_) descriptors.push_back(std::move(memory));
      const runtime::MutexLock lock(mutex_);
      client_ = client;
      if (is_hung_up_) clients_.hang_up(client);
    }
    if (!wire::send_frame(fd(), wire::encode(welcome),
                          std::span<const wire::UniqueFd>(descriptors)))
      return "the client takes no answer";
    return client == nullptr ? "the client names a process that is not its own" : "";
  }

  std::string serve() {
    dxgk::Process& process = *client_->process;
    wire::ServerSession session(clients_.system(), process, client_->windows);
    size_t handles = 0;
    wire::Frame frame;
    while (true) {
      switch (mailbox_.receive(fd(), &frame)) {
        case wire::Received::kFrame:
          break;
        case wire::Received::kEnd:
          return "the client closed its connection";
        case wire::Received::kBroken:
          return "the client sent no frame";
      }
      const size_t bytes = frame.bytes.size();
      wire::Reply reply = session.handle(frame.bytes, std::move(frame.descriptors));
      if (!reply.refusal.empty()) return reply.refusal;
      clients_.requests.fetch_add(1, std::memory_order_relaxed);
      clients_.bytes_in.fetch_add(bytes, std::memory_order_relaxed);
      clients_.bytes_out.fetch_add(reply.bytes.size(), std::memory_order_relaxed);
      if (!mailbox_.send(fd(), reply.bytes, std::span<const wire::UniqueFd>(reply.descriptors)))
        return "the client takes no answer";
      // Looking at all clients of the user costs, and is needed only when there is more.
      const size_t now = process.handles().size();
      if (now > std::exchange(handles, now) && clients_.is_over_quota(user_))
        return "the user has more handles than it may have";
    }
  }

  Clients& clients_;
  const Descriptor socket_;
  const uint32_t user_;
  const int32_t process_;
  wire::Mailbox mailbox_;           // of talk()
  runtime::Mutex mutex_;            // before that of Clients
  std::shared_ptr<Client> client_;  // written by talk() only, under the mutex
  bool is_hung_up_ DXGKIT_GUARDED_BY(mutex_) = false;
};

std::unique_ptr<Conversation> Clients::begin(Descriptor socket, uint32_t user, int32_t process) {
  return std::make_unique<Calls>(*this, std::move(socket), user, process);
}

Figures Clients::figures() {
  Figures all{
      .requests = requests.load(), .bytes_in = bytes_in.load(), .bytes_out = bytes_out.load()};
  if (const auto statistics = system_.statistics(adapter_); statistics.has_value())
    all.packets = statistics->packets_completed;
  const runtime::MutexLock lock(mutex_);
  all.processes = clients_.size();
  for (const auto& client : clients_) all.handles += client->process->handles().size();
  return all;
}

std::shared_ptr<Client> Clients::join(const wire::Hello& hello, uint32_t user, int32_t process,
                                      int32_t* status) {
  *status = STATUS_SUCCESS;
  const runtime::MutexLock lock(mutex_);
  if (hello.token != wire::Token{}) {
    for (const auto& client : clients_) {
      // Somebody else's token is of no use.
      if (client->token != hello.token || client->user != user || client->number != process ||
          client->is_ending)
        continue;
      ++client->connections;
      return client;
    }
    *status = STATUS_PROCESS_IS_TERMINATING;
    return nullptr;
  }
  auto client = std::make_shared<Client>();
  client->process = system_.create_process(hello.name).shared_from_this();
  client->windows = wire::make_windows(system_, *client->process);
  client->user = user;
  client->number = process;
  client->connections = 1;
  const uint64_t number[] = {++last_token_, runtime_.random()};
  static_assert(sizeof number == sizeof client->token);
  std::memcpy(client->token.data(), number, sizeof number);
  clients_.push_back(client);
  return client;
}

void Clients::hang_up(const std::shared_ptr<Client>& client) {
  const runtime::MutexLock lock(mutex_);
  if (++client->hung_up != client->connections || client->is_ending) return;
  client->is_ending = true;
  // It waits for the client's work, and somebody has to listen to the broker meanwhile.
  std::erase_if(enders_, [](const Ender& ender) {
    if (!ender.is_done->load()) return false;
    ender.thread->join();
    return true;
  });
  const auto is_done = std::make_shared<std::atomic<bool>>(false);
  auto thread = runtime_.spawn("end of a client", [this, client, is_done] {
    system_.end_process(*client->process);
    is_done->store(true);
  });
  enders_.push_back({.thread = std::move(thread), .is_done = is_done});
}

void Clients::leave(const std::shared_ptr<Client>& client, bool was_hung_up) {
  bool ends_it = false;
  {
    const runtime::MutexLock lock(mutex_);
    --client->connections;
    if (was_hung_up) --client->hung_up;
    // Those that are left may all be inside calls.
    ends_it = client->connections == client->hung_up && !std::exchange(client->is_ending, true);
  }
  if (ends_it) system_.end_process(*client->process);
  const runtime::MutexLock lock(mutex_);
  if (client->connections == 0) std::erase(clients_, client);
}

bool Clients::is_over_quota(uint32_t user) {
  if (quotas_.handles_most == 0) return false;
  uint64_t handles = 0;
  const runtime::MutexLock lock(mutex_);
  for (const auto& client : clients_) {
    if (client->user == user) handles += client->process->handles().size();
  }
  return handles > quotas_.handles_most;
}

}  // namespace

std::unique_ptr<Conversations> make_conversations(runtime::Runtime& runtime, dxgk::System& system,
                                                  dxgk::Luid adapter, const ClientQuotas& quotas) {
  return std::make_unique<Clients>(runtime, system, adapter, quotas);
}

}  // namespace dxgkit::serve
