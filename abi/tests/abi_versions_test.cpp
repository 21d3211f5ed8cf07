#include <dispmprt.h>
#include <dxgkit/abi_versions.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace dxgkit::abi {
namespace {

// Sizes measured in real miniport binaries, independent of the layout facts.
TEST(AbiVersions, SizesMatchMeasuredOnes) {
  struct Row {
    const char* record;
    std::uint32_t wddm1_3, wddm2_0, wddm2_6, wddm3_0;
  };
  const Row rows[] = {{"DRIVER_INITIALIZATION_DATA", 712, 832, 1224, 1296},
                      {"KMDDOD_INITIALIZATION_DATA", 328, 336, 336, 336},
                      {"DXGKRNL_INTERFACE", 264, 312, 480, 568},
                      {"DXGK_DRIVERCAPS", 552, 576, 584, 592},
                      {"DXGKARG_BUILDPAGINGBUFFER", 304, 320, 320, 320}};
  for (const Row& row : rows) {
    EXPECT_EQ(record_size(row.record, 0x4002), row.wddm1_3) << row.record;
    EXPECT_EQ(record_size(row.record, 0x5023), row.wddm2_0) << row.record;
    EXPECT_EQ(record_size(row.record, 0xB004), row.wddm2_6) << row.record;
    EXPECT_EQ(record_size(row.record, 0xF003), row.wddm3_0) << row.record;
  }
}

TEST(AbiVersions, NewestSizesAreThoseOfTheHeaders) {
  const std::uint32_t newest = DXGKDDI_INTERFACE_VERSION;
  EXPECT_EQ(record_size("DRIVER_INITIALIZATION_DATA", newest), sizeof(DRIVER_INITIALIZATION_DATA));
  EXPECT_EQ(record_size("DXGKRNL_INTERFACE", newest), sizeof(DXGKRNL_INTERFACE));
  EXPECT_EQ(record_size("DXGKARG_RENDER", newest), sizeof(DXGKARG_RENDER));
  EXPECT_EQ(record_size("D3DKMT_PRESENT", newest), sizeof(D3DKMT_PRESENT));
}

TEST(AbiVersions, UnknownRecordsAndVersionsHaveNoSize) {
  EXPECT_EQ(record_size("DXGKARG_RENDERX", 0x11007), 0U);
  EXPECT_EQ(record_size("", 0x11007), 0U);
  EXPECT_EQ(record_size("zzz", 0x11007), 0U);
  EXPECT_EQ(record_size("DXGKARG_RENDER", 0), 0U);
  EXPECT_EQ(record_size("DXGKARG_CREATEPROCESS", 0x4002), 0U) << "came with WDDM 2.0";
}

TEST(AbiVersions, AVersionBetweenTwoKnownOnesMeansTheOlder) {
  EXPECT_EQ(record_size("DXGK_DRIVERCAPS", 0x5022), 552U);
  EXPECT_EQ(record_size("DXGK_DRIVERCAPS", 0x5024), 576U);
  EXPECT_TRUE(is_known_version(0x5023));
  EXPECT_FALSE(is_known_version(0x5022));
  EXPECT_EQ(std::size(kVersions), 21U);
}

TEST(AbiVersions, TablesListEverySlotInOrder) {
  EXPECT_EQ(std::size(kDriverInitializationData), 193U);
  EXPECT_EQ(std::size(kKmddodInitializationData), 42U);
  EXPECT_EQ(std::size(kDxgkrnlInterface), 73U);
  std::uint32_t previous = 0;
  for (const TableEntry& entry : kDriverInitializationData) {
    if (entry.index == 0) {
      EXPECT_EQ(entry.name, "Version");
      continue;
    }
    EXPECT_EQ(entry.offset_bytes, entry.index * sizeof(void*)) << entry.name;
    EXPECT_GT(entry.offset_bytes, previous) << entry.name;
    previous = entry.offset_bytes;
  }
}

// A slot exists in a version exactly if the table of that version is long enough to hold it.
TEST(AbiVersions, SinceAgreesWithTheSizes) {
  for (const InterfaceVersion& version : kVersions) {
    const std::uint32_t size = record_size("DXGKRNL_INTERFACE", version.value);
    for (const TableEntry& entry : kDxgkrnlInterface) {
      EXPECT_EQ(entry.since <= version.value, entry.offset_bytes < size)
          << entry.name << " in " << version.name;
    }
  }
}

TEST(AbiVersions, EntryPointsAreD3dkmtFunctions) {
  EXPECT_EQ(std::size(kD3dkmtEntryPoints), 188U);
  for (const EntryPoint& entry : kD3dkmtEntryPoints) {
    EXPECT_TRUE(entry.name.starts_with("D3DKMT")) << entry.name;
    EXPECT_TRUE(is_known_version(entry.since)) << entry.name;
  }
}

TEST(AbiVersions, GuidsCompareByValue) {
  constexpr GUID copy = GUID_DEVINTERFACE_I2C;
  static_assert(copy == GUID_DEVINTERFACE_I2C && copy != GUID_DEVINTERFACE_OPM);
  GUID last_byte_differs = copy;
  last_byte_differs.Data4[7] ^= 1;
  EXPECT_FALSE(IsEqualGUID(last_byte_differs, copy));
  EXPECT_TRUE(IsEqualGUID(copy, GUID_DEVINTERFACE_I2C));
}

// Types of native code have their Windows sizes, and a table can be filled with Win64 functions.
NTSTATUS NTAPI add_device(IN_CONST_PDEVICE_OBJECT, OUT_PPVOID context) {
  *context = nullptr;
  return STATUS_SUCCESS;
}

TEST(AbiVersions, ATableTakesAndCallsWin64Functions) {
  DRIVER_INITIALIZATION_DATA data{};
  data.Version = DXGKDDI_INTERFACE_VERSION;
  data.DxgkDdiAddDevice = add_device;
  void* context = &data;
  EXPECT_EQ(data.DxgkDdiAddDevice(nullptr, &context), STATUS_SUCCESS);
  EXPECT_EQ(context, nullptr);
}

}  // namespace
}  // namespace dxgkit::abi
