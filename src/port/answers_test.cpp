#include "port/answers.h"

#include <gtest/gtest.h>

namespace dxgkit::port {
namespace {

std::string_view told(uint32_t code) { return no_ntstatus(static_cast<int32_t>(code)); }

TEST(Answers, NtstatusCodesPass) {
  for (const uint32_t code : {
           0x00000000U,  // STATUS_SUCCESS
           0x00000080U,  // STATUS_ABANDONED
           0x000000BFU,  // STATUS_ABANDONED_WAIT_63
           0x000000C0U,  // STATUS_USER_APC
           0x000000FFU,  // STATUS_ALREADY_COMPLETE
           0x00000100U,  // STATUS_KERNEL_APC
           0x00000102U,  // STATUS_TIMEOUT
           0x00000103U,  // STATUS_PENDING
           0x001E0307U,  // a graphics success code
           0x40000000U,  // STATUS_OBJECT_NAME_EXISTS
           0x401E0117U,  // a graphics informational code
           0x80000005U,  // STATUS_BUFFER_OVERFLOW
           0x8000001AU,  // STATUS_NO_MORE_ENTRIES
           0x801E0000U,  // a graphics warning
           0xC0000001U,  // STATUS_UNSUCCESSFUL
           0xC000000DU,  // STATUS_INVALID_PARAMETER
           0xC01E0001U,  // STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER
           0xE0000123U,  // a driver's own
       }) {
    EXPECT_EQ(told(code), "") << std::hex << code;
  }
}

TEST(Answers, OtherKindsOfCodesAreNamed) {
  EXPECT_EQ(told(1), "TRUE, or a Win32 error code");
  EXPECT_EQ(told(5), "a Win32 error code");
  EXPECT_EQ(told(87), "a Win32 error code");
  EXPECT_EQ(told(0x7F), "a Win32 error code");
  EXPECT_EQ(told(0xEA), "a Win32 error code");
  EXPECT_EQ(told(0x12F), "a Win32 error code");
  EXPECT_EQ(told(1223), "a Win32 error code");
  EXPECT_EQ(told(0x80070057), "an HRESULT made of a Win32 error code");
  EXPECT_EQ(told(0x80004001), "an HRESULT");
  EXPECT_EQ(told(0x80004005), "an HRESULT");
  EXPECT_EQ(told(0x8000FFFF), "an HRESULT");
  EXPECT_EQ(told(0x8876086C), "an HRESULT of Direct3D");
  EXPECT_EQ(told(0x887A0005), "an HRESULT of Direct3D");
  EXPECT_EQ(told(0xD0000022), "an NTSTATUS wrapped in an HRESULT");
}

}  // namespace
}  // namespace dxgkit::port
