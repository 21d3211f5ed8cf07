// Messages of the vfio-user protocol, on both sides. The first byte chooses: the bytes as one
// message to each decoder; as a server's answers to a client that asks for everything; as a
// client's commands to a server.
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/sealed_memory.h"
#include "devices/ram/ram.h"
#include "devices/vfiouser/device_server.h"
#include "devices/vfiouser/facts.h"
#include "devices/vfiouser/protocol.h"
#include "fuzz/demand.h"
#include "runtime/runtime.h"

namespace {

using namespace dxgkit;
using namespace dxgkit::vfiouser;
using fuzz::demand;

/// The bytes of the input, taken from the front.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  Bytes bytes(size_t count) {
    count = std::min(count, size_);
    Bytes out(count);
    if (count != 0) std::memcpy(out.data(), data_, count);
    data_ += count;
    size_ -= count;
    return out;
  }
  Bytes rest() { return bytes(size_); }

 private:
  const uint8_t* data_;
  size_t size_;
};

/// A refusal is one sentence; what was accepted is encoded and read again alike.
template <typename T, typename Encode>
void check(const Decoded<T>& value, const Encode& again) {
  if (!value.has_value()) {
    demand(!value.error().empty() && value.error().find('\n') == std::string::npos);
    return;
  }
  const auto read = again(*value);
  demand(read.has_value() && *read == *value);
}

void decode_all(Input input) {
  const Bytes bytes = input.rest();
  if (bytes.size() >= kHeaderBytes) {
    check(decode_header(std::span<const std::byte, kHeaderBytes>(bytes.data(), kHeaderBytes)),
          [](const Header& header) { return decode_header(encode(header)); });
  }
  check(decode_version(bytes), [](const Version& one) { return decode_version(encode(one)); });
  check(decode_dma_map(bytes), [](const DmaMap& one) { return decode_dma_map(encode(one)); });
  check(decode_dma_unmap(bytes), [](const DmaUnmap& one) { return decode_dma_unmap(encode(one)); });
  check(decode_device_info(bytes),
        [](const DeviceInfo& one) { return decode_device_info(encode(one)); });
  check(decode_region_info(bytes),
        [](const RegionInfo& one) { return decode_region_info(encode(one)); });
  check(decode_irq_info(bytes), [](const IrqInfo& one) { return decode_irq_info(encode(one)); });
  check(decode_set_irqs(bytes), [](const SetIrqs& one) { return decode_set_irqs(encode(one)); });
  check(decode_region_access(bytes, Data::kAbsent),
        [](const RegionAccess& one) { return decode_region_access(encode(one), Data::kAbsent); });
  check(decode_dma_access(bytes, Data::kAbsent),
        [](const DmaAccess& one) { return decode_dma_access(encode(one), Data::kAbsent); });
  if (const auto one = decode_region_access(bytes, Data::kFollow); one.has_value())
    demand(bytes.size() == RegionAccess::kBytes + one->count);
  if (const auto one = decode_dma_access(bytes, Data::kFollow); one.has_value())
    demand(bytes.size() == DmaAccess::kBytes + one->count);
}

/// A descriptor as a peer may send it.
Descriptor strange_descriptor(uint8_t choice) {
  switch (choice % 4) {
    case 0:
      return Descriptor(create_sealed_memory("fuzz", 0x4000));
    case 1:
      return Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    case 2: {
      int ends[2];
      if (pipe(ends) != 0) return {};
      close(ends[1]);
      return Descriptor(ends[0]);
    }
    default:
      return {};
  }
}

/// A server whose answers are the input: a refusal, or a payload with or without a descriptor. Half
/// of the time the answer is a good one with some bytes changed, so that the next question is
/// asked.
class Answers final : public Channel {
 public:
  explicit Answers(Input& input) : input_(input) {}
  std::expected<Message, CallError> call(Command command, std::initializer_list<ByteView> parts,
                                         std::span<const int>) override {
    demand(!rejected_);
    Bytes asked;
    for (const ByteView part : parts) asked.insert(asked.end(), part.begin(), part.end());
    const uint8_t how = input_.byte();
    if (how == 255) return std::unexpected(CallError{EINVAL, "refused"});
    Message message;
    message.payload = how % 2 == 0 ? good(command, asked) : input_.bytes(how);
    for (uint8_t i = how % 2 == 0 ? how / 2 % 8 : 0; i > 0 && !message.payload.empty(); --i) {
      const size_t at = input_.byte() % message.payload.size();
      message.payload[at] = static_cast<std::byte>(input_.byte());
    }
    if (how % 16 == 6) message.payload.resize(message.payload.size() / 2);
    if (Descriptor one = strange_descriptor(how / 16))
      message.descriptors.push_back(std::move(one));
    return message;
  }
  void reject(const std::string& why) override {
    demand(!why.empty());
    rejected_ = true;
  }

