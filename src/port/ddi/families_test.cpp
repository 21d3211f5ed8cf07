// Each family of DDIs over a table filled by hand: it is made of a core and nothing else, calls its
// entries with what it was given, and answers kNotSupported without them. What the driver's answers
// mean: the tests of the adapter, one folder up.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "port/adapter_port.h"
#include "port/core/core_world_test.h"
#include "tests/support/covers.h"

namespace dxgkit::port {
namespace {

/// The calls of the fake driver: entry, and the number that tells what it was given.
std::vector<std::pair<std::string, uint64_t>>* g_calls = nullptr;
void note(const char* entry, uint64_t argument = 0) { g_calls->emplace_back(entry, argument); }
uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
void* const kSome = reinterpret_cast<void*>(0x5000);

using Calls = std::vector<std::pair<std::string, uint64_t>>;

/// A world for `Family`, before and after `fill` has given the table its entries.
template <typename Family>
void with_family(const std::function<void(DRIVER_INITIALIZATION_DATA&)>& fill,
                 const std::function<void(Family&, bool filled, CoreWorld&)>& body,
                 uint32_t version = kInterfaceWddm32) {
  for (const bool filled : {false, true}) {
    with_core(
        [&](CoreWorld& world) {
          Calls calls;
          g_calls = &calls;
          if (filled) fill(world.table.table);
          Family family(world.core());
          body(family, filled, world);
          EXPECT_EQ(world.rules(), "");
          if (!filled) {
            EXPECT_TRUE(calls.empty());
          }
          g_calls = nullptr;
        },
        version);
  }
}
Status expected(bool filled) { return filled ? Status::kSuccess : Status::kNotSupported; }

/// As if the driver had it; it is not called.
template <typename Entry>
void present(Entry& entry) {
  entry = reinterpret_cast<Entry>(uintptr_t{0x1000});
}

// One entry that is missing is enough for the whole family to be.
TEST(Families, ThoseOfSeveralEntriesAreCompleteWithAllOfThem) {
  for (int missing = 0; missing <= 4; ++missing) {
    with_core([&](CoreWorld& world) {
      DRIVER_INITIALIZATION_DATA& table = world.table.table;
      if (missing != 0) present(table.DxgkDdiCreateOverlay);
      if (missing != 1) present(table.DxgkDdiUpdateOverlay);
      if (missing != 2) present(table.DxgkDdiFlipOverlay);
      if (missing != 3) present(table.DxgkDdiDestroyOverlay);
      EXPECT_EQ(OverlayPort(world.core()).complete(), missing == 4) << missing;
    });
    for (const uint32_t version : {kInterfaceWddm23, kInterfaceWddm23 - 1}) {
      with_core(
          [&](CoreWorld& world) {
            DRIVER_INITIALIZATION_DATA& table = world.table.table;
            if (missing != 0) present(table.DxgkDdiCreateProtectedSession);
            if (missing != 1) present(table.DxgkDdiDestroyProtectedSession);
            EXPECT_EQ(ProtectedSessionPort(world.core()).complete(),
                      missing > 1 && version >= kInterfaceWddm23)
                << missing;
          },
          version);
    }
  }
}

TEST(LifePort, StartsAndStops) {
  with_core([](CoreWorld& world) {
    Calls calls;
    g_calls = &calls;
    DRIVER_INITIALIZATION_DATA& table = world.table.table;
    CoreWorld::set(
        table.DxgkDdiAddDevice, +[](void*, void** context) NTAPI -> NTSTATUS {
          *context = kSome;
          return 0;
        });
    CoreWorld::set(
        table.DxgkDdiStartDevice,
        +[](void* context, DXGK_START_INFO*, DXGKRNL_INTERFACE* callbacks, ULONG* sources,
            ULONG* children) NTAPI -> NTSTATUS {
          note("start", number(context));
          EXPECT_NE(callbacks->DxgkCbQueueDpc, nullptr);
          *sources = 1;
          *children = 2;
          return 0;
        });
    CoreWorld::set(
        table.DxgkDdiStopDevice, +[](void*) NTAPI -> NTSTATUS { return 0; });
    CoreWorld::set(
        table.DxgkDdiRemoveDevice, +[](void*) NTAPI -> NTSTATUS { return 0; });
    LifePort life(world.core());
    EXPECT_EQ(life.add_device(), Status::kSuccess);
    const Result<StartInfo> info = life.start_device();
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->video_present_sources, 1U);
    EXPECT_EQ(info->children, 2U);
    EXPECT_TRUE(world.core().interrupts.connected());
    DisplayInformation left{.width = 3, .height = 5, .pitch_bytes = 7, .address = 9};
    EXPECT_EQ(life.stop_device_and_release(0, &left), Status::kNotSupported) << "no such entry";
    EXPECT_EQ(left.width + left.height + left.pitch_bytes + left.address, 0U)
        << "nothing is left where nothing was said";
    EXPECT_EQ(life.stop_device(), Status::kSuccess);
    EXPECT_FALSE(world.core().interrupts.connected());
    EXPECT_EQ(life.remove_device(), Status::kSuccess);
    EXPECT_EQ(calls, (Calls{{"start", 0x5000}}));
    g_calls = nullptr;
  });
}

/// The line is shared, and connected before DxgkDdiStartDevice is called.
TEST(LifePort, TellsAnInterruptDuringTheStartFromOneBehindIt) {
  static PortCore* interrupted_core;
  for (const bool during : {false, true}) {
    SCOPED_TRACE(during);
    with_core([&](CoreWorld& world) {
      DRIVER_INITIALIZATION_DATA& table = world.table.table;
      CoreWorld::set(
          table.DxgkDdiAddDevice, +[](void*, void** context) NTAPI -> NTSTATUS {
            *context = kSome;
            return 0;
          });
      CoreWorld::set(
          table.DxgkDdiStartDevice,
          +[](void*, DXGK_START_INFO*, DXGKRNL_INTERFACE*, ULONG* sources, ULONG* children)
               NTAPI -> NTSTATUS {
            if (interrupted_core != nullptr)
              static_cast<void>(interrupted_core->function.interrupt_line().raise());
            *sources = *children = 0;
            return 0;
          });
      CoreWorld::set(
          table.DxgkDdiInterruptRoutine, +[](void*, ULONG) NTAPI -> BOOLEAN { return FALSE; });
      CoreWorld::set(
          table.DxgkDdiStopDevice, +[](void*) NTAPI -> NTSTATUS { return 0; });
      CoreWorld::set(
          table.DxgkDdiRemoveDevice, +[](void*) NTAPI -> NTSTATUS { return 0; });
      PortCore& core = world.core();
      verifier::SituationLog log;
      core.situations = std::make_unique<Situations>(log);
      interrupted_core = during ? &core : nullptr;
      LifePort life(core);
      EXPECT_EQ(life.add_device(), Status::kSuccess);
      ASSERT_TRUE(life.start_device().has_value());
      static_cast<void>(core.function.interrupt_line().raise());
      using verifier::Situation;
      EXPECT_EQ(log.count(Situation::kInterruptDuringStart), during ? 1U : 0U);
      EXPECT_EQ(log.count(Situation::kInterruptNotOurs), during ? 2U : 1U);
      EXPECT_EQ(life.stop_device(), Status::kSuccess);
      EXPECT_EQ(life.remove_device(), Status::kSuccess);
      core.situations = nullptr;
    });
  }
}

TEST(CapsPort, ReadsNodeMetadata) {
  with_family<CapsPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiGetNodeMetadata,
            +[](void*, UINT node, DXGKARG_GETNODEMETADATA* out) NTAPI -> NTSTATUS {
              note("node", node);
              out->Flags.ContextSchedulingSupported = 1;
              return 0;
            });
      },
      [](CapsPort& caps, bool filled, CoreWorld&) {
        NodeMetadata metadata;
        EXPECT_EQ(caps.get_node_metadata(NodeOrdinal{3}, &metadata), expected(filled));
        EXPECT_EQ(metadata.context_scheduling, filled);
      });
}

