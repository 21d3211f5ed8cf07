/* poppack.h: back to the packing before the last pshpack<n>.h. No include guard: used in pairs. */
#pragma pack(pop)
