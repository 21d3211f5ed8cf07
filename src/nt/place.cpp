// Says where driver code stands, for findings.
#include <fmt/format.h>
#include <ucontext.h>

#include "base/guarded_copy.h"
#include "nt/kernel_impl.h"
#include "nt/seh.h"
#include "nt/unwind.h"

namespace dxgkit::nt {
namespace {

constexpr size_t kFramesShown = 16;
/// How far up a stack without unwind data is searched for return addresses.
constexpr uint64_t kWordsSearched = 512;

std::string describe(const DriverImage& image, uint64_t address) {
  const uint64_t rva = address - reinterpret_cast<uint64_t>(image.base);
  std::string text = fmt::format("{}+{:#x}", image.name, rva);
  if (image.symbol) {
    if (const std::string symbol = image.symbol(rva); !symbol.empty()) text += " " + symbol;
  }
  return text;
}

std::string describe_registers(const Context& c) {
  return fmt::format(
      "rip={:x} rsp={:x} rax={:x} rbx={:x} rcx={:x} rdx={:x} rsi={:x} rdi={:x} rbp={:x} r8={:x} "
      "r9={:x} r10={:x} r11={:x} r12={:x} r13={:x} r14={:x} r15={:x} efl={:x}",
      c.rip, c.rsp, c.rax, c.rbx, c.rcx, c.rdx, c.rsi, c.rdi, c.rbp, c.r8, c.r9, c.r10, c.r11,
      c.r12, c.r13, c.r14, c.r15, c.eflags);
}

/// Does the code before `address` end in a call?
bool follows_call(uint64_t address) {
  uint8_t code[7];
  if (!guarded_copy(code, reinterpret_cast<const void*>(address - sizeof(code)), sizeof(code)))
    return false;
  if (code[2] == 0xE8) return true;                              // call rel32
  if (code[1] == 0xFF && (code[2] & 0xF8) == 0x90) return true;  // call [reg + disp32]
  if (code[1] == 0xFF && code[2] == 0x15) return true;           // call [rip + disp32]
  if (code[4] == 0xFF && (code[5] & 0xF8) == 0x50) return true;  // call [reg + disp8]
  return code[5] == 0xFF && ((code[6] & 0xF8) == 0xD0 || (code[6] & 0xF8) == 0x10);
}

/// Callers in an image without unwind data: values on the stack that look like return addresses.
void guess_frames(const Kernel::Impl& state, const Context& start,
                  std::vector<std::string>* frames) {
  for (uint64_t word = 0; word < kWordsSearched && frames->size() < kFramesShown; ++word) {
    uint64_t value = 0;
    if (!guarded_copy(&value, reinterpret_cast<const void*>(start.rsp + 8 * word), sizeof(value)))
      return;
    const DriverImage* image = find_image(state, value);
    if (image == nullptr || !follows_call(value)) continue;
    frames->push_back(describe(*image, value) + " (found on the stack)");
  }
}

}  // namespace

bool step_back(const Kernel::Impl& state, Context* context) {
  uint64_t back = 0;
  if (!guarded_copy(&back, reinterpret_cast<const void*>(context->rsp), sizeof(back)) ||
      find_image(state, back) == nullptr || !follows_call(back))
    return false;
  context->rip = back;
  context->rsp += sizeof(back);
  return true;
}

verifier::Place describe_place(const Kernel::Impl& state, const Context& context) {
  verifier::Place place;
  place.registers = describe_registers(context);
  Context start = context;
  if (find_image(state, context.rip) == nullptr && !in_lent_code(context.rip) &&
      !in_stack_probe(context.rip))
    place.after_call = step_back(state, &start);
  FrameWalker walker(state, start, nullptr);
  bool first = true;
  for (size_t frames = 0; frames < kFramesShown; ++frames) {
    const bool driver_frame = walker.settle();
    const DriverImage* image = walker.image;
    if (image == nullptr) break;
    const uint64_t pc = walker.context.rip;
    if (first) {
      place.image = image->name;
      place.rva = pc - reinterpret_cast<uint64_t>(image->base);
      place.path = image->path;
      if (image->symbol) place.symbol = image->symbol(place.rva);
      first = false;
    }
    place.stack.push_back(describe(*image, pc));
    if (!driver_frame) {
      guess_frames(state, walker.context, &place.stack);
      break;
    }
    UnwoundFrame unwound;
    if (!walker.leave(0, &unwound)) break;
  }
  return place;
}

StoppedCall stopped_call(const void* context) {
  const CallFrame* frame = CallFrame::current_or_null();
  StoppedCall stopped;
  if (frame == nullptr) return stopped;
  stopped.ddi = frame->name();
  const Kernel::Impl& state = frame->kernel().impl();
  const auto found = [&](uint64_t address) {
    const DriverImage* image = find_image(state, address);
    if (image == nullptr) return false;
    stopped.image = image->name.c_str();
    stopped.path = image->path.c_str();
    stopped.rva = address - reinterpret_cast<uint64_t>(image->base);
    return true;
  };
  const greg_t* const registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  if (found(static_cast<uint64_t>(registers[REG_RIP]))) return stopped;
  if (frame->in_door()) {
    if (frame->door().callee != nullptr) stopped.import = frame->door().callee->name;
    found(frame->door().rip);
    return stopped;
  }
  const auto stack = static_cast<uint64_t>(registers[REG_RSP]);
  for (uint64_t word = 0; word < kWordsSearched; ++word) {
    uint64_t value = 0;
    if (!guarded_copy(&value, reinterpret_cast<const void*>(stack + 8 * word), sizeof(value)))
      break;
    if (follows_call(value) && found(value)) break;
  }
  return stopped;
}

}  // namespace dxgkit::nt
