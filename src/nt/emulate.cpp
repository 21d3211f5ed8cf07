#include "nt/emulate.h"

#include <Zydis/Zydis.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/guarded_copy.h"
#include "nt/kernel_impl.h"
#include "nt/system_data.h"

extern "C" {
void dxgkit_nt_run_stub(uint64_t* registers, const void* code, void* area, uint64_t components);
extern const char dxgkit_nt_stub_back[];
}

namespace dxgkit::nt {
namespace {

struct Decoded {
  ZydisDecodedInstruction instruction;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
  std::array<uint8_t, ZYDIS_MAX_INSTRUCTION_LENGTH> bytes;
};

/// Code may end with its page.
bool read_code(uint64_t at, std::array<uint8_t, ZYDIS_MAX_INSTRUCTION_LENGTH>* bytes) {
  bytes->fill(0);
  const auto* const code = reinterpret_cast<const void*>(at);
  if (guarded_copy(bytes->data(), code, bytes->size())) return true;
  const size_t to_page_end = 4096 - at % 4096;
  return to_page_end < bytes->size() && guarded_copy(bytes->data(), code, to_page_end);
}

bool decode(uint64_t at, Decoded* decoded) {
  if (!read_code(at, &decoded->bytes)) return false;
  ZydisDecoder decoder;
  if (!ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
    return false;
  return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, decoded->bytes.data(), decoded->bytes.size(),
                                             &decoded->instruction, decoded->operands.data()));
}

/// The number of a general register's 64-bit form (0 rax .. 15 r15), or nothing.
std::optional<size_t> general_number(ZydisRegister name) {
  const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, name);
  if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15) return std::nullopt;
  return static_cast<size_t>(whole - ZYDIS_REGISTER_RAX);
}

/// The target of a memory operand, without the base of gs: our answers are there.
uint64_t effective_address(const Decoded& decoded, const ZydisDecodedOperand& operand,
                           Context& context) {
  const ZydisDecodedOperandMem& memory = operand.mem;
  auto address = static_cast<uint64_t>(memory.disp.has_displacement != 0 ? memory.disp.value : 0);
  if (memory.base == ZYDIS_REGISTER_RIP) {
    address += context.rip + decoded.instruction.length;
  } else if (const auto base = general_number(memory.base)) {
    address += context.general(*base);
  }
  if (const auto index = general_number(memory.index))
    address += context.general(*index) * memory.scale;
  return decoded.instruction.address_width == 32 ? static_cast<uint32_t>(address) : address;
}

enum class Where { kOrdinary, kSharedData, kProcessorData, kRegisters };

struct Place {
  Where where = Where::kOrdinary;
  uint64_t offset = 0;  // in system data; the address itself for registers
};

Place place_of_address(CallFrame& frame, uint64_t address, bool through_gs) {
  if (through_gs)
    return {address < kSystemDataBytes ? Where::kProcessorData : Where::kOrdinary, address};
  if (address - kSharedDataAddress < kSystemDataBytes)
    return {Where::kSharedData, address - kSharedDataAddress};
  if (address - kProcessorDataAddress < kSystemDataBytes)
    return {Where::kProcessorData, address - kProcessorDataAddress};
  if (frame.kernel().machine().is_register(reinterpret_cast<const volatile void*>(address)))
    return {Where::kRegisters, address};
  return {};
}

void load(CallFrame& frame, const Place& place, uint64_t bytes, void* out) {
  switch (place.where) {
    case Where::kSharedData:
      return read_shared_data(frame, place.offset, bytes, out);
    case Where::kProcessorData:
      return read_processor_data(frame, place.offset, bytes, out);
    case Where::kRegisters:
      for (uint64_t done = 0; done < bytes;) {
        const auto part = static_cast<uint32_t>(std::min<uint64_t>(bytes - done, 8));
        const uint64_t value = frame.kernel().machine().read_register(
            reinterpret_cast<const volatile void*>(place.offset + done), part);
        std::memcpy(static_cast<std::byte*>(out) + done, &value, part);
        done += part;
      }
      return;
    case Where::kOrdinary:
      return;
  }
}

