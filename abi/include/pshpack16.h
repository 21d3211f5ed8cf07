/* pshpack16.h: records up to poppack.h are packed to 16 bytes. No include guard: used in pairs. */
#pragma pack(push, 16)
