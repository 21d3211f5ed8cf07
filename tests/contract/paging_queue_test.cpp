// Paging queues: fences, order, destruction.
#include "base/guarded_copy.h"
#include "tests/contract/res_fixture.h"

namespace dxgkit::contract {
namespace {

class PagingQueueTest : public ContractTest {
 protected:
  static void with_lists(const std::function<void(Stack&, ListingClient&)>& body) {
    running(
        [&](Stack& stack) {
          ListingClient client(stack);
          body(stack, client);
          stack.miniport.hooks = {};
        },
        explicit_residency);
  }
};

TEST_F(PagingQueueTest, PrioritiesAndAdaptersOutOfRangeAreRefused) {
  DXGKIT_COVERS("THUNK-30", "THUNK-05");
  with_lists([](Stack& stack, ListingClient& client) {
    const Digest before = digest(stack, {&client});
    Queue made;
    for (const int priority : {-2, 2, INT32_MAX, INT32_MIN})
      EXPECT_EQ(client.create_queue(&made, priority), nt_status(Status::kInvalidParameter));
    for (const UINT index : {1U, UINT32_MAX})
      EXPECT_EQ(client.create_queue(&made, 0, index), nt_status(Status::kInvalidParameter));
    EXPECT_EQ(client.create_queue(&made, 0, 0, client.adapter),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(digest(stack, {&client}), before);
    for (const int priority : {-1, 0, 1}) {
      ASSERT_EQ(client.create_queue(&made, priority), 0);
      EXPECT_EQ(client.destroy_queue(made.handle), 0);
    }
    EXPECT_EQ(digest(stack, {&client}), before);
  });
}

TEST_F(PagingQueueTest, FencesRisePerQueueAndZeroNeedsNoWait) {
  DXGKIT_COVERS("PAGE-44", "PAGE-45", "PAGE-46", "RES-06");
  with_lists([](Stack& stack, ListingClient& client) {
    const Queue other = client.make_queue();
    const D3DKMT_HANDLE a = client.make(1), b = client.make(1), c = client.make(1);
    NTSTATUS status = 0;
    EXPECT_EQ(client.make_resident({a}, &status).PagingFenceValue, 1U);
    EXPECT_EQ(status, nt_status(Status::kPending));
    EXPECT_EQ(client.make_resident({b}, &status).PagingFenceValue, 2U) << "one more, same queue";
    EXPECT_EQ(client.make_resident({c}, &status, {}, other.handle).PagingFenceValue, 1U);
    EXPECT_EQ(client.queue.value(), 0U);
    // On the GPU and on the CPU, like any monitored fence.
    ContextBuffers context = client.make_context();
    const D3DKMT_HANDLE after = client.make_sync(D3DDDI_MONITORED_FENCE);
    ASSERT_EQ(client.wait_gpu(context, client.queue.fence, 2), 0);
    ASSERT_EQ(client.signal_gpu(context, after, 7), 0);
    {
      Stack::Background wait(stack, [&] { EXPECT_EQ(client.wait_cpu(client.queue.fence, 2), 0); });
      EXPECT_FALSE(wait.finished());
      wait.finish();
    }
    stack.drive();
    EXPECT_EQ(client.queue.value(), 2U);
    EXPECT_EQ(other.value(), 1U);
    EXPECT_EQ(client.wait_cpu(after, 7), 0) << "the GPU's wait is over, too";
    EXPECT_EQ(client.make_resident({a}, &status).PagingFenceValue, 0U) << "done at once";
    EXPECT_EQ(status, 0);
    EXPECT_EQ(client.wait_cpu(client.queue.fence, 0), 0) << "and nothing to wait for";
    const uint64_t forged = 100;
    EXPECT_FALSE(guarded_copy(client.queue.address, &forged, sizeof forged));
  });
}

TEST_F(PagingQueueTest, EachRequestIsToldWhenItIsDone) {
  DXGKIT_COVERS("PAGE-45", "RES-06");
  with_lists([](Stack& stack, ListingClient& client) {
    NTSTATUS status = 0;
    for (const uint64_t value : {1U, 2U, 3U}) {
      EXPECT_EQ(client.make_resident({client.make(1)}, &status).PagingFenceValue, value);
      ASSERT_EQ(status, nt_status(Status::kPending));
      stack.settle();  // its paging is a submission of its own
    }
    for (const uint64_t value : {1U, 2U, 3U}) {
      EXPECT_EQ(client.queue.value(), value - 1);
      ASSERT_TRUE(stack.miniport.complete_next(1));
      stack.settle();
      EXPECT_EQ(client.queue.value(), value);
    }
  });
}

TEST_F(PagingQueueTest, TheMoreImportantQueueIsServedFirst) {
  DXGKIT_COVERS("PAGE-44");
  running(
      [](Stack& stack) {
        ListingClient holder(stack, "holder"), client(stack);
        const Queue high = client.make_queue(1), low = client.make_queue(-1);
        const D3DKMT_HANDLE wide = holder.make(kMemoryUnits);
        ContextBuffers work = holder.make_context();
        ASSERT_EQ(holder.make_resident({wide}), nt_status(Status::kPending));
        stack.drive();
        ASSERT_EQ(holder.render(work, work_on({wide})), 0);
        // All memory is in use: everybody waits. The most important came last.
        const D3DKMT_HANDLE a = client.make(1), b = client.make(1), c = client.make(1);
        NTSTATUS status = 0;
        static_cast<void>(client.make_resident({a}, &status, cant_trim(), low.handle));
        EXPECT_EQ(status, nt_status(Status::kPending));
        static_cast<void>(client.make_resident({b}, &status, cant_trim()));
        static_cast<void>(client.make_resident({c}, &status, cant_trim(), high.handle));
        EXPECT_EQ(status, nt_status(Status::kPending));
        ASSERT_TRUE(stack.miniport.complete_next(0));
        std::vector<char> order;
        for (int i = 0; i < 100 && order.size() < 3; ++i) {
          stack.settle();
          if (high.value() == 1 && std::ranges::count(order, 'c') == 0) order.push_back('c');
          if (client.queue.value() == 1 && std::ranges::count(order, 'b') == 0)
            order.push_back('b');
          if (low.value() == 1 && std::ranges::count(order, 'a') == 0) order.push_back('a');
          static_cast<void>(stack.miniport.complete_next(1));
        }
        EXPECT_EQ(order, (std::vector<char>{'c', 'b', 'a'}));
        stack.drive();
      },
      explicit_residency);
}

TEST_F(PagingQueueTest, DestructionWaitsAndTakesTheFenceAlong) {
  DXGKIT_COVERS("PAGE-47");
  with_lists([](Stack& stack, ListingClient& client) {
    const Queue queue = client.make_queue();
    const D3DKMT_HANDLE a = client.make(1);
    NTSTATUS status = 0;
    static_cast<void>(client.make_resident({a}, &status, {}, queue.handle));
    ASSERT_EQ(status, nt_status(Status::kPending));
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT alone{queue.fence};
    EXPECT_EQ(client.call([&] { return D3DKMTDestroySynchronizationObject(&alone); }),
              nt_status(Status::kInvalidParameter))
        << "never without its queue";
    D3DDDI_DESTROYPAGINGQUEUE args{queue.handle};
    {
      Stack::Background destroy(stack, [&] {
        EXPECT_EQ(client.call([&] { return D3DKMTDestroyPagingQueue(&args); }), 0);
      });
      EXPECT_FALSE(destroy.finished()) << "its operation is under way";
      destroy.finish();
    }
    EXPECT_TRUE(client.in_memory(a)) << "what it was for is done";
    EXPECT_EQ(client.call([&] { return D3DKMTDestroyPagingQueue(&args); }),
              nt_status(Status::kInvalidParameter));
    EXPECT_EQ(client.wait_cpu(queue.fence, 0), nt_status(Status::kInvalidParameter));
    uint64_t copy = 0;
    EXPECT_FALSE(guarded_copy(&copy, queue.address, sizeof copy)) << "the address is gone";
    static_cast<void>(client.make_resident({a}, &status, {}, queue.handle));
    EXPECT_EQ(status, nt_status(Status::kInvalidParameter));
  });
}

TEST_F(PagingQueueTest, TheEndOfADeviceIsTheEndOfItsQueues) {
  DXGKIT_COVERS("PAGE-47", "RES-30", "THUNK-08");
  with_lists([](Stack& stack, ListingClient& client) {
    ListingClient other(stack, "other");
    const D3DKMT_HANDLE theirs = other.make(2);
    ASSERT_EQ(other.make_resident({theirs}), nt_status(Status::kPending));
    const D3DKMT_HANDLE a = client.make(2);
    ASSERT_EQ(client.make_resident({a}), nt_status(Status::kPending));
    ASSERT_EQ(client.destroy_device(client.device), 0);
    EXPECT_EQ(client.memory().CurrentUsage, 0U) << "its counts went with it";
    EXPECT_EQ(other.memory().CurrentUsage, 2 * kUnit) << "and no others";
    EXPECT_TRUE(other.in_memory(theirs));
    D3DDDI_DESTROYPAGINGQUEUE args{client.queue.handle};
    EXPECT_EQ(client.call([&] { return D3DKMTDestroyPagingQueue(&args); }),
              nt_status(Status::kInvalidParameter));
    uint64_t copy = 0;
    EXPECT_FALSE(guarded_copy(&copy, client.queue.address, sizeof copy));
  });
}

}  // namespace
}  // namespace dxgkit::contract
