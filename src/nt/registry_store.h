// The registry that a driver sees: a tree of keys and typed values, read from and written to text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "nt/kernel.h"

namespace dxgkit::nt {

/// Types of values, as drivers and ZwSetValueKey name them (REG_SZ and relatives).
inline constexpr uint32_t kRegNone = 0, kRegSz = 1, kRegExpandSz = 2, kRegBinary = 3, kRegDword = 4,
                          kRegMultiSz = 7, kRegQword = 11;

/// Orders names as the configuration manager compares them: without case.
struct NoCaseLess {
  using is_transparent = void;
  bool operator()(std::u16string_view a, std::u16string_view b) const;
};

/// One key. Handles share it, so that a deleted key can say that it is deleted.
struct RegistryKey {
  std::u16string name;
  std::map<std::u16string, RegistryValue, NoCaseLess> values;
  std::map<std::u16string, std::shared_ptr<RegistryKey>, NoCaseLess> children;
  std::weak_ptr<RegistryKey> parent;
  bool deleted = false;
  bool is_volatile = false;  // REG_OPTION_VOLATILE: never written by to_text
  int64_t last_write = 0;    // NT time
};

/// A tree of keys under "\Registry". Not thread-safe: the kernel's lock guards it.
class Registry {
 public:
  /// The form of KernelConfig::registry.
  using Map = std::map<std::string, std::map<std::string, RegistryValue>>;

  Registry();
  /// From a configuration: paths and value names are UTF-8.
  explicit Registry(const Map& map);

  /// The key at an absolute path ("\Registry\Machine\..."), or null. Empty components are skipped.
  std::shared_ptr<RegistryKey> find(std::u16string_view path) const;
  /// The same, below `start`.
  static std::shared_ptr<RegistryKey> find_below(const std::shared_ptr<RegistryKey>& start,
                                                 std::u16string_view path);
  /// Makes the key and its missing parents.
  static std::shared_ptr<RegistryKey> create_below(const std::shared_ptr<RegistryKey>& start,
                                                   std::u16string_view path);
  const std::shared_ptr<RegistryKey>& root() const { return root_; }
  static std::u16string path_of(const RegistryKey& key);

  /// The keys that hold values or have no children, with their paths.
  Map to_map() const;
  /// TOML that parse_registry reads back: every non-volatile key and value.
  std::string to_text() const;

 private:
  std::shared_ptr<RegistryKey> root_;
};

/// Bounds of a registry text; a larger text is refused.
inline constexpr size_t kRegistryTextMax = size_t{4} << 20;
inline constexpr size_t kRegistryDepthMax = 32;

/// Reads the TOML or JSON form (a text whose first character is '{' is JSON). docs/registry.md
/// describes the format. Any text is safe. On failure kInvalidParameter, with a one-sentence reason
/// in *message (may be null) that names the line or the key.
/// @param table  the table at the top that is the registry; empty: the whole text is
Result<Registry> parse_registry(std::string_view text, std::string* message,
                                std::string_view table = {});

/// Calls `asked` with the name of each value that the driver asks for by name, whether it is there
/// or not. Set it before the driver is loaded. Any thread calls it; it must not block.
void watch_registry(Kernel& kernel, std::function<void(std::u16string_view name)> asked);

/// The value at an absolute key path as it is now, with the driver's changes. Nothing if there is
/// no such key or value. Names compare without case. Any thread.
std::optional<RegistryValue> registry_value(Kernel& kernel, std::u16string_view key,
                                            std::u16string_view name);

/// The kernel's registry with the driver's changes, as Registry::to_text. Any thread, when the
/// driver is quiet.
std::string registry_text(Kernel& kernel);

}  // namespace dxgkit::nt