void store(CallFrame& frame, const Place& place, uint64_t bytes, const void* from) {
  for (uint64_t done = 0; done < bytes;) {
    const auto part = static_cast<uint32_t>(std::min<uint64_t>(bytes - done, 8));
    uint64_t value = 0;
    std::memcpy(&value, static_cast<const std::byte*>(from) + done, part);
    frame.kernel().machine().write_register(reinterpret_cast<volatile void*>(place.offset + done),
                                            part, value);
    done += part;
  }
}

bool is_bus_size(uint64_t bytes) {
  return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16 || bytes == 32 ||
         bytes == 64;
}

uint64_t sign_extended(uint64_t value, uint32_t bits) {
  return bits >= 64
             ? value
             : static_cast<uint64_t>(static_cast<int64_t>(value << (64 - bits)) >> (64 - bits));
}

/// Writes a register operand as the processor does: 32 bits clear the upper half, 8 and 16 keep the
/// rest.
void write_general(Context& context, ZydisRegister name, uint32_t bits, uint64_t value) {
  uint64_t& whole = context.general(*general_number(name));
  if (bits == 64) {
    whole = value;
  } else if (bits == 32) {
    whole = static_cast<uint32_t>(value);
  } else if (bits == 16) {
    whole = (whole & ~uint64_t{0xFFFF}) | (value & 0xFFFF);
  } else if (name >= ZYDIS_REGISTER_AH && name <= ZYDIS_REGISTER_BH) {
    whole = (whole & ~uint64_t{0xFF00}) | (value & 0xFF) << 8;
  } else {
    whole = (whole & ~uint64_t{0xFF}) | (value & 0xFF);
  }
}

/// The port that `in` or `out` names: DX, or a constant of 8 bits.
uint64_t port_of(const ZydisDecodedOperand& operand, const Context& context) {
  return operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? operand.imm.value.u : context.rdx & 0xFFFF;
}

/// mov, movzx, movsx and movsxd from an emulated address to a general register.
bool do_plain_load(CallFrame& frame, const Decoded& decoded, const Place& place, Context& context) {
  const ZydisDecodedOperand& to = decoded.operands[0];
  const ZydisDecodedOperand& from = decoded.operands[1];
  const ZydisMnemonic name = decoded.instruction.mnemonic;
  const bool extends_sign = name == ZYDIS_MNEMONIC_MOVSX || name == ZYDIS_MNEMONIC_MOVSXD;
  if (name != ZYDIS_MNEMONIC_MOV && name != ZYDIS_MNEMONIC_MOVZX && !extends_sign) return false;
  if (to.type != ZYDIS_OPERAND_TYPE_REGISTER || from.type != ZYDIS_OPERAND_TYPE_MEMORY)
    return false;
  if (!general_number(to.reg.value)) return false;
  uint64_t value = 0;
  load(frame, place, from.size / 8, &value);
  write_general(context, to.reg.value, to.size,
                extends_sign ? sign_extended(value, from.size) : value);
  return true;
}

/// mov of a general register or a constant to a register of a device.
bool do_plain_store(CallFrame& frame, const Decoded& decoded, const Place& place,
                    Context& context) {
  const ZydisDecodedOperand& to = decoded.operands[0];
  const ZydisDecodedOperand& from = decoded.operands[1];
  if (decoded.instruction.mnemonic != ZYDIS_MNEMONIC_MOV) return false;
  if (to.type != ZYDIS_OPERAND_TYPE_MEMORY) return false;
  uint64_t value = 0;
  if (from.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
    value = from.imm.value.u;
  } else if (from.type == ZYDIS_OPERAND_TYPE_REGISTER && general_number(from.reg.value)) {
    value = context.general(*general_number(from.reg.value));
    if (from.reg.value >= ZYDIS_REGISTER_AH && from.reg.value <= ZYDIS_REGISTER_BH) value >>= 8;
  } else {
    return false;
  }
  store(frame, place, to.size / 8, &value);
  return true;
}

