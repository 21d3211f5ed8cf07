/* pshpack2.h: records up to poppack.h are packed to 2 bytes. No include guard: used in pairs. */
#pragma pack(push, 2)
