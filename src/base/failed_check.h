// The check that ended this process, for its last words.
#pragma once

namespace dxgkit {

/// The message of the DXGKIT_CHECK that failed in this process; "": none has. Any thread.
const char* failed_check();

}  // namespace dxgkit
