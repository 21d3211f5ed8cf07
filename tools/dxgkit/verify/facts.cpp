#include "tools/dxgkit/verify/facts.h"

#include <d3dkmddi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "dxgk/inspection.h"

namespace dxgkit::tool::verify {
namespace {

void add_caps(const port::DriverCaps& caps, DxgkitClientFacts* facts) {
  DXGK_DRIVERCAPS raw{};  // what the declared version does not have is 0
  std::memcpy(&raw, caps.raw.data(), std::min(caps.raw.size(), sizeof(raw)));
  facts->wddm_version = caps.wddm_version;
  facts->flip_caps = raw.FlipCaps.Value;
  facts->scheduling_caps = raw.SchedulingCaps.Value;
  facts->memory_caps = raw.MemoryManagementCaps.Value;
  facts->graphics_preemption =
      static_cast<uint32_t>(raw.PreemptionCaps.GraphicsPreemptionGranularity);
  facts->compute_preemption =
      static_cast<uint32_t>(raw.PreemptionCaps.ComputePreemptionGranularity);
  facts->per_engine_tdr = caps.support_per_engine_tdr ? 1 : 0;
  facts->removal_in_hibernation = caps.support_surprise_removal_in_hibernation ? 1 : 0;
  facts->paging_node = caps.paging_node;
  facts->slot_id_max = caps.max_allocation_list_slot_id;
  facts->highest_address = caps.highest_acceptable_address;
  facts->aperture_commit_limit = caps.aperture_segment_commit_limit;
}

std::vector<DxgkitClientSegment> segments_of(const port::SegmentsInfo& info) {
  std::vector<DxgkitClientSegment> segments;
  for (const port::SegmentInfo& one : info.segments) {
    segments.push_back({.base_address = one.base_address,
                        .size_bytes = one.size,
                        .commit_limit = one.commit_limit,
                        .flags = one.flags,
                        .reserved = 0});
  }
  return segments;
}

std::vector<DxgkitClientNode> nodes_of(const dxgk::Inspection& inspection, uint32_t count) {
  std::vector<DxgkitClientNode> nodes;
  for (uint32_t i = 0; i < count; ++i) {
    const Result<port::NodeMetadata> metadata = inspection.node_metadata(NodeOrdinal{i});
    if (!metadata.has_value()) return {};
    DXGKARG_GETNODEMETADATA raw{};
    std::memcpy(&raw, metadata->raw.data(), std::min(metadata->raw.size(), sizeof(raw)));
    DxgkitClientNode node{};
    node.engine_type = static_cast<uint32_t>(raw.EngineType);
    node.gpu_mmu = raw.GpuMmuSupported != FALSE ? 1 : 0;
    for (size_t at = 0; at + 1 < sizeof(node.name) && raw.FriendlyName[at] != 0; ++at)
      node.name[at] = raw.FriendlyName[at] < 0x80 ? static_cast<char>(raw.FriendlyName[at]) : '?';
    nodes.push_back(node);
  }
  return nodes;
}

void add_page_tables(const port::GpuMmuCaps& caps, DxgkitClientFacts* facts) {
  facts->read_only = caps.read_only ? 1 : 0;
  facts->no_execute = caps.no_execute ? 1 : 0;
  facts->zero = caps.zero_in_pte ? 1 : 0;
  facts->cache_coherent = caps.cache_coherent ? 1 : 0;
  facts->address_bits = caps.va_bits;
  facts->update_mode = static_cast<uint32_t>(caps.update_mode);
  facts->large_leaf_bytes = caps.leaf_bytes_for_64kb;
  facts->level_count = caps.level_count;
  for (size_t i = 0; i < std::min<size_t>(caps.levels.size(), DXGKIT_CLIENT_LEVELS_MAX); ++i) {
    const port::PageTableLevelDesc& level = caps.levels[i];
    facts->levels[i] = {level.index_bits, level.segment, level.paging_process_segment,
                        level.table_bytes, level.table_alignment_bytes};
  }
}

std::vector<DxgkitClientSetting> settings_of(const nt::KernelConfig& config) {
  constexpr uint32_t kDword = 4;
  std::vector<DxgkitClientSetting> settings;
  const auto key = config.registry.find(nt::KernelConfig::kDriverKey);
  if (key == config.registry.end()) return settings;
  for (const auto& [name, value] : key->second) {
    DxgkitClientSetting setting{.name = name.c_str(), .value = 0, .refused = 0};
    if (value.type != kDword || value.data.size() != sizeof(setting.value)) continue;
    std::memcpy(&setting.value, value.data.data(), sizeof(setting.value));
    settings.push_back(setting);
  }
  return settings;
}

}  // namespace

std::string judge_facts(Bench& bench) {
  if (!bench.plugin()->judges()) return {};
  const Answer<Plugin::Instance*> code = bench.client_code();
  if (!code) return code.error();
  DxgkitClientFacts facts{};
  add_caps(bench.exercise().caps(), &facts);
  const Result<dxgk::Inspection> inspection = dxgk::Inspection::of(bench.system(), bench.luid());
  if (!inspection.has_value()) return status_text(inspection.error());
  const port::SegmentsInfo& info = inspection->segments();
  const std::vector<DxgkitClientSegment> segments = segments_of(info);
  const std::vector<DxgkitClientNode> nodes = nodes_of(*inspection, bench.node_count());
  facts.paging_segment = info.paging_buffer_segment;
  facts.paging_bytes = info.paging_buffer_bytes;
  facts.paging_private_bytes = info.paging_private_bytes;
  facts.segment_count = static_cast<uint32_t>(segments.size());
  facts.node_count = bench.node_count();
  facts.segments = segments.data();
  facts.nodes = nodes.empty() ? nullptr : nodes.data();
  if (const Result<port::GpuMmuCaps> caps = inspection->gpu_mmu_caps(); caps.has_value())
    add_page_tables(*caps, &facts);
  const std::vector<DxgkitClientSetting> settings = settings_of(bench.machine_config());
  facts.settings = settings.data();
  facts.setting_count = static_cast<uint32_t>(settings.size());
  DxgkitClientAnswer answer{};
  answer.kind = DXGKIT_CLIENT_DATA_FACTS;
  answer.bytes = sizeof(facts);
  answer.sent = answer.returned = &facts;
  const std::string wrong = (*code)->judge(answer);
  if (wrong.empty()) return {};
  bench.findings().report(
      {.rule = "CAPS-13",
       .severity = verifier::Severity::kViolation,
       .ddi = "DxgkDdiQueryAdapterInfo",
       .actual = fmt::format("Client {} says of caps, segments, nodes or page tables: {}.",
                             bench.plugin()->name(), wrong),
       .expected = "What the driver's user mode relies on.",
       .fix =
           "Compare what the driver tells the kernel with its hardware, and with what the client "
           "asks for.",
       .confidence = verifier::Confidence::kInferred});
  return wrong;
}

}  // namespace dxgkit::tool::verify
