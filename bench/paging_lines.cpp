#include "bench/harness.h"
namespace dxgkit::bench {
void add_paging_lines(runtime::Runtime&, std::vector<Maker>&) {}
}  // namespace dxgkit::bench
