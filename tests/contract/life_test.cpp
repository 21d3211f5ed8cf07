// Load, start, stop, remove.
#include <algorithm>
#include <cstring>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

using LifeTest = ContractTest;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

size_t first_of(const std::vector<std::string>& order, std::string_view name) {
  return static_cast<size_t>(std::ranges::find(order, name) - order.begin());
}

std::vector<std::byte> bytes_of(uint32_t value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

TEST_F(LifeTest, StartAsksInOrder) {
  DXGKIT_COVERS("LIFE-07", "LIFE-05", "SEG-01");
  running(
      [](Stack& stack) {
        const std::vector<const char*> expected = {"DriverEntry",
                                                   "DxgkDdiAddDevice",
                                                   "DxgkDdiStartDevice",
                                                   "DxgkDdiQueryChildRelations",
                                                   "DxgkDdiQueryAdapterInfo",  // caps
                                                   "DxgkDdiCreateDevice",
                                                   "DxgkDdiCreateContext",
                                                   "DxgkDdiQueryAdapterInfo",  // segment count
                                                   "DxgkDdiQueryAdapterInfo",  // segments
                                                   "DxgkDdiGetNodeMetadata",
                                                   "DxgkDdiGetNodeMetadata"};
        EXPECT_THAT(stack.miniport.calls().order, ElementsAreArray(expected));
        std::vector<DXGK_QUERYADAPTERINFOTYPE> types;
        for (const testing::QueryCall& call : stack.miniport.calls().queries)
          types.push_back(call.args.Type);
        EXPECT_THAT(types, ElementsAre(DXGKQAITYPE_DRIVERCAPS, DXGKQAITYPE_QUERYSEGMENT3,
                                       DXGKQAITYPE_QUERYSEGMENT3));
        const ScriptedCalls calls = stack.miniport.calls();
        EXPECT_EQ(calls.create_devices[0].Flags.SystemDevice, 1U);
        EXPECT_EQ(calls.create_contexts[0].Flags.SystemContext, 1U);
        EXPECT_EQ(calls.create_contexts[0].NodeOrdinal, 1U) << "on the paging node";
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.children = 1;  // no video output: nothing to show on
      });
}

// A driver refuses a type that it does not know, and starts all the same.
TEST_F(LifeTest, LaterVersionsAreAskedForMore) {
  DXGKIT_COVERS("LIFE-07");
  const struct {
    uint32_t version;
    std::vector<DXGK_QUERYADAPTERINFOTYPE> types;
  } rows[] = {
      {0x4002, {DXGKQAITYPE_DRIVERCAPS}},
      {0x5023, {DXGKQAITYPE_DRIVERCAPS, DXGKQAITYPE_PHYSICALADAPTERCAPS}},
      {0xB004,
       {DXGKQAITYPE_WDDMDEVICECAPS, DXGKQAITYPE_DRIVERCAPS, DXGKQAITYPE_PHYSICALADAPTERCAPS}},
      {0xE003,
       {DXGKQAITYPE_WDDMDEVICECAPS, DXGKQAITYPE_PHYSICAL_MEMORY_CAPS, DXGKQAITYPE_IOMMU_CAPS,
        DXGKQAITYPE_DRIVERCAPS, DXGKQAITYPE_PHYSICALADAPTERCAPS}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.version);
    running(
        [&](Stack& stack) {
          std::vector<DXGK_QUERYADAPTERINFOTYPE> types;
          for (const testing::QueryCall& call : stack.miniport.calls().queries) {
            types.push_back(call.args.Type);
            if (types.back() == DXGKQAITYPE_WDDMDEVICECAPS) {
              EXPECT_EQ(call.in, bytes_of(row.version));
            } else if (types.back() == DXGKQAITYPE_PHYSICALADAPTERCAPS) {
              EXPECT_EQ(call.in, bytes_of(UINT{0})) << "the only physical adapter";
            }
          }
          ASSERT_GE(types.size(), row.types.size());
          types.resize(row.types.size());
          EXPECT_EQ(types, row.types);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [&](ScriptedMiniport& miniport) { miniport.config.version = row.version; });
  }
}

TEST_F(LifeTest, TheModelIsSaidTwiceAndTheSame) {
  DXGKIT_COVERS("CAPS-14");
  for (const auto model : {DXGKDDI_WDDMv2_6, DXGKDDI_WDDMv2}) {
    SCOPED_TRACE(model);
    running(
        [&](Stack& stack) {
          if (model == DXGKDDI_WDDMv2_6) {
            EXPECT_EQ(stack.rules(), std::vector<std::string>{});
            return;
          }
          const verifier::Finding finding = stack.only_finding();
          EXPECT_EQ(finding.rule, "CAPS-14");
          EXPECT_EQ(finding.actual, "WDDMVersion is 0x2000; DXGK_DRIVERCAPS says 0x2600.");
        },
        [&](ScriptedMiniport& miniport) {
          miniport.config.version = 0xB004;
          miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.WDDMVersion = DXGKDDI_WDDMv2_6; };
          miniport.hooks.query_adapter_info = [&, model](const DXGKARG_QUERYADAPTERINFO* args) {
            if (args->Type != DXGKQAITYPE_WDDMDEVICECAPS)
              return miniport.default_query_adapter_info(args);
            static_cast<DXGK_WDDMDEVICECAPS*>(args->pOutputData)->WDDMVersion = model;
            return NTSTATUS{0};
          };
        });
  }
}

TEST_F(LifeTest, TheSystemProcessExistsFirstAndAClientsComesBeforeItsFirstDevice) {
  DXGKIT_COVERS("LIFE-16", "THUNK-12");
  running(
      [](Stack& stack) {
        std::vector<std::string> order = stack.miniport.calls().order;
        ASSERT_LT(first_of(order, "DxgkDdiCreateProcess"), order.size());
        EXPECT_LT(first_of(order, "DxgkDdiCreateProcess"), first_of(order, "DxgkDdiCreateDevice"));
        stack.miniport.clear_calls();
        {
          Client client(stack);
          static_cast<void>(client.make_device());
          order = stack.miniport.calls().order;
          EXPECT_THAT(order, ElementsAre("DxgkDdiCreateProcess", "DxgkDdiCreateDevice",
                                         "DxgkDdiCreateDevice"));
        }
        EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyProcess"), 1U);
        EXPECT_EQ(stack.miniport.calls().order.back(), "DxgkDdiDestroyProcess");
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
      });
}

TEST_F(LifeTest, ADriverOfAnOlderModelIsNotToldOfProcesses) {
  DXGKIT_COVERS("LIFE-16");
  running(
      [](Stack& stack) {
        { Client(stack).make_device(); }
        EXPECT_EQ(stack.miniport.count("DxgkDdiCreateProcess"), 0U);
        EXPECT_EQ(stack.miniport.count("DxgkDdiDestroyProcess"), 0U);
        EXPECT_EQ(stack.miniport.calls().create_devices.back().hKmdProcess, nullptr);
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      },
      [](ScriptedMiniport& miniport) {
        miniport.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
        miniport.config.caps = [](DXGK_DRIVERCAPS& caps) { caps.WDDMVersion = DXGKDDI_WDDMv1_3; };
      });
}

TEST_F(LifeTest, DriverEntryCallsDxgkInitializeOnceAndReturnsItsStatus) {
  DXGKIT_COVERS("LIFE-01");
  bare([](Stack& stack) {  // not at all
    stack.miniport.hooks.driver_entry = [](DRIVER_OBJECT*, UNICODE_STRING*) { return NTSTATUS{0}; };
    EXPECT_FALSE(is_success(stack.load()));
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"LIFE-01"});
  });
  bare([](Stack& stack) {  // twice
    stack.miniport.hooks.driver_entry = [&](DRIVER_OBJECT* object, UNICODE_STRING* path) {
      static_cast<void>(stack.miniport.default_driver_entry(object, path));
      return stack.miniport.default_driver_entry(object, path);
    };
    EXPECT_FALSE(is_success(stack.load()));
    EXPECT_THAT(stack.rules(), ::testing::Contains("LIFE-01"));
  });
  bare([](Stack& stack) {  // its own failure
    stack.miniport.hooks.driver_entry = [](DRIVER_OBJECT*, UNICODE_STRING*) {
      return nt_status(Status::kInsufficientResources);
    };
    EXPECT_EQ(stack.load(), Status::kInsufficientResources);
  });
}

