/* pshpack1.h: records up to poppack.h are packed to 1 byte. No include guard: used in pairs. */
#pragma pack(push, 1)
