// The registry: text forms, and every call with its buffer protocol.
#include <gtest/gtest.h>
#include <ntddk.h>

#include <vector>

#include "nt/registry_store.h"
#include "nt/test_world.h"

namespace dxgkit::nt {
namespace {

constexpr int32_t kTooSmall = nt_status(0xC0000023), kOverflow = nt_status(0x80000005),
                  kNotFound = nt_status(0xC0000034);

RegistryValue value_of(const Registry& registry, const char16_t* path, const char16_t* name) {
  const auto key = registry.find(path);
  EXPECT_NE(key, nullptr);
  if (key == nullptr) return {};
  const auto found = key->values.find(std::u16string_view(name));
  EXPECT_NE(found, key->values.end());
  return found == key->values.end() ? RegistryValue{} : found->second;
}
std::string hex(const RegistryValue& value) {
  std::string out = std::to_string(value.type) + ":";
  for (const std::byte byte : value.data) {
    out += "0123456789abcdef"[static_cast<unsigned>(byte) >> 4];
    out += "0123456789abcdef"[static_cast<unsigned>(byte) & 15];
  }
  return out;
}

/// Both formats give the same tree, each type its bytes; what is written out reads in the same.
TEST(RegistryText, ReadsBothFormatsAndWritesItBack) {
  const char* const texts[] = {
      R"([device]
Flags = 0x1234
Neg = -1
On = true
Big = 4294967296
Name = "a\u00e9"
List = ["x", "yz"]
Empty = []
Path = { type = "expand_sz", value = '%SystemRoot%\x' }
Blob = { type = "binary", value = "00 1f,2A" }
Top = { type = "qword", value = "0xFFFFFFFFFFFFFFFF" }
Raw = { type = "sz", data = "41 00" }
Odd = { type = "4660", data = "01" }
[device.Sub.Deep]
"" = "default"
["\\Registry\\Machine\\System\\CurrentControlSet\\Control\\GraphicsDrivers"]
TdrLevel = 3
)",
      R"({"device": {"Flags": 4660, "Neg": -1, "On": true, "Big": 4294967296, "Name": "a\u00e9",
 "List": ["x", "yz"], "Empty": [], "Path": {"type": "expand_sz", "value": "%SystemRoot%\\x"},
 "Blob": {"type": "binary", "value": "00 1f,2A"},
 "Top": {"type": "qword", "value": 18446744073709551615},
 "Raw": {"type": "sz", "data": "4100"}, "Odd": {"type": "4660", "data": "01"},
 "Sub": {"Deep": {"": "default"}}},
 "\\Registry\\Machine\\System\\CurrentControlSet\\Control\\GraphicsDrivers": {"TdrLevel": 3}})"};
  for (const char* text : texts) {
    std::string message;
    auto registry = parse_registry(text, &message);
    ASSERT_TRUE(registry.has_value()) << message;
    for (int round = 0; round < 2; ++round) {
      const char16_t* device = u"\\REGISTRY\\machine\\dxgkit\\DEVICE";
      const auto get = [&](const char16_t* name) { return hex(value_of(*registry, device, name)); };
      EXPECT_EQ(get(u"flags"), "4:34120000");
      EXPECT_EQ(get(u"Neg"), "4:ffffffff");
      EXPECT_EQ(get(u"On"), "4:01000000");
      EXPECT_EQ(get(u"Big"), "11:0000000001000000");
      EXPECT_EQ(get(u"Name"), "1:6100e9000000");
      EXPECT_EQ(get(u"List"), "7:7800000079007a0000000000");
      EXPECT_EQ(get(u"Empty"), "7:0000");
      EXPECT_EQ(get(u"Path"), "2:2500530079007300740065006d0052006f006f00740025005c0078000000");
      EXPECT_EQ(get(u"Blob"), "3:001f2a");
      EXPECT_EQ(get(u"Top"), "11:ffffffffffffffff");
      EXPECT_EQ(get(u"Raw"), "1:4100");
      EXPECT_EQ(get(u"Odd"), "4660:01");
      EXPECT_EQ(hex(value_of(*registry, u"\\Registry\\Machine\\dxgkit\\Device\\Sub\\Deep", u"")),
                "1:640065006600610075006c0074000000");
      EXPECT_EQ(
          hex(value_of(*registry,
                       u"\\Registry\\Machine\\System\\CurrentControlSet\\Control\\GraphicsDrivers",
                       u"TdrLevel")),
          "4:03000000");
      const std::string written = registry->to_text();
      registry = parse_registry(written, &message);
      ASSERT_TRUE(registry.has_value()) << message << "\n" << written;
      EXPECT_EQ(registry->to_text(), written);
    }
  }
}

