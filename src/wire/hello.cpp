#include "wire/hello.h"

#include <algorithm>

#include "wire/walk.h"

namespace dxgkit::wire {
namespace {

constexpr uint32_t kHello = 0x48575844, kWelcome = 0x32575844;  // "DXWH", "DXW2"
constexpr size_t kMaxName = 64;

}  // namespace

std::vector<std::byte> encode(const Hello& hello) {
  std::vector<std::byte> out;
  Writer writer(&out);
  writer.put(kHello);
  writer.put(table_version());
  writer.put(hello.token);
  writer.bytes(hello.name.data(), std::min(hello.name.size(), kMaxName));
  return out;
}

std::vector<std::byte> encode(const Welcome& welcome) {
  std::vector<std::byte> out;
  Writer writer(&out);
  writer.put(kWelcome);
  writer.put(welcome.status);
  writer.put(welcome.token);
  writer.put(welcome.kernel);
  return out;
}

std::expected<Hello, std::string> decode_hello(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  uint32_t magic = 0;
  uint64_t version = 0;
  Hello hello;
  if (!reader.get(&magic) || magic != kHello || !reader.get(&version))
    return std::unexpected("the first frame is no greeting of a client");
  if (version != table_version())
    return std::unexpected("the client has another version of the library");
  if (!reader.get(&hello.token)) return std::unexpected("the greeting is cut off");
  const size_t rest = bytes.size() - reader.position();
  if (rest > kMaxName) return std::unexpected("the client's name is too long");
  const auto* const name = reinterpret_cast<const char*>(reader.take(rest));
  hello.name.assign(name, rest);
  // For people: nothing that moves a terminal's cursor.
  std::ranges::replace_if(
      hello.name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return hello;
}

std::expected<Welcome, std::string> decode_welcome(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  uint32_t magic = 0;
  Welcome welcome;
  if (!reader.get(&magic) || magic != kWelcome || !reader.get(&welcome.status) ||
      !reader.get(&welcome.token) || !reader.get(&welcome.kernel) || !reader.at_end())
    return std::unexpected("the answer to the greeting is none of a server");
  return welcome;
}

}  // namespace dxgkit::wire
