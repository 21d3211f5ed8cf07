#include "tools/dxgkit/private_mount.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace dxgkit::tool {
namespace {

using Done = std::expected<void, std::string>;

Done refused(const char* step) {
  return std::unexpected(fmt::format("{}: {}", step, std::strerror(errno)));
}

bool put_text(const char* path, const std::string& text) {
  std::ofstream file(path);
  return static_cast<bool>(file << text << std::flush);
}

Done enter_namespace() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (user == 0) return unshare(CLONE_NEWNS) == 0 ? Done() : refused("a mount namespace");
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return refused("a user namespace");
  // The program keeps its own user in it.
  if (!put_text("/proc/self/setgroups", "deny") ||
      !put_text("/proc/self/uid_map", fmt::format("{} {} 1", user, user)) ||
      !put_text("/proc/self/gid_map", fmt::format("{} {} 1", group, group)))
    return refused("the users of a namespace");
  return {};
}

/// Lets folders be made below /usr/lib that only this namespace has.
Done lay_over_libraries(const std::string& scratch) {
  if (mount("dxgkit", scratch.c_str(), "tmpfs", 0, nullptr) != 0) return refused("a tmpfs");
  std::error_code error;
  std::filesystem::create_directory(scratch + "/upper", error);
  std::filesystem::create_directory(scratch + "/work", error);
  const std::string options =
      fmt::format("lowerdir=/usr/lib,upperdir={0}/upper,workdir={0}/work,userxattr", scratch);
  if (mount("dxgkit", "/usr/lib", "overlay", 0, options.c_str()) != 0)
    return refused("an overlay of /usr/lib");
  return {};
}

}  // namespace

std::expected<void, std::string> mount_privately(const std::string& folder, const std::string& path,
                                                 const std::string& scratch) {
  if (Done entered = enter_namespace(); !entered.has_value()) return entered;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return refused("mounts of one's own");
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    if (Done laid = lay_over_libraries(scratch); !laid.has_value()) return laid;
    std::filesystem::create_directories(path, error);
  }
  if (mount(folder.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) != 0)
    return refused(path.c_str());
  return {};
}

}  // namespace dxgkit::tool
