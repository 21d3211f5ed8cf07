#include "port/ddi/clock.h"

#include <cstring>

#include "nt/paged.h"
#include "port/core/ddi_call.h"
#include "port/core/port_core.h"
#include "port/ddi/unwritten.h"

namespace dxgkit::port {
namespace {

constexpr DdiInfo kCalibrate{"DxgkDdiCalibrateGpuClock", nt::kDispatchLevel, DdiClass::kLevelZero};

}  // namespace

Result<GpuClock> ClockPort::calibrate(NodeOrdinal node) {
  DXGKIT_RETURN_ERROR_IF_FAILED(
      callable(core_, kInterfaceWddm13, core_.ddi.DxgkDdiCalibrateGpuClock));
  DXGKARG_CALIBRATEGPUCLOCK clock;
  std::memset(&clock, std::to_integer<int>(core_.output_fill), sizeof clock);
  clock.Flags.Value = 0;
  Status status = Status::kSuccess;
  {
    nt::at_level(core_.kernel, kCalibrate.irql);  // IRQL-13
    DdiCall call(core_, kCalibrate, 0, static_cast<uint16_t>(node.value));
    status = call(core_.ddi.DxgkDdiCalibrateGpuClock, core_.context, node.value, UINT32{0}, &clock);
  }
  if (!is_success(status)) return Error(status);
  UINT64 frequency = clock.GpuFrequency, gpu = clock.GpuClockCounter, cpu = clock.CpuClockCounter;
  if (core_.output_fill != std::byte{0}) [[unlikely]] {
    UnwrittenMembers unwritten(core_.output_fill);
    unwritten.look("GpuFrequency", &frequency);
    unwritten.look("GpuClockCounter", &gpu);
    unwritten.look("CpuClockCounter", &cpu);
    unwritten.report(core_, kCalibrate.name, "DXGKARG_CALIBRATEGPUCLOCK");
  }
  return GpuClock{.frequency_hz = frequency,
                  .gpu_counter = gpu,
                  .cpu_counter = cpu,
                  .flags = clock.Flags.Value};
}

}  // namespace dxgkit::port