TEST_F(LifeTest, TheTableIsCopied) {
  DXGKIT_COVERS("LIFE-02");
  bare([](Stack& stack) {
    stack.miniport.hooks.driver_entry = [&](DRIVER_OBJECT* object, UNICODE_STRING* path) {
      DRIVER_INITIALIZATION_DATA table = stack.miniport.make_table();
      const NTSTATUS status = ScriptedMiniport::dxgk_initialize(object, path, &table);
      std::memset(&table, 0xEE, sizeof table);
      return status;
    };
    stack.miniport.config.nodes = 1;
    stack.miniport.config.paging_node = 0;
    EXPECT_EQ(stack.start(), Status::kSuccess);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

struct BadTable {
  const char* sentence;
  Status status;
  void (*broken)(DRIVER_INITIALIZATION_DATA&);
};
class LifeTable : public ContractTest, public ::testing::WithParamInterface<BadTable> {};
TEST_P(LifeTable, IsRefused) {
  DXGKIT_COVERS("LIFE-03");
  bare([](Stack& stack) {
    stack.miniport.config.table = GetParam().broken;
    EXPECT_EQ(stack.load(), GetParam().status);
    ASSERT_FALSE(stack.rules().empty());
    EXPECT_EQ(stack.rules()[0], "LIFE-03");
    EXPECT_THAT(stack.miniport.calls().order, ElementsAre("DriverEntry"));
  });
}
const BadTable kBadTables[] = {
    {"VersionTooNew", Status::kRevisionMismatch, [](auto& t) { t.Version = 0x7FFFFFFF; }},
    {"VersionNeverPublished", Status::kInvalidParameter, [](auto& t) { t.Version = 0x1234; }},
    {"VersionZero", Status::kInvalidParameter, [](auto& t) { t.Version = 0; }},
    {"NoAddDevice", Status::kInvalidParameter, [](auto& t) { t.DxgkDdiAddDevice = nullptr; }},
    {"NoStartDevice", Status::kInvalidParameter, [](auto& t) { t.DxgkDdiStartDevice = nullptr; }},
    {"NoStopDevice", Status::kInvalidParameter, [](auto& t) { t.DxgkDdiStopDevice = nullptr; }},
    {"NoRemoveDevice", Status::kInvalidParameter, [](auto& t) { t.DxgkDdiRemoveDevice = nullptr; }},
    {"NoQueryAdapterInfo", Status::kInvalidParameter,
     [](auto& t) { t.DxgkDdiQueryAdapterInfo = nullptr; }},
    {"NoBuildPagingBuffer", Status::kInvalidParameter,
     [](auto& t) { t.DxgkDdiBuildPagingBuffer = nullptr; }},
    {"NoPatch", Status::kInvalidParameter, [](auto& t) { t.DxgkDdiPatch = nullptr; }},
    {"NoSubmitCommand", Status::kInvalidParameter,
     [](auto& t) { t.DxgkDdiSubmitCommand = nullptr; }},
    {"NoRender", Status::kInvalidParameter, [](auto& t) { t.DxgkDdiRender = nullptr; }},
};
INSTANTIATE_TEST_SUITE_P(Rows, LifeTable, ::testing::ValuesIn(kBadTables),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(LifeTest, ANullContextFromAddDeviceMeansNotMine) {
  DXGKIT_COVERS("LIFE-05");
  bare([](Stack& stack) {
    stack.miniport.hooks.add_device = [](void** context) {
      *context = nullptr;
      return NTSTATUS{0};
    };
    EXPECT_FALSE(is_success(stack.start()));
    EXPECT_THAT(stack.miniport.calls().order, ElementsAre("DriverEntry", "DxgkDdiAddDevice"));
    EXPECT_TRUE(stack.system->adapters().empty());
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

TEST_F(LifeTest, AFailingAddDeviceIsPassedOn) {
  DXGKIT_COVERS("LIFE-05");
  bare([](Stack& stack) {
    stack.miniport.hooks.add_device = [](void**) { return nt_status(Status::kNoMemory); };
    EXPECT_EQ(stack.start(), Status::kNoMemory);
    EXPECT_THAT(stack.miniport.calls().order, ElementsAre("DriverEntry", "DxgkDdiAddDevice"));
  });
}

TEST_F(LifeTest, AfterAFailingStartDeviceOnlyRemoveDeviceFollows) {
  DXGKIT_COVERS("LIFE-11");
  bare([](Stack& stack) {
    stack.miniport.hooks.start_device = [](auto...) {
      return nt_status(Status::kInsufficientResources);
    };
    EXPECT_EQ(stack.start(), Status::kInsufficientResources);
    EXPECT_THAT(stack.miniport.calls().order,
                ElementsAre("DriverEntry", "DxgkDdiAddDevice", "DxgkDdiStartDevice",
                            "DxgkDdiRemoveDevice"));
    EXPECT_TRUE(stack.system->adapters().empty());
    EXPECT_FALSE(stack.miniport.function().interrupt_line().connected());
  });
}

/// What refuses the start after StartDevice: StopDevice, RemoveDevice, one status.
struct Refused {
  const char* sentence;
  const char* rule;  // null: the driver's own failure
  Status status;
  void (*broken)(ScriptedMiniport&);
};
class LifeRefusal : public ContractTest, public ::testing::WithParamInterface<Refused> {};
TEST_P(LifeRefusal, StopAndRemoveFollow) {
  if (GetParam().rule != nullptr) {
    DXGKIT_COVERS("LIFE-12", GetParam().rule);
  } else {
    DXGKIT_COVERS("LIFE-12");
  }
  bare([](Stack& stack) {
    GetParam().broken(stack.miniport);
    EXPECT_EQ(stack.start(), GetParam().status);
    const std::vector<std::string> order = stack.miniport.calls().order;
    ASSERT_GE(order.size(), 3U);
    EXPECT_EQ(order[order.size() - 2], "DxgkDdiStopDevice");
    EXPECT_EQ(order[order.size() - 1], "DxgkDdiRemoveDevice");
    EXPECT_EQ(stack.miniport.count("DxgkDdiStopDevice"), 1U);
    EXPECT_TRUE(stack.system->adapters().empty());
    EXPECT_FALSE(stack.miniport.function().interrupt_line().connected());
    if (GetParam().rule != nullptr) {
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, GetParam().rule);
      EXPECT_EQ(finding.severity, verifier::Severity::kStartFail);
    }
    // The machine is as before: the same driver starts once it is mended.
    stack.driver.reset();
    stack.miniport.hooks = {};
    stack.miniport.config = ScriptedMiniport().config;
    EXPECT_EQ(stack.start(), Status::kSuccess);
  });
}
NTSTATUS refuse_type(ScriptedMiniport& miniport, const DXGKARG_QUERYADAPTERINFO* args,
                     DXGK_QUERYADAPTERINFOTYPE type, Status status) {
  return args->Type == type ? nt_status(status) : miniport.default_query_adapter_info(args);
}
constexpr Status kConfiguration = Status::kDeviceConfigurationError;
const Refused kRefused[] = {
    {"CapsQueryFails", nullptr, Status::kNoMemory,
     [](auto& m) {
       m.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
         return refuse_type(m, args, DXGKQAITYPE_DRIVERCAPS, Status::kNoMemory);
       };
     }},
    {"FirstSegmentQueryFails", "SEG-04", kConfiguration,
     [](auto& m) {
       m.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
         return refuse_type(m, args, DXGKQAITYPE_QUERYSEGMENT3, Status::kNoMemory);
       };
     }},
    {"SeventeenSources", "LIFE-09", kConfiguration,
     [](auto& m) { m.config.video_present_sources = 17; }},
    {"NoNodes", "SCHED-03", kConfiguration,
     [](auto& m) {
       m.config.caps = [](DXGK_DRIVERCAPS& c) {
         c.GpuEngineTopology.NbAsymetricProcessingNodes = 0;
       };
     }},
    {"SixtyFiveNodes", "SCHED-03", kConfiguration,
     [](auto& m) {
       m.config.caps = [](DXGK_DRIVERCAPS& c) {
         c.GpuEngineTopology.NbAsymetricProcessingNodes = 65;
       };
     }},
    {"PagingNodePastTheNodes", "SCHED-03", kConfiguration,
     [](auto& m) {
       m.config.caps = [](DXGK_DRIVERCAPS& c) { c.MemoryManagementCaps.PagingNode = 2; };
     }},
    {"PreemptionAwareWithoutContexts", "PREEMPT-01", kConfiguration,
     [](auto& m) {
       m.config.multi_engine_aware = false;
       m.config.cancel_command_aware = false;
     }},
    {"CancelCommandAwareWithoutContexts", "CANCEL-02", kConfiguration,
     [](auto& m) {
       m.config.multi_engine_aware = false;
       m.config.preemption_aware = false;
     }},
    {"NoDmaPatchingWithoutPreemption", "PREEMPT-01", kConfiguration,
     [](auto& m) {
       m.config.preemption_aware = false;
       m.config.caps = [](DXGK_DRIVERCAPS& c) { c.SchedulingCaps.NoDmaPatching = 1; };
     }},
    {"MemoryTheDeviceCannotReach", "LIFE-14", kConfiguration,
     [](auto& m) {
       m.config.caps = [](DXGK_DRIVERCAPS& c) { c.HighestAcceptableAddress.QuadPart = 0xFFFFFFFF; };
     }},
    {"NodeMetadataFails", nullptr, Status::kUnsuccessful,
     [](auto& m) {
       m.hooks.get_node_metadata = [](UINT, DXGKARG_GETNODEMETADATA*) {
         return nt_status(Status::kUnsuccessful);
       };
     }},
    {"ChildRelationsFail", nullptr, Status::kUnsuccessful,
     [](auto& m) {
       m.config.children = 1;
       m.hooks.query_child_relations = [](DXGK_CHILD_DESCRIPTOR*, ULONG) {
         return nt_status(Status::kUnsuccessful);
       };
     }},
    {"SystemDeviceFails", nullptr, Status::kNoMemory,
     [](auto& m) {
       m.hooks.create_device = [](DXGKARG_CREATEDEVICE*) { return nt_status(Status::kNoMemory); };
     }},
    {"SystemProcessFails", nullptr, Status::kNoMemory,
     [](auto& m) {
       m.config.version = DXGKDDI_INTERFACE_VERSION_WDDM2_0;
       m.config.table = [](DRIVER_INITIALIZATION_DATA& table) {
         table.DxgkDdiCreateProcess = [](const HANDLE, DXGKARG_CREATEPROCESS*)
                                          NTAPI { return nt_status(Status::kNoMemory); };
         table.DxgkDdiDestroyProcess = [](const HANDLE, const HANDLE) NTAPI {
           ADD_FAILURE() << "nothing was made";
           return NTSTATUS{0};
         };
       };
     }},
    {"SystemContextFails", nullptr, Status::kNoMemory,
     [](auto& m) {
       m.hooks.create_context = [](void*, DXGKARG_CREATECONTEXT*) {
         return nt_status(Status::kNoMemory);
       };
     }},
    {"SegmentsOverlap", "SEG-46", kConfiguration,
     [](auto& m) { m.config.segments[1].base_address = m.config.segments[0].base_address; }},
    {"PagingBufferInAMemorySegment", "SEG-47", kConfiguration,
     [](auto& m) { m.config.paging_buffer_segment = 1; }},
    {"SegmentCountChanges", "SEG-05", kConfiguration,
     [](auto& m) {
       m.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
         const NTSTATUS status = m.default_query_adapter_info(args);
         if (args->Type == DXGKQAITYPE_QUERYSEGMENT3) {
           auto* out = static_cast<DXGK_QUERYSEGMENTOUT3*>(args->pOutputData);
           if (out->pSegmentDescriptor != nullptr) --out->NbSegment;
         }
         return status;
       };
     }},
    {"NoSegment", "SEG-06", kConfiguration, [](auto& m) { m.config.segments.clear(); }},
};
INSTANTIATE_TEST_SUITE_P(Rows, LifeRefusal, ::testing::ValuesIn(kRefused),
                         [](const auto& row) { return std::string(row.param.sentence); });

TEST_F(LifeTest, ChildRelationsGetOneZeroedElementMoreAndKeepItZero) {
  DXGKIT_COVERS("LIFE-10");
  ULONG bytes = 0;
  bool zeroed = false;
  const auto relations = [&](bool overrun) {
    return [&, overrun](ScriptedMiniport& miniport) {
      miniport.config.children = 3;
      miniport.hooks.query_child_relations = [&, overrun](DXGK_CHILD_DESCRIPTOR* children,
                                                          ULONG size) {
        bytes = size;
        const std::vector<std::byte> zero(size);
        zeroed = std::memcmp(children, zero.data(), size) == 0;
        children[2].ChildUid = 3;
        if (overrun) children[3].ChildUid = 4;
        return NTSTATUS{0};
      };
    };
  };
  running([&](Stack& stack) { EXPECT_EQ(stack.rules(), std::vector<std::string>{}); },
          relations(false));
  EXPECT_EQ(bytes, 4 * sizeof(DXGK_CHILD_DESCRIPTOR));
  EXPECT_TRUE(zeroed);
  running([&](Stack& stack) { EXPECT_EQ(stack.rules(), std::vector<std::string>{"LIFE-10"}); },
          relations(true));
}

TEST_F(LifeTest, EveryDdiGetsTheContextOfAddDevice) {
  DXGKIT_COVERS("LIFE-06");
  // The scripted driver's context is itself: calls arrive at all only if it comes back unchanged,
  // and here two adapters of different drivers run side by side.
  bare([](Stack& stack) {
    ASSERT_EQ(stack.start(), Status::kSuccess);
    Client client(stack);
    ContextBuffers context = client.make_context();
    ASSERT_EQ(client.render(context, work_on({client.make_allocation()})), 0);
    stack.drive();
    for (const char* ddi : {"DxgkDdiStartDevice", "DxgkDdiQueryAdapterInfo", "DxgkDdiPatch",
                            "DxgkDdiSubmitCommand", "DxgkDdiBuildPagingBuffer"}) {
      EXPECT_GE(stack.miniport.count(ddi), 1U) << ddi;
    }
  });
}

TEST_F(LifeTest, CallbacksNeedTheDeviceHandleOfStart) {
  DXGKIT_COVERS("LIFE-08");
  running([](Stack& stack) {
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    EXPECT_NE(callbacks.DeviceHandle, nullptr);
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      DXGK_DEVICE_INFO info{};
      return callbacks.DxgkCbGetDeviceInformation(reinterpret_cast<HANDLE>(uintptr_t{0x1234}),
                                                  &info);
    };
    Client client(stack);
    D3DKMT_ESCAPE escape{};
    escape.hAdapter = client.adapter;
    escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    EXPECT_LT(client.call([&] { return D3DKMTEscape(&escape); }), 0);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{"LIFE-08"});
  });
}

TEST_F(LifeTest, StopEndsEverythingInOrderAndHandlesAnswerDeviceRemoved) {
  DXGKIT_COVERS("LIFE-18", "THUNK-07", "TDR-27");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE allocation = client.make_allocation();
    ASSERT_EQ(client.render(context, work_on({allocation})), 0);
    stack.settle();
    stack.miniport.clear_calls();
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    const std::vector<std::string> order = stack.miniport.calls().order;
    const size_t context_gone = first_of(order, "DxgkDdiDestroyContext");
    const size_t closed = first_of(order, "DxgkDdiCloseAllocation");
    const size_t destroyed = first_of(order, "DxgkDdiDestroyAllocation");
    const size_t device_gone = first_of(order, "DxgkDdiDestroyDevice");
    EXPECT_LT(context_gone, closed);
    EXPECT_LT(closed, destroyed);
    EXPECT_LT(destroyed, device_gone);
    ASSERT_GE(order.size(), 2U);
    EXPECT_EQ(order[order.size() - 2], "DxgkDdiStopDevice");
    EXPECT_EQ(order[order.size() - 1], "DxgkDdiRemoveDevice");
    EXPECT_EQ(stack.miniport.live_objects(), 0U);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});

    EXPECT_EQ(client.render(context, work_on({})), nt_status(Status::kDeviceRemoved));
    ContextBuffers another;
    EXPECT_EQ(client.create_context(&another), nt_status(Status::kDeviceRemoved));
    D3DKMT_HANDLE none = 0;
    EXPECT_EQ(client.create_allocation({}, &none), nt_status(Status::kDeviceRemoved));
    D3DKMT_CREATEDEVICE device{};
    device.hAdapter = client.adapter;
    EXPECT_EQ(client.call([&] { return D3DKMTCreateDevice(&device); }),
              nt_status(Status::kDeviceRemoved));
    void* address = nullptr;
    EXPECT_EQ(client.lock(allocation, &address), nt_status(Status::kDeviceRemoved));
    D3DKMT_GETDEVICESTATE state{};
    state.hDevice = client.device;
    state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
    EXPECT_EQ(client.call([&] { return D3DKMTGetDeviceState(&state); }),
              nt_status(Status::kDeviceRemoved));
    // Destroying and closing work.
    EXPECT_EQ(client.destroy_allocation(allocation), 0);
    EXPECT_EQ(client.destroy_context(context.handle), 0);
    EXPECT_EQ(client.destroy_device(client.device), 0);
    D3DKMT_CLOSEADAPTER close{client.adapter};
    EXPECT_EQ(client.call([&] { return D3DKMTCloseAdapter(&close); }), 0);
    EXPECT_EQ(client.handles(), 0U);
    EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kInvalidParameter);
  });
}

