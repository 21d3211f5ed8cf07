// Messages of clients: any bytes as a request, requests that are nearly right, any bytes as a
// server's reply to a client, and any bytes in the memory that both share.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "fuzz/demand.h"
#include "runtime/brief_spin.h"
#include "wire/call_text.h"
#include "wire/client_call.h"
#include "wire/hello.h"
#include "wire/mailbox.h"
#include "wire/server_call.h"

namespace {

using namespace dxgkit;
using namespace dxgkit::wire;

Arena& arena() {
  static Arena one;
  return one;
}

/// What a kernel may rely on: every pointer of the arguments is null, bad, or leads to a block.
void check_pointers(const ServerCall& call) {
  const Structure& structure = structure_at(functions()[call.function()].structure);
  const auto bad = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(arena().bad()));
  size_t next = 1;
  for_each_field(structure, call.captured(), call.function(), [&](const Field& field, Kind kind) {
    const uint64_t value = slot_at(call.arguments(), field.offset);
    if (kind == Kind::kPresence) fuzz::demand(value == 0 || value == bad);
    if (kind == Kind::kAddress || kind == Kind::kInto || kind == Kind::kDescriptorOut)
      fuzz::demand(value == 0);
    if (kind != Kind::kBlock) {
      if (kind == Kind::kText) ++next;
      return;
    }
    const std::span<const std::byte> block = call.block(next++);
    if (value == 0 || value == bad) {
      fuzz::demand(block.empty());
      return;
    }
    fuzz::demand(block_bytes(field, call.captured()) == block.size());
    // The block is readable to its last byte, and plain bytes are what came.
    if (field.element < 0 && !block.empty()) {
      const auto* const memory = reinterpret_cast<const void*>(static_cast<uintptr_t>(value));
      fuzz::demand(std::memcmp(memory, block.data(), block.size()) == 0);
    }
  });
}

/// A server that does not know what it is asked.
std::vector<std::byte> answer(const ServerCall& call, std::span<const uint8_t> decisions) {
  // The function writes where it may, anything.
  const Structure& structure = structure_at(functions()[call.function()].structure);
  for (size_t i = 0; i < decisions.size() && i < structure.bytes; ++i) {
    if ((decisions[i] & 1) != 0) call.arguments()[i] ^= static_cast<std::byte>(decisions[i]);
  }
  // Members that hold descriptors and addresses keep what they were: numbers that are no
  // descriptors of ours would be closed.
  for_each_field(structure, call.captured(), call.function(), [&](const Field& field, Kind kind) {
    if (kind != Kind::kValue) set_slot(call.arguments(), field.offset, 0);
  });
  std::vector<UniqueFd> descriptors;
  const auto show = [](Memory, WindowNote* note, UniqueFd*) {
    note->bytes = 4096;
    return true;
  };
  return call.reply(0, show, {}, &descriptors);
}

void as_request(std::span<const uint8_t> input) {
  arena().clear();
  const auto bytes = std::as_bytes(input);
  const auto call = ServerCall::decode(bytes, {}, arena());
  if (!call.has_value()) {
    fuzz::demand(!call.error().empty());
    return;
  }
  check_pointers(*call);
  fuzz::demand(!call_text(call->function(), call->captured(), 0).empty());
  const std::vector<std::byte> reply = answer(*call, input);
  fuzz::demand(reply.size() < 2 * bytes.size() + (64 << 10));
}

/// Arguments made of the input, with pointers into memory that ends at an unreadable page.
void as_arguments(std::span<const uint8_t> input) {
  if (input.size() < 4) return;
  static std::byte* const memory = [] {
    void* const all =
        mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fuzz::demand(all != MAP_FAILED);
    fuzz::demand(mprotect(static_cast<std::byte*>(all) + 2 * 4096, 4096, PROT_NONE) == 0);
    return static_cast<std::byte*>(all);
  }();
  constexpr size_t kBytes = 2 * 4096;
  const uint32_t function = (input[0] | input[1] << 8) % static_cast<uint32_t>(functions().size());
  const Structure& structure = structure_at(functions()[function].structure);
  std::vector<std::byte> arguments(structure.bytes);
  std::memset(memory, 0, kBytes);
  const auto rest = input.subspan(4);
  if (!rest.empty()) {
    std::ranges::copy(std::as_bytes(rest.first(std::min(rest.size(), arguments.size()))),
                      arguments.begin());
    std::memcpy(memory, rest.data(), std::min(rest.size(), kBytes));
  }
  // Numbers of elements that are mostly small, pointers that mostly lead somewhere.
  size_t at = 2;
  const auto decide = [&] { return input[at++ % input.size()]; };
  for_each_field(structure, arguments.data(), function, [&](const Field& field, Kind kind) {
    if (field.count.width != 0) {
      const uint64_t small = decide() % 9;
      if (decide() % 8 != 0)
        std::memcpy(arguments.data() + field.count.offset, &small, field.count.width);
    }
    if (kind == Kind::kValue || kind == Kind::kDescriptor) return;
    const uint8_t where = decide();
    uint64_t pointer = reinterpret_cast<uintptr_t>(memory) + where * 32U;
    if (where % 16 == 1) pointer = 0;
    if (where % 16 == 2) pointer = reinterpret_cast<uintptr_t>(memory) + kBytes - where;
    set_slot(arguments.data(), field.offset, pointer);
  });
  KernelMemory client;
  ClientCall call(function, arguments.data(), client);
  if (call.answer().has_value()) return;
  std::vector<UniqueFd> copies;
  for (const int fd : call.descriptors()) copies.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  // What a client of ours sends, a server of ours takes.
  arena().clear();
  const auto decoded = ServerCall::decode(call.message(), copies, arena());
  fuzz::demand(decoded.has_value());
  check_pointers(*decoded);
  const std::vector<std::byte> before = arguments;
  std::vector<std::byte> reply = answer(*decoded, rest);
  if (decide() % 4 == 0 && !reply.empty()) {
    // A server that has gone wrong: no more than a refusal comes of it.
    for (int i = 0; i < 3; ++i)
      reply[decide() * 7U % reply.size()] ^= static_cast<std::byte>(decide());
    if (decide() % 2 == 0) reply.resize(reply.size() / 2);
    static_cast<void>(call.finish(reply, {}));
    return;
  }
  fuzz::demand(call.finish(reply, {}) == 0);
  // Pointers of the client are its own afterwards, but those that the function gives.
  for_each_field(structure, before.data(), function, [&](const Field& field, Kind kind) {
    if (kind != Kind::kBlock && kind != Kind::kText && kind != Kind::kPresence) return;
    if (functions()[function].one_structure)
      fuzz::demand(slot_at(arguments.data(), field.offset) == slot_at(before.data(), field.offset));
  });
}

