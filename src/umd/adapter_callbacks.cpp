// What a driver asks of the adapter: its kernel-mode half's private information, and escapes.
#include <vector>

#include "umd/call.h"

namespace dxgkit::umd {
namespace {

HRESULT query(const RuntimeAdapter& adapter, KMTQUERYADAPTERINFOTYPE type, void* data, UINT bytes) {
  D3DKMT_QUERYADAPTERINFO query{};
  query.hAdapter = adapter.kernel_handle();
  query.Type = type;
  query.pPrivateDriverData = data;
  query.PrivateDriverDataSize = bytes;
  return to_hresult(D3DKMTQueryAdapterInfo(&query));
}

HRESULT query2(const RuntimeAdapter& adapter, const D3DDDICB_QUERYADAPTERINFO2& args) {
  switch (args.QueryType) {
    case D3DDDI_QUERYADAPTERTYPE_DRIVERPRIVATE:
      return query(adapter, KMTQAITYPE_UMDRIVERPRIVATE, args.pPrivateDriverData,
                   args.PrivateDriverDataSize);
    case D3DDDI_QUERYADAPTERTYPE_QUERYREGISTRY:
      return query(adapter, KMTQAITYPE_QUERYREGISTRY, args.pPrivateDriverData,
                   args.PrivateDriverDataSize);
  }
  return E_INVALIDARG;
}

HRESULT escape(const RuntimeAdapter& adapter, const D3DDDICB_ESCAPE& args) {
  D3DKMT_ESCAPE escape{};
  escape.hAdapter = adapter.kernel_handle();
  if (args.hDevice != nullptr) {
    const RuntimeDevice* device = RuntimeDevice::find(args.hDevice);
    if (device == nullptr || &device->adapter() != &adapter) return E_INVALIDARG;
    escape.hDevice = device->kernel_handle();
  }
  if (!to_kernel(args.hContext, &escape.hContext)) return E_INVALIDARG;
  escape.Type = D3DKMT_ESCAPE_DRIVERPRIVATE;
  escape.Flags = args.Flags;
  escape.pPrivateDriverData = args.pPrivateDriverData;
  escape.PrivateDriverDataSize = args.PrivateDriverDataSize;
  return to_hresult(D3DKMTEscape(&escape));
}

HRESULT multisample_methods(const RuntimeAdapter& adapter,
                            D3DDDICB_GETMULTISAMPLEMETHODLIST& args) {
  D3DKMT_GETMULTISAMPLEMETHODLIST list{};
  list.hAdapter = adapter.kernel_handle();
  list.VidPnSourceId = args.VidPnSourceId;
  list.Width = args.Width;
  list.Height = args.Height;
  list.Format = args.Format;
  HRESULT result = to_hresult(D3DKMTGetMultisampleMethodList(&list));
  if (!succeeded(result)) return result;
  if (args.pMethodList != nullptr) {
    if (args.MethodCount < list.MethodCount) return E_INVALIDARG;
    std::vector<D3DKMT_MULTISAMPLEMETHOD> known(list.MethodCount);
    list.pMethodList = known.data();
    result = to_hresult(D3DKMTGetMultisampleMethodList(&list));
    if (!succeeded(result)) return result;
    std::vector<D3DDDI_MULTISAMPLINGMETHOD> methods;
    for (UINT i = 0; i < list.MethodCount; ++i)
      methods.push_back({known[i].NumSamples, known[i].NumQualityLevels});
    const size_t bytes = methods.size() * sizeof(D3DDDI_MULTISAMPLINGMETHOD);
    if (bytes != 0 && !guarded_copy(args.pMethodList, methods.data(), bytes)) return E_INVALIDARG;
  }
  args.MethodCount = list.MethodCount;
  return result;
}

}  // namespace

HRESULT APIENTRY GetMultisampleMethodListCb(HANDLE adapter,
                                            D3DDDICB_GETMULTISAMPLEMETHODLIST* args) {
  return call(RuntimeAdapter::find(adapter), args, Outputs::kOnSuccess, multisample_methods);
}
HRESULT APIENTRY QueryAdapterInfoCb(HANDLE adapter, const D3DDDICB_QUERYADAPTERINFO* args) {
  return call(RuntimeAdapter::find(adapter), args, Outputs::kNever, [](auto& on, auto& in) {
    return query(on, KMTQAITYPE_UMDRIVERPRIVATE, in.pPrivateDriverData, in.PrivateDriverDataSize);
  });
}
HRESULT APIENTRY QueryAdapterInfoCb2(HANDLE adapter, const D3DDDICB_QUERYADAPTERINFO2* args) {
  return call(RuntimeAdapter::find(adapter), args, Outputs::kNever, query2);
}
HRESULT APIENTRY EscapeCb(HANDLE adapter, const D3DDDICB_ESCAPE* args) {
  return call(RuntimeAdapter::find(adapter), args, Outputs::kNever, escape);
}

}  // namespace dxgkit::umd
