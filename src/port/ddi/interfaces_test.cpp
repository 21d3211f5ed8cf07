// What a driver may be asked for by DxgkDdiQueryInterface, and what it may answer.
#include "port/ddi/interfaces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "port/core/core_world_test.h"
#include "tests/support/covers.h"

namespace dxgkit::port {
namespace {

std::function<NTSTATUS(const QUERY_INTERFACE& query)> g_driver;
std::vector<QUERY_INTERFACE> g_queries;
int g_references = 0;

NTAPI void reference(void* context) { g_references += context == &g_references ? 1 : 100; }
NTAPI void dereference(void* context) { g_references -= context == &g_references ? 1 : 100; }

void with_driver(const std::function<void(InterfacesPort&, CoreWorld&)>& body,
                 uint32_t version = kInterfaceWddm32) {
  with_core(
      [&](CoreWorld& world) {
        g_driver = [](const QUERY_INTERFACE&) { return STATUS_NOT_SUPPORTED; };
        g_queries.clear();
        g_references = 0;
        CoreWorld::set(
            world.table.table.DxgkDdiQueryInterface,
            +[](void*, QUERY_INTERFACE* query) NTAPI -> NTSTATUS {
              g_queries.push_back(*query);
              return g_driver(*query);
            });
        InterfacesPort interfaces(world.core());
        world.core().levels.enter_level_two();
        body(interfaces, world);
        world.core().levels.leave_level_two();
      },
      version);
}

/// As a driver fills an interface that it has.
NTSTATUS give(const QUERY_INTERFACE& query) {
  *query.Interface = {query.Size, query.Version, &g_references, &reference, &dereference};
  reference(&g_references);
  return STATUS_SUCCESS;
}

TEST(InterfacesPort, AsksForEachByItsSizeAndVersion) {
  DXGKIT_COVERS("LIFE-34");
  with_driver([](InterfacesPort& interfaces, CoreWorld& world) {
    static_cast<void>(interfaces.ask_adapter());
    ASSERT_EQ(g_queries.size(), 2U);
    EXPECT_EQ(g_queries[0].Size, sizeof(DXGK_I2C_INTERFACE));
    EXPECT_EQ(g_queries[1].Size, sizeof(DXGK_OPM_INTERFACE));
    for (const QUERY_INTERFACE& query : g_queries) {
      EXPECT_EQ(query.Version, 1U);
      EXPECT_EQ(query.DeviceUid, DISPLAY_ADAPTER_HW_ID);
      EXPECT_EQ(query.InterfaceSpecificData, nullptr);
    }
    g_queries.clear();
    static_cast<void>(interfaces.ask_panel(0x123));
    ASSERT_EQ(g_queries.size(), 3U) << "the newest first";
    for (USHORT i = 0; i < 3; ++i) {
      EXPECT_EQ(g_queries[i].Version, 3 - i);
      EXPECT_EQ(g_queries[i].DeviceUid, 0x123U);
    }
    EXPECT_EQ(world.rules(), "");
  });
  with_driver(
      [](InterfacesPort& interfaces, CoreWorld&) {
        static_cast<void>(interfaces.ask_panel(1));
        ASSERT_EQ(g_queries.size(), 1U) << "a driver of Windows 7 knows the first version";
        EXPECT_EQ(g_queries[0].Version, 1U);
      },
      DXGKDDI_INTERFACE_VERSION_WIN7);
}

TEST(InterfacesPort, WhatIsGivenIsDereferenced) {
  DXGKIT_COVERS("LIFE-34");
  with_driver([](InterfacesPort& interfaces, CoreWorld& world) {
    g_driver = give;
    static_cast<void>(interfaces.ask_adapter());
    EXPECT_EQ(g_queries.size(), 2U);
    static_cast<void>(interfaces.ask_panel(1));
    EXPECT_EQ(g_queries.size(), 3U) << "the older ones are not asked for";
    EXPECT_EQ(g_references, 0);
    EXPECT_EQ(world.rules(), "");
  });
}

TEST(InterfacesPort, AHeaderThatIsNotFilledIsFound) {
  DXGKIT_COVERS("LIFE-34", "NT-33");
  struct Row {
    const char* said;
    const char* rules;
    void (*spoil)(const QUERY_INTERFACE& query);
  };
  const Row rows[] = {
      {"Size is 0", "LIFE-34 ", [](const QUERY_INTERFACE& query) { query.Interface->Size = 0; }},
      {"Size is 31", "LIFE-34 ", [](const QUERY_INTERFACE& query) { query.Interface->Size = 31; }},
      {"and 48 bytes are there", "LIFE-34 ",
       [](const QUERY_INTERFACE& query) { query.Interface->Size = query.Size + 1; }},
      {"Version is 2", "LIFE-34 ",
       [](const QUERY_INTERFACE& query) { query.Interface->Version = 2; }},
      {"Version is 0", "LIFE-34 ",
       [](const QUERY_INTERFACE& query) { query.Interface->Version = 0; }},
      {"InterfaceReference is null", "LIFE-34 ",
       [](const QUERY_INTERFACE& query) { query.Interface->InterfaceReference = nullptr; }},
      {"InterfaceDereference is null", "LIFE-34 ",
       [](const QUERY_INTERFACE& query) { query.Interface->InterfaceDereference = nullptr; }},
      {"up to 1 bytes behind its end", "NT-33 ",
       [](const QUERY_INTERFACE& query) {
         reinterpret_cast<uint8_t*>(query.Interface)[query.Size] = 1;
       }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.said);
    with_driver([&](InterfacesPort& interfaces, CoreWorld& world) {
      g_driver = [&](const QUERY_INTERFACE& query) {
        if (query.Size != sizeof(DXGK_I2C_INTERFACE)) return STATUS_NOT_SUPPORTED;
        const NTSTATUS status = give(query);
        row.spoil(query);
        return status;
      };
      static_cast<void>(interfaces.ask_adapter());
      ASSERT_EQ(world.rules(), row.rules);
      const verifier::Finding finding = world.findings.all()[0];
      EXPECT_NE(finding.actual.find(row.said), std::string::npos) << finding.actual;
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_EQ(g_queries.size(), 2U) << "the other one is asked for";
    });
  }
}

TEST(InterfacesPort, AnotherErrorIsWorthAWord) {
  DXGKIT_COVERS("LIFE-34");
  with_driver([](InterfacesPort& interfaces, CoreWorld& world) {
    g_driver = [](const QUERY_INTERFACE&) { return STATUS_INVALID_PARAMETER; };
    static_cast<void>(interfaces.ask_adapter());
    EXPECT_EQ(world.rules(), "LIFE-34 LIFE-34 ");
    EXPECT_EQ(world.findings.all()[0].severity, verifier::Severity::kWarning);
    EXPECT_NE(world.findings.all()[0].actual.find("GUID_DEVINTERFACE_I2C"), std::string::npos);
  });
  with_core([](CoreWorld& world) {  // without the entry nobody asks
    InterfacesPort interfaces(world.core());
    static_cast<void>(interfaces.ask_adapter());
    static_cast<void>(interfaces.ask_panel(1));
    EXPECT_EQ(world.rules(), "");
  });
}

}  // namespace
}  // namespace dxgkit::port