/// Of the declared version the caps are read, no more (LIFE-07).
TEST(CapsPort, ReadsTheCapsOfItsVersion) {
  for (const uint32_t version : {kInterfaceWin7, kInterfaceWin8}) {
    with_core(
        [&](CoreWorld& world) {
          CoreWorld::set(
              world.table.table.DxgkDdiQueryAdapterInfo,
              +[](void*, const DXGKARG_QUERYADAPTERINFO* args) NTAPI -> NTSTATUS {
                std::memset(args->pOutputData, 0xFF, args->OutputDataSize);
                return 0;
              });
          CapsPort caps(world.core());
          const Result<DriverCaps> read = caps.query_driver_caps();
          ASSERT_TRUE(read.has_value());
          EXPECT_TRUE(read->multi_engine_aware);
          EXPECT_EQ(read->preemption_aware, version == kInterfaceWin8);
          EXPECT_FALSE(read->gpu_mmu_supported);
        },
        version);
  }
}

TEST(PowerPort, ChangesStatesWithoutAnActionOnTheWayUp) {
  with_family<PowerPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiSetPowerState,
            +[](void*, ULONG child, DEVICE_POWER_STATE state, POWER_ACTION action)
                 NTAPI -> NTSTATUS {
              note(state == PowerDeviceD0 ? "up" : "down", child);
              EXPECT_EQ(action == static_cast<POWER_ACTION>(2), state != PowerDeviceD0);
              return 0;
            });
      },
      [](PowerPort& power, bool filled, CoreWorld&) {
        EXPECT_EQ(power.set_power_state(5, PowerState::kD3), expected(filled));
        EXPECT_EQ(power.set_power_state(5, PowerState::kD0), expected(filled));
        EXPECT_EQ(power.notify_surprise_removal(false), Status::kNotSupported);
        if (filled) {
          EXPECT_EQ(*g_calls, (Calls{{"down", 5}, {"up", 5}}));
        }
      });
}

