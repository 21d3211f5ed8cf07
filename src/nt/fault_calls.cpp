// Faults in our own code while a driver's call is being served. The pointer at fault came from the
// driver, so the fault is the driver's, at its call: an export need not check each pointer.
#include <gnu/libc-version.h>
#include <link.h>

#include <iterator>

#include "base/foreign_code.h"
#include "base/guarded_copy.h"
#include "nt/fault_frame.h"
#include "nt/kernel_impl.h"

namespace dxgkit::nt {
namespace {

/// How far behind an argument a routine may touch memory because of that argument: the size of what
/// it copies.
constexpr uint64_t kReachBytes = uint64_t{16} << 20;
constexpr uint64_t kPageFault = 14;  // the processor's number

struct CodeRange {
  uint64_t low = 0, high = 0;
};

/// The part of a module that holds `function`.
CodeRange code_around(const void* function) {
  CodeRange code{reinterpret_cast<uint64_t>(function), 0};
  dl_iterate_phdr(
      [](dl_phdr_info* module, size_t, void* result) {
        CodeRange& range = *static_cast<CodeRange*>(result);
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const auto& part = module->dlpi_phdr[i];
          const uint64_t low = module->dlpi_addr + part.p_vaddr;
          if (part.p_type != PT_LOAD || range.low - low >= part.p_memsz) continue;
          range = {low, low + part.p_memsz};
          return 1;
        }
        return 0;
      },
      &code);
  return code;
}

bool contains(const CodeRange& code, uint64_t instruction) {
  return instruction >= code.low && instruction < code.high;
}

CodeRange own_code, c_library_code;

bool is_canonical(uint64_t address) {
  return static_cast<uint64_t>(static_cast<int64_t>(address << 16) >> 16) == address;
}

}  // namespace

void prepare_call_faults() {
  own_code = code_around(reinterpret_cast<const void*>(&prepare_call_faults));
  c_library_code = code_around(reinterpret_cast<const void*>(&gnu_get_libc_version));
}

uint32_t find_wrong_argument(const uint64_t (&arguments)[4], uint64_t trap, uint64_t address) {
  uint32_t best = 0;
  for (uint32_t i = 0; i < std::size(arguments); ++i) {
    if (trap != kPageFault) {
      if (!is_canonical(arguments[i])) return i + 1;
      continue;
    }
    // The nearest below. Registers that hold no argument may hold anything, so of equals the first.
    if (address - arguments[i] < kReachBytes && (best == 0 || arguments[i] > arguments[best - 1]))
      best = i + 1;
  }
  return best;
}

CallFrame* find_faulting_call(CallFrame& frame, uint64_t instruction, uint64_t trap,
                              uint64_t address) {
  if (t_in_foreign_code || in_guarded_copy(reinterpret_cast<const void*>(instruction)))
    return nullptr;
  CallFrame* caller = &frame;
  while (caller != nullptr && (!caller->in_door() || caller->door().callee == nullptr))
    caller = caller->previous();
  if (caller == nullptr) return nullptr;
  if (contains(own_code, instruction)) return caller;
  // The C library copies, and it also fails because a heap was overwritten before.
  if (!contains(c_library_code, instruction)) return nullptr;
  const uint32_t wrong = find_wrong_argument(caller->door().call_arguments, trap, address);
  return wrong != 0 ? caller : nullptr;
}

}  // namespace dxgkit::nt
