// Locks of clients in other processes: what they are given by descriptor, and what is copied.
#include <unistd.h>

#include <memory>
#include <string>

#include "dxgk/core/client_memory.h"
#include "dxgk/core/process.h"
#include "dxgk/work/device.h"
#include "tests/contract/lock_fixture.h"

namespace dxgkit::contract {
namespace {

class LockGivenTest : public ContractTest {};

// Content is given where it lies in system pages of its process alone, and the lock shows those.
TEST_F(LockGivenTest, ContentInSystemPagesIsGivenAndOtherContentIsNot) {
  DXGKIT_COVERS("ALLOC-41");
  constexpr uint32_t kPermanent = 1U << 1 | kCpuVisible;
  struct Row {
    const char* where;
    uint32_t segments, flags;
    bool used;  // by a packet, so that it is in the segment
    UINT lock;
    bool given, by_range;
  };
  const Row rows[] = {
      {"nowhere yet", kVisible, kCpuVisible, false, 0, true, false},
      {"in a memory segment", kVisible, kCpuVisible, true, 0, false, false},
      {"a copy is in a memory segment", kHidden, kPermanent, true, 0, true, false},
      {"in an aperture segment", kAperture, kCpuVisible, true, 0, true, false},
      {"behind a range of a memory segment", kVisible | kAperture, kCpuVisible, true,
       kAcquireAperture, false, true},
      {"behind a range of an aperture segment", kHidden | kAperture, kCpuVisible, true,
       kAcquireAperture | kUseAlternateVa, false, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.where);
    with_client(
        [&row](Stack& stack, Client& client) {
          Swizzler swizzler(stack);
          client.process->set_client_memory(std::make_shared<dxgk::ClientMemory>(stack.machine));
          ContextBuffers context = client.make_context();
          const D3DKMT_HANDLE first = client.make_allocation(described(kVisible));
          ScriptedAllocation description = described(row.segments, row.flags);
          if (row.segments == (kHidden | kAperture)) description.preferred = 3;
          const D3DKMT_HANDLE handle = client.make_allocation(description);
          if (row.used) {
            ASSERT_EQ(client.render(context, work_on({handle})), 0);
            stack.drive();
          }
          const auto give = [&] {
            const auto device = client.process->handles().find<dxgk::Device>(client.device);
            auto given = (*device)->locks().give(handle);
            if (given.has_value()) close(given->part.window.fd);
            return given;
          };
          EXPECT_FALSE(give().has_value()) << "nobody has locked it";
          D3DKMT_LOCK args = lock_args(handle, row.lock);
          ASSERT_EQ(lock(client, args), 0);
          EXPECT_EQ(swizzler.acquired.size(), row.by_range ? 1U : 0U);
          const auto given = give();
          EXPECT_EQ(given.has_value(), row.given);
          if (given.has_value()) {
            EXPECT_EQ(given->original, handle);
            EXPECT_EQ(given->resource, 0U);
            EXPECT_EQ(given->part.window.size, 16 * kKibibyte);
          }
          EXPECT_EQ(unlock(client, {handle}), 0);
          EXPECT_FALSE(give().has_value());
          EXPECT_EQ(client.destroy_allocation(first), 0);
          EXPECT_EQ(stack.rules(), std::vector<std::string>{});
        },
        Swizzler::prepare);
  }
}

}  // namespace
}  // namespace dxgkit::contract