bool is_vector(ZydisRegister name) {
  switch (ZydisRegisterGetClass(name)) {
    case ZYDIS_REGCLASS_X87:
    case ZYDIS_REGCLASS_MMX:
    case ZYDIS_REGCLASS_XMM:
    case ZYDIS_REGCLASS_YMM:
    case ZYDIS_REGCLASS_ZMM:
    case ZYDIS_REGCLASS_MASK:
      return true;
    default:
      return false;
  }
}

/// Any other instruction with one memory operand: runs a copy of it whose operand is a buffer,
/// with the driver's registers. Null: it cannot be copied.
const void* stub_for(Kernel::Impl& state, const Decoded& decoded, size_t memory_operand,
                     size_t scratch) {
  EmulatorStubs& stubs = state.emulator;
  const runtime::MutexLock lock(stubs.lock);
  const std::string key(reinterpret_cast<const char*>(decoded.bytes.data()),
                        decoded.instruction.length);
  if (const auto known = stubs.code.find(key); known != stubs.code.end()) return known->second;
  ZydisEncoderRequest request;
  if (!ZYAN_SUCCESS(ZydisEncoderDecodedInstructionToEncoderRequest(
          &decoded.instruction, decoded.operands.data(), decoded.instruction.operand_count_visible,
          &request)))
    return nullptr;
  request.prefixes = static_cast<ZydisInstructionAttributes>(request.prefixes &
                                                             ~uint64_t{ZYDIS_ATTRIB_HAS_SEGMENT});
  request.address_size_hint = ZYDIS_ADDRESS_SIZE_HINT_64;
  auto& memory = request.operands[memory_operand].mem;
  memory.base = static_cast<ZydisRegister>(ZYDIS_REGISTER_RAX + static_cast<int>(scratch));
  memory.index = ZYDIS_REGISTER_NONE;
  memory.scale = 0;
  memory.displacement = 0;
  std::array<uint8_t, 32> code{};
  ZyanUSize length = ZYDIS_MAX_INSTRUCTION_LENGTH;
  if (!ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(&request, code.data(), &length))) return nullptr;
  // jmp [rip]: back to dxgkit_nt_run_stub.
  const uint8_t jump[] = {0xFF, 0x25, 0, 0, 0, 0};
  const auto back = reinterpret_cast<uint64_t>(dxgkit_nt_stub_back);
  std::memcpy(code.data() + length, jump, sizeof(jump));
  std::memcpy(code.data() + length + sizeof(jump), &back, sizeof(back));
  if (stubs.blocks.empty() || stubs.blocks.back()->room() < code.size())
    stubs.blocks.push_back(std::make_unique<DoorBlock>());
  const void* const stub = stubs.blocks.back()->add_code(code);
  stubs.code.emplace(key, stub);
  return stub;
}

