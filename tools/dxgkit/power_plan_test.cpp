#include "tools/dxgkit/power_plan.h"

#include <gtest/gtest.h>

namespace dxgkit::tool {
namespace {

// Statements end with semicolons or lines; comments and blanks say nothing.
TEST(PowerPlan, ReadsStatements) {
  const PowerPlan expected{{200, PowerStep::kStandby},
                           {400, PowerStep::kHibernate},
                           {600, PowerStep::kD3},
                           {800, PowerStep::kRemove}};
  EXPECT_EQ(*parse_power_plan("at 200 standby; at 400 hibernate; at 600 d3; at 800 remove"),
            expected);
  EXPECT_EQ(*parse_power_plan("# lunch\nat 200 standby # short\n\n at 400\thibernate;\r\n"
                              "at 600 d3;at 800 remove;;"),
            expected);
  EXPECT_EQ(*parse_power_plan("at 0 hybrid; at 1 d1; at 2 d2"),
            (PowerPlan{{0, PowerStep::kHybrid}, {1, PowerStep::kD1}, {2, PowerStep::kD2}}));
  EXPECT_TRUE(parse_power_plan("")->empty());
  EXPECT_TRUE(parse_power_plan(" ; \n# at 1 standby")->empty());
}

std::string error(std::string_view text) {
  const auto plan = parse_power_plan(text);
  return plan.has_value() ? "accepted" : plan.error();
}

// An error is reported with its place.
TEST(PowerPlan, RefusesWithLineAndColumn) {
  EXPECT_EQ(error("on 5 standby"), "line 1, column 1: 'on' where 'at' is expected");
  EXPECT_EQ(error("at 5 standby;\n  at x d3"),
            "line 2, column 6: 'x' where a number of packets is expected");
  EXPECT_EQ(error("at 5"),
            "line 1, column 5: the end where one of standby, hibernate, hybrid, "
            "d1, d2, d3, remove is expected");
  EXPECT_EQ(error("at 5\nstandby"),
            "line 1, column 5: the end of the statement where one of standby, hibernate, hybrid, "
            "d1, d2, d3, remove is expected");
  EXPECT_EQ(error("at -5 standby"), "line 1, column 4: '-5' where a number of packets is expected");
  EXPECT_EQ(error("at 18446744073709551616 d3"),
            "line 1, column 4: '18446744073709551616' where a number of packets is expected");
  EXPECT_EQ(error("at 5 standby at 6 d3"), "line 1, column 14: 'at' where ';' is expected");
  EXPECT_EQ(error("at 5 standby; at 5 d3"),
            "line 1, column 18: '5' where a number above 5 is expected");
  EXPECT_EQ(error("at 5 remove; at 6 d3"),
            "line 1, column 14: 'at' where nothing, after a removal, is expected");
  EXPECT_FALSE(parse_power_plan(std::string((1 << 20) + 1, ' ')).has_value());
}

}  // namespace
}  // namespace dxgkit::tool
