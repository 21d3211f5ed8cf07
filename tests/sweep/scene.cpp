#include "tests/sweep/scene.h"

#include <fmt/format.h>
#include <gtest/gtest-spi.h>

#include <algorithm>
#include <utility>

#include "dxgk/adapter/adapter.h"
#include "dxgk/display/display.h"
#include "dxgk/system_impl.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::sweep {
namespace {

constexpr NTSTATUS kRemovedStatus = contract::nt_status(Status::kDeviceRemoved);
constexpr NTSTATUS kEndedStatus = static_cast<NTSTATUS>(0xC000010A);
/// How often the GPU of the scene looks for work.
constexpr int64_t kPeriod = runtime::kMillisecond;

/// Device, context, allocation, work on it, and everything destroyed again.
void use_memory(Stack& stack) {
  Client client(stack, "fresh");
  dxgk::Adapter& adapter = stack.adapter();
  const D3DKMT_HANDLE allocation = client.make_allocation();
  if (adapter.gpu_va_model() != nullptr) {
    D3DKMT_CREATECONTEXTVIRTUAL create{};
    create.hDevice = client.device;
    stack.blocking(
        [&] { EXPECT_EQ(client.call([&] { return D3DKMTCreateContextVirtual(&create); }), 0); });
    client.list({allocation});
    EXPECT_EQ(client.wait_for_idle(), 0);
    EXPECT_EQ(client.destroy_context(create.hContext), 0);
  } else {
    contract::ContextBuffers context = client.make_context();
    if (adapter.core().facts().explicit_residency) client.list({allocation});
    EXPECT_EQ(client.render(context, contract::work_on({allocation})), 0);
    EXPECT_EQ(client.wait_for_idle(), 0);
    EXPECT_EQ(client.destroy_context(context.handle), 0);
  }
  EXPECT_EQ(client.state(), D3DKMT_DEVICEEXECUTION_ACTIVE);
  EXPECT_EQ(client.destroy_allocation(allocation), 0);
  EXPECT_EQ(client.destroy_device(client.device), 0);
}

/// What the fixtures expect is not heard as long as it lives, and counted.
class Muted {
 public:
  explicit Muted(bool muted) {
    if (muted) {
      using Reporter = ::testing::ScopedFakeTestPartResultReporter;
      reporter_ = std::make_unique<Reporter>(Reporter::INTERCEPT_ONLY_CURRENT_THREAD, &results_);
    }
  }

 private:
  ::testing::TestPartResultArray results_;
  std::unique_ptr<::testing::ScopedFakeTestPartResultReporter> reporter_;
};

}  // namespace

Stage stage_of(Stack& stack) {
  return {.machine = stack.machine,
          .findings = stack.findings,
          .system = *stack.system,
          .function = stack.miniport.function(),
          .options = stack.options,
          .luid = stack.luid,
          .expect_leaks = stack.expect_leaks,
          .start = [&stack] { return stack.start(); },
          .complete = [&stack] { return stack.miniport.complete_all(); },
          .forget = [&stack] { stack.miniport.forget_outstanding(); },
          .use = [&stack] { use_memory(stack); },
          .live_count = [&stack] { return stack.miniport.live_objects(); }};
}

Stage stage_of(DisplayStack& stack) {
  return {.machine = stack.machine,
          .findings = stack.findings,
          .system = *stack.system,
          .function = stack.display.function(),
          .options = stack.options,
          .luid = stack.luid,
          .expect_leaks = stack.expect_leaks,
          .start = [&stack] { return stack.start(); },
          .complete =
              [&stack] {
                const size_t pending = stack.display.pending_presents();
                for (size_t i = 0; i < pending; ++i) stack.display.finish_present();
                return pending;
              },
          .forget = [] {},
          .use =
              [&stack] {
                EXPECT_TRUE(stack.displays.configuration(stack.luid).has_value());
                // A driver that failed to show it again shows nothing.
                if (stack.visible()) {
                  EXPECT_EQ(stack.present(9), Status::kSuccess);
                }
              },
          .live_count = [] { return size_t{0}; }};
}

void Scene::play(Stack& stack, const std::function<void()>& body) {
  stack.complete_work = [this] { return complete(); };
  perform(stage_of(stack), body);
  stack.complete_work = nullptr;
}

void Scene::play(DisplayStack& stack, const std::function<void()>& body) {
  perform(stage_of(stack), body);
}

void Scene::perform(const Stage& stage, const std::function<void()>& body) {
  begin(stage);
  Status started = Status::kSuccess;
  {
    const Muted muted(strikes_.has_value());
    started = start(stage);
    if (started_) body();
    wait_for_reaper();
  }
  check(stage, restarted_.value_or(started));
  runtime::Runtime::current()
      .spawn("stop", [&] { static_cast<void>(stage.system.stop_adapter(stage.luid)); })
      ->join();
  end();
  left_objects = stage.live_count();
  if (on_end) on_end(stage.findings);
  // The driver was not told to destroy it, or may not be called any more.
  const bool stopped_hard =
      std::ranges::any_of(stage.findings.all(), [](const verifier::Finding& finding) {
        return finding.severity == verifier::Severity::kBugCheck;
      });
  if (stopped_hard || (striker.has_struck() && keeps_an_object(striker.where())))
    stage.expect_leaks = true;
}

