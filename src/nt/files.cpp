// Files: a driver sees only the virtual files that the host added.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/arithmetic.h"
#include "nt/executive.h"
#include "nt/object_attributes.h"

namespace dxgkit::nt {
namespace {

using namespace ntstatus;

constexpr uint32_t kOpened = 1;  // FILE_OPENED
constexpr uint32_t kFileOpen = 1, kFileOpenIf = 3;
constexpr uint32_t kWriteAccess = 0x40000000 | 0x10000000 | 0x2 | 0x4;  // GENERIC_*, WRITE, APPEND
constexpr int32_t kMediaWriteProtected = value(0xC00000A2);

std::shared_ptr<OpenFile> file_of(Kernel& kernel, void* handle) {
  Kernel::Impl& state = kernel.impl();
  runtime::MutexLock lock(state.dispatcher_lock);
  const auto found = state.handles.find(reinterpret_cast<uint64_t>(handle));
  if (found == state.handles.end() || found->second.kind != HandleEntry::Kind::kFile)
    return nullptr;
  return found->second.file;
}

void report(IoStatusBlock* block, int32_t status, uint64_t information) {
  IoStatusBlock answer{};
  answer.pointer = nullptr;
  answer.status = status;
  answer.information = information;
  copy_driver(block, &answer, sizeof(answer));
}

int32_t open_file(const char* function, void** handle, uint32_t access,
                  const ObjectAttributes* attributes, IoStatusBlock* block, uint32_t disposition) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, function, kPassiveLevel);
  Kernel& kernel = frame.kernel();
  void*& out = required(function, "FileHandle", handle);
  required(function, "IoStatusBlock", block);
  if (attributes == nullptr) return kInvalidParameter;
  ObjectAttributes given{};
  copy_driver(&given, attributes, sizeof(given));
  if (!are_initialized(kernel, function, given)) return kInvalidParameter;
  std::u16string name;
  if (!capture_text(given.name, &name)) return kObjectNameInvalid;
  if (given.root_directory != nullptr) return kNotSupported;
  if (name.empty() || name[0] != u'\\') return kObjectPathSyntaxBad;
  auto file = std::make_shared<OpenFile>();
  {
    Executive& state = executive_of(kernel);
    runtime::MutexLock lock(state.lock);
    const auto found = state.files.find(name);
    if (found == state.files.end()) return kObjectNameNotFound;
    file->data = found->second;
  }
  if (disposition != kFileOpen && disposition != kFileOpenIf) return kMediaWriteProtected;
  if ((access & kWriteAccess) != 0) return kMediaWriteProtected;
  out = make_handle(kernel, {.kind = HandleEntry::Kind::kFile,
                             .thread = {},
                             .key = {},
                             .event = {},
                             .file = std::move(file),
                             .sequence = 0});
  report(block, kSuccess, kOpened);
  return kSuccess;
}

DXGKIT_NT_ABI int32_t zw_create_file(void** handle, uint32_t access,
                                     const ObjectAttributes* attributes, IoStatusBlock* block,
                                     const int64_t*, uint32_t, uint32_t, uint32_t disposition,
                                     uint32_t, void*, uint32_t) {
  return open_file("ZwCreateFile", handle, access, attributes, block, disposition);
}
DXGKIT_NT_ABI int32_t zw_open_file(void** handle, uint32_t access,
                                   const ObjectAttributes* attributes, IoStatusBlock* block,
                                   uint32_t, uint32_t) {
  return open_file("ZwOpenFile", handle, access, attributes, block, kFileOpen);
}

