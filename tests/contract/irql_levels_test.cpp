// Levels two and three: who is alone, with what around it; and drivers that ask for the same.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "dxgk/adapter/adapter.h"
#include "port/port_world_test.h"
#include "tests/contract/fixture.h"
#include "tests/contract/flip_fixture.h"

namespace dxgkit::contract {
namespace {

using dxgk::PowerTarget;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Watches what goes on around DDIs that have to be alone. It asks the driver's records and the
/// memory manager, not the kernel's own checks.
class Watch {
 public:
  explicit Watch(Stack& stack) : stack_(stack) {
    auto& m = stack.miniport;
    // Slow, so that whoever may come does.
    m.hooks.create_allocation = [this, &m](DXGKARG_CREATEALLOCATION* a) {
      return inside([&] { return m.default_create_allocation(a); });
    };
    m.hooks.open_allocation = [this, &m](void* d, const DXGKARG_OPENALLOCATION* a) {
      return inside([&] { return m.default_open_allocation(d, a); });
    };
    m.hooks.close_allocation = [this, &m](void* d, const DXGKARG_CLOSEALLOCATION* a) {
      return inside([&] { return m.default_close_allocation(d, a); });
    };
    m.hooks.render = [this, &m](void* c, DXGKARG_RENDER* a) {
      return inside([&] { return m.default_render(c, a); });
    };
    m.hooks.patch = [this, &m](const DXGKARG_PATCH* a) {
      return inside([&] { return m.default_patch(a); });
    };
    m.hooks.build_paging = [this, &m](DXGKARG_BUILDPAGINGBUFFER* a) {
      return inside([&] { return m.default_build_paging(a); });
    };
  }
  /// Called by a DDI that must be alone. `segments`: those that must be empty.
  void alone(std::vector<uint32_t> segments) {
    ++calls;
    EXPECT_EQ(inside_, 0) << "threads in the driver";
    look(segments);
    const size_t before = stack_.miniport.calls().order.size();
    pause();  // long enough for all the others to run
    EXPECT_EQ(stack_.miniport.calls().order.size(), before) << "somebody called the driver";
    EXPECT_EQ(inside_, 0);
    look(segments);
  }
  int calls = 0;

 private:
  static void pause() { runtime::Runtime::current().sleep_for(50 * runtime::kMicrosecond); }
  template <typename Call>
  NTSTATUS inside(const Call& call) {
    ++inside_;
    runtime::Runtime::current().sleep_for(runtime::kMicrosecond);
    const NTSTATUS status = call();
    --inside_;
    return status;
  }
  void look(const std::vector<uint32_t>& segments) {
    for (uint32_t node = 0; node < 2; ++node)
      EXPECT_TRUE(stack_.miniport.outstanding(node).empty()) << "work on node " << node;
    for (const uint32_t segment : segments) {
      EXPECT_EQ(stack_.adapter().core().memory().usage(SegmentId{segment}).allocations, 0U)
          << "content in segment " << segment;
    }
  }
  Stack& stack_;
  int inside_ = 0;
};

/// Clients that render into both memory segments until told to stop, each on a thread.
class Busy {
 public:
  Busy(Stack& stack, size_t clients) {
    for (size_t i = 0; i < clients; ++i) {
      clients_.push_back(std::make_unique<Client>(stack, "busy"));
      Client& client = *clients_.back();
      contexts_.push_back(std::make_unique<ContextBuffers>(client.make_context(i % 2)));
      ContextBuffers& context = *contexts_.back();
      threads_.push_back(std::make_unique<Stack::Background>(stack, [this, &client, &context] {
        while (!stop_) {
          const D3DKMT_HANDLE one = client.make_allocation(64 * kKibibyte, kVisible);
          const D3DKMT_HANDLE two = client.make_allocation(64 * kKibibyte, kHidden);
          EXPECT_EQ(client.render(context, work_on({one, two})), 0);
          EXPECT_EQ(client.destroy_allocation(one), 0);
          EXPECT_EQ(client.destroy_allocation(two), 0);
          ++rounds;
        }
      }));
    }
  }
  /// While the GPU works.
  void run_for(int64_t ns, Stack& stack) {
    const int64_t until = runtime::Runtime::current().now() + ns;
    while (runtime::Runtime::current().now() < until) {
      static_cast<void>(stack.miniport.complete_all());
      runtime::Runtime::current().sleep_for(runtime::kMicrosecond);
    }
  }
  void end() {
    stop_ = true;
    for (const auto& thread : threads_) thread->finish();
    threads_.clear();
  }
  void close() { clients_.clear(); }
  uint64_t rounds = 0;

