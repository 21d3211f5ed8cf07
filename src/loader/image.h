// A driver image in memory, from either file form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/debugger.h"

namespace dxgkit::loader {

/// An import of a driver.
struct ImportRequest {
  std::string_view library;  // "ntoskrnl.exe" as the file spells it; empty in an ELF twin
  std::string_view name;     // empty for an import by ordinal
  uint16_t ordinal = 0;
  /// Address in the image of the slot that the answer is written to (a finding can name it), or
  /// null.
  const void* slot = nullptr;
};
/// The answer to an import.
struct ImportAnswer {
  const void* address = nullptr;  // null: there is none; the load fails and names the import
  uint32_t data_bytes = 0;        // size of a variable; 0: a function
};
using ImportResolver = std::function<ImportAnswer(const ImportRequest& request)>;

/// RUNTIME_FUNCTION of the x64 exception directory; addresses are relative to the image.
struct RuntimeFunction {
  uint32_t begin = 0, end = 0, unwind = 0;
};
static_assert(sizeof(RuntimeFunction) == 12);

enum class ImageForm { kElf, kPe };

struct LoadOptions {
  /// The only input to the stack cookie of a PE image: same seed, same run.
  uint64_t cookie_seed = 1;
};

/// A mapped, bound and protected image. No page of it is ever writable and executable at once. Any
/// thread: the image does not change after loading.
class Image {
 public:
  virtual ~Image() = default;
  virtual ImageForm form() const = 0;
  virtual std::byte* base() const = 0;
  virtual uint64_t size() const = 0;
  /// The start of the driver: DriverEntry, or the entry point of the PE header. Null: the image is
  /// no driver.
  virtual void* entry() const = 0;
  /// Address of an exported symbol, or null.
  virtual void* find(std::string_view name) const = 0;
  /// Every import, in the order of the file, as "library!name" ("name" in an ELF twin).
  virtual std::vector<std::string> imports() const = 0;
  /// The sorted exception directory (.pdata); empty if there is none.
  virtual std::span<const RuntimeFunction> functions() const = 0;
  /// "SgpuPatch+0x14"; empty if the file names no function there. Not in a signal handler.
  virtual std::string symbol(uint64_t rva) const = 0;

 protected:
  /// Ends before the image is unmapped: the debugger may take breakpoints out of it.
  std::unique_ptr<Announcement> announcement_;
};

/// Loads an image of either form, told apart by its first bytes. kInvalidImageFormat with a
/// one-sentence reason in *message otherwise; kObjectNameNotFound when the resolver had no answer.
/// Nothing stays mapped on failure.
Result<std::unique_ptr<Image>> load_image(std::span<const std::byte> file,
                                          const ImportResolver& resolve, std::string* message,
                                          const LoadOptions& options = {});

/// Reads a file; kObjectNameNotFound or kInvalidImageFormat (too big) with a message.
Result<std::vector<std::byte>> read_image_file(const std::string& path, std::string* message);

}  // namespace dxgkit::loader
