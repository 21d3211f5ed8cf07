// 3D through the virtio GPU's driver: what the renderer draws comes back pixel by pixel, also when
// the aperture is smaller than what is drawn on, and a client that is wrong costs no other.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bus/device.h"
#include "bus/machine.h"
#include "dxgk/system.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "tests/screen/render_client.h"
#include "tests/screen/scripted_renderer.h"
#include "thunks/client.h"
#include "verifier/findings.h"

namespace dxgkit {
namespace {

/// What a test works on.
struct Scene {
  dxgk::System& system;
  dxgk::Luid adapter;
  ScriptedRendererDevice& gpu;

  /// Runs in a process of its own.
  void as_process(const std::function<void()>& body) const {
    dxgk::Process& process = system.create_process("client");
    {
      const thunks::ClientScope scope(system, process);
      body();
    }
    system.end_process(process);
  }
  using Counts = ScriptedRenderer::Counts;
  Counts counts() const { return gpu.renderer().counts(); }
  /// Waits until the count has the value.
  void expect(uint32_t Counts::*count, uint32_t value) const {
    EXPECT_EQ(gpu.renderer().await([&](const Counts& now) { return now.*count == value; }).*count,
              value);
  }
};

struct Plan {
  uint32_t aperture_mib = 0;  // 0: nothing in the registry
  uint32_t refused = 0;       // commands that the device refuses
  bool may_report = false;    // findings are the test's business
};

class VirtioGpuRender : public ::testing::TestWithParam<std::tuple<const char*, uint64_t>> {
 protected:
  static void run(const Plan& plan, const std::function<void(Scene&)>& body) {
    const auto& [path, seed] = GetParam();
    const auto runtime = seed != 0 ? runtime::make_sim_runtime(seed) : runtime::make_os_runtime(5);
    runtime->run_main([&] {
      verifier::Findings findings;
      bus::Machine machine(uint64_t{64} << 20);
      ScriptedRendererDevice gpu({*runtime, machine});
      ASSERT_EQ(bus::plug_in(machine, gpu), Status::kSuccess);
      nt::KernelConfig config;
      if (plan.aperture_mib != 0)
        config.registry[nt::KernelConfig::kDriverKey]["ApertureSize"] =
            nt::RegistryValue::dword(plan.aperture_mib);
      nt::Kernel kernel(*runtime, machine, findings, std::move(config));
      {
        std::string message;
        auto driver = port::Driver::load(
            kernel, findings, {.name = "virtiogpu", .path = path, .entry = nullptr}, &message);
        ASSERT_TRUE(driver.has_value()) << message;
        dxgk::System system(*runtime, machine, kernel, findings);
        const auto adapter = system.start_adapter(**driver, *gpu.functions().front(), {});
        ASSERT_TRUE(adapter.has_value());
        Scene scene{system, *adapter, gpu};
        body(scene);
        scene.expect(&Scene::Counts::resources, 0);
        scene.expect(&Scene::Counts::contexts, 0);
        EXPECT_EQ(scene.counts().refused, plan.refused) << scene.counts().first;
        EXPECT_EQ(system.stop_adapter(*adapter), Status::kSuccess);
      }
      for (const verifier::Finding& finding : findings.all()) {
        if (!plan.may_report && finding.severity != verifier::Severity::kWarning)
          ADD_FAILURE() << finding.rule << ": " << finding.actual;
      }
    });
  }
};

TEST_P(VirtioGpuRender, WhatIsDrawnComesBack) {
  run({}, [](Scene& scene) {
    scene.as_process([&] {
      RenderClient client(scene.adapter);
      const Picture picture = client.make(), other = client.make();
      scene.expect(&Scene::Counts::attached, 2);
      // Both memories are full of something else before.
      for (const Picture& one : {picture, other})
        ASSERT_EQ(client.touch(one, [](uint32_t* at) { at[5] = 77; }), 0);
      ASSERT_EQ(
          client.render(Commands().submit({kFill, picture.resource, 0x102030}), {picture, other}),
          0);
      EXPECT_EQ(client.look(picture)[5], 77U) << "nothing was transferred";
      EXPECT_EQ(client.fetch(picture), Pixels(kWidth * kHeight, 0x102030));
      // From the CPU to the renderer and back, in one submission.
      Pixels drawn(kWidth * kHeight);
      for (uint32_t i = 0; i < drawn.size(); ++i) drawn[i] = i * 2654435761U;
      ASSERT_EQ(client.touch(
                    other, [&](uint32_t* at) { std::memcpy(at, drawn.data(), drawn.size() * 4); }),
                0);
      ASSERT_EQ(client.render(Commands()
                                  .to_host(1)
                                  .submit({kCopy, picture.resource, other.resource})
                                  .submit({kAdd, picture.resource, 3, kAdd, picture.resource, 4})
                                  .from_host(0),
                              {picture, other}),
                0);
      for (uint32_t& pixel : drawn) pixel += 7;
      EXPECT_EQ(client.look(picture), drawn);
      // A part, to another place of the memory: the box, the stride and the offset arrive.
      VgpuUmdTransfer3d part =
          Commands::transfer(VGPU_UMD_TRANSFER_FROM_HOST_3D, 1, /*width=*/3, /*height=*/2);
      part.x = 10;
      part.y = 20;
      part.stride = 64;
      part.offset = 256;
      ASSERT_EQ(
          client.render(
              Commands().submit({kFill, other.resource, 5, kAdd, other.resource, 6}).add(part),
              {picture, other}),
          0);
      const Pixels seen = client.look(other);
      EXPECT_EQ(seen[64 + 2], 11U);
      EXPECT_EQ(seen[64 + 16], 11U);
      EXPECT_NE(seen[64 + 3], 11U);
      EXPECT_NE(seen[63], 11U);
    });
  });
}

TEST_P(VirtioGpuRender, TheAdapterSaysWhatTheRendererCan) {
  run({}, [](Scene& scene) {
    scene.as_process([&] {
      const RenderClient client(scene.adapter);
      const VgpuUmdAdapterInfo info = client.info();
      EXPECT_EQ(info.flags & ~VGPU_UMD_EXPLICIT_RESIDENCY, VGPU_UMD_3D | VGPU_UMD_CONTEXT_INIT);
      EXPECT_EQ(info.submit_bytes_max, 256U * 1024);
      ASSERT_EQ(info.capset_count, 1U);
      EXPECT_EQ(info.capsets[0].id, kScriptedCapset);
      EXPECT_EQ(info.capsets[0].version, kScriptedVersion);
      ASSERT_EQ(info.capsets[0].bytes, kCapsetBytes);
      std::vector<uint8_t> data(sizeof(VgpuUmdEscapeCapset) + kCapsetBytes);
      const VgpuUmdEscapeCapset right{VGPU_UMD_ESCAPE_MAGIC,  VGPU_UMD_VERSION,
                                      VGPU_UMD_ESCAPE_CAPSET, kScriptedCapset,
                                      kScriptedVersion,       0};
      const auto ask = [&](const VgpuUmdEscapeCapset& request, size_t bytes) {
        std::memcpy(data.data(), &request, sizeof request);
        return client.escape(data.data(), static_cast<uint32_t>(bytes));
      };
      EXPECT_EQ(ask(right, data.size() - 1), status_of(Status{0xC0000023}));
      VgpuUmdEscapeCapset wrong = right;
      wrong.capset_version = 1;
      EXPECT_EQ(ask(wrong, data.size()), status_of(Status::kInvalidParameter));
      wrong = right;
      wrong.capset_id = 1;
      EXPECT_EQ(ask(wrong, data.size()), status_of(Status::kInvalidParameter));
      ASSERT_EQ(ask(right, data.size()), 0);
      VgpuUmdEscapeCapset answer{};
      std::memcpy(&answer, data.data(), sizeof answer);
      EXPECT_EQ(answer.bytes, kCapsetBytes);
      for (uint32_t at = 0; at < kCapsetBytes; ++at)
        ASSERT_EQ(data[sizeof answer + at], capset_byte(at)) << at;
    });
  });
}

/// Sixteen pictures of 256 KiB, in an aperture of 1 MiB: content and memory both stay right.
TEST_P(VirtioGpuRender, AnApertureThatIsTooSmallLosesNothing) {
  run({.aperture_mib = 1}, [](Scene& scene) {
    static constexpr uint32_t kSide = 256, kCount = 16, kRounds = 3;
    scene.as_process([&] {
      RenderClient client(scene.adapter);
      std::vector<Picture> pictures;
      for (uint32_t i = 0; i < kCount; ++i) {
        pictures.push_back(client.make(kSide, kSide));
        ASSERT_EQ(client.touch(pictures[i],
                               [i](uint32_t* at) {
                                 for (uint32_t k = 0; k < kSide * kSide; ++k) at[k] = k + i;
                               }),
                  0);
        ASSERT_EQ(client.render(Commands().to_host(0, kSide, kSide), {pictures[i]}), 0);
      }
      for (uint32_t round = 0; round < kRounds; ++round) {
        for (uint32_t i = 0; i < kCount; ++i) {
          const Picture& to = pictures[i];
          const Picture& beside = pictures[(i * 5 + round) % kCount];
          ASSERT_EQ(client.render(Commands().submit({kAdd, to.resource, 1U << (8 * round)}),
                                  {to, beside}),
                    0);
        }
      }
      for (uint32_t i = 0; i < kCount; ++i) {
        // The memory still has what the CPU has drawn, and the device what the renderer has.
        Pixels pixels = client.look(pictures[i], kSide * kSide);
        for (uint32_t k = 0; k < kSide * kSide; ++k) ASSERT_EQ(pixels[k], k + i) << i;
        ASSERT_EQ(client.render(Commands().from_host(0, kSide, kSide), {pictures[i]}), 0);
        pixels = client.look(pictures[i], kSide * kSide);
        for (uint32_t k = 0; k < kSide * kSide; ++k) ASSERT_EQ(pixels[k], k + i + 0x10101) << i;
      }
      const auto statistics = scene.system.statistics(scene.adapter);
      ASSERT_TRUE(statistics.has_value());
      EXPECT_GT(statistics->evictions, uint64_t{kCount});
      EXPECT_GT(statistics->returns, uint64_t{kCount});
      EXPECT_GT(statistics->aperture_maps, uint64_t{2 * kCount});
      EXPECT_GT(scene.counts().backings, 2 * kCount);
      // No more than the aperture has room for.
      EXPECT_LE(scene.counts().backed, 4U);
    });
  });
}

/// A context reaches what its device has opened, and nothing else.
TEST_P(VirtioGpuRender, AWrongClientCostsNoOther) {
  // One submission that is wrong, and one that is not carried out any more.
  run({.refused = 1}, [](Scene& scene) {
    dxgk::Process& first = scene.system.create_process("first");
    std::unique_ptr<RenderClient> client;
    Picture picture;
    {
      const thunks::ClientScope scope(scene.system, first);
      client = std::make_unique<RenderClient>(scene.adapter);
      picture = client->make();
      ASSERT_EQ(client->render(Commands().submit({kFill, picture.resource, 9}), {picture}), 0);
    }
    scene.as_process([&] {
      RenderClient thief(scene.adapter);
      const Picture own = thief.make();
      EXPECT_EQ(thief.render(Commands().submit({kFill, picture.resource, 8}), {own}), 0);
      (void)thief.wait();
      EXPECT_EQ(thief.state(), thief.fault_state());
      EXPECT_NE(thief.render(Commands().submit({kFill, own.resource, 8}), {own}), 0);
    });
    {
      const thunks::ClientScope scope(scene.system, first);
      EXPECT_EQ(client->state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      EXPECT_EQ(client->fetch(picture), Pixels(kWidth * kHeight, 9));
      client.reset();
    }
    scene.system.end_process(first);
  });
}

/// Contexts of a device share its resources, whichever was there first.
TEST_P(VirtioGpuRender, ContextsOfADeviceShareItsResources) {
  run({}, [](Scene& scene) {
    scene.as_process([&] {
      RenderClient client(scene.adapter);
      const Picture before = client.make();
      VgpuUmdContext data = context_data();
      data.capset_id = 0;
      D3DKMT_CREATECONTEXT second{};
      ASSERT_EQ(client.create_context(&data, sizeof data, &second), 0);
      const Picture after = client.make();
      scene.expect(&Scene::Counts::attached, 4);
      const std::vector<Picture> both = {before, after};
      ASSERT_EQ(
          client.render(Commands().submit({kFill, before.resource, 1, kFill, after.resource, 2}),
                        both, &second),
          0);
      EXPECT_EQ(client.fetch(before), Pixels(kWidth * kHeight, 1));
      EXPECT_EQ(client.fetch(after), Pixels(kWidth * kHeight, 2));
      RenderClient::destroy_context(second.hContext);
      scene.expect(&Scene::Counts::contexts, 1);
      EXPECT_EQ(client.fetch(after), Pixels(kWidth * kHeight, 2));
    });
  });
}

/// Many commands, and long ones, become several DMA buffers in order.
TEST_P(VirtioGpuRender, LongWorkIsSplit) {
  run({}, [](Scene& scene) {
    scene.as_process([&] {
      RenderClient client(scene.adapter);
      const Picture picture = client.make(4, 4);
      Commands many;
      constexpr uint32_t kMany = 200;
      for (uint32_t i = 0; i < kMany; ++i) many.submit({kAdd, picture.resource, i});
      ASSERT_EQ(client.render(many.from_host(0, 4, 4), {picture}), 0);
      uint32_t sum = kMany * (kMany - 1) / 2;
      EXPECT_EQ(client.look(picture, 16), Pixels(16, sum));
      EXPECT_GT(scene.system.statistics(scene.adapter)->multipass_renders, 0U);
      // The longest that there may be; a word more is refused.
      const uint32_t words = client.info().submit_bytes_max / 4;
      std::vector<uint32_t> longest;
      while (longest.size() + 3 <= words)
        longest.insert(longest.end(), {kAdd, picture.resource, 1});
      sum += static_cast<uint32_t>(longest.size()) / 3;
      ASSERT_EQ(client.render(Commands().submit(longest), {picture}), 0);
      ASSERT_EQ(client.render(Commands().from_host(0, 4, 4), {picture}), 0);
      EXPECT_EQ(client.look(picture, 16), Pixels(16, sum));
      longest.assign(words + 1, kAdd);
      EXPECT_EQ(client.render(Commands().submit(longest), {picture}),
                status_of(Status::kInvalidParameter));
      EXPECT_EQ(client.fetch(client.make())[0], 0U) << "the device is not lost";
    });
  });
}

/// What the driver can tell by itself never reaches the device.
TEST_P(VirtioGpuRender, WrongCommandsAreRefused) {
  run({}, [](Scene& scene) {
    scene.as_process([&] {
      RenderClient client(scene.adapter);
      const Picture picture = client.make();
      const uint32_t submissions = scene.counts().submissions;
      const VgpuUmdTransfer3d right =
          Commands::transfer(VGPU_UMD_TRANSFER_FROM_HOST_3D, 0, kWidth, kHeight);
      const auto changed = [&](const std::function<void(VgpuUmdTransfer3d&)>& change) {
        VgpuUmdTransfer3d command = right;
        change(command);
        return Commands().submit({kFill, picture.resource, 1}).add(command);
      };
      const NTSTATUS invalid = status_of(Status::kInvalidParameter);
      using Transfer = VgpuUmdTransfer3d;
      const std::pair<std::function<void(Transfer&)>, NTSTATUS> rows[] = {
          {[](Transfer& c) { c.allocation = 1; }, status_of(Status::kInvalidHandle)},
          {[](Transfer& c) { c.level = 1; }, invalid},
          {[](Transfer& c) { c.level = 32; }, invalid},
          {[](Transfer& c) { c.x = 1; }, invalid},
          {[](Transfer& c) { c.x = UINT32_MAX; }, invalid},
          {[](Transfer& c) { c.y = 1; }, invalid},
          {[](Transfer& c) { c.z = 1; }, invalid},
          {[](Transfer& c) { c.depth = 2; }, invalid},
          {[](Transfer& c) { c.width = 0; }, invalid},
          {[](Transfer& c) { c.height = 0; }, invalid},
          {[](Transfer& c) { c.depth = 0; }, invalid},
          {[](Transfer& c) { c.offset = uint64_t{kWidth} * kHeight * 4; }, invalid},
          {[](Transfer& c) { c.header.size_bytes -= 4; }, status_of(Status::kInvalidUserBuffer)},
          {[](Transfer& c) { c.header.type = 7; }, status_of(Status::kIllegalInstruction)}};
      for (size_t i = 0; i < std::size(rows); ++i)
        EXPECT_EQ(client.render(changed(rows[i].first), {picture}), rows[i].second) << i;
      EXPECT_EQ(client.render(Commands().submit({}), {picture}), invalid);
      EXPECT_EQ(client.render(Commands().add(right), {picture}, &client.context(), false), invalid)
          << "the memory is written";
      VgpuUmdRectangle rectangle{};
      rectangle.header = {VGPU_UMD_TRANSFER_TO_HOST, sizeof rectangle};
      rectangle.width = rectangle.height = 1;
      EXPECT_EQ(client.render(Commands().add(rectangle), {picture}), invalid);
      // A context without 3D takes none of it.
      D3DKMT_CREATECONTEXT plain{};
      ASSERT_EQ(client.create_context(nullptr, 0, &plain), 0);
      const NTSTATUS illegal = status_of(Status::kIllegalInstruction);
      EXPECT_EQ(client.render(Commands().add(right), {picture}, &plain), illegal);
      EXPECT_EQ(client.render(Commands().submit({kFill, picture.resource, 1}), {picture}, &plain),
                illegal);
      RenderClient::destroy_context(plain.hContext);
      EXPECT_EQ(scene.counts().submissions, submissions);
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
    });
  });
}

TEST_P(VirtioGpuRender, WrongObjectsAreRefused) {
  // Two resources come to the device, which refuses them.
  run({.refused = 2}, [](Scene& scene) {
    scene.as_process([&] {
      RenderClient client(scene.adapter);
      const NTSTATUS invalid = status_of(Status::kInvalidParameter);
      const NTSTATUS mismatch = status_of(Status::kGraphicsDriverMismatch);
      using Resource = VgpuUmdResource;
      const std::pair<std::function<void(Resource&)>, NTSTATUS> rows[] = {
          {[](Resource& r) { r.magic = 0; }, mismatch},
          {[](Resource& r) { r.version = 0; }, mismatch},
          {[](Resource& r) { r.width = 0; }, invalid},
          {[](Resource& r) { r.height = 0; }, invalid},
          {[](Resource& r) { r.depth = 0; }, invalid},
          {[](Resource& r) { r.array_size = 0; }, invalid},
          {[](Resource& r) { r.size_bytes = 0; }, invalid},
          {[](Resource& r) { r.size_bytes = (uint64_t{256} << 20) + 1; }, invalid},
          {[](Resource& r) { r.resource = 1; }, invalid},
          {[](Resource& r) { r.reserved = 1; }, invalid},
          {[](Resource& r) { r.target = 3; }, invalid},  // by the device
          {[](Resource& r) { r.width = r.height = 1025; }, status_of(Status::kNoMemory)}};
      for (size_t i = 0; i < std::size(rows); ++i) {
        Resource data = description();
        rows[i].first(data);
        D3DKMT_HANDLE handle = 0;
        EXPECT_EQ(client.create(&data, sizeof data, &handle), rows[i].second) << i;
      }
      D3DKMT_HANDLE handle = 0;
      Resource data = description();
      EXPECT_EQ(client.create(&data, sizeof data - 1, &handle), mismatch);
      scene.expect(&Scene::Counts::resources, 0);

      using Context = VgpuUmdContext;
      const std::function<void(Context&)> contexts[] = {
          [](Context& c) { c.magic = 0; }, [](Context& c) { c.version = 2; },
          [](Context& c) { c.reserved = 1; }, [](Context& c) { c.capset_id = 1; }};
      for (const auto& change : contexts) {
        Context wanted = context_data();
        change(wanted);
        D3DKMT_CREATECONTEXT context{};
        EXPECT_EQ(client.create_context(&wanted, sizeof wanted, &context), invalid);
      }
      Context wanted = context_data();
      D3DKMT_CREATECONTEXT context{};
      EXPECT_EQ(client.create_context(&wanted, sizeof wanted - 1, &context), invalid);
      scene.expect(&Scene::Counts::contexts, 1);
    });
  });
}

/// A command that never ends: virtio has no smaller reset than that of the device, so all clients
/// are told that their devices are lost, and begin anew.
TEST_P(VirtioGpuRender, AHangCostsAllDevices) {
  run({.may_report = true}, [](Scene& scene) {
    dxgk::Process& first = scene.system.create_process("first");
    std::unique_ptr<RenderClient> other;
    {
      const thunks::ClientScope scope(scene.system, first);
      other = std::make_unique<RenderClient>(scene.adapter);
      EXPECT_EQ(other->fetch(other->make())[0], 0U);
    }
    scene.as_process([&] {
      RenderClient client(scene.adapter);
      const Picture picture = client.make();
      EXPECT_EQ(client.fetch(picture)[0], 0U);  // no paging comes before the command that hangs
      const bus::EngineFaults hang{.hang_at_entry = 1, .hangs_max = 1};
      scene.gpu.faults()->set_faults({&hang, 1});
      ASSERT_EQ(client.render(Commands().submit({kFill, picture.resource, 1}), {picture}), 0);
      (void)client.wait();
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_HUNG);
      EXPECT_EQ(scene.system.statistics(scene.adapter)->adapter_resets, 1U);
    });
    {
      const thunks::ClientScope scope(scene.system, first);
      EXPECT_EQ(other->state(), D3DKMT_DEVICEEXECUTION_RESET);
      other.reset();
      RenderClient again(scene.adapter);
      const Picture picture = again.make();
      ASSERT_EQ(again.render(Commands().submit({kFill, picture.resource, 12}), {picture}), 0);
      EXPECT_EQ(again.fetch(picture), Pixels(kWidth * kHeight, 12));
    }
    scene.system.end_process(first);
  });
}

void sleep_and_wake(Scene& scene) {
  ASSERT_TRUE(scene.system.set_power(scene.adapter, dxgk::PowerTarget::kD3).has_value());
  ASSERT_TRUE(scene.system.set_power(scene.adapter, dxgk::PowerTarget::kD0).has_value());
  scene.expect(&Scene::Counts::contexts, 0);
  scene.expect(&Scene::Counts::resources, 0);
}

/// Asleep the device loses what its renderer has. A client that uses it afterwards is told so.
TEST_P(VirtioGpuRender, SleepCostsWhatTheRendererHas) {
  run({}, [](Scene& scene) {
    scene.as_process([&] {
      RenderClient client(scene.adapter), other(scene.adapter), third(scene.adapter);
      const Picture picture = client.make(), others = other.make();
      const Commands fill = Commands().submit({kFill, picture.resource, 1});
      ASSERT_EQ(client.render(fill, {picture}), 0);
      EXPECT_EQ(client.fetch(picture)[0], 1U);
      sleep_and_wake(scene);
      const NTSTATUS lost = status_of(Status::kGraphicsGpuExceptionOnDevice);
      EXPECT_EQ(client.render(fill, {picture}), lost);
      EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
      // Neither the resource alone does, nor the context.
      const Picture fresh = third.make();
      EXPECT_EQ(third.render(Commands().submit({kFill, fresh.resource, 2}), {fresh}), lost);
      EXPECT_EQ(
          other.render(
              Commands().discard(VGPU_UMD_DISCARD_CONTEXT).submit({kFill, others.resource, 2}),
              {others}),
          lost);
    });
  });
}

/// A fence for which a context waits before it does more.
class Barrier {
 public:
  explicit Barrier(const RenderClient& client) : device_(client.device()) {
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create{};
    create.hDevice = device_;
    create.Info.Type = D3DDDI_MONITORED_FENCE;
    EXPECT_EQ(D3DKMTCreateSynchronizationObject2(&create), 0);
    fence_ = create.hSyncObject;
  }
  ~Barrier() {
    const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy{.hSyncObject = fence_};
    EXPECT_EQ(D3DKMTDestroySynchronizationObject(&destroy), 0);
  }
  void hold(D3DKMT_HANDLE context) const {
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU wait{};
    wait.hContext = context;
    wait.ObjectCount = 1;
    wait.ObjectHandleArray = &fence_;
    wait.MonitoredFenceValueArray = &kOpen;
    EXPECT_EQ(D3DKMTWaitForSynchronizationObjectFromGpu(&wait), 0);
  }
  void open() const {
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal{};
    signal.hDevice = device_;
    signal.ObjectCount = 1;
    signal.ObjectHandleArray = &fence_;
    signal.FenceValueArray = &kOpen;
    EXPECT_EQ(D3DKMTSignalSynchronizationObjectFromCpu(&signal), 0);
  }