 private:
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<ContextBuffers>> contexts_;
  std::vector<std::unique_ptr<Stack::Background>> threads_;
  bool stop_ = false;
};

class LevelsTest : public FlipTest {
 protected:
  static NTSTATUS escape(Client& client) {
    D3DKMT_ESCAPE args{};
    args.hAdapter = client.adapter;
    args.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
    return client.call([&] { return D3DKMTEscape(&args); });
  }
};

// SetPowerState down and up, in the middle of the work of three clients, and StopDevice at the end.
TEST_F(LevelsTest, LevelThreeIsAloneWithIdleHardwareAndEmptyMemory) {
  DXGKIT_COVERS("IRQL-02");
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    int stops = 0;
    bare(
        [&](Stack& stack) {
          ASSERT_EQ(stack.start(), Status::kSuccess);
          Watch watch(stack);
          stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE, POWER_ACTION) {
            watch.alone({1, 2});
            return nt_status(Status::kSuccess);
          };
          stack.miniport.hooks.stop_device = [&] {
            ++stops;
            watch.alone({});  // the adapter is found by nobody any more
            return nt_status(Status::kSuccess);
          };
          {
            Busy busy(stack, 3);
            for (const PowerTarget target : {PowerTarget::kStandby, PowerTarget::kHibernate}) {
              busy.run_for(300 * runtime::kMicrosecond, stack);
              const uint64_t before = busy.rounds;
              stack.blocking([&] {
                EXPECT_TRUE(stack.system->set_power(stack.luid, target).has_value());
                EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kD0).has_value());
              });
              busy.run_for(300 * runtime::kMicrosecond, stack);
              EXPECT_GT(busy.rounds, before) << "work goes on afterwards";
            }
            busy.end();
          }
          EXPECT_EQ(watch.calls, 4);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          stack.blocking(
              [&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
          EXPECT_EQ(stops, 1);
        },
        seed);
  }
}

// Mode setting beside a client that renders: alone and with the hardware idle, and video memory
// stays where it is.
TEST_F(LevelsTest, LevelTwoIsAloneWithIdleHardwareAndMemoryStays) {
  DXGKIT_COVERS("IRQL-03");
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    flipping(
        [&](Stack& stack, FlipDriver& driver, FlipClient& client) {
          Watch watch(stack);
          for (const char* ddi : {"DxgkDdiCommitVidPn", "DxgkDdiSetVidPnSourceVisibility",
                                  "DxgkDdiSetVidPnSourceAddress"}) {
            driver.display.hooks[ddi] = [&] { watch.alone({}); };
          }
          const uint64_t resident = stack.adapter().core().memory().usage(SegmentId{1}).allocations;
          EXPECT_GE(resident, 3U) << "the primaries";
          Busy busy(stack, 2);
          busy.run_for(300 * runtime::kMicrosecond, stack);
          const uint64_t evictions = stack.statistics().page_outs;
          for (size_t i = 0; i < 3; ++i)
            ASSERT_EQ(client.set_display_mode(client.primaries[(i + 1) % 3]), 0);
          busy.run_for(300 * runtime::kMicrosecond, stack);
          busy.end();
          busy.close();
          EXPECT_GT(watch.calls, 2);
          EXPECT_EQ(stack.statistics().page_outs, evictions);
          EXPECT_GE(stack.adapter().core().memory().usage(SegmentId{1}).allocations, 3U);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          driver.display.hooks.clear();
          stack.miniport.hooks = {};
        },
        nullptr, seed);
  }
}

