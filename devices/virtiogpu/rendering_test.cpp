// 3D with the real renderer in its process: what is drawn arrives, and a renderer that dies, hangs
// or gets nonsense costs the device a reset and nobody else anything.
#include "devices/virtiogpu/rendering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "devices/virtiogpu/renderer_process.h"
#include "devices/virtiogpu/test_commands.h"
#include "trace/trace.h"

namespace dxgkit::virtiogpu {
namespace {

constexpr uint32_t kOk = VGPU_OK_NODATA;
constexpr uint32_t kWidth = 96, kHeight = 64;
constexpr VgpuBox kAll = {0, 0, 0, kWidth, kHeight, 1};

struct Rig {
  explicit Rig(runtime::DurationNs timeout = 60 * runtime::kSecond,
               Renderers renderers = Renderers::kOne, bool odd_sets = false) {
    auto made = RendererProcess::start({.program = find_renderer(),
                                        .memory = pages.descriptor(),
                                        .data_bytes = uint64_t{1} << 28,
                                        .timeout = timeout});
    EXPECT_TRUE(made.has_value()) << made.error();
    if (!made.has_value()) return;
    renderer = made->get();
    gpu.emplace(GpuConfig{},
                std::make_unique<Rendering>(std::move(*made), pages.locate(), renderers, odd_sets));
    commands.emplace(*gpu, pages);
  }
  /// Context 1 with a texture 5, which has pages.
  void set_up() {
    ASSERT_EQ(commands->create_context(1), kOk);
    ASSERT_EQ(commands->create(TestCommands::texture(5, kWidth, kHeight)), kOk);
    ASSERT_EQ(commands->attach(1, 5), kOk);
    // The second half comes first in memory.
    constexpr uint32_t kHalf = kWidth * kHeight * 2;
    ASSERT_EQ(commands->back(5, {{pages.data() + kHalf, kHalf, 0}, {pages.data(), kHalf, 0}}), kOk);
  }
  /// Draws one colour into texture 5 and looks whether it arrives.
  void draw(float red, float green, float blue, uint32_t wanted) {
    Words words;
    words.draw_to(5, VGPU_B8G8R8X8, 10).clear(red, green, blue, 1);
    ASSERT_EQ(commands->submit(1, words.words()), kOk);
    ASSERT_EQ(commands->from_host(1, 5, kAll), kOk);
    for (uint32_t at = 0; at < kWidth * kHeight; ++at)
      ASSERT_EQ(commands->word(at) & 0xFFFFFF, wanted) << at;
  }

