// What a driver and a renderer may say: each wrong command gets its error before the renderer hears
// of it, each error of the renderer changes nothing, and nonsense of the renderer loses it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "devices/virtiogpu/fake_renderer.h"
#include "devices/virtiogpu/rendering.h"
#include "devices/virtiogpu/test_commands.h"

namespace dxgkit::virtiogpu {
namespace {

constexpr uint32_t kOk = VGPU_OK_NODATA;
constexpr uint32_t kBadContext = VGPU_ERR_INVALID_CONTEXT_ID,
                   kBadResource = VGPU_ERR_INVALID_RESOURCE_ID,
                   kBadParameter = VGPU_ERR_INVALID_PARAMETER, kNoMemory = VGPU_ERR_OUT_OF_MEMORY,
                   kUnspecified = VGPU_ERR_UNSPEC;
constexpr VgpuRect kAll = {0, 0, 64, 64};

struct Rig {
  explicit Rig(GpuConfig config = {}, Renderers renderers = Renderers::kOne) {
    auto made = std::make_unique<FakeRenderer>(
        std::vector<Capset>{{.id = 1, .version_most = 1, .bytes_most = 300},
                            {.id = 2, .version_most = 2, .bytes_most = 1000}});
    renderer = made.get();
    gpu.emplace(std::move(config),
                std::make_unique<Rendering>(std::move(made), pages.locate(), renderers));
    commands.emplace(*gpu, pages);
  }
  /// Context 1 with a texture 5, which has pages, and 6, a 2D resource.
  void set_up() {
    ASSERT_EQ(commands->create_context(1), kOk);
    ASSERT_EQ(commands->create(TestCommands::texture(5, 64, 64)), kOk);
    ASSERT_EQ(commands->attach(1, 5), kOk);
    ASSERT_EQ(commands->back(5, {{pages.data(), 64 * 64 * 4, 0}}), kOk);
    ASSERT_EQ(commands->send(VGPU_RESOURCE_CREATE_2D, VgpuCreate2D{{}, 6, VGPU_B8G8R8X8, 64, 64}),
              kOk);
    used = gpu->memory_used();
    count = gpu->resource_count();
    renderer->asked.clear();
  }
  /// The command was answered so, and changed nothing; `asked` times the renderer was asked.
  void expect(uint32_t got, uint32_t wanted, const char* what, size_t asked = 0) {
    EXPECT_EQ(got, wanted) << what;
    EXPECT_EQ(gpu->memory_used(), used) << what;
    EXPECT_EQ(gpu->resource_count(), count) << what;
    EXPECT_EQ(renderer->asked.size(), asked) << what;
    EXPECT_EQ(commands->failure, "") << what;
    renderer->asked.clear();
  }

