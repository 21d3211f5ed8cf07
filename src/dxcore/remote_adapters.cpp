#include "dxcore/remote_adapters.h"

#include <fmt/format.h>
#include <ntstatus.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "arguments/table.h"
#include "base/guarded_copy.h"
#include "wire/walk.h"

namespace dxgkit::dxcore {
namespace {

using wire::ClientConnection;

/// What a thread has.
struct Mine {
  RemoteAdapters* adapters = nullptr;
  std::vector<std::pair<const RemoteAdapter*, std::unique_ptr<Connected>>> connections;
};
thread_local Mine t_mine;

/// The thread's connection. Null: the adapter is gone, or takes no more.
ClientConnection* connection_of_this_thread(const RemoteAdapter& adapter) {
  RemoteAdapters& adapters = RemoteAdapters::of_this_process();
  if (t_mine.adapters != &adapters) {
    t_mine.connections.clear();
    t_mine.adapters = &adapters;
  }
  std::erase_if(t_mine.connections,
                [&](const auto& one) { return one.first != &adapter && one.first->lost(); });
  for (const auto& [of, connected] : t_mine.connections) {
    if (of == &adapter) return &connected->connection();
  }
  if (adapter.lost()) return nullptr;
  auto made = adapter.connect();
  if (!made.has_value()) return nullptr;
  auto connected = std::make_unique<Connected>(std::move(*made));
  return &t_mine.connections.emplace_back(&adapter, std::move(connected)).second->connection();
}

/// What the arguments of a call name first.
struct Target {
  std::optional<uint32_t> handle;
  std::optional<wire::AdapterLine> luid;
};

Target target_in(std::span<const arguments::Named> named, const std::byte* structure) {
  Target target;
  for (const arguments::Named& one : named) {
    const uint64_t value = wire::number_at(structure, one.place);
    if (one.names == arguments::Names::kHandle && value != 0 && !target.handle.has_value())
      target.handle = static_cast<uint32_t>(value);
    if (one.names == arguments::Names::kLuid && !target.luid.has_value())
      target.luid = wire::AdapterLine{.luid_low = static_cast<uint32_t>(value),
                                      .luid_high = static_cast<int32_t>(value >> 32)};
  }
  return target;
}

/// The caller's memory may change, and may be no memory. The kernel looks at what it gets: a wrong
/// guess here is a handle that it does not know.
Target target_of(uint32_t number, const void* arguments) {
  const arguments::Function& function = arguments::functions()[number];
  const arguments::Structure& structure = arguments::structure_at(function.structure);
  const auto copy = std::make_unique<std::byte[]>(structure.bytes);
  if (structure.bytes == 0 || !guarded_copy(copy.get(), arguments, structure.bytes)) return {};
  const Target target = target_in(arguments::named(function.named), copy.get());
  if (target.handle.has_value() || target.luid.has_value()) return target;
  for (const arguments::Field& field : structure.fields) {
    if (field.kind != arguments::Kind::kBlock || field.named < 0) continue;
    const auto* const block =
        reinterpret_cast<const void*>(wire::slot_at(copy.get(), field.offset));
    const auto bytes = wire::block_bytes(field, copy.get());
    if (block == nullptr || !bytes.has_value() || *bytes < field.element_bytes) continue;
    const auto element = std::make_unique<std::byte[]>(field.element_bytes);
    if (!guarded_copy(element.get(), block, field.element_bytes)) continue;
    const Target inner = target_in(arguments::named(field.named), element.get());
    if (inner.handle.has_value() || inner.luid.has_value()) return inner;
  }
  return {};
}

}  // namespace

// --- one adapter

std::expected<std::unique_ptr<RemoteAdapter>, std::string> RemoteAdapter::make(
    const wire::AdapterLine& line) {
  std::unique_ptr<RemoteAdapter> made(new RemoteAdapter(line));
  // The connection gives the process its token. Threads make their own ones afterwards.
  auto first = made->connect();
  if (!first.has_value()) return std::unexpected(first.error());
  if (first->kernel() >= RemoteAdapters::kMost)
    return std::unexpected("the server has more adapters than this library knows");
  made->token_ = first->token();
  made->first_ = std::make_unique<Connected>(std::move(*first));
  return made;
}

std::expected<ClientConnection, std::string> RemoteAdapter::connect() const {
  auto socket = open_adapter(line_);
  if (!socket.has_value()) return std::unexpected(socket.error());
  return ClientConnection::greet(std::move(*socket),
                                 {.token = token_, .name = program_invocation_short_name});
}

int64_t RemoteAdapter::call(uint32_t function, void* arguments) {
  ClientConnection* const connection = connection_of_this_thread(*this);
  if (connection == nullptr) return NTSTATUS{STATUS_DEVICE_REMOVED};
  const int64_t result = connection->call(memory_, function, arguments);
  if (connection->is_lost()) lost_.store(true);
  return result;
}

// --- all of them

std::atomic<RemoteAdapters*> RemoteAdapters::current_{nullptr};
std::atomic<uint64_t> RemoteAdapters::made_{0};

RemoteAdapters& RemoteAdapters::of_this_process() {
  RemoteAdapters* adapters = current_.load();
  if (adapters == nullptr) {
    auto* const mine = new RemoteAdapters;  // lives as long as the process, which may call any time
    if (current_.compare_exchange_strong(adapters, mine)) {
      mine->begin();
      return *mine;
    }
    delete mine;
  }
  adapters->begun_.wait();
  return *adapters;
}

void RemoteAdapters::begin() {
  static std::atomic<bool> registered{false};
  if (!registered.exchange(true)) {
    // The parent's connections are none of the child's.
    runtime::when_forked([] {
      current_.store(nullptr);
      close_connections_of_parent();
    });
  }
  const auto opened = open_new_ones();
  if (!connected()) {
    const std::string line = fmt::format("dxgkit: no server: {}\n", opened.error());
    static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
  }
  begun_.set();
}

std::expected<void, std::string> RemoteAdapters::open_new_ones() {
  const auto lines = list_adapters();
  if (!lines.has_value()) return std::unexpected(lines.error());
  std::expected<void, std::string> outcome;
  for (const wire::AdapterLine& line : *lines) {
    bool is_there = false;
    visit([&](const RemoteAdapter& one) {
      is_there |= one.line().luid_low == line.luid_low && one.line().luid_high == line.luid_high;
      return true;
    });
    if (is_there) continue;
    auto made = RemoteAdapter::make(line);
    if (!made.has_value()) {
      outcome = std::unexpected(made.error());
      continue;
    }
    // What was there before is lost, and stays: threads may be inside.
    if (adapters_[(*made)->kernel()].exchange(made->release()) == nullptr) ++count_;
  }
  return outcome;
}

RemoteAdapters& RemoteAdapters::after_a_look() {
  RemoteAdapters& now = of_this_process();
  if (!now.has_lost()) return now;
  bool is_any_left = false;
  now.visit([&](const RemoteAdapter&) {
    is_any_left = true;
    return false;
  });
  if (!is_any_left) {
    // The server is gone, or all of it: handles of before mean nothing to its successor.
    RemoteAdapters* expected = &now;
    current_.compare_exchange_strong(expected, nullptr);
    return of_this_process();
  }
  // One thread looks, and others go on with what there is.
  if (now.looking_.exchange(true)) return now;
  static_cast<void>(now.open_new_ones());
  now.looking_.store(false);
  return now;
}

bool RemoteAdapters::has_lost() const {
  return std::ranges::any_of(adapters_, [](const auto& one) {
    const RemoteAdapter* const adapter = one.load();
    return adapter != nullptr && adapter->lost();
  });
}

RemoteAdapter* RemoteAdapters::first() const {
  RemoteAdapter* found = nullptr;
  visit([&](RemoteAdapter& one) {
    found = &one;
    return false;
  });
  for (const auto& one : adapters_) {
    if (found == nullptr) found = one.load();
  }
  return found;
}

RemoteAdapter* RemoteAdapters::adapter_for(uint32_t function, const void* arguments) const {
  if (!has_several()) return first();
  const Target target = target_of(function, arguments);
  RemoteAdapter* found = nullptr;
  if (target.handle.has_value()) {
    constexpr uint32_t kShift = 2;  // where handles carry their kernel's number
    found = adapters_[*target.handle >> kShift & (kMost - 1)].load();
  } else if (target.luid.has_value()) {
    visit([&](RemoteAdapter& one) {
      if (one.line().luid_low == target.luid->luid_low &&
          one.line().luid_high == target.luid->luid_high)
        found = &one;
      return found == nullptr;
    });
  }
  return found != nullptr ? found : first();
}

}  // namespace dxgkit::dxcore
