// New descriptors for a process that may make none: the two ends of the connection.
#include "tools/dxgkit/serve/supply.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "base/new_descriptors.h"
#include "base/sealed_memory.h"
#include "runtime/descriptors.h"
#include "tools/dxgkit/serve/jail.h"

namespace dxgkit::serve {
namespace {

class SupplyTest : public testing::Test {
 protected:
  SupplyTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_), 0); }
  ~SupplyTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  /// Runs `body` in a jailed process, and answers it. Its exit code.
  int supplied(const std::function<int()>& body, uint64_t bytes_most = 1 << 20) {
    const pid_t child = fork();
    if (child == 0) {
      close(ends_[0]);
      const auto runtime = runtime::make_os_runtime(1);
      int code = 99;
      runtime->run_main([&] {
        if (!renounce_privileges().has_value() || !close_jail({}).has_value()) return;
        use_supply(*runtime, ends_[1]);
        code = body();
      });
      _exit(code);
    }
    close(ends_[1]);
    ends_[1] = -1;
    const auto runtime = runtime::make_os_runtime(1);
    runtime->run_main([&] {
      while (true) {
        runtime::DescriptorWait wait{.fd = ends_[0]};
        runtime::wait_for_descriptors(*runtime, {&wait, 1});
        last_ = answer_supply(ends_[0], bytes_most);
        if (last_ == SupplyState::kEnded || last_ == SupplyState::kNonsense) break;
      }
    });
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  }
  int ends_[2];
  SupplyState last_ = SupplyState::kNothing;
};

TEST_F(SupplyTest, AJailedProcessGetsEachKind) {
  EXPECT_EQ(
      supplied([] {
        for (const NewDescriptors kind :
             {NewDescriptors::kMemory, NewDescriptors::kPipe, NewDescriptors::kSocketPair,
              NewDescriptors::kPoller, NewDescriptors::kEvent, NewDescriptors::kSealableMemory}) {
          int made[2] = {-1, -1};
          if (!make_descriptors(kind, 8192, made)) return 1;
          struct stat status {};
          for (int i = 0; i < count_of(kind); ++i) {
            if (!descriptor_status(made[i], &status)) return 2;
            if (fcntl(made[i], F_GETFD) != FD_CLOEXEC) return 3;
          }
          if (kind == NewDescriptors::kMemory && status.st_size != 8192) return 4;
          if (kind == NewDescriptors::kPipe) {
            char byte = 'x';
            if (write(made[1], &byte, 1) != 1 || read(made[0], &byte, 1) != 1) return 5;
          }
        }
        return 0;
      }),
      0);
}

TEST_F(SupplyTest, ManyThreadsAskAtOnce) {
  EXPECT_EQ(
      supplied([] {
        std::vector<std::unique_ptr<runtime::Thread>> threads;
        std::atomic<int> wrong{0};
        for (int i = 0; i < 4; ++i) {
          threads.push_back(runtime::Runtime::current().spawn("asks", [&wrong, i] {
            for (int round = 0; round < 50; ++round) {
              const auto bytes = static_cast<uint64_t>(i + 1) * 4096;
              const int fd = create_sealed_memory("test", bytes);
              struct stat status {};
              if (!descriptor_status(fd, &status) || static_cast<uint64_t>(status.st_size) != bytes)
                ++wrong;
              close(fd);
            }
          }));
        }
        for (const auto& thread : threads) thread->join();
        return wrong.load();
      }),
      0);
}

TEST_F(SupplyTest, MoreMemoryThanIsAllowedIsRefused) {
  EXPECT_EQ(supplied(
                [] {
                  int fd = -1;
                  if (make_descriptors(NewDescriptors::kMemory, 8193, &fd) || errno != ENOMEM)
                    return 1;
                  if (make_descriptors(NewDescriptors::kMemory, 0, &fd) || errno != ENOMEM)
                    return 2;
                  if (make_descriptors(NewDescriptors::kSealableMemory, UINT64_MAX, &fd)) return 3;
                  return make_descriptors(NewDescriptors::kMemory, 8192, &fd) ? 0 : 4;
                },
                8192),
            0);
}

TEST_F(SupplyTest, NoKindIsRefused) {
  EXPECT_EQ(supplied([] {
              int fd = -1;
              return make_descriptors(static_cast<NewDescriptors>(77), 1, &fd) ? 1 : errno;
            }),
            EINVAL);
}

TEST_F(SupplyTest, OtherMessagesAreNonsense) {
  for (const size_t size : {size_t{1}, size_t{15}, size_t{17}, size_t{5000}}) {
    const std::string text(size, 'x');
    ASSERT_EQ(send(ends_[1], text.data(), size, 0), static_cast<ssize_t>(size));
    EXPECT_EQ(answer_supply(ends_[0], 1), SupplyState::kNonsense) << size;
  }
  EXPECT_EQ(answer_supply(ends_[0], 1), SupplyState::kNothing);
}

TEST_F(SupplyTest, WithoutABrokerThereIsNone) {
  close(ends_[0]);
  ends_[0] = -1;
  const auto runtime = runtime::make_os_runtime(1);
  runtime->run_main([&] {
    use_supply(*runtime, ends_[1]);
    int fd = -1;
    EXPECT_FALSE(make_descriptors(NewDescriptors::kEvent, 0, &fd));
    EXPECT_EQ(errno, EPIPE);
    set_descriptor_supplier(nullptr);
  });
}

}  // namespace
}  // namespace dxgkit::serve