TEST(ObjectsPort, MakesAndDestroys) {
  with_family<ObjectsPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiCreateContext,
            +[](void* device, DXGKARG_CREATECONTEXT* args) NTAPI -> NTSTATUS {
              note("create", number(device));
              args->hContext = kSome;
              args->ContextInfo.DmaBufferSize = 0x1000;
              return 0;
            });
        CoreWorld::set(
            table.DxgkDdiDestroyContext, +[](void* context) NTAPI -> NTSTATUS {
              note("destroy", number(context));
              return 0;
            });
      },
      [](ObjectsPort& objects, bool filled, CoreWorld&) {
        const Result<ContextInfo> made =
            objects.create_context(kSome, 0x80, NodeOrdinal{1}, 1, false, {});
        EXPECT_EQ(made.has_value() ? Status::kSuccess : made.error(), expected(filled));
        EXPECT_EQ(objects.destroy_context(kSome), expected(filled));
        EXPECT_EQ(objects.escape(kSome, kSome, 0, {}), Status::kNotSupported);
        if (!filled) return;
        EXPECT_EQ(made->handle, kSome);
        EXPECT_EQ(made->dma_buffer_bytes, 0x1000U);
        EXPECT_EQ(*g_calls, (Calls{{"create", 0x5000}, {"destroy", 0x5000}}));
      });
}

TEST(AllocationsPort, DescribesAndValidates) {
  with_family<AllocationsPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiDescribeAllocation,
            +[](void*, DXGKARG_DESCRIBEALLOCATION* args) NTAPI -> NTSTATUS {
              note("describe", number(args->hAllocation));
              args->Width = 640;
              return 0;
            });
      },
      [](AllocationsPort& allocations, bool filled, CoreWorld&) {
        const Result<AllocationDescription> said = allocations.describe_allocation(kSome);
        EXPECT_EQ(said.has_value() ? Status::kSuccess : said.error(), expected(filled));
        EXPECT_EQ(allocations.validate_property_update(kSome, {}), Status::kNotSupported);
        EXPECT_EQ(allocations.describe_existing_memory(100).error(), Status::kInvalidParameter)
            << "whole pages only";
        if (filled) {
          EXPECT_EQ(said->width, 640U);
        }
      });
}

TEST(CpuAccessPort, ShowsPagesThroughTheAperture) {
  with_family<CpuAccessPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiMapCpuHostAperture,
            +[](void*, const DXGKARG_MAPCPUHOSTAPERTURE* args) NTAPI -> NTSTATUS {
              note("map", args->pMemorySegmentPages[1]);
              return 0;
            });
      },
      [](CpuAccessPort& access, bool filled, CoreWorld&) {
        const std::array<uint32_t, 2> aperture = {0, 1};
        const std::array<uint64_t, 2> memory = {8, 9};
        EXPECT_EQ(access.map_cpu_host_aperture(kSome, SegmentId{2}, aperture, memory),
                  expected(filled));
        SwizzlingRange range;
        EXPECT_EQ(access.acquire_swizzling_range(&range), Status::kNotSupported) << "of WDDM 1";
        if (filled) {
          EXPECT_EQ(*g_calls, (Calls{{"map", 9}}));
        }
      });
}

TEST(GpuVaPort, SetsRoots) {
  with_family<GpuVaPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiSetRootPageTable, +[](void*, const DXGKARG_SETROOTPAGETABLE* args) NTAPI {
              note("root", args->Address.SegmentOffset);
            });
        CoreWorld::set(
            table.DxgkDdiGetRootPageTableSize,
            +[](void*, DXGKARG_GETROOTPAGETABLESIZE*) NTAPI -> SIZE_T { return 0x2000; });
      },
      [](GpuVaPort& gpu_va, bool filled, CoreWorld&) {
        EXPECT_EQ(gpu_va.set_root_page_table(kSome, {{SegmentId{2}, 0x7000}, 512}),
                  expected(filled));
        const Result<uint64_t> size = gpu_va.get_root_page_table_size(512);
        EXPECT_EQ(size.has_value() ? Status::kSuccess : size.error(), expected(filled));
        if (filled) {
          EXPECT_EQ(*size, 0x2000U);
        }
      });
}

TEST(RenderingPort, MeasuresWhatWasBuilt) {
  with_family<RenderingPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiRender, +[](void* context, DXGKARG_RENDER* args) NTAPI -> NTSTATUS {
              note("render", number(context));
              args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 24;
              return 0;
            });
      },
      [](RenderingPort& rendering, bool filled, CoreWorld&) {
        std::array<std::byte, 64> buffer{};
        RenderArgs args;
        args.context = kSome;
        args.buffer.cpu = buffer.data();
        args.buffer.size_bytes = buffer.size();
        const RenderResult result = rendering.render(args);
        EXPECT_EQ(result.status, expected(filled));
        EXPECT_EQ(result.dma_bytes, filled ? 24U : 0U);
        EXPECT_EQ(rendering.present({}).status, Status::kNotSupported);
        EXPECT_EQ(rendering.validate_submit({}), Status::kNotSupported);
      });
}

