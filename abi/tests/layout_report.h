// Result of one run of the bit-field and GUID checks; the same layout for both ABIs.
#ifndef DXGKIT_ABI_LAYOUT_REPORT_H_
#define DXGKIT_ABI_LAYOUT_REPORT_H_

struct LayoutReport {
  int checked;
  int failed;
  const char* first_failure;
};

#endif  // DXGKIT_ABI_LAYOUT_REPORT_H_
