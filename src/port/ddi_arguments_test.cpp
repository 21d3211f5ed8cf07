// Each word of each structure a driver is given: from calls whose members are all different, at
// interface versions on both sides of every member that not all of them have.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <sstream>

#include "port/every_ddi_test.h"
#include "verifier/situations.h"

namespace dxgkit::port {
namespace {

using namespace every_ddi;

/// The structure an entry is given; of those with none, nothing is looked at.
const std::map<std::string_view, size_t> kSizes = {
    {"DxgkDdiAcquireSwizzlingRange", sizeof(DXGKARG_ACQUIRESWIZZLINGRANGE)},
    {"DxgkDdiBuildPagingBuffer", sizeof(DXGKARG_BUILDPAGINGBUFFER)},
    {"DxgkDdiCancelCommand", sizeof(DXGKARG_CANCELCOMMAND)},
    {"DxgkDdiCloseAllocation", sizeof(DXGKARG_CLOSEALLOCATION)},
    {"DxgkDdiCloseNativeFence", sizeof(DXGKARG_CLOSENATIVEFENCE)},
    {"DxgkDdiCollectDbgInfo", sizeof(DXGKARG_COLLECTDBGINFO)},
    {"DxgkDdiCollectDbgInfo2", sizeof(DXGKARG_COLLECTDBGINFO2)},
    {"DxgkDdiCollectDiagnosticInfo", sizeof(DXGKARG_COLLECTDIAGNOSTICINFO)},
    {"DxgkDdiCommitVidPn", sizeof(DXGKARG_COMMITVIDPN)},
    {"DxgkDdiControlDiagnosticReporting", sizeof(DXGKARG_CONTROLDIAGNOSTICREPORTING)},
    {"DxgkDdiControlInterrupt2", 0},  // comes in a register, as its second argument
    {"DxgkDdiControlInterrupt3", sizeof(DXGKARG_CONTROLINTERRUPT3)},
    {"DxgkDdiCreateAllocation", sizeof(DXGKARG_CREATEALLOCATION)},
    {"DxgkDdiCreateContext", sizeof(DXGKARG_CREATECONTEXT)},
    {"DxgkDdiCreateCpuEvent", sizeof(DXGKARG_CREATECPUEVENT)},
    {"DxgkDdiCreateDevice", sizeof(DXGKARG_CREATEDEVICE)},
    {"DxgkDdiCreateHwContext", sizeof(DXGKARG_CREATEHWCONTEXT)},
    {"DxgkDdiCreateHwQueue", sizeof(DXGKARG_CREATEHWQUEUE)},
    {"DxgkDdiCreateNativeFence", sizeof(DXGKARG_CREATENATIVEFENCE)},
    {"DxgkDdiCreateOverlay", sizeof(DXGKARG_CREATEOVERLAY)},
    {"DxgkDdiCreateProcess", sizeof(DXGKARG_CREATEPROCESS)},
    {"DxgkDdiCreateProtectedSession", sizeof(DXGKARG_CREATEPROTECTEDSESSION)},
    {"DxgkDdiDescribeAllocation", sizeof(DXGKARG_DESCRIBEALLOCATION)},
    {"DxgkDdiDestroyAllocation", sizeof(DXGKARG_DESTROYALLOCATION)},
    {"DxgkDdiDestroyNativeFence", sizeof(DXGKARG_DESTROYNATIVEFENCE)},
    {"DxgkDdiDispatchIoRequest", sizeof(VIDEO_REQUEST_PACKET)},
    {"DxgkDdiDisplayDetectControl", sizeof(DXGKARG_DISPLAYDETECTCONTROL)},
    {"DxgkDdiEnumVidPnCofuncModality", sizeof(DXGKARG_ENUMVIDPNCOFUNCMODALITY)},
    {"DxgkDdiEscape", sizeof(DXGKARG_ESCAPE)},
    {"DxgkDdiFlipOverlay", sizeof(DXGKARG_FLIPOVERLAY)},
    {"DxgkDdiGetRootPageTableSize", sizeof(DXGKARG_GETROOTPAGETABLESIZE)},
    {"DxgkDdiGetScanLine", sizeof(DXGKARG_GETSCANLINE)},
    {"DxgkDdiGetStandardAllocationDriverData", sizeof(DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA)},
    {"DxgkDdiIsSupportedVidPn", sizeof(DXGKARG_ISSUPPORTEDVIDPN)},
    {"DxgkDdiMapCpuHostAperture", sizeof(DXGKARG_MAPCPUHOSTAPERTURE)},
    {"DxgkDdiOpenAllocation", sizeof(DXGKARG_OPENALLOCATION)},
    {"DxgkDdiOpenNativeFence", sizeof(DXGKARG_OPENNATIVEFENCE)},
    {"DxgkDdiPatch", sizeof(DXGKARG_PATCH)},
    {"DxgkDdiPreemptCommand", sizeof(DXGKARG_PREEMPTCOMMAND)},
    {"DxgkDdiPresent", sizeof(DXGKARG_PRESENT)},
    {"DxgkDdiPresentDisplayOnly", sizeof(DXGKARG_PRESENT_DISPLAYONLY)},
    {"DxgkDdiQueryAdapterInfo", sizeof(DXGKARG_QUERYADAPTERINFO)},
    {"DxgkDdiQueryChildStatus", sizeof(DXGK_CHILD_STATUS)},
    {"DxgkDdiQueryCurrentFence", sizeof(DXGKARG_QUERYCURRENTFENCE)},
    {"DxgkDdiQueryDependentEngineGroup", sizeof(DXGKARG_QUERYDEPENDENTENGINEGROUP)},
    {"DxgkDdiQueryDeviceDescriptor", sizeof(DXGK_DEVICE_DESCRIPTOR)},
    {"DxgkDdiQueryDiagnosticTypesSupport", sizeof(DXGKARG_QUERYDIAGNOSTICTYPESSUPPORT)},
    {"DxgkDdiQueryEngineStatus", sizeof(DXGKARG_QUERYENGINESTATUS)},
    {"DxgkDdiQueryVidPnHWCapability", sizeof(DXGKARG_QUERYVIDPNHWCAPABILITY)},
    {"DxgkDdiRecommendFunctionalVidPn", sizeof(DXGKARG_RECOMMENDFUNCTIONALVIDPN)},
    {"DxgkDdiRecommendMonitorModes", sizeof(DXGKARG_RECOMMENDMONITORMODES)},
    {"DxgkDdiReleaseSwizzlingRange", sizeof(DXGKARG_RELEASESWIZZLINGRANGE)},
    {"DxgkDdiRender", sizeof(DXGKARG_RENDER)},
    {"DxgkDdiRenderKm", sizeof(DXGKARG_RENDER)},
    {"DxgkDdiResetEngine", sizeof(DXGKARG_RESETENGINE)},
    {"DxgkDdiResetHwEngine", sizeof(DXGKARG_RESETHWENGINE)},
    {"DxgkDdiResumeContext", sizeof(DXGKARG_RESUMECONTEXT)},
    {"DxgkDdiResumeHwEngine", sizeof(DXGKARG_RESUMEHWENGINE)},
    {"DxgkDdiSetContextSchedulingProperties", sizeof(DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES)},
    {"DxgkDdiSetDisplayPrivateDriverFormat", sizeof(DXGKARG_SETDISPLAYPRIVATEDRIVERFORMAT)},
    {"DxgkDdiSetPointerPosition", sizeof(DXGKARG_SETPOINTERPOSITION)},
    {"DxgkDdiSetPointerShape", sizeof(DXGKARG_SETPOINTERSHAPE)},
    {"DxgkDdiSetRootPageTable", sizeof(DXGKARG_SETROOTPAGETABLE)},
    {"DxgkDdiSetTargetAnalogCopyProtection", sizeof(DXGKARG_SETTARGETANALOGCOPYPROTECTION)},
    {"DxgkDdiSetTargetContentType", sizeof(DXGKARG_SETTARGETCONTENTTYPE)},
    {"DxgkDdiSetTargetGamma", sizeof(DXGKARG_SETTARGETGAMMA)},
    {"DxgkDdiSetTimingsFromVidPn", sizeof(DXGKARG_SETTIMINGSFROMVIDPN)},
    {"DxgkDdiSetVidPnSourceAddress", sizeof(DXGKARG_SETVIDPNSOURCEADDRESS)},
    {"DxgkDdiSetVidPnSourceVisibility", sizeof(DXGKARG_SETVIDPNSOURCEVISIBILITY)},
    {"DxgkDdiSetupPriorityBands", sizeof(DXGKARG_SETUPPRIORITYBANDS)},
    {"DxgkDdiSubmitCommand", sizeof(DXGKARG_SUBMITCOMMAND)},
    {"DxgkDdiSubmitCommandToHwQueue", sizeof(DXGKARG_SUBMITCOMMANDTOHWQUEUE)},
    {"DxgkDdiSubmitCommandVirtual", sizeof(DXGKARG_SUBMITCOMMANDVIRTUAL)},
    {"DxgkDdiSuspendContext", sizeof(DXGKARG_SUSPENDCONTEXT)},
    {"DxgkDdiUnmapCpuHostAperture", sizeof(DXGKARG_UNMAPCPUHOSTAPERTURE)},
    {"DxgkDdiUpdateActiveVidPnPresentPath", sizeof(DXGKARG_UPDATEACTIVEVIDPNPRESENTPATH)},
    {"DxgkDdiUpdateCurrentValuesFromCpu", sizeof(DXGKARG_UPDATECURRENTVALUESFROMCPU)},
    {"DxgkDdiUpdateMonitorLinkInfo", sizeof(DXGKARG_UPDATEMONITORLINKINFO)},
    {"DxgkDdiUpdateMonitoredValues", sizeof(DXGKARG_UPDATEMONITOREDVALUES)},
    {"DxgkDdiUpdateOverlay", sizeof(DXGKARG_UPDATEOVERLAY)},
    {"DxgkDdiValidateSubmitCommand", sizeof(DXGKARG_VALIDATESUBMITCOMMAND)},
    {"DxgkDdiValidateUpdateAllocationProperty", sizeof(DXGKARG_VALIDATEUPDATEALLOCPROPERTY)},
};

/// Which arguments are numbers of 32 bits that come in registers or on the stack.
const std::map<std::string_view, std::vector<size_t>> kNumbers = {
    {"DxgkDdiCalibrateGpuClock", {1, 2}},
    {"DxgkDdiDispatchIoRequest", {1}},
    {"DxgkDdiGetChildContainerId", {1}},
    {"DxgkDdiNotifyAcpiEvent", {1, 2}},
    {"DxgkDdiNotifySurpriseRemoval", {1}},
    {"DxgkDdiSetPowerComponentFState", {1, 2}},
    {"DxgkDdiSetPowerState", {1, 2, 3}},
    {"DxgkDdiSystemDisplayEnable", {1}},
    {"DxgkDdiSystemDisplayWrite", {2, 3, 4, 5, 6}},
};

/// The word without what differs from run to run: an address of this process.
std::string word_text(uint64_t word) {
  constexpr uint64_t kLowest = 0x2000'0000'0000, kHighest = 0x8000'0000'0000;
  return word >= kLowest && word < kHighest ? "*" : fmt::format("{:x}", word);
}

std::string structure_text(const std::byte* start, size_t bytes) {
  std::string text;
  for (size_t at = 0; at < bytes; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, start + at, std::min<size_t>(8, bytes - at));
    if (word != 0) text += fmt::format(" {:x}:{}", at, word_text(word));
  }
  return text;
}

/// The calls of the driver of `record` from now on, a line per call.
void write_down(std::string* lines) {
  record->look = [lines](std::string_view entry, const uint64_t* arguments) {
    *lines += entry;
    if (const auto numbers = kNumbers.find(entry); numbers != kNumbers.end()) {
      for (const size_t at : numbers->second)
        *lines += fmt::format(" {:x}", static_cast<uint32_t>(arguments[at]));
    }
    const auto known = kSizes.find(entry);
    if (known != kSizes.end() && known->second == 0) {
      *lines += fmt::format(" {:x}", arguments[1]);
    } else if (known != kSizes.end()) {
      // Arguments are on the caller's stack, above this frame.
      constexpr uint64_t kNear = 256 * 1024;
      const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
      const uint64_t* const found = std::find_if(
          arguments, arguments + 4, [&](uint64_t word) { return word - here < kNear; });
      if (found == arguments + 4) {
        ADD_FAILURE() << entry << " was given no structure";
      } else {
        *lines += structure_text(reinterpret_cast<const std::byte*>(*found), known->second);
        if (entry == "DxgkDdiSetTimingsFromVidPn") {
          const auto& timings = *reinterpret_cast<const DXGKARG_SETTIMINGSFROMVIDPN*>(*found);
          for (UINT i = 0; i < timings.PathCount; ++i) {
            *lines += fmt::format(" [{}]", i);
            *lines +=
                structure_text(reinterpret_cast<const std::byte*>(&timings.pSetTimingPathInfo[i]),
                               sizeof timings.pSetTimingPathInfo[i]);
          }
        }
      }
    }
    *lines += '\n';
  };
}

void* handle(uint64_t number) { return reinterpret_cast<void*>(number); }

/// Objects to point to; addresses do not matter.
struct Things {
  std::array<std::byte, 4096> bytes{};
  std::span<std::byte> some(size_t count) { return std::span(bytes).first(count); }
  std::span<std::byte> nothing() { return std::span(bytes).first(0); }
  DmaBufferView buffer() {
    return {.segment = SegmentId{3},
            .physical_address = 0x11'2233'4000,
            .cpu = bytes.data(),
            .size_bytes = 0x1100,
            .private_data = bytes.data(),
            .private_size_bytes = 0x220};
  }
  static constexpr Slice kSlice{
      .start = 0x10, .end = 0x130, .private_start = 5, .private_end = 0x40};
};

using Call = std::function<void(AdapterPort&)>;

std::vector<Call> object_calls(Things& things) {
  return {
      [](AdapterPort& p) { static_cast<void>(p.objects().create_process(0x41, false)); },
      [](AdapterPort& p) { static_cast<void>(p.objects().create_process(0x42, true)); },
      [](AdapterPort& p) {
        static_cast<void>(p.objects().create_device(0x43, false, handle(0x1001)));
      },
      [](AdapterPort& p) {
        static_cast<void>(p.objects().create_device(0x44, true, handle(0x1002)));
      },
      [&](AdapterPort& p) {
        static_cast<void>(p.objects().create_context(handle(0x1003), 0x45, NodeOrdinal{7}, 9, true,
                                                     things.some(0x21), false));
        static_cast<void>(p.objects().create_context(handle(0x1003), 0x46, NodeOrdinal{8}, 2, false,
                                                     things.nothing(), true));
      },
      [&](AdapterPort& p) {
        std::array<AllocationInfo, 3> infos;
        void* resource = handle(0x1004);
        static_cast<void>(
            p.allocations().create_allocations(infos, things.some(0x22), true, &resource));
        static_cast<void>(
            p.allocations().create_allocations(infos, things.nothing(), false, nullptr));
      },
      [](AdapterPort& p) {
        const std::array<void*, 2> handles = {handle(0x1005), handle(0x1006)};
        static_cast<void>(p.allocations().destroy_allocations(handles, handle(0x1007), true));
        static_cast<void>(p.allocations().destroy_allocations(handles, handle(0x1007), false));
        static_cast<void>(
            p.allocations().destroy_allocations(std::span(handles).first(0), handle(0x1008), true));
      },
      [&](AdapterPort& p) {
        std::array<OpenInfo, 2> infos;
        static_cast<void>(p.allocations().open_allocations(handle(0x1009), infos, things.some(0x23),
                                                           true, 1, false));
        static_cast<void>(p.allocations().open_allocations(handle(0x1009), infos, things.nothing(),
                                                           false, 1, true));
      },
      [](AdapterPort& p) {
        const std::array<void*, 2> handles = {handle(0x100A), handle(0x100B)};
        static_cast<void>(p.allocations().close_allocations(handle(0x100C), handles));
        static_cast<void>(p.allocations().close_allocations(handle(0x100C), {}));
      },
      [](AdapterPort& p) {
        static_cast<void>(p.allocations().validate_property_update(handle(0x100D), {}));
        static_cast<void>(p.allocations().validate_property_update(
            handle(0x100E),
            {.supported = 5, .preferred = 6, .accessed_physically = true, .unmoveable = false}));
        static_cast<void>(p.allocations().validate_property_update(
            handle(0x100E),
            {.supported = {}, .preferred = {}, .accessed_physically = false, .unmoveable = true}));
      },
      [](AdapterPort& p) {
        SwizzlingRange range{.allocation = handle(0x100F),
                             .private_data = 0x51,
                             .range = 3,
                             .segment = SegmentId{2},
                             .size_bytes = 0x7000,
                             .size_may_change = false,
                             .address = 0x9000};
        static_cast<void>(p.cpu_access().acquire_swizzling_range(&range));
        range.size_may_change = true;
        static_cast<void>(p.cpu_access().acquire_swizzling_range(&range));
        p.cpu_access().release_swizzling_range(handle(0x1010), 0x52, 4);
      },
      [](AdapterPort& p) {
        const std::array<uint32_t, 2> aperture = {2, 4};
        const std::array<uint64_t, 2> segment = {5, 6};
        static_cast<void>(
            p.cpu_access().map_cpu_host_aperture(handle(0x1011), SegmentId{3}, aperture, segment));
        static_cast<void>(p.cpu_access().unmap_cpu_host_aperture(SegmentId{4}, aperture));
      },
      [&](AdapterPort& p) {
        p.levels().enter_level_two();  // HardwareAccess
        static_cast<void>(p.objects().escape(handle(0x1012), handle(0x1013), 3, things.some(0x24)));
        static_cast<void>(p.objects().escape(handle(0x1012), nullptr, 1, things.nothing()));
        p.levels().leave_level_two();
      },
      [](AdapterPort& p) {
        static_cast<void>(p.allocations().describe_allocation(handle(0x1014)));
      },
      [](AdapterPort& p) {
        static_cast<void>(p.allocations().describe_shared_primary({.source = 1,
                                                                   .width = 640,
                                                                   .height = 480,
                                                                   .format = 21,
                                                                   .refresh_numerator = 75,
                                                                   .refresh_denominator = 2}));
        static_cast<void>(p.allocations().describe_existing_memory(0x3000));
      },
      [&](AdapterPort& p) {
        static_cast<void>(p.caps().query_umd_private(things.some(0x11), things.some(0x12)));
        static_cast<void>(p.caps().query_umd_private(things.nothing(), things.nothing()));
      },
      [](AdapterPort& p) {
        static_cast<void>(p.caps().query_early_caps());
        static_cast<void>(p.caps().query_driver_caps());
        static_cast<void>(p.caps().query_segments());
        static_cast<void>(p.gpu_va().query_gpu_mmu());
        static_cast<void>(p.power().query_power_components());
        static_cast<void>(p.native_fences().query_caps());
      },
  };
}

std::vector<Call> work_calls(Things& things) {
  constexpr size_t kFlags = 8;
  const auto flag = [](size_t index) {
    PacketFlags flags;
    bool* const each[kFlags] = {
        &flags.paging, &flags.present,           &flags.redirected_present, &flags.null_rendering,
        &flags.flip,   &flags.flip_with_no_wait, &flags.context_switch,     &flags.resubmission};
    if (index < kFlags) *each[index] = true;
    return flags;
  };
  return {
      [&](AdapterPort& p) {
        for (const bool kernel_mode : {false, true}) {
          RenderArgs args;
          args.context = handle(0x2001);
          args.render_km = kernel_mode;
          args.command = things.bytes.data();
          args.command_length = 0x61;
          args.buffer = things.buffer();
          args.allocations = reinterpret_cast<AllocationListEntry*>(things.bytes.data());
          args.allocation_count = 0x62;
          args.patches_in = reinterpret_cast<const PatchLocation*>(things.bytes.data());
          args.patches_in_count = 0x63;
          args.patches_out = reinterpret_cast<PatchLocation*>(things.bytes.data());
          args.patches_out_capacity = 0x64;
          args.multipass_offset = 0x65;
          static_cast<void>(p.rendering().render(args));
          args.buffer.private_size_bytes = 0;
          static_cast<void>(p.rendering().render(args));
        }
      },
      [&, flag](AdapterPort& p) {
        PatchArgs args;
        args.context = handle(0x2002);
        args.buffer = things.buffer();
        args.slice = Things::kSlice;
        args.allocations = reinterpret_cast<const AllocationListEntry*>(things.bytes.data());
        args.allocation_count = 3;
        args.patches = reinterpret_cast<const PatchLocation*>(things.bytes.data());
        args.patch_count = 6;
        args.patch_start = 1;
        args.patch_length = 2;
        args.fence = SubmissionFenceId{0x71};
        for (size_t i = 0; i <= kFlags; ++i) {
          args.flags = flag(i);
          static_cast<void>(p.submission().patch(args));
          static_cast<void>(p.submission().cancel(args));
        }
        args.buffer.private_size_bytes = 0;
        static_cast<void>(p.submission().patch(args));
        static_cast<void>(p.submission().cancel(args));
      },
      [&, flag](AdapterPort& p) {
        SubmitArgs args;
        args.context = handle(0x2003);
        args.buffer = things.buffer();
        args.slice = Things::kSlice;
        args.fence = SubmissionFenceId{0x72};
        args.node = NodeOrdinal{9};
        args.vidpn_source = 2;
        args.flip_interval = 3;
        for (size_t i = 0; i <= kFlags; ++i) {
          args.flags = flag(i);
          static_cast<void>(p.submission().submit(args));
        }
        args.buffer.private_size_bytes = 0;
        static_cast<void>(p.submission().submit(args));
      },
      [&, flag](AdapterPort& p) {
        SubmitVirtualArgs args;
        args.context = handle(0x2004);
        args.buffer_va = 0x22'3344'5000;
        args.buffer_bytes = 0x900;
        args.private_data = things.bytes.data();
        args.private_bytes = 0x82;
        args.user_private_bytes = 0x31;
        args.fence = SubmissionFenceId{0x73};
        args.node = NodeOrdinal{10};
        args.vidpn_source = 4;
        args.flip_interval = 1;
        for (size_t i = 0; i <= kFlags; ++i) {
          args.flags = flag(i);
          static_cast<void>(p.submission().submit_virtual(args));
          static_cast<void>(p.submission().cancel(args));
        }
        args.private_bytes = args.user_private_bytes = 0;
        static_cast<void>(p.submission().submit_virtual(args));
        static_cast<void>(p.submission().cancel(args));
      },
      [&](AdapterPort& p) {
        const std::array<void*, 3> contexts = {handle(0x2005), handle(0x2006), handle(0x2007)};
        ValidateSubmitArgs args{.buffer_va = 0x33'4455'6000,
                                .buffer_bytes = 0xA00,
                                .contexts = contexts,
                                .private_data = things.bytes.data(),
                                .private_bytes = 0x83,
                                .user_private_bytes = 0x32,
                                .hardware_queues = false,
                                .progress_fence = 0x1'0000'0074};
        static_cast<void>(p.rendering().validate_submit(args));
        args.hardware_queues = true;
        static_cast<void>(p.rendering().validate_submit(args));
      },
      [](AdapterPort& p) {
        static_cast<void>(p.submission().preempt(NodeOrdinal{11}, SubmissionFenceId{0x75}));
        static_cast<void>(p.submission().query_current_fence(NodeOrdinal{12}));
        static_cast<void>(p.timeouts().query_dependent_engines(NodeOrdinal{13}, 20));
        static_cast<void>(p.timeouts().query_engine_status(NodeOrdinal{14}));
        static_cast<void>(p.timeouts().reset_engine(NodeOrdinal{15}));
        static_cast<void>(p.timeouts().collect_debug_info(0x117));
        static_cast<void>(
            p.gpu_va().set_root_page_table(handle(0x2008), {{SegmentId{5}, 0x8000}, 512}));
        static_cast<void>(p.gpu_va().get_root_page_table_size(17));
      },
      [&](AdapterPort& p) {
        HwQueuePort& queues = p.hw_queues();
        static_cast<void>(
            queues.create_hw_context(handle(0x2009), 0x47, NodeOrdinal{16}, 3, things.some(0x25)));
        static_cast<void>(
            queues.create_hw_queue(handle(0x200A), {.handle = 0x48,
                                                    .flags = 1,
                                                    .private_data = things.some(0x26),
                                                    .progress_fence = 0x49,
                                                    .progress_fence_cpu = handle(0x200B),
                                                    .progress_fence_va = 0x200C}));
        for (const bool present : {false, true}) {
          static_cast<void>(queues.submit({.queue = handle(0x200D),
                                           .progress_fence = 0x1'0000'0076,
                                           .buffer_va = 0x44'5566'7000,
                                           .buffer_bytes = 0xB00,
                                           .private_data = things.bytes.data(),
                                           .private_bytes = 0x84,
                                           .present = present,
                                           .progress_fence_va = 0x200E,
                                           .progress_fence_cpu = handle(0x200F)}));
        }
      },
      [](AdapterPort& p) {
        HwSchedulingPort& scheduling = p.hw_scheduling();
        static_cast<void>(scheduling.setup_priority_bands({.grace = {1, 2, 3, 4},
                                                           .process_quantum = {5, 6, 7, 8},
                                                           .process_grace = {9, 10, 11, 12},
                                                           .normal_percentage = 13}));
        static_cast<void>(
            scheduling.set_context_properties(handle(0x2010), {.band = PriorityBand::kFocus,
                                                               .realtime_level = 14,
                                                               .in_process_priority = -5,
                                                               .quantum = 15,
                                                               .grace_same_priority = 16,
                                                               .grace_lower_priority = 17}));
        static_cast<void>(scheduling.suspend(handle(0x2011), 0x1'0000'0077));
        static_cast<void>(scheduling.resume(handle(0x2012)));
        static_cast<void>(scheduling.reset_engine(NodeOrdinal{17}));
        static_cast<void>(scheduling.resume_engine(NodeOrdinal{18}));
      },
      [](AdapterPort& p) {
        static_cast<void>(p.cpu_events().create(handle(0x201D), 0x1'0000'004D));
        static_cast<void>(p.cpu_events().destroy(handle(0x201E)));
      },
      [](AdapterPort& p) {
        NativeFencePort& fences = p.native_fences();
        std::array<std::byte, kNativeFencePrivateBytes> data{};
        data.front() = std::byte{1};
        data.back() = std::byte{2};
        static_cast<void>(fences.create(0x4A, false, data));
        static_cast<void>(fences.create(0x4B, true, data));
        static_cast<void>(fences.destroy(handle(0x2013)));
        static_cast<void>(fences.open(handle(0x2014), 0x4C, handle(0x2015), 0x2016, 0x2017));
        static_cast<void>(fences.close(handle(0x2018)));
        static_cast<void>(fences.update_monitored(handle(0x2019), 18, handle(0x201A)));
        static_cast<void>(fences.update_current(handle(0x201B), 19, handle(0x201C)));
      },
  };
}

/// A paging operation with every member set, of whatever kind.
PagingOperation operation_of(Things& things, PagingOperation::Kind kind) {
  static constexpr std::array<uint64_t, 3> kPages = {0x105, 0x109, 0x102};
  static constexpr std::array<PageTableCopy, 2> kCopies = {{{.source_table = 0x1'0000,
                                                             .destination_table = 0x2'0000,
                                                             .source_index = 3,
                                                             .destination_index = 4,
                                                             .count = 5},
                                                            {}}};
  PagingOperation one;
  one.kind = kind;
  one.allocation = handle(0x3001);
  one.device = handle(0x3002);
  one.transfer_offset = 0x4000;
  one.size_bytes = 0x5000;
  one.source.pages = kPages;
  one.destination.segment = SegmentId{2};
  one.destination.segment_address = 0x55'6677'8000;
  one.mdl_offset_pages = 6;
  one.fill_pattern = 0x7E7E7E7E;
  one.segment = SegmentId{3};
  one.segment_address = 0x66'7788'9000;
  one.offset_pages = 8;
  one.page_count = 9;
  one.pages = kPages;
  one.dummy_page = 0xA000;
  one.offset_bytes = 0xB000;
  one.gpu_va = 0x77'8899'A000;
  one.virtual_address = handle(0x3003);
  one.transfer = {.source = 0xC000,
                  .destination = 0xD000,
                  .direction = VirtualTransfer::Direction::kLocalToLocal,
                  .source_64kb_pages = true,
                  .destination_64kb_pages = false,
                  .source_page_table = 0xE000,
                  .destination_page_table = 0xF000};
  one.page_table.level = 1;
  one.page_table.mode = PageTableUpdateMode::kGpuPhysical;
  one.page_table.table_cpu = things.bytes.data();
  one.page_table.table_physical = {SegmentId{4}, 0x11000};
  one.page_table.table_virtual = 0x12000;
  one.page_table.entries = reinterpret_cast<const PageTableEntry*>(things.bytes.data());
  one.page_table.start_index = 11;
  one.page_table.count = 12;
  one.page_table.driver_protection = 0x13;
  one.page_table.allocation_offset_bytes = 0x14000;
  one.page_table.process = handle(0x3004);
  one.page_table.first_va = 0x15000;
  one.flush = {
      .root = {SegmentId{5}, 0x16000}, .process = handle(0x3005), .start = 0x17000, .end = 0x18000};
  one.copies = kCopies;
  one.private_data = things.some(0x19);
  return one;
}

std::vector<Call> paging_calls(Things& things) {
  using Kind = PagingOperation::Kind;
  const auto build = [&](AdapterPort& p, const PagingOperation& operation) {
    static_cast<void>(p.paging().build_paging({.system_context = handle(0x3006),
                                               .buffer = things.bytes.data(),
                                               .buffer_bytes = 0x190,
                                               .private_data = things.bytes.data(),
                                               .private_bytes = 0x1A,
                                               .buffer_physical_address = 0x88'99AA'B000,
                                               .buffer_va = 0x99'AABB'C000,
                                               .buffer_offset = 0x1B,
                                               .multipass_offset = 0x1C,
                                               .operation = &operation}));
  };
  std::vector<Call> calls;
  for (auto kind = static_cast<int>(Kind::kTransfer);
       kind <= static_cast<int>(Kind::kUpdateContextAllocation); ++kind) {
    calls.emplace_back([&, build, kind](AdapterPort& p) {
      PagingOperation one = operation_of(things, static_cast<Kind>(kind));
      build(p, one);
      // Each of what is yes or no, alone.
      for (const auto change :
           {+[](PagingOperation& o) { o.transfer_start = false; },
            +[](PagingOperation& o) { o.transfer_end = false; },
            +[](PagingOperation& o) { o.allocation_is_idle = true; },
            +[](PagingOperation& o) { o.cache_coherent = true; },
            +[](PagingOperation& o) { o.resident = true; },
            +[](PagingOperation& o) { o.page_table.repeat = true; },
            +[](PagingOperation& o) { o.page_table.initial_update = true; },
            +[](PagingOperation& o) { o.page_table.notify_eviction = true; },
            +[](PagingOperation& o) { o.page_table.use_64kb_pages = true; },
            +[](PagingOperation& o) { o.page_table.mode = PageTableUpdateMode::kGpuVirtual; },
            +[](PagingOperation& o) { o.page_table.mode = PageTableUpdateMode::kCpuVirtual; },
            +[](PagingOperation& o) { o.page_table.entries_64kb = o.page_table.entries; },
            +[](PagingOperation& o) { o.page_table.level = 0; },
            +[](PagingOperation& o) {
              o.transfer.destination_64kb_pages = true;
              o.transfer.source_64kb_pages = false;
            },
            +[](PagingOperation& o) { std::swap(o.source, o.destination); },
            +[](PagingOperation& o) { o.segment = kSystemMemory; },
            +[](PagingOperation& o) { o.pages = o.pages.first(1); },
            +[](PagingOperation& o) {
              static constexpr std::array<uint64_t, 3> kRow = {0x501, 0x502, 0x503};
              o.pages = kRow;
            },
            +[](PagingOperation& o) { o.flush.start = o.flush.end = 0; }}) {
        PagingOperation other = one;
        change(other);
        build(p, other);
      }
      p.paging().release_paging_mdls(p.paging().paging_mdls_issued());
    });
  }
  return calls;
}

std::vector<Call> display_calls(Things& things) {
  return {
      [](AdapterPort& p) {
        static_cast<void>(p.children().query_child_status(21, false));
        static_cast<void>(p.children().query_device_descriptor(22));
        static_cast<void>(p.vidpn().is_supported_vidpn(handle(0x4001)));
        for (const EnumPivot pivot : {EnumPivot::kNone, EnumPivot::kSource, EnumPivot::kTarget,
                                      EnumPivot::kScaling, EnumPivot::kRotation})
          static_cast<void>(p.vidpn().enum_cofunc_modality(handle(0x4002), pivot, 23, 24));
        static_cast<void>(p.vidpn().query_vidpn_hw_capability(handle(0x4003), 25, 26));
      },
      [&](AdapterPort& p) {
        static_cast<void>(p.scanout().set_pointer_position(27, -28, 29, true));
        static_cast<void>(p.scanout().set_pointer_position(27, 28, -29, false));
        for (const auto format : {PointerShape::Format::kMonochrome, PointerShape::Format::kColor,
                                  PointerShape::Format::kMaskedColor}) {
          static_cast<void>(p.scanout().set_pointer_shape({.source = 30,
                                                           .format = format,
                                                           .width = 31,
                                                           .height = 32,
                                                           .pitch_bytes = 33,
                                                           .pixels = things.some(34),
                                                           .hot_x = 35,
                                                           .hot_y = 36}));
        }
      },
      [](AdapterPort& p) {
        const std::array<uint32_t, 3> targets = {37, 38, 39};
        p.levels().enter_level_two();
        static_cast<void>(p.vidpn().recommend_functional_vidpn(handle(0x4004), targets));
        static_cast<void>(p.vidpn().recommend_monitor_modes(40, handle(0x4005), handle(0x4006)));
        static_cast<void>(p.vidpn().commit_vidpn(handle(0x4007), 41, handle(0x4008)));
        static_cast<void>(p.vidpn().update_active_present_path({}));
        static_cast<void>(p.vidpn().set_source_visibility(42, true));
        static_cast<void>(p.vidpn().set_source_visibility(43, false));
        static_cast<void>(p.scanout().control_vsync(44, true));
        static_cast<void>(p.scanout().control_vsync(45, false));
        p.levels().leave_level_two();
      },
      [](AdapterPort& p) {
        const std::array<void*, 2> contexts = {handle(0x4009), handle(0x400A)};
        using Kind = SourceAddressArgs::Kind;
        for (const Kind kind : {Kind::kModeChange, Kind::kFlipImmediate, Kind::kFlipOnNextVsync}) {
          const SourceAddressArgs args{.source = 46,
                                       .segment = 47,
                                       .address = 0xAA'BBCC'D000,
                                       .allocation = handle(0x400B),
                                       .kind = kind,
                                       .contexts = contexts};
          p.levels().enter_level_two();
          static_cast<void>(p.scanout().set_source_address(args));
          p.levels().leave_level_two();
          static_cast<void>(p.scanout().flip(args));
        }
        bool blank = false;
        uint32_t line = 0;
        static_cast<void>(p.scanout().get_scan_line(48, &blank, &line));
      },
      [&](AdapterPort& p) {
        const std::array<Rect, 2> rects = {{{1, 2, 3, 4}, {5, 6, 7, 8}}};
        const std::array<PresentSurface, 3> surfaces{};
        PresentArgs args;
        args.context = handle(0x400C);
        args.buffer = things.buffer();
        args.allocations = reinterpret_cast<AllocationListEntry*>(things.bytes.data());
        args.patches_out = reinterpret_cast<PatchLocation*>(things.bytes.data());
        args.patches_out_capacity = 0x91;
        args.source_count = 1;
        args.multipass_offset = 0x92;
        args.color = 0x93;
        args.destination = {9, 10, 11, 12};
        args.source = {13, 14, 15, 16};
        args.flip_interval = 2;
        static_cast<void>(p.rendering().present(args));
        args.sub_rects = rects;
        args.private_data = things.nothing();
        static_cast<void>(p.rendering().present(args));
        args.surfaces = surfaces;
        args.private_data = things.some(0x27);
        static_cast<void>(p.rendering().present(args));
        args.buffer = {};
        static_cast<void>(p.rendering().present(args));
      },
  };
}

/// What few drivers have, and what is about single outputs.
std::vector<Call> other_calls(Things& things) {
  return {
      [](AdapterPort& p) {
        p.levels().enter_level_two();
        static_cast<void>(p.scanout().set_private_format(51, handle(0x5001), 52));
        static_cast<void>(p.scanout().set_private_format(53, nullptr, 54));
        using Update = TimingPath::Update;
        std::array<TimingPath, 3> paths = {
            TimingPath{.target = 55, .update = Update::kAdded},
            TimingPath{.target = 56, .update = Update::kModified, .active = false},
            TimingPath{.target = 57, .update = Update::kRemoved}};
        bool changes = false;
        static_cast<void>(p.targets().set_timings(handle(0x5002), paths, &changes));
        p.levels().leave_level_two();
      },
      [](AdapterPort& p) {
        for (uint32_t i = 0; i < 2; ++i) {
          ::dxgkit::vidpn::Path path{.source = 58 + i, .target = 60 + i};
          path.content = 1 + i;
          path.copy_protection = 2 + i;
          path.aps_trigger_bits = 3 + i;
          path.gamma_type = 1 + i;
          path.gamma.resize(i * sizeof(D3DDDI_GAMMA_RAMP_RGB256x3x16));
          static_cast<void>(p.targets().set_gamma(path));
          static_cast<void>(p.targets().set_content_type(path));
          static_cast<void>(p.targets().set_analog_copy_protection(path));
        }
        static_cast<void>(p.targets().update_monitor_link_info(62));
        using Detect = TargetsPort::Detect;
        for (const Detect what : {Detect::kPollOne, Detect::kPollAll, Detect::kEnableHotPlug,
                                  Detect::kDisableHotPlug}) {
          static_cast<void>(p.targets().detect(what, 63, what == Detect::kPollAll));
        }
      },
      [&](AdapterPort& p) {
        OverlayInfo info{.surface = {handle(0x5003), 64, 0x65'0000},
                         .destination = {1, 2, 3, 4},
                         .source = {5, 6, 7, 8},
                         .private_data = things.some(0x66)};
        static_cast<void>(p.overlays().create(67, info));
        static_cast<void>(p.overlays().update(handle(0x5004), info));
        static_cast<void>(p.overlays().flip(handle(0x5005), info.surface, things.some(0x68)));
        info.private_data = things.nothing();
        static_cast<void>(p.overlays().update(handle(0x5006), info));
      },
      [&](AdapterPort& p) {
        static_cast<void>(p.protected_sessions().create(0x69, things.some(0x6A)));
        static_cast<void>(p.protected_sessions().create(0x6B, things.nothing()));
      },
      [&](AdapterPort& p) {
        using Type = AcpiEvent::Type;
        p.levels().enter_level_two();
        for (const Type type : {Type::kAcpi, Type::kPowerState, Type::kDocking, Type::kChained}) {
          static_cast<void>(p.notices().acpi_event({.type = type, .event = 0x6C}));
        }
        static_cast<void>(p.notices().io_request(
            0x6D, {.code = 0x6E, .in = things.some(0x6F), .out = things.some(0x70)}));
        p.levels().leave_level_two();
      },
      [](AdapterPort& p) {
        for (const auto category :
             {DiagnosticCategory::kNotifications, DiagnosticCategory::kProgressions}) {
          static_cast<void>(p.diagnostics().query_types(category));
          static_cast<void>(p.diagnostics().control(category, 0x71));
        }
        static_cast<void>(p.diagnostics().collect(DiagnosticPort::After::kStartDevice));
        static_cast<void>(p.clock().calibrate(NodeOrdinal{1}));
      },
      [](AdapterPort& p) {
        if (p.power().query_power_components().size() > 3)
          static_cast<void>(p.power().set_component_f_state(3, 1));
        for (const PowerAction action :
             {PowerAction::kSleep, PowerAction::kHibernate, PowerAction::kShutdown}) {
          static_cast<void>(p.power().set_power_state(0x74, PowerState::kD2, action));
          static_cast<void>(p.power().set_power_state(0x75, PowerState::kD1, action));
        }
        static_cast<void>(p.power().notify_surprise_removal(true));
        static_cast<void>(p.power().notify_surprise_removal(false));
      },
      [&](AdapterPort& p) {
        uint32_t out[3] = {};
        static_cast<void>(p.scanout().system_display_enable(0x76, &out[0], &out[1], &out[2]));
        static_cast<void>(
            p.scanout().system_display_write(things.some(4096), 0x12, 0x13, 0x50, 0x14, 0x15));
        static_cast<void>(p.children().query_descriptor_part(0x77, 0x78, 0x79, things.some(0x80)));
        ContainerId id{};
        static_cast<void>(p.children().get_container_id(
            0x81, {.port = 0x82, .manufacturer = 0x83, .product = 0x84}, &id));
      },
  };
}

/// Leaves `value` in the stack below, in the place of an uninitialised variable.
[[gnu::noinline]] void dirty_stack(uint8_t value) {
  volatile uint8_t bytes[48 * 1024];
  for (volatile uint8_t& byte : bytes) byte = value;
}

std::string all_arguments(uint8_t stack) {
  std::string text;
  runtime::make_sim_runtime(1)->run_main([&] {
    for (const uint32_t version : std::initializer_list<uint32_t>{
             DXGKDDI_INTERFACE_VERSION_WIN8, DXGKDDI_INTERFACE_VERSION_WDDM1_3,
             DXGKDDI_INTERFACE_VERSION_WDDM2_0, DXGKDDI_INTERFACE_VERSION_WDDM2_4,
             DXGKDDI_INTERFACE_VERSION_WDDM2_9, DXGKDDI_INTERFACE_VERSION_WDDM3_2}) {
      text += fmt::format("== {:#x}\n", version);
      // Not on the stack, where arguments are looked for.
      const auto place = std::make_unique<World>(version);
      World& world = *place;
      world.up();
      Things things;
      write_down(&text);
      for (auto&& calls : {object_calls(things), work_calls(things), paging_calls(things),
                           display_calls(things), other_calls(things)}) {
        for (const Call& call : calls) {
          dirty_stack(stack);
          call(*world.adapter);
        }
      }
      record->look = nullptr;
      world.down();
    }
  });
  return text;
}

/// A line as before is written as the number of that line.
std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  std::map<std::string, size_t> seen;
  for (std::string line; std::getline(stream, line);) {
    const auto [first, is_new] = seen.emplace(line, lines.size() + 1);
    lines.push_back(is_new ? line : fmt::format("={}", first->second));
  }
  return lines;
}

/// Lines as in the file of that name in testdata/, which DXGKIT_KEEP_RUNS in the environment writes
/// anew.
void expect_kept(const char* name, const std::vector<std::string>& found) {
  const std::string path = std::string(PORT_SOURCES "/testdata/") + name;
  if (std::getenv("DXGKIT_KEEP_RUNS") != nullptr) {
    std::ofstream file(path);
    for (const std::string& line : found) file << line << '\n';
  }
  std::vector<std::string> known;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) known.push_back(line);
  ASSERT_EQ(found.size(), known.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], known[i]) << "line " << i + 1;
}

