#include "wire/mailbox.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>
#include <vector>

#include "base/sealed_memory.h"
#include "runtime/brief_spin.h"

namespace dxgkit::wire {
namespace {

/// What memory of zeros says.
constexpr uint32_t kSocket = 0;
constexpr uint32_t kOpen = 1;
constexpr uint32_t kFull = 2;

constexpr size_t kToServer = 0, kToClient = 1;

}  // namespace

Mailbox Mailbox::map(int fd, size_t inbox) {
  Mailbox box;
  void* const memory = mmap(nullptr, 2 * sizeof(Half), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return box;
  box.memory_ = static_cast<Half*>(memory);
  box.inbox_ = inbox;
  return box;
}

Mailbox Mailbox::make(UniqueFd* descriptor) {
  *descriptor = UniqueFd(create_sealed_memory("dxgkit-mailbox", 2 * sizeof(Half)));
  Mailbox box = *descriptor ? map(descriptor->get(), kToServer) : Mailbox();
  if (!box) descriptor->reset();
  return box;
}

Mailbox Mailbox::open(const UniqueFd& descriptor) {
  if (!seal_memory(descriptor.get(), 0, 2 * sizeof(Half))) return {};
  Mailbox box = map(descriptor.get(), kToClient);
  if (box && madvise(box.memory_, 2 * sizeof(Half), MADV_DONTFORK) != 0) return {};
  return box;
}

Mailbox& Mailbox::operator=(Mailbox&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(inbox_, other.inbox_);
  return *this;
}

Mailbox::~Mailbox() {
  if (memory_ != nullptr) munmap(memory_, 2 * sizeof(Half));
}

bool Mailbox::put(std::span<const std::byte> message) {
  Half& outbox = memory_[1 - inbox_];
  if (message.size() > kMostBytes || outbox.word.load(std::memory_order_relaxed) != kOpen)
    return false;
  if (!message.empty()) std::memcpy(outbox.bytes, message.data(), message.size());
  uint32_t open = kOpen;
  return outbox.word.compare_exchange_strong(open, kFull + static_cast<uint32_t>(message.size()),
                                             std::memory_order_release, std::memory_order_relaxed);
}

bool Mailbox::send(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  if (memory_ != nullptr) {
    // The answer may come at once.
    memory_[inbox_].word.store(kOpen, std::memory_order_relaxed);
    if (descriptors.empty() && put(bytes)) return true;
    // Who still looks here goes to the socket.
    memory_[1 - inbox_].word.store(kSocket, std::memory_order_relaxed);
  }
  return send_frame(socket, bytes, descriptors);
}

bool Mailbox::send(int socket, std::span<const std::byte> bytes,
                   std::span<const UniqueFd> descriptors) {
  std::vector<int> numbers;
  for (const UniqueFd& one : descriptors) numbers.push_back(one.get());
  return send(socket, bytes, std::span<const int>(numbers));
}

Received Mailbox::receive(int socket, Frame* frame) {
  if (memory_ == nullptr) return receive_frame(socket, frame);
  Half& inbox = memory_[inbox_];
  runtime::spin_briefly(inbox.word, kOpen);
  // The inbox is closed from here on. What its word says now is the only thing that counts.
  const uint32_t word = inbox.word.exchange(kSocket, std::memory_order_acquire);
  if (word < kFull) return receive_frame(socket, frame);
  frame->bytes.clear();
  frame->descriptors.clear();
  const size_t bytes = word - kFull;
  if (bytes > kMostBytes) return Received::kBroken;
  frame->bytes.assign(inbox.bytes, inbox.bytes + bytes);
  return Received::kFrame;
}

}  // namespace dxgkit::wire
