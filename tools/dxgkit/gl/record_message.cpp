#include "tools/dxgkit/gl/record_message.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/descriptors.h"

namespace dxgkit::gl {
namespace {

constexpr size_t kTextBytes = 1024;
/// Room for one descriptor and no second one, which the padding of CMSG_SPACE would take.
constexpr size_t kDescriptorBytes = CMSG_LEN(sizeof(int));

/// The bytes of a message.
struct RecordMessage {
  char name[kTextBytes], wrong[kTextBytes];  // printable, and end with a zero
  uint64_t messages, streams, transfers, resources, frames;
  std::array<uint32_t, ResourceDescription::kDwords> frame;
};

void put(const std::string& text, char (&out)[kTextBytes]) { text.copy(out, sizeof(out) - 1); }

/// Without what a terminal would take for more than text.
std::string text_of(const char (&text)[kTextBytes]) {
  std::string printable(text, strnlen(text, sizeof(text)));
  std::erase_if(printable, [](char c) { return c < ' ' || c > '~'; });
  return printable;
}

std::unexpected<std::string> senseless() {
  return wrong("its process told something without sense");
}

std::expected<ProgramRecord, std::string> record_of(const RecordMessage& message,
                                                    vfiouser::Descriptor memory) {
  ProgramRecord record{.name = text_of(message.name),
                       .wrong = text_of(message.wrong),
                       .counts = {.messages = message.messages,
                                  .streams = message.streams,
                                  .transfers = message.transfers,
                                  .resources = message.resources,
                                  .frames = message.frames},
                       .frame = {},
                       .last_frames = {}};
  if (!memory) return record;
  const auto resource = decode_resource(message.frame);
  if (!resource.has_value() || resource->data_bytes == 0) return senseless();
  std::shared_ptr<const SharedMemory> shared =
      SharedMemory::open(std::move(memory), resource->data_bytes);
  if (shared == nullptr) return senseless();
  record.frame = Frame{.resource = *resource, .memory = std::move(shared)};
  return record;
}

}  // namespace

bool send_record(int socket, const ProgramRecord& record) {
  RecordMessage message{};
  put(record.name, message.name);
  put(record.wrong, message.wrong);
  message.messages = record.counts.messages;
  message.streams = record.counts.streams;
  message.transfers = record.counts.transfers;
  message.resources = record.counts.resources;
  message.frames = record.counts.frames;
  iovec part{.iov_base = &message, .iov_len = sizeof(message)};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  alignas(cmsghdr) char control[kDescriptorBytes] = {};
  if (record.frame.has_value()) {
    message.frame = encode(record.frame->resource);
    head.msg_control = control;
    head.msg_controllen = sizeof(control);
    cmsghdr* const one = CMSG_FIRSTHDR(&head);
    one->cmsg_level = SOL_SOCKET;
    one->cmsg_type = SCM_RIGHTS;
    one->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = record.frame->memory->fd();
    std::memcpy(CMSG_DATA(one), &fd, sizeof(fd));
  }
  ssize_t sent = -1;
  while ((sent = sendmsg(socket, &head, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent == static_cast<ssize_t>(sizeof(message));
}

std::expected<std::optional<ProgramRecord>, std::string> receive_record(runtime::Runtime& runtime,
                                                                        int socket) {
  runtime::DescriptorWait waits[] = {{.fd = socket}};
  static_cast<void>(runtime::wait_for_descriptors(runtime, waits));
  RecordMessage message{};
  iovec part{.iov_base = &message, .iov_len = sizeof(message)};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  alignas(cmsghdr) char control[kDescriptorBytes] = {};
  head.msg_control = control;
  head.msg_controllen = sizeof(control);
  ssize_t got = -1;
  while ((got = recvmsg(socket, &head, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  vfiouser::Descriptor memory;
  if (const cmsghdr* const one = CMSG_FIRSTHDR(&head);
      got >= 0 && one != nullptr && one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_RIGHTS &&
      one->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(one), sizeof(fd));
    memory = vfiouser::Descriptor(fd);
  }
  if (got <= 0) return std::nullopt;
  if (got != static_cast<ssize_t>(sizeof(message)) ||
      (head.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return senseless();
  return record_of(message, std::move(memory));
}

}  // namespace dxgkit::gl