TEST(SubmissionPort, SubmitsAtDispatchLevel) {
  with_family<SubmissionPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiSubmitCommand,
            +[](void*, const DXGKARG_SUBMITCOMMAND* args) NTAPI -> NTSTATUS {
              note("submit", args->SubmissionFenceId);
              EXPECT_EQ(nt::CallFrame::current().irql(), nt::kDispatchLevel);
              return 0;
            });
      },
      [](SubmissionPort& submission, bool filled, CoreWorld&) {
        EXPECT_FALSE(submission.has_patch());
        EXPECT_FALSE(submission.has_cancel());
        SubmitArgs args;
        args.fence = SubmissionFenceId{0x34};
        EXPECT_EQ(submission.submit(args), expected(filled));
        EXPECT_EQ(submission.patch({}), Status::kNotSupported);
        EXPECT_EQ(submission.submit_virtual({}), Status::kNotSupported);
        EXPECT_EQ(submission.preempt(NodeOrdinal{0}, SubmissionFenceId{1}), Status::kNotSupported);
        if (filled) {
          EXPECT_EQ(*g_calls, (Calls{{"submit", 0x34}}));
        }
      });
}

TEST(PagingPort, BuildsAndKeepsMdls) {
  with_core([](CoreWorld& world) {
    Calls calls;
    g_calls = &calls;
    CoreWorld::set(
        world.table.table.DxgkDdiBuildPagingBuffer,
        +[](void*, DXGKARG_BUILDPAGINGBUFFER* args) NTAPI -> NTSTATUS {
          note("build", static_cast<uint64_t>(args->Operation));
          EXPECT_NE(args->Transfer.Source.pMdl, nullptr);
          args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 16;
          return 0;
        });
    PagingPort paging(world.core());
    std::array<std::byte, 64> buffer{};
    const std::array<uint64_t, 1> pages = {0x11};
    PagingOperation operation;
    operation.kind = PagingOperation::Kind::kTransfer;
    operation.size_bytes = kPageBytes;
    operation.source.pages = pages;
    operation.destination.segment = SegmentId{1};
    const BuildPagingResult result = paging.build_paging(
        {.buffer = buffer.data(), .buffer_bytes = buffer.size(), .operation = &operation});
    EXPECT_EQ(result.status, Status::kSuccess);
    EXPECT_EQ(result.bytes_written, 16U);
    EXPECT_EQ(paging.paging_mdls_issued(), 1U);
    paging.release_paging_mdls(1);
    EXPECT_EQ(calls, (Calls{{"build", DXGK_OPERATION_TRANSFER}}));
    EXPECT_EQ(world.rules(), "");
    g_calls = nullptr;
  });
}

TEST(TimeoutPort, ResetsExclusively) {
  with_family<TimeoutPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiResetFromTimeout, +[](void* context) NTAPI -> NTSTATUS {
              note("reset", number(context) != 0 ? 1 : 0);
              return 0;
            });
      },
      [](TimeoutPort& timeouts, bool filled, CoreWorld& world) {
        EXPECT_FALSE(timeouts.has_engine_reset());
        EXPECT_EQ(timeouts.query_engine_status(NodeOrdinal{0}).error(), Status::kNotSupported);
        EXPECT_TRUE(timeouts.collect_debug_info(0x141).empty());
        world.core().levels.enter_level_two();
        EXPECT_EQ(timeouts.reset_from_timeout(), expected(filled));
        EXPECT_EQ(timeouts.restart_from_timeout(), Status::kNotSupported);
        world.core().levels.leave_level_two();
        timeouts.flush_dpcs();
        if (filled) {
          EXPECT_EQ(*g_calls, (Calls{{"reset", 1}}));
        }
      });
}

/// A driver that stops the machine inside has given no answer, so that none is judged.
TEST(TimeoutPort, ADriverThatDoesNotComeBackHasNoGroupOfEngines) {
  with_core([](CoreWorld& world) {
    DRIVER_INITIALIZATION_DATA& table = world.table.table;
    CoreWorld::set(
        table.DxgkDdiQueryDependentEngineGroup,
        +[](void*, DXGKARG_QUERYDEPENDENTENGINEGROUP*) NTAPI -> NTSTATUS {
          reinterpret_cast<void(NTAPI*)(uint32_t)>(
              const_cast<void*>(nt::find_export("KeBugCheck")->address))(0x116);
          return 0;
        });
    CoreWorld::set(
        table.DxgkDdiQueryEngineStatus,
        +[](void*, DXGKARG_QUERYENGINESTATUS*) NTAPI -> NTSTATUS { return 0; });
    CoreWorld::set(
        table.DxgkDdiResetEngine, +[](void*, DXGKARG_RESETENGINE*) NTAPI -> NTSTATUS { return 0; });
    TimeoutPort timeouts(world.core());
    ASSERT_TRUE(timeouts.has_engine_reset());
    EXPECT_EQ(timeouts.query_dependent_engines(NodeOrdinal{1}, 3).error(), Status::kDeviceRemoved);
    ASSERT_EQ(world.host.fatal.size(), 1U);
    EXPECT_EQ(world.host.fatal[0].bugcheck_code, 0x116U);
  });
}

