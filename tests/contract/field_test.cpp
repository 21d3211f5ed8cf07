// FIELD-01: what looks like use without a patch location, and is none.
#include <functional>
#include <string>

#include "tests/contract/fixture.h"

namespace dxgkit::contract {
namespace {

struct Translation {
  const char* sentence;
  bool listed;  // else the list holds NULL entries only
  NTSTATUS (*render)(DXGKARG_RENDER*);
  bool found;
};
NTSTATUS pass(DXGKARG_RENDER* args, bool patch, bool more) {
  args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + 64;
  if (patch) *args->pPatchLocationListOut++ = patch_at(1, 16);
  if (!more) return 0;
  args->MultipassOffset += 64;
  return nt_status(Status::kGraphicsInsufficientDmaBuffer);
}
const Translation kTranslations[] = {
    {"UsesNothingItLists", true, [](auto* args) { return pass(args, false, false); }, true},
    {"UsesItAtOnce", true, [](auto* args) { return pass(args, true, false); }, false},
    {"UsesItInTheSecondPass", true,
     [](auto* args) {
       const bool first = args->MultipassOffset == 0;
       return pass(args, !first, first);
     },
     false},
    {"UsesItInTheFirstPass", true,
     [](auto* args) {
       const bool first = args->MultipassOffset == 0;
       return pass(args, first, first);
     },
     false},
    {"ListsNothing", false, [](auto* args) { return pass(args, false, false); }, false},
};
class FieldUse : public ContractTest, public ::testing::WithParamInterface<Translation> {};
TEST_P(FieldUse, IsSeenInPatchLocations) {
  DXGKIT_COVERS("FIELD-01");
  with_client([](Stack& stack, Client& client) {
    stack.miniport.hooks.render = [](void*, DXGKARG_RENDER* args) {
      return GetParam().render(args);
    };
    ContextBuffers context = client.make_context();
    Work work;
    work.allocations = {{0}, {GetParam().listed ? client.make_allocation() : 0}};
    EXPECT_EQ(client.render(context, work), 0);
    stack.drive();
    if (GetParam().found) {
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "FIELD-01");
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_THAT(finding.actual, ::testing::HasSubstr("has 1 allocations"));
      EXPECT_THAT(finding.actual, ::testing::HasSubstr("first at index 1"));
    } else {
      EXPECT_EQ(stack.rules(), std::vector<std::string>{});
    }
    stack.miniport.hooks.render = nullptr;
  });
}
INSTANTIATE_TEST_SUITE_P(Rows, FieldUse, ::testing::ValuesIn(kTranslations),
                         [](const auto& row) { return std::string(row.param.sentence); });

}  // namespace
}  // namespace dxgkit::contract
