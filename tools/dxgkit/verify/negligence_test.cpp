#include "tools/dxgkit/verify/negligence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace dxgkit::tool::verify {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using verifier::Situation;

/// The kernel's own injector: it has an answer for one entry.
class Inner final : public port::FaultInjector {
 public:
  std::optional<Status> before_ddi(std::string_view ddi) override {
    return ddi == answered ? std::optional(Status::kNoMemory) : std::nullopt;
  }
  std::optional<Status> before_paging(const port::PagingOperation&, uint32_t) override {
    return std::nullopt;
  }
  uint32_t room(std::string_view, uint32_t bytes) override { return bytes - 1; }
  void shape(port::SegmentsInfo* segments) override { segments->paging_buffer_bytes = 7; }
  bool probes_queries() override { return true; }
  uint32_t readable_commands(uint32_t bytes) override { return bytes - 16; }
  bool spares_patch() override { return true; }

  std::string_view answered;
};

class NegligenceTest : public testing::Test {
 protected:
  /// The situation comes up, and the entry is about to be called.
  std::optional<Status> patch(bool behind_start) {
    log_->reach(Situation::kPatchPartBehindStart, behind_start);
    log_->reach(Situation::kPatchWritten);
    return negligence_->before_ddi("DxgkDdiPatch");
  }
  /// The entry was called, and then the situation is told.
  std::optional<Status> build(bool transfer) {
    const std::optional<Status> answer = negligence_->before_paging({}, 100);
    log_->reach(Situation::kTransferIdle, transfer);
    return answer;
  }
  void use(std::unique_ptr<Negligence> negligence) {
    negligence_ = std::move(negligence);
    negligence_->set_inner(&inner_);
  }

  std::unique_ptr<verifier::SituationLog> log_ = std::make_unique<verifier::SituationLog>();
  Inner inner_;
  std::unique_ptr<Negligence> negligence_;
};

TEST_F(NegligenceTest, WithoutASituationItCountsCallsAndChangesNothing) {
  log_->reach(Situation::kPatchPartBehindStart);  // before its time
  use(std::make_unique<Negligence>(*log_));
  EXPECT_EQ(patch(false), std::nullopt);
  EXPECT_EQ(patch(true), std::nullopt);
  EXPECT_EQ(patch(false), std::nullopt);
  EXPECT_EQ(patch(true), std::nullopt);
  EXPECT_EQ(build(true), std::nullopt);
  EXPECT_EQ(build(false), std::nullopt);
  EXPECT_EQ(build(true), std::nullopt);
  EXPECT_THAT(negligence_->calls_of(Situation::kPatchPartBehindStart), ElementsAre(2, 4));
  EXPECT_THAT(negligence_->calls_of(Situation::kPatchWritten), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(negligence_->calls_of(Situation::kPatchNullEntry), IsEmpty());
  EXPECT_THAT(negligence_->calls_of(Situation::kTransferIdle), ElementsAre(1, 3));
  EXPECT_EQ(negligence_->neglected(), 0U);
}

TEST_F(NegligenceTest, LeavesOutTheCallsOfItsSituationAlone) {
  use(std::make_unique<Negligence>(*log_, Situation::kPatchPartBehindStart, Negligence::Calls{}));
  EXPECT_EQ(patch(false), std::nullopt);
  EXPECT_EQ(patch(true), Status::kSuccess);
  EXPECT_EQ(patch(false), std::nullopt);
  EXPECT_EQ(negligence_->before_ddi("DxgkDdiSubmitCommand"), std::nullopt);
  EXPECT_EQ(build(true), std::nullopt);
  EXPECT_EQ(patch(true), Status::kSuccess);
  EXPECT_EQ(negligence_->neglected(), 2U);
}

TEST_F(NegligenceTest, LeavesOutTheCallsThatARunBeforeHasCounted) {
  use(std::make_unique<Negligence>(*log_, Situation::kTransferIdle, Negligence::Calls{2, 3}));
  EXPECT_EQ(build(true), std::nullopt);
  EXPECT_EQ(build(false), Status::kSuccess);
  EXPECT_EQ(build(false), Status::kSuccess);
  EXPECT_EQ(build(true), std::nullopt);
  EXPECT_EQ(patch(true), std::nullopt);
  EXPECT_EQ(negligence_->neglected(), 2U);
}

TEST_F(NegligenceTest, TheInnerInjectorGoesFirstAndAnswersTheRest) {
  use(std::make_unique<Negligence>(*log_, Situation::kPatchPartBehindStart, Negligence::Calls{}));
  inner_.answered = "DxgkDdiPatch";
  EXPECT_EQ(patch(true), Status::kNoMemory);
  EXPECT_EQ(negligence_->room("DxgkDdiRender", 9), 8U);
  EXPECT_TRUE(negligence_->probes_queries());
  EXPECT_EQ(negligence_->readable_commands(64), 48U);
  EXPECT_TRUE(negligence_->spares_patch());
  port::SegmentsInfo segments;
  negligence_->shape(&segments);
  EXPECT_EQ(segments.paging_buffer_bytes, 7U);
}

// Unknown types are asked for before the entry is called, other queries are told behind it.
TEST_F(NegligenceTest, OneEntryMayHaveBothKindsOfSituations) {
  use(std::make_unique<Negligence>(*log_));
  EXPECT_EQ(negligence_->before_ddi("DxgkDdiQueryAdapterInfo"), std::nullopt);
  log_->reach(Situation::kQueryUmdPrivate);
  log_->reach(Situation::kQueryUnknownType);
  EXPECT_EQ(negligence_->before_ddi("DxgkDdiQueryAdapterInfo"), std::nullopt);
  EXPECT_THAT(negligence_->calls_of(Situation::kQueryUmdPrivate), ElementsAre(1));
  EXPECT_THAT(negligence_->calls_of(Situation::kQueryUnknownType), ElementsAre(2));
}

TEST_F(NegligenceTest, WhatCallbacksTellCannotBeLeftOut) {
  EXPECT_FALSE(Negligence::can_neglect(Situation::kInterruptCompleted));
  EXPECT_TRUE(Negligence::can_neglect(Situation::kPatchWritten));
}

}  // namespace
}  // namespace dxgkit::tool::verify
