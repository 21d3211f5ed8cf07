// Strings, bitmaps, times, the C library, pages and system answers, called as a driver calls them.
#include <gtest/gtest.h>
#include <ntddk.h>

#include <algorithm>
#include <vector>

#include "nt/test_world.h"

namespace dxgkit::nt {
namespace {

template <typename Body>
void as_driver(const Body& body) {
  in_both_modes([&] {
    World world;
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, body));
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
  });
}

/// Compare, prefix and case work beyond ASCII; conversions stop at the buffer; odd and empty
/// strings are safe.
TEST(RtlStrings, CompareConvertAndAppend) {
  DXGKIT_COVERS("NT-23");
  as_driver([] {
    const ExportCall<int32_t(UnicodeString*, UnicodeString*, uint8_t)> compare(
        "RtlCompareUnicodeString");
    const ExportCall<uint8_t(UnicodeString*, UnicodeString*, uint8_t)> prefix(
        "RtlPrefixUnicodeString"),
        equal("RtlEqualUnicodeString");
    Text lower(u"stra\u00dfe\u00e4\u0436"), upper(u"STRA\u00dfE\u00c4\u0416"), start(u"STR"),
        empty(u"");
    EXPECT_NE(compare(lower.get(), upper.get(), 0), 0);
    EXPECT_EQ(compare(lower.get(), upper.get(), 1), 0);
    EXPECT_EQ(equal(lower.get(), upper.get(), 1), 1);
    EXPECT_EQ(prefix(start.get(), lower.get(), 1), 1);
    EXPECT_EQ(prefix(start.get(), lower.get(), 0), 0);
    EXPECT_EQ(prefix(lower.get(), start.get(), 1), 0);
    EXPECT_EQ(prefix(empty.get(), empty.get(), 0), 1);
    EXPECT_LT(compare(start.get(), upper.get(), 0), 0);
    const ExportCall<int32_t(UnicodeString*, UnicodeString*)> append(
        "RtlAppendUnicodeStringToString");
    Text out(size_t{5});
    EXPECT_EQ(append(out.get(), start.get()), 0);
    EXPECT_EQ(append(out.get(), start.get()), nt_status(0xC0000023));
    EXPECT_EQ(out.value(), u"STR");
    EXPECT_EQ(out.units[3], 0);
    const ExportCall<int32_t(AnsiString*, UnicodeString*, uint8_t)> to_ansi(
        "RtlUnicodeStringToAnsiString");
    char buffer[4] = {};
    AnsiString ansi{0, 4, buffer};
    EXPECT_EQ(to_ansi(&ansi, upper.get(), 0), nt_status(0x80000005));
    EXPECT_STREQ(buffer, "STR");
    EXPECT_EQ(ansi.length, 3);
    EXPECT_EQ(to_ansi(&ansi, upper.get(), 1), 0);
    EXPECT_EQ(std::string(ansi.buffer, ansi.length),
              "STRA\xdf"
              "E\xc4?");
    ExportCall<void(AnsiString*)>("RtlFreeAnsiString")(&ansi);
    EXPECT_EQ(ansi.buffer, nullptr);
    const ExportCall<int32_t(UnicodeString*, UnicodeString*, uint8_t)> upcase(
        "RtlUpcaseUnicodeString");
    UnicodeString raised{};
    EXPECT_EQ(upcase(&raised, lower.get(), 1), 0);
    EXPECT_EQ(std::u16string(raised.buffer, raised.length / 2U), upper.value());
    ExportCall<void(UnicodeString*)>("RtlFreeUnicodeString")(&raised);
    Text narrow_out(size_t{2});
    EXPECT_EQ(upcase(narrow_out.get(), lower.get(), 0), nt_status(0x80000005));
    EXPECT_EQ(narrow_out.string.length, 0);
    const ExportCall<int32_t(uint32_t, UnicodeString*)> validate("RtlValidateUnicodeString");
    UnicodeString odd{3, 4, start.units.data()}, longer{8, 4, start.units.data()},
        hollow{0, 4, nullptr};
    EXPECT_EQ(validate(0, start.get()), 0);
    for (UnicodeString* bad : {&odd, &longer, &hollow})
      EXPECT_EQ(validate(0, bad), nt_status(0xC000000D));
    const std::u16string huge(40'000, u'x');
    UnicodeString over{};
    EXPECT_EQ(ExportCall<int32_t(UnicodeString*, const char16_t*)>("RtlInitUnicodeStringEx")(
                  &over, huge.c_str()),
              nt_status(0xC0000106));
    EXPECT_EQ(over.buffer, nullptr);
    char utf8[8] = {};
    uint32_t written = 0;
    const ExportCall<int32_t(char*, uint32_t, uint32_t*, const char16_t*, uint32_t)> to_utf8(
        "RtlUnicodeToUTF8N");
    EXPECT_EQ(to_utf8(utf8, 8, &written, u"a\u00e4\U0001F600", 8), 0);
    EXPECT_EQ(std::string(utf8, written), "a\xc3\xa4\xf0\x9f\x98\x80");
    EXPECT_EQ(to_utf8(utf8, 3, &written, u"a\u00e4\U0001F600", 8), nt_status(0xC0000023));
  });
}

TEST(RtlStrings, NumbersAndGuids) {
  as_driver([] {
    const ExportCall<int32_t(UnicodeString*, uint32_t, uint32_t*)> parse(
        "RtlUnicodeStringToInteger");
    const auto number = [&](const char16_t* text, uint32_t base) {
      Text string(text);
      uint32_t value = 0xBAD;
      EXPECT_EQ(parse(string.get(), base, &value), 0);
      return value;
    };
    EXPECT_EQ(number(u" 42x", 10), 42u);
    EXPECT_EQ(number(u"0x1F", 0), 0x1Fu);
    EXPECT_EQ(number(u"-1", 10), UINT32_MAX);
    EXPECT_EQ(number(u"0b101", 0), 5u);
    Text any(u"7");
    uint32_t value = 0;
    EXPECT_EQ(parse(any.get(), 7, &value), nt_status(0xC000000D));
    Text small(size_t{3});
    const ExportCall<int32_t(uint64_t, uint32_t, UnicodeString*)> print("RtlInt64ToUnicodeString");
    EXPECT_EQ(print(0xABC, 16, small.get()), 0);
    EXPECT_EQ(small.value(), u"ABC");
    EXPECT_EQ(print(0xABCD, 16, small.get()), nt_status(0x80000005));
    const ExportCall<int32_t(UnicodeString*, GUID*)> read("RtlGUIDFromString");
    const ExportCall<int32_t(const GUID*, UnicodeString*)> write("RtlStringFromGUID");
    Text text(u"{5B45201D-F2F2-4F3B-85BB-30FF1F953599}");
    GUID guid{};
    EXPECT_EQ(read(text.get(), &guid), 0);
    EXPECT_EQ(guid.Data1, 0x5B45201Du);
    EXPECT_EQ(guid.Data4[7], 0x99);
    UnicodeString back{};
    EXPECT_EQ(write(&guid, &back), 0);
    EXPECT_EQ(std::u16string(back.buffer, back.length / 2U), text.value());
    ExportCall<void(UnicodeString*)>("RtlFreeUnicodeString")(&back);
    for (const char16_t* bad :
         {u"", u"{5B45201D-F2F2-4F3B-85BB-30FF1F95359}", u"{5B45201D+F2F2-4F3B-85BB-30FF1F953599}",
          u"{5B45201G-F2F2-4F3B-85BB-30FF1F953599}"}) {
      Text wrong(bad);
      EXPECT_EQ(read(wrong.get(), &guid), nt_status(0xC000000D));
    }
    EXPECT_EQ(read(nullptr, &guid), nt_status(0xC000000D));
  });
}

struct Map {
  uint32_t bits;
  uint32_t* words;
};

TEST(RtlBitmaps, FindRunsAndRespectTheEnd) {
  as_driver([] {
    uint32_t words[2] = {0x0000FF0F, 0};
    Map map{40, words};
    const ExportCall<uint8_t(Map*, uint32_t, uint32_t)> all_set("RtlAreBitsSet"),
        all_clear("RtlAreBitsClear");
    const ExportCall<uint32_t(Map*, uint32_t, uint32_t*)> next("RtlFindNextForwardRunClear");
    const ExportCall<uint32_t(Map*, uint32_t*)> longest("RtlFindLongestRunClear");
    EXPECT_EQ(all_set(&map, 0, 4), 1);
    EXPECT_EQ(all_set(&map, 0, 5), 0);
    EXPECT_EQ(all_clear(&map, 16, 24), 1);
    EXPECT_EQ(all_clear(&map, 16, 25), 0);
    EXPECT_EQ(all_clear(&map, 39, UINT32_MAX), 0);
    EXPECT_EQ(all_clear(&map, 4, 0), 0);
    uint32_t start = 0;
    EXPECT_EQ(next(&map, 0, &start), 4u);
    EXPECT_EQ(start, 4u);
    EXPECT_EQ(longest(&map, &start), 24u);
    EXPECT_EQ(start, 16u);
    EXPECT_EQ(ExportCall<uint32_t(Map*)>("RtlNumberOfClearBits")(&map), 28u);
    const ExportCall<uint32_t(Map*, uint32_t, uint32_t)> take("RtlFindSetBitsAndClear");
    EXPECT_EQ(take(&map, 8, 0), 8u);
    EXPECT_EQ(words[0], 0x0Fu);
    EXPECT_EQ(take(&map, 8, 0), UINT32_MAX);
    ExportCall<void(Map*, uint32_t)>("RtlSetBit")(&map, 40);  // past the end: ignored
    EXPECT_EQ(words[1], 0u);
    EXPECT_EQ(ExportCall<int8_t(uint64_t)>("RtlFindMostSignificantBit")(0x8000), 15);
    EXPECT_EQ(ExportCall<int8_t(uint64_t)>("RtlFindLeastSignificantBit")(0), -1);
  });
}

TEST(RtlTime, ConvertsBothWays) {
  as_driver([] {
    struct Fields {
      int16_t year, month, day, hour, minute, second, milliseconds, weekday;
    };
    const ExportCall<void(const int64_t*, Fields*)> to_fields("RtlTimeToTimeFields");
    const ExportCall<uint8_t(const Fields*, int64_t*)> to_time("RtlTimeFieldsToTime");
    // 2024-02-29 23:59:58.007, a Thursday.
    const int64_t seconds_1970 = 1'709'251'198;
    const int64_t time = (seconds_1970 + 11'644'473'600) * 10'000'000 + 70'000;
    Fields fields{};
    to_fields(&time, &fields);
    EXPECT_EQ(fields.year, 2024);
    EXPECT_EQ(fields.month, 2);
    EXPECT_EQ(fields.day, 29);
    EXPECT_EQ(fields.hour, 23);
    EXPECT_EQ(fields.minute, 59);
    EXPECT_EQ(fields.second, 58);
    EXPECT_EQ(fields.milliseconds, 7);
    EXPECT_EQ(fields.weekday, 4);
    int64_t back = 0;
    EXPECT_EQ(to_time(&fields, &back), 1);
    EXPECT_EQ(back, time);
    fields.year = 2023;
    EXPECT_EQ(to_time(&fields, &back), 0);
    uint32_t seconds = 0;
    EXPECT_EQ(ExportCall<uint8_t(const int64_t*, uint32_t*)>("RtlTimeToSecondsSince1970")(&time,
                                                                                          &seconds),
              1);
    EXPECT_EQ(seconds, seconds_1970);
    const int64_t first = 0;
    to_fields(&first, &fields);
    EXPECT_EQ(fields.year, 1601);
    EXPECT_EQ(fields.day, 1);
    EXPECT_EQ(fields.weekday, 1);
    EXPECT_EQ(ExportCall<uint32_t(const void*, uint64_t, uint32_t)>("RtlCrc32")("123456789", 9, 0),
              0xCBF43926u);
  });
}

DXGKIT_NT_ABI int by_value(const void* a, const void* b) {
  int32_t x = 0, y = 0;
  std::memcpy(&x, a, 4);
  std::memcpy(&y, b, 4);
  return x < y ? -1 : x > y ? 1 : 0;
}

/// The checked forms leave an empty text and an error; counted ones stop; numbers saturate at 32
/// bits; sorting calls the driver.
TEST(Crt, ChecksSortsAndConverts) {
  as_driver([] {
    char text[8] = "xxxxxxx";
    const ExportCall<int(char*, size_t, const char*)> copy("strcpy_s"), append("strcat_s");
    EXPECT_EQ(copy(text, 8, "abc"), 0);
    EXPECT_EQ(append(text, 8, "defg"), 0);
    EXPECT_STREQ(text, "abcdefg");
    EXPECT_EQ(append(text, 8, "h"), 34);
    EXPECT_STREQ(text, "");
    EXPECT_EQ(copy(text, 3, "abc"), 34);
    EXPECT_EQ(copy(text, 8, nullptr), 22);
    EXPECT_EQ(copy(nullptr, 8, "a"), 22);
    const ExportCall<int(char*, size_t, const char*, size_t)> copy_n("strncpy_s");
    EXPECT_EQ(copy_n(text, 4, "abcdef", SIZE_MAX), 80);
    EXPECT_STREQ(text, "abc");
    EXPECT_EQ(copy_n(text, 4, "abcdef", 3), 0);
    EXPECT_STREQ(text, "abc");
    EXPECT_EQ(copy_n(text, 4, "abcdef", 4), 34);
    char16_t wide[4] = u"zzz";
    EXPECT_EQ(ExportCall<int(char16_t*, size_t, const char16_t*)>("wcscpy_s")(wide, 4, u"abcd"),
              34);
    EXPECT_EQ(wide[0], 0);
    const auto print_s = reinterpret_cast<int(DXGKIT_NT_ABI*)(char*, size_t, const char*, ...)>(
        const_cast<void*>(find_export("sprintf_s")->address));
    EXPECT_EQ(print_s(text, 8, "%d-%s", 12, "ab"), 5);
    EXPECT_STREQ(text, "12-ab");
    EXPECT_EQ(print_s(text, 4, "%d", 1234), -1);
    EXPECT_STREQ(text, "");
    const auto print_n =
        reinterpret_cast<int(DXGKIT_NT_ABI*)(char*, size_t, size_t, const char*, ...)>(
            const_cast<void*>(find_export("_snprintf_s")->address));
    EXPECT_EQ(print_n(text, 4, SIZE_MAX, "%d", 12345), -1);
    EXPECT_STREQ(text, "123");
    EXPECT_EQ(print_n(text, 8, 2, "%d", 12345), -1);
    EXPECT_STREQ(text, "12");
    const char* end = nullptr;
    const ExportCall<int32_t(const char*, const char**, int)> to_long("strtol");
    const ExportCall<uint32_t(const char*, const char**, int)> to_ulong("strtoul");
    const char* const source = " -0x10z";
    EXPECT_EQ(to_long(source, &end, 0), -16);
    EXPECT_EQ(end, source + 6);
    EXPECT_EQ(to_long("99999999999", nullptr, 10), INT32_MAX);
    EXPECT_EQ(to_long("-99999999999", nullptr, 10), INT32_MIN);
    EXPECT_EQ(to_long("-2147483648", nullptr, 10), INT32_MIN);
    EXPECT_EQ(to_ulong("4294967295", nullptr, 10), UINT32_MAX);
    EXPECT_EQ(to_ulong("99999999999999999999999", nullptr, 10), UINT32_MAX);
    EXPECT_EQ(to_ulong("zz", &end, 10), 0u);
    EXPECT_EQ(*end, 'z');
    EXPECT_EQ(ExportCall<int(const char16_t*, const char16_t*)>("_wcsicmp")(u"AbC", u"aBc"), 0);
    EXPECT_LT(ExportCall<int(const char*, const char*)>("_stricmp")("ab", "AC"), 0);
    char small[4] = "x";
    EXPECT_EQ(ExportCall<int(int32_t, char*, size_t, int)>("_itoa_s")(-12, small, 4, 10), 0);
    EXPECT_STREQ(small, "-12");
    EXPECT_EQ(ExportCall<int(int32_t, char*, size_t, int)>("_itoa_s")(-123, small, 4, 10), 34);
    std::vector<int32_t> values = {5, -1, 7, 7, 0, 100, -50, 3};
    const ExportCall<void(void*, size_t, size_t, void*)> sort("qsort");
    sort(values.data(), values.size(), 4, reinterpret_cast<void*>(&by_value));
    EXPECT_TRUE(std::ranges::is_sorted(values));
    EXPECT_EQ(std::ranges::count(values, 7), 2);
    const ExportCall<const int32_t*(const void*, const void*, size_t, size_t, void*)> search(
        "bsearch");
    const int32_t wanted = 100, absent = 4;
    EXPECT_EQ(search(&wanted, values.data(), values.size(), 4, reinterpret_cast<void*>(&by_value)),
              &values.back());
    EXPECT_EQ(search(&absent, values.data(), values.size(), 4, reinterpret_cast<void*>(&by_value)),
              nullptr);
    EXPECT_EQ(ExportCall<int(void*, size_t, const void*, size_t)>("memcpy_s")(small, 2, "abc", 3),
              34);
  });
}

/// Pages come with an MDL that can be mapped, and go once.
TEST(Pages, ByMdlAndByAddress) {
  DXGKIT_COVERS("NT-08");
  in_both_modes([] {
    World world;
    EXPECT_TRUE(run_as_driver(world.kernel, kPassiveLevel, [&] {
      const ExportCall<Mdl*(int64_t, int64_t, int64_t, uint64_t, uint32_t, uint32_t)> allocate(
          "MmAllocatePagesForMdlEx");
      const ExportCall<void(Mdl*)> free_pages("MmFreePagesFromMdl");
      const ExportCall<void(void*)> free_pool("ExFreePool");
      const ExportCall<void*(Mdl*, uint8_t, uint32_t, void*, uint32_t, uint32_t)> map(
          "MmMapLockedPagesSpecifyCache");
      const ExportCall<void(void*, Mdl*)> unmap("MmUnmapLockedPages");
      const uint64_t before = world.machine.free_page_count();
      EXPECT_EQ(allocate(0, -1, 0, 0, 1, 0), nullptr);
      EXPECT_EQ(allocate(0, 0xFFFF, 0, 8192, 1, 0), nullptr);  // nothing that low
      EXPECT_EQ(allocate(0, -1, 0, uint64_t{1} << 40, 1, 4), nullptr);
      EXPECT_EQ(world.machine.free_page_count(), before);
      Mdl* mdl = allocate(0, -1, 0, 8193, 1, 4);
      ASSERT_NE(mdl, nullptr);
      EXPECT_EQ(mdl->byte_count, 3 * 4096u);
      EXPECT_EQ(mdl->flags & kMdlPagesLocked, kMdlPagesLocked);
      auto* bytes = static_cast<std::byte*>(map(mdl, 0, 1, nullptr, 0, 0x40000010));
      ASSERT_NE(bytes, nullptr);
      bytes[4096] = std::byte{77};
      std::byte copy{};
      uint64_t copied = 0;
      const ExportCall<int32_t(void*, uint64_t, uint64_t, uint32_t, uint64_t*)> copy_memory(
          "MmCopyMemory");
      EXPECT_EQ(copy_memory(&copy, mdl->pages()[1] * 4096, 1, 1, &copied), 0);
      EXPECT_EQ(copy, std::byte{77});
      EXPECT_EQ(copied, 1u);
      EXPECT_EQ(copy_memory(&copy, 16, 1, 2, &copied), nt_status(0xC0000005));
      EXPECT_EQ(copied, 0u);
      EXPECT_EQ(copy_memory(&copy, 16, 1, 3, &copied), nt_status(0xC000000D));
      EXPECT_EQ(copy_memory(&copy, 16, 1, 1, &copied), nt_status(0xC000000D));
      unmap(bytes, mdl);
      free_pages(mdl);
      free_pool(mdl);
      EXPECT_EQ(world.machine.free_page_count(), before);
      struct Range {
        int64_t base, bytes;
      };
      const ExportCall<Range*()> ranges("MmGetPhysicalMemoryRanges");
      Range* all = ranges();
      EXPECT_EQ(all[0].base, 0x1000'0000);
      EXPECT_EQ(all[0].bytes, 32 << 20);
      EXPECT_EQ(all[1].base, 0x1'0000'0000);
      EXPECT_EQ(all[1].bytes, 32 << 20);
      EXPECT_EQ(all[2].bytes, 0);
      free_pool(all);
    }));
    EXPECT_TRUE(world.kernel.leaks().empty());
    EXPECT_EQ(world.findings.total(), 0u) << world.findings_text();
    expect_bug_check("NT-08", 0x4E, [] {
      Mdl mdl{};
      ExportCall<void(Mdl*)>("MmFreePagesFromMdl")(&mdl);
    });
  });
}

TEST(System, VersionsRoutinesAndRefusals) {
  DXGKIT_COVERS("NT-23");
  in_both_modes([] {
    World world;
    with_frame(world.kernel, kPassiveLevel, [&] {
      struct Version {
        uint32_t size, major, minor, build, platform;
        char16_t text[128];
        uint16_t rest[4];
      } version{};
      version.size = 276;
      version.rest[0] = 0xEEEE;
      const ExportCall<int32_t(Version*)> get("RtlGetVersion");
      EXPECT_EQ(get(&version), 0);
      EXPECT_EQ(version.major, 10u);
      EXPECT_GE(version.build, 22000u);
      EXPECT_EQ(version.rest[0], 0xEEEE);  // the short form is not overrun
      const ExportCall<uint64_t(uint64_t, uint32_t, uint8_t)> condition("VerSetConditionMask");
      const ExportCall<int32_t(Version*, uint32_t, uint64_t)> verify("RtlVerifyVersionInfo");
      const uint64_t at_least = condition(condition(0, 2, 3), 1, 3);
      Version wanted{};
      wanted.major = 6;
      wanted.minor = 3;
      EXPECT_EQ(verify(&wanted, 3, at_least), 0);
      wanted.major = 11;
      EXPECT_EQ(verify(&wanted, 3, at_least), nt_status(0xC0000059));
      const ExportCall<uint8_t(uint32_t)> available("RtlIsNtDdiVersionAvailable");
      EXPECT_EQ(available(0x0A000000), 1);
      EXPECT_EQ(available(0x0B000000), 0);
      const ExportCall<const void*(UnicodeString*)> routine("MmGetSystemRoutineAddress");
      Text known(u"KeSetEvent"), refused(u"IoCreateDevice"), unknown(u"NoSuchThing");
      EXPECT_EQ(routine(known.get()), find_export("KeSetEvent")->address);
      EXPECT_EQ(routine(refused.get()), nullptr);
      EXPECT_EQ(routine(unknown.get()), nullptr);
      EXPECT_EQ(routine(nullptr), nullptr);
      EXPECT_EQ(ExportCall<int32_t()>("EtwRegister")(), nt_status(0xC00000BB));
      EXPECT_EQ(ExportCall<int32_t()>("IoCreateDevice")(), nt_status(0xC00000BB));
      // Registrations stay until they are taken back.
      const ExportCall<int32_t(void*, const void*, void*, void*, void**)> add(
          "PoRegisterPowerSettingCallback");
      const ExportCall<int32_t(void*)> remove("PoUnregisterPowerSettingCallback");
      void* handle = nullptr;
      EXPECT_EQ(add(nullptr, &version, nullptr, nullptr, &handle), nt_status(0xC000000D));
      EXPECT_EQ(add(nullptr, &version, &version, nullptr, &handle), 0);
      EXPECT_EQ(world.kernel.leaks().size(), 1u);
      EXPECT_EQ(remove(handle), 0);
      EXPECT_TRUE(world.kernel.leaks().empty());
      EXPECT_EQ(remove(handle), nt_status(0xC000000D));
      EXPECT_EQ(world.findings.count("NT-31"), 1u);
    });
    expect_bug_check("NT-15", 0xD1,
                     [] { ExportCall<void(void*)>("PoFxActivateComponent")(nullptr); });
  });
}

TEST(System, ProcessorsAreAsManyAsConfigured) {
  DXGKIT_COVERS("NT-23");
  for (const uint32_t count : {1U, 4U, 64U}) {
    in_both_modes([&] {
      KernelConfig config;
      config.processors = count;
      World world(config);
      with_frame(world.kernel, kPassiveLevel, [&] {
        const uint64_t all = UINT64_MAX >> (64 - count);
        uint64_t mask = 0;
        EXPECT_EQ(ExportCall<uint32_t(uint64_t*)>("KeQueryActiveProcessorCount")(&mask), count);
        EXPECT_EQ(mask, all);
        for (const char* counts :
             {"KeQueryActiveProcessorCountEx", "KeQueryMaximumProcessorCountEx"}) {
          const ExportCall<uint32_t(uint16_t)> of_group(counts);
          EXPECT_EQ(of_group(0), count);
          EXPECT_EQ(of_group(0xFFFF), count);
          EXPECT_EQ(of_group(1), 0U);
        }
        EXPECT_EQ(ExportCall<uint32_t()>("KeQueryMaximumProcessorCount")(), count);
        EXPECT_EQ(ExportCall<uint64_t()>("KeQueryActiveProcessors")(), all);
        EXPECT_EQ(ExportCall<uint64_t(uint16_t)>("KeQueryGroupAffinity")(0), all);
        EXPECT_EQ(ExportCall<uint64_t(uint16_t)>("KeQueryGroupAffinity")(1), 0U);
        const auto* const variable =
            static_cast<const uint8_t*>(world.kernel.door(*find_export("KeNumberProcessors")));
        EXPECT_EQ(*variable, count);
        uint32_t number = 0;
        const ExportCall<int32_t(uint32_t, uint32_t*)> by_index("KeGetProcessorNumberFromIndex");
        EXPECT_EQ(by_index(count - 1, &number), 0);
        EXPECT_EQ(number, (count - 1) << 16);
        EXPECT_EQ(by_index(count, &number), nt_status(0xC000000D));
        const ExportCall<uint32_t(const uint32_t*)> index_of("KeGetProcessorIndexFromNumber");
        EXPECT_EQ(index_of(&number), count - 1);
        const uint32_t none = count << 16;
        EXPECT_EQ(index_of(&none), UINT32_MAX);
      });
    });
  }
}

/// The number of the processor is that of the driver's choice; processors that are not there are no
/// choice.
TEST(System, ThreadsAndDpcsAreOnTheProcessorOfTheirChoice) {
  DXGKIT_COVERS("NT-23");
  in_both_modes([] {
    KernelConfig config;
    config.processors = 4;
    World world(config);
    with_frame(world.kernel, kPassiveLevel, [&] {
      const ExportCall<uint32_t()> current("KeGetCurrentProcessorNumber");
      const ExportCall<uint64_t(uint64_t)> choose("KeSetSystemAffinityThreadEx");
      EXPECT_EQ(current(), 0U);
      EXPECT_EQ(choose(0b1100), 0U);
      EXPECT_EQ(current(), 2U);
      uint32_t number = 0;
      EXPECT_EQ(ExportCall<uint32_t(uint32_t*)>("KeGetCurrentProcessorNumberEx")(&number), 2U);
      EXPECT_EQ(number, 2U << 16);
      EXPECT_EQ(choose(0xF0), 0b1100U);
      EXPECT_EQ(current(), 0U);
      // One after the other, on the calling one last.
      choose(0b1000);
      static std::vector<uint32_t> seen;
      seen.clear();
      const auto look = +[](uint64_t argument) DXGKIT_NT_ABI -> uint64_t {
        seen.push_back(CallFrame::current().processor());
        return argument + seen.size();
      };
      EXPECT_EQ(ExportCall<uint64_t(uint64_t(DXGKIT_NT_ABI*)(uint64_t), uint64_t)>(
                    "KeIpiGenericCall")(look, 10),
                14U);
      EXPECT_EQ(seen, (std::vector<uint32_t>{3, 2, 1, 3}));
      ExportCall<void()>("KeRevertToUserAffinityThread")();
      EXPECT_EQ(current(), 0U);
      // A DPC is on its processor, and its thread is where it was afterwards.
      Kdpc dpc{};
      const auto routine = +[](Kdpc*, void*, void*, void*)
                                DXGKIT_NT_ABI { seen.push_back(CallFrame::current().processor()); };
      ExportCall<void(Kdpc*, DeferredRoutine, void*)>("KeInitializeDpc")(&dpc, routine, nullptr);
      const ExportCall<int32_t(Kdpc*, const uint32_t*)> target("KeSetTargetProcessorDpcEx");
      number = 4U << 16;
      EXPECT_EQ(target(&dpc, &number), nt_status(0xC000000D));
      number = 1U << 16;
      EXPECT_EQ(target(&dpc, &number), 0);
      seen.clear();
      ExportCall<uint8_t(Kdpc*, void*, void*)>("KeInsertQueueDpc")(&dpc, nullptr, nullptr);
      EXPECT_EQ(seen, std::vector<uint32_t>{1});
      EXPECT_EQ(current(), 0U);
    });
  });
}

TEST(Files, AreReadFromTheHostsSetOnly) {
  in_both_modes([] {
    World world;
    add_file(world.kernel, "\\SystemRoot\\gpu.bin", std::vector<std::byte>(10, std::byte{3}));
    with_frame(world.kernel, kPassiveLevel, [&] {
      const ExportCall<int32_t(void**, uint32_t, ObjectAttributes*, uint64_t*, int64_t*, uint32_t,
                               uint32_t, uint32_t, uint32_t, void*, uint32_t)>
          create("ZwCreateFile");
      const ExportCall<int32_t(void*, void*, void*, void*, uint64_t*, void*, uint32_t, int64_t*,
                               uint32_t*)>
          read("ZwReadFile"), write("ZwWriteFile");
      Text name(u"\\systemroot\\GPU.bin"), other(u"\\SystemRoot\\x"), relative(u"x");
      ObjectAttributes where{
          sizeof(ObjectAttributes), nullptr, other.get(), 0x240, nullptr, nullptr};
      void* handle = nullptr;
      uint64_t status[2] = {};
      EXPECT_EQ(create(&handle, 1, &where, status, nullptr, 0, 0, 1, 0, nullptr, 0),
                nt_status(0xC0000034));
      where.name = relative.get();
      EXPECT_EQ(create(&handle, 1, &where, status, nullptr, 0, 0, 1, 0, nullptr, 0),
                nt_status(0xC000003B));
      where.name = name.get();
      EXPECT_EQ(create(&handle, 2, &where, status, nullptr, 0, 0, 1, 0, nullptr, 0),
                nt_status(0xC00000A2));
      EXPECT_EQ(handle, nullptr);
      ASSERT_EQ(create(&handle, 1, &where, status, nullptr, 0, 0, 1, 0, nullptr, 0), 0);
      std::byte buffer[16] = {};
      int64_t offset = 6;
      EXPECT_EQ(read(handle, nullptr, nullptr, nullptr, status, buffer, 16, &offset, nullptr), 0);
      EXPECT_EQ(status[1], 4u);
      EXPECT_EQ(buffer[3], std::byte{3});
      EXPECT_EQ(buffer[4], std::byte{0});
      EXPECT_EQ(read(handle, nullptr, nullptr, nullptr, status, buffer, 1, nullptr, nullptr),
                nt_status(0xC0000011));
      offset = -9;
      EXPECT_EQ(read(handle, nullptr, nullptr, nullptr, status, buffer, 1, &offset, nullptr),
                nt_status(0xC000000D));
      EXPECT_EQ(write(handle, nullptr, nullptr, nullptr, status, buffer, 1, nullptr, nullptr),
                nt_status(0xC00000A2));
      EXPECT_EQ(ExportCall<int32_t(void*)>("ZwClose")(handle), 0);
    });
    EXPECT_TRUE(world.kernel.leaks().empty());
  });
}

TEST(Debug, BreakpointsBugChecksAndAssertions) {
  DXGKIT_COVERS("NT-05", "NT-06", "NT-21");
  in_both_modes([] {
    expect_bug_check("NT-06", 0x7E, [] { ExportCall<void()>("DbgBreakPoint")(); });
    expect_bug_check("NT-06", 0x7E,
                     [] { ExportCall<void(uint32_t)>("DbgBreakPointWithStatus")(1); });
    expect_bug_check("NT-21", 0x116, [] {
      ExportCall<void(uint32_t, uint64_t, uint64_t, uint64_t, uint64_t)>("KeBugCheckEx")(0x116, 1,
                                                                                         2, 3, 4);
    });
    World world;
    with_frame(world.kernel, kPassiveLevel, [&] {
      ExportCall<void(const char*, const char*, uint32_t, const char*)>("RtlAssert")(
          "x == 1", nullptr, 5, nullptr);
    });
    EXPECT_EQ(world.findings.count("NT-05"), 1u);
    EXPECT_FALSE(world.kernel.driver_is_dead());
  });
}

/// Ranges of a resource list: any length that its form can hold comes back; what it cannot hold is
/// refused and changes nothing.
TEST(RtlResources, RangesAreEncodedAndDecoded) {
  DXGKIT_COVERS("NT-23");
  as_driver([] {
    const ExportCall<int32_t(CM_PARTIAL_RESOURCE_DESCRIPTOR*, uint8_t, uint64_t, uint64_t)> encode(
        "RtlCmEncodeMemIoResource");
    const ExportCall<uint64_t(CM_PARTIAL_RESOURCE_DESCRIPTOR*, uint64_t*)> decode(
        "RtlCmDecodeMemIoResource");
    struct Case {
      uint8_t type;
      uint64_t length;
      uint8_t stored_type;
      uint16_t flags;
    };
    for (const Case& one : {Case{CmResourceTypePort, 0x20, CmResourceTypePort, 0},
                            {CmResourceTypeMemory, 0xFFFFFFFF, CmResourceTypeMemory, 0},
                            {CmResourceTypeMemoryLarge, 4096, CmResourceTypeMemory, 0},
                            {CmResourceTypeMemory, uint64_t{1} << 32, CmResourceTypeMemoryLarge,
                             CM_RESOURCE_MEMORY_LARGE_40},
                            {CmResourceTypeMemoryLarge, uint64_t{3} << 40,
                             CmResourceTypeMemoryLarge, CM_RESOURCE_MEMORY_LARGE_48},
                            {CmResourceTypeMemoryLarge, uint64_t{1} << 50,
                             CmResourceTypeMemoryLarge, CM_RESOURCE_MEMORY_LARGE_64}}) {
      CM_PARTIAL_RESOURCE_DESCRIPTOR range = {};
      range.Flags = 0x0E01;
      EXPECT_EQ(encode(&range, one.type, one.length, 0x123456789000), 0);
      EXPECT_EQ(range.Type, one.stored_type);
      EXPECT_EQ(range.Flags, 1 | one.flags);
      uint64_t start = 0;
      EXPECT_EQ(decode(&range, &start), one.length);
      EXPECT_EQ(start, 0x123456789000U);
      EXPECT_EQ(decode(&range, nullptr), one.length);
    }
    CM_PARTIAL_RESOURCE_DESCRIPTOR range = {};
    range.Type = 99;
    uint64_t nothing = 7;
    EXPECT_EQ(decode(&range, &nothing), 0U) << "no range";
    EXPECT_EQ(nothing, 0U);
    const CM_PARTIAL_RESOURCE_DESCRIPTOR before = range;
    EXPECT_EQ(encode(&range, CmResourceTypeInterrupt, 16, 0), STATUS_INVALID_PARAMETER);
    EXPECT_EQ(encode(&range, CmResourceTypePort, uint64_t{1} << 32, 0), STATUS_UNSUCCESSFUL);
    EXPECT_EQ(encode(&range, CmResourceTypeMemory, (uint64_t{1} << 32) + 1, 0), STATUS_UNSUCCESSFUL)
        << "the low 8 bits would be lost";
    EXPECT_EQ(std::memcmp(&range, &before, sizeof(range)), 0);
  });
}

}  // namespace
}  // namespace dxgkit::nt