TEST(ChildPort, AsksForConnections) {
  with_family<ChildPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiQueryChildStatus,
            +[](void*, DXGK_CHILD_STATUS* status, BOOLEAN gently) NTAPI -> NTSTATUS {
              note(gently != FALSE ? "gently" : "whatever it takes", status->ChildUid);
              status->HotPlug.Connected = TRUE;
              return 0;
            });
      },
      [](ChildPort& children, bool filled, CoreWorld&) {
        const Result<bool> connected = children.query_child_status(4, true);
        EXPECT_EQ(connected.has_value() ? Status::kSuccess : connected.error(), expected(filled));
        EXPECT_EQ(children.query_child_relations(2), Status::kNotSupported);
        EXPECT_EQ(children.query_device_descriptor(4).error(), Status::kNotSupported);
        if (!filled) return;
        EXPECT_TRUE(*connected);
        EXPECT_EQ(*g_calls, (Calls{{"gently", 4}}));
      });
}

/// A monitor's descriptor of two blocks, and what the driver gives of it: `g_wrong` chooses.
enum class Wrong { kNothing, kBlocks, kStart, kEnd };
Wrong g_wrong = Wrong::kNothing;
constexpr uint32_t kNoMoreData = 0xC01D0008;  // STATUS_MONITOR_NO_MORE_DESCRIPTOR_DATA
std::byte descriptor_byte(size_t at) { return static_cast<std::byte>(at * 3 + 1); }
NTSTATUS NTAPI give_descriptor(void*, ULONG, DXGK_DEVICE_DESCRIPTOR* args) {
  constexpr ULONG kBytes = 256;
  note("descriptor", args->DescriptorOffset);
  if (args->DescriptorOffset >= kBytes) {
    if (g_wrong == Wrong::kEnd) return 0;
    return static_cast<NTSTATUS>(kNoMoreData);
  }
  ULONG bytes = std::min(args->DescriptorLength, kBytes - args->DescriptorOffset);
  if (g_wrong == Wrong::kBlocks) bytes = 128;
  const ULONG from =
      g_wrong == Wrong::kStart ? args->DescriptorOffset / 128 * 128 : args->DescriptorOffset;
  auto* const out = static_cast<std::byte*>(args->DescriptorBuffer);
  for (ULONG i = 0; i < bytes; ++i) out[i] = descriptor_byte(from + i);
  return 0;
}

TEST(ChildPort, AsksForPartsOfADescriptor) {
  DXGKIT_COVERS("CAPS-16", "NT-33");
  std::vector<std::byte> whole(256);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = descriptor_byte(i);
  struct Row {
    const char* what;
    Wrong wrong;
    uint32_t offset, bytes;
    const char* rules;
    const char* text;
  };
  const Row rows[] = {
      {"the start", Wrong::kNothing, 0, 1, "", ""},
      {"all, with room behind", Wrong::kNothing, 0, 1024, "", ""},
      {"the last byte", Wrong::kNothing, 255, 128, "", ""},
      {"behind the end", Wrong::kNothing, 256, 128, "", ""},
      {"a block for less", Wrong::kBlocks, 0, 64, "NT-33 ", "It wrote bytes 64 to 127 of "},
      {"a block for more", Wrong::kBlocks, 0, 256, "CAPS-16 ",
       "Asked for 256 bytes at offset 0 of child 4, it wrote 0x7e as byte 128; asked block by "
       "block, byte 128 of the descriptor is 0x81."},
      {"the block's start", Wrong::kStart, 130, 4, "CAPS-16 ",
       "Asked for 4 bytes at offset 130 of child 4, it wrote 0x81 as byte 0; asked block by block, "
       "byte 130 of the descriptor is 0x87."},
      {"success behind the end", Wrong::kEnd, 256, 128, "CAPS-16 ",
       "It succeeded for 128 bytes at offset 256 of child 4, whose descriptor has 256 bytes."},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    with_core([&](CoreWorld& world) {
      Calls calls;
      g_calls = &calls;
      g_wrong = row.wrong;
      ChildPort children(world.core());
      EXPECT_EQ(children.query_descriptor_part(4, row.offset, row.bytes, whole),
                Status::kNotSupported);
      CoreWorld::set(world.table.table.DxgkDdiQueryDeviceDescriptor, &give_descriptor);
      const Status status = children.query_descriptor_part(4, row.offset, row.bytes, whole);
      EXPECT_EQ(status, row.offset >= 256 && row.wrong == Wrong::kNothing
                            ? static_cast<Status>(kNoMoreData)
                            : Status::kSuccess);
      EXPECT_EQ(calls, (Calls{{"descriptor", row.offset}}));
      EXPECT_EQ(world.rules(), row.rules);
      if (*row.rules != '\0') {
        EXPECT_NE(world.findings.all()[0].actual.find(row.text), std::string::npos)
            << world.findings.all()[0].actual;
      }
      g_calls = nullptr;
    });
  }
}

