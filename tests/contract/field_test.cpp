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
  uint32_t bytes = 64;
};
NTSTATUS pass(DXGKARG_RENDER* args, bool patch, bool more, uint32_t bytes = 64) {
  args->pDmaBuffer = static_cast<std::byte*>(args->pDmaBuffer) + bytes;
  if (patch) *args->pPatchLocationListOut++ = patch_at(1, 16);
  if (!more) return 0;
  args->MultipassOffset += 64;
  return nt_status(Status::kGraphicsInsufficientDmaBuffer);
}
const Translation kTranslations[] = {
    {"UsesNothingItLists", true, [](auto* args) { return pass(args, false, false); }, true},
    {"UsesNothingInASingleByte", true, [](auto* args) { return pass(args, false, false, 1); }, true,
     1},
    {"WritesNothing", true, [](auto* args) { return pass(args, false, false, 0); }, false},
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
    const auto listed = [&] { return GetParam().listed ? client.make_allocation() : 0; };
    work.allocations = {{0}, {listed()}, {0}, {listed()}, {listed()}};
    EXPECT_EQ(client.render(context, work), 0);
    stack.drive();
    if (GetParam().found) {
      const verifier::Finding finding = stack.only_finding();
      EXPECT_EQ(finding.rule, "FIELD-01");
      EXPECT_EQ(finding.severity, verifier::Severity::kViolation);
      EXPECT_EQ(finding.ddi, "DxgkDdiRender");
      EXPECT_EQ(finding.confidence, verifier::Confidence::kMeasured);
      EXPECT_EQ(finding.actual,
                "A DMA buffer of " + std::to_string(GetParam().bytes) +
                    " bytes has 3 allocations in its allocation list, the first at index 1, and no "
                    "patch location.");
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
