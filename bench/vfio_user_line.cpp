// vfio_user.: a register of a device behind a socket.
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/check.h"
#include "bench/harness.h"
#include "bus/device.h"
#include "bus/machine.h"
#include "devices/softgpu/device.h"
#include "devices/softgpu/softgpu_hw.h"
#include "devices/vfiouser/protocol.h"
#include "devices/vfiouser/remote_device.h"
#include "devices/vfiouser/server.h"

namespace dxgkit::bench {
namespace {

constexpr uint32_t kReads = 64;
constexpr size_t kRequestBytes = vfiouser::kHeaderBytes + vfiouser::RegionAccess::kBytes;
constexpr size_t kReplyBytes = kRequestBytes + sizeof(uint32_t);

std::array<int, 2> socket_pair() {
  std::array<int, 2> ends{};
  DXGKIT_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  return ends;
}

/// softgpu behind a socket, whose server is a thread on the second core.
class RemoteRegister {
 public:
  explicit RemoteRegister(runtime::Runtime& os) : machine_(16 << 20) {
    const std::array<int, 2> ends = socket_pair();
    server_ = os.spawn("bench server", [&os, end = ends[1]] {
      use_second_core();
      bus::DeviceRegistry registry;
      registry.add(softgpu::device_type());
      const auto served = vfiouser::serve_client(os, *registry.parse("softgpu,vram=1M"),
                                                 vfiouser::Descriptor(end), {});
      DXGKIT_CHECK(served.has_value());
    });
    auto device = vfiouser::make_remote_device({os, machine_}, vfiouser::Descriptor(ends[0]), {});
    DXGKIT_CHECK(device.has_value());
    device_ = std::move(*device);
    DXGKIT_CHECK(is_success(bus::plug_in(machine_, *device_)));
    registers_ = static_cast<std::byte*>(
        machine_.map_io(device_->functions()[0]->bars()[SGPU_BAR_REGISTERS].base, 4096));
  }
  ~RemoteRegister() {
    device_.reset();
    server_->join();
  }
  RemoteRegister(const RemoteRegister&) = delete;
  RemoteRegister& operator=(const RemoteRegister&) = delete;
  void read(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
      DXGKIT_CHECK(machine_.read_register(registers_ + SGPU_REG_ID, 4) == SGPU_ID_VALUE);
  }

 private:
  bus::Machine machine_;
  std::unique_ptr<runtime::Thread> server_;
  std::unique_ptr<bus::Device> device_;
  std::byte* registers_ = nullptr;
};

void move_all(int socket, bool out, void* bytes, size_t count) {
  const ssize_t moved =
      out ? send(socket, bytes, count, MSG_NOSIGNAL) : recv(socket, bytes, count, MSG_WAITALL);
  DXGKIT_CHECK(moved == static_cast<ssize_t>(count) || (moved == 0 && !out));
}

/// The same bytes to and fro between two threads that do nothing else with them.
class PingPong {
 public:
  explicit PingPong(runtime::Runtime& os) : ends_(socket_pair()) {
    other_ = os.spawn("bench pong", [this] {
      use_second_core();
      std::array<std::byte, kReplyBytes> bytes{};
      while (recv(ends_[1], bytes.data(), kRequestBytes, MSG_WAITALL) > 0)
        move_all(ends_[1], /*out=*/true, bytes.data(), kReplyBytes);
    });
  }
  ~PingPong() {
    shutdown(ends_[0], SHUT_RDWR);
    other_->join();
    for (const int end : ends_) close(end);
  }
  PingPong(const PingPong&) = delete;
  PingPong& operator=(const PingPong&) = delete;
  void round_trips(uint32_t count) {
    std::array<std::byte, kReplyBytes> bytes{};
    for (uint32_t i = 0; i < count; ++i) {
      move_all(ends_[0], /*out=*/true, bytes.data(), kRequestBytes);
      move_all(ends_[0], /*out=*/false, bytes.data(), kReplyBytes);
    }
  }

 private:
  const std::array<int, 2> ends_;
  std::unique_ptr<runtime::Thread> other_;
};

Line register_line(runtime::Runtime& os, const char* name) {
  struct Fixture {
    explicit Fixture(runtime::Runtime& runtime) : remote(runtime), bare(runtime) {}
    RemoteRegister remote;
    PingPong bare;
  };
  const auto fixture = std::make_shared<Fixture>(os);
  Line line;
  line.name = name;
  line.what = "read a register of a device behind a socket / a bare ping-pong of the same bytes";
  line.unit = Unit::kNanoseconds;
  line.goal = Goal::kAtMost;
  line.target = 2;
  line.fixture = fixture;
  line.ours.warm = [fixture] { fixture->remote.read(1); };
  line.ours.batch = [fixture] { fixture->remote.read(kReads); };
  line.ours.operations = kReads;
  Side reference;
  reference.warm = [fixture] { fixture->bare.round_trips(1); };
  reference.batch = [fixture] { fixture->bare.round_trips(kReads); };
  reference.operations = kReads;
  line.reference = std::move(reference);
  return line;
}

}  // namespace

void add_vfio_user_line(runtime::Runtime& os, std::vector<Maker>& lines) {
  const char* const name = "vfio_user.register_read";
  lines.push_back({name, [&os, name] { return register_line(os, name); }});
}

}  // namespace dxgkit::bench
