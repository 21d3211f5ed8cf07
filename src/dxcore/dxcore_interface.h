// DXCore's COM interfaces as a client on Linux sees them: the platform's calling convention,
// virtual functions in Microsoft's order (dxcore_interface.h of the DirectX headers).
#pragma once

#include <d3dkmthk.h>

#include <cstddef>
#include <cstdint>

namespace dxgkit::dxcore {

enum class DXCoreAdapterProperty : uint32_t {
  InstanceLuid,
  DriverVersion,
  DriverDescription,
  HardwareID,
  KmdModelVersion,
  ComputePreemptionGranularity,
  GraphicsPreemptionGranularity,
  DedicatedAdapterMemory,
  DedicatedSystemMemory,
  SharedSystemMemory,
  AcgCompatible,
  IsHardware,
  IsIntegrated,
  IsDetachable,
  HardwareIDParts,
};

enum class DXCoreAdapterState : uint32_t { IsDriverUpdateInProgress, AdapterMemoryBudget };
enum class DXCoreSegmentGroup : uint32_t { Local, NonLocal };
enum class DXCoreNotificationType : uint32_t {
  AdapterListStale,
  AdapterNoLongerValid,
  AdapterBudgetChange,
  AdapterHardwareContentProtectionTeardown,
};
enum class DXCoreAdapterPreference : uint32_t { Hardware, MinimumPower, HighPerformance };

struct DXCoreHardwareID {
  uint32_t vendorID, deviceID, subSysID, revision;
};
struct DXCoreHardwareIDParts {
  uint32_t vendorID, deviceID, subSystemID, subVendorID, revisionID;
};
struct DXCoreAdapterMemoryBudgetNodeSegmentGroup {
  uint32_t nodeIndex;
  DXCoreSegmentGroup segmentGroup;
};
struct DXCoreAdapterMemoryBudget {
  uint64_t budget, currentUsage, availableForReservation, currentReservation;
};

inline constexpr GUID kIUnknown = {0x00000000, 0, 0, {0xC0, 0, 0, 0, 0, 0, 0, 0x46}};
inline constexpr GUID kIDXCoreAdapterFactory = {
    0x78EE5945, 0xC36E, 0x4B13, {0xA6, 0x69, 0x00, 0x5D, 0xD1, 0x1C, 0x0F, 0x06}};
inline constexpr GUID kIDXCoreAdapterList = {
    0x526C7776, 0x40E9, 0x459B, {0xB7, 0x11, 0xF3, 0x2A, 0xD7, 0x6D, 0xFC, 0x28}};
inline constexpr GUID kIDXCoreAdapter = {
    0xF0DB4C7F, 0xFE5A, 0x42A2, {0xBD, 0x62, 0xF2, 0xA6, 0xCF, 0x6F, 0xC8, 0x3E}};
inline constexpr GUID kD3D11Graphics = {
    0x8C47866B, 0x7583, 0x450D, {0xF0, 0xF0, 0x6B, 0xAD, 0xA8, 0x95, 0xAF, 0x4B}};
inline constexpr GUID kD3D12Graphics = {
    0x0C9ECE4D, 0x2F6E, 0x4F01, {0x8C, 0x96, 0xE8, 0x9E, 0x33, 0x1B, 0x47, 0xB1}};
inline constexpr GUID kD3D12CoreCompute = {
    0x248E2800, 0xA793, 0x4724, {0xAB, 0xAA, 0x23, 0xA6, 0xDE, 0x1B, 0xE0, 0x90}};

inline constexpr HRESULT kOk = 0;
constexpr HRESULT hresult(uint32_t value) { return static_cast<HRESULT>(value); }
inline constexpr HRESULT kNoInterface = hresult(0x80004002);      // E_NOINTERFACE
inline constexpr HRESULT kBadPointer = hresult(0x80004003);       // E_POINTER
inline constexpr HRESULT kFail = hresult(0x80004005);             // E_FAIL
inline constexpr HRESULT kInvalidArgument = hresult(0x80070057);  // E_INVALIDARG
inline constexpr HRESULT kInvalidCall = hresult(0x887A0001);      // DXGI_ERROR_INVALID_CALL
inline constexpr HRESULT kUnsupported = hresult(0x887A0004);      // DXGI_ERROR_UNSUPPORTED
inline constexpr HRESULT kDeviceRemoved = hresult(0x887A0005);    // DXGI_ERROR_DEVICE_REMOVED

/// What COM calls IUnknown. Objects end with their last reference, so nobody else deletes them.
class IUnknown {
 public:
  virtual HRESULT QueryInterface(const GUID& iid, void** object) = 0;
  virtual uint32_t AddRef() = 0;
  virtual uint32_t Release() = 0;

 protected:
  ~IUnknown() = default;
};

using NotificationCallback = void (*)(DXCoreNotificationType type, IUnknown* object, void* context);

class IDXCoreAdapter : public IUnknown {
 public:
  virtual bool IsValid() = 0;
  virtual bool IsAttributeSupported(const GUID& attribute) = 0;
  virtual bool IsPropertySupported(DXCoreAdapterProperty property) = 0;
  virtual HRESULT GetProperty(DXCoreAdapterProperty property, size_t bytes, void* data) = 0;
  virtual HRESULT GetPropertySize(DXCoreAdapterProperty property, size_t* bytes) = 0;
  virtual bool IsQueryStateSupported(DXCoreAdapterState state) = 0;
  virtual HRESULT QueryState(DXCoreAdapterState state, size_t input_bytes, const void* input,
                             size_t output_bytes, void* output) = 0;
  virtual bool IsSetStateSupported(DXCoreAdapterState state) = 0;
  virtual HRESULT SetState(DXCoreAdapterState state, size_t input_bytes, const void* input,
                           size_t data_bytes, const void* data) = 0;
  virtual HRESULT GetFactory(const GUID& iid, void** factory) = 0;

 protected:
  ~IDXCoreAdapter() = default;
};

class IDXCoreAdapterList : public IUnknown {
 public:
  virtual HRESULT GetAdapter(uint32_t index, const GUID& iid, void** adapter) = 0;
  virtual uint32_t GetAdapterCount() = 0;
  virtual bool IsStale() = 0;
  virtual HRESULT GetFactory(const GUID& iid, void** factory) = 0;
  virtual HRESULT Sort(uint32_t count, const DXCoreAdapterPreference* preferences) = 0;
  virtual bool IsAdapterPreferenceSupported(DXCoreAdapterPreference preference) = 0;

 protected:
  ~IDXCoreAdapterList() = default;
};

class IDXCoreAdapterFactory : public IUnknown {
 public:
  virtual HRESULT CreateAdapterList(uint32_t count, const GUID* attributes, const GUID& iid,
                                    void** list) = 0;
  virtual HRESULT GetAdapterByLuid(const LUID& luid, const GUID& iid, void** adapter) = 0;
  virtual bool IsNotificationTypeSupported(DXCoreNotificationType type) = 0;
  virtual HRESULT RegisterEventNotification(IUnknown* object, DXCoreNotificationType type,
                                            NotificationCallback callback, void* context,
                                            uint32_t* cookie) = 0;
  virtual HRESULT UnregisterEventNotification(uint32_t cookie) = 0;

 protected:
  ~IDXCoreAdapterFactory() = default;
};

}  // namespace dxgkit::dxcore