Status Scene::start(const Stage& stage) {
  const Status status = stage.start();
  started_ = status == Status::kSuccess;
  wakes_.fetch_add(1);
  runtime::Runtime::current().wake_all(wakes_);
  return status;
}

void Scene::start_again() {
  started_ = false;
  restarted_ = start(*stage_);
}

void Scene::begin(const Stage& stage) {
  stage_ = &stage;
  stage.options.faults = &striker;
  striker.on_strike = [this] { strike(); };
  gpu_ = runtime::Runtime::current().spawn("gpu", [this] {
    while (!over_) {
      runtime::Runtime::current().sleep_for(kPeriod);
      if (!held_) static_cast<void>(complete());
    }
  });
  reaper_ = runtime::Runtime::current().spawn("reaper", [this] { run_reaper(); });
}

void Scene::end() {
  over_ = true;
  wakes_.fetch_add(1);
  runtime::Runtime::current().wake_all(wakes_);
  gpu_->join();
  reaper_->join();
}

size_t Scene::complete() {
  const runtime::MutexLock lock(gpu_lock_);
  if (!gone_) return stage_->complete();
  stage_->forget();
  return 0;
}

void Scene::strike() {
  if (strikes_->kind == FaultKind::kRemoval) {
    gone_ = true;
    stage_->forget();
    stage_->machine.pull_out(stage_->function);
  }
  wakes_.fetch_add(1);
  runtime::Runtime::current().wake_all(wakes_);
}

bool Scene::reaper_is_due() const {
  if (!strikes_.has_value() || !striker.has_struck()) return false;
  if (strikes_->kind == FaultKind::kRemoval) return started_ && removed_ != stage_->luid;
  return strikes_->kind == FaultKind::kExit && mortal_ != nullptr && !reaped_;
}

void Scene::run_reaper() {
  runtime::Runtime& runtime = runtime::Runtime::current();
  const runtime::WaitReason reason(runtime, "the fault to strike (reaper)");
  for (;;) {
    const uint32_t seen = wakes_.load();
    if (reaper_is_due()) {
      if (strikes_->kind == FaultKind::kExit) {
        mortal_->end();
        reaped_ = true;
      } else {
        const dxgk::Luid luid = stage_->luid;
        static_cast<void>(stage_->system.remove_adapter(luid));
        removed_ = luid;
      }
      reaps_.fetch_add(1);
      runtime.wake_all(reaps_);
      continue;
    }
    if (over_) return;
    runtime.wait(wakes_, seen);
  }
}

void Scene::wait_for_reaper() {
  runtime::Runtime& runtime = runtime::Runtime::current();
  const runtime::WaitReason reason(runtime, "the reaper");
  for (uint32_t seen = reaps_.load(); reaper_is_due(); seen = reaps_.load())
    runtime.wait(reaps_, seen);
}

bool Scene::adapter_runs() const {
  const dxgk::Ref<dxgk::Adapter> adapter = stage_->system.impl().find(stage_->luid);
  return adapter && adapter->core().running();
}

Scene::Mortal::Mortal(Scene& scene, Client& client) : scene_(scene), client_(client) {
  scene.mortal_ = &client;
  scene.striker.client_lives = true;
}

Scene::Mortal::~Mortal() {
  scene_.wait_for_reaper();
  const bool told_to_end = scene_.reaped_;
  scene_.mortal_ = nullptr;
  scene_.striker.client_lives = false;
  // A dead process and a stopped adapter answer as documented, whatever came out before.
  if (!told_to_end && (client_.adapter == 0 || scene_.adapter_runs())) return;
  D3DKMT_CREATEDEVICE create{};
  create.hAdapter = client_.adapter;
  const NTSTATUS expected = told_to_end ? kEndedStatus : kRemovedStatus;
  const NTSTATUS answered = client_.call([&] { return D3DKMTCreateDevice(&create); });
  if (answered != expected) {
    scene_.complain(fmt::format("D3DKMTCreateDevice answers {:#x}, not {:#x}",
                                static_cast<uint32_t>(answered), static_cast<uint32_t>(expected)));
  }
}

void Scene::check(const Stage& stage, Status started) {
  const bool explained = !stage.findings.all().empty() || gone_;
  if (started != Status::kSuccess) {
    ending = Ending::kNotStarted;
    if (!explained) complain("the start failed, and no finding says why");
    return;
  }
  if (!adapter_runs()) {
    ending = Ending::kStopped;
    if (!explained) complain("the adapter stopped, and no finding says why");
    return;
  }
  ending = Ending::kRunning;
  if (gone_) {
    complain("the device is gone, and the adapter runs");
    return;
  }
  held_ = false;
  striker.paused = true;
  stage.use();
  striker.paused = false;
}

}  // namespace dxgkit::sweep