/// What the other side writes while this side looks at its mailbox.
struct Scribbler {
  std::byte* memory = nullptr;
  std::span<const uint8_t> bytes;
  bool to_server = true;
};
Scribbler g_scribbler;

constexpr size_t kHalf = size_t{32} << 10;

void scribble() {
  Scribbler& one = g_scribbler;
  const size_t bytes = std::min(one.bytes.size(), kHalf);
  if (bytes == 0) return;
  std::memcpy(one.memory + (one.to_server ? 0 : kHalf), one.bytes.data(), bytes);
}

/// The two sides of a mailbox in turns; whoever looks finds what the input says.
void as_mailbox(std::span<const uint8_t> input) {
  UniqueFd descriptor;
  Mailbox server = Mailbox::make(&descriptor), client = Mailbox::open(descriptor);
  fuzz::demand(server && client);
  int ends[2];
  fuzz::demand(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd server_socket(ends[0]), client_socket(ends[1]);
  void* const memory =
      mmap(nullptr, 2 * kHalf, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  fuzz::demand(memory != MAP_FAILED);
  g_scribbler.memory = static_cast<std::byte*>(memory);
  // Nobody sends more than this, so who waits finds the end.
  shutdown(server_socket.get(), SHUT_WR);
  shutdown(client_socket.get(), SHUT_WR);
  Frame frame;
  for (bool to_server = true; !input.empty(); to_server = !to_server) {
    const size_t some = std::min<size_t>(input.size(), 1 + input[0] * 4U);
    g_scribbler.bytes = input.subspan(1, some - 1);
    g_scribbler.to_server = to_server;
    input = input.subspan(some);
    Mailbox& mailbox = to_server ? server : client;
    const int socket = to_server ? server_socket.get() : client_socket.get();
    uint32_t word = 0;
    if (g_scribbler.bytes.size() >= sizeof word)
      std::memcpy(&word, g_scribbler.bytes.data(), sizeof word);
    const Received received = mailbox.receive(socket, &frame);
    fuzz::demand(frame.descriptors.empty());
    if (received == Received::kFrame) fuzz::demand(frame.bytes.size() <= Mailbox::kMostBytes);
    if (g_scribbler.bytes.size() >= sizeof word) {
      const bool full = word >= 2 && word - 2 <= Mailbox::kMostBytes;
      fuzz::demand((received == Received::kFrame) == full);
      if (full) fuzz::demand(frame.bytes.size() == word - 2);
    }
    if (received == Received::kFrame && to_server) {
      arena().clear();
      const auto call = ServerCall::decode(frame.bytes, {}, arena());
      fuzz::demand(call.has_value() || !call.error().empty());
    }
    static_cast<void>(mailbox.send(socket, frame.bytes, std::span<const int>{}));
  }
  munmap(memory, 2 * kHalf);
}

}  // namespace

namespace dxgkit::runtime {

/// In the place of the real one: nobody waits here, and the other side has just been at work.
bool spin_briefly(const std::atomic<uint32_t>& word, uint32_t value) {
  scribble();
  return word.load() != value;
}

}  // namespace dxgkit::runtime

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> input(data + 1, size - 1);
  // Inputs of before keep their meaning.
  if (data[0] >= 0xE0) {
    as_mailbox(input);
    return 0;
  }
  switch (data[0] % 4) {
    case 0:
      as_request(input);
      break;
    case 1:
      static_cast<void>(decode_hello(std::as_bytes(input)));
      static_cast<void>(decode_welcome(std::as_bytes(input)));
      break;
    default:
      as_arguments(input);
      break;
  }
  return 0;
}
