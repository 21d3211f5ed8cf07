// What belongs to an adapter's lane ends the process when it is called off the lane, where it would
// race. Each entry point asks for itself: who calls a part that is not listed here comes through
// one that is.
#include "dxgk/adapter/adapter.h"
#include "dxgk/display/flips.h"
#include "dxgk/memory/offers.h"
#include "dxgk/memory/residency.h"
#include "dxgk/memory/teardowns.h"
#include "dxgk/va/gpu_va.h"
#include "dxgk/work/context_allocations.h"
#include "dxgk/work/submission.h"
#include "tests/contract/flip_fixture.h"
#include "tests/contract/gpu_va_fixture.h"

namespace dxgkit::contract {
namespace {

using dxgk::DisplayFloor;

struct Entry {
  const char* name;
  std::function<void(DisplayFloor&)> call;
};

/// The process ends with the lane's own check, so before the call has done anything.
void expect_lane(const Entry& entry, DisplayFloor& floor) {
  SCOPED_TRACE(entry.name);
  EXPECT_DEATH(entry.call(floor), "is_current");
}

class LaneEntryDeathTest : public GpuVaTest {};

TEST_F(LaneEntryDeathTest, PartsOfMemoryAndWork) {
  const std::vector<Entry> entries = {
      {"Residency::make_resident",
       [](DisplayFloor& floor) {
         dxgk::MakeResidentOutcome outcome;
         // No queue is looked at before the lane is.
         auto* const no_queue = reinterpret_cast<dxgk::PagingQueue*>(&floor);
         static_cast<void>(floor.residency->make_resident(*no_queue, {}, {}, &outcome));
       }},
      {"Residency::evict",
       [](DisplayFloor& floor) {
         uint64_t trim = 0;
         auto* const no_device = reinterpret_cast<dxgk::DeviceMemory*>(&floor);
         static_cast<void>(floor.residency->evict(*no_device, {}, {}, &trim));
       }},
      {"Residency::advance", [](DisplayFloor& floor) { floor.residency->advance(); }},
      {"Teardowns::begin",
       [](DisplayFloor& floor) {
         auto* const no_device = reinterpret_cast<dxgk::DeviceMemory*>(&floor);
         floor.teardowns->begin(*no_device, {}, {});
       }},
      {"Teardowns::advance", [](DisplayFloor& floor) { floor.teardowns->advance(); }},
      {"Offers::begin",
       [](DisplayFloor& floor) {
         dxgk::Allocation allocation;
         floor.offers->begin(allocation);
       }},
      {"Offers::advance", [](DisplayFloor& floor) { floor.offers->advance(); }},
      {"Submission::queue",
       [](DisplayFloor& floor) {
         dxgk::Packet packet;
         floor.submission->queue(packet);
       }},
      {"Submission::queue_paging",
       [](DisplayFloor& floor) {
         dxgk::Packet packet;
         floor.submission->queue_paging(packet);
       }},
      {"ContextAllocations::before",
       [](DisplayFloor& floor) {
         std::vector<std::unique_ptr<dxgk::PagingWork>> work;
         floor.context_allocations->before({}, &work);
       }},
      {"ContextAllocations::advance",
       [](DisplayFloor& floor) { floor.context_allocations->advance(); }},
      {"GpuVa::before",
       [](DisplayFloor& floor) {
         dxgk::GpuVa::Work work;
         floor.gpu_va->before({}, &work);
       }},
      {"GpuVa::behind",
       [](DisplayFloor& floor) {
         dxgk::GpuVa::Work work;
         floor.gpu_va->behind({}, &work);
       }},
      {"GpuVa::rebuild", [](DisplayFloor& floor) { static_cast<void>(floor.gpu_va->rebuild()); }},
  };
  running(GpuVaConfig::gpu_physical_four_level(), [&](GpuVaStack& stack) {
    for (const Entry& entry : entries) expect_lane(entry, stack.adapter().floor());
  });
}

class LaneEntryFlipDeathTest : public FlipTest {};

TEST_F(LaneEntryFlipDeathTest, PartsOfTheDisplay) {
  const auto flips = [](DisplayFloor& floor) -> dxgk::Flips& {
    return static_cast<dxgk::Flips&>(*floor.flips);
  };
  const std::vector<Entry> entries = {
      {"Flips::queue",
       [&](DisplayFloor& floor) { static_cast<void>(flips(floor).queue({}, false)); }},
      {"Flips::reached", [&](DisplayFloor& floor) { flips(floor).reached(0, 1, true); }},
      {"Flips::on_vsync", [&](DisplayFloor& floor) { flips(floor).on_vsync({}); }},
  };
  flipping([&](Stack& stack, FlipDriver&, FlipClient&) {
    for (const Entry& entry : entries) expect_lane(entry, stack.adapter().floor());
  });
}

}  // namespace
}  // namespace dxgkit::contract
