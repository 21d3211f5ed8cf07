// The executive's own state: text helpers, the type objects, and objects that a driver left behind.
#include "nt/executive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "nt/leaks.h"

// faults.cpp
extern "C" DXGKIT_NT_ABI void* dxgkit_nt_memcpy(void* to, const void* from, size_t bytes);

namespace dxgkit::nt {

Executive& executive_of(Kernel& kernel) { return *kernel.impl().executive; }

std::shared_ptr<Executive> make_executive(PoolHeap& heap, const KernelConfig& config) {
  auto state = make_in<Executive>(heap);
  DeviceObject& device = state->graphics_device;
  device.type = 3;
  device.size = sizeof(DeviceObject);
  device.reference_count = 1;
  device.device_type = 0x23;  // FILE_DEVICE_VIDEO
  device.stack_size = 1;
  state->registry = Registry(config.registry);
  return state;
}

void null_argument(const char* function, const char* parameter) {
  CallFrame::current().kernel().bug_check(
      "NT-01", function, 0x7E, 0xC0000005,
      fmt::format("{} was called with a null {}.", function, parameter),
      "The parameter points to memory: the routine reads or writes there.",
      "Look at the call; the pointer was never set, or an allocation failed before.");
}

const void* address_for_driver(Kernel& kernel, const char* name, const void* function) {
  return CallFrame::current().in_door() ? kernel.door(name, function) : function;
}

void refuse_call(const char* function, const char* why) {
  CallFrame::current().kernel().bug_check(
      "NT-15", function, 0xD1, 0, fmt::format("The driver called {}: {}.", function, why),
      "Windows provides it, this executive does not, and the routine has no way to fail.",
      "Do not use it here; `dxgkit support` lists what exists.");
}

const void* type_object(TypeIndex type) {
  // OBJECT_TYPE is opaque: a driver compares and passes its address.
  static const std::array<uint64_t, static_cast<size_t>(TypeIndex::kNone) + 1> kTypes{};
  return &kTypes[static_cast<size_t>(type)];
}

// --- text

bool text_of(const UnicodeString* string, std::u16string_view* text) {
  *text = {};
  if (string == nullptr) return false;
  if (string->length % sizeof(char16_t) != 0) return false;
  if (string->length > 0 && string->buffer == nullptr) return false;
  *text = std::u16string_view(string->buffer, string->length / sizeof(char16_t));
  return true;
}

void copy_driver(void* to, const void* from, size_t bytes) {
  if (bytes > 0) dxgkit_nt_memcpy(to, from, bytes);
}

bool capture_text(const UnicodeString* string, std::u16string* text) {
  text->clear();
  if (string == nullptr) return false;
  UnicodeString copy{};
  copy_driver(&copy, string, sizeof(copy));
  std::u16string_view view;
  if (!text_of(&copy, &view)) return false;
  text->resize(view.size());
  copy_driver(text->data(), view.data(), view.size() * sizeof(char16_t));
  return true;
}

char16_t upcase(char16_t unit) {
  if (unit < 0x80) return unit >= u'a' && unit <= u'z' ? static_cast<char16_t>(unit - 32) : unit;
  if (unit == 0xFF) return 0x178;
  if (unit >= 0xE0 && unit <= 0xFE && unit != 0xF7) return static_cast<char16_t>(unit - 32);
  // Latin extended A: pairs, upper first; the two stretches with odd upper letters shift by one.
  const bool even_upper = (unit >= 0x100 && unit <= 0x137 && unit != 0x131) ||
                          (unit >= 0x14A && unit <= 0x177) || (unit >= 0x1DE && unit <= 0x1EF) ||
                          (unit >= 0x1F8 && unit <= 0x21F) || (unit >= 0x222 && unit <= 0x233) ||
                          (unit >= 0x460 && unit <= 0x481) || (unit >= 0x48A && unit <= 0x4BF) ||
                          (unit >= 0x4D0 && unit <= 0x523) || (unit >= 0x1E00 && unit <= 0x1E95) ||
                          (unit >= 0x1EA0 && unit <= 0x1EFF);
  if (even_upper) return static_cast<char16_t>(unit & ~1);
  const bool odd_upper = (unit >= 0x139 && unit <= 0x148) || (unit >= 0x179 && unit <= 0x17E) ||
                         (unit >= 0x1CD && unit <= 0x1DC) || (unit >= 0x4C1 && unit <= 0x4CE);
  if (odd_upper) return (unit & 1) == 0 ? static_cast<char16_t>(unit - 1) : unit;
  if (unit == 0x3AC) return 0x386;
  if (unit >= 0x3AD && unit <= 0x3AF) return static_cast<char16_t>(unit - 37);
  if (unit >= 0x3B1 && unit <= 0x3CB && unit != 0x3C2) return static_cast<char16_t>(unit - 32);
  if (unit == 0x3CC) return 0x38C;
  if (unit == 0x3CD || unit == 0x3CE) return static_cast<char16_t>(unit - 63);
  if (unit >= 0x430 && unit <= 0x44F) return static_cast<char16_t>(unit - 32);
  if (unit >= 0x450 && unit <= 0x45F) return static_cast<char16_t>(unit - 80);
  if (unit >= 0x561 && unit <= 0x586) return static_cast<char16_t>(unit - 48);
  if (unit >= 0xFF41 && unit <= 0xFF5A) return static_cast<char16_t>(unit - 32);
  return unit;
}

char16_t downcase(char16_t unit) {
  if (unit < 0x80) return unit >= u'A' && unit <= u'Z' ? static_cast<char16_t>(unit + 32) : unit;
  // The inverse of upcase. It tries the few places where a lower letter can be.
  for (const int distance : {32, 1, 37, 64, 63, 80, 48, -121}) {
    const auto candidate = static_cast<char16_t>(unit + distance);
    if (candidate != unit && upcase(candidate) == unit && upcase(unit) == unit) return candidate;
  }
  return unit;
}

bool same_text(std::u16string_view a, std::u16string_view b) {
  return std::ranges::equal(a, b, {}, upcase, upcase);
}

bool NoCaseLess::operator()(std::u16string_view a, std::u16string_view b) const {
  return std::ranges::lexicographical_compare(a, b, {}, upcase, upcase);
}

std::u16string widen(std::string_view utf8) {
  std::u16string out;
  for (size_t i = 0; i < utf8.size();) {
    const auto first = static_cast<unsigned char>(utf8[i]);
    const size_t extra = first < 0x80 ? 0 : first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    uint32_t point = extra == 0 ? first : first & (0x3FU >> extra);
    bool good = first < 0x80 || (first >= 0xC2 && first < 0xF5 && i + extra < utf8.size());
    for (size_t k = 1; good && k <= extra; ++k) {
      const auto next = static_cast<unsigned char>(utf8[i + k]);
      good = (next & 0xC0) == 0x80;
      point = point << 6 | (next & 0x3FU);
    }
    if (!good || point > 0x10FFFF) {
      out.push_back(0xFFFD);
      ++i;
      continue;
    }
    i += extra + 1;
    if (point < 0x10000) {
      out.push_back(static_cast<char16_t>(point));
    } else {
      out.push_back(static_cast<char16_t>(0xD800 + ((point - 0x10000) >> 10)));
      out.push_back(static_cast<char16_t>(0xDC00 + ((point - 0x10000) & 0x3FF)));
    }
  }
  return out;
}

std::string narrow(std::u16string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    uint32_t point = text[i];
    if (point >= 0xD800 && point < 0xDC00 && i + 1 < text.size() && text[i + 1] >= 0xDC00 &&
        text[i + 1] < 0xE000) {
      point = 0x10000 + ((point - 0xD800) << 10) + (text[++i] - 0xDC00U);
    } else if (point >= 0xD800 && point < 0xE000) {
      point = 0xFFFD;
    }
    if (point < 0x80) {
      out.push_back(static_cast<char>(point));
    } else if (point < 0x800) {
      out.push_back(static_cast<char>(0xC0 | point >> 6));
      out.push_back(static_cast<char>(0x80 | (point & 0x3F)));
    } else if (point < 0x10000) {
      out.push_back(static_cast<char>(0xE0 | point >> 12));
      out.push_back(static_cast<char>(0x80 | (point >> 6 & 0x3F)));
      out.push_back(static_cast<char>(0x80 | (point & 0x3F)));
    } else {
      out.push_back(static_cast<char>(0xF0 | point >> 18));
      out.push_back(static_cast<char>(0x80 | (point >> 12 & 0x3F)));
      out.push_back(static_cast<char>(0x80 | (point >> 6 & 0x3F)));
      out.push_back(static_cast<char>(0x80 | (point & 0x3F)));
    }
  }
  return out;
}

