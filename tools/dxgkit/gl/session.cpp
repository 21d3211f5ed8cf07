#include "tools/dxgkit/gl/session.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/sealed_memory.h"

namespace dxgkit::gl {
namespace {

std::string numbered(uint32_t handle) { return "resource " + std::to_string(handle); }

/// Pixels of a level along one side.
uint32_t minified(uint32_t side, uint32_t level) {
  return level < 32 ? std::max<uint32_t>(side >> level, 1) : 1;
}

/// True: the transfer fetches all pixels of what windows show.
bool is_frame(const ResourceDescription& resource, const Transfer& transfer) {
  constexpr uint32_t kDisplayTarget = 1U << 7;  // in `bind`
  return (resource.bind & kDisplayTarget) != 0 && transfer.level == 0 && transfer.offset == 0 &&
         transfer.box.width == resource.width && transfer.box.height == resource.height;
}

/// True: the bytes of the box follow each other in memory, without gaps of other pixels.
bool is_dense(const ResourceDescription& resource, const Transfer& transfer) {
  const Box& box = transfer.box;
  if (resource.target == ResourceDescription::kTargetBuffer) return true;
  if (box.height == 1 && box.depth == 1) return true;
  if (box.x != 0 || box.width != minified(resource.width, transfer.level)) return false;
  return box.depth == 1 || (box.y == 0 && box.height == minified(resource.height, transfer.level));
}

}  // namespace

std::unique_ptr<SharedMemory> SharedMemory::create(uint32_t bytes) {
  vfiouser::Descriptor fd(create_sealed_memory("dxgkit-gl", bytes));
  return fd ? map(std::move(fd), bytes) : nullptr;
}

std::unique_ptr<SharedMemory> SharedMemory::open(vfiouser::Descriptor fd, uint32_t bytes) {
  if (!seal_memory(fd.get(), 0, bytes)) return nullptr;
  return map(std::move(fd), bytes);
}

std::unique_ptr<SharedMemory> SharedMemory::map(vfiouser::Descriptor fd, uint32_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return nullptr;
  return std::unique_ptr<SharedMemory>(
      new SharedMemory(std::move(fd), {static_cast<std::byte*>(mapped), bytes}));
}

SharedMemory::~SharedMemory() { munmap(bytes_.data(), bytes_.size()); }

Session::Session(Channel& channel, MakeBackend make_backend, SessionLimits limits)
    : channel_(channel), make_backend_(std::move(make_backend)), limits_(limits) {}

std::optional<std::string> Session::run() {
  while (true) {
    const Answer<bool> goes_on = step();
    if (!goes_on.has_value()) return goes_on.error();
    if (!*goes_on) return std::nullopt;
  }
}

void Session::cancel() {
  cancelled_.store(true);
  if (Backend* const backend = cancellable_.load()) backend->cancel();
}

Answer<bool> Session::step() {
  std::array<uint32_t, kHeaderDwords> words{};
  const auto begun = channel_.read(std::as_writable_bytes(std::span(words)), /*begun=*/false);
  if (!begun.has_value()) return std::unexpected(begun.error());
  if (!*begun) return false;
  const Header header{.length = words[0], .command = words[1]};
  const Decoded<size_t> bytes = payload_bytes(header);
  if (!bytes.has_value()) return wrong("it sent " + bytes.error());
  // Whole dwords, so that a stream can be read where it is.
  std::vector<uint32_t> payload((*bytes + kDwordBytes - 1) / kDwordBytes);
  const auto room = std::as_writable_bytes(std::span(payload)).first(*bytes);
  if (!room.empty()) {
    const auto ended = channel_.read(room, /*begun=*/true);
    if (!ended.has_value()) return std::unexpected(ended.error());
  }
  ++counts_.messages;
  if (auto done = handle(static_cast<Command>(header.command), room); !done)
    return std::unexpected(done.error());
  return true;
}

Answer<void> Session::handle(Command command, std::span<const std::byte> payload) {
  const std::span<uint32_t> dwords(
      reinterpret_cast<uint32_t*>(const_cast<std::byte*>(payload.data())),
      payload.size() / kDwordBytes);
  switch (command) {
    case Command::kCreateRenderer:
      return create_renderer(payload);
    case Command::kPingProtocolVersion:
      return reply(command, {});
    case Command::kProtocolVersion:
      return choose_version(dwords[0]);
    case Command::kResourceBusyWait:
      return busy_wait(dwords);
    default:
      break;
  }
  if (backend_ == nullptr)
    return wrong("it sent " + name_of(static_cast<uint32_t>(command)) + " before CREATE_RENDERER");
  if (!versions_agreed_) return wrong("it speaks version 0 of the protocol: version 2 is needed");
  switch (command) {
    case Command::kGetCaps:
      return send_capabilities(1);
    case Command::kGetCaps2:
      return send_capabilities(2);
    case Command::kResourceCreate2:
      return create_resource(dwords);
    case Command::kResourceUnref:
      return unref(dwords[0]);
    case Command::kTransferGet2:
      return transfer(Direction::kFromHost, dwords);
    case Command::kTransferPut2:
      return transfer(Direction::kToHost, dwords);
    case Command::kSubmitCmd:
      return submit(dwords);
    default:
      return wrong("it sent " + name_of(static_cast<uint32_t>(command)));
  }
}

Answer<void> Session::create_renderer(std::span<const std::byte> payload) {
  if (backend_ != nullptr) return wrong("it asked for a second renderer");
  program_name_ = decode_name(payload);
  auto made = make_backend_(program_name_);
  if (!made.has_value()) return std::unexpected(made.error());
  backend_ = std::move(*made);
  // In this order here, and in the other one in cancel(): one of both sees the other.
  cancellable_.store(backend_.get());
  if (cancelled_.load()) backend_->cancel();
  return {};
}

Answer<void> Session::choose_version(uint32_t version) {
  if (version < kVersion)
    return wrong("it speaks version " + std::to_string(version) +
                 " of the protocol: version 2 is needed");
  versions_agreed_ = true;
  return reply(Command::kProtocolVersion, {{kVersion}});
}

Answer<void> Session::send_capabilities(uint32_t set) {
  const auto bytes = backend_->capabilities(set);
  if (!bytes.has_value()) return std::unexpected(bytes.error());
  // An empty set is left out, and the program takes the other one.
  if (set == 2 && bytes->empty()) return {};
  if (bytes->empty()) return wrong("the renderer has no capability set 1");
  // The length counts bytes, and one more.
  const auto head =
      encode(Header{.length = static_cast<uint32_t>(bytes->size()) + 1, .command = set});
  if (auto sent = channel_.write(std::as_bytes(std::span(head))); !sent) return sent;
  return channel_.write(*bytes);
}

Answer<void> Session::create_resource(std::span<const uint32_t> payload) {
  const auto description = decode_resource(payload);
  if (!description.has_value()) return wrong("it asked for " + description.error());
  const uint32_t handle = description->handle;
  if (resources_.contains(handle)) return wrong("it made " + numbered(handle) + " twice");
  if (resources_.size() >= limits_.resources)
    return wrong("it has more than " + std::to_string(limits_.resources) +
                 (limits_.resources == 1 ? " resource" : " resources"));
  if (description->data_bytes > limits_.shared_bytes - shared_bytes_)
    return wrong("its resources have more than " + std::to_string(limits_.shared_bytes) +
                 " bytes of shared memory");
  Resource resource{.description = *description, .id = 0, .memory = nullptr};
  if (description->data_bytes != 0) {
    resource.memory = SharedMemory::create(description->data_bytes);
    if (resource.memory == nullptr) return wrong("there is no shared memory left");
  }
  const auto id = backend_->create(*description);
  if (!id.has_value()) return std::unexpected(id.error());
  resource.id = *id;
  shared_bytes_ += description->data_bytes;
  ++counts_.resources;
  const auto added = resources_.emplace(handle, std::move(resource)).first;
  if (added->second.memory == nullptr) return {};
  return channel_.send_descriptor(added->second.memory->fd());
}

Answer<void> Session::unref(uint32_t handle) {
  const auto resource = find(handle);
  if (!resource.has_value()) return std::unexpected(resource.error());
  const Backend::Id id = (*resource)->id;
  shared_bytes_ -= (*resource)->description.data_bytes;
  written_.erase(handle);
  resources_.erase(handle);
  return backend_->destroy(id);
}

Answer<void> Session::transfer(Direction direction, std::span<const uint32_t> payload) {
  const auto decoded = decode_transfer(payload);
  if (!decoded.has_value()) return wrong("it asked for " + decoded.error());
  const auto found = find(decoded->handle);
  if (!found.has_value()) return std::unexpected(found.error());
  const Resource& resource = **found;
  if (resource.memory == nullptr)
    return wrong("it asked for a transfer of " + numbered(decoded->handle) +
                 ", which has no shared memory");
  const auto memory = resource.memory->bytes();
  if (decoded->offset > memory.size() || decoded->level > resource.description.last_level)
    return wrong("it asked for a transfer outside " + numbered(decoded->handle));
  ++counts_.transfers;
  // Between rows with gaps lies what the transfer must not change. The renderer knows the format,
  // and where the last row ends; it is not behind the end of the memory. Mesa's number of bytes
  // may be larger than that, as its windows have longer rows.
  const bool dense = is_dense(resource.description, *decoded);
  const size_t rest = memory.size() - decoded->offset;
  const auto part =
      memory.subspan(decoded->offset, dense ? std::min<size_t>(decoded->data_bytes, rest) : rest);
  if (direction == Direction::kToHost || !dense) {
    if (auto done = backend_->write(resource.id, decoded->offset, part); !done) return done;
  }
  if (auto done = backend_->transfer(resource.id, direction, *decoded); !done) return done;
  if (direction == Direction::kToHost) return {};
  if (auto done = backend_->read(resource.id, decoded->offset, part); !done) return done;
  if (is_frame(resource.description, *decoded)) {
    ++counts_.frames;
    frame_ = Frame{.resource = resource.description, .memory = resource.memory};
    if (shown_) shown_(*frame_, counts_.frames);
  }
  return {};
}

Answer<void> Session::submit(std::span<uint32_t> stream) {
  const auto facts = reader_.read(stream);
  if (!facts.has_value()) return wrong("it sent a stream with " + facts.error());
  std::vector<Backend::Use> uses;
  uses.reserve(facts->resources.size());
  for (const ResourceUse& use : facts->resources) {
    const auto resource = find(use.handle);
    if (!resource.has_value()) return std::unexpected(resource.error());
    uses.push_back({.position = use.position, .resource = (*resource)->id, .written = use.written});
  }
  std::vector<Backend::Id> also;
  for (const MemoryUse& use : facts->memory) {
    const auto found = find(use.handle);
    if (!found.has_value()) return std::unexpected(found.error());
    const Resource& resource = **found;
    if (resource.memory == nullptr || use.offset > resource.memory->bytes().size())
      return wrong("it sent a stream with a transfer outside " + numbered(use.handle));
    if (use.device_writes) {
      written_.insert(use.handle);
      also.push_back(resource.id);
      continue;
    }
    const bool buffer = resource.description.target == ResourceDescription::kTargetBuffer;
    const auto rest = resource.memory->bytes().subspan(use.offset);
    const uint64_t bytes =
        std::min<uint64_t>(rest.size(), buffer ? use.buffer_bytes : use.bytes_most);
    if (auto done = backend_->write(resource.id, use.offset, rest.first(bytes)); !done) return done;
  }
  ++counts_.streams;
  return backend_->submit(stream, facts->commands, uses, also);
}

Answer<void> Session::fetch_written() {
  for (const uint32_t handle : written_) {
    const Resource& resource = resources_.at(handle);
    if (auto done = backend_->read(resource.id, 0, resource.memory->bytes()); !done) return done;
  }
  written_.clear();
  return {};
}

Answer<void> Session::busy_wait(std::span<const uint32_t> payload) {
  const auto wait = decode_busy_wait(payload);
  if (!wait.has_value()) return wrong("it sent " + wait.error());
  // A program asks so, without a resource, whether PING_PROTOCOL_VERSION was understood.
  bool idle = true;
  if (wait->handle != 0) {
    if (backend_ == nullptr) return wrong("it waited before CREATE_RENDERER");
    if (auto found = find(wait->handle); !found) return std::unexpected(found.error());
    const auto answer =
        backend_->idle((wait->flags & BusyWait::kWait) != 0 ? Waiting::kYes : Waiting::kNo);
    if (!answer.has_value()) return std::unexpected(answer.error());
    idle = *answer;
    if (idle) {
      if (auto done = fetch_written(); !done) return done;
    }
  }
  return reply(Command::kResourceBusyWait, {{idle ? 0U : 1U}});
}

Answer<void> Session::reply(Command command, std::span<const uint32_t> payload) {
  std::vector<uint32_t> words;
  for (const uint32_t word : encode(Header{.length = static_cast<uint32_t>(payload.size()),
                             .command = static_cast<uint32_t>(command)}))
    words.push_back(word);
  words.insert(words.end(), payload.begin(), payload.end());
  return channel_.write(std::as_bytes(std::span(words)));
}

Answer<Session::Resource*> Session::find(uint32_t handle) {
  const auto found = resources_.find(handle);
  if (found == resources_.end())
    return wrong("it named " + numbered(handle) + ", which it does not have");
  return &found->second;
}

}  // namespace dxgkit::gl
