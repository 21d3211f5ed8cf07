#include "devices/vfiouser/device_server.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/arithmetic.h"
#include "runtime/descriptors.h"

namespace dxgkit::vfiouser {
namespace {

constexpr uint64_t kConfigBytes = 4096;

Reply refused(int error) {
  Reply reply;
  reply.error = error;
  return reply;
}
Reply answered(Bytes payload) {
  Reply reply;
  reply.payload = std::move(payload);
  return reply;
}

bool is_eventfd(int fd) {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  char target[64] = {};
  const ssize_t length = readlink(link.c_str(), target, sizeof(target) - 1);
  return length > 0 && std::string_view(target) == "anon_inode:[eventfd]";
}

/// Registers are accessed as a CPU does.
bool is_access_size(uint64_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8; }

}  // namespace

// --- interrupts

void IrqOutput::signal() {
  if (!eventfd_) return;
  // A client that never reads fills the counter after 2^64 interrupts. It can fill it at once, too:
  // then one more says nothing new.
  runtime::DescriptorWait room{.fd = eventfd_.get(), .input = false, .output = true};
  runtime::Runtime& runtime = runtime::Runtime::current();
  if (!runtime::wait_for_descriptors(runtime, {&room, 1}, runtime.now())) return;
  const uint64_t one = 1;
  static_cast<void>(!::write(eventfd_.get(), &one, sizeof(one)));
}

void IrqOutput::trigger() {
  const runtime::MutexLock lock(mutex_);
  if (masked_) {
    pending_ = true;
  } else {
    signal();
  }
}

void IrqOutput::assign(Descriptor eventfd) {
  const runtime::MutexLock lock(mutex_);
  eventfd_ = std::move(eventfd);
}

void IrqOutput::mask(bool masked) {
  const runtime::MutexLock lock(mutex_);
  masked_ = masked;
  if (masked_ || !pending_) return;
  pending_ = false;
  signal();
}

// --- the device

std::expected<std::unique_ptr<DeviceServer>, std::string> DeviceServer::create(
    runtime::Runtime& runtime, const bus::DeviceChoice& model) {
  std::unique_ptr<DeviceServer> server(new DeviceServer);
  auto device = model.make({runtime, server->machine_});
  if (!device.has_value()) return std::unexpected(device.error());
  server->device_ = std::move(*device);
  if (server->device_->functions().size() != 1)
    return std::unexpected(model.text + ": it has " +
                           std::to_string(server->device_->functions().size()) +
                           " functions; a vfio-user server has one");
  if (!is_success(bus::plug_in(server->machine_, *server->device_)))
    return std::unexpected(model.text + ": it does not fit into a machine");
  server->function_ = server->device_->functions().front();
  const std::span<const bus::Bar> bars = server->function_->bars();
  for (size_t slot = 0; slot < bars.size() && slot < kRegionBars; ++slot) {
    if (bars[slot].kind != bus::BarKind::kMemory) continue;
    void* const bytes =
        mmap(nullptr, bars[slot].size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
             bars[slot].memory.fd, static_cast<off_t>(bars[slot].memory.offset));
    if (bytes == MAP_FAILED) return std::unexpected(model.text + ": its memory cannot be mapped");
    server->views_[slot] = {static_cast<std::byte*>(bytes), bars[slot].size};
  }
  // Whether the client's driver claims it is not known here.
  server->function_->interrupt_line().connect([irq = &server->irq_] {
    irq->trigger();
    return false;
  });
  return server;
}

DeviceServer::~DeviceServer() {
  memory_.set_messages(nullptr);
  if (function_ != nullptr) function_->interrupt_line().connect(nullptr);
  device_.reset();
  for (const View& view : views_) {
    if (view.bytes != nullptr) munmap(view.bytes, view.size);
  }
}

Reply DeviceServer::handle(Message& message) {
  const auto command = static_cast<Command>(message.header.command);
  if (!negotiated_ || command == Command::kVersion) {
    if (!negotiated_ && command == Command::kVersion) return negotiate(message);
    Reply reply = refused(EINVAL);
    reply.closes = negotiated_ ? "it asked for the version twice"
                               : "it sent " + name_of(message.header.command) +
                                     " before it agreed on a version";
    return reply;
  }
  switch (command) {
    case Command::kDmaMap:
      return map_dma(message);
    case Command::kDmaUnmap:
      return unmap_dma(message);
    case Command::kDeviceGetInfo:
      return get_info(message);
    case Command::kDeviceGetRegionInfo:
      return get_region_info(message);
    case Command::kDeviceGetIrqInfo:
      return get_irq_info(message);
    case Command::kDeviceSetIrqs:
      return set_irqs(message);
    case Command::kRegionRead:
      return read_region(message);
    case Command::kRegionWrite:
      return write_region(message);
    case Command::kDeviceReset:
      device_->reset(0);
      return {};
    default:
      return refused(ENOTSUP);  // migration, dirty pages, ioeventfds, writes in bundles
  }
}

Reply DeviceServer::negotiate(const Message& message) {
  const auto theirs = decode_version(message.payload);
  if (!theirs.has_value() || theirs->major != kMajor) {
    Reply reply = refused(EINVAL);
    reply.closes = theirs.has_value()
                       ? "it speaks version " + std::to_string(theirs->major) + " of vfio-user"
                       : theirs.error();
    return reply;
  }
  client_ = theirs->capabilities;
  negotiated_ = true;
  Version ours;
  ours.minor = std::min(kMinor, theirs->minor);
  ours.capabilities = {.descriptors_max = kDescriptorsMost,
                       .transfer_bytes_max = kTransferBytesMost,
                       .twin_socket = false,
                       .twin_socket_index = std::nullopt};
  Reply reply;
  int ends[2] = {-1, -1};
  if (client_.twin_socket && client_.descriptors_max >= 1 &&
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
    command_socket_ = Descriptor(ends[0]);
    reply.owned = Descriptor(ends[1]);
    reply.descriptors = {ends[1]};
    ours.capabilities.twin_socket = true;
    ours.capabilities.twin_socket_index = 0;
  }
  reply.payload = encode(ours);
  return reply;
}

// --- information

Reply DeviceServer::get_info(const Message& message) const {
  if (!decode_device_query(message.payload).has_value()) return refused(EINVAL);
  return answered(encode(DeviceInfo{
      .flags = DeviceInfo::kReset | DeviceInfo::kPci, .regions = kRegions, .irqs = kIrqTypes}));
}

Reply DeviceServer::get_region_info(const Message& message) const {
  const auto asked = decode_region_query(message.payload);
  if (!asked.has_value() || asked->index >= kRegions) return refused(EINVAL);
  RegionInfo info;
  info.index = asked->index;
  Reply reply;
  if (asked->index == kRegionConfig) {
    info.size = kConfigBytes;
    info.flags = RegionInfo::kRead | RegionInfo::kWrite;
  } else if (asked->index < function_->bars().size()) {
    const bus::Bar& bar = function_->bars()[asked->index];
    info.size = bar.size;
    if (bar.size != 0) info.flags = RegionInfo::kRead | RegionInfo::kWrite;
    if (bar.kind == bus::BarKind::kMemory && client_.descriptors_max >= 1) {
      info.flags |= RegionInfo::kMmap;
      info.offset = bar.memory.offset;
      reply.descriptors = {bar.memory.fd};
    }
  }
  reply.payload = encode(info, asked->room);
  return reply;
}

Reply DeviceServer::get_irq_info(const Message& message) const {
  const auto asked = decode_irq_query(message.payload);
  if (!asked.has_value() || asked->index >= kIrqTypes) return refused(EINVAL);
  IrqInfo info{.flags = IrqInfo::kEventfd, .index = asked->index, .count = 0};
  // Models of the catalogue raise a line and send no messages.
  if (asked->index == kIrqIntx) {
    info.flags |= IrqInfo::kMaskable;
    info.count = 1;
  }
  return answered(encode(info));
}

Reply DeviceServer::set_irqs(Message& message) {
  const auto set = decode_set_irqs(message.payload);
  if (!set.has_value() || set->index >= kIrqTypes) return refused(EINVAL);
  const uint32_t count = set->index == kIrqIntx ? 1 : 0;
  if (!range_within(set->start, set->count, count)) return refused(EINVAL);
  const bool eventfds = set->data() == SetIrqs::kEventfd;
  if (!eventfds && !message.descriptors.empty()) return refused(EINVAL);
  if (set->count == 0) {
    irq_.assign({});
    return {};
  }
  if (eventfds) {
    if (set->action() != SetIrqs::kTrigger) return refused(ENOTSUP);  // resampling by eventfd
    if (message.descriptors.empty()) {
      irq_.assign({});
      return {};
    }
    if (message.descriptors.size() != set->count || !is_eventfd(message.descriptors[0].get()))
      return refused(EINVAL);
    irq_.assign(std::move(message.descriptors[0]));
    return {};
  }
  if (set->data() == SetIrqs::kBool && set->chosen[0] == 0) return {};
  if (set->action() == SetIrqs::kTrigger) {
    irq_.trigger();
  } else {
    irq_.mask(set->action() == SetIrqs::kMask);
  }
  return {};
}

// --- accesses

Reply DeviceServer::read_region(const Message& message) {
  const auto access = decode_region_access(message.payload, Data::kAbsent);
  if (!access.has_value()) return refused(EINVAL);
  Bytes out = encode(*access);
  const size_t head = out.size();
  if (access->region == kRegionConfig) {
    if (!range_within(access->offset, access->count, kConfigBytes)) return refused(EINVAL);
    out.resize(head + access->count);
    function_->config_read(static_cast<uint32_t>(access->offset), std::span(out).subspan(head));
    return answered(std::move(out));
  }
  if (access->region >= std::min<size_t>(kRegionBars, function_->bars().size()))
    return refused(EINVAL);
  const bus::Bar& bar = function_->bars()[access->region];
  if (!range_within(access->offset, access->count, bar.size)) return refused(EINVAL);
  const View& view = views_[access->region];
  if (view.bytes != nullptr) {
    out.insert(out.end(), view.bytes + access->offset, view.bytes + access->offset + access->count);
    return answered(std::move(out));
  }
  if (bar.registers == nullptr || !is_access_size(access->count)) return refused(EINVAL);
  const uint64_t value = bar.registers->mmio_read(access->offset, access->count);
  out.resize(head + access->count);
  std::memcpy(out.data() + head, &value, access->count);
  return answered(std::move(out));
}

Reply DeviceServer::write_region(const Message& message) {
  const auto access = decode_region_access(message.payload, Data::kFollow);
  if (!access.has_value()) return refused(EINVAL);
  const ByteView data = ByteView(message.payload).subspan(RegionAccess::kBytes);
  if (access->region == kRegionConfig) {
    if (!range_within(access->offset, access->count, kConfigBytes)) return refused(EINVAL);
    function_->config_write(static_cast<uint32_t>(access->offset), data);
    return answered(encode(*access));
  }
  if (access->region >= std::min<size_t>(kRegionBars, function_->bars().size()))
    return refused(EINVAL);
  const bus::Bar& bar = function_->bars()[access->region];
  if (!range_within(access->offset, access->count, bar.size)) return refused(EINVAL);
  const View& view = views_[access->region];
  if (view.bytes != nullptr) {
    std::memcpy(view.bytes + access->offset, data.data(), data.size());
    return answered(encode(*access));
  }
  if (bar.registers == nullptr || !is_access_size(access->count)) return refused(EINVAL);
  uint64_t value = 0;
  std::memcpy(&value, data.data(), data.size());
  bar.registers->mmio_write(access->offset, access->count, value);
  return answered(encode(*access));
}

// --- memory

Reply DeviceServer::map_dma(Message& message) {
  const auto map = decode_dma_map(message.payload);
  if (!map.has_value() || message.descriptors.size() > 1) return refused(EINVAL);
  Descriptor descriptor;
  if (!message.descriptors.empty()) descriptor = std::move(message.descriptors[0]);
  return refused(memory_.map(*map, std::move(descriptor)));
}

Reply DeviceServer::unmap_dma(const Message& message) {
  const auto unmap = decode_dma_unmap(message.payload);
  if (!unmap.has_value()) return refused(EINVAL);
  if (unmap->flags == DmaUnmap::kAll) {
    memory_.unmap_all();
  } else if (const int error = memory_.unmap(unmap->address, unmap->size); error != 0) {
    return refused(error);
  }
  return answered(encode(*unmap));
}

}  // namespace dxgkit::vfiouser
