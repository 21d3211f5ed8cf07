/* winerror.h: result codes of Windows functions that driver sources name. */
#ifndef DXGKIT_ABI_WINERROR_H_
#define DXGKIT_ABI_WINERROR_H_

#include <ntdef.h>
#include <dxgkit/hresults.h>

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC system_header
#endif

#define NO_ERROR 0
#define ERROR_SUCCESS 0
#define ERROR_INVALID_FUNCTION 1
#define ERROR_FILE_NOT_FOUND 2
#define ERROR_ACCESS_DENIED 5
#define ERROR_INVALID_HANDLE 6
#define ERROR_NOT_ENOUGH_MEMORY 8
#define ERROR_OUTOFMEMORY 14
#define ERROR_GEN_FAILURE 31
#define ERROR_DEV_NOT_EXIST 55
#define ERROR_NOT_SUPPORTED 50
#define ERROR_INVALID_PARAMETER 87
#define ERROR_INSUFFICIENT_BUFFER 122
#define ERROR_MORE_DATA 234
#define ERROR_IO_PENDING 997
#ifndef SUCCEEDED
#define SUCCEEDED(hr) (((HRESULT)(hr)) >= 0)
#define FAILED(hr) (((HRESULT)(hr)) < 0)
#endif

#endif  /* DXGKIT_ABI_WINERROR_H_ */