// An escape that may touch the hardware, beside clients that render.
TEST_F(LevelsTest, AnEscapeWithHardwareAccessIsAloneWithIdleHardware) {
  DXGKIT_COVERS("THUNK-32");
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    bare(
        [&](Stack& stack) {
          ASSERT_EQ(stack.start(), Status::kSuccess);
          Watch watch(stack);
          stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE* args) {
            EXPECT_EQ(args->Flags.Value, 1U);
            watch.alone({});
            return nt_status(Status::kSuccess);
          };
          {
            Client client(stack, "escapes");
            Busy busy(stack, 2);
            for (int i = 0; i < 3; ++i) {
              busy.run_for(300 * runtime::kMicrosecond, stack);
              const uint64_t before = busy.rounds;
              D3DKMT_ESCAPE args{};
              args.hAdapter = client.adapter;
              args.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
              args.Flags.HardwareAccess = 1;
              stack.blocking(
                  [&] { EXPECT_EQ(client.call([&] { return D3DKMTEscape(&args); }), 0); });
              busy.run_for(300 * runtime::kMicrosecond, stack);
              EXPECT_GT(busy.rounds, before) << "work goes on afterwards";
            }
            busy.end();
          }
          EXPECT_EQ(watch.calls, 3);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          stack.miniport.hooks = {};
        },
        seed);
  }
}

// What a retirement lets in would keep the hardware busy for as long as there is work.
TEST_F(LevelsTest, WorkThatIsQueuedDoesNotKeepTheHardwareBusyBeforeLevelTwo) {
  DXGKIT_COVERS("IRQL-03");
  with_client([](Stack& stack, Client& client) {
    ContextBuffers context = client.make_context();
    for (int i = 0; i < 8; ++i) ASSERT_EQ(client.render(context, work_on({})), 0);
    stack.settle();
    const size_t on_hardware = stack.miniport.outstanding(0).size();
    ASSERT_LT(on_hardware, 8U);
    size_t submitted = 0;
    stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
      submitted = stack.miniport.calls().submits.size();
      EXPECT_THAT(stack.miniport.outstanding(0), ::testing::IsEmpty());
      return nt_status(Status::kSuccess);
    };
    NTSTATUS answer = -1;
    Stack::Background escape(stack, [&] {
      D3DKMT_ESCAPE args{};
      args.hAdapter = client.adapter;
      args.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
      args.Flags.HardwareAccess = 1;
      answer = client.call([&] { return D3DKMTEscape(&args); });
    });
    EXPECT_FALSE(escape.finished()) << "work is on hardware";
    escape.finish();
    EXPECT_EQ(answer, 0);
    EXPECT_EQ(submitted, on_hardware) << "the rest waits";
    stack.drive();
    EXPECT_EQ(stack.miniport.calls().submits.size(), 8U);
    stack.miniport.hooks = {};
  });
}

// A client's query is answered inside SetPowerState, and while the adapter sleeps; whatever else a
// client asks for waits.
TEST_F(LevelsTest, AClientsQueryRunsBesideSetPowerStateAndInSleep) {
  DXGKIT_COVERS("IRQL-09");
  with_client([](Stack& stack, Client& client) {
    uint64_t answer = 0;
    const auto query = [&] {
      uint64_t data = 7;
      D3DKMT_QUERYADAPTERINFO args{};
      args.hAdapter = client.adapter;
      args.Type = KMTQAITYPE_UMDRIVERPRIVATE;
      args.pPrivateDriverData = &data;
      args.PrivateDriverDataSize = sizeof data;
      const NTSTATUS status = client.call([&] { return D3DKMTQueryAdapterInfo(&args); });
      answer = data;
      return status;
    };
    stack.miniport.hooks.query_adapter_info = [&](const DXGKARG_QUERYADAPTERINFO* args) {
      if (args->Type != DXGKQAITYPE_UMDRIVERPRIVATE)
        return stack.miniport.default_query_adapter_info(args);
      *static_cast<uint64_t*>(args->pOutputData) += 1;
      return nt_status(Status::kSuccess);
    };
    int beside = 0;
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE, POWER_ACTION) {
      const auto thread = runtime::Runtime::current().spawn("asks", [&] {
        EXPECT_EQ(query(), 0);
        if (answer == 8) ++beside;
      });
      thread->join();
      return nt_status(Status::kSuccess);
    };
    stack.blocking([&] {
      EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kStandby).has_value());
    });
    EXPECT_EQ(beside, 1);
    EXPECT_EQ(query(), 0) << "it is not woken for that";
    EXPECT_EQ(answer, 8U);
    D3DKMT_HANDLE made = 0;
    Stack::Background other(stack, [&] { made = client.make_device(); });
    EXPECT_FALSE(other.finished());
    stack.blocking(
        [&] { EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kD0).has_value()); });
    other.finish();
    EXPECT_NE(made, 0U);
    EXPECT_EQ(beside, 2);
  });
}