// --- leftovers of a driver

void add_executive_leaks(const Kernel& kernel, std::vector<Leak>& leaks) {
  const Executive& state = *const_cast<Kernel&>(kernel).impl().executive;
  runtime::MutexLock lock(state.lock);
  uint64_t irps = 0, registered_items = 0;
  LeakTotal held;
  for (const auto& [pointer, entry] : state.references) {
    if (entry.held > 0) held.add(0, entry.sequence, entry.taken, static_cast<uint64_t>(entry.held));
  }
  for (const auto& [pointer, entry] : state.irps) irps += entry.sequence != 0 ? 1 : 0;
  registered_items = state.work_items.size();
  if (held.count > 0) leaks.push_back(to_leak(kernel, "object reference", "", held));
  if (irps > 0) leaks.push_back({"IRP", "", irps, 0});
  if (registered_items > 0) leaks.push_back({"work item", "", registered_items, 0});
  std::map<std::string, uint64_t> by_kind;
  for (const auto& [pointer, entry] : state.registrations) ++by_kind[entry.kind];
  for (const auto& [kind, count] : by_kind) leaks.push_back({kind, "", count, 0});
  if (!state.lookaside_lists.empty())
    leaks.push_back({"lookaside list", "", state.lookaside_lists.size(), 0});
  if (!state.resources.empty())
    leaks.push_back({"executive resource", "", state.resources.size(), 0});
  if (!state.page_mdls.empty()) {
    uint64_t pages = 0;
    for (const auto& [mdl, frames] : state.page_mdls) pages += frames.size();
    leaks.push_back({"pages of an MDL", "", state.page_mdls.size(), pages * kPageBytes});
  }
  if (const uint32_t work = state.work_outstanding.load(); work > 0)
    leaks.push_back({"queued work item", "", work, 0});
}

void clear_executive(Kernel& kernel) {
  Executive& state = executive_of(kernel);
  runtime::MutexLock lock(state.lock);
  // This only frees, so the order has no visible effect.
  for (const auto& [mdl, frames] : state.page_mdls) kernel.machine().free_pages(frames);
  state.page_mdls.clear();
  state.irps.clear();
  state.work_items.clear();
  state.references.clear();
  state.registrations.clear();
  state.lookaside_lists.clear();
  state.resources.clear();
  state.retired.clear();
}

}  // namespace dxgkit::nt
