// DriverEntry, DxgkInitialize, Unload.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "dxgkit/abi_versions.h"
#include "port/port_world_test.h"

namespace dxgkit::port {
namespace {

using testing::ScriptedMiniport;

constexpr NTSTATUS kSuccess = 0;

template <typename Body>
void in_os(const Body& body) {
  runtime::make_os_runtime(1)->run_main(body);
}

/// The declared version's part of a table whose last byte is the last byte before an inaccessible
/// page.
class GuardedTable {
 public:
  GuardedTable(const DRIVER_INITIALIZATION_DATA& table, uint32_t size) {
    area_ = static_cast<std::byte*>(
        mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(area_ + 4096, 4096, PROT_NONE), 0);
    start_ = area_ + 4096 - size;
    std::memcpy(start_, &table, size);
  }
  ~GuardedTable() { munmap(area_, 8192); }
  GuardedTable(const GuardedTable&) = delete;
  GuardedTable& operator=(const GuardedTable&) = delete;
  std::byte* start() const { return start_; }

 private:
  std::byte* area_;
  std::byte* start_;
};

/// A table that ends where its version ends, before a guard page, is accepted for each published
/// version.
TEST(Driver, ReadsNothingBehindTheDeclaredVersion) {
  DXGKIT_COVERS("LIFE-04");
  in_os([] {
    for (const abi::InterfaceVersion& version : abi::kVersions) {
      PortWorld world;
      world.miniport.config.version = version.value;
      world.miniport.hooks.driver_entry = [&](DRIVER_OBJECT* object, UNICODE_STRING* path) {
        const GuardedTable table(world.miniport.make_table(),
                                 abi::record_size("DRIVER_INITIALIZATION_DATA", version.value));
        return ScriptedMiniport::dxgk_initialize(object, path, table.start());
      };
      EXPECT_EQ(world.load(), Status::kSuccess) << version.name << ": " << world.findings_text();
      EXPECT_EQ(world.driver->interface_version(), version.value);
    }
  });
}

/// The members of their driver object and of the bus's device object that real drivers read or
/// patch are there.
TEST(Driver, FindsTheObjectsOfTheIoManager) {
  DXGKIT_COVERS("NT-23");
  in_os([] {
    PortWorld world;
    world.miniport.hooks.driver_entry = [&](DRIVER_OBJECT* object, UNICODE_STRING* path) {
      EXPECT_EQ(object->Type, 4);
      EXPECT_EQ(object->Size, sizeof(DRIVER_OBJECT));
      EXPECT_EQ(std::ranges::count(object->MajorFunction, nullptr), 0);
      EXPECT_EQ(object->DriverExtension->DriverObject, object);
      const std::u16string_view name(object->DriverName.Buffer, object->DriverName.Length / 2);
      EXPECT_TRUE(name.starts_with(u"\\Driver\\")) << "object name";
      EXPECT_EQ(name.substr(8),
                std::u16string_view(object->DriverExtension->ServiceKeyName.Buffer,
                                    object->DriverExtension->ServiceKeyName.Length / 2));
      const DRIVER_INITIALIZATION_DATA table = world.miniport.make_table();
      return ScriptedMiniport::dxgk_initialize(object, path, &table);
    };
    ASSERT_EQ(world.load(), Status::kSuccess);
    EXPECT_EQ(world.adapter->life().add_device(), Status::kSuccess);
    EXPECT_EQ(world.adapter->life().remove_device(), Status::kSuccess);
  });
}

/// The table may lie on DriverEntry's stack: it is overwritten before AddDevice, which still
/// reaches the driver.
TEST(Driver, CopiesTheTable) {
  DXGKIT_COVERS("LIFE-02");
  in_os([] {
    PortWorld world;
    world.miniport.hooks.driver_entry = [&](DRIVER_OBJECT* object, UNICODE_STRING* path) {
      DRIVER_INITIALIZATION_DATA table = world.miniport.make_table();
      const NTSTATUS status = ScriptedMiniport::dxgk_initialize(object, path, &table);
      std::memset(&table, 0x5A, sizeof(table));
      return status;
    };
    ASSERT_EQ(world.load(), Status::kSuccess);
    EXPECT_EQ(world.adapter->life().add_device(), Status::kSuccess);
    EXPECT_EQ(world.miniport.count("DxgkDdiAddDevice"), 1u);
    EXPECT_EQ(world.adapter->life().remove_device(), Status::kSuccess);
  });
}

/// Unknown versions, versions of the future and tables without a mandatory entry are refused; the
/// driver is not kept.
TEST(Driver, RefusesTables) {
  DXGKIT_COVERS("LIFE-03");
  struct Case {
    const char* why;
    Status status;
    std::function<void(DRIVER_INITIALIZATION_DATA&)> change;
  };
  const Case cases[] = {
      {"version 0", Status::kInvalidParameter, [](auto& t) { t.Version = 0; }},
      {"version between two", Status::kInvalidParameter, [](auto& t) { t.Version = 0x4001; }},
      {"version of the future", Status::kRevisionMismatch, [](auto& t) { t.Version = 0x20000; }},
      {"no AddDevice", Status::kInvalidParameter, [](auto& t) { t.DxgkDdiAddDevice = nullptr; }},
      {"no interrupt routine", Status::kInvalidParameter,
       [](auto& t) { t.DxgkDdiInterruptRoutine = nullptr; }},
      {"no BuildPagingBuffer", Status::kInvalidParameter,
       [](auto& t) { t.DxgkDdiBuildPagingBuffer = nullptr; }},
      {"Render without Patch", Status::kInvalidParameter,
       [](auto& t) { t.DxgkDdiPatch = nullptr; }},
      {"no GetNodeMetadata in 1.3", Status::kInvalidParameter,
       [](auto& t) { t.DxgkDdiGetNodeMetadata = nullptr; }},
  };
  in_os([&] {
    for (const Case& bad : cases) {
      PortWorld world;
      world.miniport.config.table = bad.change;
      EXPECT_EQ(world.load(), bad.status) << bad.why;
      EXPECT_EQ(world.findings.count("LIFE-03"), 1u) << bad.why << world.findings_text();
      EXPECT_EQ(world.miniport.count("DxgkDdiUnload"), 0u) << bad.why;
      EXPECT_NE(world.message.find(
                    fmt::format("{:#010x}", static_cast<uint32_t>(to_ntstatus(bad.status)))),
                std::string::npos)
          << world.message;
    }
  });
}

/// The optional entry of a later version is no demand on an older driver.
TEST(Driver, DemandsOnlyWhatTheVersionHas) {
  DXGKIT_COVERS("LIFE-03");
  in_os([] {
    PortWorld world;
    world.miniport.config.version = DXGKDDI_INTERFACE_VERSION_WIN8;
    world.miniport.config.table = [](auto& table) { table.DxgkDdiGetNodeMetadata = nullptr; };
    EXPECT_EQ(world.load(), Status::kSuccess) << world.findings_text();
  });
}

/// DriverEntry calls DxgkInitialize once and passes its status on.
TEST(Driver, WatchesDriverEntry) {
  DXGKIT_COVERS("LIFE-01");
  in_os([] {
    {
      PortWorld world;  // a success code other than the given one
      world.miniport.hooks.driver_entry = [&](DRIVER_OBJECT* object, UNICODE_STRING* path) {
        EXPECT_EQ(world.miniport.default_driver_entry(object, path), kSuccess);
        return NTSTATUS{1};
      };
      EXPECT_EQ(world.load(), Status::kSuccess);
      EXPECT_EQ(world.findings.count("LIFE-01"), 1u);
    }
    {
      PortWorld world;  // twice
      world.miniport.hooks.driver_entry = [&](DRIVER_OBJECT* object, UNICODE_STRING* path) {
        const NTSTATUS status = world.miniport.default_driver_entry(object, path);
        EXPECT_NE(world.miniport.default_driver_entry(object, path), kSuccess);
        return status;
      };
      EXPECT_EQ(world.load(), Status::kSuccess);
      EXPECT_EQ(world.findings.count("LIFE-01"), 1u);
    }
    {
      PortWorld world;  // never
      world.miniport.hooks.driver_entry = [](DRIVER_OBJECT*, UNICODE_STRING*) { return kSuccess; };
      EXPECT_EQ(world.load(), Status::kUnsuccessful);
      EXPECT_EQ(world.findings.count("LIFE-01"), 1u);
    }
    {
      PortWorld world;  // a failure of the driver's own: no rule is broken
      world.miniport.hooks.driver_entry = [](DRIVER_OBJECT*, UNICODE_STRING*) {
        return to_ntstatus(Status::kNoMemory);
      };
      EXPECT_EQ(world.load(), Status::kNoMemory);
      EXPECT_EQ(world.findings.total(), 0u);
    }
  });
}

/// Unload comes once, after the last RemoveDevice; what the driver still holds then is named by
/// kind and tag.
TEST(Driver, ReportsLeaksAfterUnload) {
  DXGKIT_COVERS("LIFE-20");
  in_os([] {
    PortWorld world;
    const auto allocate = reinterpret_cast<void*(NTAPI*)(uint32_t, uint64_t, uint32_t)>(
        const_cast<void*>(nt::find_export("ExAllocatePoolWithTag")->address));
    const auto free_pool = reinterpret_cast<void(NTAPI*)(void*, uint32_t)>(
        const_cast<void*>(nt::find_export("ExFreePoolWithTag")->address));
    void* kept = nullptr;
    void* freed = nullptr;
    world.miniport.hooks.start_device = [&](DXGK_START_INFO* info, DXGKRNL_INTERFACE* callbacks,
                                            ULONG* sources, ULONG* children) {
      kept = allocate(512, 100, 0x6B61654C);  // "Leak"
      freed = allocate(512, 100, 0x6B61654C);
      return world.miniport.default_start_device(info, callbacks, sources, children);
    };
    world.miniport.hooks.unload = [&] {
      EXPECT_EQ(world.miniport.count("DxgkDdiRemoveDevice"), 1u);
      free_pool(freed, 0x6B61654C);
    };
    world.start();
    world.stop();
    world.adapter.reset();
    world.driver.reset();
    EXPECT_EQ(world.miniport.count("DxgkDdiUnload"), 1u);
    ASSERT_EQ(world.findings.total(), 1u) << world.findings_text();
    EXPECT_EQ(world.findings.count("LIFE-20"), 1u);
    EXPECT_NE(world.findings.all()[0].actual.find("1 pool left with tag 'Leak', 100 bytes"),
              std::string::npos)
        << world.findings.all()[0].actual;
  });
}

/// A driver that stops the machine in DriverEntry is not kept, and nothing of it is called again.
TEST(Driver, SurvivesABugCheckInDriverEntry) {
  in_os([] {
    PortWorld world;
    const auto bug_check =
        reinterpret_cast<void(NTAPI*)(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t)>(
            const_cast<void*>(nt::find_export("KeBugCheckEx")->address));
    world.miniport.hooks.driver_entry = [&](DRIVER_OBJECT*, UNICODE_STRING*) -> NTSTATUS {
      bug_check(0xDEAD, 1, 2, 3, 4);
      ADD_FAILURE() << "a bug check returned";
      return 0;
    };
    EXPECT_EQ(world.load(), Status::kUnsuccessful);
    ASSERT_EQ(world.findings.total(), 1u);
    EXPECT_EQ(world.findings.all()[0].severity, verifier::Severity::kBugCheck);
    EXPECT_EQ(world.findings.all()[0].bugcheck_code, 0xDEADu);
  });
}

/// At what level the machine stopped says nothing about how DriverEntry would have returned.
TEST(Driver, ABugCheckAtARaisedLevelIsOneFinding) {
  DXGKIT_COVERS("IRQL-01");
  in_os([] {
    for (const bool stops : {false, true}) {
      PortWorld world;
      world.miniport.hooks.driver_entry = [&](DRIVER_OBJECT* object, UNICODE_STRING* path) {
        const NTSTATUS status = world.miniport.default_driver_entry(object, path);
        nt::CallFrame::current().raise(nt::kDispatchLevel);
        if (stops) {
          reinterpret_cast<void(NTAPI*)(uint32_t)>(
              const_cast<void*>(nt::find_export("KeBugCheck")->address))(0xE2);
        }
        return status;
      };
      EXPECT_EQ(world.load(), stops ? Status::kUnsuccessful : Status::kSuccess);
      ASSERT_EQ(world.findings.total(), 1u) << world.findings_text();
      EXPECT_EQ(world.findings.count("IRQL-01"), stops ? 0u : 1u);
    }
  });
}

/// Built drivers that fault, by themselves or inside memcpy, or call what does not exist: a finding
/// with the place, the load fails, and the process goes on.
TEST(Driver, SurvivesFaults) {
  DXGKIT_COVERS("NT-01", "NT-15");
  in_both_modes([] {
    struct Case {
      const char* path;
      const char* rule;
      const char* part;
    };
    for (const Case& bad : {Case{FAULTY_DRIVER_1, "NT-01", "DriverEntry touched 0x10"},
                            Case{FAULTY_DRIVER_2, "NT-01", "touched 0x20"},
                            Case{FAULTY_DRIVER_3, "NT-15", "NoSuchKernelFunction"},
                            Case{FAULTY_DRIVER_1_SYS, "NT-01", "DriverEntry touched 0x10"},
                            Case{FAULTY_DRIVER_2_SYS, "NT-01", "touched 0x20"},
                            Case{FAULTY_DRIVER_3_SYS, "NT-15", "NoSuchKernelFunction"}}) {
      PortWorld world;
      const auto driver =
          Driver::load(world.kernel, world.findings,
                       {.name = "faulty", .path = bad.path, .entry = nullptr}, &world.message);
      ASSERT_FALSE(driver.has_value());
      EXPECT_EQ(driver.error(), Status::kUnsuccessful) << world.message;
      ASSERT_EQ(world.findings.total(), 1u);
      EXPECT_EQ(world.findings.all()[0].rule, bad.rule);
      EXPECT_EQ(world.findings.all()[0].severity, verifier::Severity::kBugCheck);
      EXPECT_NE(world.findings.all()[0].actual.find(bad.part), std::string::npos)
          << world.findings.all()[0].actual;
    }
  });
}

}  // namespace
}  // namespace dxgkit::port