TEST(ChildPort, TakesNoDescriptorThatIsNotWritten) {
  DXGKIT_COVERS("CAPS-08");
  with_core([](CoreWorld& world) {
    Calls calls;
    g_calls = &calls;
    g_wrong = Wrong::kNothing;
    ChildPort children(world.core());
    CoreWorld::set(world.table.table.DxgkDdiQueryDeviceDescriptor, &give_descriptor);
    const Result<std::vector<std::byte>> written = children.query_device_descriptor(4);
    ASSERT_TRUE(written.has_value());
    EXPECT_EQ((*written)[127], descriptor_byte(127));
    EXPECT_EQ(world.rules(), "");
    CoreWorld::set(
        world.table.table.DxgkDdiQueryDeviceDescriptor,
        +[](void*, ULONG, DXGK_DEVICE_DESCRIPTOR* args) NTAPI -> NTSTATUS {
          args->DescriptorLength = 0;
          return 0;
        });
    EXPECT_EQ(children.query_device_descriptor(4).error(), Status::kNotSupported);
    EXPECT_EQ(world.rules(), "CAPS-08 ");
    g_calls = nullptr;
  });
}

TEST(VidPnPort, CommitsInsideLevelTwo) {
  with_family<VidPnPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiCommitVidPn,
            +[](void*, const DXGKARG_COMMITVIDPN* args) NTAPI -> NTSTATUS {
              note("commit", number(args->hPrimaryAllocation));
              return 0;
            });
      },
      [](VidPnPort& vidpn, bool filled, CoreWorld& world) {
        EXPECT_EQ(vidpn.is_supported_vidpn(kSome).error(), Status::kNotSupported);
        world.core().levels.enter_level_two();
        EXPECT_EQ(vidpn.commit_vidpn(kSome, 0, kSome), expected(filled));
        EXPECT_EQ(vidpn.set_source_visibility(0, true), Status::kNotSupported);
        world.core().levels.leave_level_two();
        if (!filled) return;
        EXPECT_EQ(*g_calls, (Calls{{"commit", 0x5000}}));
        ASSERT_EQ(world.host.exclusive.size(), 1U) << "the host sees to what the level promises";
        EXPECT_EQ(world.host.exclusive[0].first, "DxgkDdiCommitVidPn");
      });
}

TEST(ScanoutPort, FlipsAtDeviceLevel) {
  with_family<ScanoutPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiSetVidPnSourceAddress,
            +[](void*, const DXGKARG_SETVIDPNSOURCEADDRESS* args) NTAPI -> NTSTATUS {
              note("flip", static_cast<uint64_t>(args->PrimaryAddress.QuadPart));
              EXPECT_EQ(nt::CallFrame::current().irql(), nt::kDeviceLevel);
              return 0;
            });
      },
      [](ScanoutPort& scanout, bool filled, CoreWorld&) {
        SourceAddressArgs args;
        args.kind = SourceAddressArgs::Kind::kFlipOnNextVsync;
        args.address = 0x8000;
        EXPECT_EQ(scanout.flip(args), expected(filled));
        EXPECT_EQ(scanout.control_vsync(0, true), Status::kNotSupported);
        EXPECT_EQ(scanout.set_pointer_position(0, 1, 2, true), Status::kNotSupported);
        EXPECT_EQ(scanout.present_display_only({}), Status::kNotSupported);
        if (filled) {
          EXPECT_EQ(*g_calls, (Calls{{"flip", 0x8000}}));
        }
      });
}

// What no kernel asks: other interrupts than the vertical sync. A driver without the entry is not
// asked.
TEST(ScanoutPort, OtherInterruptsAreAskedForOnceEach) {
  with_family<ScanoutPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiControlInterrupt,
            +[](void*, DXGK_INTERRUPT_TYPE type, BOOLEAN on) NTAPI -> NTSTATUS {
              note("control", uint64_t{static_cast<uint64_t>(type)} << 1 | on);
              return STATUS_NOT_IMPLEMENTED;
            });
      },
      [](ScanoutPort& scanout, bool filled, CoreWorld& world) {
        world.core().levels.enter_level_two();
        scanout.ask_other_interrupts();
        world.core().levels.leave_level_two();
        const Calls asked{
            {"control", uint64_t{DXGK_INTERRUPT_DMA_COMPLETED} << 1 | 1},
            {"control", uint64_t{DXGK_INTERRUPT_DISPLAYONLY_PRESENT_PROGRESS} << 1 | 1}};
        EXPECT_EQ(*g_calls, filled ? asked : Calls{});
      });
}

