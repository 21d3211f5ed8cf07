// A client in another process has its answer before the scheduler gets to its packet.
#include <cstring>

#include "tests/contract/elsewhere.h"

namespace dxgkit::contract {
namespace {

struct WireEarlyAnswerTest : ContractTest {};

/// Forgets what the driver was asked before.
D3DKMT_CREATECONTEXT make_context(Elsewhere& far, const Client& client) {
  D3DKMT_CREATECONTEXT args{};
  args.hDevice = client.device;
  EXPECT_EQ(far.call("D3DKMTCreateContext", args), 0);
  client.stack.drive();
  client.stack.miniport.clear_calls();
  return args;
}

/// A packet; how many its context has then, as the function says.
UINT render(Elsewhere& far, D3DKMT_CREATECONTEXT& context) {
  std::memset(context.pCommandBuffer, 0, 64);
  D3DKMT_RENDER args{};
  args.hContext = context.hContext;
  args.CommandLength = 64;
  EXPECT_EQ(far.call("D3DKMTRender", args), 0);
  context.pCommandBuffer = args.pNewCommandBuffer;
  return args.QueuedBufferCount;
}

size_t submitted(Stack& stack) { return stack.miniport.calls().submits.size(); }

TEST_F(WireEarlyAnswerTest, ThePacketIsQueuedAndGoesToTheDriverAfterTheReply) {
  with_client([](Stack& stack, Client& client) {
    Elsewhere far(client);
    D3DKMT_CREATECONTEXT context = make_context(far, client);
    EXPECT_EQ(render(far, context), 1U);
    EXPECT_EQ(submitted(stack), 1U) << "who says nothing has it submitted first";
    stack.drive();

    far.let_answer_early();
    EXPECT_EQ(render(far, context), 1U) << "it is queued";
    EXPECT_EQ(submitted(stack), 1U);
    far.answered();
    EXPECT_EQ(submitted(stack), 2U);
    far.answered();
    EXPECT_EQ(submitted(stack), 2U);
  });
}

TEST_F(WireEarlyAnswerTest, TheNextCallFindsItSubmitted) {
  with_client([](Stack& stack, Client& client) {
    Elsewhere far(client);
    far.let_answer_early();
    D3DKMT_CREATECONTEXT context = make_context(far, client);
    EXPECT_EQ(render(far, context), 1U);
    EXPECT_EQ(submitted(stack), 0U);
    D3DKMT_GETDEVICESTATE state{};
    state.hDevice = client.device;
    state.StateType = D3DKMT_DEVICESTATE_EXECUTION;
    EXPECT_EQ(far.call("D3DKMTGetDeviceState", state), 0);
    EXPECT_EQ(submitted(stack), 1U);
  });
}

TEST_F(WireEarlyAnswerTest, AClientThatLeavesAtOnceLosesNothing) {
  with_client([](Stack& stack, Client& client) {
    {
      Elsewhere far(client);
      far.let_answer_early();
      D3DKMT_CREATECONTEXT context = make_context(far, client);
      EXPECT_EQ(render(far, context), 1U);
      EXPECT_EQ(submitted(stack), 0U);
    }
    EXPECT_EQ(submitted(stack), 1U);
  });
}

TEST_F(WireEarlyAnswerTest, OthersSelectThePacketMeanwhile) {
  with_client([](Stack& stack, Client& client) {
    Elsewhere far(client), beside(client);
    far.let_answer_early();
    D3DKMT_CREATECONTEXT context = make_context(far, client);
    D3DKMT_CREATECONTEXT other = make_context(beside, client);
    EXPECT_EQ(render(far, context), 1U);
    EXPECT_EQ(render(beside, other), 1U);
    EXPECT_GE(submitted(stack), 1U);
    stack.drive();
    EXPECT_EQ(submitted(stack), 2U) << "without a word of who queued the first";
  });
}

}  // namespace
}  // namespace dxgkit::contract
