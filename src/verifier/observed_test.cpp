#include "verifier/observed.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace dxgkit::verifier {
namespace {

using Sentences = std::vector<std::string>;

Sentences sentences_of(std::string_view observed, Who who = Who::kMiniport) {
  Rule rule{};
  rule.who = who;
  rule.observed = observed;
  return consequences_of(rule);
}

// Each code word becomes a sentence, and what stands beside it stays.
TEST(Consequence, SaysTheCodeWords) {
  EXPECT_EQ(sentences_of("VIOL"),
            (Sentences{"dxgkit reports a finding.",
                       "The adapter goes on. No page says what Windows does."}));
  EXPECT_EQ(sentences_of("VIOL for another code"),
            Sentences{"dxgkit reports a finding for another code."});
  EXPECT_EQ(sentences_of("TEST (golden trace)", Who::kKernel),
            Sentences{"Nothing outside dxgkit shows it: a test of dxgkit fails (golden trace)."});
  EXPECT_EQ(sentences_of("TEST (stress)"),
            Sentences{"No single call shows it; a test of dxgkit tries it (stress)."});
  EXPECT_EQ(
      sentences_of("START-FAIL when 0 or >32; VIOL warning at 32"),
      (Sentences{"The adapter does not start when 0 or >32.", "dxgkit reports a warning at 32."}));
  EXPECT_EQ(sentences_of("WARNING (our choice)"),
            Sentences{"dxgkit reports a warning (our choice)."});
  EXPECT_EQ(sentences_of("VIOL, then TDR-ENGINE"),
            (Sentences{"dxgkit reports a finding.", "Timeout detection resets the engine."}));
  EXPECT_EQ(sentences_of("TDR-ADAPTER when silent"),
            Sentences{"Timeout detection resets the adapter when silent."});
  EXPECT_EQ(sentences_of("DEV-ERR(DMAFAULT)"),
            Sentences{"The device is lost, with the state DMAFAULT."});
  EXPECT_EQ(sentences_of("submission rejected, DEV-ERR"),
            Sentences{"Submission rejected, a lost device."});
  EXPECT_EQ(sentences_of("Windows: START-FAIL; here a warning"),
            (Sentences{"On Windows: The adapter does not start.", "In dxgkit: a warning."}));
  EXPECT_EQ(sentences_of("as named"), Sentences{"What is seen is what the rule itself names."});
  // A word that begins like a code word is none.
  EXPECT_EQ(sentences_of("TESTAMENT"), Sentences{"TESTAMENT."});
}

// A status is an answer that changes nothing; several in a row are one answer.
TEST(Consequence, SaysStatuses) {
  EXPECT_EQ(sentences_of("STATUS_INVALID_PARAMETER"),
            Sentences{"The call returns STATUS_INVALID_PARAMETER, and nothing has changed."});
  EXPECT_EQ(sentences_of("STATUS_A; STATUS_B / STATUS_C; VIOL"),
            (Sentences{"The call returns STATUS_A, STATUS_B or STATUS_C, and nothing has changed.",
                       "dxgkit reports a finding."}));
  EXPECT_EQ(sentences_of("STATUS_INVALID_PARAMETER, no page changed"),
            Sentences{"The call returns STATUS_INVALID_PARAMETER, no page changed."});
  EXPECT_EQ(sentences_of("STATUS_SUCCESS"), Sentences{"The call returns STATUS_SUCCESS."});
}

// A bug check has its number, its name, and its parameters in words.
TEST(Consequence, SaysBugChecks) {
  EXPECT_EQ(
      sentences_of("BC(119,2) for other codes"),
      (Sentences{"Windows stops with bug check 0x119 VIDEO_SCHEDULER_INTERNAL_ERROR (parameter 1 = "
                 "0x2) for other codes. dxgkit records it and stops this adapter only.",
                 "0x119 with parameter 1 = 0x2 means: The driver failed the submission of a "
                 "command."}));
  EXPECT_EQ(sentences_of("BC(44,irp)"),
            (Sentences{"Windows stops with bug check 0x44 MULTIPLE_IRP_COMPLETE_REQUESTS. dxgkit "
                       "records it and stops this adapter only.",
                       "0x44 means: An IRP was completed that is already complete. Its parameters "
                       "are 1: The address of the IRP. 2: Reserved. 3: Reserved. 4: Reserved."}));
  EXPECT_EQ(sentences_of("VIOL; corrupted pool: BC(19), BC(C2) later").size(), 5U);
  EXPECT_EQ(sentences_of("driver load fails; BC when called here").at(1),
            "Windows stops with a bug check when called here. dxgkit records it and stops this "
            "adapter only.");
}

// A separator inside brackets separates nothing.
TEST(Consequence, KeepsBracketsWhole) {
  EXPECT_EQ(sentences_of("START-FAIL (our choice; source says only \"not recognised\")"),
            Sentences{"The adapter does not start (our choice; source says only \"not "
                      "recognised\")."});
}

}  // namespace
}  // namespace dxgkit::verifier
