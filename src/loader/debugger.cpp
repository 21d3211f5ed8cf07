#include "loader/debugger.h"

#include <cstdint>
#include <cstdlib>

#include "base/spin_lock.h"

// The debugger finds these by name, and reads them as laid out here: "JIT Compilation Interface" in
// gdb's manual. lldb has the same interface.
extern "C" {
struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  uint64_t symfile_size;
};
struct jit_descriptor {
  uint32_t version;
  uint32_t action_flag;  // 0: nothing, 1: an entry was added, 2: one is about to go
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};
// NOLINTBEGIN(bugprone-reserved-identifier)
[[gnu::used]] jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
void __jit_debug_register_code();
/// The debugger stops here and reads the descriptor.
[[gnu::noinline, gnu::used]] void __jit_debug_register_code() { asm volatile("" ::: "memory"); }
// NOLINTEND(bugprone-reserved-identifier)
}

namespace dxgkit::loader {
namespace {

/// What a debugger writes over the instruction where it wants to stop.
constexpr uint8_t kBreakpoint = 0xCC;

/// The debugger stops the process under this lock, all threads at once.
constinit SpinLock g_lock;

void tell(uint32_t action, jit_code_entry* entry) {
  __jit_debug_descriptor.action_flag = action;
  __jit_debug_descriptor.relevant_entry = entry;
  __jit_debug_register_code();
  __jit_debug_descriptor.action_flag = 0;
  __jit_debug_descriptor.relevant_entry = nullptr;
}

}  // namespace

struct Announcement::Entry : jit_code_entry {};

bool debugger_listens() {
  static const bool always = std::getenv("DXGKIT_ANNOUNCE_IMAGES") != nullptr;
  const auto* const code = reinterpret_cast<const volatile uint8_t*>(&__jit_debug_register_code);
  return always || *code == kBreakpoint;
}

Announcement::Announcement(std::vector<std::byte> symbol_file)
    : symbol_file_(std::move(symbol_file)), entry_(std::make_unique<Entry>()) {
  entry_->symfile_addr = reinterpret_cast<const char*>(symbol_file_.data());
  entry_->symfile_size = symbol_file_.size();
  SpinGuard guard(g_lock);
  entry_->prev_entry = nullptr;
  entry_->next_entry = __jit_debug_descriptor.first_entry;
  if (entry_->next_entry != nullptr) entry_->next_entry->prev_entry = entry_.get();
  __jit_debug_descriptor.first_entry = entry_.get();
  tell(1, entry_.get());
}

Announcement::~Announcement() {
  SpinGuard guard(g_lock);
  (entry_->prev_entry != nullptr ? entry_->prev_entry->next_entry
                                 : __jit_debug_descriptor.first_entry) = entry_->next_entry;
  if (entry_->next_entry != nullptr) entry_->next_entry->prev_entry = entry_->prev_entry;
  tell(2, entry_.get());
}

}  // namespace dxgkit::loader
