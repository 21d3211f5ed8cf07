// The renderer: a process that answers the device's questions with libvirglrenderer. It has one
// thread of its own, as a GL context belongs to one thread. See renderer_protocol.h.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "base/arithmetic.h"
#include "devices/virtiogpu/renderer_protocol.h"

extern "C" {
#include <virgl/virglrenderer.h>
// The library declares it only.
struct virgl_box {
  uint32_t x, y, z, w, h, d;
};
}

namespace dxgkit::virtiogpu {
namespace {

constexpr int kFlags = VIRGL_RENDERER_USE_EGL | VIRGL_RENDERER_USE_SURFACELESS |
                       VIRGL_RENDERER_USE_GLES | VIRGL_RENDERER_THREAD_SYNC;
constexpr uint32_t kCapsetIdsTried = 8;
[[maybe_unused]] constexpr rlim_t kOwnBytes = rlim_t{2}
                                              << 30;  // of the libraries, beside resources
constexpr rlim_t kFilesMost = 256;

/// Ends: the device sees the end of the connection.
[[noreturn]] void leave(int code) { _exit(code); }

class Server {
 public:
  int run() {
    struct stat status {};
    if (fstat(kRendererMemory, &status) != 0) return 1;
    memory_ = map(kRendererMemory, static_cast<uint64_t>(status.st_size));
    mailbox_ = map(kRendererMailbox, kMailboxBytes);
    while (true) {
      Question question;
      const ssize_t got = recv(kRendererSocket, &question, sizeof question, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got == 0) return 0;
      if (got != static_cast<ssize_t>(sizeof question)) return 1;
      if (question.bytes > kMailboxBytes) return 1;
      Answer answer;
      answer.sequence = question.sequence;
      answer.error = static_cast<uint32_t>(carry_out(question, &answer.bytes));
      if (send(kRendererSocket, &answer, sizeof answer, MSG_NOSIGNAL) !=
          static_cast<ssize_t>(sizeof answer))
        return 1;
    }
  }

 private:
  static std::span<std::byte> map(int fd, uint64_t bytes) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) leave(1);
    return {static_cast<std::byte*>(at), bytes};
  }

  /// 0 or errno.
  int carry_out(const Question& question, uint32_t* bytes) {
    const int context = static_cast<int>(question.context);
    const int resource = static_cast<int>(question.resource);
    switch (question.ask) {
      case Ask::kStart:
        return start(question, bytes);
      case Ask::kCapset:
        return capset(question, bytes);
      case Ask::kCreateContext:
        return virgl_renderer_context_create_with_flags(
            question.context, question.number == 0 ? 1 : question.number, question.bytes,
            reinterpret_cast<const char*>(mailbox_.data()));
      case Ask::kDestroyContext:
        virgl_renderer_context_destroy(question.context);
        return 0;
      case Ask::kAttach:
        virgl_renderer_ctx_attach_resource(context, resource);
        return 0;
      case Ask::kDetach:
        virgl_renderer_ctx_detach_resource(context, resource);
        return 0;
      case Ask::kCreateResource:
        return create(question);
      case Ask::kUnref:
        detach_backing(resource);
        virgl_renderer_resource_unref(question.resource);
        return 0;
      case Ask::kAttachBacking:
        return attach_backing(question);
      case Ask::kDetachBacking:
        detach_backing(resource);
        return 0;
      case Ask::kToHost:
      case Ask::kFromHost:
        return transfer(question);
      case Ask::kSubmit:
        return virgl_renderer_submit_cmd(mailbox_.data(), context,
                                         static_cast<int>(question.bytes / sizeof(uint32_t)));
      case Ask::kFinish:
        return finish();
      case Ask::kRead:
        return read(question, bytes);
    }
    return ENOSYS;
  }

  int start(const Question& question, uint32_t* bytes) {
    limit_memory(question.number);
    static virgl_renderer_callbacks callbacks{};
    callbacks.version = 2;
    callbacks.write_fence = [](void* cookie, uint32_t fence) {
      static_cast<Server*>(cookie)->done_ = fence;
    };
    if (virgl_renderer_init(this, kFlags, &callbacks) != 0) return ENODEV;
    std::vector<Capset> capsets;
    for (uint32_t id = 1; id < kCapsetIdsTried && capsets.size() < kCapsetsMost; ++id) {
      Capset set{.id = id};
      virgl_renderer_get_cap_set(id, &set.version_most, &set.bytes_most);
      // Those without a version belong to renderers that were not asked for.
      if (set.version_most != 0 && set.bytes_most != 0) capsets.push_back(set);
    }
    if (capsets.empty()) return ENODEV;
    *bytes = static_cast<uint32_t>(capsets.size() * sizeof(Capset));
    std::memcpy(mailbox_.data(), capsets.data(), *bytes);
    return 0;
  }

  static void limit_memory([[maybe_unused]] rlim_t mebibytes) {
#ifdef DXGKIT_LIMIT_MEMORY
    const rlim_t data = (mebibytes << 20) + kOwnBytes;
    const rlimit limit{data, data};
    setrlimit(RLIMIT_DATA, &limit);
#endif
  }

