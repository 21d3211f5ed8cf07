#include "runtime/deadlock_note.h"

#include <utility>

#include "runtime/runtime.h"

namespace dxgkit::runtime {
namespace {

// A simulation is one OS thread. The oldest first.
constinit thread_local DeadlockNote* t_notes = nullptr;

}  // namespace

DeadlockNote::DeadlockNote(std::function<std::string()> text) : text_(std::move(text)) {
  const Runtime* runtime = Runtime::current_or_null();
  if (runtime == nullptr || !runtime->is_simulated()) return;
  listed_ = true;
  DeadlockNote** end = &t_notes;
  while (*end != nullptr) end = &(*end)->next_;
  *end = this;
}

DeadlockNote::~DeadlockNote() {
  if (!listed_) return;
  for (DeadlockNote** at = &t_notes; *at != nullptr; at = &(*at)->next_) {
    if (*at != this) continue;
    *at = next_;
    return;
  }
}

std::string DeadlockNote::all() {
  std::string text;
  for (const DeadlockNote* note = t_notes; note != nullptr; note = note->next_)
    text += note->text_();
  return text;
}

}  // namespace dxgkit::runtime
