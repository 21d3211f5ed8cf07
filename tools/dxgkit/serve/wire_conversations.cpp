// Connections that make D3DKMT calls by the protocol of src/wire. A client process has a connection
// for each of its threads, and is known by the token of the first one.
#include <fcntl.h>
#include <fmt/format.h>
#include <ntstatus.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "dxgk/core/process.h"
#include "record/session_recording.h"
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
  std::unique_ptr<record::SessionRecording> recording;  // never changes; null: there is none
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
  void record(Descriptor file, uint32_t user, int32_t process) override;
  Figures figures(std::vector<UserFigures>* users) override;

  /// The client process that a first frame names, with one connection more. Null: `status` says
  /// why.
  std::shared_ptr<Client> join(const wire::Hello& hello, uint32_t user, int32_t process,
                               int32_t* status);
  /// The client has closed one connection, whose thread may be inside a call. When it has closed
  /// them all, calls that never come back are ended.
  void hang_up(const std::shared_ptr<Client>& client);
  /// A connection is over, on its thread. The last one ends the client process.
  /// What is wrong with the recording of a client process that has ended; empty: nothing.
  std::string leave(const std::shared_ptr<Client>& client, bool was_hung_up);
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
  /// By user, as long as something counts in it.
  std::map<std::pair<uint32_t, int32_t>, wire::UniqueFd> files_
      DXGKIT_GUARDED_BY(mutex_);  // by user and process: for recordings of those to come
  std::map<uint32_t, std::shared_ptr<dxgk::ClientQuota>> users_ DXGKIT_GUARDED_BY(mutex_);
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
    if (client != nullptr) {
      const std::string cut = clients_.leave(client, was_hung_up);
      if (!cut.empty()) why += "; its recording is not whole: " + cut;
    }
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
      welcome.kernel = client->process->handles().kernel().value;
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
    session.set_answers_early(true);
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
      wire::Reply reply =
          client_->recording == nullptr
              ? session.handle(frame.bytes, std::move(frame.descriptors))
              : client_->recording->handle(session, frame.bytes, std::move(frame.descriptors));
      if (!reply.refusal.empty()) return reply.refusal;
      clients_.requests.fetch_add(1, std::memory_order_relaxed);
      clients_.bytes_in.fetch_add(bytes, std::memory_order_relaxed);
      clients_.bytes_out.fetch_add(reply.bytes.size(), std::memory_order_relaxed);
      if (!mailbox_.send(fd(), reply.bytes, std::span<const wire::UniqueFd>(reply.descriptors)))
        return "the client takes no answer";
      session.answered();
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

void Clients::record(Descriptor file, uint32_t user, int32_t process) {
  const runtime::MutexLock lock(mutex_);
  files_.insert_or_assign(std::pair(user, process),
                          wire::UniqueFd(fcntl(file.get(), F_DUPFD_CLOEXEC, 0)));
}

Figures Clients::figures(std::vector<UserFigures>* users) {
  Figures all{
      .requests = requests.load(), .bytes_in = bytes_in.load(), .bytes_out = bytes_out.load()};
  if (const auto statistics = system_.statistics(adapter_); statistics.has_value())
    all.packets = statistics->packets_completed;
  const runtime::MutexLock lock(mutex_);
  all.processes = clients_.size();
  for (const auto& client : clients_) all.handles += client->process->handles().size();
  for (const auto& [user, quota] : users_) {
    UserFigures& one = users->emplace_back();
    one = {.user = user,
           .memory_bytes = quota->memory_bytes(),
           .submissions = quota->submissions(),
           .refusals = quota->refusals()};
    for (const auto& client : clients_) {
      if (client->user == user) one.handles += client->process->handles().size();
    }
  }
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
  // What ended processes leave to others, as shared resources, counts on.
  std::erase_if(users_, [](const auto& entry) { return entry.second.use_count() == 1; });
  auto& quota = users_[user];
  if (quota == nullptr) quota = std::make_shared<dxgk::ClientQuota>(quotas_.kernel);
  client->windows = wire::make_windows(system_, *client->process, quota);
  if (const auto file = files_.extract(std::pair(user, process)); !file.empty()) {
    record::SessionRecording::watch(*client->windows);
    client->recording = std::make_unique<record::SessionRecording>(
        std::move(file.mapped()),
        record::Process{.id = static_cast<uint64_t>(process), .name = hello.name});
  }
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

std::string Clients::leave(const std::shared_ptr<Client>& client, bool was_hung_up) {
  bool ends_it = false;
  {
    const runtime::MutexLock lock(mutex_);
    --client->connections;
    if (was_hung_up) --client->hung_up;
    // Those that are left may all be inside calls.
    ends_it = client->connections == client->hung_up && !std::exchange(client->is_ending, true);
  }
  if (ends_it) system_.end_process(*client->process);
  bool is_last = false;
  {
    const runtime::MutexLock lock(mutex_);
    is_last = client->connections == 0 && std::erase(clients_, client) != 0;
  }
  return is_last && client->recording != nullptr ? client->recording->finish() : std::string();
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
