#include "bus/page_apart.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bus/machine.h"

namespace dxgkit::bus {
namespace {

TEST(PageApart, IsOnePageThatOthersOnlyRead) {
  Machine machine(64 * kPageBytes);
  const PageFrame page = *machine.allocate_contiguous(1);
  const PhysicalAddress address{page.value * kPageBytes};
  std::byte* const memory = machine.system_pointer(address, kPageBytes);
  std::memcpy(memory, "before", 7);
  PageApart::allow();
  auto apart = PageApart::make(machine, page);
  ASSERT_NE(apart, nullptr);
  EXPECT_STREQ(reinterpret_cast<const char*>(memory), "before");
  const MemoryWindow window = apart->window();
  struct stat status {};
  ASSERT_EQ(fstat(window.fd, &status), 0);
  EXPECT_EQ(status.st_size, 4096);  // nothing else is in it
  void* const seen = mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, window.fd, 0);
  ASSERT_NE(seen, MAP_FAILED);
  // Devices and the machine write to the page that others see.
  const char text[] = "by a device";
  EXPECT_TRUE(machine.dma_write(address, std::as_bytes(std::span(text))));
  EXPECT_STREQ(static_cast<const char*>(seen), "by a device");
  errno = 0;
  EXPECT_EQ(mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, window.fd, 0),
            MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(mprotect(seen, kPageBytes, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(pwrite(window.fd, "x", 1, 0), -1);
  EXPECT_EQ(ftruncate(window.fd, 0), -1);
  // A view of it works, read-only.
  const auto view = *CpuView::create(kPageBytes);
  EXPECT_EQ(view->retarget(std::span(&window, 1)), Status::kSuccess);
  EXPECT_STREQ(static_cast<const char*>(view->address()), "by a device");
  // Afterwards the machine has its page back, and others see no more of it.
  apart.reset();
  std::memcpy(memory, "after", 6);
  EXPECT_STREQ(static_cast<const char*>(seen), "by a device");
  munmap(seen, kPageBytes);
  machine.free_contiguous(page, 1);
  EXPECT_EQ(machine.free_page_count(), 64U);
}

}  // namespace
}  // namespace dxgkit::bus