 private:
  static Bytes good(Command command, const Bytes& asked) {
    switch (command) {
      case Command::kDeviceGetInfo:
        return encode(DeviceInfo{.flags = 3, .regions = 9, .irqs = 5});
      case Command::kDeviceGetRegionInfo: {
        RegionInfo info{.flags = 7,
                        .index = decode_region_query(asked)->index,
                        .size = 0x4000,
                        .offset = 0,
                        .areas = std::nullopt};
        if (info.index == kRegionConfig) info.size = 256;
        if (info.index == 2) info.areas = {{0, 0x1000}, {0x2000, 0x1000}};
        return encode(info);
      }
      case Command::kDeviceGetIrqInfo:
        return encode(IrqInfo{.flags = 1, .index = decode_irq_query(asked)->index, .count = 1});
      case Command::kRegionRead: {
        const auto access = decode_region_access(asked, Data::kAbsent);
        Bytes out = encode(*access);
        out.resize(out.size() + access->count);
        return out;
      }
      default:
        return {};
    }
  }
  Input& input_;
  bool rejected_ = false;
};

void ask_server(Input input) {
  const MapPolicy policy = input.byte() % 2 == 0 ? MapPolicy::kSealed : MapPolicy::kNone;
  Answers answers(input);
  const auto facts = read_facts(answers, policy, std::nullopt);
  if (!facts.has_value()) {
    demand(!facts.error().empty());
    return;
  }
  for (uint32_t slot = 0; slot < kRegionBars; ++slot) {
    const RemoteBar& bar = facts->bars[slot];
    if (bar.kind == bus::BarKind::kNone) continue;
    demand(bar.region_size <= bar.size && (bar.size & (bar.size - 1)) == 0);
    if (bar.kind == bus::BarKind::kMemory) demand(bar.descriptor && bar.region_size == bar.size);
    if (bar.wide) demand(slot + 1 < kRegionBars);
    if (bar.wide) demand(facts->bars[slot + 1].kind == bus::BarKind::kNone);
    for (const auto& mapping : bar.mappings) {
      demand(mapping->area().offset + mapping->area().size <= bar.region_size);
      std::byte* const last = mapping->bytes() + mapping->area().size - 1;
      *last = std::byte{1};  // it is there
    }
  }
}

void serve_client(runtime::Runtime& os, Input input) {
  static const bus::DeviceType type = ram::device_type();
  bus::DeviceOptions options;
  options.add("bar0", "16K");
  bus::DeviceChoice model{
      .text = "ram", .type = std::make_shared<const bus::DeviceType>(type), .options = options};
  auto made = DeviceServer::create(os, model);
  demand(made.has_value());
  DeviceServer& server = **made;
  bool negotiated = input.byte() % 8 == 0;
  if (!negotiated) {
    Message version{.header = {.command = 1}, .payload = encode(Version{}), .descriptors = {}};
    demand(server.handle(version).error == 0);
  }
  while (!input.empty()) {
    const uint8_t command = input.byte(), shape = input.byte();
    Message message;
    message.header.command = command % 20;
    const size_t length = input.byte();
    message.payload = input.bytes(length);
    if (shape % 4 != 0) message.descriptors.push_back(strange_descriptor(shape / 4));
    std::erase_if(message.descriptors, [](const Descriptor& one) { return !one; });
    const Reply reply = server.handle(message);
    if (reply.error != 0) demand(reply.payload.empty() && reply.descriptors.empty());
    if (reply.closes.has_value()) return;
    // A device that uses what the client gave.
    std::byte bytes[32];
    if (std::byte* const pointer = server.memory().pointer(bus::PhysicalAddress{0x1000}, 4096))
      pointer[4095] = std::byte{1};
    static_cast<void>(server.memory().read(bus::PhysicalAddress{0xFF0}, bytes));
    static_cast<void>(server.memory().write(bus::PhysicalAddress{0x1FF0}, bytes));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto os = dxgkit::runtime::make_os_runtime(1);
  static dxgkit::runtime::AdoptThread adopted(*os, "fuzz");
  Input input(data, size);
  switch (input.byte() % 3) {
    case 0:
      decode_all(input);
      break;
    case 1:
      ask_server(input);
      break;
    default:
      serve_client(*os, input);
  }
  return 0;
}
