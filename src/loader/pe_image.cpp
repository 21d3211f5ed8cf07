#include "loader/pe_image.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>

#include "base/arithmetic.h"
#include "base/check.h"
#include "base/fixed_memory.h"
#include "loader/symbol_file.h"

namespace dxgkit::loader {
namespace {

// The guard functions for an image without thunks of its own. They check nothing, as on a system
// without control flow guard. The check returns; the dispatch jumps to the target, which is in rax.
__attribute__((naked)) void guard_check_nothing() { asm volatile("ret"); }
__attribute__((naked)) void guard_dispatch_anywhere() { asm volatile("jmp *%rax"); }

void put64(std::byte* at, uint64_t value) { std::memcpy(at, &value, sizeof(value)); }
uint64_t get64(const std::byte* at) {
  uint64_t value = 0;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

std::string import_name(const PePlan& plan, const PePlan::Import& import) {
  const std::string& library = plan.libraries[import.library];
  return import.name.empty() ? fmt::format("{}!#{}", library, import.ordinal)
                             : fmt::format("{}!{}", library, import.name);
}

}  // namespace

uint64_t security_cookie(uint64_t seed) {
  // splitmix64; the upper 16 bits of a cookie are zero by convention.
  for (;;) {
    seed += 0x9E3779B97F4A7C15;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z = (z ^ (z >> 31)) & 0x0000FFFFFFFFFFFF;
    if (z != 0 && z != kDefaultSecurityCookie) return z;
  }
}

Result<std::unique_ptr<PeImage>> PeImage::load(std::span<const std::byte> file,
                                               const ImportResolver& resolve, std::string* message,
                                               const LoadOptions& options) {
  Result<PePlan> plan = parse_pe(file, message);
  if (!plan.has_value()) return Error(plan.error());
  std::unique_ptr<PeImage> image(new PeImage());
  image->plan_ = std::move(*plan);
  const PePlan& p = image->plan_;
  void* const memory =
      map_fixed(FixedRange::kImages, p.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
  if (memory == MAP_FAILED) {
    *message = "There is no memory for the image.";
    return Error(Status::kNoMemory);
  }
  std::byte* const base = static_cast<std::byte*>(memory);
  image->base_ = base;
  std::memcpy(base, file.data(), p.headers_size);
  for (const PePlan::Section& section : p.sections) {
    if (section.file_size == 0) continue;
    // Mapping all pages at once costs less than one fault each. A kernel without support for this
    // returns an error.
    (void)madvise(base + section.address, section.file_size, MADV_POPULATE_WRITE);
    std::memcpy(base + section.address, file.data() + section.file_offset, section.file_size);
  }
  const uint64_t delta = reinterpret_cast<uint64_t>(base) - p.preferred_base;
  for (const uint32_t address : p.relocations) put64(base + address, get64(base + address) + delta);
  std::string missing;
  for (const PePlan::Import& import : p.imports) {
    const void* const address = resolve({.library = p.libraries[import.library],
                                         .name = import.name,
                                         .ordinal = import.ordinal,
                                         .slot = base + import.slot})
                                    .address;
    if (address == nullptr) missing += (missing.empty() ? "" : ", ") + import_name(p, import);
    put64(base + import.slot, reinterpret_cast<uint64_t>(address));
  }
  if (!missing.empty()) {
    *message = "These imports do not exist: " + missing + ".";
    return Error(Status::kObjectNameNotFound);
  }
  if (p.cookie != 0) put64(base + p.cookie, security_cookie(options.cookie_seed));
  const auto guard = [&](uint32_t slot, void (*fallback)()) {
    if (slot != 0 && get64(base + slot) == 0)
      put64(base + slot, reinterpret_cast<uint64_t>(fallback));
  };
  guard(p.guard_check, &guard_check_nothing);
  guard(p.guard_dispatch, &guard_dispatch_anywhere);
  // Headers and the gaps between sections are readable only, so a reader that stays inside [base,
  // base + size) never faults.
  DXGKIT_CHECK(mprotect(base, p.size, PROT_READ) == 0);
  for (const PePlan::Section& section : p.sections) {
    const int protection =
        PROT_READ | (section.write ? PROT_WRITE : 0) | (section.execute ? PROT_EXEC : 0);
    if (protection != PROT_READ)
      DXGKIT_CHECK(mprotect(base + section.address, section.memory_size, protection) == 0);
  }
  if (debugger_listens()) {
    image->announcement_ =
        std::make_unique<Announcement>(to_elf(symbols_of(p, file, image->base_)));
  }
  return image;
}

PeImage::~PeImage() {
  announcement_.reset();
  if (base_ != nullptr) unmap_fixed(base_, plan_.size);
}

void* PeImage::find(std::string_view name) const {
  for (const PePlan::Export& entry : plan_.exports) {
    if (!name.empty() && entry.name == name) return base_ + entry.address;
  }
  return nullptr;
}

std::vector<std::string> PeImage::imports() const {
  std::vector<std::string> names;
  names.reserve(plan_.imports.size());
  for (const PePlan::Import& import : plan_.imports) names.push_back(import_name(plan_, import));
  return names;
}

std::span<const RuntimeFunction> PeImage::functions() const {
  return {reinterpret_cast<const RuntimeFunction*>(base_ + plan_.functions), plan_.function_count};
}

}  // namespace dxgkit::loader
