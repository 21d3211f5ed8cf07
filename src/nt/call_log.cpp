#include "nt/call_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "base/guarded_copy.h"
#include "base/spelling.h"
#include "bus/function.h"
#include "nt/kernel.h"
#include "nt/nt_status.h"

namespace dxgkit::nt {

/// How an argument is shown. Names are read when the call is made, the others when a text is.
enum class Shown : uint8_t {
  kBytes,
  kHighest,     // an address that limits where memory may lie
  kAddress,     // on the bus
  kNumber,      // what its name says
  kTag,         // of pool
  kUnicode,     // UNICODE_STRING*
  kWide,        // const wchar_t*
  kAttributes,  // OBJECT_ATTRIBUTES*: its ObjectName
  kTable,       // RTL_QUERY_REGISTRY_TABLE*: the name of the first value
  kDisplay,     // DXGK_DISPLAY_INFORMATION*: width and height, after the call
};
struct ShownArgument {
  uint8_t index = 0;  // 0 to 3: those in registers
  Shown how = Shown::kNumber;
  const char* name = "";  // of a kNumber
};
struct ShownArguments {
  std::string_view routine;
  std::array<std::optional<ShownArgument>, 2> arguments;
};

namespace {

constexpr ShownArguments kShown[] = {
    {"DxgkCbAcquirePostDisplayOwnership", {ShownArgument{1, Shown::kDisplay}}},
    {"DxgkCbAcquirePostDisplayOwnership2", {ShownArgument{1, Shown::kDisplay}}},
    {"DxgkCbMapMemory", {ShownArgument{1, Shown::kAddress}, ShownArgument{2, Shown::kBytes}}},
    {"DxgkCbQueryServices", {ShownArgument{1, Shown::kNumber, "service"}}},
    {"DxgkCbReadDeviceSpace",
     {ShownArgument{1, Shown::kNumber, "space"}, ShownArgument{3, Shown::kNumber, "offset"}}},
    {"DxgkCbWriteDeviceSpace",
     {ShownArgument{1, Shown::kNumber, "space"}, ShownArgument{3, Shown::kNumber, "offset"}}},
    {"ExAllocatePool", {ShownArgument{1, Shown::kBytes}}},
    {"ExAllocatePool2", {ShownArgument{1, Shown::kBytes}, ShownArgument{2, Shown::kTag}}},
    {"ExAllocatePool3", {ShownArgument{1, Shown::kBytes}, ShownArgument{2, Shown::kTag}}},
    {"ExAllocatePoolWithQuotaTag",
     {ShownArgument{1, Shown::kBytes}, ShownArgument{2, Shown::kTag}}},
    {"ExAllocatePoolWithTag", {ShownArgument{1, Shown::kBytes}, ShownArgument{2, Shown::kTag}}},
    {"ExAllocatePoolWithTagPriority",
     {ShownArgument{1, Shown::kBytes}, ShownArgument{2, Shown::kTag}}},
    {"IoAllocateMdl", {ShownArgument{1, Shown::kBytes}}},
    {"IoGetDeviceProperty", {ShownArgument{1, Shown::kNumber, "property"}}},
    {"IoOpenDeviceRegistryKey", {ShownArgument{1, Shown::kNumber, "key"}}},
    {"KeStallExecutionProcessor", {ShownArgument{0, Shown::kNumber, "microseconds"}}},
    {"MmAllocateContiguousMemory",
     {ShownArgument{0, Shown::kBytes}, ShownArgument{1, Shown::kHighest}}},
    {"MmAllocateContiguousMemorySpecifyCache",
     {ShownArgument{0, Shown::kBytes}, ShownArgument{2, Shown::kHighest}}},
    {"MmAllocatePagesForMdl", {ShownArgument{3, Shown::kBytes}, ShownArgument{1, Shown::kHighest}}},
    {"MmAllocatePagesForMdlEx",
     {ShownArgument{3, Shown::kBytes}, ShownArgument{1, Shown::kHighest}}},
    {"MmGetSystemRoutineAddress", {ShownArgument{0, Shown::kUnicode}}},
    {"MmMapIoSpace", {ShownArgument{0, Shown::kAddress}, ShownArgument{1, Shown::kBytes}}},
    {"MmMapIoSpaceEx", {ShownArgument{0, Shown::kAddress}, ShownArgument{1, Shown::kBytes}}},
    {"RtlCheckRegistryKey", {ShownArgument{1, Shown::kWide}}},
    {"RtlDeleteRegistryValue", {ShownArgument{2, Shown::kWide}}},
    {"RtlQueryRegistryValues", {ShownArgument{2, Shown::kTable}}},
    {"RtlQueryRegistryValuesEx", {ShownArgument{2, Shown::kTable}}},
    {"RtlWriteRegistryValue", {ShownArgument{2, Shown::kWide}}},
    {"ZwCreateFile", {ShownArgument{2, Shown::kAttributes}}},
    {"ZwCreateKey", {ShownArgument{2, Shown::kAttributes}}},
    {"ZwOpenFile", {ShownArgument{2, Shown::kAttributes}}},
    {"ZwOpenKey", {ShownArgument{2, Shown::kAttributes}}},
    {"ZwQueryValueKey", {ShownArgument{1, Shown::kUnicode}}},
    {"ZwSetValueKey", {ShownArgument{1, Shown::kUnicode}}},
};

/// Beginnings of routines that say nothing of why a start fails, and are called often.
constexpr std::string_view kQuiet[] = {
    "DbgPrint",    "vDbgPrint",    "ExAcquire",        "ExRelease",    "Interlocked",
    "KeAcquire",   "KeRelease",    "KeRaiseIrql",      "KeLowerIrql",  "KfRaiseIrql",
    "KfLowerIrql", "KeInitialize", "KeGetCurrentIrql", "KeQueryPerf",  "KeQuerySystemTime",
    "KeQueryTick", "KeMemory",     "RtlAnsi",          "RtlAppend",    "RtlCompare",
    "RtlCopy",     "RtlEqual",     "RtlFill",          "RtlFree",      "RtlInit",
    "RtlString",   "RtlUnicode",   "RtlZero",          "DxgkCbNotify",
};

/// A C routine: no routine of the kernel begins with a small letter or an underscore.
bool is_c_routine(std::string_view name) {
  return name.empty() || name[0] == '_' || (name[0] >= 'a' && name[0] <= 'z');
}

constexpr size_t kNameMost = 128, kPrintedMost = 200;
using Name = std::array<char, kNameMost>;

char plain(char16_t c) { return c >= 0x20 && c < 0x7F ? static_cast<char>(c) : '?'; }

/// As much of a text of the driver as fits; nothing if it cannot be read.
void read_wide(const void* at, size_t units, Name* out) {
  size_t used = 0;
  for (; used < std::min(units, out->size() - 1); ++used) {
    char16_t unit = 0;
    if (!guarded_copy(&unit, static_cast<const char16_t*>(at) + used, sizeof unit) || unit == 0)
      break;
    (*out)[used] = plain(unit);
  }
  (*out)[used] = 0;
}

void read_unicode(const void* string, Name* out) {
  UnicodeString copy{};
  if (guarded_copy(&copy, string, sizeof copy) && copy.length != 0)
    read_wide(copy.buffer, copy.length / sizeof(char16_t), out);
}

const void* pointer_at(uint64_t address, size_t offset) {
  const void* pointer = nullptr;
  const auto* const from = reinterpret_cast<const std::byte*>(address) + offset;
  return guarded_copy(&pointer, from, sizeof pointer) ? pointer : nullptr;
}

void read_name(Shown how, uint64_t argument, Name* out) {
  const auto* const pointer = reinterpret_cast<const void*>(argument);
  constexpr size_t kObjectNameOffset = 16, kTableNameOffset = 16;
  if (argument == 0) return;
  if (how == Shown::kUnicode) read_unicode(pointer, out);
  if (how == Shown::kWide) read_wide(pointer, SIZE_MAX, out);
  if (how == Shown::kAttributes) {
    if (const void* name = pointer_at(argument, kObjectNameOffset)) read_unicode(name, out);
  }
  if (how == Shown::kTable) {
    if (const void* name = pointer_at(argument, kTableNameOffset)) read_wide(name, SIZE_MAX, out);
  }
}

void read_display(uint64_t argument, Name* out) {
  uint32_t sides[2] = {};
  if (argument == 0 || !guarded_copy(sides, reinterpret_cast<const void*>(argument), sizeof sides))
    return;
  if (sides[0] == 0) {
    *fmt::format_to_n(out->data(), out->size() - 1, "no picture").out = 0;
  } else {
    *fmt::format_to_n(out->data(), out->size() - 1, "{}x{}", sides[0], sides[1]).out = 0;
  }
}

std::string bytes_text(uint64_t bytes) {
  constexpr uint64_t kKiB = 1024, kMiB = kKiB * 1024;
  if (bytes >= kMiB && bytes % kMiB == 0) return fmt::format("{} MiB", bytes / kMiB);
  if (bytes >= kKiB && bytes % kKiB == 0) return fmt::format("{} KiB", bytes / kKiB);
  return fmt::format("{} bytes", bytes);
}

std::string status_text(uint32_t status) {
  constexpr std::pair<int32_t, std::string_view> kMore[] = {
      {ntstatus::kBufferOverflow, "STATUS_BUFFER_OVERFLOW"},
      {ntstatus::kNoMoreEntries, "STATUS_NO_MORE_ENTRIES"},
      {ntstatus::kInvalidDeviceRequest, "STATUS_INVALID_DEVICE_REQUEST"},
      {ntstatus::kObjectTypeMismatch, "STATUS_OBJECT_TYPE_MISMATCH"},
      {ntstatus::kObjectPathNotFound, "STATUS_OBJECT_PATH_NOT_FOUND"},
      {ntstatus::kNotFound, "STATUS_NOT_FOUND"}};
  if (const std::string_view name = status_name(static_cast<Status>(status)); !name.empty())
    return std::string(name);
  for (const auto& [value, name] : kMore) {
    if (static_cast<uint32_t>(value) == status) return std::string(name);
  }
  return fmt::format("0x{:08X}", status);
}

std::string answer_text(ResultKind kind, uint64_t answer) {
  switch (kind) {
    case ResultKind::kStatus:
      return "answered " + status_text(static_cast<uint32_t>(answer));
    case ResultKind::kPointer:
      return answer == 0 ? "answered NULL" : "answered an address";
    case ResultKind::kBoolean:
      return fmt::format("answered {}", answer & 0xFF);
    case ResultKind::kNumber:
      return fmt::format("answered {:#x}", answer);
    case ResultKind::kNothing:
    case ResultKind::kUnknown:
      break;
  }
  return "returned";
}

std::string describe(const bus::PciFunction& function) {
  const bus::PciIdentity& id = function.identity();
  std::string text =
      fmt::format("the device is PCI {:04x}:{:04x}, class {:02x}{:02x}{:02x}", id.vendor_id,
                  id.device_id, id.base_class, id.sub_class, id.programming_interface);
  const std::span<const bus::Bar> bars = function.bars();
  bool any = false;
  for (size_t i = 0; i < bars.size(); ++i) {
    if (bars[i].kind == bus::BarKind::kNone) continue;
    const char* const what = bars[i].kind == bus::BarKind::kMemory      ? "memory"
                             : bars[i].kind == bus::BarKind::kRegisters ? "registers"
                                                                        : "ports";
    text += fmt::format("; BAR {} has {} of {}", i, bytes_text(bars[i].size), what);
    any = true;
  }
  if (!any) text += "; it has no BAR";
  text += "; one interrupt line";
  const std::optional<bus::PostDisplay> post = function.peek_post_display();
  if (post.has_value() && post->width != 0) {
    text += fmt::format("; firmware shows {}x{} in BAR {}", post->width, post->height, post->bar);
  } else {
    text += "; firmware shows nothing on it";
  }
  return text;
}

}  // namespace

struct CallLog::Kept {
  struct Call {
    const DoorTarget* target = nullptr;
    std::array<uint64_t, 4> arguments = {};
    uint64_t answer = 0;
    uint64_t number = 0;  // from 1
    uint64_t times = 1;   // the same call with the same answer, again and again
    bool returned = false;
    Name name = {};
    std::string why = {};  // it was refused
  };
  struct Line {
    uint64_t behind = 0;  // the number of the call before it
    std::string text = {};
  };
  static constexpr size_t kCalls = 12, kLines = 12;

