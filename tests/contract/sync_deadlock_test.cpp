// What is said when everything waits.
#include "dxgk/adapter/adapter.h"
#include "dxgk/sync/sync_object.h"
#include "dxgk/work/sync_report.h"
#include "tests/contract/sync_fixture.h"

namespace dxgkit::contract {
namespace {

using namespace sync_flag;
using ::testing::HasSubstr;
using ::testing::Not;
using SyncDeadlockTest = ContractTest;

std::string waits(Stack& stack) {
  std::string text;
  stack.adapter().core().lane().run([&] { text = dxgk::describe_waits(stack.adapter().floor()); });
  return text;
}

TEST_F(SyncDeadlockTest, TheReportNamesWaitersValuesAndWhoCouldSignal) {
  DXGKIT_COVERS("SYNC-29");
  running([](Stack& stack) {
    Client one(stack, "one"), two(stack, "two");
    ContextBuffers a = one.make_context(), b = two.make_context();
    const MonitoredFence first = create_fence(one, kNt, 1), second = create_fence(two, kNt);
    SharedHandle of_first, of_second;
    ASSERT_EQ(share(one, {first.handle}, &of_first.handle), 0);
    ASSERT_EQ(share(two, {second.handle}, &of_second.handle), 0);
    const MonitoredFence first_of_two = open_fence(two, of_first.handle, kNoSignal);
    const MonitoredFence second_of_one = open_fence(one, of_second.handle);
    EXPECT_EQ(waits(stack), "") << "nobody waits";
    // Each waits for what the other would signal behind its own wait.
    ASSERT_EQ(one.wait_gpu(a, second_of_one.handle, 5), 0);
    ASSERT_EQ(one.signal_gpu(a, first.handle, 7), 0);
    ASSERT_EQ(two.wait_gpu(b, first_of_two.handle, 7), 0);
    ASSERT_EQ(two.signal_gpu(b, second.handle, 5), 0);
    stack.drive();
    runtime::Runtime::current().sleep_for(60 * runtime::kSecond);
    EXPECT_EQ(stack.rules(), std::vector<std::string>{}) << "waiting is no timeout";
    const std::string text = waits(stack);
    EXPECT_THAT(text, HasSubstr("of process \"one\" waits for:\n"));
    EXPECT_THAT(text, HasSubstr("to reach 5, which is at 0; could signal it: context "));
    EXPECT_THAT(text, HasSubstr("of process \"two\" has a signal to 5 queued"));
    EXPECT_THAT(text, HasSubstr("to reach 7, which is at 1"));
    EXPECT_THAT(text, HasSubstr("of process \"one\" has a signal to 7 queued"));
    EXPECT_THAT(text, HasSubstr("process \"one\" through handle"));
    const std::string without_right = "process \"two\" through handle 0x";
    EXPECT_EQ(text.find(without_right), text.rfind(without_right)) << "of the second fence only";
    ASSERT_EQ(two.signal_cpu(second.handle, 5), 0);
    stack.drive();
    EXPECT_EQ(waits(stack), "");
  });
}

TEST_F(SyncDeadlockTest, AMutexTellsItsOwner) {
  with_client([](Stack& stack, Client& client) {
    ContextBuffers a = client.make_context(), b = client.make_context();
    const D3DKMT_HANDLE mutex = client.make_sync(D3DDDI_SYNCHRONIZATION_MUTEX);
    for (const ContextBuffers& context : {a, b}) {
      D3DKMT_WAITFORSYNCHRONIZATIONOBJECT args{};
      args.hContext = context.handle;
      args.ObjectCount = 1;
      args.ObjectHandleArray[0] = mutex;
      ASSERT_EQ(client.call([&] { return D3DKMTWaitForSynchronizationObject(&args); }), 0);
    }
    stack.settle();
    char owner[64];
    std::snprintf(owner, sizeof owner, "which context 0x%X of process \"client\" owns", a.handle);
    EXPECT_THAT(waits(stack), HasSubstr(owner));
  });
}

TEST(SyncDeadlockDeathTest, ASimulationThatStandsStillSaysWhatItsThreadsWaitFor) {
  DXGKIT_COVERS("SYNC-29");
  const auto deadlock = [] {
    runtime::make_sim_runtime(uint64_t{3})->run_main([] {
      Stack stack;
      if (stack.start() != Status::kSuccess) return;
      Client client(stack);
      const MonitoredFence fence = create_fence(client, 0, 2);
      static_cast<void>(client.wait_cpu(fence.handle, 4));
    });
  };
  EXPECT_DEATH(deadlock(),
               "deadlock.*seed 3(.|\n)*a CPU thread waits for:\n"
               "  monitored fence [0-9]+ to reach 4, which is at 2; could signal it: process "
               "\"client\" through handle 0x");
}

}  // namespace
}  // namespace dxgkit::contract