TEST(HwQueuePort, NeedsAllItsEntries) {
  with_family<HwQueuePort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiDestroyHwQueue, +[](void* queue) NTAPI -> NTSTATUS {
              note("destroy", number(queue));
              return 0;
            });
      },
      [](HwQueuePort& queues, bool filled, CoreWorld&) {
        EXPECT_FALSE(queues.supported());
        EXPECT_EQ(queues.destroy_hw_queue(kSome), expected(filled));
        EXPECT_EQ(queues.submit({}), Status::kNotSupported);
      });
}

// From WDDM 2.2 on, with all five of them.
TEST(HwQueuePort, IsThereWithAllItsEntries) {
  for (const uint32_t version : {kInterfaceWddm21, kInterfaceWddm22, kInterfaceWddm32}) {
    SCOPED_TRACE(version);
    with_core(
        [&](CoreWorld& world) {
          const auto nothing = +[] {};
          DRIVER_INITIALIZATION_DATA all{};
          CoreWorld::set(all.DxgkDdiCreateHwContext, nothing);
          CoreWorld::set(all.DxgkDdiDestroyHwContext, nothing);
          CoreWorld::set(all.DxgkDdiCreateHwQueue, nothing);
          CoreWorld::set(all.DxgkDdiDestroyHwQueue, nothing);
          CoreWorld::set(all.DxgkDdiSubmitCommandToHwQueue, nothing);
          DRIVER_INITIALIZATION_DATA& table = world.table.table;
          HwQueuePort queues(world.core());
          const auto supported = [&](const std::function<void()>& without) {
            table = all;
            without();
            return queues.supported();
          };
          EXPECT_EQ(supported([] {}), version >= kInterfaceWddm22);
          EXPECT_FALSE(supported([&] { table.DxgkDdiCreateHwContext = nullptr; }));
          EXPECT_FALSE(supported([&] { table.DxgkDdiDestroyHwContext = nullptr; }));
          EXPECT_FALSE(supported([&] { table.DxgkDdiCreateHwQueue = nullptr; }));
          EXPECT_FALSE(supported([&] { table.DxgkDdiDestroyHwQueue = nullptr; }));
          EXPECT_FALSE(supported([&] { table.DxgkDdiSubmitCommandToHwQueue = nullptr; }));
        },
        version);
  }
}

TEST(HwSchedulingPort, TellsTheInterruptOfEnginesInReset) {
  with_family<HwSchedulingPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        CoreWorld::set(
            table.DxgkDdiResetHwEngine, +[](void*, DXGKARG_RESETHWENGINE* args) NTAPI -> NTSTATUS {
              note("reset", args->NodeOrdinal);
              return 0;
            });
      },
      [](HwSchedulingPort& scheduling, bool filled, CoreWorld&) {
        EXPECT_FALSE(scheduling.supported());
        EXPECT_EQ(scheduling.reset_engine(NodeOrdinal{2}), expected(filled));
        EXPECT_EQ(scheduling.resume(kSome), Status::kNotSupported);
        if (filled) {
          EXPECT_EQ(*g_calls, (Calls{{"reset", 2}}));
        }
      });
}

TEST(NativeFencePort, NeedsAllItsEntries) {
  with_family<NativeFencePort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        const auto close = +[](void*, const void*) NTAPI -> NTSTATUS { return 0; };
        CoreWorld::set(table.DxgkDdiCreateNativeFence, close);
        CoreWorld::set(table.DxgkDdiDestroyNativeFence, close);
        CoreWorld::set(table.DxgkDdiOpenNativeFence, close);
        CoreWorld::set(table.DxgkDdiCloseNativeFence, close);
        CoreWorld::set(table.DxgkDdiUpdateMonitoredValues, close);
        CoreWorld::set(table.DxgkDdiUpdateCurrentValuesFromCpu, close);
      },
      [](NativeFencePort& fences, bool filled, CoreWorld&) {
        EXPECT_EQ(fences.supported(), filled);
        EXPECT_EQ(fences.close(kSome), expected(filled));
        EXPECT_EQ(fences.update_current(kSome, 5, kSome), expected(filled));
      });
}

