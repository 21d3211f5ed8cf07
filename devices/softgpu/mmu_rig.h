// Page tables that the CPU writes as the manual says, for tests of virtual addresses.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/arithmetic.h"
#include "devices/softgpu/mmu.h"
#include "devices/softgpu/test_rig.h"

namespace dxgkit::softgpu::testing {
inline constexpr uint64_t kPage = SGPU_PAGE_BYTES;
inline constexpr uint64_t kData = 0x0040'0000;  // tests map their data here
inline constexpr uint64_t kCode =
    0x3000'0000;  // where command buffers go, each at an address of its own

/// A fault as the registers report it.
struct Report {
  uint32_t reason = 0;
  uint64_t address = 0;
  uint32_t why = 0, level = 0;
  bool write = false, fetch = false;
  uint64_t root = 0;
};

class VirtualRig : public Rig {
 public:
  explicit VirtualRig(runtime::Runtime& runtime_in)
      : Rig(runtime_in, {.vram_bytes = 16 << 20, .timing = {}, .faults = {}}) {}
  uint32_t fence = 1000;
  uint64_t next_vram = kVram + (8 << 20);
  uint64_t next_code = kCode;

  uint64_t page(bool in_vram) {
    if (!in_vram) return system_memory(kPage);
    std::memset(at(next_vram), 0, kPage);
    return std::exchange(next_vram, next_vram + kPage);
  }
  uint64_t misses() { return get64(SGPU_REG_TLB_MISSES); }
};

/// Page tables built by the CPU.
class Space {
 public:
  Space(VirtualRig& rig, bool four_levels, uint32_t root_entries = 512, bool in_vram = false)
      : rig_(rig), in_vram_(in_vram), tables{rig.page(in_vram), root_entries, four_levels} {}

  /// Address of the entry of `level` for `va`; makes the tables above it.
  uint64_t slot(uint64_t va, uint32_t level = 0) {
    uint64_t table = tables.root;
    for (uint32_t at = tables.levels() - 1;; --at) {
      const uint64_t index = va >> (12 + 9 * at);
      const uint64_t where =
          table + (at == tables.levels() - 1 ? index : index % SGPU_VA_TABLE_ENTRIES) * 8;
      if (at == level) return where;
      if ((rig_.word(where) & SGPU_PTE_VALID) == 0) {
        rig_.set_word(where, rig_.page(in_vram_) | SGPU_PTE_VALID);
      }
      table = rig_.word(where) & SGPU_PTE_ADDRESS_MASK;
    }
  }
  void set(uint64_t va, uint64_t entry, uint32_t level = 0) {
    rig_.set_word(slot(va, level), entry);
  }
  void map(uint64_t va, uint64_t physical, uint64_t flags = 0) {
    set(va, physical | flags | SGPU_PTE_VALID);
  }
  /// A fresh page behind `va`. Returns its physical address.
  uint64_t back(uint64_t va, bool vram = false, uint64_t flags = 0) {
    const uint64_t physical = rig_.page(vram);
    map(va, physical, flags);
    return physical;
  }

  SgpuRingEntry entry(const Commands& commands, uint32_t flags = 0) {
    SgpuRingEntry made = rig_.entry_for(commands, ++rig_.fence, flags | SGPU_EXECUTE_VIRTUAL);
    if (tables.four_levels) made.flags |= SGPU_EXECUTE_FOUR_LEVELS;
    made.root = tables.root;
    made.root_entries = tables.root_entries;
    const uint64_t va = rig_.next_code;
    for (uint64_t at = 0; at < made.length; at += kPage) {
      map(rig_.next_code, made.address + at);
      rig_.next_code += kPage;
    }
    made.address = va;
    return made;
  }
  /// Runs to the end. Returns the fault, if there is one.
  std::optional<Report> run_entry(uint32_t node, const SgpuRingEntry& entry) {
    rig_.submit(node, entry);
    rig_.wait([&] {
      return rig_.saw({Served::kComplete, node, entry.fence}) ||
             rig_.saw({Served::kFault, node, entry.fence});
    });
    if (rig_.saw({Served::kComplete, node, entry.fence})) return std::nullopt;
    const uint32_t detail = rig_.node32(node, SGPU_NODE_FAULT_DETAIL);
    const Report report = {.reason = rig_.node32(node, SGPU_NODE_FAULT_REASON),
                           .address = rig_.node64(node, SGPU_NODE_FAULT_ADDRESS),
                           .why = SGPU_DETAIL_WHY(detail),
                           .level = SGPU_DETAIL_LEVEL(detail),
                           .write = (detail & SGPU_DETAIL_WRITE) != 0,
                           .fetch = (detail & SGPU_DETAIL_FETCH) != 0,
                           .root = rig_.node64(node, SGPU_NODE_FAULT_ROOT)};
    rig_.reset(node);
    EXPECT_EQ(rig_.node32(node, SGPU_NODE_FAULT_DETAIL), 0U);
    EXPECT_EQ(rig_.node64(node, SGPU_NODE_FAULT_ROOT), 0U);
    rig_.start(node);
    return report;
  }
  std::optional<Report> run(uint32_t node, const Commands& commands, uint32_t flags = 0) {
    return run_entry(node, entry(commands, flags));
  }
  void runs(uint32_t node, const Commands& commands, uint32_t flags = 0) {
    const auto report = run(node, commands, flags);
    EXPECT_FALSE(report.has_value()) << "reason " << report->reason << " why " << report->why
                                     << std::hex << " at " << report->address;
  }
  void faults(uint32_t node, const Commands& commands, uint64_t address, uint32_t why,
              uint32_t level, bool write) {
    const auto report = run(node, commands);
    ASSERT_TRUE(report.has_value());
    EXPECT_EQ(report->reason, SGPU_FAULT_PAGE);
    EXPECT_EQ(report->address, address);
    EXPECT_EQ(report->why, why);
    EXPECT_EQ(report->level, level);
    EXPECT_EQ(report->write, write);
    EXPECT_FALSE(report->fetch);
    EXPECT_EQ(report->root, tables.root);
  }

 private:
  VirtualRig& rig_;
  bool in_vram_;

 public:
  VirtualSpace tables;
};

inline Commands flush(uint64_t root = 0, uint64_t start = 0, uint64_t end = 0) {
  return Commands().add(SGPU_OP_FLUSH_TLB, SgpuFlushTlb{{}, root, start, end});
}
inline Commands write_ptes(uint64_t table, const std::vector<uint64_t>& entries, uint32_t flags = 0,
                           uint32_t repeats = 0) {
  std::vector<std::byte> bytes(sizeof(SgpuWritePtes) + entries.size() * 8);
  const SgpuWritePtes head = {{SGPU_OP_WRITE_PTES, static_cast<SgpuU32>(bytes.size())},
                              table,
                              repeats != 0 ? repeats : static_cast<SgpuU32>(entries.size()),
                              flags | (repeats != 0 ? SGPU_PTES_REPEAT : 0)};
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!entries.empty()) {
    std::memcpy(bytes.data() + sizeof head, entries.data(), entries.size() * 8);
  }
  return Commands().raw(bytes.data(), bytes.size());
}
inline Commands copy_ptes(uint64_t source, uint64_t destination, uint32_t count,
                          uint32_t flags = 0) {
  return Commands().add(SGPU_OP_COPY_PTES, SgpuCopyPtes{{}, source, destination, count, flags});
}

}  // namespace dxgkit::softgpu::testing
