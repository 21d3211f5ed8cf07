/* Numbers of virtio 1.2 that devices and drivers share: PCI transport (4.1) and split virtqueues
 * (2.7). Plain C. All values in memory and registers are little-endian. */
#pragma once

#define VIRTIO_PCI_VENDOR_ID 0x1AF4
#define VIRTIO_PCI_DEVICE_ID(type) (0x1040 + (type))
#define VIRTIO_PCI_REVISION 1 /* at least, of a device without the legacy interface */

/* Vendor capability (id 09h) of configuration space; offsets from its first byte. */
#define VIRTIO_PCI_CAP_ID 0x09
#define VIRTIO_PCI_CAP_LENGTH 2
#define VIRTIO_PCI_CAP_TYPE 3 /* VIRTIO_PCI_CAP_* below */
#define VIRTIO_PCI_CAP_BAR 4
#define VIRTIO_PCI_CAP_OFFSET 8      /* 32 bits: in the BAR */
#define VIRTIO_PCI_CAP_BYTES 12      /* 32 bits */
#define VIRTIO_PCI_CAP_MULTIPLIER 16 /* of NOTIFY: bytes from one queue's register to the next */
#define VIRTIO_PCI_CAP_DATA 16       /* of PCI: four bytes that reach into the BAR */
#define VIRTIO_PCI_CAP_LEAST 16      /* length of a capability without more */
#define VIRTIO_PCI_CAP_LEAST_EXTENDED 20 /* of NOTIFY and PCI */
#define VIRTIO_PCI_CAP_COMMON 1
#define VIRTIO_PCI_CAP_NOTIFY 2
#define VIRTIO_PCI_CAP_ISR 3
#define VIRTIO_PCI_CAP_DEVICE 4
#define VIRTIO_PCI_CAP_PCI 5

/* Common configuration. */
#define VIRTIO_COMMON_DEVICE_FEATURE_SELECT 0x00
#define VIRTIO_COMMON_DEVICE_FEATURE 0x04
#define VIRTIO_COMMON_DRIVER_FEATURE_SELECT 0x08
#define VIRTIO_COMMON_DRIVER_FEATURE 0x0C
#define VIRTIO_COMMON_CONFIG_VECTOR 0x10 /* 16 bits */
#define VIRTIO_COMMON_QUEUE_COUNT 0x12   /* 16 bits */
#define VIRTIO_COMMON_STATUS 0x14        /* 8 bits */
#define VIRTIO_COMMON_GENERATION 0x15    /* 8 bits */
#define VIRTIO_COMMON_QUEUE_SELECT 0x16  /* 16 bits */
#define VIRTIO_COMMON_QUEUE_SIZE 0x18    /* 16 bits */
#define VIRTIO_COMMON_QUEUE_VECTOR 0x1A  /* 16 bits */
#define VIRTIO_COMMON_QUEUE_ENABLE 0x1C  /* 16 bits */
#define VIRTIO_COMMON_QUEUE_NOTIFY 0x1E  /* 16 bits: times the multiplier */
#define VIRTIO_COMMON_QUEUE_DESC 0x20    /* 64 bits, written as two halves */
#define VIRTIO_COMMON_QUEUE_DRIVER 0x28
#define VIRTIO_COMMON_QUEUE_DEVICE 0x30
#define VIRTIO_COMMON_BYTES 0x38

#define VIRTIO_NO_VECTOR 0xFFFF

#define VIRTIO_STATUS_ACKNOWLEDGE 0x01
#define VIRTIO_STATUS_DRIVER 0x02
#define VIRTIO_STATUS_DRIVER_OK 0x04
#define VIRTIO_STATUS_FEATURES_OK 0x08
#define VIRTIO_STATUS_NEEDS_RESET 0x40
#define VIRTIO_STATUS_FAILED 0x80

#define VIRTIO_ISR_QUEUE 0x01 /* reading the register clears it and lowers the line */
#define VIRTIO_ISR_CONFIG 0x02

/* Feature bits, of 64. */
#define VIRTIO_F_INDIRECT_DESC 28
#define VIRTIO_F_EVENT_IDX 29
#define VIRTIO_F_VERSION_1 32
#define VIRTIO_F_ACCESS_PLATFORM 33 /* addresses are those of the bus */

/* A descriptor: {u64 address; u32 bytes; u16 flags; u16 next}. */
#define VIRTQ_DESC_BYTES 16
#define VIRTQ_DESC_NEXT 1
#define VIRTQ_DESC_WRITE 2 /* the device writes it */
#define VIRTQ_DESC_INDIRECT 4
/* Driver area: {u16 flags; u16 index; u16 ring[size]; u16 used_event}. */
#define VIRTQ_AVAIL_NO_INTERRUPT 1
#define VIRTQ_AVAIL_BYTES(size) (6u + 2u * (size))
/* Device area: {u16 flags; u16 index; {u32 id; u32 bytes} ring[size]; u16 avail_event}. */
#define VIRTQ_USED_BYTES(size) (6u + 8u * (size))
#define VIRTQ_SIZE_MOST 32768
