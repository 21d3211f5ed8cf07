// The table of all functions and variables that a driver may import.
#include <algorithm>

#include "nt/kernel_impl.h"

namespace dxgkit::nt {

std::span<const Export> exports() {
  static const std::vector<Export> table = [] {
    std::vector<Export> all;
    for (const std::span<const Export> part :
         {memory_exports(), pool_exports(),      sync_exports(),   thread_exports(),
          timer_exports(),  registry_exports(),  string_exports(), debug_exports(),
          io_exports(),     object_exports(),    work_exports(),   registry_rtl_exports(),
          system_exports(), refused_exports(),   file_exports(),   resource_exports(),
          list_exports(),   lock_exports(),      rtl_exports(),    crt_exports(),
          page_exports(),   exception_exports(), probe_exports(),  device_resource_exports()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    for (Export& entry : all) set_levels(entry);
    std::ranges::sort(all, {}, [](const Export& entry) { return std::string_view(entry.name); });
    return all;
  }();
  return table;
}

const Export* find_export(std::string_view name) {
  const std::span<const Export> all = exports();
  const auto found = std::ranges::lower_bound(
      all, name, {}, [](const Export& entry) { return std::string_view(entry.name); });
  return found != all.end() && name == found->name ? &*found : nullptr;
}

}  // namespace dxgkit::nt