bool run_copy(CallFrame& frame, const Decoded& decoded, size_t memory_operand, const Place& place,
              FaultFrame& fault) {
  const ZydisDecodedInstruction& instruction = decoded.instruction;
  const ZydisDecodedOperand& operand = decoded.operands[memory_operand];
  const uint64_t bytes = operand.size / 8;
  if (!is_bus_size(bytes)) return false;
  if (instruction.meta.category == ZYDIS_CATEGORY_CALL ||
      instruction.meta.category == ZYDIS_CATEGORY_UNCOND_BR)
    return false;
  // A register that the instruction does not name, out of those that need no prefix.
  uint32_t used = 1U << 4;
  bool vectors = false;
  for (size_t i = 0; i < instruction.operand_count; ++i) {
    const ZydisDecodedOperand& each = decoded.operands[i];
    if (i != memory_operand && each.type == ZYDIS_OPERAND_TYPE_MEMORY) return false;
    if (each.type != ZYDIS_OPERAND_TYPE_REGISTER) continue;
    vectors = vectors || is_vector(each.reg.value);
    if (const auto number = general_number(each.reg.value)) {
      if (*number == 4) return false;  // the copy runs on another stack
      used |= 1U << *number;
    }
  }
  if (vectors && fault.components == 0) return false;
  size_t scratch = 0;
  while ((used >> scratch & 1) != 0) ++scratch;
  if (scratch > 7) return false;
  const void* const stub = stub_for(frame.kernel().impl(), decoded, memory_operand, scratch);
  if (stub == nullptr) return false;
  alignas(64) std::array<std::byte, 64> buffer{};
  const bool reads = (operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
  const bool writes = (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
  if (reads) load(frame, place, bytes, buffer.data());
  // Flags, then rax to r15 without rsp.
  Context& context = fault.context;
  std::array<uint64_t, 16> registers{};
  registers[0] = (context.eflags & 0x8D5) | 0x202;
  for (size_t number = 0, at = 1; number < 16; ++number) {
    if (number != 4) registers[at++] = context.general(number);
  }
  const size_t scratch_at = scratch < 4 ? scratch + 1 : scratch;
  registers[scratch_at] = reinterpret_cast<uint64_t>(buffer.data());
  dxgkit_nt_run_stub(registers.data(), stub, vectors ? fault.area() : nullptr, fault.components);
  registers[scratch_at] = context.general(scratch);
  for (size_t number = 0, at = 1; number < 16; ++number) {
    if (number != 4) context.general(number) = registers[at++];
  }
  context.eflags =
      static_cast<uint32_t>((context.eflags & ~uint64_t{0x8D5}) | (registers[0] & 0x8D5));
  if (writes) store(frame, place, bytes, buffer.data());
  return true;
}

/// movs, stos and lods, with or without rep. At a bad address the registers show the progress so
/// far, as on the processor. False: *record has the exception.
bool do_string(CallFrame& frame, const Decoded& decoded, Context& context,
               ExceptionRecord* record) {
  const ZydisMnemonic name = decoded.instruction.mnemonic;
  const uint64_t bytes = decoded.operands[0].size / 8;
  const bool repeats = (decoded.instruction.attributes & ZYDIS_ATTRIB_HAS_REP) != 0;
  const bool loads = name != ZYDIS_MNEMONIC_STOSB && name != ZYDIS_MNEMONIC_STOSW &&
                     name != ZYDIS_MNEMONIC_STOSD && name != ZYDIS_MNEMONIC_STOSQ;
  const bool to_register = name == ZYDIS_MNEMONIC_LODSB || name == ZYDIS_MNEMONIC_LODSW ||
                           name == ZYDIS_MNEMONIC_LODSD || name == ZYDIS_MNEMONIC_LODSQ;
  const uint64_t step = (context.eflags & 0x400) != 0 ? uint64_t{0} - bytes : bytes;
  const auto bad = [&](uint64_t kind, uint64_t address) {
    record->code = kStatusAccessViolation;
    record->parameter_count = 2;
    record->parameters[0] = kind;
    record->parameters[1] = address;
    return false;
  };
  while (!repeats || context.rcx != 0) {
    uint64_t value = context.rax;
    if (loads) {
      const Place from = place_of_address(frame, context.rsi, false);
      if (from.where != Where::kOrdinary) {
        load(frame, from, bytes, &value);
      } else if (!guarded_copy(&value, reinterpret_cast<const void*>(context.rsi), bytes)) {
        return bad(0, context.rsi);
      }
    }
    if (to_register) {
      write_general(context, ZYDIS_REGISTER_RAX, static_cast<uint32_t>(bytes) * 8, value);
    } else {
      const Place to = place_of_address(frame, context.rdi, false);
      if (to.where == Where::kRegisters) {
        store(frame, to, bytes, &value);
      } else if (to.where != Where::kOrdinary ||
                 !guarded_copy(reinterpret_cast<void*>(context.rdi), &value, bytes)) {
        return bad(1, context.rdi);
      }
      context.rdi += step;
    }
    if (loads) context.rsi += step;
    if (!repeats) break;
    --context.rcx;
  }
  context.rip += decoded.instruction.length;
  return true;
}

bool is_string(ZydisMnemonic name) {
  switch (name) {
    case ZYDIS_MNEMONIC_MOVSB:
    case ZYDIS_MNEMONIC_MOVSW:
    case ZYDIS_MNEMONIC_MOVSD:
    case ZYDIS_MNEMONIC_MOVSQ:
    case ZYDIS_MNEMONIC_STOSB:
    case ZYDIS_MNEMONIC_STOSW:
    case ZYDIS_MNEMONIC_STOSD:
    case ZYDIS_MNEMONIC_STOSQ:
    case ZYDIS_MNEMONIC_LODSB:
    case ZYDIS_MNEMONIC_LODSW:
    case ZYDIS_MNEMONIC_LODSD:
    case ZYDIS_MNEMONIC_LODSQ:
      return true;
    default:
      return false;
  }
}

/// A finding about the instruction the driver stands at.
verifier::Finding instruction_finding(CallFrame& frame, const Context& context, const char* rule) {
  verifier::Finding finding;
  finding.rule = rule;
  finding.ddi = frame.name();
  finding.place = describe_place(frame.kernel().impl(), context);
  return finding;
}

std::string where_text(const verifier::Finding& finding) {
  return finding.place.stack.empty() ? std::string("an unknown place") : finding.place.stack[0];
}

[[noreturn]] void refuse(CallFrame& frame, const Context& context, const char* instruction) {
  verifier::Finding finding = instruction_finding(frame, context, "NT-24");
  finding.actual = fmt::format("{} executed {} at {}, which cannot be answered in a process.",
                               frame.name(), instruction, where_text(finding));
  finding.expected = "A display miniport leaves the processor's own state to the kernel.";
  finding.fix = "Use the kernel's routine for it.";
  finding.windows =
      "The instruction works there; the driver stops here because this kernel has "
      "no answer to it.";
  finding.confidence = verifier::Confidence::kInferred;
  frame.kernel().bug_check(std::move(finding));
}

void note_skipped(CallFrame& frame, const Context& context, const char* instruction) {
  verifier::Finding finding = instruction_finding(frame, context, "NT-24");
  finding.severity = verifier::Severity::kWarning;
  finding.actual = fmt::format("{} executed {} at {}; it has no effect here.", frame.name(),
                               instruction, where_text(finding));
  finding.expected = "A display miniport masks interrupts by raising the IRQL.";
  finding.fix = "Use KeRaiseIrql, or a spin lock.";
  finding.confidence = verifier::Confidence::kInferred;
  frame.kernel().findings().report(std::move(finding));
}

[[noreturn]] void report_fast_fail(CallFrame& frame, const Context& context) {
  const auto code = static_cast<uint32_t>(context.rcx);
  verifier::Finding finding = instruction_finding(frame, context, "NT-04");
  finding.actual = fmt::format("{} failed fast (int 29h) with code {} at {}.", frame.name(), code,
                               where_text(finding));
  finding.expected = "The driver's checks of its own memory find nothing wrong.";
  finding.fix = code == 2   ? "A local buffer was written beyond its end: look at this function."
                : code == 3 ? "A list entry was removed twice, or its memory was overwritten."
                            : "Look at the check that failed.";
  finding.bugcheck_code = 0x139;
  finding.bugcheck_parameter = code;
  frame.kernel().bug_check(std::move(finding));
}

void report_assertion(CallFrame& frame, const Context& context) {
  verifier::Finding finding = instruction_finding(frame, context, "NT-05");
  finding.severity = verifier::Severity::kViolation;
  finding.actual = fmt::format("An assertion of the driver failed in {} at {}.", frame.name(),
                               where_text(finding));
  finding.expected = "Assertions hold.";
  finding.fix = "Look at the condition of the assertion.";
  frame.kernel().findings().report(std::move(finding));
}

/// mov to and from cr8: the IRQL.
bool do_irql(CallFrame& frame, const Decoded& decoded, Context& context, ExceptionRecord* record) {
  const ZydisDecodedOperand& to = decoded.operands[0];
  const ZydisDecodedOperand& from = decoded.operands[1];
  if (from.reg.value == ZYDIS_REGISTER_CR8) {
    context.general(*general_number(to.reg.value)) = frame.irql();
    return true;
  }
  const uint64_t level = context.general(*general_number(from.reg.value));
  if (level > kHighLevel) {
    record->code = kStatusPrivileged;
    return false;
  }
  const auto irql = static_cast<Irql>(level);
  if (irql >= frame.irql()) {
    frame.raise(irql);
  } else {
    frame.lower(irql);
  }
  return true;
}

}  // namespace

bool emulate_quickly(CallFrame& frame, greg_t* registers, uint64_t address) {
  static constexpr int kNumbers[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                     REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                     REG_R12, REG_R13, REG_R14, REG_R15};
  const auto rip = static_cast<uint64_t>(registers[REG_RIP]);
  // mov r64, cr8
  uint8_t code[4];
  if (!guarded_copy(code, reinterpret_cast<const void*>(rip), sizeof(code))) return false;
  if ((code[0] & 0xFE) == 0x44 && code[1] == 0x0F && code[2] == 0x20 && code[3] >> 3 == 0x18) {
    registers[kNumbers[(code[3] & 7) | (code[0] & 1) << 3]] = frame.irql();
    registers[REG_RIP] += 4;
    return true;
  }
  const bool system_data = address - kSharedDataAddress < kSystemDataBytes ||
                           address - kProcessorDataAddress < kSystemDataBytes;
  if (!system_data && address >= kSystemDataBytes) return false;
  Decoded decoded;
  if (!decode(rip, &decoded)) return false;
  Context context;
  for (size_t i = 0; i < std::size(kNumbers); ++i)
    context.general(i) = static_cast<uint64_t>(registers[kNumbers[i]]);
  context.rip = rip;
  const ZydisDecodedOperand& from = decoded.operands[1];
  if (decoded.instruction.operand_count_visible != 2 || from.type != ZYDIS_OPERAND_TYPE_MEMORY)
    return false;
  const Place place = place_of_address(frame, effective_address(decoded, from, context),
                                       from.mem.segment == ZYDIS_REGISTER_GS);
  if (place.where != Where::kSharedData && place.where != Where::kProcessorData) return false;
  if (!do_plain_load(frame, decoded, place, context)) return false;
  for (size_t i = 0; i < std::size(kNumbers); ++i)
    registers[kNumbers[i]] = static_cast<greg_t>(context.general(i));
  registers[REG_RIP] += decoded.instruction.length;
  return true;
}

bool emulate(CallFrame& frame, FaultFrame& fault, ExceptionRecord* record) {
  Context& context = fault.context;
  Decoded decoded;
  if (!decode(context.rip, &decoded)) return false;
  const ZydisDecodedInstruction& instruction = decoded.instruction;
  const char* const name = ZydisMnemonicGetString(instruction.mnemonic);
  const auto done = [&] {
    context.rip += instruction.length;
    return true;
  };
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_INT:
      if (decoded.operands[0].imm.value.u == 0x29) report_fast_fail(frame, context);
      if (decoded.operands[0].imm.value.u == 0x2C) {
        report_assertion(frame, context);
        return done();
      }
      return false;
    case ZYDIS_MNEMONIC_MOV:
      for (const size_t i : {size_t{0}, size_t{1}}) {
        if (decoded.operands[i].type != ZYDIS_OPERAND_TYPE_REGISTER) continue;
        if (decoded.operands[i].reg.value == ZYDIS_REGISTER_CR8)
          return do_irql(frame, decoded, context, record) && done();
        const ZydisRegisterClass kind = ZydisRegisterGetClass(decoded.operands[i].reg.value);
        if (kind == ZYDIS_REGCLASS_CONTROL) refuse(frame, context, "mov with a control register");
        if (kind == ZYDIS_REGCLASS_DEBUG) refuse(frame, context, "mov with a debug register");
      }
      break;
    case ZYDIS_MNEMONIC_IN: {
      const ZydisDecodedOperand& to = decoded.operands[0];
      write_general(
          context, to.reg.value, to.size,
          frame.kernel().machine().read_port(port_of(decoded.operands[1], context), to.size / 8));
      return done();
    }
    case ZYDIS_MNEMONIC_OUT: {
      const uint32_t bytes = decoded.operands[1].size / 8;
      frame.kernel().machine().write_port(port_of(decoded.operands[0], context), bytes,
                                          context.rax);
      return done();
    }
    case ZYDIS_MNEMONIC_CLI:
    case ZYDIS_MNEMONIC_STI:
      note_skipped(frame, context, name);
      return done();
    case ZYDIS_MNEMONIC_WBINVD:
    case ZYDIS_MNEMONIC_INVLPG:
      return done();  // caches and translations are coherent here
    default:
      break;
  }
  if ((instruction.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED) != 0 ||
      instruction.meta.category == ZYDIS_CATEGORY_IOSTRINGOP ||
      instruction.mnemonic == ZYDIS_MNEMONIC_RDPMC || instruction.mnemonic == ZYDIS_MNEMONIC_XSETBV)
    refuse(frame, context, name);

  if (is_string(instruction.mnemonic) && instruction.meta.category == ZYDIS_CATEGORY_STRINGOP) {
    if (place_of_address(frame, context.rsi, false).where == Where::kOrdinary &&
        place_of_address(frame, context.rdi, false).where == Where::kOrdinary)
      return false;
    return do_string(frame, decoded, context, record);
  }
  for (size_t i = 0; i < instruction.operand_count_visible; ++i) {
    const ZydisDecodedOperand& operand = decoded.operands[i];
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    const Place place = place_of_address(frame, effective_address(decoded, operand, context),
                                         operand.mem.segment == ZYDIS_REGISTER_GS);
    if (place.where == Where::kOrdinary) continue;
    const bool writes = (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
    if (writes && place.where != Where::kRegisters) return false;  // read-only on Windows too
    if (do_plain_load(frame, decoded, place, context) ||
        do_plain_store(frame, decoded, place, context) || run_copy(frame, decoded, i, place, fault))
      return done();
    refuse(frame, context, name);
  }
  return false;
}

bool is_division_overflow(const Context& at) {
  Context context = at;
  Decoded decoded;
  if (!decode(context.rip, &decoded)) return false;
  const ZydisDecodedOperand& divisor = decoded.operands[0];
  uint64_t value = 0;
  if (divisor.type == ZYDIS_OPERAND_TYPE_MEMORY) {
    const uint64_t address = effective_address(decoded, divisor, context);
    if (!guarded_copy(&value, reinterpret_cast<const void*>(address), divisor.size / 8))
      return false;
  } else if (divisor.type == ZYDIS_OPERAND_TYPE_REGISTER && general_number(divisor.reg.value)) {
    value = context.general(*general_number(divisor.reg.value));
    if (divisor.reg.value >= ZYDIS_REGISTER_AH && divisor.reg.value <= ZYDIS_REGISTER_BH)
      value >>= 8;
    if (divisor.size < 64) value &= (uint64_t{1} << divisor.size) - 1;
  }
  return value != 0;
}

}  // namespace dxgkit::nt
