// Our own display-only driver, as it is shipped: both image forms on the device it is for.
#include "dxgk/displays.h"
#include "tests/contract/display_fixture.h"

namespace dxgkit::contract {
namespace {

const char* const kForms[] = {
    FRAMEBUFFER_ELF,
#ifdef FRAMEBUFFER_SYS
    FRAMEBUFFER_SYS,
#endif
};

class FrameBufferDriver : public ::testing::TestWithParam<const char*> {};

TEST_P(FrameBufferDriver, ShowsAPictureAndLeavesTheScreen) {
  DXGKIT_COVERS("DOD-04", "DOD-09", "LIFE-19");
  for (const bool simulated : {false, true}) {
    const auto runtime = simulated ? runtime::make_sim_runtime(1) : runtime::make_os_runtime();
    runtime->run_main([] {
      auto screen = framebuffer::FrameBuffer::create({.width = 80, .height = 60});
      ASSERT_TRUE(screen.has_value());
      bus::Machine machine(uint64_t{16} << 20);
      verifier::Findings findings;
      nt::Kernel kernel(runtime::Runtime::current(), machine, findings);
      ASSERT_EQ(machine.add_function((*screen)->function()), Status::kSuccess);
      std::string message;
      auto driver = port::Driver::load(kernel, findings,
                                       {.name = "framebuffer", .path = GetParam()}, &message);
      ASSERT_TRUE(driver.has_value()) << message;
      EXPECT_TRUE((*driver)->display_only());
      {
        dxgk::System system(runtime::Runtime::current(), machine, kernel, findings);
        dxgk::Displays displays(system);
        const auto luid = system.start_adapter(**driver, (*screen)->function());
        ASSERT_TRUE(luid.has_value());
        const auto configuration = displays.configuration(*luid);
        ASSERT_TRUE(configuration.has_value());
        EXPECT_TRUE(configuration->display_only);
        EXPECT_EQ(configuration->sources[0].mode, (dxgk::DisplayMode{80, 60}));
        const std::vector<std::byte> pixels = DisplayStack::picture(80, 60, 9);
        EXPECT_EQ(displays.present(*luid, {.pixels = pixels, .pitch_bytes = 320}),
                  Status::kSuccess);
        EXPECT_EQ((*screen)->pixel(79, 59), 0x093B4FU);
        const auto scanout = displays.scanout(*luid, 0);
        ASSERT_TRUE(scanout.has_value());
        EXPECT_EQ(scanout->pixels, (*screen)->screen().pixels);
        EXPECT_EQ(displays.set_power(*luid, port::PowerState::kD3), Status::kSuccess);
        EXPECT_EQ((*screen)->pixel(79, 59), 0U) << "black when invisible";
        EXPECT_EQ(displays.set_power(*luid, port::PowerState::kD0), Status::kSuccess);
        EXPECT_EQ(displays.present(*luid, {.pixels = pixels, .pitch_bytes = 320}),
                  Status::kSuccess);
        EXPECT_EQ(displays.show_bug_check(*luid, DisplayStack::picture(4, 4, 0x77), 4, 4),
                  Status::kSuccess);
        EXPECT_EQ((*screen)->pixel(3, 3), 0x770303U);
      }
      EXPECT_EQ((*screen)->pixel(3, 3), 0U) << "released black";
      EXPECT_EQ((*screen)->function().post_display()->target_id, 1U);
      driver->reset();
      for (const verifier::Finding& finding : findings.all())
        ADD_FAILURE() << verifier::to_text(finding);
    });
  }
}
INSTANTIATE_TEST_SUITE_P(Forms, FrameBufferDriver, ::testing::ValuesIn(kForms),
                         [](const auto& row) {
                           return std::string(row.param).ends_with(".sys") ? "Sys" : "Elf";
                         });

}  // namespace
}  // namespace dxgkit::contract