  bus::Machine machine{uint64_t{16} << 20};
  TestPages pages{machine};
  RendererProcess* renderer = nullptr;
  std::optional<Gpu> gpu;
  std::optional<TestCommands> commands;
};

TEST(Rendering, WhatIsDrawnArrives) {
  Rig rig;
  rig.set_up();
  rig.draw(1, 0.5F, 0, 0xFF8000);
  rig.draw(0, 0, 1, 0x0000FF);
  // What the driver writes goes there, too: every word another one, and a part back again.
  for (uint32_t at = 0; at < kWidth * kHeight; ++at)
    rig.pages.store(rig.pages.data() + at * 4, at * 5);
  ASSERT_EQ(rig.commands->to_host(1, 5, kAll), kOk);
  for (uint32_t at = 0; at < kWidth * kHeight; ++at)
    rig.pages.store(rig.pages.data() + at * 4, uint32_t{0});
  ASSERT_EQ(rig.commands->from_host(0, 5, {8, 3, 0, 16, 1, 1}), kOk);
  // The first half of the backing is the second half of the data.
  const uint32_t first = kWidth * kHeight / 2;
  for (uint32_t at = 0; at < 16; ++at) {
    const uint32_t pixel = 3 * kWidth + 8 + at;
    EXPECT_EQ(rig.commands->word(first + at) & 0xFFFFFF, (first + pixel) * 5 & 0xFFFFFF) << at;
  }
  EXPECT_EQ(rig.commands->word(first + 16), 0U);
}

TEST(Rendering, AScreenShowsA3DResource) {
  Rig rig;
  rig.set_up();
  const VgpuRect all = {0, 0, kWidth, kHeight};
  ASSERT_EQ(rig.commands->send(VGPU_SET_SCANOUT, VgpuSetScanout{{}, all, 0, 5}), kOk);
  const auto pixel = [&](uint32_t x, uint32_t y) {
    const bus::ScreenImage image = rig.gpu->image();
    const uint8_t* const at = image.pixels.data() + (uint64_t{y} * image.width + x) * 4;
    return static_cast<uint32_t>(at[0]) << 16 | static_cast<uint32_t>(at[1]) << 8 | at[2];
  };
  EXPECT_EQ(rig.gpu->image().width, kWidth);
  EXPECT_EQ(pixel(0, 0), 0U);
  rig.draw(0, 1, 1, 0x00FFFF);
  EXPECT_EQ(pixel(0, 0), 0U);  // nothing is seen before its flush
  ASSERT_EQ(rig.commands->send(VGPU_RESOURCE_FLUSH, VgpuFlush{{}, {4, 4, 8, 8}, 5, 0}), kOk);
  EXPECT_EQ(pixel(3, 4), 0U);
  EXPECT_EQ(pixel(4, 4), 0x00FFFFU);
  EXPECT_EQ(pixel(11, 11), 0x00FFFFU);
  EXPECT_EQ(pixel(12, 11), 0U);
  // The upper row is the first one: the driver's first word of the backing.
  rig.pages.store(rig.pages.data() + kWidth * kHeight * 2, 0x123456U);
  ASSERT_EQ(rig.commands->to_host(1, 5, {0, 0, 0, 1, 1, 1}), kOk);
  ASSERT_EQ(rig.commands->send(VGPU_RESOURCE_FLUSH, VgpuFlush{{}, all, 5, 0}), kOk);
  EXPECT_EQ(pixel(0, 0), 0x123456U);
  EXPECT_EQ(pixel(95, 63), 0x00FFFFU);
  ASSERT_EQ(rig.commands->unref(5), kOk);
  EXPECT_EQ(rig.gpu->image().width, 0U);
}

TEST(Rendering, TwoContextsShareAResource) {
  Rig rig;
  rig.set_up();
  ASSERT_EQ(rig.commands->create_context(2, VGPU_CAPSET_VIRGL2), kOk);
  Words words;
  words.draw_to(5, VGPU_B8G8R8X8, 10).clear(1, 1, 0, 1);
  // The second context has not been given it: an error, and from then on the context is lost.
  EXPECT_EQ(rig.commands->submit(2, words.words()), uint32_t{VGPU_ERR_INVALID_PARAMETER});
  EXPECT_EQ(rig.commands->destroy_context(2), kOk);
  ASSERT_EQ(rig.commands->create_context(2), kOk);
  ASSERT_EQ(rig.commands->attach(2, 5), kOk);
  ASSERT_EQ(rig.commands->submit(2, words.words()), kOk);
  ASSERT_EQ(rig.commands->from_host(1, 5, kAll), kOk);
  EXPECT_EQ(rig.commands->word(77) & 0xFFFFFF, 0xFFFF00U);
}

TEST(Rendering, CapabilitySetsAreTheRenderers) {
  Rig rig;
  std::array<uint32_t, 4> config{};
  rig.gpu->config_read(0, std::as_writable_bytes(std::span(config)));
  EXPECT_EQ(config[3], rig.renderer->capsets().size());
  EXPECT_NE(rig.gpu->features() & uint64_t{1} << VGPU_F_VIRGL, 0U);
  EXPECT_NE(rig.gpu->features() & uint64_t{1} << VGPU_F_CONTEXT_INIT, 0U);
  for (uint32_t index = 0; index < config[3]; ++index) {
    ASSERT_EQ(rig.commands->send(VGPU_GET_CAPSET_INFO, VgpuGetCapsetInfo{{}, index, 0}),
              uint32_t{VGPU_OK_CAPSET_INFO});
    const auto info = rig.commands->answer<VgpuCapsetInfo>();
    EXPECT_EQ(info.id, index + 1);  // virgl, virgl2
    ASSERT_EQ(rig.commands->send(VGPU_GET_CAPSET, VgpuGetCapset{{}, info.id, info.version_most}),
              uint32_t{VGPU_OK_CAPSET});
    EXPECT_EQ(rig.commands->written, sizeof(VgpuHeader) + info.bytes_most);
    uint32_t version = 0;
    rig.pages.load(rig.pages.answer() + sizeof(VgpuHeader), &version);
    EXPECT_EQ(version, info.version_most);
    EXPECT_EQ(rig.commands->send(VGPU_GET_CAPSET, VgpuGetCapset{{}, info.id, 99}),
              uint32_t{VGPU_ERR_INVALID_PARAMETER});
  }
  EXPECT_EQ(rig.commands->send(VGPU_GET_CAPSET_INFO, VgpuGetCapsetInfo{{}, config[3], 0}),
            uint32_t{VGPU_ERR_INVALID_PARAMETER});
}

/// Garbage is an error of its context. The others draw on.
TEST(Rendering, GarbageIsAnError) {
  Rig rig;
  rig.set_up();
  ASSERT_EQ(rig.commands->create_context(2), kOk);
  std::vector<uint32_t> words(500);
  uint32_t state = 1;
  for (int round = 0; round < 50; ++round) {
    for (uint32_t& word : words) word = state = state * 1664525 + 1013904223;
    words[0] = (words[0] & 0x3FFF) | 4 << 16;
    const uint32_t type = rig.commands->submit(2, words);
    if (!rig.commands->failure.empty()) break;  // it killed the renderer, which the next test has
    EXPECT_EQ(type, uint32_t{VGPU_ERR_INVALID_PARAMETER}) << round;
  }
  if (rig.commands->failure.empty()) {
    rig.draw(1, 0, 1, 0xFF00FF);
  } else {
    rig.gpu->reset();
    rig.set_up();
    rig.draw(1, 0, 1, 0xFF00FF);
  }
}

/// Sets that no context can have, around those of the renderer.
TEST(Rendering, OddSetsAreListed) {
  Rig plain;
  const auto plain_count = static_cast<uint32_t>(plain.renderer->capsets().size());
  Rig rig(60 * runtime::kSecond, Renderers::kOne, /*odd_sets=*/true);
  std::array<uint32_t, 4> config = {};
  rig.gpu->config_read(0, std::as_writable_bytes(std::span(config)));
  ASSERT_EQ(config[3], plain_count + 2 + VGPU_CAPSET_MORE_COUNT);
  const auto info = [&](uint32_t index) {
    EXPECT_EQ(rig.commands->send(VGPU_GET_CAPSET_INFO, VgpuGetCapsetInfo{{}, index, 0}),
              uint32_t{VGPU_OK_CAPSET_INFO});
    return rig.commands->answer<VgpuCapsetInfo>();
  };
  EXPECT_EQ(info(0).id, uint32_t{VGPU_CAPSET_LARGE});
  EXPECT_EQ(info(0).bytes_most, VGPU_CAPSET_LARGE_BYTES);
  EXPECT_EQ(info(1).id, uint32_t{VGPU_CAPSET_EMPTY});
  EXPECT_EQ(info(1).bytes_most, 0U);
  EXPECT_EQ(info(2).id, plain.renderer->capsets()[0].id);
  EXPECT_EQ(info(config[3] - 1).id, VGPU_CAPSET_MORE + VGPU_CAPSET_MORE_COUNT - 1);
  ASSERT_EQ(rig.commands->send(VGPU_GET_CAPSET, VgpuGetCapset{{}, VGPU_CAPSET_MORE, 1}),
            uint32_t{VGPU_OK_CAPSET});
  struct Set {
    VgpuHeader header;
    uint8_t bytes[VGPU_CAPSET_MORE_BYTES];
  };
  const auto set = rig.commands->answer<Set>();
  for (uint32_t i = 0; i < VGPU_CAPSET_MORE_BYTES; ++i)
    EXPECT_EQ(set.bytes[i], VGPU_CAPSET_BYTE(VGPU_CAPSET_MORE, i) & 0xFF);
  EXPECT_EQ(rig.commands->send(VGPU_GET_CAPSET, VgpuGetCapset{{}, VGPU_CAPSET_MORE, 2}),
            uint32_t{VGPU_ERR_INVALID_PARAMETER});
  EXPECT_EQ(rig.commands->create_context(3, VGPU_CAPSET_MORE),
            uint32_t{VGPU_ERR_INVALID_PARAMETER});
}

/// A renderer that was killed: no answer, and every command after it fails, until a reset starts
/// another one.
TEST(Rendering, AResetBringsAnotherRenderer) {
  Rig rig;
  rig.set_up();
  const pid_t before = rig.renderer->process();
  const std::span<const Capset> capsets = rig.renderer->capsets();
  ASSERT_EQ(kill(before, SIGKILL), 0);
  EXPECT_EQ(rig.commands->create_context(3), 0U);
  EXPECT_EQ(rig.commands->failure, "the renderer is lost: it has ended");
  EXPECT_EQ(rig.commands->submit(1, {0}), 0U);
  EXPECT_EQ(rig.commands->failure, "the renderer is lost: it has ended");
  rig.gpu->reset();
  EXPECT_EQ(rig.gpu->resource_count(), 0U);
  EXPECT_EQ(rig.gpu->memory_used(), 0U);
  EXPECT_EQ(rig.commands->submit(1, {0}), uint32_t{VGPU_ERR_INVALID_CONTEXT_ID});
  EXPECT_EQ(rig.commands->send(VGPU_GET_CAPSET, VgpuGetCapset{{}, 1, 1}), uint32_t{VGPU_OK_CAPSET});
  // The list stays where it is: a device may be reading it on another thread.
  EXPECT_EQ(capsets.data(), rig.renderer->capsets().data());
  rig.set_up();
  EXPECT_NE(rig.renderer->process(), before);
  rig.draw(0, 1, 0, 0x00FF00);
}

/// The trace says which contexts lost their renderer, and why.
TEST(Rendering, ASilentRendererIsGivenUp) {
  trace::Recorder recorder({.now_ns = [] { return 0; }, .thread = [] { return 0U; }});
  Rig rig(/*timeout=*/runtime::kSecond);
  rig.set_up();
  ASSERT_EQ(kill(rig.renderer->process(), SIGSTOP), 0);
  trace::set_current(&recorder);
  EXPECT_EQ(rig.commands->create_context(3), 0U);
  trace::set_current(nullptr);
  ASSERT_EQ(recorder.events().size(), 1U);
  EXPECT_EQ(recorder.events()[0].kind, static_cast<uint16_t>(trace::EventKind::kMarker));
  EXPECT_EQ(recorder.names().at(recorder.events()[0].a),
            "virtio-gpu: context 1 (test): the renderer is lost: no answer in 1000 ms");
  EXPECT_EQ(rig.commands->failure, "the renderer is lost: no answer in 1000 ms");
  rig.gpu->reset();
  EXPECT_LT(rig.renderer->process(), 0);
}

TEST(Rendering, WorkThatNeverEndsIsGivenUp) {
  Rig rig(/*timeout=*/runtime::kSecond);
  rig.set_up();
  EXPECT_EQ(rig.commands->submit(1, Words().compute_for_ever().words()), 0U);
  EXPECT_EQ(rig.commands->failure, "the renderer is lost: no answer in 1000 ms");
  rig.gpu->reset();
  rig.set_up();
  rig.draw(0, 1, 1, 0x00FFFF);
}

/// A renderer that is busy ends when the program that has the device ends, however that does.
TEST(Rendering, ABusyRendererEndsWithItsProgram) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // grandchildren become ours
  const pid_t program = fork();
  if (program == 0) {
    Rig rig(/*timeout=*/runtime::kSecond);
    rig.set_up();
    rig.commands->submit(1, Words().compute_for_ever().words());
    const pid_t renderer = rig.renderer->process();
    if (write(pipe_ends[1], &renderer, sizeof renderer) != sizeof renderer) _exit(1);
    kill(getpid(), SIGKILL);
  }
  pid_t renderer = 0;
  ASSERT_EQ(read(pipe_ends[0], &renderer, sizeof renderer), static_cast<ssize_t>(sizeof renderer));
  ASSERT_EQ(waitpid(program, nullptr, 0), program);
  int status = 0;
  ASSERT_EQ(waitpid(renderer, &status, 0), renderer);
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGIO);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

/// The driver's reset does not wait for the answer.
TEST(Rendering, AResetEndsAWait) {
  const auto os = runtime::make_os_runtime();
  os->run_main([&] {
    Rig rig(runtime::kForever / 2);
    rig.set_up();
    ASSERT_EQ(kill(rig.renderer->process(), SIGSTOP), 0);
    const auto driver = os->spawn("driver", [&] { rig.gpu->interrupt(); });
    EXPECT_EQ(rig.commands->create_context(3), 0U);
    EXPECT_EQ(rig.commands->failure, "the renderer is lost: a reset came");
    driver->join();
    rig.gpu->reset();
    rig.set_up();
    rig.draw(1, 1, 1, 0xFFFFFF);
  });
}

/// Drivers reset the device before they use it. That costs no start of a process.
TEST(Rendering, AnUnusedRendererSurvivesAReset) {
  Rig rig;
  const pid_t before = rig.renderer->process();
  ASSERT_EQ(rig.commands->send(VGPU_GET_CAPSET, VgpuGetCapset{{}, 1, 1}), uint32_t{VGPU_OK_CAPSET});
  rig.gpu->interrupt();
  rig.gpu->reset();
  EXPECT_EQ(rig.renderer->process(), before);
  rig.set_up();
  EXPECT_EQ(rig.renderer->process(), before);
  rig.gpu->interrupt();
  rig.gpu->reset();
  EXPECT_LT(rig.renderer->process(), 0);
}

TEST(Rendering, ARendererThatIsNoneIsRefused) {
  bus::Machine machine(uint64_t{16} << 20);
  TestPages pages(machine);
  const auto start = [&](const char* program) {
    const auto made = RendererProcess::start({.program = program, .memory = pages.descriptor()});
    return made.has_value() ? std::string() : made.error();
  };
  EXPECT_EQ(start("/nowhere/renderer"),
            "/nowhere/renderer: the renderer does not start: No such file or directory");
  EXPECT_EQ(start("/bin/true"), "/bin/true: it has ended");
  // A program that answers the first question with these bytes.
  const std::string program = ::testing::TempDir() + "renderer_" + std::to_string(getpid());
  const auto answered = [&](const std::string& answer) {
    std::ofstream(program) << "#!/bin/sh\ndd bs=4096 count=1 status=none <&3 >/dev/null\nprintf '"
                           << answer << "' >&3\ncat <&3 >/dev/null\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    const std::string error = start(program.c_str());
    return error.starts_with(program + ": ") ? error.substr(program.size() + 2) : error;
  };
  const std::string zeros = "\\0\\0\\0";
  const std::string one = "\\1" + zeros, none = "\\0" + zeros;
  EXPECT_EQ(answered("garbage"), "an answer that makes no sense");
  EXPECT_EQ(answered(none + none + none + none), "an answer that makes no sense");  // to what?
  EXPECT_EQ(answered(one + none + none + none + one), "an answer that makes no sense");
  EXPECT_EQ(answered(one + none + "\\377\\377\\377\\377" + none), "an answer that makes no sense");
  EXPECT_EQ(answered(one + one + none + none),
            "it cannot draw on this computer: Operation not permitted");
  EXPECT_EQ(answered(one + none + none + none), "it has no capability sets that make sense");
  EXPECT_EQ(answered(one + none + "\\14" + zeros + none),
            "it has no capability sets that make sense");
  std::filesystem::remove(program);
}

}  // namespace
}  // namespace dxgkit::virtiogpu
