#include "nt/unwind.h"

#include <cstring>

#include "base/guarded_copy.h"

namespace dxgkit::nt {
namespace {

enum class Op : uint8_t {
  kPush = 0,
  kAllocLarge = 1,
  kAllocSmall = 2,
  kSetFrame = 3,
  kSave = 4,
  kSaveFar = 5,
  kEpilog = 6,  // version 2; no compiler writes SAVE_XMM in version 1
  kSpare = 7,
  kSaveXmm = 8,
  kSaveXmmFar = 9,
  kMachineFrame = 10,
};

/// The first four bytes of UNWIND_INFO, taken apart.
struct Info {
  uint8_t version = 0, flags = 0, prolog = 0, code_count = 0, frame_register = 0;
  uint64_t frame_offset = 0;
  uint64_t rva = 0;
  std::array<uint8_t, 512> codes = {};

  uint8_t offset(size_t i) const { return codes[2 * i]; }
  Op op(size_t i) const { return static_cast<Op>(codes[2 * i + 1] & 0xF); }
  uint8_t info(size_t i) const { return codes[2 * i + 1] >> 4; }
  uint32_t word(size_t i) const {
    return static_cast<uint32_t>(codes[2 * i] | (codes[2 * i + 1] << 8));
  }
  /// Where handler or chained entry follow: the codes are padded to an even number.
  uint64_t tail() const { return rva + 4 + 2 * ((uint64_t{code_count} + 1) & ~uint64_t{1}); }
};

constexpr uint8_t kChained = 4;
/// Longer chains exist in no compiler's output.
constexpr int kChainLimit = 32;

bool read_image(const DriverImage& image, uint64_t rva, void* to, uint64_t bytes) {
  if (rva > image.size || bytes > image.size - rva) return false;
  return guarded_copy(to, image.base + rva, bytes);
}

bool read_stack(uint64_t address, uint64_t* value) {
  return guarded_copy(value, reinterpret_cast<const void*>(address), sizeof(*value));
}

bool read_info(const DriverImage& image, uint64_t rva, Info* info) {
  uint8_t head[4];
  if (!read_image(image, rva, head, sizeof(head))) return false;
  info->version = head[0] & 7;
  info->flags = head[0] >> 3;
  info->prolog = head[1];
  info->code_count = head[2];
  info->frame_register = head[3] & 0xF;
  info->frame_offset = uint64_t{head[3]} >> 4 << 4;
  info->rva = rva;
  if (info->version != 1 && info->version != 2) return false;
  return read_image(image, rva + 4, info->codes.data(), 2 * uint64_t{info->code_count});
}

/// 16-bit slots a code takes; 0: nonsense.
size_t slots(const Info& info, size_t i) {
  switch (info.op(i)) {
    case Op::kPush:
    case Op::kAllocSmall:
    case Op::kSetFrame:
    case Op::kMachineFrame:
      return 1;
    case Op::kEpilog:
      return info.version >= 2 ? 1 : 2;
    case Op::kSave:
    case Op::kSaveXmm:
      return 2;
    case Op::kSpare:
    case Op::kSaveFar:
    case Op::kSaveXmmFar:
      return 3;
    case Op::kAllocLarge:
      return info.info(i) == 0 ? 2 : info.info(i) == 1 ? 3 : 0;
  }
  return 0;
}

bool pop(Context& context, uint64_t* to) {
  if (!read_stack(context.rsp, to)) return false;
  context.rsp += 8;
  return true;
}

/// If the code at the context's rip is the tail of an epilog, executes the rest of it, including
/// the return.
bool run_epilog(const DriverImage& image, const FunctionEntry& function, const Info& info,
                const Context& from, Context* out, bool* is_epilog) {
  *is_epilog = false;
  std::array<uint8_t, 64> code{};
  const uint64_t rva = from.rip - reinterpret_cast<uint64_t>(image.base);
  const uint64_t available = std::min<uint64_t>(code.size(), image.size - rva);
  if (!read_image(image, rva, code.data(), available)) return true;
  Context context = from;
  size_t at = 0;
  const auto signed_byte = [&](size_t i) {
    return static_cast<int64_t>(static_cast<int8_t>(code[i]));
  };
  const auto signed_word = [&](size_t i) {
    int32_t value = 0;
    std::memcpy(&value, code.data() + i, sizeof(value));
    return int64_t{value};
  };
  // add rsp, n  or  lea rsp, [frame register + n]
  if (code[0] == 0x48 && code[1] == 0x83 && code[2] == 0xC4) {
    context.rsp += static_cast<uint64_t>(signed_byte(3));
    at = 4;
  } else if (code[0] == 0x48 && code[1] == 0x81 && code[2] == 0xC4) {
    context.rsp += static_cast<uint64_t>(signed_word(3));
    at = 7;
  } else if ((code[0] & 0xFE) == 0x48 && code[1] == 0x8D && (code[2] & 0x38) == 0x20 &&
             info.frame_register != 0) {
    const auto base = static_cast<uint8_t>((code[2] & 7) | ((code[0] & 1) << 3));
    if (base == info.frame_register && (code[2] & 7) != 4) {
      if (code[2] >> 6 == 1) {
        context.rsp = context.general(base) + static_cast<uint64_t>(signed_byte(3));
        at = 4;
      } else if (code[2] >> 6 == 2) {
        context.rsp = context.general(base) + static_cast<uint64_t>(signed_word(3));
        at = 7;
      }
    }
  }
  while (at + 8 < available) {
    if ((code[at] & 0xF8) == 0x58) {
      if (!pop(context, &context.general(code[at] & 7))) return false;
      at += 1;
    } else if (code[at] == 0x41 && (code[at + 1] & 0xF8) == 0x58) {
      if (!pop(context, &context.general(8 + (code[at + 1] & 7)))) return false;
      at += 2;
    } else {
      break;
    }
  }
  if (at + 8 >= available) return true;
  bool leaves = false;
  const uint64_t end_rva = rva + at;
  if (code[at] == 0xC3 || code[at] == 0xC2 || (code[at] == 0xF3 && code[at + 1] == 0xC3)) {
    leaves = true;
  } else if (code[at] == 0xE9 || code[at] == 0xEB) {
    // A tail call leaves the function; a jump inside it is not an epilog.
    const int64_t distance = code[at] == 0xEB ? 2 + signed_byte(at + 1) : 5 + signed_word(at + 1);
    const uint64_t target = end_rva + static_cast<uint64_t>(distance);
    leaves = target <= function.begin || target >= function.end;
  } else if ((code[at] == 0xFF && code[at + 1] == 0x25) ||
             (code[at] == 0x48 && code[at + 1] == 0xFF && (code[at + 2] & 0x38) == 0x20)) {
    leaves = true;
  }
  if (!leaves) return true;
  if (!pop(context, &context.rip)) return false;
  *is_epilog = true;
  *out = context;
  return true;
}

}  // namespace

const FunctionEntry* find_function(const DriverImage& image, uint64_t pc) {
  const uint64_t rva = pc - reinterpret_cast<uint64_t>(image.base);
  if (rva >= image.size) return nullptr;
  size_t low = 0;
  size_t high = image.functions.size() / sizeof(FunctionEntry);
  const auto entry_at = [&](size_t index) {
    FunctionEntry entry;
    std::memcpy(&entry, image.functions.data() + index * sizeof(entry), sizeof(entry));
    return entry;
  };
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (entry_at(middle).begin <= rva) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return nullptr;
  if (rva >= entry_at(low - 1).end) return nullptr;
  return reinterpret_cast<const FunctionEntry*>(image.functions.data() +
                                                (low - 1) * sizeof(FunctionEntry));
}

bool virtual_unwind(const DriverImage& image, const FunctionEntry* function, uint8_t handler_kind,
                    Context& context, UnwoundFrame* frame, SavedPlaces* places) {
  *frame = {};
  if (function == nullptr) {  // a leaf function moves neither stack nor registers
    frame->establisher = context.rsp;
    return pop(context, &context.rip);
  }
  FunctionEntry entry;
  std::memcpy(&entry, function, sizeof(entry));
  // The lowest bit names another entry to use instead.
  for (int i = 0; (entry.unwind & 1) != 0; ++i) {
    if (i == kChainLimit || !read_image(image, entry.unwind & ~1U, &entry, sizeof(entry)))
      return false;
  }
  Info info;
  if (!read_info(image, entry.unwind, &info)) return false;
  const uint64_t rva = context.rip - reinterpret_cast<uint64_t>(image.base);
  if (rva < entry.begin) return false;
  const uint64_t reached = rva - entry.begin;
  const bool in_prolog = reached < info.prolog && (info.flags & kChained) == 0;

  // The stack pointer that the frame's handlers know: the one after the prolog, or the frame
  // register's.
  frame->establisher = context.rsp;
  if (info.frame_register != 0) {
    bool is_set = !in_prolog;
    for (size_t i = 0; !is_set && i < info.code_count;) {
      if (info.op(i) == Op::kSetFrame) {
        is_set = reached >= info.offset(i);
        break;
      }
      const size_t step = slots(info, i);
      if (step == 0) return false;
      i += step;
    }
    if (is_set) frame->establisher = context.general(info.frame_register) - info.frame_offset;
  }

  if (!in_prolog) {
    bool is_epilog = false;
    if (!run_epilog(image, entry, info, context, &context, &is_epilog)) return false;
    if (is_epilog) return true;  // an epilog has no handlers
  }

  bool machine_frame = false;
  uint64_t limit = in_prolog ? reached : UINT64_MAX;
  for (int chain = 0;; ++chain) {
    for (size_t i = 0; i < info.code_count;) {
      const size_t step = slots(info, i);
      if (step == 0 || i + step > info.code_count) return false;
      // Zero is the padding behind an odd number of epilog codes: no push ends at offset 0.
      const bool padding = info.version >= 2 && info.word(i) == 0;
      if (limit < info.offset(i) || padding) {
        i += step;
        continue;
      }
      const uint64_t far = step == 3 ? info.word(i + 1) | uint64_t{info.word(i + 2)} << 16 : 0;
      const uint64_t base = frame->establisher;
      const uint8_t which = info.info(i);
      switch (info.op(i)) {
        case Op::kPush:
          if (places != nullptr) places->general[which] = reinterpret_cast<uint64_t*>(context.rsp);
          if (!pop(context, &context.general(which))) return false;
          break;
        case Op::kAllocLarge:
          context.rsp += which == 0 ? uint64_t{info.word(i + 1)} * 8 : far;
          break;
        case Op::kAllocSmall:
          context.rsp += uint64_t{which} * 8 + 8;
          break;
        case Op::kSetFrame:
          context.rsp = context.general(info.frame_register) - info.frame_offset;
          break;
        case Op::kSave:
        case Op::kSaveFar: {
          const uint64_t at = base + (step == 2 ? uint64_t{info.word(i + 1)} * 8 : far);
          if (places != nullptr) places->general[which] = reinterpret_cast<uint64_t*>(at);
          if (!read_stack(at, &context.general(which))) return false;
          break;
        }
        case Op::kSaveXmm:
        case Op::kSaveXmmFar: {
          const uint64_t at = base + (step == 2 ? uint64_t{info.word(i + 1)} * 16 : far);
          if (places != nullptr) places->floating[which] = reinterpret_cast<uint64_t*>(at);
          Vector128& to = context.floats.xmm[which];
          if (!read_stack(at, &to.low) || !read_stack(at + 8, &to.high)) return false;
          break;
        }
        case Op::kMachineFrame: {
          const uint64_t at = context.rsp + (which != 0 ? 8 : 0);
          uint64_t rip = 0, rsp = 0;
          if (!read_stack(at, &rip) || !read_stack(at + 24, &rsp)) return false;
          context.rip = rip;
          context.rsp = rsp;
          machine_frame = true;
          break;
        }
        case Op::kEpilog:
        case Op::kSpare:
          break;
      }
      i += step;
    }
    if ((info.flags & kChained) == 0) break;
    FunctionEntry primary;
    if (chain == kChainLimit || !read_image(image, info.tail(), &primary, sizeof(primary)))
      return false;
    if (!read_info(image, primary.unwind & ~1U, &info)) return false;
    limit = UINT64_MAX;  // the function it chains to has run its prolog
  }
  if (!in_prolog && (info.flags & handler_kind) != 0) {
    uint32_t handler = 0;
    if (!read_image(image, info.tail(), &handler, sizeof(handler)) || handler >= image.size)
      return false;
    frame->handler =
        reinterpret_cast<ExceptionRoutine>(reinterpret_cast<uint64_t>(image.base) + handler);
    frame->handler_data = image.base + info.tail() + 4;
  }
  return machine_frame || pop(context, &context.rip);
}

}  // namespace dxgkit::nt
