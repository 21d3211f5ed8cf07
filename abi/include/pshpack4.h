/* pshpack4.h: records up to poppack.h are packed to 4 bytes. No include guard: used in pairs. */
#pragma pack(push, 4)
