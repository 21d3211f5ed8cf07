// The table of arguments as constants, for code that names a member or a function: what the member
// points to, and when the function's structure is written back. Generated as the table is.
#pragma once

#include <d3dkmthk.h>

#include <cstddef>
#include <string_view>

#include "arguments/table.h"

namespace dxgkit::arguments {

/// Of a member that points to elements (a block), or to a text: &D3DKMT_EVICT::AllocationList.
/// Parts of a function's parameters count as members of a structure, such as
/// D3DKMTShareObjectsArguments.
///   kUse           what the function does with the elements
///   kMost          how many elements it accepts
///   kElementBytes  of one element, as it is counted
///   kIsOne         it points to one element, or to none
///   count(of)      how many elements the structure says that there are
template <auto Member>
struct MemberFacts;

/// Of an implemented function that takes one structure: D3DKMTEvict.
///   name()   as in the traces
///   kWrites  when its structure is written back
template <auto Function>
struct FunctionFacts;

}  // namespace dxgkit::arguments

#include "arguments/generated_facts.h"
