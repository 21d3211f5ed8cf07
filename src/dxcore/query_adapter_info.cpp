// D3DKMTQueryAdapterInfo for clients with characters of four bytes.
#include <ntstatus.h>

#include <vector>

#include "base/guarded_copy.h"
#include "dxcore/host.h"
#include "dxcore/kernel.h"
#include "dxcore/wide_characters.h"

namespace dxgkit::dxcore {
namespace {

/// As the kernel bounds it.
constexpr size_t kDataMax = size_t{64} << 10;

NTSTATUS query(const D3DKMT_QUERYADAPTERINFO* arguments) {
  D3DKMT_QUERYADAPTERINFO own;
  std::vector<std::byte> wide;
  // What cannot be read, the kernel refuses as it refuses it from others.
  if (!guarded_copy(&own, arguments, sizeof own) || own.PrivateDriverDataSize > kDataMax ||
      !WideQuery::is_wide(own.Type, own.PrivateDriverDataSize))
    return kernel_D3DKMTQueryAdapterInfo(arguments);
  wide.resize(own.PrivateDriverDataSize);
  if (!guarded_copy(wide.data(), own.pPrivateDriverData, wide.size()))
    return kernel_D3DKMTQueryAdapterInfo(arguments);
  WideQuery question(own.Type, wide);
  if (!question.valid()) return STATUS_INVALID_PARAMETER;
  void* const answer_at = own.pPrivateDriverData;
  own.pPrivateDriverData = question.kernel_data().data();
  own.PrivateDriverDataSize = static_cast<UINT>(question.kernel_data().size());
  const NTSTATUS status = kernel_D3DKMTQueryAdapterInfo(&own);
  if (status < 0) return status;
  const std::vector<std::byte> answer = question.answer();
  return guarded_copy(answer_at, answer.data(), answer.size()) ? status : STATUS_INVALID_PARAMETER;
}

}  // namespace
}  // namespace dxgkit::dxcore

extern "C" NTSTATUS APIENTRY D3DKMTQueryAdapterInfo(const D3DKMT_QUERYADAPTERINFO* arguments) {
  const dxgkit::dxcore::Call call;
  return call.refusal() != 0 ? call.refusal() : dxgkit::dxcore::query(arguments);
}
