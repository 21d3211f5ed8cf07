// The first frame of each connection, and its answer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

namespace dxgkit::wire {

using Token = std::array<std::byte, 16>;

/// What a connecting thread says. All zeros as token: a client process that is new here. Otherwise
/// the token that the server gave to an earlier connection of the same process.
struct Hello {
  Token token{};
  std::string name;  // of the process, at most 64 bytes; for people only
};

/// With a descriptor: the connection has a mailbox (mailbox.h).
struct Welcome {
  int32_t status = 0;  // an NTSTATUS; below 0: the connection is refused
  Token token{};
  uint32_t kernel = 0;  // the number that handles of this kernel carry (dxgk::KernelNumber)
};

std::vector<std::byte> encode(const Hello& hello);
std::vector<std::byte> encode(const Welcome& welcome);
/// The error is one sentence: another protocol, another table of arguments, wrong sizes.
std::expected<Hello, std::string> decode_hello(std::span<const std::byte> bytes);
std::expected<Welcome, std::string> decode_welcome(std::span<const std::byte> bytes);

}  // namespace dxgkit::wire
