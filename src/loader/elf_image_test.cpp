#include "loader/elf_image.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "loader/testdata/driver_imports.h"

namespace dxgkit::loader {
namespace {

std::vector<std::byte> tiny_driver() {
  std::string message;
  auto file = read_image_file(TINY_DRIVER, &message);
  EXPECT_TRUE(file.has_value()) << message;
  return file.value_or(std::vector<std::byte>{});
}

/// A driver built for the Win64 ABI is mapped, relocated and bound, and its code runs.
TEST(ElfImage, LoadsADriver) {
  std::string message;
  const auto image = ElfImage::load(tiny_driver(), &resolve, &message);
  ASSERT_TRUE(image.has_value()) << message;
  ASSERT_NE((*image)->find("DriverEntry"), nullptr);
  EXPECT_EQ((*image)->find("NoSuchSymbol"), nullptr);
  const auto answer = reinterpret_cast<int(__attribute__((ms_abi))*)()>((*image)->find("answer"));
  EXPECT_EQ(answer(), 42);
  const auto tag =
      reinterpret_cast<uint32_t(__attribute__((ms_abi))*)()>((*image)->find("tag_of_allocation"));
  EXPECT_EQ(tag(), 0x74736554u);
  const auto debugger =
      reinterpret_cast<uint8_t(__attribute__((ms_abi))*)()>((*image)->find("debugger_not_present"));
  EXPECT_EQ(debugger(), 1u);
}

/// Static functions have names too, and code behind the last function has none.
TEST(ElfImage, NamesTheFunctionOfAnAddress) {
  std::string message;
  const auto image = ElfImage::load(tiny_driver(), &resolve, &message);
  ASSERT_TRUE(image.has_value()) << message;
  const auto rva = [&](const void* address) {
    return static_cast<uint64_t>(static_cast<const std::byte*>(address) - (*image)->base());
  };
  const auto hidden = reinterpret_cast<const void*(__attribute__((ms_abi))*)()>(
      (*image)->find("address_of_hidden"))();
  EXPECT_EQ((*image)->symbol(rva((*image)->find("answer")) + 1), "answer+0x1");
  EXPECT_EQ((*image)->symbol(rva(hidden)), "hidden+0x0");
  EXPECT_EQ((*image)->symbol((*image)->size() - 1), "");
  EXPECT_EQ((*image)->symbol(UINT64_MAX), "");
}

/// No page of the image is writable and executable at once; code is executable, data is not.
TEST(ElfImage, NeverMapsWritableCode) {
  std::string message;
  const auto image = ElfImage::load(tiny_driver(), &resolve, &message);
  ASSERT_TRUE(image.has_value()) << message;
  EXPECT_EQ(protection_of((*image)->find("answer")), "r-xp");
  EXPECT_EQ(protection_of((*image)->find("pointer_to_counter"))[1], '-');
  for (uint64_t offset = 0; offset < (*image)->size(); offset += 4096) {
    const std::string flags = protection_of((*image)->base() + offset);
    EXPECT_FALSE(flags[1] == 'w' && flags[2] == 'x') << "at " << offset;
  }
}

/// An import that the resolver does not know refuses the image, with its name.
TEST(ElfImage, NamesMissingImports) {
  std::string message;
  const auto image = ElfImage::load(
      tiny_driver(), [](const ImportRequest&) { return ImportAnswer{}; }, &message);
  ASSERT_FALSE(image.has_value());
  EXPECT_EQ(image.error(), Status::kObjectNameNotFound);
  EXPECT_NE(message.find("ExAllocatePoolWithTag"), std::string::npos) << message;
}

struct BadImage {
  const char* name;
  const char* message_part;
  std::vector<std::byte> (*make)();
};

template <typename T>
void put(std::vector<std::byte>& file, size_t offset, T value) {
  std::memcpy(file.data() + offset, &value, sizeof(value));
}

/// A file that is not a driver is refused with a sentence that says why, and nothing is mapped.
TEST(ElfImage, SaysWhyAFileIsNoDriver) {
  const BadImage cases[] = {
      {"empty", "too short", [] { return std::vector<std::byte>{}; }},
      {"header cut off", "too short",
       [] {
         auto f = tiny_driver();
         f.resize(10);
         return f;
       }},
      {"header half", "cut off",
       [] {
         auto f = tiny_driver();
         f.resize(40);
         return f;
       }},
      {"segments cut off", "cut off",
       [] {
         auto f = tiny_driver();
         f.resize(0x1100);
         return f;
       }},
      {"text file", "not an ELF", [] { return std::vector<std::byte>(100, std::byte{'x'}); }},
      {"PE file", "PE file",
       [] {
         auto f = std::vector<std::byte>(100);
         f[0] = std::byte{'M'};
         f[1] = std::byte{'Z'};
         return f;
       }},
      {"32 bit", "64-bit",
       [] {
         auto f = tiny_driver();
         put(f, EI_CLASS, uint8_t{ELFCLASS32});
         return f;
       }},
      {"other machine", "machine 183",
       [] {
         auto f = tiny_driver();
         put(f, offsetof(Elf64_Ehdr, e_machine), uint16_t{183});
         return f;
       }},
      {"executable", "not a shared object",
       [] {
         auto f = tiny_driver();
         put(f, offsetof(Elf64_Ehdr, e_type), uint16_t{ET_EXEC});
         return f;
       }},
      {"headers far away", "outside the file",
       [] {
         auto f = tiny_driver();
         put(f, offsetof(Elf64_Ehdr, e_phoff), UINT64_MAX - 8);
         return f;
       }},
  };
  for (const BadImage& bad : cases) {
    std::string message;
    const auto image = ElfImage::load(bad.make(), &resolve, &message);
    ASSERT_FALSE(image.has_value()) << bad.name;
    EXPECT_EQ(image.error(), Status::kInvalidImageFormat) << bad.name;
    EXPECT_NE(message.find(bad.message_part), std::string::npos) << bad.name << ": " << message;
  }
}

/// Ten thousand damaged images: every one is refused or gives a plan that lies inside itself; the
/// sanitizers watch the reads.
TEST(ElfImage, SurvivesDamage) {
  const std::vector<std::byte> good = tiny_driver();
  std::mt19937_64 random(20261121);
  size_t accepted = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::vector<std::byte> file = good;
    if (round % 4 == 0) file.resize(random() % file.size());
    const size_t damages = 1 + random() % 8;
    for (size_t i = 0; i < damages && !file.empty(); ++i) {
      // Mostly headers and tables, which are small and at the front.
      const size_t limit = random() % 3 == 0 ? file.size() : std::min<size_t>(file.size(), 0x800);
      file[random() % limit] = static_cast<std::byte>(random());
    }
    std::string message;
    const auto plan = parse_elf(file, &message);
    if (!plan.has_value()) {
      EXPECT_FALSE(message.empty());
      continue;
    }
    ++accepted;
    for (const ElfPlan::Segment& segment : plan->segments) {
      ASSERT_LE(segment.address + segment.memory_size, plan->size);
      ASSERT_LE(segment.file_offset + segment.file_size, file.size());
      ASSERT_FALSE(segment.write && segment.execute);
    }
    for (const ElfPlan::Relocation& relocation : plan->relocations)
      ASSERT_LE(relocation.address + 8, plan->size);
    for (const ElfPlan::Symbol& symbol : plan->symbols) ASSERT_LE(symbol.address, plan->size);
  }
  EXPECT_GT(accepted,
            0u);  // damage outside what matters goes unnoticed, so the good paths were tried too
}

}  // namespace
}  // namespace dxgkit::loader