// Segments are emptied at the end on no context's behalf; what is unmapped with its owner after
// that is the system context's again.
TEST_F(LifeTest, WhatLeavesAtStopSaysOnWhoseBehalf) {
  DXGKIT_COVERS("SUB-04");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE hidden = client.make_allocation(64 * kKibibyte, 1U << 1);
    const D3DKMT_HANDLE mapped = client.make_allocation(64 * kKibibyte, 1U << 2);
    ASSERT_EQ(client.render(context, work_on({hidden, mapped})), 0);
    stack.drive();
    stack.miniport.clear_calls();
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    const ScriptedCalls calls = stack.miniport.calls();
    ASSERT_EQ(calls.paging.size(), 2U);
    EXPECT_EQ(calls.paging[0].args.Operation, DXGK_OPERATION_TRANSFER);
    EXPECT_EQ(calls.paging[1].args.Operation, DXGK_OPERATION_UNMAP_APERTURE_SEGMENT);
    ASSERT_EQ(calls.submits.size(), 2U);
    EXPECT_EQ(calls.submits[0].args.hContext, nullptr);
    EXPECT_NE(calls.submits[1].args.hContext, nullptr);
  });
}

TEST_F(LifeTest, UnloadComesAfterTheLastRemoveAndLeaksAreFound) {
  DXGKIT_COVERS("LIFE-20");
  bare([](Stack& stack) {
    ASSERT_EQ(stack.start(), Status::kSuccess);
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    EXPECT_EQ(stack.miniport.count("DxgkDdiUnload"), 0U);
    stack.driver.reset();
    EXPECT_EQ(stack.miniport.calls().order.back(), "DxgkDdiUnload");
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
  bare([](Stack& stack) {
    stack.miniport.hooks.start_device = [&](auto... args) {
      using Allocate = void*(NTAPI*)(uint32_t, uint64_t, uint32_t);
      const auto allocate = reinterpret_cast<Allocate>(
          const_cast<void*>(nt::find_export("ExAllocatePoolWithTag")->address));
      EXPECT_NE(allocate(0, 100, 0x6B61654C), nullptr);
      return stack.miniport.default_start_device(args...);
    };
    stack.expect_leaks = true;
    ASSERT_EQ(stack.start(), Status::kSuccess);
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    stack.driver.reset();
    const verifier::Finding finding = stack.only_finding();
    EXPECT_EQ(finding.rule, "LIFE-20");
  });
}

TEST_F(LifeTest, RepeatedStartAndStopLeavesNothingBehind) {
  DXGKIT_COVERS("LIFE-18", "LIFE-20");
  bare([](Stack& stack) {
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(stack.start(), Status::kSuccess);
      stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
      EXPECT_EQ(stack.miniport.live_objects(), 0U);
      EXPECT_EQ(stack.machine.free_page_count(), stack.pages_at_start);
    }
  });
}

TEST_F(LifeTest, UmdPrivateQueriesReachTheDriver) {
  DXGKIT_COVERS("THUNK-11");
  with_client([](Stack& stack, Client& client) {
    std::vector<std::byte> data(16);
    D3DKMT_QUERYADAPTERINFO query{};
    query.hAdapter = client.adapter;
    query.Type = KMTQAITYPE_UMDRIVERPRIVATE;
    query.pPrivateDriverData = data.data();
    query.PrivateDriverDataSize = 16;
    EXPECT_EQ(client.call([&] { return D3DKMTQueryAdapterInfo(&query); }), 0);
    EXPECT_EQ(data, std::vector<std::byte>(16, std::byte{0x5C}));
    stack.miniport.hooks.query_adapter_info = [](const DXGKARG_QUERYADAPTERINFO*) {
      return nt_status(Status::kGraphicsDriverMismatch);
    };
    std::fill(data.begin(), data.end(), std::byte{1});
    EXPECT_EQ(client.call([&] { return D3DKMTQueryAdapterInfo(&query); }),
              nt_status(Status::kGraphicsDriverMismatch));
    EXPECT_EQ(data, std::vector<std::byte>(16, std::byte{1})) << "a failing thunk writes nothing";
  });
}

}  // namespace
}  // namespace dxgkit::contract