/// Hostile text: refused with a reason that names the place; nothing recurses without bound.
TEST(RegistryText, RefusesWithTheLineOrTheKey) {
  DXGKIT_COVERS("NT-23");
  struct Case {
    std::string text, says;
  };
  const Case cases[] = {
      {"[device]\nA = ", "line 2"},
      {"[device]\nA = 1\nA = 2\n", "line 3"},
      {"[device]\nA = 1\na = 2\n", "device\\a: given twice"},
      {"A = 1\n", "only keys stand at the top"},
      {"[elsewhere]\nA = 1\n", "begins with \\Registry\\"},
      {"[device]\nA = 1.5\n", "line 2, device\\A"},
      {"[device]\nA = [1]\n", "a list holds texts"},
      {"[device]\nA = [\"\"]\n", "a list holds texts"},
      {"[device]\nA = { type = \"binary\", value = \"0\" }\n", "line 2"},
      {"[device]\nA = { type = \"no\", value = \"0\" }\n", "'no' is no type"},
      {"[device]\nA = { type = \"dword\", value = 4294967296 }\n", "fits no dword"},
      {"[device]\nA = -2147483649\n", "fits no dword"},
      {"[device.\"a\\\\b\"]\nA = 1\n", "no backslash"},
      {"{\"device\": {\"A\": 1}", "line 1"},
      {"{\"device\":\n{\"A\": null}}", "device\\A"},
      {"{\"device\":\n{\"A\": tru}}", "line 2"},
      {std::string(200'000, '['), "nest deeper"},
      {"{\"service\": {\"A\": 1e999}}", "number overflow"},
      {"[service]\nA = \u00E9", "line 2"},
      {"[service]\nA = 1\n[{\"x\"]", "begins no key"},
      {std::string("[service]\n[\0", 12), "line 2: a control character (0x00)"},
      {"[service]\nA = \"\x7F\"", "line 2: a control character (0x7f)"},
      {"{\"device\": " + std::string(100'000, '{'), "nest deeper"},
      {"[device]\n" + std::string(100'000, 'a') + std::string(50'000, '.') + " = 1", "dots"},
      {std::string(kRegistryTextMax + 1, ' '), "at most"},
  };
  for (const Case& test : cases) {
    std::string message;
    const auto registry = parse_registry(test.text, &message);
    EXPECT_FALSE(registry.has_value()) << test.text.substr(0, 80);
    EXPECT_NE(message.find(test.says), std::string::npos)
        << test.text.substr(0, 80) << " -> " << message;
  }
  EXPECT_TRUE(parse_registry("", nullptr).has_value());
}

struct Calls {
  ExportCall<int32_t(void**, uint32_t, ObjectAttributes*)> open{"ZwOpenKey"};
  ExportCall<int32_t(void**, uint32_t, ObjectAttributes*, uint32_t, UnicodeString*, uint32_t,
                     uint32_t*)>
      create{"ZwCreateKey"};
  ExportCall<int32_t(void*, UnicodeString*, uint32_t, void*, uint32_t, uint32_t*)> query{
      "ZwQueryValueKey"};
  ExportCall<int32_t(void*, uint32_t, uint32_t, void*, uint32_t, uint32_t*)> enumerate_values{
      "ZwEnumerateValueKey"},
      enumerate{"ZwEnumerateKey"};
  ExportCall<int32_t(void*, uint32_t, void*, uint32_t, uint32_t*)> query_key{"ZwQueryKey"};
  ExportCall<int32_t(void*, UnicodeString*, uint32_t, uint32_t, const void*, uint32_t)> set{
      "ZwSetValueKey"};
  ExportCall<int32_t(void*)> close{"ZwClose"}, remove{"ZwDeleteKey"}, flush{"ZwFlushKey"};
  ExportCall<int32_t(void*, UnicodeString*)> remove_value{"ZwDeleteValueKey"};
  ExportCall<int32_t(void*, uint32_t, uint32_t, void**)> open_device{"IoOpenDeviceRegistryKey"};
};

ObjectAttributes attributes(UnicodeString* name, void* root = nullptr) {
  return {sizeof(ObjectAttributes), root, name, 0x240, nullptr, nullptr};
}

KernelConfig config() {
  KernelConfig result;
  auto& device = result.registry[KernelConfig::kDeviceKey];
  device["Alpha"] = RegistryValue::dword(7);
  device["Beta"] = RegistryValue::string(u"text");
  result.registry[std::string(KernelConfig::kDeviceKey) + "\\Child"]["X"] = RegistryValue::dword(1);
  return result;
}

/// Every query class tells the needed size, gives nothing below its fixed part and a cut copy in
/// between.
TEST(RegistryCalls, FollowTheBufferProtocol) {
  in_both_modes([] {
    World world(config());
    with_frame(world.kernel, kPassiveLevel, [&] {
      const Calls call;
      void* key = nullptr;
      ASSERT_EQ(call.open_device(&world, 1, 0, &key), 0);
      Text beta(u"beta");
      struct Class {
        uint32_t number, fixed, needed;
      };
      for (const Class& test : {Class{0, 12, 12 + 8},
                                {1, 20, 32 + 10},
                                {2, 12, 12 + 10},
                                {3, 20, 32 + 10},
                                {4, 8, 8 + 10}}) {
        std::vector<std::byte> whole(test.needed);
        uint32_t needed = 0;
        ASSERT_EQ(call.query(key, beta.get(), test.number, whole.data(), test.needed, &needed), 0);
        EXPECT_EQ(needed, test.needed);
        for (uint32_t length = 0; length < test.needed; ++length) {
          std::vector<std::byte> out(test.needed + 8, std::byte{0xEE});
          needed = 0;
          const int32_t status =
              call.query(key, beta.get(), test.number, out.data(), length, &needed);
          EXPECT_EQ(status, length < test.fixed ? kTooSmall : kOverflow) << length;
          EXPECT_EQ(needed, test.needed);
          const size_t copied = length < test.fixed ? 0 : length;
          EXPECT_TRUE(
              std::equal(out.begin(), out.begin() + static_cast<ptrdiff_t>(copied), whole.begin()));
          EXPECT_EQ(out[copied], std::byte{0xEE});
        }
      }
      uint32_t partial[16] = {};
      uint32_t needed = 0;
      EXPECT_EQ(call.query(key, beta.get(), 2, partial, sizeof(partial), &needed), 0);
      EXPECT_EQ(partial[1], 1u);
      EXPECT_EQ(partial[2], 10u);
      EXPECT_EQ(call.query(key, beta.get(), 9, partial, sizeof(partial), &needed),
                nt_status(0xC000000D));
      Text absent(u"gamma");
      EXPECT_EQ(call.query(key, absent.get(), 2, partial, sizeof(partial), &needed), kNotFound);
      UnicodeString odd{3, 4, absent.units.data()};
      EXPECT_EQ(call.query(key, &odd, 2, partial, sizeof(partial), &needed), nt_status(0xC000000D));
      EXPECT_EQ(call.query(&world, beta.get(), 2, partial, sizeof(partial), &needed),
                nt_status(0xC0000008));
      EXPECT_EQ(call.close(key), 0);
    });
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

TEST(RegistryCalls, CreateSetEnumerateAndDelete) {
  in_both_modes([] {
    World world(config());
    with_frame(world.kernel, kPassiveLevel, [&] {
      const Calls call;
      void* device = nullptr;
      ASSERT_EQ(call.open_device(&world, 1, 0, &device), 0);
      uint32_t disposition = 0;
      void* key = nullptr;
      Text deep(u"New\\Deeper"), fresh(u"New"), again(u"NEW");
      ObjectAttributes where = attributes(deep.get(), device);
      EXPECT_EQ(call.create(&key, 0, &where, 0, nullptr, 0, &disposition), kNotFound);
      where = attributes(fresh.get(), device);
      EXPECT_EQ(call.open(&key, 0, &where), kNotFound);
      ASSERT_EQ(call.create(&key, 0, &where, 0, nullptr, 0, &disposition), 0);
      EXPECT_EQ(disposition, 1u);
      void* same = nullptr;
      where = attributes(again.get(), device);
      ASSERT_EQ(call.create(&same, 0, &where, 0, nullptr, 0, &disposition), 0);
      EXPECT_EQ(disposition, 2u);
      Text name(u"Value");
      const uint32_t number = 0x55;
      EXPECT_EQ(call.set(key, name.get(), 0, 4, &number, 4), 0);
      uint32_t partial[4] = {};
      uint32_t needed = 0;
      EXPECT_EQ(call.query(same, name.get(), 2, partial, sizeof(partial), &needed), 0);
      EXPECT_EQ(partial[3], 0x55u);
      EXPECT_EQ(call.flush(key), 0);
      EXPECT_NE(registry_text(world.kernel).find("\"Value\" = 0x55"), std::string::npos);
      // Enumeration is in the order of names; it ends.
      uint32_t basic[32] = {};
      EXPECT_EQ(call.enumerate_values(device, 0, 0, basic, sizeof(basic), &needed), 0);
      EXPECT_EQ(basic[2], 10u);
      EXPECT_EQ(std::memcmp(basic + 3, u"Alpha", 10), 0);
      EXPECT_EQ(call.enumerate_values(device, 2, 0, basic, sizeof(basic), &needed),
                nt_status(0x8000001A));
      EXPECT_EQ(call.enumerate(device, 1, 0, basic, sizeof(basic), &needed), 0);
      EXPECT_EQ(basic[3], 6u);
      EXPECT_EQ(std::memcmp(basic + 4, u"New", 6), 0);
      EXPECT_EQ(call.enumerate(device, 2, 0, basic, sizeof(basic), &needed), nt_status(0x8000001A));
      EXPECT_EQ(call.query_key(device, 2, basic, sizeof(basic), &needed), 0);
      EXPECT_EQ(basic[5], 2u);   // subkeys
      EXPECT_EQ(basic[6], 10u);  // longest name, bytes
      EXPECT_EQ(basic[8], 2u);   // values
      EXPECT_EQ(basic[10], 10u);
      EXPECT_EQ(call.query_key(key, 3, basic, sizeof(basic), &needed), 0);
      EXPECT_EQ(needed, 4 + 2 * std::strlen("\\Registry\\Machine\\dxgkit\\Device\\New"));
      // Deleting: not with children, once, and open handles say so.
      EXPECT_EQ(call.remove(device), nt_status(0xC0000121));
      EXPECT_EQ(call.remove_value(key, name.get()), 0);
      EXPECT_EQ(call.remove_value(key, name.get()), kNotFound);
      EXPECT_EQ(call.remove(key), 0);
      EXPECT_EQ(call.set(same, name.get(), 0, 4, &number, 4), nt_status(0xC000017C));
      EXPECT_EQ(call.remove(same), nt_status(0xC000017C));
      EXPECT_EQ(call.open(&key, 0, &where), kNotFound);
      for (void* handle : {key, same, device}) EXPECT_EQ(call.close(handle), 0);
    });
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

TEST(RegistryCalls, RefuseWhatIsMalformed) {
  DXGKIT_COVERS("NT-39");
  in_both_modes([] {
    World world(config());
    with_frame(world.kernel, kPassiveLevel, [&] {
      const Calls call;
      void* key = nullptr;
      Text relative(u"Machine"), elsewhere(u"\\Device\\X"), prefix(u"\\RegistryX"),
          machine(u"\\Registry\\Machine\\System");
      ObjectAttributes where = attributes(relative.get());
      EXPECT_EQ(call.open(&key, 0, &where), nt_status(0xC000003B));
      where = attributes(elsewhere.get());
      EXPECT_EQ(call.open(&key, 0, &where), kNotFound);
      where = attributes(prefix.get());
      EXPECT_EQ(call.open(&key, 0, &where), kNotFound);
      where = attributes(machine.get(), &world);
      EXPECT_EQ(call.open(&key, 0, &where), nt_status(0xC0000008));
      where = attributes(machine.get());
      where.length = 40;
      EXPECT_EQ(call.open(&key, 0, &where), nt_status(0xC000000D));
      EXPECT_EQ(world.findings.total(), 1u) << world.findings_text();
      EXPECT_EQ(world.findings.count("NT-39"), 1u);
      EXPECT_EQ(call.open(&key, 0, nullptr), nt_status(0xC000000D));
      const std::u16string long_name(300, u'x');
      Text too_long((u"\\Registry\\Machine\\" + long_name).c_str());
      where = attributes(too_long.get());
      EXPECT_EQ(call.create(&key, 0, &where, 0, nullptr, 0, nullptr), nt_status(0xC000000D));
      EXPECT_EQ(key, nullptr);
      EXPECT_EQ(call.open_device(nullptr, 1, 0, &key), nt_status(0xC0000010));
      EXPECT_EQ(call.open_device(&world, 3, 0, &key), nt_status(0xC000000D));
      EXPECT_EQ(call.open_device(&world, 5, 0, &key), nt_status(0xC00000BB));
      EXPECT_EQ(call.open_device(&world, 2, 0, &key), 0);
      EXPECT_EQ(call.set(key, nullptr, 0, 4, &key, 4), nt_status(0xC000000D));
      // Volatile parents have volatile children only.
      Text child(u"V"), grand(u"G");
      ObjectAttributes below = attributes(child.get(), key);
      void *first = nullptr, *second = nullptr;
      EXPECT_EQ(call.create(&first, 0, &below, 0, nullptr, 1, nullptr), 0);
      below = attributes(grand.get(), first);
      EXPECT_EQ(call.create(&second, 0, &below, 0, nullptr, 0, nullptr), nt_status(0xC0000181));
      call.close(first);
      call.close(key);
    });
    EXPECT_TRUE(world.kernel.leaks().empty());
    expect_bug_check("NT-01", 0x7E, [] { Calls().open(nullptr, 0, nullptr); });
  });
}

struct Query {  // RTL_QUERY_REGISTRY_TABLE
  void* routine = nullptr;
  uint32_t flags = 0;
  const char16_t* name = nullptr;
  void* context = nullptr;
  uint32_t default_type = 0;
  const void* default_data = nullptr;
  uint32_t default_length = 0;
};
DXGKIT_NT_ABI int32_t collect(const char16_t* name, uint32_t type, const void* data, uint32_t bytes,
                              void* context, void*) {
  auto& out = *static_cast<std::vector<std::string>*>(context);
  std::string line;
  for (const char16_t* at = name; at != nullptr && *at != 0; ++at) line += static_cast<char>(*at);
  line += ":" + std::to_string(type) + ":" + std::to_string(bytes);
  if (type == 1) {
    line += ":";
    for (uint32_t i = 0; i + 2 < bytes; i += 2) line += static_cast<const char*>(data)[i];
  }
  out.push_back(line);
  return 0;
}

TEST(RegistryCalls, QueryTablesAndRelativeWrites) {
  in_both_modes([] {
    KernelConfig with = config();
    auto& device = with.registry[KernelConfig::kDeviceKey];
    std::string message;
    const auto extra = parse_registry(
        "[device]\nList = [\"a\", \"bc\"]\nPath = { type = \"expand_sz\", value = "
        "\"%systemroot%\\\\x\" }\nBlob = { type = \"binary\", value = \"01 02 03 04 05 06\" }",
        &message);
    ASSERT_TRUE(extra.has_value()) << message;
    const auto values = extra->to_map().at(KernelConfig::kDeviceKey);
    device.insert(values.begin(), values.end());
    World world(std::move(with));
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      const ExportCall<int32_t(uint32_t, const char16_t*, const Query*, void*, void*)> query(
          "RtlQueryRegistryValues");
      const char16_t* path = u"\\Registry\\Machine\\dxgkit\\Device";
      uint32_t alpha = 0, absent = 0;
      const uint32_t fallback = 42;
      UnicodeString text{0, 0, nullptr};
      int32_t blob[4] = {-16, 0, 0, 0};
      constexpr uint32_t kDirect = 0x20, kRequired = 4, kTypeCheck = 0x100;
      const Query direct[] = {
          {nullptr, kDirect | kRequired | kTypeCheck, u"alpha", &alpha, 4U << 24, nullptr, 0},
          {nullptr, kDirect, u"nothing", &absent, 4, &fallback, 4},
          {nullptr, kDirect, u"Path", &text, 0, nullptr, 0},
          {nullptr, kDirect, u"Blob", blob, 0, nullptr, 0},
          {}};
      EXPECT_EQ(query(0, path, direct, nullptr, nullptr), 0);
      EXPECT_EQ(alpha, 7u);
      EXPECT_EQ(absent, 42u);
      EXPECT_EQ(std::u16string(text.buffer, text.length / 2U), u"C:\\Windows\\x");
      EXPECT_EQ(blob[0], 0x04030201);
      ExportCall<void(UnicodeString*)>("RtlFreeUnicodeString")(&text);
      const Query wrong[] = {
          {nullptr, kDirect | kTypeCheck, u"alpha", &alpha, 1U << 24, nullptr, 0}, {}};
      EXPECT_EQ(query(0, path, wrong, nullptr, nullptr), nt_status(0xC0000024));
      const Query missing[] = {{nullptr, kDirect | kRequired, u"nothing", &alpha, 0, nullptr, 0},
                               {}};
      EXPECT_EQ(query(0, path, missing, nullptr, nullptr), kNotFound);
      const Query unnamed[] = {{nullptr, kDirect, nullptr, &alpha, 0, nullptr, 0}, {}};
      EXPECT_EQ(query(0, path, unnamed, nullptr, nullptr), nt_status(0xC000000D));
      std::vector<std::string> lines;
      void* const routine = reinterpret_cast<void*>(&collect);
      const Query all[] = {{routine, 0, u"List", nullptr, 0, nullptr, 0},
                           {routine, 1, u"Child", nullptr, 0, nullptr, 0},
                           {routine, 2, u"Beta", nullptr, 0, nullptr, 0},
                           {}};
      EXPECT_EQ(query(0, path, all, &lines, nullptr), 0);
      EXPECT_EQ(lines,
                (std::vector<std::string>{"List:1:4:a", "List:1:6:bc", "X:4:4", "Beta:1:10:text"}));
      // Relative to services, the way drivers keep their parameters.
      const ExportCall<int32_t(uint32_t, const char16_t*, const char16_t*, uint32_t, const void*,
                               uint32_t)>
          write("RtlWriteRegistryValue");
      const ExportCall<int32_t(uint32_t, const char16_t*)> check("RtlCheckRegistryKey");
      const ExportCall<int32_t(uint32_t, const char16_t*, const char16_t*)> remove(
          "RtlDeleteRegistryValue");
      EXPECT_EQ(check(1, u"dxgkit\\Made"), kNotFound);
      EXPECT_EQ(write(1, u"dxgkit\\Made", u"N", 4, &fallback, 4), 0);
      EXPECT_EQ(check(1, u"dxgkit\\Made"), 0);
      EXPECT_EQ(remove(1, u"dxgkit\\Made", u"n"), 0);
      EXPECT_EQ(remove(1, u"dxgkit\\Made", u"n"), kNotFound);
      EXPECT_EQ(check(17, u"x"), nt_status(0xC000000D));
      EXPECT_EQ(check(0, u"\\Elsewhere"), kNotFound);
    }));
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

TEST(RegistryCalls, DevicePropertiesComeWholeOrNotAtAll) {
  in_both_modes([] {
    KernelConfig with;
    with.registry[KernelConfig::kPropertiesKey]["BusNumber"] = RegistryValue::dword(3);
    with.registry[KernelConfig::kPropertiesKey]["HardwareID"] = RegistryValue::string(u"PCI\\X");
    World world(std::move(with));
    with_frame(world.kernel, kPassiveLevel, [&] {
      const ExportCall<int32_t(void*, uint32_t, uint32_t, void*, uint32_t*)> property(
          "IoGetDeviceProperty");
      uint32_t bus = 0, needed = 99;
      EXPECT_EQ(property(&world, 14, 4, &bus, &needed), 0);
      EXPECT_EQ(bus, 3u);
      EXPECT_EQ(needed, 4u);
      char16_t text[8] = {};
      EXPECT_EQ(property(&world, 1, 10, text, &needed), kTooSmall);
      EXPECT_EQ(needed, 12u);
      EXPECT_EQ(text[0], 0);
      EXPECT_EQ(property(&world, 1, 12, text, &needed), 0);
      EXPECT_EQ(property(&world, 9, 12, text, &needed), kNotFound);
      EXPECT_EQ(needed, 0u);
      EXPECT_EQ(property(&world, 99, 12, text, &needed), nt_status(0xC00000F0));
      EXPECT_EQ(property(nullptr, 1, 12, text, &needed), nt_status(0xC0000010));
    });
  });
}

}  // namespace
}  // namespace dxgkit::nt
