// The kernel with one scripted display-only adapter, in either runtime.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bus/machine.h"
#include "dxgk/displays.h"
#include "dxgk/system.h"
#include "nt/kernel.h"
#include "port/driver.h"
#include "runtime/runtime.h"
#include "tests/support/covers.h"
#include "tests/support/known_run.h"
#include "tests/support/scripted_display.h"
#include "verifier/findings.h"

namespace dxgkit::contract {

using dxgkit::testing::DisplayCalls;
using dxgkit::testing::ScriptedChild;
using dxgkit::testing::ScriptedDisplay;

/// Made inside Runtime::run_main. Its end stops everything and checks that nothing is left.
class DisplayStack {
 public:
  explicit DisplayStack(const framebuffer::FrameBufferConfig& screen = {
                            .width = 64, .height = 48, .pitch_bytes = 320});
  ~DisplayStack();
  DisplayStack(const DisplayStack&) = delete;
  DisplayStack& operator=(const DisplayStack&) = delete;

  ScriptedDisplay display;
  bus::Machine machine;
  verifier::Findings findings;
  testing::KnownRun known_run{findings};
  nt::Kernel kernel;
  std::unique_ptr<port::Driver> driver;
  std::unique_ptr<dxgk::System> system;
  dxgk::Displays displays;
  dxgk::AdapterOptions options;
  dxgk::Luid luid;
  bool expect_leaks = false;

  Status load();
  Status start();  // loads if need be
  void stop();     // the adapter; the driver stays loaded
  /// Rules of all findings so far, in order.
  std::vector<std::string> rules() const;
  /// The only finding; fails the test and gives an empty one otherwise.
  verifier::Finding only_finding() const;
  /// A picture of the active mode whose pixel (x, y) is 0x00yyxx + seed << 16.
  static std::vector<std::byte> picture(uint32_t width, uint32_t height, uint32_t seed);
  Status present(uint32_t seed, std::vector<port::Rect> dirty = {},
                 std::vector<port::MoveRect> moves = {});
  /// The mode of source 0, {0, 0} when it shows nothing.
  dxgk::DisplayMode mode(uint32_t source = 0);
  bool visible(uint32_t source = 0);

 private:
  uint64_t pages_at_start_ = 0;
};

class DisplayTest : public ::testing::Test {
 protected:
  static void bare(const std::function<void(DisplayStack&)>& body, uint64_t seed = 1);
  /// A stack whose adapter runs; `prepare` changes it before.
  static void running(const std::function<void(DisplayStack&)>& body,
                      const std::function<void(DisplayStack&)>& prepare = nullptr,
                      uint64_t seed = 1);
  /// The same in real threads, then in simulation.
  static void in_both(const std::function<void(DisplayStack&)>& body,
                      const std::function<void(DisplayStack&)>& prepare = nullptr);
};

}  // namespace dxgkit::contract
