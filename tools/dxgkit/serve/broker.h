// The broker: who may come, to which adapter process a connection goes, and what becomes of adapter
// processes that end.
//
// One thread, which never waits for a client or an adapter process. It reads nothing of a
// connection that has gone to an adapter, so it cannot be confused by it. Everything that a client
// or an adapter process sends is taken for hostile.
#pragma once

#include <cstdint>
#include <deque>
#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/runtime.h"
#include "tools/dxgkit/serve/control.h"
#include "wire/greeting.h"

namespace dxgkit::serve {

using wire::AdapterLine;
using wire::Ask;
using wire::Greeted;
using wire::Greeting;
using wire::kGreetingMagic;
using wire::kGreetingVersion;

/// The process at the other end of a connection, as the system says.
struct Peer {
  uint32_t user = 0, group = 0;
  int32_t process = 0;
  std::vector<uint32_t> groups;  // beside `group`
};

/// What the broker asks of the system.
class BrokerWorld {
 public:
  virtual ~BrokerWorld() = default;

  struct Started {
    Descriptor control;  // SOCK_SEQPACKET
    Descriptor supply;   // SOCK_SEQPACKET, for new descriptors; may be none
    Descriptor ended;    // readable once the process has ended
    Descriptor errors;   // what it writes to standard error; may be none
    int32_t process = 0;
  };
  /// Starts the process of an adapter. The error is one sentence.
  virtual std::expected<Started, std::string> start(size_t adapter, uint32_t luid) = 0;
  virtual void kill(int32_t process) = 0;
  /// How a process has ended whose `ended` is readable: "it ended by signal 11". Once.
  virtual std::string how_ended(int32_t process) = 0;
  /// No value: the system does not say.
  virtual std::optional<Peer> peer_of(int socket) = 0;
  /// Resident bytes of a process; 0: unknown.
  virtual uint64_t memory_of(int32_t process) = 0;
  /// A new file `FOLDER/NAME.dxgk`, or with a number behind the name. The error is one sentence.
  virtual std::expected<Descriptor, std::string> make_recording(const std::string& folder,
                                                                const std::string& name) = 0;
  /// A line for people.
  virtual void say(const std::string& line) = 0;
};

struct BrokerOptions {
  /// Who may connect. The first user is the broker's own; it sees all of the status.
  std::vector<uint32_t> users, groups;
  // Quotas of one user.
  uint32_t connections_most = 256;
  uint32_t processes_most = 32;
  uint64_t object_bytes_most = uint64_t{1} << 30;  // one memory object of an adapter process
  /// What the adapter processes count; shown only.
  struct Limits {
    uint64_t handles = 0, memory_bytes = 0, submissions = 0;
  };
  Limits limits = {};
  /// Where the calls of each client process of each adapter are kept; empty: nowhere. The most
  /// files of one life of the broker.
  std::string recordings;
  uint32_t recordings_most = 1000;
  // An adapter that ended is started again so often within this time, and then no more.
  uint32_t restarts_most = 5;
  runtime::DurationNs restarts_within_ns = 60 * runtime::kSecond;
  runtime::DurationNs greeting_ns = 5 * runtime::kSecond;  // for Hello, and to take an answer
  runtime::DurationNs start_ns = 60 * runtime::kSecond;    // for an adapter to get ready
  runtime::DurationNs figures_ns = runtime::kSecond / 2;   // for figures of the status
};

/// The end of one adapter process.
struct AdapterReport {
  uint32_t luid = 0;
  int32_t process = 0;
  runtime::DurationNs lived_ns = 0;
  std::string how;
  std::vector<std::string> findings;  // the first ones
  uint64_t findings_lost = 0;         // beyond those
  std::string errors;                 // the end of its standard error, printable
};

class Broker {
 public:
  /// @param listener  a listening stream socket that does not block; the caller's
  /// @param adapters  names of the adapters, for people
  Broker(runtime::Runtime& runtime, int listener, BrokerWorld& world,
         std::vector<std::string> adapters, BrokerOptions options);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  /// Starts the adapters' processes.
  void start();
  /// Waits until something happens, `stop` is readable (-1: never) or `deadline` has passed, and
  /// does all that is to be done. Never waits for anything else.
  void step(int stop = -1, runtime::TimeNs deadline = runtime::kForever);
  /// Takes no more connections, asks the adapters to end, and kills those that have not after
  /// `patience`.
  void end(runtime::DurationNs patience);

