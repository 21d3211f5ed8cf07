#include "tests/contract/display_fixture.h"

#include <cstring>

namespace dxgkit::contract {

DisplayStack::DisplayStack(const framebuffer::FrameBufferConfig& screen)
    : display(screen),
      machine(uint64_t{16} << 20),
      kernel(runtime::Runtime::current(), machine, findings),
      system(
          std::make_unique<dxgk::System>(runtime::Runtime::current(), machine, kernel, findings)),
      displays(*system) {
  EXPECT_EQ(machine.add_function(display.function()), Status::kSuccess);
  pages_at_start_ = machine.free_page_count();
}

DisplayStack::~DisplayStack() {
  system.reset();
  driver.reset();
  if (!expect_leaks) {
    EXPECT_TRUE(kernel.leaks().empty());
  }
  EXPECT_EQ(machine.free_page_count(), pages_at_start_) << "pages nobody returned";
  machine.remove_function(display.function());
}

Status DisplayStack::load() {
  std::string message;
  Result<std::unique_ptr<port::Driver>> loaded =
      port::Driver::load(kernel, findings, display.source(), &message);
  if (!loaded.has_value()) return loaded.error();
  driver = std::move(*loaded);
  return Status::kSuccess;
}

Status DisplayStack::start() {
  if (driver == nullptr) {
    if (const Status status = load(); status != Status::kSuccess) return status;
  }
  const Result<dxgk::Luid> started = system->start_adapter(*driver, display.function(), options);
  if (!started.has_value()) return started.error();
  luid = *started;
  return Status::kSuccess;
}

void DisplayStack::stop() { EXPECT_EQ(system->stop_adapter(luid), Status::kSuccess); }

std::vector<std::string> DisplayStack::rules() const {
  std::vector<std::string> list;
  for (const verifier::Finding& finding : findings.all()) list.push_back(finding.rule);
  return list;
}

verifier::Finding DisplayStack::only_finding() const {
  const std::vector<verifier::Finding> all = findings.all();
  EXPECT_EQ(all.size(), 1U);
  return all.size() == 1 ? all.front() : verifier::Finding{};
}

std::vector<std::byte> DisplayStack::picture(uint32_t width, uint32_t height, uint32_t seed) {
  std::vector<std::byte> pixels(size_t{width} * height * 4);
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      const uint32_t value = seed << 16 | y << 8 | x;
      std::memcpy(pixels.data() + (size_t{y} * width + x) * 4, &value, sizeof value);
    }
  }
  return pixels;
}

Status DisplayStack::present(uint32_t seed, std::vector<port::Rect> dirty,
                             std::vector<port::MoveRect> moves) {
  const dxgk::DisplayMode size = mode();
  const std::vector<std::byte> pixels = picture(size.width, size.height, seed);
  return displays.present(luid, {.source = 0,
                                 .pixels = pixels,
                                 .pitch_bytes = size.width * 4,
                                 .moves = std::move(moves),
                                 .dirty = std::move(dirty)});
}

dxgk::DisplayMode DisplayStack::mode(uint32_t source) {
  const auto configuration = displays.configuration(luid);
  if (!configuration.has_value() || source >= configuration->sources.size()) return {};
  return configuration->sources[source].mode.value_or(dxgk::DisplayMode{});
}

bool DisplayStack::visible(uint32_t source) {
  const auto configuration = displays.configuration(luid);
  return configuration.has_value() && source < configuration->sources.size() &&
         configuration->sources[source].visible;
}

void DisplayTest::bare(const std::function<void(DisplayStack&)>& body, uint64_t seed) {
  runtime::make_sim_runtime(seed)->run_main([&] {
    DisplayStack stack;
    body(stack);
  });
}

void DisplayTest::running(const std::function<void(DisplayStack&)>& body,
                          const std::function<void(DisplayStack&)>& prepare, uint64_t seed) {
  bare(
      [&](DisplayStack& stack) {
        if (prepare) prepare(stack);
        ASSERT_EQ(stack.start(), Status::kSuccess);
        body(stack);
      },
      seed);
}

void DisplayTest::in_both(const std::function<void(DisplayStack&)>& body,
                          const std::function<void(DisplayStack&)>& prepare) {
  runtime::make_os_runtime()->run_main([&] {
    DisplayStack stack;
    if (prepare) prepare(stack);
    ASSERT_EQ(stack.start(), Status::kSuccess);
    body(stack);
  });
  running(body, prepare);
}

}  // namespace dxgkit::contract