DXGKIT_NT_ABI int32_t zw_read_file(void* handle, void*, void*, void*, IoStatusBlock* block,
                                   void* buffer, uint32_t length, const int64_t* offset,
                                   const uint32_t*) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ZwReadFile", kPassiveLevel);
  required("ZwReadFile", "IoStatusBlock", block);
  const std::shared_ptr<OpenFile> file = file_of(frame.kernel(), handle);
  if (file == nullptr) return kInvalidHandle;
  constexpr int64_t kUseCurrentPosition = int64_t{-1} << 32 | 0xFFFFFFFE;
  Executive& state = executive_of(frame.kernel());
  int64_t start = 0;
  bool current = offset == nullptr;
  if (!current) copy_driver(&start, offset, sizeof(start));
  current = current || start == kUseCurrentPosition || start == -2;
  uint64_t copied = 0;
  {
    runtime::MutexLock lock(state.lock);
    if (current) start = static_cast<int64_t>(file->position);
    if (start < 0) return kInvalidParameter;
    const uint64_t from = static_cast<uint64_t>(start);
    copied = from < file->data.size() ? std::min<uint64_t>(length, file->data.size() - from) : 0;
    file->position = std::min<uint64_t>(from, file->data.size()) + copied;
  }
  if (copied == 0 && length > 0) {
    report(block, kEndOfFile, 0);
    return kEndOfFile;
  }
  copy_driver(buffer, file->data.data() + start, copied);
  report(block, kSuccess, copied);
  return kSuccess;
}

DXGKIT_NT_ABI int32_t zw_write_file(void* handle, void*, void*, void*, IoStatusBlock*, const void*,
                                    uint32_t, const int64_t*, const uint32_t*) {
  return file_of(CallFrame::current().kernel(), handle) == nullptr ? kInvalidHandle
                                                                   : kMediaWriteProtected;
}

DXGKIT_NT_ABI int32_t zw_query_information_file(void* handle, IoStatusBlock* block, void* buffer,
                                                uint32_t length, uint32_t information_class) {
  CallFrame& frame = CallFrame::current();
  require_irql(frame, "ZwQueryInformationFile", kPassiveLevel);
  required("ZwQueryInformationFile", "IoStatusBlock", block);
  const std::shared_ptr<OpenFile> file = file_of(frame.kernel(), handle);
  if (file == nullptr) return kInvalidHandle;
  if (information_class == 5) {  // FileStandardInformation
    struct {
      int64_t allocation, end;
      uint32_t links;
      uint8_t delete_pending, directory, padding[2];
    } answer{static_cast<int64_t>((file->data.size() + 4095) & ~size_t{4095}),
             static_cast<int64_t>(file->data.size()),
             1,
             0,
             0,
             {}};
    static_assert(sizeof(answer) == 24);
    if (length < sizeof(answer)) return kInfoLengthMismatch;
    copy_driver(buffer, &answer, sizeof(answer));
    report(block, kSuccess, sizeof(answer));
    return kSuccess;
  }
  if (information_class == 14) {  // FilePositionInformation
    if (length < sizeof(uint64_t)) return kInfoLengthMismatch;
    copy_driver(buffer, &file->position, sizeof(uint64_t));
    report(block, kSuccess, sizeof(uint64_t));
    return kSuccess;
  }
  return kNotSupported;
}

}  // namespace

void add_file(Kernel& kernel, std::string_view path, std::vector<std::byte> data) {
  Executive& state = executive_of(kernel);
  runtime::MutexLock lock(state.lock);
  state.files.insert_or_assign(widen(path), std::move(data));
}

std::span<const Export> file_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("ZwCreateFile", zw_create_file, kPartial, "the host's virtual files, to read"),
      DXGKIT_EXPORT("ZwDeleteFile", refuse_status, kRefused, "files are read-only"),
      DXGKIT_EXPORT("ZwDeviceIoControlFile", refuse_status, kRefused, "no devices by handle"),
      DXGKIT_EXPORT("ZwFsControlFile", refuse_status, kRefused, "no file systems"),
      DXGKIT_EXPORT("ZwOpenFile", zw_open_file, kPartial, "the host's virtual files, to read"),
      DXGKIT_EXPORT("ZwQueryDirectoryFile", refuse_status, kRefused, "no directories"),
      DXGKIT_EXPORT("ZwQueryFullAttributesFile", refuse_status, kRefused, "no file systems"),
      DXGKIT_EXPORT("ZwQueryInformationFile", zw_query_information_file, kPartial,
                    "standard and position information"),
      DXGKIT_EXPORT("ZwReadFile", zw_read_file, kPartial, "synchronous"),
      DXGKIT_EXPORT("ZwSetInformationFile", refuse_status, kRefused, "files are read-only"),
      DXGKIT_EXPORT("ZwWriteFile", zw_write_file, kRefused, "files are read-only"),
  };
  return kTable;
}

}  // namespace dxgkit::nt
