// What a member of the arguments points to, captured, checked and given as the table of arguments
// says (arguments/facts.h): how many elements there are, how many at most, who writes them. A
// member is named by its pointer: capture<&D3DKMT_EVICT::AllocationList>(args, &handles).
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "arguments/facts.h"
#include "base/check.h"
#include "thunks/capture.h"

namespace dxgkit::thunks {

template <typename Pointer>
struct MemberTypes;
template <typename Structure, typename Pointed>
struct MemberTypes<Pointed * Structure::*> {
  using Of = Structure;
  using Element = std::conditional_t<std::is_void_v<Pointed>, std::byte, std::remove_cv_t<Pointed>>;
};
/// The structure that has the member.
template <auto Member>
using StructureOf = typename MemberTypes<decltype(Member)>::Of;
/// What the member points to.
template <auto Member>
using ElementOf = typename MemberTypes<decltype(Member)>::Element;

/// How many elements the structure says that there are.
template <auto Member>
constexpr size_t count_of(const StructureOf<Member>& of) {
  using Facts = arguments::MemberFacts<Member>;
  static_assert(sizeof(ElementOf<Member>) % Facts::kElementBytes == 0);
  // The same, but for a text that is counted in bytes.
  return Facts::count(of) / (sizeof(ElementOf<Member>) / Facts::kElementBytes);
}

template <auto Member>
inline constexpr size_t kMostOf = arguments::MemberFacts<Member>::kMost /
                                  (sizeof(ElementOf<Member>) /
                                   arguments::MemberFacts<Member>::kElementBytes);

/// All elements, copied once into an empty list of them. kInvalidParameter: too many, or not
/// readable (THUNK-01).
template <auto Member, typename List>
Status capture(const StructureOf<Member>& of, List* out) {
  using Element = ElementOf<Member>;
  static_assert(std::is_same_v<std::remove_reference_t<decltype(*out->data())>, Element>);
  return capture_array(static_cast<const Element*>(of.*Member), count_of<Member>(of),
                       kMostOf<Member>, out);
}

/// The element of a member that points to one, copied once. kInvalidParameter: not readable, or
/// there is none.
template <auto Member, typename Element>
Status capture_one(const StructureOf<Member>& of, Element* out) {
  using Facts = arguments::MemberFacts<Member>;
  static_assert(Facts::kIsOne && sizeof *out == Facts::kElementBytes);
  return guarded_copy(out, of.*Member, sizeof *out) ? Status::kSuccess : Status::kInvalidParameter;
}

/// What the pointers of a list lead to: the list and each element is copied once. As `capture`.
template <auto Member, typename Element>
Status capture_each(const StructureOf<Member>& of, std::vector<Element>* out) {
  std::vector<ElementOf<Member>> pointers;
  DXGKIT_RETURN_IF_FAILED(capture<Member>(of, &pointers));
  out->resize(pointers.size());
  for (size_t i = 0; i < pointers.size(); ++i) {
    static_assert(sizeof(*pointers[i]) == sizeof(Element));
    if (!guarded_copy(&(*out)[i], pointers[i], sizeof(Element))) return Status::kInvalidParameter;
  }
  return Status::kSuccess;
}

/// A text up to its terminator. kInvalidParameter: not readable, or too long.
template <auto Member>
Result<std::u16string> capture_text(const StructureOf<Member>& of) {
  return capture_text(of.*Member, arguments::MemberFacts<Member>::kMost);
}

/// A member of which the function writes elements.
template <auto Member>
void* room_of(const StructureOf<Member>& of) {
  static_assert(arguments::MemberFacts<Member>::kUse != arguments::Use::kIn);
  return const_cast<void*>(static_cast<const void*>(of.*Member));  // some prototypes say const
}

/// Whether the first `count` elements can be written.
template <auto Member>
bool has_room(const StructureOf<Member>& of, size_t count) {
  return writable(room_of<Member>(of), count * sizeof(ElementOf<Member>));
}

/// kInvalidParameter: there are too many elements, or they cannot all be written.
template <auto Member>
Status check_room(const StructureOf<Member>& of) {
  const size_t count = count_of<Member>(of);
  return count <= kMostOf<Member> && has_room<Member>(of, count) ? Status::kSuccess
                                                                 : Status::kInvalidParameter;
}

/// `capture`, where all elements must also be writable.
template <auto Member, typename List>
Status capture_two_way(const StructureOf<Member>& of, List* out) {
  DXGKIT_RETURN_IF_FAILED(capture<Member>(of, out));
  return has_room<Member>(of, out->size()) ? Status::kSuccess : Status::kInvalidParameter;
}

/// Writes the first elements. False: not all of them could be written, some may have been.
template <auto Member, typename List>
[[nodiscard]] bool give(const StructureOf<Member>& of, const List& list) {
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(*list.data())>, ElementOf<Member>>);
  DXGKIT_CHECK(list.size() <= count_of<Member>(of));
  return guarded_copy(room_of<Member>(of), list.data(), list.size() * sizeof *list.data());
}

/// Writes the element of a member that points to one.
template <auto Member>
[[nodiscard]] bool give_one(const StructureOf<Member>& of, const ElementOf<Member>& value) {
  static_assert(arguments::MemberFacts<Member>::kIsOne);
  return guarded_copy(room_of<Member>(of), &value, sizeof value);
}

}  // namespace dxgkit::thunks
