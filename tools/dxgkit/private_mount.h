// A folder that one program sees at an absolute path where the machine has something else, or
// nothing.
#pragma once

#include <expected>
#include <string>

namespace dxgkit::tool {

/// Gives the calling process, which has one thread, a mount namespace of its own in which `folder`
/// is at `path`. Nobody else sees a change. Needs root, or user namespaces. The error says which
/// step the system refused; the process may be half changed then.
/// @param path     absolute, below /usr/lib; it need not exist.
/// @param scratch  an empty folder for what is in between.
std::expected<void, std::string> mount_privately(const std::string& folder, const std::string& path,
                                                 const std::string& scratch);

}  // namespace dxgkit::tool
