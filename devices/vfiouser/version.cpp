// The VERSION message, whose text is JSON.
#include <nlohmann/json.hpp>

#include "devices/vfiouser/protocol.h"

namespace dxgkit::vfiouser {
namespace {

constexpr size_t kHeadBytes = 4;  // major and minor
constexpr size_t kTextBytesMost = 4096;
constexpr int64_t kNumberMost = int64_t{1} << 31;

using Json = nlohmann::json;

/// The member, or null if there is none.
const Json* member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

/// Changes *to if the member is there. False: it is not a number from `least` to kNumberMost.
bool read_number(const Json& object, const char* name, int64_t least, uint32_t* to) {
  const Json* const value = member(object, name);
  if (value == nullptr) return true;
  if (!value->is_number_integer()) return false;
  if (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{kNumberMost}) return false;
  const auto number = value->get<int64_t>();
  if (number < least || number > kNumberMost) return false;
  *to = static_cast<uint32_t>(number);
  return true;
}

bool read_twin_socket(const Json& all, Capabilities* to) {
  const Json* const twin = member(all, "twin_socket");
  if (twin == nullptr) return true;
  if (!twin->is_object()) return false;
  if (const Json* const supported = member(*twin, "supported"); supported != nullptr) {
    if (!supported->is_boolean()) return false;
    to->twin_socket = supported->get<bool>();
  }
  if (member(*twin, "fd_index") == nullptr) return true;
  uint32_t index = 0;
  if (!read_number(*twin, "fd_index", 0, &index)) return false;
  if (to->twin_socket) to->twin_socket_index = index;  // otherwise it means nothing
  return true;
}

}  // namespace

Bytes encode(const Version& version) {
  const Capabilities& can = version.capabilities;
  Json all = {{"max_msg_fds", can.descriptors_max}, {"max_data_xfer_size", can.transfer_bytes_max}};
  if (can.twin_socket) {
    all["twin_socket"]["supported"] = true;
    if (can.twin_socket_index.has_value()) all["twin_socket"]["fd_index"] = *can.twin_socket_index;
  }
  const std::string text = Json{{"capabilities", all}}.dump();
  Bytes out(kHeadBytes + text.size() + 1);  // with a NUL
  std::memcpy(out.data(), &version.major, 2);
  std::memcpy(out.data() + 2, &version.minor, 2);
  std::memcpy(out.data() + kHeadBytes, text.data(), text.size());
  return out;
}

Decoded<Version> decode_version(ByteView payload) {
  if (payload.size() < kHeadBytes)
    return wrong("VERSION has " + std::to_string(payload.size()) + " bytes; it needs " +
                 std::to_string(kHeadBytes));
  Version version;
  std::memcpy(&version.major, payload.data(), 2);
  std::memcpy(&version.minor, payload.data() + 2, 2);
  const ByteView text = payload.subspan(kHeadBytes);
  if (text.empty()) return version;
  if (text.size() > kTextBytesMost) return wrong("the text of VERSION is longer than 4096 bytes");
  if (text.back() != std::byte{0}) return wrong("the text of VERSION does not end with a NUL");
  const auto* const begin = reinterpret_cast<const char*>(text.data());
  const Json all = Json::parse(begin, begin + text.size() - 1, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object()) return wrong("the text of VERSION is not a JSON object");
  const Json* const capabilities = member(all, "capabilities");
  if (capabilities == nullptr) return version;
  if (!capabilities->is_object()) return wrong("capabilities of VERSION is not an object");
  Capabilities& can = version.capabilities;
  if (!read_number(*capabilities, "max_msg_fds", 0, &can.descriptors_max))
    return wrong("max_msg_fds of VERSION is not a number from 0 to 2^31");
  if (!read_number(*capabilities, "max_data_xfer_size", 1, &can.transfer_bytes_max))
    return wrong("max_data_xfer_size of VERSION is not a number from 1 to 2^31");
  if (!read_twin_socket(*capabilities, &can))
    return wrong("twin_socket of VERSION has a member of another type");
  return version;
}

}  // namespace dxgkit::vfiouser