// The same beside QueryChildRelations, which is made before any client is there.
TEST(Levels, AQueryRunsBesideQueryChildRelations) {
  DXGKIT_COVERS("IRQL-09");
  port::in_both_modes([] {
    port::PortWorld world;
    Status beside = Status::kUnsuccessful;
    world.miniport.hooks.query_child_relations = [&](DXGK_CHILD_DESCRIPTOR*, ULONG) {
      const auto thread = runtime::Runtime::current().spawn("asks", [&] {
        const auto caps = world.adapter->caps().query_driver_caps();
        beside = caps.has_value() ? Status::kSuccess : caps.error();
      });
      thread->join();
      return nt_status(Status::kSuccess);
    };
    world.start();
    EXPECT_EQ(world.adapter->children().query_child_relations(1), Status::kSuccess);
    EXPECT_EQ(beside, Status::kSuccess);
    world.stop();
    EXPECT_EQ(world.findings_text(), "");
  });
}

// --- DxgkCbExcludeAdapterAccess ---

constexpr ULONG kEvict = DXGK_EXCLUDE_EVICT_ALL, kSynchronous = DXGK_EXCLUDE_CALL_SYNCHRONOUS;

struct Protected {
  std::function<void()> body;
  int calls = 0;
  NTSTATUS status = 1;
  nt::Irql irql = 15;
  const void* device = nullptr;
  static void NTAPI routine(void* device, void* context, NTSTATUS status) {
    auto& me = *static_cast<Protected*>(context);
    me.status = status;
    me.device = device;
    me.irql = nt::CallFrame::current().irql();
    if (me.body) me.body();
    ++me.calls;  // last: who sees it finds all that the body did
  }
  NTSTATUS ask(Stack& stack, ULONG attributes) {
    const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
    return callbacks.DxgkCbExcludeAdapterAccess(callbacks.DeviceHandle, attributes, routine, this);
  }
};

TEST_F(LevelsTest, AProtectedRoutineRunsWithAccessStopped) {
  DXGKIT_COVERS("IRQL-11", "IRQL-03");
  for (const ULONG attributes : {ULONG{0}, kEvict}) {
    SCOPED_TRACE(attributes);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      running(
          [&](Stack& stack) {
            Protected mine;
            {
              Watch watch(stack);
              mine.body = [&] {
                watch.alone(attributes == kEvict ? std::vector<uint32_t>{1, 2}
                                                 : std::vector<uint32_t>{});
              };
              NTSTATUS answer = 1;
              stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
                answer = mine.ask(stack, attributes);
                return NTSTATUS{0};
              };
              Busy busy(stack, 3);
              busy.run_for(300 * runtime::kMicrosecond, stack);
              Client client(stack);
              ContextBuffers context = client.make_context();
              const D3DKMT_HANDLE kept = client.make_allocation(64 * kKibibyte, kHidden);
              ASSERT_EQ(client.render(context, work_on({kept})), 0);
              EXPECT_EQ(escape(client), 0);
              EXPECT_EQ(answer, 0);
              busy.run_for(2 * runtime::kMillisecond, stack);
              EXPECT_EQ(mine.calls, 1);
              EXPECT_EQ(mine.status, 0);
              EXPECT_EQ(mine.irql, nt::kPassiveLevel);
              EXPECT_EQ(mine.device, stack.miniport.adapter_context());
              EXPECT_EQ(watch.calls, 1);
              const uint64_t before = busy.rounds;
              busy.run_for(runtime::kMillisecond, stack);
              EXPECT_GT(busy.rounds, before) << "access goes on";
              EXPECT_EQ(client.render(context, work_on({kept})), 0);
              busy.end();
              busy.close();
            }
            stack.miniport.hooks = {};
            EXPECT_EQ(stack.rules(), std::vector<std::string>{});
          },
          nullptr, seed);
    }
  }
}