  enum class State { kStarting, kRunning, kKilled, kDown };
  State state(size_t adapter) const { return adapters_[adapter].state; }
  /// Adapters that run, or may still.
  size_t alive() const;
  const std::deque<AdapterReport>& reports(size_t adapter) const {
    return adapters_[adapter].reports;
  }
  /// Connections that adapters have.
  size_t connections() const { return connections_.size(); }
  /// Connections that have no adapter yet.
  size_t greeting() const { return guests_.size(); }

  static constexpr size_t kReportsMost = 8, kFindingsMost = 32, kErrorBytesMost = 4096;
  static constexpr size_t kGuestsMost = 64, kGuestsOfUserMost = 16;
  static constexpr size_t kAdaptersMost = 16;

 private:
  struct Adapter {
    std::string name;
    State state = State::kDown;
    uint32_t luid = 0;
    int32_t process = 0;
    Descriptor control, supply, ended, errors;
    runtime::TimeNs started_at = 0;
    std::string why_not;  // it says why it does not start
    std::deque<runtime::TimeNs> ends;
    uint64_t restarts = 0;
    AdapterReport report;  // of the process that lives
    std::deque<AdapterReport> reports;
    Figures figures;
    std::vector<UserFigures> users;
    uint64_t asked = 0, answered = 0;
  };
  /// A connection before it goes to an adapter.
  struct Guest {
    Descriptor socket;
    Peer peer;
    runtime::TimeNs deadline = 0;
    enum class State { kHello, kAdapter, kFigures, kAnswer } state = State::kHello;
    runtime::TimeNs not_before = 0;  // part of a Greeting is there: when to look again
    bool knows_adapter = false;      // kAdapter: it asked for `luid`
    uint32_t luid = 0;
    uint64_t asked = 0;  // kFigures
    std::string answer;  // kAnswer: what is left
    bool is_over = false;
  };
  struct Connection {
    size_t adapter = 0;
    uint32_t user = 0;
    int32_t process = 0;
  };
  struct User {
    uint32_t connections = 0;
    std::map<int32_t, uint32_t> processes;  // connections of each
    uint64_t refused = 0;
  };

  void start(Adapter& adapter);
  void listen(Adapter& adapter);
  void take(Adapter& adapter, const ControlReceived& received);
  void supply(Adapter& adapter);
  void read_errors(Adapter& adapter);
  void kill(Adapter& adapter, const std::string& why);
  void bury(Adapter& adapter);
  void drop_connections_of(size_t adapter);
  void forget(uint64_t connection);

  void accept_all();
  bool may_enter(const Peer& peer) const;
  void talk(Guest& guest);
  void answer_adapters(Guest& guest);
  void ask_figures(Guest& guest);
  void hand_over(Guest& guest);
  /// The first connection of a process to an adapter: gives the adapter a file for its calls.
  void record(const Adapter& adapter, const Peer& peer);
  void write(Guest& guest);
  void answer(Guest& guest, int32_t status, const std::string& rest = {});
  bool has_figures(const Guest& guest) const;
  std::string status_text(const Peer& peer) const;
  size_t index_of(const Adapter& adapter) const {
    return static_cast<size_t>(&adapter - adapters_.data());
  }

  runtime::Runtime& runtime_;
  const int listener_;
  BrokerWorld& world_;
  const BrokerOptions options_;
  std::vector<Adapter> adapters_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::map<uint64_t, Connection> connections_;
  std::map<uint32_t, User> users_;
  uint64_t last_connection_ = 0, last_query_ = 0;
  uint32_t last_luid_ = 0;
  uint32_t recordings_ = 0;
  uint64_t refused_ = 0;                   // connections of users who may not come
  runtime::TimeNs accept_not_before_ = 0;  // the system had no descriptor left
  bool is_ending_ = false;
};

/// Control characters but line breaks become question marks.
std::string printable(std::string_view text);

}  // namespace dxgkit::serve