TEST(CpuEventPort, NeedsBothEntries) {
  with_family<CpuEventPort>(
      [](DRIVER_INITIALIZATION_DATA& table) {
        const auto create = +[](void*, DXGKARG_CREATECPUEVENT* args) NTAPI -> NTSTATUS {
          args->hKmdCpuEvent = args->hDxgCpuEvent;
          return 0;
        };
        CoreWorld::set(table.DxgkDdiCreateCpuEvent, create);
        CoreWorld::set(
            table.DxgkDdiDestroyCpuEvent, +[](void*, const void*) NTAPI -> NTSTATUS { return 0; });
      },
      [](CpuEventPort& events, bool filled, CoreWorld&) {
        EXPECT_EQ(events.supported(), filled);
        const Result<void*> made = events.create(kSome, 0x10);
        ASSERT_EQ(made.has_value(), filled);
        if (filled) {
          EXPECT_EQ(reinterpret_cast<uintptr_t>(*made), 0x10U);
        }
        EXPECT_EQ(events.destroy(kSome), expected(filled));
      });
}

/// Each family tells what a call confronts the driver with, if somebody wants to know.
TEST(SituationsOfCalls, AreToldWhereTheCallIsMade) {
  with_core([](CoreWorld& world) {
    DRIVER_INITIALIZATION_DATA& table = world.table.table;
    CoreWorld::set(
        table.DxgkDdiGetScanLine, +[](void*, DXGKARG_GETSCANLINE* args) NTAPI -> NTSTATUS {
          args->InVerticalBlank = FALSE;
          args->ScanLine = 7;
          return 0;
        });
    CoreWorld::set(
        table.DxgkDdiSetPowerState,
        +[](void*, ULONG, DEVICE_POWER_STATE, POWER_ACTION) NTAPI -> NTSTATUS { return 0; });
    PortCore& core = world.core();
    bool in_blank = false;
    uint32_t line = 0;
    // Nobody looks.
    ASSERT_EQ(ScanoutPort(core).get_scan_line(0, &in_blank, &line), Status::kSuccess);
    verifier::SituationLog log;
    core.situations = std::make_unique<Situations>(log);
    const auto counts = [&] {
      return std::array{log.count(verifier::Situation::kScanoutScanLine),
                        log.count(verifier::Situation::kPowerSleep),
                        log.count(verifier::Situation::kPowerWake)};
    };
    EXPECT_EQ(counts(), (std::array<uint64_t, 3>{0, 0, 0}));
    // One that is nothing but the call, and one that depends on an argument.
    ASSERT_EQ(ScanoutPort(core).get_scan_line(0, &in_blank, &line), Status::kSuccess);
    EXPECT_EQ(counts(), (std::array<uint64_t, 3>{1, 0, 0}));
    ASSERT_EQ(PowerPort(core).set_power_state({}, PowerState::kD3), Status::kSuccess);
    EXPECT_EQ(counts(), (std::array<uint64_t, 3>{1, 1, 0}));
  });
}

/// Where an argument decides, each of its values has a situation of its own.
TEST(SituationsOfCalls, FollowTheArgument) {
  with_core([](CoreWorld& world) {
    DRIVER_INITIALIZATION_DATA& table = world.table.table;
    CoreWorld::set(
        table.DxgkDdiSetPowerComponentFState,
        +[](void*, UINT, UINT) NTAPI -> NTSTATUS { return 0; });
    CoreWorld::set(
        table.DxgkDdiControlInterrupt,
        +[](void*, DXGK_INTERRUPT_TYPE, BOOLEAN) NTAPI -> NTSTATUS { return 0; });
    CoreWorld::set(
        table.DxgkDdiIsSupportedVidPn,
        +[](void*, DXGKARG_ISSUPPORTEDVIDPN* args) NTAPI -> NTSTATUS {
          args->IsVidPnSupported = TRUE;
          return 0;
        });
    PortCore& core = world.core();
    core.power_components = 3;
    verifier::SituationLog log;
    core.situations = std::make_unique<Situations>(log);
    using verifier::Situation;
    struct Row {
      Situation situation;
      std::function<void()> call;
    };
    PowerPort power(core);
    const auto control_vsync = [&](bool on) {
      core.levels.enter_level_two();
      (void)ScanoutPort(core).control_vsync(0, on);
      core.levels.leave_level_two();
    };
    VidPnPort vidpn(core);
    int some = 0;
    const Row rows[] = {
        {Situation::kPowerComponentActive, [&] { (void)power.set_component_f_state(2, 0); }},
        {Situation::kPowerComponentIdle, [&] { (void)power.set_component_f_state(2, 1); }},
        {Situation::kScanoutVsyncOn, [&] { control_vsync(true); }},
        {Situation::kScanoutVsyncOff, [&] { control_vsync(false); }},
        {Situation::kVidpnNoneSupported, [&] { (void)vidpn.is_supported_vidpn(nullptr); }},
        {Situation::kVidpnIsSupported, [&] { (void)vidpn.is_supported_vidpn(&some); }},
    };
    for (size_t done = 0; done < std::size(rows); ++done) {
      rows[done].call();
      for (size_t i = 0; i < std::size(rows); ++i)
        EXPECT_EQ(log.count(rows[i].situation), i <= done ? 1U : 0U) << done << " " << i;
    }
    core.situations = nullptr;
  });
}

}  // namespace
}  // namespace dxgkit::port
