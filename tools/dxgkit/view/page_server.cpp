#include "tools/dxgkit/view/page_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <list>
#include <system_error>
#include <vector>

#include "runtime/descriptors.h"
#include "runtime/secret.h"

namespace dxgkit::tool {
namespace {

/// Nothing of the page is kept, sent on, or put into a frame; and it asks for nothing.
constexpr std::string_view kHeaders =
    "Cache-Control: no-store\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src "
    "'unsafe-inline'; img-src data:; connect-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "Connection: close\r\n\r\n";

std::string answer(std::string_view status, std::string_view type, size_t length,
                   std::string_view body) {
  std::string text =
      fmt::format("HTTP/1.1 {}\r\nContent-Type: {}; charset=utf-8\r\nContent-Length: {}\r\n{}",
                  status, type, length, kHeaders);
  text += body;
  return text;
}

std::string refusal(std::string_view status) {
  const std::string body = fmt::format("{}\n", status);
  return answer(status, "text/plain", body.size(), body);
}

std::string_view take_until(std::string_view& text, std::string_view mark) {
  const size_t at = text.find(mark);
  const std::string_view head = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + mark.size());
  return head;
}

bool is_host(std::string_view name) {
  constexpr std::string_view kName = "host";
  return std::ranges::equal(
      name, kName, [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

bool names_this_computer(std::string_view value) {
  while (value.starts_with(' ')) value.remove_prefix(1);
  while (value.ends_with(' ')) value.remove_suffix(1);
  const std::string_view name = value.substr(0, value.find(':'));
  return name == "127.0.0.1" || name == "localhost";
}

struct Guest {
  vfiouser::Descriptor socket;
  std::string request, answer;
  size_t sent = 0;
  runtime::TimeNs deadline = 0;
  bool is_over = false;
};

/// Takes what has come; puts the answer together once the request is whole.
void read_some(Guest& guest, std::string_view path, std::string_view page) {
  char block[4096];
  const ssize_t bytes = recv(guest.socket.get(), block, sizeof block, MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes <= 0) {
    guest.is_over = true;
    return;
  }
  guest.request.append(block, static_cast<size_t>(bytes));
  const size_t end = guest.request.find("\r\n\r\n");
  if (end != std::string::npos) {
    guest.answer = answer_request(std::string_view(guest.request).substr(0, end + 4), path, page);
  } else if (guest.request.size() > PageServer::kRequestMost) {
    guest.answer = refusal("431 Request Header Fields Too Large");
  }
}

void write_some(Guest& guest) {
  const ssize_t bytes = send(guest.socket.get(), guest.answer.data() + guest.sent,
                             guest.answer.size() - guest.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (bytes > 0) guest.sent += static_cast<size_t>(bytes);
  if (bytes <= 0) guest.is_over = true;
  if (guest.sent == guest.answer.size()) {
    shutdown(guest.socket.get(), SHUT_WR);
    guest.is_over = true;
  }
}

}  // namespace

std::string answer_request(std::string_view request, std::string_view path, std::string_view page) {
  std::string_view rest = request;
  std::string_view line = take_until(rest, "\r\n");
  const std::string_view method = take_until(line, " ");
  const std::string_view target = take_until(line, " ");
  if (!line.starts_with("HTTP/1.")) return refusal("400 Bad Request");
  size_t hosts = 0;
  bool is_ours = true;
  while (!rest.empty()) {
    std::string_view value = take_until(rest, "\r\n");
    if (!is_host(take_until(value, ":"))) continue;
    ++hosts;
    is_ours = is_ours && names_this_computer(value);
  }
  if (hosts != 1) return refusal("400 Bad Request");
  if (!is_ours) return refusal("403 Forbidden");
  if (method != "GET" && method != "HEAD") return refusal("405 Method Not Allowed");
  if (target != path) return refusal("404 Not Found");
  return answer("200 OK", "text/html", page.size(), method == "GET" ? page : std::string_view());
}

std::expected<PageServer, std::string> PageServer::listen(uint16_t port) {
  const auto failed = [port] {
    return std::unexpected(fmt::format("cannot listen at 127.0.0.1:{}: {}", port,
                                       std::generic_category().message(errno)));
  };
  vfiouser::Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failed();
  const int again = 1;  // a server that was here a moment ago
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &again, sizeof again);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  constexpr int kWaiting = 16;
  if (bind(socket.get(), generic, size) != 0 || ::listen(socket.get(), kWaiting) != 0 ||
      getsockname(socket.get(), generic, &size) != 0)
    return failed();
  std::string path = "/";
  for (const std::byte byte : runtime::secret_bytes())
    path += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return PageServer(std::move(socket), ntohs(address.sin_port), std::move(path));
}

std::string PageServer::address() const {
  return fmt::format("http://127.0.0.1:{}{}", port_, path_);
}

void PageServer::serve(runtime::Runtime& runtime, std::string_view page, int stop) {
  std::list<Guest> guests;
  while (true) {
    std::vector<runtime::DescriptorWait> waits{
        {.fd = stop}, {.fd = guests.size() < kGuestsMost ? listener_.get() : -1}};
    runtime::TimeNs deadline = runtime::kForever;
    for (const Guest& guest : guests) {
      const bool answers = !guest.answer.empty();
      waits.push_back({.fd = guest.socket.get(), .input = !answers, .output = answers});
      deadline = std::min(deadline, guest.deadline);
    }
    runtime::wait_for_descriptors(runtime, waits, deadline);
    if (waits[0].ready) return;
    size_t at = 2;
    for (Guest& guest : guests) {
      const bool asked = !guest.answer.empty();
      if (waits[at++].ready) asked ? write_some(guest) : read_some(guest, path_, page);
      if (!asked && !guest.answer.empty()) guest.deadline = runtime.now() + kTakePatience;
    }
    const runtime::TimeNs now = runtime.now();
    std::erase_if(guests,
                  [now](const Guest& guest) { return guest.is_over || guest.deadline <= now; });
    if (!waits[1].ready) continue;
    vfiouser::Descriptor socket(
        accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) continue;  // it has gone again
    Guest guest;
    guest.socket = std::move(socket);
    guest.deadline = now + kAskPatience;
    guests.push_back(std::move(guest));
  }
}

}  // namespace dxgkit::tool