  explicit Kept(const Kernel& k) : kernel(k) {}
  Call& call(uint64_t number) { return calls[number % kCalls]; }
  std::string text_of(const Call& call) const;

  const Kernel& kernel;
  const bus::PciFunction* function = nullptr;
  const char* entry = "";
  bool is_image = false;  // the driver, when it was last called
  bool ended = false;
  uint64_t made = 0, printed = 0;
  const char* told_entry = nullptr;  // what lines_of_this_thread() gave last
  uint64_t told_made = 0, told_printed = 0;
  std::array<Call, kCalls> calls;
  std::array<Line, kLines> lines;
};

CallLog::CallLog(const Kernel& kernel)
    : kept_(current() == nullptr ? std::make_unique<Kept>(kernel) : nullptr) {
  if (kept_ == nullptr) return;
  void** const slots = runtime::detail::t_thread_slots;
  if (slots != nullptr) slots[static_cast<size_t>(runtime::ThreadSlot::kCallLog)] = this;
}

CallLog::~CallLog() {
  if (current() == this)
    runtime::detail::t_thread_slots[static_cast<size_t>(runtime::ThreadSlot::kCallLog)] = nullptr;
}

void CallLog::begin_start(const bus::PciFunction* function) {
  CallLog* const log = current();
  if (log == nullptr) return;
  log->kept_->ended = false;
  log->kept_->told_entry = nullptr;
  log->kept_->function = function;
  log->begin("");
}

void CallLog::end_start() {
  if (CallLog* const log = current()) log->kept_->ended = true;
}

void CallLog::begin(const char* entry) {
  if (kept_->ended) return;
  kept_->entry = entry;
  kept_->is_image = kept_->kernel.runs_an_image();
  kept_->made = kept_->printed = 0;
}

uint64_t CallLog::enter(const DoorTarget& target, const DoorFrame& door) {
  if (kept_->ended || target.quiet) return 0;
  const uint64_t number = ++kept_->made;
  Kept::Call& call = kept_->call(number);
  call = {};
  call.target = &target;
  call.number = number;
  std::copy(std::begin(door.call_arguments), std::end(door.call_arguments), call.arguments.begin());
  if (target.shown == nullptr) return number;
  for (const std::optional<ShownArgument>& one : target.shown->arguments) {
    if (one.has_value()) read_name(one->how, call.arguments[one->index], &call.name);
  }
  return number;
}

void CallLog::answered(uint64_t number, uint64_t answer) {
  if (kept_->ended || number == 0 || number > kept_->made) return;
  Kept::Call& call = kept_->call(number);
  if (call.number != number) return;  // it made more calls than are kept
  call.returned = true;
  call.answer = answer;
  const ShownArguments* const shown = call.target->shown;
  if (shown != nullptr && shown->arguments[0]->how == Shown::kDisplay)
    read_display(call.arguments[shown->arguments[0]->index], &call.name);
  // A driver that polls does not push out what came before.
  if (number != kept_->made || number == 1) return;
  Kept::Call& before = kept_->call(number - 1);
  const bool same = before.number == number - 1 && before.returned &&
                    before.target == call.target && before.arguments == call.arguments &&
                    before.answer == answer && before.name == call.name && call.why == before.why;
  if (!same) return;
  ++before.times;
  --kept_->made;
  call = {};
}

void CallLog::printed(std::string_view text) {
  if (kept_->ended) return;
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  Kept::Line& line = kept_->lines[kept_->printed++ % Kept::kLines];
  line.behind = kept_->made;
  line.text.clear();
  for (const char c : text.substr(0, kPrintedMost))
    line.text += plain(static_cast<unsigned char>(c));
}

void CallLog::note(std::string why) {
  CallLog* const log = current();
  const CallFrame* const frame = CallFrame::current_or_null();
  if (log == nullptr || frame == nullptr) return;
  const uint64_t number = frame->logged_call_number();
  if (number == 0 || number > log->kept_->made) return;
  if (Kept::Call& call = log->kept_->call(number); call.number == number) call.why = std::move(why);
}

std::string CallLog::Kept::text_of(const Call& call) const {
  std::string arguments;
  for (size_t i = 0; call.target->shown != nullptr && i < 2; ++i) {
    const std::optional<ShownArgument>& one = call.target->shown->arguments[i];
    if (!one.has_value()) continue;
    const uint64_t value = call.arguments[one->index];
    std::string text;
    switch (one->how) {
      case Shown::kBytes:
        text = bytes_text(value);
        break;
      case Shown::kHighest:
        text = fmt::format("up to {:#x}", value);
        break;
      case Shown::kAddress:
        text = fmt::format("at {:#x}", value);
        break;
      case Shown::kNumber:
        text = fmt::format("{} {:#x}", one->name, static_cast<uint32_t>(value));
        break;
      case Shown::kTag:
        text = "tag '";
        for (int byte = 0; byte < 4; ++byte)
          text += plain(static_cast<unsigned char>(value >> (8 * byte)));
        text += "'";
        break;
      default:
        if (call.name[0] != 0) text = fmt::format("\"{}\"", call.name.data());
        break;
    }
    if (!text.empty()) arguments += (arguments.empty() ? "" : ", ") + text;
  }
  std::string text = fmt::format("{}({})", call.target->name, arguments);
  text += call.returned ? " " + answer_text(call.target->result_kind, call.answer)
                        : std::string(" has not returned");
  if (call.times > 1) text += fmt::format(", {} in a row", counted(call.times, "time"));
  if (!call.why.empty()) text += ": " + call.why;
  return text;
}

std::vector<std::string> CallLog::lines() const {
  std::vector<std::string> out;
  if (kept_ == nullptr || !kept_->is_image || kept_->entry[0] == 0) return out;
  const Kept& kept = *kept_;
  const uint64_t first = kept.made > Kept::kCalls ? kept.made - Kept::kCalls + 1 : 1;
  if (kept.made == 0) {
    out.push_back(fmt::format("{} called no routine that is kept here", kept.entry));
  } else {
    out.push_back(fmt::format("{} made {}{}", kept.entry, counted(kept.made, "call"),
                              first == 1 ? "" : fmt::format(", the last {} were", Kept::kCalls)));
  }
  auto print_up_to = [&, next = kept.printed > Kept::kLines
                                    ? kept.printed - Kept::kLines
                                    : uint64_t{0}](uint64_t number) mutable {
    for (; next < kept.printed; ++next) {
      const Kept::Line& line = kept.lines[next % Kept::kLines];
      if (line.behind > number) return;
      out.push_back(fmt::format("it printed: {}", line.text));
    }
  };
  print_up_to(first - 1);
  for (uint64_t number = first; number <= kept.made; ++number) {
    out.push_back(kept.text_of(kept.calls[number % Kept::kCalls]));
    print_up_to(number);
  }
  if (kept.function != nullptr) out.push_back(describe(*kept.function));
  return out;
}

std::vector<std::string> CallLog::lines_of_this_thread() {
  const CallLog* const log = current();
  if (log == nullptr) return {};
  Kept& kept = *log->kept_;
  kept.told_entry = kept.entry;
  kept.told_made = kept.made;
  kept.told_printed = kept.printed;
  return log->lines();
}

bool CallLog::told() const {
  return kept_ != nullptr && kept_->told_entry == kept_->entry && kept_->told_made == kept_->made &&
         kept_->told_printed == kept_->printed;
}

void prepare_for_log(DoorTarget* target) {
  const std::string_view name = target->name;
  target->quiet = is_c_routine(name) || std::ranges::any_of(kQuiet, [&](std::string_view begin) {
                    return name.starts_with(begin);
                  });
  const auto* const shown = std::ranges::find(kShown, name, &ShownArguments::routine);
  if (shown != std::end(kShown)) target->shown = shown;
  // LONG results of the dispatcher are old states and priorities.
  if (target->result_kind == ResultKind::kStatus && name.starts_with("Ke") &&
      !name.starts_with("KeWait") && !name.starts_with("KeDelay"))
    target->result_kind = ResultKind::kNumber;
}

}  // namespace dxgkit::nt
