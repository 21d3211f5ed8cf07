// Loading: the content of memory afterwards, and the imports that were looked up.
#include "loader/pe_image.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "loader/testdata/driver_imports.h"
#include "loader/testdata/tiny_pe.h"
#include "tests/support/covers.h"

namespace dxgkit::loader {
namespace {

namespace tiny = tiny_pe;

std::vector<std::byte> tiny_driver() {
  std::string message;
  auto file = read_image_file(TINY_DRIVER_SYS, &message);
  EXPECT_TRUE(file.has_value()) << message;
  return file.value_or(std::vector<std::byte>{});
}

template <typename R, typename... A>
R call(const Image& image, const char* name, A... arguments) {
  void* const function = image.find(name);
  EXPECT_NE(function, nullptr) << name;
  return reinterpret_cast<R(__attribute__((ms_abi))*)(A...)>(function)(arguments...);
}

uint64_t word_at(const Image& image, uint32_t address) {
  uint64_t value = 0;
  std::memcpy(&value, image.base() + address, sizeof(value));
  return value;
}

int answered = 0;
ImportAnswer answer_anything(const ImportRequest&) { return {&answered, 0}; }

std::unique_ptr<PeImage> load_tiny(const std::vector<std::byte>& file,
                                   const LoadOptions& options = {}) {
  std::string message;
  auto image = PeImage::load(file, &answer_anything, &message, options);
  EXPECT_TRUE(image.has_value()) << message;
  return image.has_value() ? std::move(*image) : nullptr;
}

/// A .sys made by a compiler for Windows is mapped, relocated and bound, and its code runs:
/// functions, a kernel variable, a guarded stack frame, a call through the guard's dispatch
/// pointer.
TEST(PeImage, LoadsADriver) {
  DXGKIT_COVERS("NT-19");
  std::string message;
  const auto loaded = load_image(tiny_driver(), &resolve, &message);
  ASSERT_TRUE(loaded.has_value()) << message;
  const Image& image = **loaded;
  EXPECT_EQ(image.form(), ImageForm::kPe);
  EXPECT_EQ(call<int>(image, "answer"), 42);
  EXPECT_EQ(call<uint32_t>(image, "tag_of_allocation"), 0x74736554u);
  EXPECT_EQ(call<uint8_t>(image, "debugger_not_present"), 1u);
  EXPECT_EQ(call<int>(image, "sum_of_guarded", 10), 45);
  EXPECT_EQ(call<int>(image, "call_guarded"), 42);
  EXPECT_EQ(image.find("NoSuchSymbol"), nullptr);
  EXPECT_EQ(image.find(""), nullptr);
  EXPECT_EQ(
      image.symbol(
          static_cast<uint64_t>(static_cast<std::byte*>(image.find("answer")) - image.base()) + 4),
      "answer+0x4");
  EXPECT_EQ(image.symbol(image.size()), "");
  EXPECT_EQ(image.symbol(UINT64_MAX), "");
}

/// The functions of a driver lie in the exception directory, sorted, and `functions` is that
/// directory itself.
TEST(PeImage, LendsTheExceptionDirectory) {
  std::string message;
  const auto loaded = load_image(tiny_driver(), &resolve, &message);
  ASSERT_TRUE(loaded.has_value()) << message;
  const auto functions = (*loaded)->functions();
  ASSERT_GE(functions.size(), 2u);
  EXPECT_TRUE(std::ranges::is_sorted(functions, {}, &RuntimeFunction::begin));
  EXPECT_GE(reinterpret_cast<const std::byte*>(functions.data()), (*loaded)->base());
  const auto guarded = static_cast<uint32_t>(
      static_cast<std::byte*>((*loaded)->find("sum_of_guarded")) - (*loaded)->base());
  EXPECT_TRUE(std::ranges::any_of(
      functions, [&](const RuntimeFunction& function) { return function.begin == guarded; }));
}

/// After loading each section has the rights of its header, headers and gaps can only be read, and
/// no page of the image is writable and executable at once.
TEST(PeImage, NeverMapsWritableCode) {
  DXGKIT_COVERS("NT-26");
  auto file = tiny::make();
  const auto image = load_tiny(file);
  ASSERT_NE(image, nullptr);
  EXPECT_EQ(protection_of(image->base()), "r--p");
  EXPECT_EQ(protection_of(image->base() + tiny::kText), "r-xp");
  EXPECT_EQ(protection_of(image->base() + tiny::kRdata), "r--p");
  EXPECT_EQ(protection_of(image->base() + tiny::kData), "rw-p");
  EXPECT_EQ(protection_of(image->base() + tiny::kReloc), "r--p");
  std::string message;
  const auto real = load_image(tiny_driver(), &resolve, &message);
  ASSERT_TRUE(real.has_value()) << message;
  for (uint64_t offset = 0; offset < (*real)->size(); offset += 4096) {
    const std::string flags = protection_of((*real)->base() + offset);
    EXPECT_FALSE(flags[1] == 'w' && flags[2] == 'x') << "at " << offset;
  }
}

/// Imports are bound while pages are writable and none of the image is executable.
TEST(PeImage, BindsBeforeAnythingIsExecutable) {
  DXGKIT_COVERS("NT-26");
  std::string message, during;
  const auto file = tiny::make();
  const auto image = PeImage::load(
      file,
      [&](const ImportRequest& request) -> ImportAnswer {
        const auto* slot = static_cast<const std::byte*>(request.slot);
        if (request.name == "Alpha")
          during = protection_of(slot) + " " + protection_of(slot - tiny::kSlots + tiny::kText);
        return {&answered, 0};
      },
      &message);
  ASSERT_TRUE(image.has_value()) << message;
  EXPECT_EQ(during, "rw-p rw-p");
}

/// Start-up code that is marked writable and executable, as some linkers do, can be thrown away:
/// it is mapped executable only, and the plan says so.
TEST(PeImage, MapsWritableStartUpCodeWithoutWrite) {
  DXGKIT_COVERS("NT-26");
  auto file = tiny::make();
  tiny::put<uint32_t>(file, tiny::section(0) + 36, 0xE2000020);
  const auto image = load_tiny(file);
  ASSERT_NE(image, nullptr);
  EXPECT_EQ(protection_of(image->base() + tiny::kText), "r-xp");
  ASSERT_EQ(image->plan().notes.size(), 1u);
  EXPECT_NE(image->plan().notes[0].find(".text"), std::string::npos);
  EXPECT_TRUE(image->plan().sections[0].discardable);
}

/// The same file at two places: every relocated pointer follows its image, everything else is the
/// file's bytes.
TEST(PeImage, RelocatesToWhereItIs) {
  const auto file = tiny::make();
  const auto one = load_tiny(file);
  const auto two = load_tiny(file);
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  ASSERT_NE(one->base(), two->base());
  for (const auto* image : {one.get(), two.get()}) {
    EXPECT_EQ(word_at(*image, tiny::kPointer),
              reinterpret_cast<uint64_t>(image->base()) + tiny::kSecond);
    EXPECT_EQ(word_at(*image, tiny::kLoadConfig + 0x58),
              reinterpret_cast<uint64_t>(image->base()) + tiny::kCookie);
    EXPECT_EQ(std::memcmp(image->base() + tiny::kText, file.data() + tiny::at(tiny::kText), 0x200),
              0);
    EXPECT_EQ(std::memcmp(image->base(), file.data(), tiny::kHeaderBytes), 0);
  }
}

/// Each import is asked for once, in file order, by library with name or ordinal, and its slot gets
/// the address that was answered: functions and variables alike.
TEST(PeImage, AsksForEveryImport) {
  DXGKIT_COVERS("NT-15");
  static const int kTargets[3] = {};
  std::vector<std::string> asked;
  std::vector<const void*> slots;
  std::string message;
  const auto image = PeImage::load(
      tiny::make(),
      [&](const ImportRequest& request) -> ImportAnswer {
        asked.push_back(std::string(request.library) + "|" + std::string(request.name) + "|" +
                        std::to_string(request.ordinal));
        slots.push_back(request.slot);
        return {&kTargets[asked.size() - 1], request.name == "Beta" ? 4u : 0u};
      },
      &message);
  ASSERT_TRUE(image.has_value()) << message;
  EXPECT_EQ(asked, (std::vector<std::string>{"ntoskrnl.exe|Alpha|0", "ntoskrnl.exe|Beta|0",
                                             "HAL.dll||7"}));
  EXPECT_EQ((*image)->imports(),
            (std::vector<std::string>{"ntoskrnl.exe!Alpha", "ntoskrnl.exe!Beta", "HAL.dll!#7"}));
  const uint32_t places[] = {tiny::kSlots, tiny::kSlots + 8, tiny::kOrdinalSlots};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(slots[i], (*image)->base() + places[i]);
    EXPECT_EQ(word_at(**image, places[i]), reinterpret_cast<uint64_t>(&kTargets[i]));
  }
}

/// An import that the resolver does not know refuses the image. The message names library and
/// function, all of them at once, and nothing stays mapped.
TEST(PeImage, NamesMissingImports) {
  DXGKIT_COVERS("NT-15");
  std::string message;
  const std::byte* base = nullptr;
  const auto image = PeImage::load(
      tiny::make(),
      [&](const ImportRequest& request) -> ImportAnswer {
        base = static_cast<const std::byte*>(request.slot) - tiny::kSlots;
        if (request.name == "Alpha") return {&answered, 0};
        return {};
      },
      &message);
  ASSERT_FALSE(image.has_value());
  EXPECT_EQ(image.error(), Status::kObjectNameNotFound);
  EXPECT_EQ(message, "These imports do not exist: ntoskrnl.exe!Beta, HAL.dll!#7.");
  EXPECT_EQ(protection_of(base), "");
}

/// The stack cookie is never what the linker left, and comes from the seed alone.
TEST(PeImage, SetsTheStackCookie) {
  const auto file = tiny::make();
  const auto one = load_tiny(file, {.cookie_seed = 1});
  const auto again = load_tiny(file, {.cookie_seed = 1});
  const auto other = load_tiny(file, {.cookie_seed = 2});
  const uint64_t cookie = word_at(*one, tiny::kCookie);
  EXPECT_NE(cookie, kDefaultSecurityCookie);
  EXPECT_NE(cookie, 0u);
  EXPECT_EQ(cookie >> 48, 0u);
  EXPECT_EQ(cookie, word_at(*again, tiny::kCookie));
  EXPECT_NE(cookie, word_at(*other, tiny::kCookie));
  EXPECT_EQ(cookie, security_cookie(1));
  std::string message;
  const auto real = load_image(tiny_driver(), &resolve, &message, {.cookie_seed = 7});
  ASSERT_TRUE(real.has_value()) << message;
  EXPECT_EQ(call<uint64_t>(**real, "cookie"), security_cookie(7));
}

/// Guard pointers an image has filled are left alone; null ones get a function that does nothing,
/// so that no call goes to zero.
TEST(PeImage, NeverLeavesANullGuard) {
  auto file = tiny::make();
  tiny::put<uint64_t>(file, tiny::at(tiny::kGuardDispatch), 0x1234);
  const auto image = load_tiny(file);
  ASSERT_NE(image, nullptr);
  EXPECT_EQ(word_at(*image, tiny::kGuardDispatch), 0x1234u);
  const uint64_t check = word_at(*image, tiny::kGuardCheck);
  ASSERT_NE(check, 0u);
  reinterpret_cast<void(__attribute__((ms_abi))*)(void*)>(check)(nullptr);
  const auto empty = load_tiny(tiny::make());
  ASSERT_NE(empty, nullptr);
  const uint64_t dispatch = word_at(*empty, tiny::kGuardDispatch);
  ASSERT_NE(dispatch, 0u);
  uint64_t result = reinterpret_cast<uint64_t>(empty->base()) + tiny::kSecond;
  asm volatile("call *%1" : "+a"(result) : "r"(dispatch) : "rcx", "rdx", "memory", "cc");
  EXPECT_EQ(result & 0xFFFFFFFF, 0x2Bu);
}

/// The rest of the plan of the tiny image.
TEST(PeImage, ReadsNames) {
  const auto image = load_tiny(tiny::make());
  ASSERT_NE(image, nullptr);
  EXPECT_EQ(image->plan().pdb, "tiny.pdb");
  EXPECT_EQ(image->entry(), image->base() + tiny::kEntry);
  EXPECT_EQ(image->find("Exported"), image->base() + tiny::kSecond);
  EXPECT_EQ(image->plan().exports.size(), 2u);
  EXPECT_EQ(image->symbol(tiny::kEntry), "start+0x0");
  EXPECT_EQ(image->symbol(tiny::kEntry + 0xF), "start+0xf");
  EXPECT_EQ(image->symbol(tiny::kSecond + 1), "space::Class::method+0x1");
  EXPECT_EQ(image->symbol(tiny::kPointer), "eightchr+0x0");
  EXPECT_EQ(image->symbol(tiny::kRdata + 1), "");
  EXPECT_EQ(image->symbol(0), "");
}

/// The two forms of one source answer alike.
TEST(PeImage, AnswersAsItsElfTwin) {
  std::string message;
  const auto elf_file = read_image_file(TINY_DRIVER, &message);
  ASSERT_TRUE(elf_file.has_value()) << message;
  const auto elf = load_image(*elf_file, &resolve, &message);
  ASSERT_TRUE(elf.has_value()) << message;
  const auto pe = load_image(tiny_driver(), &resolve, &message);
  ASSERT_TRUE(pe.has_value()) << message;
  EXPECT_EQ((*elf)->form(), ImageForm::kElf);
  for (const char* function : {"answer", "tag_of_allocation"})
    EXPECT_EQ(call<uint32_t>(**elf, function), call<uint32_t>(**pe, function)) << function;
}

}  // namespace
}  // namespace dxgkit::loader
