#include "dxgk/adapter/segment_rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/interface_versions.h"
#include "tests/support/covers.h"
#include "tests/support/known_run.h"

namespace dxgkit::dxgk {
namespace {

constexpr uint32_t kVista = 0x1053;
constexpr uint32_t kWin8 = 0x300E;
constexpr uint64_t kMebibyte = 1U << 20;

/// 16 MiB of CPU-visible memory and a 64 MiB aperture behind it, as a faultless driver tells it.
port::SegmentsInfo valid_description() {
  port::SegmentsInfo info;
  port::SegmentInfo memory;
  memory.flags = kSegmentCpuVisible;
  memory.base_address = 0;
  memory.size = memory.commit_limit = 16 * kMebibyte;
  memory.cpu_translated_address = 0xE0000000;
  port::SegmentInfo aperture;
  aperture.flags = kSegmentAperture | kSegmentCacheCoherent;
  aperture.base_address = 0x1'0000'0000;
  aperture.size = aperture.commit_limit = 64 * kMebibyte;
  info.segments = {memory, aperture};
  info.paging_buffer_segment = 0;
  info.paging_buffer_bytes = 65536;
  return info;
}

struct Outcome {
  std::optional<SegmentRefusal> refusal;
  std::vector<vidmm::SegmentDesc> segments;
  std::vector<verifier::Finding> findings;
};

Outcome check(const port::SegmentsInfo& info, uint32_t version = kWin8,
              const port::DriverCaps& caps = {}, const SegmentSurroundings& around = {}) {
  Outcome outcome;
  verifier::Findings findings;
  const testing::KnownFindings known(findings);
  outcome.refusal = check_segment_rules(info, caps, version, around, findings, &outcome.segments);
  outcome.findings = findings.all();
  return outcome;
}

TEST(SegmentRules, AFaultlessDescriptionPassesUnchanged) {
  DXGKIT_COVERS("SEG-07", "SEG-17");
  for (const uint32_t version : {kVista, kWin8, kInterfaceWddm20, kInterfaceWddm29}) {
    const Outcome outcome = check(valid_description(), version);
    ASSERT_FALSE(outcome.refusal.has_value()) << outcome.refusal->actual;
    EXPECT_TRUE(outcome.findings.empty());
    ASSERT_EQ(outcome.segments.size(), 2U);
    const vidmm::SegmentDesc& memory = outcome.segments[0];
    EXPECT_EQ(memory.id, SegmentId{1});
    EXPECT_EQ(memory.kind, vidmm::SegmentKind::kMemory);
    EXPECT_EQ(memory.base_address, 0U);
    EXPECT_EQ(memory.size_bytes, 16 * kMebibyte);
    EXPECT_EQ(memory.commit_limit_bytes, 16 * kMebibyte);
    EXPECT_TRUE(memory.cpu_visible);
    EXPECT_FALSE(memory.cache_coherent);
    EXPECT_EQ(memory.cpu_translated_address, 0xE0000000U);
    EXPECT_TRUE(memory.bank_end_offsets.empty());
    const vidmm::SegmentDesc& aperture = outcome.segments[1];
    EXPECT_EQ(aperture.id, SegmentId{2});
    EXPECT_EQ(aperture.kind, vidmm::SegmentKind::kAperture);
    EXPECT_EQ(aperture.base_address, 0x1'0000'0000U);
    EXPECT_EQ(aperture.size_bytes, 64 * kMebibyte);
    EXPECT_EQ(aperture.commit_limit_bytes, 64 * kMebibyte);
    EXPECT_FALSE(aperture.cpu_visible);
    EXPECT_TRUE(aperture.cache_coherent);
  }
}

/// One field of the valid description broken; the sentence is the test's name.
struct Refusal {
  const char* sentence;
  const char* rule;
  std::function<void(port::SegmentsInfo&)> broken;
  uint32_t version = kWin8;
};

class SegmentRefusals : public ::testing::TestWithParam<Refusal> {};

TEST_P(SegmentRefusals, StartFails) {
  const Refusal& row = GetParam();
  DXGKIT_COVERS(row.rule);
  port::SegmentsInfo info = valid_description();
  ASSERT_FALSE(check(info, row.version).refusal.has_value());
  row.broken(info);
  const Outcome outcome = check(info, row.version);
  ASSERT_TRUE(outcome.refusal.has_value());
  EXPECT_STREQ(outcome.refusal->rule, row.rule);
  // What is wrong with one segment names it.
  const std::string first = outcome.refusal->actual.substr(0, 10);
  const bool of_one = first.starts_with("Segment ");
  const port::SegmentsInfo valid = valid_description();
  const auto differs = [&](size_t at) {
    const port::SegmentInfo& a = info.segments[at];
    const port::SegmentInfo& b = valid.segments[at];
    return a.flags != b.flags || a.base_address != b.base_address || a.size != b.size ||
           a.system_memory_end != b.system_memory_end || a.reserved != b.reserved;
  };
  if (of_one && row.rule != std::string_view("SEG-46")) {
    EXPECT_EQ(first, differs(0) ? "Segment 1 " : "Segment 2 ");
  }
  EXPECT_FALSE(outcome.refusal->expected.empty());
  EXPECT_FALSE(outcome.refusal->fix.empty());
}

port::SegmentInfo aperture_at(uint64_t base) {
  port::SegmentInfo segment;
  segment.flags = kSegmentAperture;
  segment.base_address = base;
  segment.size = segment.commit_limit = kMebibyte;
  return segment;
}

const Refusal kRefusals[] = {
    {"NoSegmentAtAll", "SEG-06", [](auto& i) { i.segments.clear(); }},
    {"ThirtyThreeSegments", "SEG-06",
     [](auto& i) {
       for (uint64_t n = 2; n < 33; ++n)
         i.segments.push_back(aperture_at(0x2'0000'0000 + n * kMebibyte));
     }},
    {"AgpWithoutAnAgpApertureInTheInput", "SEG-12",
     [](auto& i) { i.segments[1].flags = kSegmentAgp; }},
    {"AgpBesideAperture", "SEG-13",
     [](auto& i) { i.segments[1].flags = kSegmentAgp | kSegmentAperture; }},
    {"AgpBesideCpuVisible", "SEG-13",
     [](auto& i) { i.segments[0].flags = kSegmentAgp | kSegmentCpuVisible; }},
    {"BitElevenBeforeWddmTwo", "SEG-16",
     [](auto& i) { i.segments[0].flags |= kSegmentUse64KbPages; }},
    {"DirectFlipBeforeWindows8", "SEG-16",
     [](auto& i) { i.segments[0].flags |= kSegmentDirectFlip; }, kVista},
    {"TopFlagBit", "SEG-16", [](auto& i) { i.segments[1].flags |= 1U << 31; }},
    {"TopFlagBitInWddm29", "SEG-16", [](auto& i) { i.segments[1].flags |= 1U << 31; },
     kInterfaceWddm29},
    {"BaseAddressPlusSizeWraps", "SEG-17",
     [](auto& i) { i.segments[0].base_address = UINT64_MAX - 4095; }},
    {"SizeZero", "SEG-22", [](auto& i) { i.segments[0].size = i.segments[0].commit_limit = 0; }},
    {"SizeNotWholePages", "SEG-22",
     [](auto& i) { i.segments[0].size = i.segments[0].commit_limit = kMebibyte + 1; }},
    {"SizeOfHalfAPage", "SEG-22",
     [](auto& i) { i.segments[1].size = i.segments[1].commit_limit = 2048; }},
    {"EndAddressWithoutPartiallyPreserved", "SEG-31",
     [](auto& i) { i.segments[0].system_memory_end = kMebibyte - 1; }},
    {"PartiallyPreservedWithoutEndAddress", "SEG-31",
     [](auto& i) {
       i.segments[0].flags |=
           kSegmentPreservedDuringStandby | kSegmentPartiallyPreservedDuringHibernate;
     }},
    {"PartiallyPreservedBehindItsEnd", "SEG-32",
     [](auto& i) {
       i.segments[0].flags |=
           kSegmentPreservedDuringStandby | kSegmentPartiallyPreservedDuringHibernate;
       i.segments[0].system_memory_end = UINT64_MAX;
     }},
    {"PartiallyPreservedOneByteTooLong", "SEG-32",
     [](auto& i) {
       i.segments[0].flags |=
           kSegmentPreservedDuringStandby | kSegmentPartiallyPreservedDuringHibernate;
       i.segments[0].system_memory_end = i.segments[0].size;
     }},
    {"ReservedNotZero", "SEG-34", [](auto& i) { i.segments[1].reserved = 1; }},
    {"HibernateWithoutStandby010", "SEG-35",
     [](auto& i) { i.segments[0].flags |= kSegmentPreservedDuringHibernate; }},
    {"PartiallyWithoutStandby001", "SEG-35",
     [](auto& i) {
       i.segments[0].flags |= kSegmentPartiallyPreservedDuringHibernate;
       i.segments[0].system_memory_end = kMebibyte - 1;
     }},
    {"BothHibernateBits011", "SEG-35",
     [](auto& i) {
       i.segments[0].flags |=
           kSegmentPreservedDuringHibernate | kSegmentPartiallyPreservedDuringHibernate;
       i.segments[0].system_memory_end = kMebibyte - 1;
     }},
    {"AllThreePreservationBits111", "SEG-35",
     [](auto& i) {
       i.segments[0].flags |= kSegmentPreservedDuringStandby | kSegmentPreservedDuringHibernate |
                              kSegmentPartiallyPreservedDuringHibernate;
       i.segments[0].system_memory_end = kMebibyte - 1;
     }},
    {"TwoAperturesInWddmTwo", "SEG-40",
     [](auto& i) { i.segments.push_back(aperture_at(0x3'0000'0000)); }, kInterfaceWddm20},
    {"CpuHostApertureBesideCpuVisible", "SEG-41",
     [](auto& i) { i.segments[0].flags |= kSegmentSupportsCpuHostAperture; }, kInterfaceWddm20},
    {"CachedCpuHostApertureAlone", "SEG-41",
     [](auto& i) { i.segments[0].flags = kSegmentSupportsCachedCpuHostAperture; },
     kInterfaceWddm20},
    {"ReservedSysMem", "SEG-44", [](auto& i) { i.segments[0].flags |= kSegmentReservedSysMem; },
     kInterfaceWddm20},
    {"SegmentsOverlapByOnePage", "SEG-46",
     [](auto& i) { i.segments[1].base_address = 16 * kMebibyte - 4096; }},
    {"SegmentsWithTheSameBase", "SEG-46", [](auto& i) { i.segments[1].base_address = 0; }},
    {"PagingBufferInAMemorySegment", "SEG-47", [](auto& i) { i.paging_buffer_segment = 1; }},
    {"PagingBufferInAnUnknownSegment", "SEG-47", [](auto& i) { i.paging_buffer_segment = 3; }},
    {"PagingBufferInSegmentAllOnes", "SEG-47",
     [](auto& i) { i.paging_buffer_segment = UINT32_MAX; }},
    {"PagingBufferOfNoBytes", "SEG-48", [](auto& i) { i.paging_buffer_bytes = 0; }},
};

INSTANTIATE_TEST_SUITE_P(Rows, SegmentRefusals, ::testing::ValuesIn(kRefusals),
                         [](const auto& row) { return std::string(row.param.sentence); });

/// What looks wrong and is right: no refusal, no finding.
// The three bits are named alone, whatever else the segment says of itself.
TEST(SegmentRules, OnlyThePreservationBitsAreBlamed) {
  DXGKIT_COVERS("SEG-35");
  port::SegmentsInfo info = valid_description();
  info.segments[0].flags |= kSegmentDirectFlip | kSegmentPreservedDuringHibernate;
  const Outcome outcome = check(info);
  ASSERT_TRUE(outcome.refusal.has_value());
  EXPECT_EQ(
      outcome.refusal->actual,
      fmt::format("Segment 1 has preservation bits 0x2 (Flags 0x{:08X}).", info.segments[0].flags));
}

struct Accepted {
  const char* sentence;
  const char* rule;
  std::function<void(port::SegmentsInfo&)> change;
  uint32_t version = kWin8;
};
class SegmentAcceptances : public ::testing::TestWithParam<Accepted> {};

TEST_P(SegmentAcceptances, Passes) {
  const Accepted& row = GetParam();
  DXGKIT_COVERS(row.rule);
  port::SegmentsInfo info = valid_description();
  row.change(info);
  const Outcome outcome = check(info, row.version);
  EXPECT_FALSE(outcome.refusal.has_value()) << outcome.refusal->rule;
  EXPECT_TRUE(outcome.findings.empty());
}

const Accepted kAccepted[] = {
    {"StandbyAlone100", "SEG-35",
     [](auto& i) { i.segments[0].flags |= kSegmentPreservedDuringStandby; }},
    {"StandbyAndHibernate110", "SEG-35",
     [](auto& i) {
       i.segments[0].flags |= kSegmentPreservedDuringStandby | kSegmentPreservedDuringHibernate;
     }},
    {"StandbyAndPartially101", "SEG-35",
     [](auto& i) {
       i.segments[0].flags |=
           kSegmentPreservedDuringStandby | kSegmentPartiallyPreservedDuringHibernate;
       i.segments[0].system_memory_end = kMebibyte - 1;
     }},
    {"SegmentsThatTouch", "SEG-46", [](auto& i) { i.segments[1].base_address = 16 * kMebibyte; }},
    {"SegmentThatEndsAtTheTopOfTheAddressSpace", "SEG-17",
     [](auto& i) { i.segments[1].base_address = UINT64_MAX - 4095 - i.segments[1].size; }},
    {"PagingBufferInTheAperture", "SEG-47", [](auto& i) { i.paging_buffer_segment = 2; }},
    {"DirectFlipFromWindows8On", "SEG-16",
     [](auto& i) { i.segments[0].flags |= kSegmentDirectFlip; }},
    {"TwoAperturesBeforeWddmTwo", "SEG-40",
     [](auto& i) { i.segments.push_back(aperture_at(0x3'0000'0000)); }},
    {"BankTableWithoutUseBanking", "SEG-24",
     [](auto& i) {
       i.segments[0].bank_count = 0xDEADBEEF;
       i.segments[0].bank_ends = {7, 3, 1};
     }},
    {"CommitLimitOfAMemorySegmentInDescriptor4", "SEG-29",
     [](auto& i) { i.segments[0].commit_limit = 0xDEAD0000; }, kInterfaceWddm20},
    {"CpuHostApertureWithItsCachedForm", "SEG-41",
     [](auto& i) {
       i.segments[0].flags =
           kSegmentSupportsCpuHostAperture | kSegmentSupportsCachedCpuHostAperture;
     },
     kInterfaceWddm20},
};
INSTANTIATE_TEST_SUITE_P(Rows, SegmentAcceptances, ::testing::ValuesIn(kAccepted),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST(SegmentRules, CacheCoherentMemoryStartsWithAWarningAndIsNotCoherent) {
  DXGKIT_COVERS("SEG-37");
  port::SegmentsInfo info = valid_description();
  info.segments[0].flags |= kSegmentCacheCoherent;
  const Outcome outcome = check(info);
  EXPECT_FALSE(outcome.refusal.has_value());
  ASSERT_EQ(outcome.findings.size(), 1U);
  EXPECT_EQ(outcome.findings[0].rule, "SEG-37");
  EXPECT_EQ(outcome.findings[0].severity, verifier::Severity::kWarning);
  EXPECT_FALSE(outcome.segments[0].cache_coherent);
}

TEST(SegmentRules, WddmTwoWithoutApertureStartsWithAWarning) {
  DXGKIT_COVERS("SEG-40");
  port::SegmentsInfo info = valid_description();
  info.segments.pop_back();
  const Outcome outcome = check(info, kInterfaceWddm20);
  EXPECT_FALSE(outcome.refusal.has_value());
  ASSERT_EQ(outcome.findings.size(), 1U);
  EXPECT_EQ(outcome.findings[0].rule, "SEG-40");
  EXPECT_EQ(outcome.findings[0].severity, verifier::Severity::kWarning);
}

TEST(SegmentRules, ThirtyTwoSegmentsStartWithAWarning) {
  DXGKIT_COVERS("SEG-06");
  port::SegmentsInfo info = valid_description();
  for (uint64_t n = 2; n < 32; ++n)
    info.segments.push_back(aperture_at(0x2'0000'0000 + n * kMebibyte));
  const Outcome outcome = check(info);
  EXPECT_FALSE(outcome.refusal.has_value());
  EXPECT_EQ(outcome.segments.size(), 32U);
  ASSERT_EQ(outcome.findings.size(), 1U);
  EXPECT_EQ(outcome.findings[0].rule, "SEG-06");
  EXPECT_EQ(outcome.findings[0].severity, verifier::Severity::kWarning);
}

TEST(SegmentRules, TheAddressBehindABarIsReadOnlyOfCpuVisibleMemory) {
  DXGKIT_COVERS("SEG-19", "SEG-20");
  port::SegmentsInfo info = valid_description();
  info.segments[0].flags = 0;
  info.segments[0].cpu_translated_address = 0xDEADBEEFDEADBEEF;
  info.segments[1].flags = kSegmentAperture | kSegmentCpuVisible;
  info.segments[1].cpu_translated_address = 0xDEADBEEFDEADBEEF;
  const Outcome outcome = check(info);
  ASSERT_FALSE(outcome.refusal.has_value());
  EXPECT_TRUE(outcome.findings.empty());
  EXPECT_EQ(outcome.segments[0].cpu_translated_address, 0U);
  EXPECT_EQ(outcome.segments[1].cpu_translated_address, 0U);
}

TEST(SegmentRules, AWrongCommitLimitOfAMemorySegmentIsReportedAndSizeIsUsed) {
  DXGKIT_COVERS("SEG-29");
  for (const uint64_t limit : {uint64_t{0}, 8 * kMebibyte, 32 * kMebibyte}) {
    port::SegmentsInfo info = valid_description();
    info.segments[0].commit_limit = limit;
    const Outcome outcome = check(info);
    ASSERT_FALSE(outcome.refusal.has_value());
    ASSERT_EQ(outcome.findings.size(), 1U);
    EXPECT_EQ(outcome.findings[0].rule, "SEG-29");
    EXPECT_EQ(outcome.findings[0].severity, verifier::Severity::kViolation);
    EXPECT_EQ(outcome.segments[0].commit_limit_bytes, 16 * kMebibyte);
  }
}

TEST(SegmentRules, TheSmallerOfSegmentAndAdapterLimitCapsAnAperture) {
  DXGKIT_COVERS("SEG-30");
  port::SegmentsInfo info = valid_description();
  port::DriverCaps caps;
  EXPECT_EQ(check(info, kWin8, caps).segments[1].commit_limit_bytes, 64 * kMebibyte);
  info.segments[1].commit_limit = 32 * kMebibyte;
  EXPECT_EQ(check(info, kWin8, caps).segments[1].commit_limit_bytes, 32 * kMebibyte);
  caps.aperture_segment_commit_limit = 8 * kMebibyte;
  EXPECT_EQ(check(info, kWin8, caps).segments[1].commit_limit_bytes, 8 * kMebibyte);
  caps.aperture_segment_commit_limit = 48 * kMebibyte;
  EXPECT_EQ(check(info, kWin8, caps).segments[1].commit_limit_bytes, 32 * kMebibyte);
  info.segments[1].commit_limit = 1024 * kMebibyte;
  caps.aperture_segment_commit_limit = 0;
  EXPECT_EQ(check(info, kWin8, caps).segments[1].commit_limit_bytes, 64 * kMebibyte);
}

struct Banks {
  const char* sentence;
  const char* rule;  // null: accepted
  uint32_t count;
  std::vector<uint64_t> ends;
  std::vector<uint64_t> expected;
  bool aperture = false;
};
class BankTables : public ::testing::TestWithParam<Banks> {};

TEST_P(BankTables, AreTakenOrSwitchedOff) {
  const Banks& row = GetParam();
  DXGKIT_COVERS(row.rule == nullptr ? "SEG-25" : row.rule);
  port::SegmentsInfo info = valid_description();
  port::SegmentInfo& segment = info.segments[row.aperture ? 1 : 0];
  segment.flags |= kSegmentUseBanking;
  segment.bank_count = row.count;
  segment.bank_ends = row.ends;
  const Outcome outcome = check(info);
  ASSERT_FALSE(outcome.refusal.has_value());
  EXPECT_EQ(outcome.segments[row.aperture ? 1 : 0].bank_end_offsets, row.expected);
  if (row.rule == nullptr) {
    EXPECT_TRUE(outcome.findings.empty());
    return;
  }
  ASSERT_EQ(outcome.findings.size(), 1U);
  EXPECT_EQ(outcome.findings[0].rule, row.rule);
  EXPECT_EQ(outcome.findings[0].severity, verifier::Severity::kViolation);
}

const Banks kBanks[] = {
    {"FirstBankOfOneByte", nullptr, 2, {1, 16 * kMebibyte}, {1, 16 * kMebibyte}},
    {"FirstBankOfNoByte", "SEG-25", 2, {0, 16 * kMebibyte}, {}},
    {"LastEntryMissing",
     nullptr,
     3,
     {kMebibyte, 4 * kMebibyte},
     {kMebibyte, 4 * kMebibyte, 16 * kMebibyte}},
    {"LastEntryGiven", nullptr, 2, {kMebibyte, 16 * kMebibyte}, {kMebibyte, 16 * kMebibyte}},
    {"OneBankIsTheWholeSegment", nullptr, 1, {}, {16 * kMebibyte}},
    {"EqualEnds", "SEG-25", 3, {kMebibyte, kMebibyte}, {}},
    {"DecreasingEnds", "SEG-25", 3, {2 * kMebibyte, kMebibyte}, {}},
    {"EndAtZero", "SEG-25", 2, {0}, {}},
    {"EndPastTheSegment", "SEG-25", 2, {16 * kMebibyte + 1}, {}},
    {"NoBanks", "SEG-28", 0, {}, {}},
    {"TooManyBanks", "SEG-28", 128, {}, {}},
    {"BankingOnAnAperture", "SEG-28", 2, {kMebibyte}, {}, true},
};
INSTANTIATE_TEST_SUITE_P(Rows, BankTables, ::testing::ValuesIn(kBanks),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST(SegmentRules, AnAgpSegmentIsTheWholeApertureOfTheMachine) {
  DXGKIT_COVERS("SEG-18", "SEG-23", "SEG-20");
  const SegmentSurroundings around{
      .agp = bus::AgpAperture{bus::PhysicalAddress{0x8000'0000}, 32 * kMebibyte}};
  port::SegmentsInfo info = valid_description();
  port::SegmentInfo& agp = info.segments[1];
  agp = {};
  agp.flags = kSegmentAgp;
  agp.base_address = UINT64_MAX - 4095;  // not read, as nothing but the flag
  agp.size = 777;
  agp.cpu_translated_address = 0xDEAD;
  const Outcome outcome = check(info, kWin8, {}, around);
  ASSERT_FALSE(outcome.refusal.has_value()) << outcome.refusal->actual;
  EXPECT_TRUE(outcome.findings.empty());
  const vidmm::SegmentDesc& segment = outcome.segments[1];
  EXPECT_TRUE(segment.agp);
  EXPECT_EQ(segment.kind, vidmm::SegmentKind::kAperture);
  EXPECT_EQ(segment.base_address, 0x8000'0000U);
  EXPECT_EQ(segment.size_bytes, 32 * kMebibyte);
  EXPECT_EQ(segment.commit_limit_bytes, 32 * kMebibyte);
  EXPECT_EQ(segment.cpu_translated_address, 0U);
  port::DriverCaps caps;
  caps.aperture_segment_commit_limit = kMebibyte;
  EXPECT_EQ(check(info, kWin8, caps, around).segments[1].commit_limit_bytes, kMebibyte);
  info.segments.push_back(agp);
  const Outcome two = check(info, kWin8, {}, around);
  ASSERT_TRUE(two.refusal.has_value());
  EXPECT_STREQ(two.refusal->rule, "SEG-14");
}

TEST(SegmentRules, AnOverlapNamesBothSegmentsAndTheirEnds) {
  DXGKIT_COVERS("SEG-46");
  // The third lies inside the second: neither begins nor ends with it.
  port::SegmentsInfo info = valid_description();
  info.segments.push_back(aperture_at(0x1'0010'0000));
  const std::string sentence =
      "Segment 2 [0x100000000, 0x104000000) overlaps segment 3 [0x100100000, 0x100200000).";
  EXPECT_EQ(check(info).refusal->actual, sentence);
  std::swap(info.segments[1], info.segments[2]);
  EXPECT_EQ(check(info).refusal->actual,
            "Segment 2 [0x100100000, 0x100200000) overlaps segment 3 [0x100000000, 0x104000000).");
  // One page at either end, in either order; touching is none.
  struct Row {
    uint64_t base;
    bool overlaps;
  };
  for (const Row& row : {Row{0xFFF0'0000, false}, Row{0xFFF0'1000, true}, Row{0x1'03FF'F000, true},
                         Row{0x1'0400'0000, false}}) {
    info = valid_description();
    info.segments.push_back(aperture_at(row.base));
    EXPECT_EQ(check(info).refusal.has_value(), row.overlaps) << std::hex << row.base;
    std::swap(info.segments[0], info.segments[2]);
    EXPECT_EQ(check(info).refusal.has_value(), row.overlaps) << std::hex << row.base;
  }
}

TEST(SegmentRules, EachVersionKnowsItsFlagBits) {
  DXGKIT_COVERS("SEG-16");
  struct Row {
    uint32_t version, bits;
  };
  for (const Row& row :
       {Row{kVista, 10}, Row{kWin8 - 1, 10}, Row{kWin8, 11}, Row{kInterfaceWddm20 - 1, 11},
        Row{kInterfaceWddm20, 21}, Row{kInterfaceWddm29 - 1, 21}, Row{kInterfaceWddm29, 22}}) {
    for (uint32_t bit = 0; bit < 32; ++bit) {
      port::SegmentsInfo info = valid_description();
      info.segments[0].flags = 1U << bit;
      const Outcome outcome = check(info, row.version);
      const bool unknown =
          outcome.refusal.has_value() && std::string_view(outcome.refusal->rule) == "SEG-16";
      EXPECT_EQ(unknown, bit >= row.bits) << std::hex << row.version << " bit " << std::dec << bit;
    }
  }
}

TEST(SegmentRules, FlagsBecomeWhatTheMemoryManagerKnows) {
  DXGKIT_COVERS("SEG-39", "SEG-42", "SEG-37");
  const auto described = [](uint32_t flags, size_t at) {
    port::SegmentsInfo info = valid_description();
    info.segments[at].flags = flags | (at == 1 ? kSegmentAperture : 0U);
    return check(info, kInterfaceWddm20).segments.at(at);
  };
  for (const size_t at : {size_t{0}, size_t{1}}) {
    const vidmm::SegmentDesc plain = described(0, at);
    EXPECT_FALSE(plain.cpu_visible || plain.cache_coherent || plain.pitch_alignment ||
                 plain.use_64kb_pages || plain.agp);
    EXPECT_TRUE(described(kSegmentCpuVisible, at).cpu_visible);
    EXPECT_TRUE(described(kSegmentPitchAlignment, at).pitch_alignment);
    EXPECT_TRUE(described(kSegmentUse64KbPages, at).use_64kb_pages);
    EXPECT_FALSE(described(kSegmentCpuVisible, at).pitch_alignment);
    EXPECT_FALSE(described(kSegmentPitchAlignment, at).use_64kb_pages);
    EXPECT_FALSE(described(kSegmentUse64KbPages, at).cpu_visible);
    EXPECT_EQ(described(kSegmentCacheCoherent, at).cache_coherent, at == 1);
  }
}

TEST(SegmentRules, BudgetsFollowTheGroupBitsAndElseTheKind) {
  DXGKIT_COVERS("SEG-43");
  using vidmm::SegmentGroup;
  const auto group = [](uint32_t bits, size_t at) {
    port::SegmentsInfo info = valid_description();
    info.segments[at].flags |= bits;
    return check(info, kInterfaceWddm20).segments.at(at).group;
  };
  const uint32_t both = kSegmentLocalBudgetGroup | kSegmentNonLocalBudgetGroup;
  EXPECT_EQ(group(0, 0), SegmentGroup::kLocal);
  EXPECT_EQ(group(0, 1), SegmentGroup::kNonLocal);
  EXPECT_EQ(group(both, 0), SegmentGroup::kLocal);
  EXPECT_EQ(group(both, 1), SegmentGroup::kNonLocal);
  EXPECT_EQ(group(kSegmentLocalBudgetGroup, 1), SegmentGroup::kLocal);
  EXPECT_EQ(group(kSegmentNonLocalBudgetGroup, 0), SegmentGroup::kNonLocal);
  // A driver that marks a target counts there only; one that marks none counts everywhere.
  port::SegmentsInfo info = valid_description();
  EXPECT_TRUE(check(info, kInterfaceWddm20).segments[0].application_target);
  EXPECT_TRUE(check(info, kInterfaceWddm20).segments[1].application_target);
  info.segments[1].flags |= kSegmentApplicationTarget;
  EXPECT_FALSE(check(info, kInterfaceWddm20).segments[0].application_target);
  EXPECT_TRUE(check(info, kInterfaceWddm20).segments[1].application_target);
}

TEST(SegmentRules, BadRangesAreSortedAndMerged) {
  DXGKIT_COVERS("SEG-45");
  struct Row {
    const char* sentence;
    std::vector<port::MemoryRange> told;
    std::vector<port::MemoryRange> used;
    size_t overlaps;
  };
  constexpr uint64_t kPage = 4096;
  const Row rows[] = {
      {"apart, last first",
       {{8 * kPage, kPage}, {2 * kPage, kPage}},
       {{2 * kPage, kPage}, {8 * kPage, kPage}},
       0},
      {"touching", {{2 * kPage, 3 * kPage}, {5 * kPage, kPage}}, {{2 * kPage, 4 * kPage}}, 0},
      {"overlapping",
       {{2 * kPage, 3 * kPage}, {4 * kPage, 4 * kPage}},
       {{2 * kPage, 6 * kPage}},
       1},
      {"inside another", {{2 * kPage, 6 * kPage}, {4 * kPage, kPage}}, {{2 * kPage, 6 * kPage}}, 1},
      {"one page between",
       {{kPage, kPage}, {3 * kPage, kPage}},
       {{kPage, kPage}, {3 * kPage, kPage}},
       0},
      {"the last two of three overlapping",
       {{0, kPage}, {2 * kPage, 2 * kPage}, {3 * kPage, 3 * kPage}},
       {{0, kPage}, {2 * kPage, 4 * kPage}},
       1},
      {"the whole segment", {{0, 16 * kMebibyte}}, {{0, 16 * kMebibyte}}, 0},
      {"the last page", {{16 * kMebibyte - kPage, kPage}}, {{16 * kMebibyte - kPage, kPage}}, 0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.sentence);
    port::SegmentsInfo info = valid_description();
    info.segments[0].invalid_ranges = row.told;
    const Outcome outcome = check(info, kInterfaceWddm20);
    ASSERT_FALSE(outcome.refusal.has_value());
    EXPECT_EQ(outcome.findings.size(), row.overlaps);
    for (const verifier::Finding& finding : outcome.findings) {
      EXPECT_EQ(finding.rule, "SEG-45");
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
    }
    const std::vector<vidmm::ByteRange>& used = outcome.segments[0].invalid_ranges;
    ASSERT_EQ(used.size(), row.used.size());
    for (size_t i = 0; i < used.size(); ++i) {
      EXPECT_EQ(used[i].offset_bytes, row.used[i].offset);
      EXPECT_EQ(used[i].size_bytes, row.used[i].size);
    }
    EXPECT_TRUE(outcome.segments[1].invalid_ranges.empty());
  }
  for (const port::MemoryRange& bad :
       {port::MemoryRange{kPage, 0}, port::MemoryRange{kPage + 1, kPage},
        port::MemoryRange{kPage, kPage + 1}, port::MemoryRange{16 * kMebibyte, kPage},
        port::MemoryRange{16 * kMebibyte - kPage, 2 * kPage}}) {
    port::SegmentsInfo info = valid_description();
    info.segments[0].invalid_ranges = {bad};
    const Outcome outcome = check(info, kInterfaceWddm20);
    ASSERT_TRUE(outcome.refusal.has_value()) << bad.offset << " " << bad.size;
    EXPECT_STREQ(outcome.refusal->rule, "SEG-45");
  }
}

TEST(SegmentRules, ThirtyOneSegmentsAreNoWordWorth) {
  DXGKIT_COVERS("SEG-06");
  port::SegmentsInfo info = valid_description();
  for (uint64_t n = 2; n < 31; ++n)
    info.segments.push_back(aperture_at(0x2'0000'0000 + n * kMebibyte));
  const Outcome outcome = check(info);
  EXPECT_FALSE(outcome.refusal.has_value());
  EXPECT_TRUE(outcome.findings.empty());
  ASSERT_EQ(outcome.segments.size(), 31U);
  for (uint32_t i = 0; i < 31; ++i) EXPECT_EQ(outcome.segments[i].id, SegmentId{i + 1});
}

TEST(SegmentRules, CommitLimitsOfMemoryAreReadInDescriptor3Only) {
  DXGKIT_COVERS("SEG-29");
  port::SegmentsInfo info = valid_description();
  info.segments[0].commit_limit = kMebibyte;
  EXPECT_TRUE(check(info, kVista).findings.empty());
  EXPECT_TRUE(check(info, kWin8 - 1).findings.empty());
  EXPECT_EQ(check(info, kWin8).findings.size(), 1U);
  EXPECT_EQ(check(info, kInterfaceWddm20 - 1).findings.size(), 1U);
  EXPECT_TRUE(check(info, kInterfaceWddm20).findings.empty());
}

TEST(SegmentRules, TheCommitLimitOfTheAdapterCapsAgpToo) {
  DXGKIT_COVERS("SEG-30", "SEG-18");
  const SegmentSurroundings around{
      .agp = bus::AgpAperture{bus::PhysicalAddress{0x8000'0000}, 32 * kMebibyte}};
  port::SegmentsInfo info = valid_description();
  info.segments[1] = {};
  info.segments[1].flags = kSegmentAgp;
  port::DriverCaps caps;
  caps.aperture_segment_commit_limit = 64 * kMebibyte;
  EXPECT_EQ(check(info, kWin8, caps, around).segments[1].commit_limit_bytes, 32 * kMebibyte);
  EXPECT_EQ(check(info, kWin8, caps, around).segments[0].commit_limit_bytes, 16 * kMebibyte);
}

TEST(SegmentRules, AHostApertureBesideABarThatShowsAllIsWorthAWord) {
  DXGKIT_COVERS("SEG-49");
  // Two memory segments of 17 MiB together; the aperture between them does not count.
  port::SegmentsInfo info = valid_description();
  port::SegmentInfo second = info.segments[0];
  second.flags = kSegmentSupportsCpuHostAperture;
  second.base_address = 0x4'0000'0000;
  second.size = second.commit_limit = kMebibyte;
  info.segments.push_back(second);
  const auto told = [&](uint64_t bar) {
    SegmentSurroundings around;
    around.largest_memory_bar_bytes = bar;
    const Outcome outcome = check(info, kInterfaceWddm20, {}, around);
    EXPECT_FALSE(outcome.refusal.has_value());
    for (const verifier::Finding& finding : outcome.findings) {
      EXPECT_EQ(finding.rule, "SEG-49");
      EXPECT_EQ(finding.severity, verifier::Severity::kWarning);
    }
    return outcome.findings.size();
  };
  EXPECT_EQ(told(17 * kMebibyte), 1U);
  EXPECT_EQ(told(17 * kMebibyte - 1), 0U);
  info.segments[2].flags = 0;
  EXPECT_EQ(told(17 * kMebibyte), 0U);
  // The first one counts as the last does.
  std::swap(info.segments[0], info.segments[2]);
  info.segments[0].flags = kSegmentSupportsCpuHostAperture;
  EXPECT_EQ(told(17 * kMebibyte), 1U);
}

TEST(SegmentRules, WhatCannotBeSoIsSaidAndTheAdapterGoesOn) {
  DXGKIT_COVERS("SEG-17", "SEG-43");
  struct Row {
    const char* rule;  // null: nothing is wrong
    void (*change)(port::SegmentsInfo&);
  };
  const Row rows[] = {
      {"SEG-17", [](port::SegmentsInfo& info) { info.segments[0].base_address = 1; }},
      {"SEG-17", [](port::SegmentsInfo& info) { info.segments[1].base_address += 2048; }},
      {nullptr, [](port::SegmentsInfo& info) { info.segments[1].base_address += 4096; }},
      {"SEG-43",
       [](port::SegmentsInfo& info) {
         info.segments[1].flags |= kSegmentLocalBudgetGroup | kSegmentNonLocalBudgetGroup;
       }},
      {nullptr,
       [](port::SegmentsInfo& info) {
         info.segments[0].flags |= kSegmentLocalBudgetGroup;
         info.segments[1].flags |= kSegmentNonLocalBudgetGroup;
       }},
  };
  for (const Row& row : rows) {
    port::SegmentsInfo info = valid_description();
    row.change(info);
    const Outcome outcome = check(info, kInterfaceWddm20);
    EXPECT_FALSE(outcome.refusal.has_value());
    EXPECT_EQ(outcome.segments.size(), 2U);
    ASSERT_EQ(outcome.findings.size(), row.rule == nullptr ? 0U : 1U);
    if (row.rule == nullptr) continue;
    EXPECT_EQ(outcome.findings[0].rule, row.rule);
    EXPECT_EQ(outcome.findings[0].severity, verifier::Severity::kViolation);
  }
}

TEST(SegmentRules, PagingBuffersLiveInTheSegmentThatIsNamed) {
  DXGKIT_COVERS("SEG-47");
  port::SegmentsInfo info = valid_description();
  info.segments.push_back(info.segments[0]);
  info.segments[2].base_address = 0x4'0000'0000;
  for (const uint32_t segment : {0U, 1U, 2U, 3U, 4U}) {
    SCOPED_TRACE(segment);
    info.paging_buffer_segment = segment;
    const Outcome outcome = check(info);
    const bool fine = segment == 0 || segment == 2;  // the aperture lies between two others
    EXPECT_EQ(outcome.refusal.has_value(), !fine);
    if (outcome.refusal.has_value()) {
      EXPECT_STREQ(outcome.refusal->rule, "SEG-47");
    }
  }
}

TEST(SegmentRules, UpTo127Banks) {
  DXGKIT_COVERS("SEG-28");
  port::SegmentsInfo info = valid_description();
  info.segments[0].flags |= kSegmentUseBanking;
  info.segments[0].bank_count = 127;
  for (uint64_t n = 1; n < 127; ++n) info.segments[0].bank_ends.push_back(n * 4096);
  const Outcome outcome = check(info);
  EXPECT_TRUE(outcome.findings.empty());
  EXPECT_EQ(outcome.segments[0].bank_end_offsets.size(), 127U);
  EXPECT_EQ(outcome.segments[0].bank_end_offsets.back(), 16 * kMebibyte);
}

TEST(SegmentRules, EveryRefusalSaysWhatWouldGoWrong) {
  for (const Refusal& row : kRefusals)
    EXPECT_NE(std::string(why_segments_break(row.rule)), "") << row.rule;
  EXPECT_STREQ(why_segments_break("SEG-14-no-such-rule"), "");
}

}  // namespace
}  // namespace dxgkit::dxgk