// What changes there is what drivers will see. What the stack held before shows nowhere.
TEST(DdiArguments, EachWordIsWhatItWas) {
  const std::vector<std::string> found = lines_of(all_arguments(0xA5));
  expect_kept("arguments.txt", found);
  EXPECT_EQ(found, lines_of(all_arguments(0x5A)));
}

/// What each of the calls confronts the driver with, and how often.
std::vector<std::string> all_situations() {
  std::vector<std::string> lines;
  runtime::make_sim_runtime(1)->run_main([&] {
    for (const uint32_t version : std::initializer_list<uint32_t>{
             DXGKDDI_INTERFACE_VERSION_WDDM1_3, DXGKDDI_INTERFACE_VERSION_WDDM2_0,
             DXGKDDI_INTERFACE_VERSION_WDDM3_2}) {
      lines.push_back(fmt::format("== {:#x}", version));
      verifier::SituationLog log;
      std::array<uint64_t, verifier::kSituations> seen{};
      const auto place = std::make_unique<World>(version);
      World& world = *place;
      world.up();
      world.adapter->set_situation_log(&log);
      Things things;
      size_t number = 0;
      for (auto&& calls : {object_calls(things), work_calls(things), paging_calls(things),
                           display_calls(things)}) {
        for (const Call& call : calls) {
          call(*world.adapter);
          std::string line = fmt::format("{}:", ++number);
          for (size_t i = 0; i < verifier::kSituations; ++i) {
            const uint64_t now = log.count(static_cast<verifier::Situation>(i));
            if (now != seen[i])
              line += fmt::format(" {}*{}", verifier::situation_catalogue()[i].id, now - seen[i]);
            seen[i] = now;
          }
          lines.push_back(line);
        }
      }
      world.down();
    }
  });
  return lines;
}

// Each family tells of each of its calls, with what it was called with.
TEST(DdiArguments, EachCallTellsWhatItConfrontsTheDriverWith) {
  expect_kept("situations.txt", all_situations());
}

}  // namespace
}  // namespace dxgkit::port
