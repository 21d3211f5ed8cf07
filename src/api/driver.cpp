#include "dxgkit/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "api/stack_impl.h"

namespace dxgkit {

Driver::Driver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Driver::~Driver() = default;
const std::string& Driver::name() const { return impl_->driver->name(); }
uint32_t Driver::interface_version() const { return impl_->driver->interface_version(); }
bool Driver::display_only() const { return impl_->driver->display_only(); }

Expected<std::string> bundled_driver(std::string_view name) {
  std::vector<std::filesystem::path> folders = {DXGKIT_INSTALLED_DRIVERS, DXGKIT_BUILT_DRIVERS};
  // Beside the library, wherever it was moved to: PREFIX/lib/libdxgkit.so or
  // PREFIX/lib/dxgkit/clients/libdxcore.so, and PREFIX/lib/dxgkit/drivers.
  if (Dl_info here; dladdr(reinterpret_cast<const void*>(&bundled_driver), &here) != 0) {
    const auto folder = std::filesystem::path(here.dli_fname).parent_path();
    folders.insert(folders.begin(), {folder / "dxgkit" / "drivers", folder / ".." / "drivers"});
  }
  const bool plain = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  for (const std::filesystem::path& folder : folders) {
    std::error_code error;
    const std::filesystem::path file = folder / fmt::format("{}.sys", name);
    if (plain && !folder.empty() && std::filesystem::is_regular_file(file, error)) return file.string();
  }
  return std::unexpected(
      failure(Status::kObjectNameNotFound, fmt::format("there is no driver called {}", name)));
}

}  // namespace dxgkit