  bus::Machine machine{uint64_t{16} << 20};
  TestPages pages{machine};
  FakeRenderer* renderer = nullptr;
  std::optional<Gpu> gpu;
  std::optional<TestCommands> commands;
  uint64_t used = 0;
  size_t count = 0;
};

/// Which commands there are, and which ids, is the driver's to know. The rest may be a client's.
TEST(RenderingLimits, UnknownCommandsAndIdsAreMisuse) {
  Rig rig;
  rig.set_up();
  TestCommands& commands = *rig.commands;
  const VgpuBox box = {0, 0, 0, 8, 8, 1}, outside = {64, 0, 0, 8, 8, 1};
  EXPECT_EQ(commands.to_host(1, 5, outside), kBadParameter);
  EXPECT_EQ(commands.detach(1, 6), kBadResource);
  EXPECT_EQ(commands.submit(1, {1, 2, 3}), kOk);
  EXPECT_THAT(rig.gpu->take_misuses(), ::testing::IsEmpty());
  EXPECT_EQ(commands.to_host(1, 7, box), kBadResource);
  EXPECT_EQ(commands.submit(2, {1}), kBadContext);
  EXPECT_EQ(commands.create_context(1), kBadContext);
  EXPECT_EQ(commands.send(0, VgpuFlush{{}, kAll, 5, 0}), kUnspecified);
  EXPECT_THAT(rig.gpu->take_misuses(),
              ::testing::ElementsAre("command 0x205 is refused with INVALID_RESOURCE_ID",
                                     "command 0x207 is refused with INVALID_CONTEXT_ID",
                                     "command 0x200 is refused with INVALID_CONTEXT_ID",
                                     "command 0x0 is refused with UNSPEC"));
}

TEST(RenderingLimits, WrongContextsAreRefused) {
  Rig rig;
  rig.set_up();
  TestCommands& commands = *rig.commands;
  rig.expect(commands.create_context(0), kBadContext, "context 0");
  rig.expect(commands.create_context(1), kBadContext, "a context twice");
  rig.expect(commands.create_context(2, 3), kBadParameter, "a capability set there is not");
  rig.expect(commands.create_context(2, 0x101), kBadParameter, "bits that are none");
  VgpuCreateContext named = {};
  named.name_bytes = 65;
  rig.expect(commands.send(VGPU_CTX_CREATE, named, 2), kBadParameter, "a name that is too long");
  rig.expect(commands.destroy_context(2), kBadContext, "no such context");
  rig.expect(commands.attach(2, 5), kBadContext, "attach to no context");
  rig.expect(commands.attach(1, 7), kBadResource, "attach no resource");
  rig.expect(commands.attach(1, 6), kBadResource, "attach a 2D resource");
  rig.expect(commands.attach(1, 5), kOk, "attached already");
  rig.expect(commands.detach(2, 5), kBadContext, "detach from no context");
  rig.expect(commands.submit(2, {0}), kBadContext, "submit to no context");
  VgpuSubmit submit = {};
  submit.bytes = 6;
  rig.expect(commands.send_list(VGPU_SUBMIT_3D, submit, std::vector<uint32_t>(2), 1), kBadParameter,
             "half a word");
  submit.bytes = 12;
  rig.expect(commands.send_list(VGPU_SUBMIT_3D, submit, std::vector<uint32_t>(2), 1), kBadParameter,
             "more than the command has");
  rig.expect(commands.send(VGPU_CTX_DESTROY, VgpuContext{}, 1, VGPU_FLAG_RING), kOk,
             "timeline 0 of the context", 1);
  VgpuContext ring = {};
  ring.header.ring = 1;
  rig.expect(commands.send(VGPU_CTX_DESTROY, ring, 1, VGPU_FLAG_RING), kBadParameter,
             "a timeline that it has not");
}

TEST(RenderingLimits, ContextsAreBounded) {
  Rig rig;
  uint32_t id = 1;
  while (rig.commands->create_context(id) == kOk) ++id;
  EXPECT_EQ(id, 257U);
  EXPECT_EQ(rig.commands->answer<VgpuHeader>().type, kNoMemory);
  EXPECT_EQ(rig.commands->destroy_context(7), kOk);
  EXPECT_EQ(rig.commands->create_context(id), kOk);
}

TEST(RenderingLimits, WrongResourcesAreRefused) {
  Rig rig({.memory_bytes = 1 << 20, .resources = 3});
  rig.set_up();
  TestCommands& commands = *rig.commands;
  const auto refused = [&](const char* what, uint32_t wanted, auto change) {
    VgpuCreate3D command = TestCommands::texture(7, 16, 16);
    change(command);
    rig.expect(commands.create(command), wanted, what);
  };
  refused("resource 0", kBadResource, [](auto& it) { it.resource = 0; });
  refused("an id twice", kBadResource, [](auto& it) { it.resource = 5; });
  refused("an id of a 2D resource", kBadResource, [](auto& it) { it.resource = 6; });
  refused("no target", kBadParameter, [](auto& it) { it.target = 9; });
  refused("no format", kBadParameter, [](auto& it) { it.format = 512; });
  refused("no width", kBadParameter, [](auto& it) { it.width = 0; });
  refused("no height", kBadParameter, [](auto& it) { it.height = 0; });
  refused("no depth", kBadParameter, [](auto& it) { it.depth = 0; });
  refused("no layer", kBadParameter, [](auto& it) { it.array_size = 0; });
  refused("too wide", kBadParameter, [](auto& it) { it.width = 16385; });
  refused("too high", kBadParameter, [](auto& it) { it.height = UINT32_MAX; });
  refused("too deep", kBadParameter, [](auto& it) { it.depth = 2049; });
  refused("too many layers", kBadParameter, [](auto& it) { it.array_size = 2049; });
  refused("too many levels", kBadParameter, [](auto& it) { it.last_level = 15; });
  refused("too many samples", kBadParameter, [](auto& it) { it.samples = 33; });
  refused("a buffer with rows", kBadParameter, [](auto& it) { it.target = 0; });
  refused("above the limit", kNoMemory, [](auto& it) { it.width = it.height = 512; });
  refused("above it with samples", kNoMemory, [](auto& it) {
    it.width = it.height = 128;
    it.samples = 32;
  });
  refused("far above it", kNoMemory, [](auto& it) {
    it.width = it.height = 16384;
    it.depth = it.array_size = 2048;
    it.samples = 32;
    it.last_level = 14;
  });
  rig.expect(commands.unref(7), kBadResource, "no such resource");
  rig.expect(commands.back(5, {{rig.pages.data(), 4, 0}}), kUnspecified, "attached already");
  ASSERT_EQ(commands.create(TestCommands::texture(7, 16, 16)), kOk);
  EXPECT_EQ(commands.create(TestCommands::texture(8, 16, 16)), kNoMemory) << "more than the limit";
}

TEST(RenderingLimits, BackingIsMemoryOfTheMachine) {
  Rig rig;
  ASSERT_EQ(rig.commands->create(TestCommands::texture(5, 64, 64)), kOk);
  rig.used = rig.gpu->memory_used();
  rig.count = 1;
  rig.renderer->asked.clear();
  const uint64_t at = rig.pages.data();
  rig.expect(rig.commands->back(5, {{0x10, 64, 0}}), kBadParameter, "no memory");
  rig.expect(rig.commands->back(5, {{at, 64, 0}, {UINT64_MAX - 8, 64, 0}}), kBadParameter,
             "it wraps");
  rig.expect(rig.commands->back(5, {{at, 0, 0}}), kBadParameter, "nothing");
  rig.expect(rig.commands->unback(5), kUnspecified, "nothing is attached");
  rig.expect(rig.commands->from_host(0, 5, {0, 0, 0, 1, 1, 1}), kUnspecified, "to nowhere");
  // Neighbours become one range, empty entries none.
  ASSERT_EQ(rig.commands->back(5, {{at, 64, 0}, {at + 64, 64, 0}, {at, 0, 0}, {at + 4096, 32, 0}}),
            kOk);
  ASSERT_EQ(rig.renderer->asked.back().bytes, 2 * sizeof(MemoryRange));
  std::array<MemoryRange, 2> ranges;
  std::memcpy(ranges.data(), rig.renderer->mailbox().data(), sizeof ranges);
  EXPECT_EQ(ranges[0].bytes, 128U);
  EXPECT_EQ(ranges[1].bytes, 32U);
  EXPECT_EQ(ranges[1].offset, ranges[0].offset + 4096);
}

TEST(RenderingLimits, WrongTransfersAreRefused) {
  Rig rig;
  rig.set_up();
  TestCommands& commands = *rig.commands;
  rig.expect(commands.from_host(1, 6, {0, 0, 0, 1, 1, 1}), kBadResource, "a 2D resource");
  rig.expect(commands.from_host(1, 7, {0, 0, 0, 1, 1, 1}), kBadResource, "no resource");
  rig.expect(commands.from_host(2, 5, {0, 0, 0, 1, 1, 1}), kBadContext, "no context");
  for (const VgpuBox& box :
       {VgpuBox{1, 0, 0, 64, 64, 1}, VgpuBox{0, 1, 0, 64, 64, 1}, VgpuBox{0, 0, 1, 64, 64, 1},
        VgpuBox{0, 0, 0, 64, 64, 2}, VgpuBox{UINT32_MAX, 0, 0, 2, 1, 1}, VgpuBox{0, 0, 0, 0, 1, 1},
        VgpuBox{0, 0, 0, 1, 0, 1}, VgpuBox{0, 0, 0, 1, 1, 0}})
    rig.expect(commands.to_host(1, 5, box), kBadParameter, "outside");
  const VgpuBox one = {0, 0, 0, 1, 1, 1};
  rig.expect(commands.transfer(VGPU_TRANSFER_TO_HOST_3D, 1, 5, one, 64 * 64 * 4), kBadParameter,
             "behind the backing");
  VgpuTransfer3D level = {};
  level.box = one;
  level.resource = 5;
  level.level = 1;
  rig.expect(commands.send(VGPU_TRANSFER_TO_HOST_3D, level, 1), kBadParameter, "no such level");
  rig.expect(commands.send(VGPU_TRANSFER_TO_HOST_2D, VgpuTransfer{{}, kAll, 0, 5, 0}), kBadResource,
             "as 2D");
  rig.expect(commands.to_host(1, 5, {0, 0, 0, 64, 64, 1}), kOk, "all of it", 1);
  ASSERT_EQ(commands.detach(1, 5), kOk);
  rig.renderer->asked.clear();
  rig.expect(commands.to_host(1, 5, one), kBadResource, "not of this context");
  rig.expect(commands.detach(1, 5), kBadResource, "detached already");
  rig.expect(commands.to_host(0, 5, one), kOk, "of no context", 1);
}

/// Errors of the renderer are errors of the command, and nothing has changed.
TEST(RenderingLimits, ErrorsOfTheRendererAreTold) {
  Rig rig;
  rig.set_up();
  TestCommands& commands = *rig.commands;
  const std::pair<uint32_t, uint32_t> errors[] = {{ENOMEM, kNoMemory},
                                                  {EINVAL, kBadParameter},
                                                  {EPERM, kUnspecified},
                                                  {UINT32_MAX, kUnspecified}};
  for (const auto& [error, type] : errors) {
    rig.renderer->respond = [&, number = error](const Question&, Answer* answer) {
      answer->error = number;
      return true;
    };
    rig.expect(commands.create_context(2), type, "a context", 1);
    rig.expect(commands.create(TestCommands::texture(7, 16, 16)), type, "a resource", 1);
    rig.expect(commands.submit(1, {0}, 0), type, "commands", 1);
    rig.expect(commands.to_host(1, 5, {0, 0, 0, 1, 1, 1}), type, "a transfer", 1);
    rig.expect(commands.send(VGPU_SET_SCANOUT, VgpuSetScanout{{}, kAll, 0, 5}), type, "a picture",
               1);
    EXPECT_EQ(rig.gpu->image().width, 0U);
    rig.expect(commands.send(VGPU_GET_CAPSET, VgpuGetCapset{{}, 1, 1}), type, "a set", 1);
    rig.renderer->respond = {};
    rig.expect(commands.attach(2, 5), kBadContext, "the context");
    rig.expect(commands.unref(7), kBadResource, "the resource");
  }
}

std::vector<Ask> asks_of(const FakeRenderer& renderer) {
  std::vector<Ask> list;
  for (const Question& question : renderer.asked) list.push_back(question.ask);
  return list;
}

/// A resource is made where the first context has it, with the backing that it has by then.
TEST(RenderingLimits, EachContextHasItsRenderer) {
  using ::testing::ElementsAre;
  Rig rig({}, Renderers::kEach);
  TestCommands& commands = *rig.commands;
  ASSERT_EQ(commands.create_context(1), kOk);
  ASSERT_EQ(commands.create_context(2), kOk);
  ASSERT_EQ(rig.renderer->others.size(), 2U);
  FakeRenderer& first = *rig.renderer->others[0];
  FakeRenderer& second = *rig.renderer->others[1];
  ASSERT_EQ(commands.create(TestCommands::texture(5, 64, 64)), kOk);
  ASSERT_EQ(commands.back(5, {{rig.pages.data(), 64 * 64 * 4, 0}}), kOk);
  EXPECT_THAT(asks_of(first), ElementsAre(Ask::kCreateContext));
  ASSERT_EQ(commands.attach(1, 5), kOk);
  EXPECT_THAT(asks_of(first), ElementsAre(Ask::kCreateContext, Ask::kCreateResource,
                                          Ask::kAttachBacking, Ask::kAttach));
  EXPECT_EQ(commands.attach(2, 5), kBadParameter);
  EXPECT_THAT(asks_of(second), ElementsAre(Ask::kCreateContext));
  // Without a context it is in the common one.
  ASSERT_EQ(commands.create(TestCommands::texture(6, 64, 64)), kOk);
  EXPECT_THAT(asks_of(*rig.renderer), ElementsAre());
  ASSERT_EQ(commands.back(6, {{rig.pages.data(), 64 * 64 * 4, 0}}), kOk);
  ASSERT_EQ(commands.to_host(0, 6, {0, 0, 0, 1, 1, 1}), kOk);
  EXPECT_THAT(asks_of(*rig.renderer),
              ElementsAre(Ask::kCreateResource, Ask::kAttachBacking, Ask::kToHost));
  // A fence waits for its context only; one of no context for all.
  first.asked.clear();
  second.asked.clear();
  commands.submit(1, {0}, 0);
  commands.submit(2, {0}, VGPU_FLAG_FENCE);
  EXPECT_THAT(asks_of(first), ElementsAre(Ask::kSubmit));
  EXPECT_THAT(asks_of(second), ElementsAre(Ask::kSubmit, Ask::kFinish));
  commands.send(VGPU_RESOURCE_FLUSH, VgpuFlush{{}, kAll, 5, 0}, 0, VGPU_FLAG_FENCE);
  EXPECT_THAT(asks_of(first), ElementsAre(Ask::kSubmit, Ask::kFinish));
  // The first is lost with its renderer. The second goes on, and the first can be made again.
  first.is_lost = true;
  EXPECT_EQ(commands.submit(1, {0}), kUnspecified);
  EXPECT_EQ(commands.failure, "");
  EXPECT_EQ(first.restarts, 1);  // its process has ended
  EXPECT_EQ(commands.from_host(0, 5, {0, 0, 0, 1, 1, 1}), kUnspecified);
  EXPECT_EQ(commands.submit(2, {0}), kOk);
  EXPECT_EQ(commands.destroy_context(1), kOk);
  EXPECT_EQ(commands.unback(5), kOk);
  EXPECT_EQ(commands.unref(5), kOk);
  ASSERT_EQ(commands.create_context(1), kOk);
  EXPECT_EQ(commands.submit(1, {0}), kOk);
  // Without the common renderer nothing is left.
  rig.renderer->is_lost = true;
  EXPECT_EQ(commands.to_host(0, 6, {0, 0, 0, 1, 1, 1}), 0U);
  EXPECT_EQ(commands.failure, "the renderer is lost");
}

/// A resource outlives its context, and keeps the renderer that has its content.
TEST(RenderingLimits, ARendererStaysForItsResources) {
  Rig rig({}, Renderers::kEach);
  TestCommands& commands = *rig.commands;
  ASSERT_EQ(commands.create_context(1), kOk);
  ASSERT_EQ(commands.create(TestCommands::texture(5, 64, 64)), kOk);
  ASSERT_EQ(commands.attach(1, 5), kOk);
  ASSERT_EQ(commands.back(5, {{rig.pages.data(), 64 * 64 * 4, 0}}), kOk);
  ASSERT_EQ(commands.destroy_context(1), kOk);
  FakeRenderer& home = *rig.renderer->others[0];
  home.asked.clear();
  EXPECT_EQ(commands.from_host(0, 5, {0, 0, 0, 1, 1, 1}), kOk);
  EXPECT_EQ(home.asked.size(), 1U);
  // A failure to make it leaves it without a home, and the next context may try.
  ASSERT_EQ(commands.create(TestCommands::texture(6, 64, 64)), kOk);
  ASSERT_EQ(commands.back(6, {{rig.pages.data(), 64 * 64 * 4, 0}}), kOk);
  rig.renderer->respond = [](const Question& question, Answer* answer) {
    answer->error = question.ask == Ask::kAttachBacking ? ENOMEM : 0;
    return true;
  };
  ASSERT_EQ(commands.create_context(2), kOk);
  EXPECT_EQ(commands.attach(2, 6), kNoMemory);
  rig.renderer->respond = {};
  ASSERT_EQ(commands.create_context(3), kOk);
  EXPECT_EQ(commands.attach(3, 6), kOk);
}

/// A fence waits for commands before it, once.
TEST(RenderingLimits, AFenceWaitsForCommands) {
  Rig rig;
  rig.set_up();
  const auto asked = [&] {
    std::vector<Ask> list = asks_of(*rig.renderer);
    rig.renderer->asked.clear();
    return list;
  };
  rig.commands->submit(1, {0}, 0);
  rig.commands->submit(1, {0}, 0);
  rig.commands->send(VGPU_RESOURCE_FLUSH, VgpuFlush{{}, kAll, 5, 0}, 0, VGPU_FLAG_FENCE);
  EXPECT_THAT(asked(), ::testing::ElementsAre(Ask::kSubmit, Ask::kSubmit, Ask::kFinish));
  rig.commands->send(VGPU_RESOURCE_FLUSH, VgpuFlush{{}, kAll, 5, 0}, 0, VGPU_FLAG_FENCE);
  EXPECT_THAT(asked(), ::testing::ElementsAre());
  rig.commands->submit(1, {0}, VGPU_FLAG_FENCE);
  EXPECT_THAT(asked(), ::testing::ElementsAre(Ask::kSubmit, Ask::kFinish));
}

TEST(RenderingLimits, APictureOrSetOfAnotherSizeLosesTheRenderer) {
  for (const bool is_picture : {true, false}) {
    for (const uint32_t bytes : {0U, 16383U, 16385U, kMailboxBytes}) {
      Rig rig;
      rig.set_up();
      rig.renderer->respond = [&](const Question&, Answer* answer) {
        answer->bytes = bytes;
        return true;
      };
      const uint32_t type =
          is_picture ? rig.commands->send(VGPU_SET_SCANOUT, VgpuSetScanout{{}, kAll, 0, 5})
                     : rig.commands->send(VGPU_GET_CAPSET, VgpuGetCapset{{}, 2, 2});
      EXPECT_EQ(type, 0U) << bytes;
      EXPECT_EQ(rig.commands->failure,
                is_picture ? "the renderer is lost: a picture of another size"
                           : "the renderer is lost: a capability set of another size");
      EXPECT_EQ(rig.gpu->image().width, 0U);
      rig.gpu->reset();
      EXPECT_EQ(rig.renderer->restarts, 1);
      EXPECT_EQ(rig.gpu->memory_used(), 0U);
      rig.renderer->respond = {};
      rig.set_up();
    }
  }
}

TEST(RenderingLimits, OfCapabilitySetsOnlySoundOnesAreTaken) {
  const auto count = [](std::vector<Capset> list, size_t more = 0) {
    std::vector<std::byte> mailbox(kMailboxBytes);
    const auto bytes = std::as_bytes(std::span(list));
    std::ranges::copy(bytes, mailbox.begin());
    Answer answer;
    answer.bytes = static_cast<uint32_t>(bytes.size() + more);
    const auto read = read_capsets(answer, mailbox);
    return read.has_value() ? static_cast<int>(read->size()) : -1;
  };
  EXPECT_EQ(count({{1, 1, 300}, {2, 2, 1000}}), 2);
  EXPECT_EQ(count({}), -1);
  EXPECT_EQ(count({{1, 1, 300}}, 1), -1);
  EXPECT_EQ(count({{0, 1, 300}}), -1);
  EXPECT_EQ(count({{64, 1, 300}}), -1);
  EXPECT_EQ(count({{1, 1, 0}}), -1);
  EXPECT_EQ(count({{1, 1, kCapsetBytesMost + 1}}), -1);
  EXPECT_EQ(count(std::vector<Capset>(5, {1, 1, 300})), -1);
}

}  // namespace
}  // namespace dxgkit::virtiogpu