// All content leaves: what a segment would keep in any sleep, and what is locked, too.
TEST_F(LevelsTest, ARoutineThatWantsMemoryOutGetsAllOfItOut) {
  DXGKIT_COVERS("IRQL-11");
  for (const ULONG attributes : {ULONG{0}, kEvict}) {
    SCOPED_TRACE(attributes);
    running(
        [&](Stack& stack) {
          Client client(stack);
          ContextBuffers context = client.make_context();
          const D3DKMT_HANDLE hidden = client.make_allocation(64 * kKibibyte, kHidden);
          ASSERT_EQ(client.render(context, work_on({hidden})), 0);
          stack.drive();
          Protected mine;
          size_t left = 99;
          mine.body = [&] {
            left = stack.adapter().core().memory().usage(SegmentId{2}).allocations;
          };
          {
            const nt::CallFrame frame(stack.kernel, "host", nt::kPassiveLevel);
            EXPECT_EQ(mine.ask(stack, attributes), 0);
          }
          for (int i = 0; i < 100 && mine.calls == 0; ++i) {
            runtime::Runtime::current().sleep_for(10 * runtime::kMicrosecond);
            stack.drive();
          }
          EXPECT_EQ(mine.calls, 1);
          EXPECT_EQ(mine.status, 0);
          EXPECT_EQ(left, attributes == kEvict ? 0U : 1U);
          runtime::Runtime::current().sleep_for(runtime::kMillisecond);
          ASSERT_EQ(client.render(context, work_on({hidden})), 0);
          stack.drive();
          EXPECT_EQ(client.wait_for_idle(), 0);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        [](ScriptedMiniport& miniport) {
          miniport.config.segments[1].flags.PreservedDuringStandby = 1;
          miniport.config.segments[1].flags.PreservedDuringHibernate = 1;
        });
  }
}

TEST_F(LevelsTest, InsideAnExclusiveCallARoutineRunsAtOnce) {
  DXGKIT_COVERS("IRQL-11");
  running([](Stack& stack) {
    Protected mine;
    NTSTATUS answer = 1;
    int calls_inside = 0;
    stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE, POWER_ACTION) {
      answer = mine.ask(stack, kSynchronous);
      calls_inside = mine.calls;
      return nt_status(Status::kSuccess);
    };
    stack.blocking(
        [&] { EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kD3).has_value()); });
    EXPECT_EQ(answer, 0);
    EXPECT_EQ(calls_inside, 1);
    EXPECT_EQ(mine.irql, nt::kPassiveLevel);
    EXPECT_EQ(mine.status, 0);
    EXPECT_EQ(mine.device, stack.miniport.adapter_context());
    stack.miniport.hooks.set_power_state = nullptr;
    // Asleep nothing can be protected: the driver is told so.
    nt::CallFrame frame(stack.kernel, "host", nt::kPassiveLevel);
    EXPECT_EQ(mine.ask(stack, 0), 0);
    runtime::Runtime::current().sleep_for(runtime::kMillisecond);
    EXPECT_EQ(mine.calls, 2);
    EXPECT_EQ(mine.status, nt_status(Status::kUnsuccessful));
    stack.blocking(
        [&] { EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kD0).has_value()); });
    EXPECT_EQ(stack.rules(), std::vector<std::string>{});
  });
}