  int capset(const Question& question, uint32_t* bytes) {
    uint32_t version = 0, size = 0;
    virgl_renderer_get_cap_set(question.number, &version, &size);
    if (size == 0 || size > kCapsetBytesMost) return EINVAL;
    std::memset(mailbox_.data(), 0, size);
    virgl_renderer_fill_caps(question.number, question.level, mailbox_.data());
    *bytes = size;
    return 0;
  }

  static int create(const Question& question) {
    const Shape& shape = question.shape;
    virgl_renderer_resource_create_args arguments{};
    arguments.handle = question.resource;
    arguments.target = shape.target;
    arguments.format = shape.format;
    arguments.bind = shape.bind;
    arguments.width = shape.width;
    arguments.height = shape.height;
    arguments.depth = shape.depth;
    arguments.array_size = shape.array_size;
    arguments.last_level = shape.last_level;
    arguments.nr_samples = shape.samples;
    arguments.flags = shape.flags;
    return virgl_renderer_resource_create(&arguments, nullptr, 0);
  }

  int attach_backing(const Question& question) {
    std::vector<MemoryRange> ranges(question.bytes / sizeof(MemoryRange));
    std::memcpy(ranges.data(), mailbox_.data(), ranges.size() * sizeof(MemoryRange));
    std::vector<iovec> pieces;
    for (const MemoryRange& range : ranges) {
      if (!range_within(range.offset, range.bytes, memory_.size())) return EINVAL;
      pieces.push_back({memory_.data() + range.offset, range.bytes});
    }
    // The library keeps the pointer.
    std::vector<iovec>& kept = backing_[static_cast<int>(question.resource)];
    kept = std::move(pieces);
    const int error = virgl_renderer_resource_attach_iov(
        static_cast<int>(question.resource), kept.data(), static_cast<int>(kept.size()));
    if (error != 0) backing_.erase(static_cast<int>(question.resource));
    return error;
  }

  void detach_backing(int resource) {
    if (!backing_.contains(resource)) return;
    iovec* pieces = nullptr;
    int count = 0;
    virgl_renderer_resource_detach_iov(resource, &pieces, &count);
    backing_.erase(resource);
  }

  static int transfer(const Question& question) {
    const Box& from = question.box;
    virgl_box box{from.x, from.y, from.z, from.width, from.height, from.depth};
    if (question.ask == Ask::kToHost)
      return virgl_renderer_transfer_write_iov(
          question.resource, question.context, static_cast<int>(question.level), question.stride,
          question.layer_stride, &box, question.offset, nullptr, 0);
    return virgl_renderer_transfer_read_iov(question.resource, question.context, question.level,
                                            question.stride, question.layer_stride, &box,
                                            question.offset, nullptr, 0);
  }

  int read(const Question& question, uint32_t* bytes) {
    const Box& from = question.box;
    const uint64_t wanted = uint64_t{question.stride} * from.height;
    if (wanted > mailbox_.size()) return EINVAL;
    virgl_box box{from.x, from.y, from.z, from.width, from.height, from.depth};
    iovec piece{mailbox_.data(), wanted};
    const int error = virgl_renderer_transfer_read_iov(question.resource, 0, 0, question.stride, 0,
                                                       &box, 0, &piece, 1);
    if (error == 0) *bytes = static_cast<uint32_t>(wanted);
    return error;
  }

  int finish() {
    const int fence = static_cast<int>(++fences_);
    if (const int error = virgl_renderer_create_fence(fence, 0); error != 0) return error;
    while (done_ != fences_) {
      pollfd waits[] = {{.fd = virgl_renderer_get_poll_fd(), .events = POLLIN, .revents = 0},
                        {.fd = kRendererSocket, .events = 0, .revents = 0}};
      // Without a descriptor to wait for, a look every millisecond. The end of the connection ends
      // the wait, too.
      poll(waits, 2, waits[0].fd >= 0 ? -1 : 1);
      if (waits[1].revents != 0) leave(0);
      virgl_renderer_poll();
    }
    return 0;
  }

  std::span<std::byte> memory_, mailbox_;
  std::map<int, std::vector<iovec>> backing_;
  uint32_t fences_ = 0, done_ = 0;
};

}  // namespace
}  // namespace dxgkit::virtiogpu

int main() {
  // When the device's end of the pipe closes, SIGIO ends this process, whatever it is doing.
  fcntl(dxgkit::virtiogpu::kRendererLife, F_SETOWN, getpid());
  fcntl(dxgkit::virtiogpu::kRendererLife, F_SETFL, O_ASYNC);
  pollfd life{.fd = dxgkit::virtiogpu::kRendererLife, .events = 0, .revents = 0};
  if (poll(&life, 1, 0) != 0) return 1;  // it is closed already, or was never there
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const rlimit files{dxgkit::virtiogpu::kFilesMost, dxgkit::virtiogpu::kFilesMost};
  setrlimit(RLIMIT_NOFILE, &files);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  setrlimit(RLIMIT_FSIZE, &none);
  // The pictures are to be the same on every computer. A driver that leads back to us would wait
  // for itself.
  setenv("LIBGL_ALWAYS_SOFTWARE", "1", 1);
  setenv("GALLIUM_DRIVER", "llvmpipe", 1);
  setenv("MESA_SHADER_CACHE_DISABLE", "1", 1);
  return dxgkit::virtiogpu::Server().run();
}
