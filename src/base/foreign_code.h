// Marks threads that are in code of others which is no driver's: a device plug-in.
#pragma once

namespace dxgkit {

/// True while the calling thread runs such code. Its faults are its owner's, whatever driver called
/// the routine that led there. Read by fault handlers.
inline constinit thread_local bool t_in_foreign_code = false;

}  // namespace dxgkit