// A protected routine has the adapter for itself, too; a routine that is told that it is not
// protected has not, nor has another thread while an exclusive call runs.
TEST_F(LevelsTest, OnlyWhoIsInsideHasTheAdapterForItself) {
  DXGKIT_COVERS("IRQL-11");
  for (const ULONG attributes : {ULONG{0}, kEvict}) {
    SCOPED_TRACE(attributes);
    running([&](Stack& stack) {
      Protected mine, inner, other;
      NTSTATUS inside = 1, beside = 1;
      mine.body = [&] { inside = inner.ask(stack, kSynchronous); };
      {
        nt::CallFrame frame(stack.kernel, "host", nt::kPassiveLevel);
        EXPECT_EQ(mine.ask(stack, attributes), 0);
        runtime::Runtime::current().sleep_for(runtime::kMillisecond);
      }
      EXPECT_EQ(mine.calls, 1);
      EXPECT_EQ(inside, 0);
      EXPECT_EQ(inner.calls, 1);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
      stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE state, POWER_ACTION) {
        if (state == PowerDeviceD0) return nt_status(Status::kSuccess);
        runtime::Runtime::current()
            .spawn("another",
                   [&] {
                     nt::CallFrame frame(stack.kernel, "host", nt::kPassiveLevel);
                     beside = other.ask(stack, kSynchronous);
                   })
            ->join();
        return nt_status(Status::kSuccess);
      };
      stack.blocking(
          [&] { EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kD3).has_value()); });
      EXPECT_EQ(beside, nt_status(Status::kInvalidParameter));
      EXPECT_EQ(other.calls, 0);
      EXPECT_EQ(stack.rules(), std::vector<std::string>{"IRQL-11"});
      // Asleep.
      inside = 1;
      {
        nt::CallFrame frame(stack.kernel, "host", nt::kPassiveLevel);
        EXPECT_EQ(mine.ask(stack, attributes), 0);
        runtime::Runtime::current().sleep_for(runtime::kMillisecond);
      }
      EXPECT_EQ(mine.calls, 2);
      EXPECT_EQ(mine.status, nt_status(Status::kUnsuccessful));
      EXPECT_EQ(inside, nt_status(Status::kInvalidParameter));
      EXPECT_EQ(inner.calls, 1);
      EXPECT_EQ(stack.rules(), (std::vector<std::string>{"IRQL-11", "IRQL-11"}));
      stack.blocking(
          [&] { EXPECT_TRUE(stack.system->set_power(stack.luid, PowerTarget::kD0).has_value()); });
      stack.miniport.hooks = {};
    });
  }
}

// In the middle of a DDI: what the routine leaves raised is lowered, and what stops the machine
// stops the DDI too.
TEST_F(LevelsTest, ARoutineThatRunsAtOnceLeavesItsCallerAsItWas) {
  DXGKIT_COVERS("IRQL-11", "IRQL-02");
  for (const bool stops : {false, true}) {
    running([&](Stack& stack) {
      stack.expect_leaks = true;
      Protected mine;
      nt::Irql after = 99;
      const void* owner = nullptr;
      const void* owner_inside = nullptr;
      mine.body = [&] {
        nt::CallFrame& frame = nt::CallFrame::current();
        owner_inside = frame.owner;
        if (stops) {
          reinterpret_cast<void(NTAPI*)(uint32_t)>(
              const_cast<void*>(nt::find_export("KeBugCheck")->address))(0x116);
        }
        frame.raise(nt::kDispatchLevel);
      };
      stack.miniport.hooks.set_power_state = [&](ULONG, DEVICE_POWER_STATE, POWER_ACTION) {
        if (mine.calls != 0) return nt_status(Status::kSuccess);
        owner = nt::CallFrame::current().owner;
        static_cast<void>(mine.ask(stack, kSynchronous));
        after = nt::CallFrame::current().irql();
        return nt_status(Status::kSuccess);
      };
      stack.blocking([&] {
        static_cast<void>(stack.system->set_power(stack.luid, dxgk::PowerTarget::kStandby));
      });
      ASSERT_FALSE(stack.findings.all().empty());
      const verifier::Finding finding = stack.findings.all().front();
      EXPECT_EQ(owner_inside, owner) << "the adapter's";
      if (stops) {
        EXPECT_EQ(finding.rule, "NT-21");
        EXPECT_EQ(after, 99) << "the DDI does not go on";
      } else {
        EXPECT_EQ(finding.ddi, "DxgkProtectedCallback");
        EXPECT_EQ(after, nt::kPassiveLevel);
      }
      stack.miniport.hooks = {};
    });
  }
}

