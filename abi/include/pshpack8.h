/* pshpack8.h: records up to poppack.h are packed to 8 bytes. No include guard: used in pairs. */
#pragma pack(push, 8)
