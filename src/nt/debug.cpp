// The driver's debug output, assertions and bug checks.
#include <fmt/format.h>

#include <string>

#include "nt/format.h"
#include "nt/kernel_impl.h"
#include "nt/nt_status.h"
#include "trace/trace.h"

extern "C" void dxgkit_nt_chkstk();

namespace dxgkit::nt {
namespace {

void print(const std::string& text) {
  const KernelConfig& config = CallFrame::current().kernel().config();
  if (trace::Recorder* recorder = trace::current()) {
    recorder->record(trace::EventKind::kMarker, recorder->name_id(text));
  }
  if (config.debug_print) config.debug_print(text);
  if (CallLog* const log = CallLog::current()) log->printed(text);
}

bool wanted() {
  return trace::current() != nullptr || CallLog::current() != nullptr ||
         CallFrame::current().kernel().config().debug_print != nullptr;
}

DXGKIT_NT_ABI int32_t dbg_print_ex(uint32_t, uint32_t, const char* format, ...) {
  if (!wanted()) return ntstatus::kSuccess;
  __builtin_ms_va_list arguments;
  __builtin_ms_va_start(arguments, format);
  print(format_narrow(format, reinterpret_cast<const char*>(arguments)));
  __builtin_ms_va_end(arguments);
  return ntstatus::kSuccess;
}
DXGKIT_NT_ABI int32_t dbg_print(const char* format, ...) {
  if (!wanted()) return ntstatus::kSuccess;
  __builtin_ms_va_list arguments;
  __builtin_ms_va_start(arguments, format);
  print(format_narrow(format, reinterpret_cast<const char*>(arguments)));
  __builtin_ms_va_end(arguments);
  return ntstatus::kSuccess;
}
DXGKIT_NT_ABI int32_t v_dbg_print_ex(uint32_t, uint32_t, const char* format, char* arguments) {
  if (wanted()) print(format_narrow(format, arguments));
  return ntstatus::kSuccess;
}
DXGKIT_NT_ABI int32_t v_dbg_print_ex_with_prefix(const char* prefix, uint32_t, uint32_t,
                                                 const char* format, char* arguments) {
  if (wanted()) print(prefix + format_narrow(format, arguments));
  return ntstatus::kSuccess;
}
DXGKIT_NT_ABI uint32_t dbg_prompt(const char*, char*, uint32_t) { return 0; }

[[noreturn]] void die(const char* function, uint32_t code, uint64_t p1, uint64_t p2, uint64_t p3,
                      uint64_t p4) {
  CallFrame::current().kernel().bug_check(
      "NT-21", function, code, static_cast<uint32_t>(p1),
      fmt::format("The driver stopped the machine itself with bug check {:#x} ({:#x}, {:#x}, "
                  "{:#x}, {:#x}).",
                  code, p1, p2, p3, p4),
      "A driver reports failures through statuses; the machine goes on.",
      "Look at the driver code that called it.");
}

DXGKIT_NT_ABI void ke_bug_check_ex(uint32_t code, uint64_t p1, uint64_t p2, uint64_t p3,
                                   uint64_t p4) {
  die("KeBugCheckEx", code, p1, p2, p3, p4);
}
DXGKIT_NT_ABI void ke_bug_check(uint32_t code) { die("KeBugCheck", code, 0, 0, 0, 0); }
DXGKIT_NT_ABI void purecall() { die("_purecall", 0x1E, 0, 0, 0, 0); }
DXGKIT_NT_ABI void dbg_break_point() {
  CallFrame::current().kernel().bug_check(
      "NT-06", "DbgBreakPoint", 0x7E, 0x80000003, "The driver ran into a breakpoint.",
      "Without a debugger a breakpoint is an unhandled exception.",
      "Ask KdDebuggerNotPresent first, or take the breakpoint out.");
}
DXGKIT_NT_ABI void dbg_break_point_with_status(uint32_t) { dbg_break_point(); }
DXGKIT_NT_ABI void rtl_assert(const char* assertion, const char* file, uint32_t line,
                              const char* message) {
  CallFrame::current().kernel().violation(
      "NT-05", "RtlAssert",
      fmt::format("The driver's assertion failed: {} ({}:{}){}{}.",
                  assertion == nullptr ? "?" : assertion, file == nullptr ? "?" : file, line,
                  message == nullptr ? "" : ", ", message == nullptr ? "" : message),
      "What a driver asserts holds.", "Look at the code around the assertion.");
}
DXGKIT_NT_ABI int32_t dbg_query_filter(uint32_t, uint32_t) { return 1; }
DXGKIT_NT_ABI int32_t dbg_set_filter(uint32_t, uint32_t, uint8_t) {
  return static_cast<int32_t>(0xC00000BB);
}
DXGKIT_NT_ABI uint8_t kd_refresh_debugger_not_present() { return 1; }

const uint8_t kd_debugger_enabled = 0;
const uint8_t kd_debugger_not_present = 1;

}  // namespace

std::span<const Export> debug_exports() {
  static const Export kTable[] = {
      DXGKIT_EXPORT("DbgBreakPoint", dbg_break_point, kSupported, ""),
      DXGKIT_EXPORT("DbgBreakPointWithStatus", dbg_break_point_with_status, kSupported, ""),
      DXGKIT_EXPORT("DbgPrintReturnControlC", dbg_print, kPartial, "levels are not filtered"),
      DXGKIT_EXPORT("DbgQueryDebugFilterState", dbg_query_filter, kPartial,
                    "levels are not filtered"),
      DXGKIT_EXPORT("DbgSetDebugFilterState", dbg_set_filter, kRefused, "levels are not filtered"),
      DXGKIT_EXPORT("RtlAssert", rtl_assert, kSupported, ""),
      DXGKIT_EXPORT("DbgPrint", dbg_print, kSupported, ""),
      DXGKIT_EXPORT("DbgPrintEx", dbg_print_ex, kPartial, "levels are not filtered"),
      DXGKIT_EXPORT("DbgPrompt", dbg_prompt, kPartial, "answers with an empty line"),
      {"KdDebuggerEnabled", &kd_debugger_enabled, Support::kSupported, "", 1},
      {"KdDebuggerNotPresent", &kd_debugger_not_present, Support::kSupported, "", 1},
      DXGKIT_EXPORT("KdRefreshDebuggerNotPresent", kd_refresh_debugger_not_present, kSupported, ""),
      DXGKIT_EXPORT("KeBugCheck", ke_bug_check, kSupported, ""),
      DXGKIT_EXPORT("KeBugCheckEx", ke_bug_check_ex, kSupported, ""),
      DXGKIT_EXPORT("__chkstk", dxgkit_nt_chkstk, kSupported, ""),
      DXGKIT_EXPORT("_purecall", purecall, kSupported, ""),
      DXGKIT_EXPORT("vDbgPrintEx", v_dbg_print_ex, kPartial, "levels are not filtered"),
      DXGKIT_EXPORT("vDbgPrintExWithPrefix", v_dbg_print_ex_with_prefix, kPartial,
                    "levels are not filtered"),
  };
  return kTable;
}

}  // namespace dxgkit::nt
