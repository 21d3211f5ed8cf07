// The table of the arguments of D3DKMT functions: which bytes a call is made of, and which come
// back. Generated from the ABI's facts and arguments.tsv.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace dxgkit::arguments {

/// What a member of a structure is, beside plain bytes. arguments.tsv explains each.
enum class Kind : uint8_t {
  kBlock,
  kText,
  kDescriptor,  // also events
  kDescriptorOut,
  kAddress,
  kInto,
  kPresence,
  kPages,
  kValue,
};

/// What the function does with the elements of a block.
enum class Use : uint8_t {
  kIn,
  kBoth,
  kRoom,
};

/// What lies at an address that the kernel gives.
enum class Memory : uint8_t {
  kNone,
  kFence,     // one page, read-only
  kLock,      // the allocation that is locked
  kCommands,  // the next commands of a context, and its lists
  kAllocations,
  kPatches,
  kPages,  // what the program's own pages are exchanged for
};

/// A number in a structure, by place.
struct Place {
  uint16_t offset = 0;
  uint8_t width = 0;  // bytes: 1, 2, 4, 8; 0: there is none
};

enum class Test : uint8_t { kIs, kIsNot, kIsMore };

/// Holds if the bits of `mask` of the number at `place` pass the test with `value`, in calls of
/// `function` (-1: of any). A place of no width passes.
struct Condition {
  Place place;
  uint64_t mask = 0;
  uint64_t value = 0;
  Test test = Test::kIs;
  int16_t function = -1;
};

/// A member that is more than bytes. A member may have several, with conditions: the first that
/// holds counts. If none holds, the member is kPresence.
struct Field {
  const char* name;
  uint16_t offset;
  Kind kind;
  Use use = Use::kIn;
  Memory memory = Memory::kNone;
  Place count;  // kBlock: how many elements; width 0: `fixed_count`
  uint16_t fixed_count = 0;
  uint32_t element_bytes = 0;
  int16_t element = -1;  // the structure of the elements; -1: plain bytes
  uint32_t most = 0;     // kBlock: elements that the function accepts; kText: units
  Condition when;
  int16_t named = -1;  // kBlock: which members of an element name something (`named`)
};

/// What a number names. Another kernel gives other numbers to the same things.
enum class Names : uint8_t { kHandle, kGpuAddress, kLuid };
struct Named {
  Place place;
  Names names;
};

struct Structure {
  const char* name;
  uint32_t bytes;
  std::span<const Field> fields;  // by offset
};

/// A member for people.
struct Shown {
  const char* name;
  Place place;
  bool hexadecimal;  // handles, addresses, flags
  bool pointer;      // to elements, which are counted
};

enum class Writes : uint8_t { kNever, kOnSuccess, kAlways };

struct Function {
  const char* name;
  int16_t structure;   // of the arguments; several parameters lie side by side, 8 bytes each
  bool one_structure;  // the function takes a pointer to it
  Writes writes;       // when the structure is written back
  const char* local;   // why it never goes to another process; null: it goes
  std::span<const Shown> shown;
  int16_t named = -1;  // of the structure: which members name something
};

/// In the order of the names; a function's number is its index.
std::span<const Function> functions();
/// The number of the function of this name. Looks at all of them; of an unknown name the number
/// behind the last.
inline uint32_t number_of(std::string_view name) {
  const auto all = functions();
  return static_cast<uint32_t>(
      std::ranges::find(all, name, [](const Function& one) { return std::string_view(one.name); }) -
      all.begin());
}
std::span<const Structure> structures();
/// A structure by its number in a Function or a Field, which is not -1.
inline const Structure& structure_at(int16_t number) {
  return structures()[static_cast<size_t>(number)];
}
/// A list of members by its number in a Field or a Function. -1: an empty one.
std::span<const Named> named(int16_t list);
/// Changes with every change of the table. Both sides of a connection must have the same.
uint64_t table_version();

}  // namespace dxgkit::arguments