 private:
  static constexpr UINT64 kOpen = 1;
  D3DKMT_HANDLE device_ = 0, fence_ = 0;
};

/// What was rendered before a sleep and runs behind it must not meet what is there again under the
/// same number: its device ends, and the renderer hears nothing of it.
TEST_P(VirtioGpuRender, WorkThatASleepHasOutlivedCostsItsDevice) {
  run({}, [](Scene& scene) {
    scene.as_process([&] {
      RenderClient late(scene.adapter), other(scene.adapter), memory(scene.adapter);
      const Picture picture = late.make(), others = other.make();
      const Barrier barrier(late), second(memory);
      EXPECT_EQ(late.fetch(picture)[0], 0U);
      const Commands anew = Commands()
                                .discard(VGPU_UMD_DISCARD_CONTEXT)
                                .discard(0)
                                .submit({kAdd, picture.resource, 5})
                                .from_host(0);
      barrier.hold(late.context().hContext);
      ASSERT_EQ(late.render(anew, {picture}), 0);
      // Nothing of the renderer: it runs behind the sleep as before it.
      second.hold(memory.context().hContext);
      const VgpuUmdHeader nop{VGPU_UMD_NOP, sizeof nop};
      ASSERT_EQ(memory.render(Commands().add(nop), {}), 0);
      const uint32_t submissions = scene.counts().submissions;
      sleep_and_wake(scene);
      // Context and resource are there again before the old work runs.
      ASSERT_EQ(late.render(Commands().discard(VGPU_UMD_DISCARD_CONTEXT).discard(0), {picture}), 0);
      scene.expect(&Scene::Counts::contexts, 1);
      scene.expect(&Scene::Counts::resources, 1);
      barrier.open();
      second.open();
      (void)late.wait();
      EXPECT_EQ(late.state(), late.fault_state());
      EXPECT_EQ(scene.counts().submissions, submissions);
      EXPECT_EQ(memory.wait(), 0);
      EXPECT_EQ(memory.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
      ASSERT_EQ(other.render(Commands()
                                 .discard(VGPU_UMD_DISCARD_CONTEXT)
                                 .discard(0)
                                 .submit({kAdd, others.resource, 6})
                                 .from_host(0),
                             {others}),
                0);
      EXPECT_EQ(other.look(others), Pixels(kWidth * kHeight, 6));
    });
  });
}

/// A client that needs nothing of what was there says so, and goes on with the same objects.
TEST_P(VirtioGpuRender, SleepCostsNothingThatIsNotNeeded) {
  run({}, [](Scene& scene) {
    scene.as_process([&] {
      RenderClient client(scene.adapter);
      const Picture first = client.make(), second = client.make(), locked = client.make();
      VgpuUmdContext data = context_data();
      D3DKMT_CREATECONTEXT beside{};
      ASSERT_EQ(client.create_context(&data, sizeof data, &beside), 0);
      for (const Picture& picture : {first, second, locked})
        ASSERT_EQ(client.render(Commands().submit({kFill, picture.resource, 1}), {picture}), 0);
      const Commands anew = Commands()
                                .discard(VGPU_UMD_DISCARD_CONTEXT)
                                .discard(0)
                                .discard(1)
                                .submit({kAdd, first.resource, 5, kAdd, second.resource, 6})
                                .from_host(0)
                                .from_host(1);
      for (int i = 0; i < 2; ++i) {
        sleep_and_wake(scene);
        ASSERT_EQ(client.render(anew, {first, second}), 0);
        EXPECT_EQ(client.look(first), Pixels(kWidth * kHeight, 5));
        EXPECT_EQ(client.look(second), Pixels(kWidth * kHeight, 6));
        // The other context reaches what is there again.
        ASSERT_EQ(client.render(Commands()
                                    .discard(VGPU_UMD_DISCARD_CONTEXT)
                                    .submit({kAdd, second.resource, 4})
                                    .from_host(1),
                                {first, second}, &beside),
                  0);
        EXPECT_EQ(client.look(second), Pixels(kWidth * kHeight, 10));
        scene.expect(&Scene::Counts::attached, 4);
      }
      // Awake it changes nothing.
      ASSERT_EQ(client.render(Commands()
                                  .discard(VGPU_UMD_DISCARD_CONTEXT)
                                  .discard(0)
                                  .submit({kAdd, first.resource, 1})
                                  .from_host(0),
                              {first}),
                0);
      EXPECT_EQ(client.look(first), Pixels(kWidth * kHeight, 6));
      VgpuUmdDiscard wrong{{VGPU_UMD_DISCARD, sizeof wrong}, 1, 0};
      EXPECT_EQ(client.render(Commands().add(wrong), {first}), status_of(Status::kInvalidHandle));
      wrong.allocation = 0;
      wrong.reserved = 1;
      EXPECT_EQ(client.render(Commands().add(wrong), {first}),
                status_of(Status::kInvalidParameter));
      RenderClient::destroy_context(beside.hContext);
    });
  });
}

/// Memory that a processor holds while the device sleeps.
TEST_P(VirtioGpuRender, LockedMemoryIsAttachedToWhatIsThereAgain) {
  run({}, [](Scene& scene) {
    scene.as_process([&] {
      RenderClient client(scene.adapter);
      const Picture picture = client.make();
      ASSERT_EQ(
          client.render(Commands().submit({kFill, picture.resource, 1}).from_host(0), {picture}),
          0);
      ASSERT_EQ(client.touch(picture,
                             [&](uint32_t* at) {
                               EXPECT_EQ(at[0], 1U);
                               sleep_and_wake(scene);
                               at[0] = 44;
                             }),
                0);
      ASSERT_EQ(client.render(Commands()
                                  .discard(VGPU_UMD_DISCARD_CONTEXT)
                                  .discard(0)
                                  .to_host(0)
                                  .submit({kAdd, picture.resource, 1})
                                  .from_host(0),
                              {picture}),
                0);
      EXPECT_EQ(client.look(picture)[0], 45U);
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Elf, VirtioGpuRender,
                         ::testing::Combine(::testing::Values(VIRTIOGPU_ELF),
                                            ::testing::Values(0, 1, 2, 3)));
INSTANTIATE_TEST_SUITE_P(Sys, VirtioGpuRender,
                         ::testing::Combine(::testing::Values(VIRTIOGPU_SYS),
                                            ::testing::Values(1, 2)));
INSTANTIATE_TEST_SUITE_P(Wddm2, VirtioGpuRender,
                         ::testing::Combine(::testing::Values(VIRTIOGPU_WDDM2_ELF,
                                                              VIRTIOGPU_WDDM2_SYS),
                                            ::testing::Values(0, 1, 2)));

}  // namespace
}  // namespace dxgkit
