// What the tests of power transitions share: segments with preservation bits, tagged content.
#pragma once

#include <memory>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "tests/contract/fixture.h"
#include "tests/support/paging_gpu.h"

namespace dxgkit::contract {

/// The three bits of DXGK_SEGMENTFLAGS.
struct Preserved {
  bool standby = false, hibernate = false, partially = false;
  uint64_t end = 0;  // SystemMemoryEndAddress
};
inline void preserve(ScriptedMiniport& miniport, size_t index, const Preserved& bits) {
  testing::ScriptedSegment& segment = miniport.config.segments[index];
  segment.flags.PreservedDuringStandby = bits.standby ? 1 : 0;
  segment.flags.PreservedDuringHibernate = bits.hibernate ? 1 : 0;
  segment.flags.PartiallyPreservedDuringHibernate = bits.partially ? 1 : 0;
  segment.system_memory_end = bits.end;
}

/// One allocation with a tag in each page, written as a GPU would.
class Tagged {
 public:
  Tagged(Stack& stack, testing::PagingGpu& gpu, Client& client, uint64_t size, uint32_t segments)
      : stack_(stack), gpu_(gpu), client_(client), handle_(client.make_allocation(size, segments)) {
    const Result<dxgk::Ref<dxgk::OpenedAllocation>> opened =
        client.process->handles().find<dxgk::OpenedAllocation>(handle_);
    EXPECT_TRUE(opened.has_value());
    id_ = (*opened)->allocation->id;
    pages_ = size / testing::PagingGpu::kPage;
  }

  D3DKMT_HANDLE handle() const { return handle_; }
  AllocationId id() const { return id_; }
  Client& client() const { return client_; }

  /// The GPU writes it where it is brought for that, and the packet completes.
  void write(ContextBuffers& context, uint64_t tag) {
    ASSERT_EQ(client_.render(context, work_on({handle_})), 0);
    stack_.drive();
    const vidmm::Placement place = placement();
    ASSERT_NE(place.segment, kSystemMemory);
    for (uint64_t i = 0; i < pages_; ++i) {
      if (in_memory(place)) {
        gpu_.write(place.gpu_address + i * testing::PagingGpu::kPage, tag + i);
      } else {
        gpu_.write_system(frame(i), tag + i);
      }
    }
    tag_ = tag;
  }
  /// The GPU reads it.
  void use(ContextBuffers& context) {
    Work work = work_on({handle_});
    work.allocations[0].write = false;
    ASSERT_EQ(client_.render(context, work), 0);
    stack_.drive();
  }
  vidmm::Placement placement() const { return stack_.adapter().core().memory().placement(id_); }
  /// Every page has its tag, where the kernel says the content is.
  bool intact() const {
    const vidmm::Placement place = placement();
    for (uint64_t i = 0; i < pages_; ++i) {
      const uint64_t found = in_memory(place)
                                 ? gpu_.read(place.gpu_address + i * testing::PagingGpu::kPage)
                                 : gpu_.read_system(frame(i));
      if (found != tag_ + i) return false;
    }
    return true;
  }

 private:
  bool in_memory(const vidmm::Placement& place) const {
    return place.segment == SegmentId{1} || place.segment == SegmentId{2};
  }
  uint64_t frame(uint64_t page) const {
    return stack_.adapter().floor().allocations.at(id_).pages.numbers()[page];
  }
  Stack& stack_;
  testing::PagingGpu& gpu_;
  Client& client_;
  D3DKMT_HANDLE handle_;
  AllocationId id_;
  uint64_t pages_ = 0, tag_ = 0;
};

inline dxgk::PowerOutcome go(Stack& stack, dxgk::PowerTarget target,
                             Status expected = Status::kSuccess) {
  dxgk::PowerOutcome outcome;
  stack.blocking([&] {
    const Result<dxgk::PowerOutcome> done = stack.system->set_power(stack.luid, target);
    EXPECT_EQ(done.has_value() ? Status::kSuccess : done.error(), expected);
    if (done.has_value()) outcome = *done;
  });
  return outcome;
}

struct Told {
  ULONG uid = 0;
  DEVICE_POWER_STATE state = PowerDeviceUnspecified;
  POWER_ACTION action = PowerActionNone;
  bool operator==(const Told&) const = default;
};
inline constexpr ULONG kAdapterUid = 0xFFFFFFFF;

/// What each SetPowerState call was told.
inline std::shared_ptr<std::vector<Told>> listen(Stack& stack) {
  auto told = std::make_shared<std::vector<Told>>();
  stack.miniport.hooks.set_power_state = [told](ULONG uid, DEVICE_POWER_STATE state,
                                                POWER_ACTION action) {
    told->push_back({uid, state, action});
    return nt_status(Status::kSuccess);
  };
  return told;
}

/// Two engines and their memory; the copy engine's provider is component 3.
inline void describe_components(ScriptedMiniport& miniport, bool driver_completes) {
  miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.SupportRuntimePowerManagement = TRUE; };
  miniport.hooks.query_adapter_info = [&miniport,
                                       driver_completes](const DXGKARG_QUERYADAPTERINFO* args) {
    if (args->Type == DXGKQAITYPE_NUMPOWERCOMPONENTS) {
      *static_cast<UINT*>(args->pOutputData) = 4;
      return nt_status(Status::kSuccess);
    }
    if (args->Type != DXGKQAITYPE_POWERCOMPONENTINFO)
      return miniport.default_query_adapter_info(args);
    const UINT index = *static_cast<UINT*>(args->pInputData);
    auto* out = static_cast<DXGK_POWER_RUNTIME_COMPONENT*>(args->pOutputData);
    out->StateCount = index == 2 ? 2 : 3;
    out->Flags.DriverCompletesFStateTransition = driver_completes ? 1 : 0;
    out->Flags.TransitionTo_F0_OnDx = index == 0 ? 1 : 0;
    out->ComponentMapping.ComponentType = index < 2    ? DXGK_POWER_COMPONENT_ENGINE
                                          : index == 2 ? DXGK_POWER_COMPONENT_MEMORY
                                                       : DXGK_POWER_COMPONENT_OTHER;
    out->ComponentMapping.EngineDesc.NodeIndex = index;
    if (index == 1) {
      out->ProviderCount = 1;
      out->Providers[0] = 3;
    }
    return nt_status(Status::kSuccess);
  };
}

}  // namespace dxgkit::contract
