// Faults in our own code while a driver's call is being served. The pointer at fault came from the
// driver, so the fault is the driver's, at its call: an export need not check each pointer.
#include <link.h>

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

/// The executable part of the module that holds this function.
CodeRange find_own_code() {
  CodeRange own;
  dl_iterate_phdr(
      [](dl_phdr_info* module, size_t, void* result) {
        const auto here = reinterpret_cast<uint64_t>(&find_own_code);
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          const auto& part = module->dlpi_phdr[i];
          const uint64_t low = module->dlpi_addr + part.p_vaddr;
          if (part.p_type != PT_LOAD || here - low >= part.p_memsz) continue;
          *static_cast<CodeRange*>(result) = {low, low + part.p_memsz};
          return 1;
        }
        return 0;
      },
      &own);
  return own;
}

CodeRange own_code;

bool is_canonical(uint64_t address) {
  return static_cast<uint64_t>(static_cast<int64_t>(address << 16) >> 16) == address;
}

}  // namespace

void prepare_call_faults() { own_code = find_own_code(); }

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
  if (in_guarded_copy(reinterpret_cast<const void*>(instruction))) return nullptr;
  CallFrame* caller = &frame;
  while (caller != nullptr && (!caller->in_door() || caller->door().callee == nullptr))
    caller = caller->previous();
  if (caller == nullptr) return nullptr;
  // Other libraries fail for reasons of their own, such as a heap that was overwritten before.
  const bool is_ours = instruction >= own_code.low && instruction < own_code.high;
  if (!is_ours && find_wrong_argument(caller->door().call_arguments, trap, address) == 0) return nullptr;
  return caller;
}

}  // namespace dxgkit::nt