TEST_F(LevelsTest, AnExclusionThatCannotBeIsRefused) {
  DXGKIT_COVERS("IRQL-11");
  struct Row {
    const char* sentence;
    ULONG attributes;
    bool routine;
    NTSTATUS status;
    const char* said;  // of the finding; null: none
  };
  const Row rows[] = {
      {"both at once", kEvict | kSynchronous, true, nt_status(Status::kInvalidParameter),
       "Attributes is 0x3"},
      {"at once, from level zero", kSynchronous, true, nt_status(Status::kInvalidParameter),
       "DxgkDdiEscape"},
      {"no routine", 0, false, nt_status(Status::kInvalidParameter), "NULL"},
      {"the root port", DXGK_EXCLUDE_BRIDGE_ACCESS, true, nt_status(Status::kNotSupported),
       nullptr},
      {"the root port, and memory out", DXGK_EXCLUDE_BRIDGE_ACCESS | kEvict, true,
       nt_status(Status::kNotSupported), nullptr},
      {"the root port, at once", DXGK_EXCLUDE_BRIDGE_ACCESS | kSynchronous, true,
       nt_status(Status::kNotSupported), nullptr},
      {"an attribute that there is not", 1U << 31, true, nt_status(Status::kNotSupported), nullptr},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.sentence);
    with_client([&](Stack& stack, Client& client) {
      Protected mine;
      NTSTATUS answer = 1;
      stack.miniport.hooks.escape = [&](const DXGKARG_ESCAPE*) {
        const DXGKRNL_INTERFACE& callbacks = stack.miniport.callbacks();
        answer =
            callbacks.DxgkCbExcludeAdapterAccess(callbacks.DeviceHandle, row.attributes,
                                                 row.routine ? Protected::routine : nullptr, &mine);
        return NTSTATUS{0};
      };
      EXPECT_EQ(escape(client), 0);
      EXPECT_EQ(answer, row.status);
      runtime::Runtime::current().sleep_for(runtime::kMillisecond);
      EXPECT_EQ(mine.calls, 0);
      if (row.said == nullptr) {
        EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        return;
      }
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "IRQL-11");
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_EQ(finding.ddi, "DxgkCbExcludeAdapterAccess");
      EXPECT_THAT(finding.actual, HasSubstr(row.said));
    });
  }
}

// What was asked for before a stop is answered before StopDevice; what comes after is refused.
TEST_F(LevelsTest, AStopAnswersWhatWaits) {
  DXGKIT_COVERS("IRQL-11");
  running([](Stack& stack) {
    Protected mine;
    NTSTATUS late = 0;
    {
      nt::CallFrame frame(stack.kernel, "host", nt::kPassiveLevel);
      EXPECT_EQ(mine.ask(stack, 0), 0);
    }
    stack.miniport.hooks.stop_device = [&] {
      EXPECT_EQ(mine.calls, 1);
      late = mine.ask(stack, 0);
      return nt_status(Status::kSuccess);
    };
    stack.blocking([&] { EXPECT_EQ(stack.system->stop_adapter(stack.luid), Status::kSuccess); });
    EXPECT_EQ(late, nt_status(Status::kDeviceRemoved));
    EXPECT_EQ(mine.calls, 1);
    stack.miniport.hooks = {};
  });
}

}  // namespace
}  // namespace dxgkit::contract
