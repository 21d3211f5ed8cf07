/* Command buffers that are right but for one field, as a table.
 *
 * Each row takes a command that is right, and changes one field of it. The rows without a change
 * show that it was right: the same command at the limits of what the driver has to accept.
 */
#include "tools/dxgkit/clients/softgpu_overreach.h"

#include <stddef.h>
#include <string.h>

/* --- references --- */

int make_use_list(DxgkitClientJob* job, UseList* list) {
  uint32_t place[USE_COUNT];
  if (job->use_count_max < USE_COUNT) return 0;
  list->random = mix(job->seed + 11);
  for (uint32_t i = 0; i < USE_COUNT; ++i) place[i] = i;
  for (uint32_t i = USE_COUNT - 1; i > 0; --i) {
    const uint32_t other = (uint32_t)(mix(list->random + i) % (i + 1));
    const uint32_t kept = place[i];
    place[i] = place[other];
    place[other] = kept;
  }
  for (uint32_t i = 0; i < USE_COUNT; ++i) {
    DxgkitClientUse* use = &job->uses[place[i]];
    use->allocation = i < 2 * kAllocations ? i / 2 : DXGKIT_CLIENT_NO_ALLOCATION;
    use->write = i % 2 == 0 && i / 2 >= kVideo && i < 2 * kAllocations;
    if (i >= 2 * kAllocations)
      list->empty = place[i];
    else
      (i % 2 == 0 ? list->full : list->reading)[i / 2] = place[i];
  }
  job->use_count = USE_COUNT;
  return 1;
}

void name_uses(UseList* list, Command* command) {
  SgpuUmdReference* references[2];
  int written[2];
  const uint32_t count = references_of(command, references, written);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t allocation = references[i]->allocation;
    list->random = mix(list->random + 1);
    references[i]->allocation =
        written[i] || list->random % 2 == 0 ? list->full[allocation] : list->reading[allocation];
  }
}

void name_addresses(const DxgkitClientJob* job, Command* command) {
  SgpuUmdReference* references[2];
  int written[2];
  const uint32_t count = references_of(command, references, written);
  for (uint32_t i = 0; i < count; ++i)
    *references[i] = sgpu_umd_at(job->addresses[references[i]->allocation] + references[i]->offset);
}

/* --- the table --- */

/* The command that a row changes; the last are about what holds the commands. */
enum {
  kFence,
  kWait,
  kSignal,
  kCopy,
  kFill,
  kBlit2d,
  kConvolve,
  kDownscale,
  kSameMemory, /* CONVOLVE from and to one allocation, side by side */
  kChecksum,
  kDelay,
  kBuffer,     /* the SgpuUmdBufferHeader */
  kLength,     /* the bytes that are submitted, as the caller says */
  kSubmission, /* the SgpuUmdSubmission */
  kSubmissionBytes
};
/* Where its memory is: with room around it, or the first or second reference to the very end of
 * its allocation. */
enum { kInside, kFirstAtEnd, kSecondAtEnd };
/* The models in which the row is wrong. */
enum { kPatching = 1, kAddresses = 2, kBoth = 3 };
/* What happens to the field. */
enum { kNothing, kSet, kAdd, kNoSuchEntry, kEmptyEntry, kReadingEntry, kOutputOverInput, kCode };

typedef struct Row {
  uint8_t command, place, models, change;
  uint16_t field, field_bytes;
  int64_t value;
  const char* what;
} Row;

#define FIELD(type, member) offsetof(type, member), sizeof(((type*)0)->member)
#define NO_FIELD 0, 0, 0
#define RIGHT(command, place, what) \
  { command, place, kBoth, kNothing, NO_FIELD, what " at its limits" }

/* So much behind the end of an allocation is another one. */
#define TWO_PAGES 8192
/* Rows for each reference. `align`: of the offset; the first multiple of it beyond the end. */
#define REFERENCE(command, place, type, member, align, what)                                \
  {command,                                                                                 \
   kInside,                                                                                 \
   kPatching,                                                                               \
   kNoSuchEntry,                                                                            \
   FIELD(type, member.allocation),                                                          \
   0,                                                                                       \
   what ": an index behind the allocation list"},                                           \
      {command,                                                                             \
       kInside,                                                                             \
       kPatching,                                                                           \
       kSet,                                                                                \
       FIELD(type, member.allocation),                                                      \
       -1,                                                                                  \
       what ": the index 0xffffffff"},                                                      \
      {command,                                                                             \
       kInside,                                                                             \
       kPatching,                                                                           \
       kEmptyEntry,                                                                         \
       FIELD(type, member.allocation),                                                      \
       0,                                                                                   \
       what ": the index of an entry without an allocation"},                               \
      {command,                                                                             \
       place,                                                                               \
       kPatching,                                                                           \
       kAdd,                                                                                \
       FIELD(type, member.offset),                                                          \
       align,                                                                               \
       what ": an offset just too large"},                                                  \
      {command,                                                                             \
       place,                                                                               \
       kPatching,                                                                           \
       kAdd,                                                                                \
       FIELD(type, member.offset),                                                          \
       TWO_PAGES,                                                                           \
       what ": an offset in the memory behind"},                                            \
      {command,                                                                             \
       kInside,                                                                             \
       kPatching,                                                                           \
       kSet,                                                                                \
       FIELD(type, member.offset),                                                          \
       0x80000000,                                                                          \
       what ": an offset far beyond the end"},                                              \
      {command,                                                                             \
       kInside,                                                                             \
       kPatching,                                                                           \
       kSet,                                                                                \
       FIELD(type, member.offset),                                                          \
       -(align),                                                                            \
       what ": an offset that wraps with the size"},                                        \
      {command, kInside, kAddresses, kSet, FIELD(type, member), 0, what ": the address 0"}, \
      {command,                                                                             \
       kInside,                                                                             \
       kAddresses,                                                                          \
       kSet,                                                                                \
       FIELD(type, member),                                                                 \
       -4096,                                                                               \
       what ": an address at the end of all"},                                              \
  {                                                                                         \
    command, kInside, kAddresses, kAdd, FIELD(type, member), (int64_t)1 << 46,              \
        what ": an address with one bit too many"                                           \
  }
#define WRITTEN(command, type, member, what)                          \
  {command,                                                           \
   kInside,                                                           \
   kPatching,                                                         \
   kReadingEntry,                                                     \
   FIELD(type, member.allocation),                                    \
   0,                                                                 \
   what ": written by an entry without WriteOperation"},              \
  {                                                                   \
    command, kInside, kAddresses, kCode, FIELD(type, member), 0,      \
        what ": an address that is mapped without the right to write" \
  }
#define WRONG(command, type, member, value, what) \
  { command, kInside, kBoth, kSet, FIELD(type, member), value, what }
#define FURTHER(command, place, type, member, value, what) \
  { command, place, kPatching, kAdd, FIELD(type, member), value, what }
#define MISALIGNED(command, type, member, by, what)                                           \
  {command, kInside, kPatching, kAdd, FIELD(type, member.offset), by, what ": misaligned"}, { \
    command, kInside, kAddresses, kAdd, FIELD(type, member), by, what ": misaligned"          \
  }
#define HEADER(command, bytes, what)                                                 \
  WRONG(command, SgpuUmdCommand, size_bytes, bytes - 8, what ": 8 bytes too short"), \
      WRONG(command, SgpuUmdCommand, size_bytes, bytes + 8, what ": 8 bytes too long")
#define OPCODE(value, what) WRONG(kDelay, SgpuUmdCommand, opcode, value, what)

#define FENCE_ROWS(command, what)                                                      \
  RIGHT(command, kFirstAtEnd, what),                                                   \
      REFERENCE(command, kFirstAtEnd, SgpuUmdFence, memory, 8, what),                  \
      HEADER(command, sizeof(SgpuUmdFence), what),                                     \
      MISALIGNED(command, SgpuUmdFence, memory, 4, what),                              \
      WRONG(command, SgpuUmdFence, width, 0, what ": no width"),                       \
      WRONG(command, SgpuUmdFence, width, 7, what ": a width of 7"),                   \
      WRONG(command, SgpuUmdFence, width, 4, what ": a value too wide for its width"), \
      WRONG(command, SgpuUmdFence, width, 16, what ": a width of 16"),                 \
      WRONG(command, SgpuUmdFence, reserved, 1, what ": reserved")

#define IMAGE_ROWS(command, type, what)                                                            \
  RIGHT(command, kInside, what), RIGHT(command, kFirstAtEnd, what),                                \
      RIGHT(command, kSecondAtEnd, what),                                                          \
      REFERENCE(command, kFirstAtEnd, type, source, 4, what " source"),                            \
      REFERENCE(command, kSecondAtEnd, type, destination, 4, what " destination"),                 \
      WRITTEN(command, type, destination, what " destination"),                                    \
      HEADER(command, sizeof(type), what), MISALIGNED(command, type, source, 2, what " source"),   \
      MISALIGNED(command, type, destination, 2, what " destination"),                              \
      {command,                                                                                    \
       kInside,                                                                                    \
       kBoth,                                                                                      \
       kAdd,                                                                                       \
       FIELD(type, source_pitch),                                                                  \
       2,                                                                                          \
       what ": a source pitch of pixels and a half"},                                              \
      {command,                                                                                    \
       kInside,                                                                                    \
       kBoth,                                                                                      \
       kAdd,                                                                                       \
       FIELD(type, destination_pitch),                                                             \
       2,                                                                                          \
       what ": a destination pitch of pixels and a half"},                                         \
      {command,                                                                                    \
       kInside,                                                                                    \
       kBoth,                                                                                      \
       kOutputOverInput,                                                                           \
       FIELD(type, destination),                                                                   \
       0,                                                                                          \
       what ": the output begins over the end of the source"},                                     \
      {command,                                                                                    \
       kInside,                                                                                    \
       kBoth,                                                                                      \
       kOutputOverInput,                                                                           \
       FIELD(type, destination),                                                                   \
       1,                                                                                          \
       what ": the output ends over the beginning of the source"},                                 \
      FURTHER(command, kFirstAtEnd, type, source_pitch, 4, what ": a larger source pitch"),        \
      FURTHER(command, kSecondAtEnd, type, destination_pitch, 4,                                   \
              what ": a larger destination pitch"),                                                \
      FURTHER(command, kFirstAtEnd, type, source_height, 1, what ": a source row more"),           \
      WRONG(command, type, source_pitch, 4 * (kWidth - 1), what ": source rows that overlap"),     \
      WRONG(command, type, destination_pitch, 4, what ": destination rows that overlap"),          \
      WRONG(command, type, source_pitch, 0xFFFFFFF0, what ": a source pitch without end"),         \
      WRONG(command, type, destination_pitch, 0xFFFFFFF0,                                          \
            what ": a destination pitch without end"),                                             \
      WRONG(command, type, source_width, 0, what ": no source width"),                             \
      WRONG(command, type, source_height, 0, what ": no source height"),                           \
      WRONG(command, type, source_width, 0x40000000 + kWidth, what ": a source width that wraps"), \
      WRONG(command, type, source_height, 0x7FFFFFFF, what ": a source height without end")

/* Of the images in the rows. */
enum { kWidth = 19, kHeight = 7, kOutputWidth = 9, kOutputHeight = 4, kOutputX = 10, kOutputY = 3 };

static const Row kRows[] = {
    FENCE_ROWS(kFence, "FENCE_WRITE"),
    WRITTEN(kFence, SgpuUmdFence, memory, "FENCE_WRITE"),
    FENCE_ROWS(kSignal, "SEM_SIGNAL"),
    WRITTEN(kSignal, SgpuUmdFence, memory, "SEM_SIGNAL"),
    RIGHT(kWait, kFirstAtEnd, "SEM_WAIT"),
    REFERENCE(kWait, kFirstAtEnd, SgpuUmdFence, memory, 8, "SEM_WAIT"),
    HEADER(kWait, sizeof(SgpuUmdFence), "SEM_WAIT"),
    WRONG(kWait, SgpuUmdFence, width, 2, "SEM_WAIT: a width of 2"),
    WRONG(kWait, SgpuUmdFence, reserved, 1, "SEM_WAIT: reserved"),

    RIGHT(kCopy, kFirstAtEnd, "COPY"),
    RIGHT(kCopy, kSecondAtEnd, "COPY"),
    REFERENCE(kCopy, kFirstAtEnd, SgpuUmdCopy, source, 1, "COPY source"),
    REFERENCE(kCopy, kSecondAtEnd, SgpuUmdCopy, destination, 1, "COPY destination"),
    WRITTEN(kCopy, SgpuUmdCopy, destination, "COPY destination"),
    HEADER(kCopy, sizeof(SgpuUmdCopy), "COPY"),
    FURTHER(kCopy, kFirstAtEnd, SgpuUmdCopy, size_bytes, 1, "COPY: a size that leaves the source"),
    FURTHER(kCopy, kSecondAtEnd, SgpuUmdCopy, size_bytes, 1,
            "COPY: a size that leaves the destination"),
    FURTHER(kCopy, kSecondAtEnd, SgpuUmdCopy, size_bytes, TWO_PAGES,
            "COPY: a size into the memory behind"),
    FURTHER(kCopy, kInside, SgpuUmdCopy, size_bytes, (int64_t)1 << 32,
            "COPY: a size of 32 bits and more"),
    WRONG(kCopy, SgpuUmdCopy, size_bytes, -1, "COPY: a size that wraps"),
    {kCopy, kInside, kPatching, kSet, FIELD(SgpuUmdCopy, size_bytes), 0, "COPY: no bytes"},

    RIGHT(kFill, kFirstAtEnd, "FILL"),
    REFERENCE(kFill, kFirstAtEnd, SgpuUmdFill, destination, 4, "FILL"),
    WRITTEN(kFill, SgpuUmdFill, destination, "FILL"),
    HEADER(kFill, sizeof(SgpuUmdFill), "FILL"),
    MISALIGNED(kFill, SgpuUmdFill, destination, 2, "FILL"),
    FURTHER(kFill, kFirstAtEnd, SgpuUmdFill, size_bytes, 4, "FILL: a size just too large"),
    FURTHER(kFill, kFirstAtEnd, SgpuUmdFill, size_bytes, TWO_PAGES,
            "FILL: a size into the memory behind"),
    {kFill, kInside, kBoth, kAdd, FIELD(SgpuUmdFill, size_bytes), 1,
     "FILL: a size that is no multiple of 4"},
    {kFill, kInside, kBoth, kAdd, FIELD(SgpuUmdFill, size_bytes), (int64_t)1 << 40,
     "FILL: a size beyond everything"},
    WRONG(kFill, SgpuUmdFill, size_bytes, -4, "FILL: a size that wraps"),
    {kFill, kInside, kPatching, kSet, FIELD(SgpuUmdFill, size_bytes), 0, "FILL: no bytes"},
    WRONG(kFill, SgpuUmdFill, reserved, 1, "FILL: reserved"),

    RIGHT(kBlit2d, kFirstAtEnd, "BLIT2D"),
    RIGHT(kBlit2d, kSecondAtEnd, "BLIT2D"),
    REFERENCE(kBlit2d, kFirstAtEnd, SgpuUmdBlit2d, source, 1, "BLIT2D source"),
    REFERENCE(kBlit2d, kSecondAtEnd, SgpuUmdBlit2d, destination, 1, "BLIT2D destination"),
    WRITTEN(kBlit2d, SgpuUmdBlit2d, destination, "BLIT2D destination"),
    HEADER(kBlit2d, sizeof(SgpuUmdBlit2d), "BLIT2D"),
    FURTHER(kBlit2d, kFirstAtEnd, SgpuUmdBlit2d, source_pitch, 1, "BLIT2D: a larger source pitch"),
    FURTHER(kBlit2d, kSecondAtEnd, SgpuUmdBlit2d, destination_pitch, 1,
            "BLIT2D: a larger destination pitch"),
    FURTHER(kBlit2d, kFirstAtEnd, SgpuUmdBlit2d, width_bytes, 1,
            "BLIT2D: a row that leaves the source"),
    FURTHER(kBlit2d, kSecondAtEnd, SgpuUmdBlit2d, width_bytes, 1,
            "BLIT2D: a row that leaves the destination"),
    FURTHER(kBlit2d, kFirstAtEnd, SgpuUmdBlit2d, height, 1,
            "BLIT2D: a row more than the source has"),
    FURTHER(kBlit2d, kSecondAtEnd, SgpuUmdBlit2d, height, 1,
            "BLIT2D: a row more than the destination has"),
    WRONG(kBlit2d, SgpuUmdBlit2d, source_pitch, kWidth - 1, "BLIT2D: source rows that overlap"),
    WRONG(kBlit2d, SgpuUmdBlit2d, destination_pitch, kWidth - 1,
          "BLIT2D: destination rows that overlap"),
    WRONG(kBlit2d, SgpuUmdBlit2d, source_pitch, -1, "BLIT2D: a source pitch without end"),
    WRONG(kBlit2d, SgpuUmdBlit2d, width_bytes, 0, "BLIT2D: no width"),
    WRONG(kBlit2d, SgpuUmdBlit2d, height, 0, "BLIT2D: no height"),
    WRONG(kBlit2d, SgpuUmdBlit2d, height, -1, "BLIT2D: a height without end"),

    IMAGE_ROWS(kConvolve, SgpuUmdConvolve, "CONVOLVE"),
    RIGHT(kSameMemory, kInside, "CONVOLVE beside its source"),
    WRONG(kConvolve, SgpuUmdConvolve, output_width, 0, "CONVOLVE: no output width"),
    WRONG(kConvolve, SgpuUmdConvolve, output_height, 0, "CONVOLVE: no output height"),
    WRONG(kConvolve, SgpuUmdConvolve, output_width, kOutputWidth + 1,
          "CONVOLVE: an output column more than the source has"),
    WRONG(kConvolve, SgpuUmdConvolve, output_height, kOutputHeight + 1,
          "CONVOLVE: an output row more than the source has"),
    WRONG(kConvolve, SgpuUmdConvolve, output_width, kWidth + 1,
          "CONVOLVE: an output wider than the source"),
    WRONG(kConvolve, SgpuUmdConvolve, output_height, kHeight + 1,
          "CONVOLVE: an output higher than the source"),
    WRONG(kConvolve, SgpuUmdConvolve, output_x, kOutputX + 1,
          "CONVOLVE: an output one column too far right"),
    WRONG(kConvolve, SgpuUmdConvolve, output_y, kOutputY + 1,
          "CONVOLVE: an output one row too far down"),
    WRONG(kConvolve, SgpuUmdConvolve, output_x, -1, "CONVOLVE: an output column that wraps"),
    WRONG(kConvolve, SgpuUmdConvolve, output_y, -1, "CONVOLVE: an output row that wraps"),
    WRONG(kConvolve, SgpuUmdConvolve, kernel_width, 0, "CONVOLVE: no kernel width"),
    WRONG(kConvolve, SgpuUmdConvolve, kernel_width, 2, "CONVOLVE: an even kernel width"),
    WRONG(kConvolve, SgpuUmdConvolve, kernel_width, 9, "CONVOLVE: a kernel width of 9"),
    WRONG(kConvolve, SgpuUmdConvolve, kernel_height, 0, "CONVOLVE: no kernel height"),
    WRONG(kConvolve, SgpuUmdConvolve, kernel_height, 6, "CONVOLVE: an even kernel height"),
    WRONG(kConvolve, SgpuUmdConvolve, kernel_height, 9, "CONVOLVE: a kernel height of 9"),
    WRONG(kConvolve, SgpuUmdConvolve, divisor, 0, "CONVOLVE: divided by 0"),
    WRONG(kConvolve, SgpuUmdConvolve, divisor, -1, "CONVOLVE: divided by less than 0"),
    WRONG(kConvolve, SgpuUmdConvolve, divisor, (1 << 24) + 1, "CONVOLVE: a divisor too large"),
    WRONG(kConvolve, SgpuUmdConvolve, bias, -256, "CONVOLVE: a bias of -256"),
    WRONG(kConvolve, SgpuUmdConvolve, bias, 256, "CONVOLVE: a bias of 256"),
    WRONG(kConvolve, SgpuUmdConvolve, flags, 8, "CONVOLVE: an unknown flag"),
    WRONG(kConvolve, SgpuUmdConvolve, reserved, 1, "CONVOLVE: reserved"),
    WRONG(kConvolve, SgpuUmdConvolve, reserved2, 1, "CONVOLVE: reserved2"),

    IMAGE_ROWS(kDownscale, SgpuUmdDownscale, "DOWNSCALE"),
    FURTHER(kDownscale, kSecondAtEnd, SgpuUmdDownscale, source_height, 2,
            "DOWNSCALE: an output row more"),

    RIGHT(kChecksum, kFirstAtEnd, "CHECKSUM"),
    RIGHT(kChecksum, kSecondAtEnd, "CHECKSUM"),
    REFERENCE(kChecksum, kFirstAtEnd, SgpuUmdChecksum, source, 1, "CHECKSUM source"),
    REFERENCE(kChecksum, kSecondAtEnd, SgpuUmdChecksum, result, 8, "CHECKSUM result"),
    WRITTEN(kChecksum, SgpuUmdChecksum, result, "CHECKSUM result"),
    HEADER(kChecksum, sizeof(SgpuUmdChecksum), "CHECKSUM"),
    MISALIGNED(kChecksum, SgpuUmdChecksum, result, 4, "CHECKSUM result"),
    FURTHER(kChecksum, kFirstAtEnd, SgpuUmdChecksum, pitch, 1, "CHECKSUM: a larger pitch"),
    FURTHER(kChecksum, kFirstAtEnd, SgpuUmdChecksum, width_bytes, 1, "CHECKSUM: a longer row"),
    FURTHER(kChecksum, kFirstAtEnd, SgpuUmdChecksum, height, 1, "CHECKSUM: a row more"),
    WRONG(kChecksum, SgpuUmdChecksum, pitch, kWidth - 1, "CHECKSUM: rows that overlap"),
    WRONG(kChecksum, SgpuUmdChecksum, width_bytes, 0, "CHECKSUM: no width"),
    WRONG(kChecksum, SgpuUmdChecksum, height, 0, "CHECKSUM: no height"),
    WRONG(kChecksum, SgpuUmdChecksum, height, -1, "CHECKSUM: a height without end"),
    WRONG(kChecksum, SgpuUmdChecksum, kind, 2, "CHECKSUM: an unknown kind"),

    RIGHT(kDelay, kInside, "DELAY"),
    HEADER(kDelay, sizeof(SgpuUmdDelay), "DELAY"),
    WRONG(kDelay, SgpuUmdDelay, duration_ns, SGPU_UMD_DELAY_MAX_NS + 1,
          "DELAY: of more than an hour"),
    WRONG(kDelay, SgpuUmdDelay, flags, 2, "DELAY: an unknown flag"),
    WRONG(kDelay, SgpuUmdDelay, reserved, 1, "DELAY: reserved"),

    /* The kernel's commands, and no commands at all. */
    {kDelay, kInside, kPatching, kSet, FIELD(SgpuUmdCommand, opcode), 0x00,
     "NOP in the place of a command"},
    {kDelay, kInside, kPatching, kSet, FIELD(SgpuUmdCommand, opcode), 0x01,
     "END in the place of a command"},
    OPCODE(0x04, "the kernel's command 4"),
    OPCODE(0x0C, "the kernel's command 12"),
    OPCODE(0x0D, "the kernel's command 13"),
    {kCopy, kInside, kAddresses, kSet, FIELD(SgpuUmdCommand, opcode), 0x10,
     "a command for the kernel's buffers only"}, /* COPY_PTES has the same fields */
    OPCODE(0x0F, "an opcode that is none"),
    OPCODE(0x12, "an opcode that is none"),
    OPCODE(0x20, "an opcode that is none"),
    OPCODE(0xFF, "an opcode that is none"),
    OPCODE(-1, "an opcode that is none"),
    OPCODE(0x01000003, "an opcode that is none"),
    WRONG(kDelay, SgpuUmdCommand, size_bytes, 0, "a command of no bytes"),

    {kBuffer, kInside, kPatching, kAdd, FIELD(SgpuUmdBufferHeader, magic), 1,
     "another magic number"},
    {kBuffer, kInside, kPatching, kAdd, FIELD(SgpuUmdBufferHeader, version), 1,
     "a version that nobody knows"},
    {kBuffer, kInside, kPatching, kAdd, FIELD(SgpuUmdBufferHeader, flags), 1,
     "a flag of the buffer"},
    {kBuffer, kInside, kPatching, kAdd, FIELD(SgpuUmdBufferHeader, size_bytes), 4,
     "a buffer that is half a word longer than submitted"},
    {kBuffer, kInside, kPatching, kAdd, FIELD(SgpuUmdBufferHeader, size_bytes), 8,
     "a buffer longer than submitted"},
    {kBuffer, kInside, kPatching, kAdd, FIELD(SgpuUmdBufferHeader, size_bytes), -4,
     "a buffer that ends in half a word"},
    {kBuffer, kInside, kPatching, kAdd, FIELD(SgpuUmdBufferHeader, size_bytes), -8,
     "a buffer that ends in its last command"},
    {kBuffer, kInside, kPatching, kAdd, FIELD(SgpuUmdBufferHeader, size_bytes), -16,
     "a buffer that ends in its last command"},
    {kBuffer, kInside, kPatching, kSet, FIELD(SgpuUmdBufferHeader, size_bytes), 8,
     "a buffer shorter than its header"},
    {kBuffer, kInside, kPatching, kSet, FIELD(SgpuUmdBufferHeader, size_bytes), 0,
     "a buffer of no bytes"},
    {kBuffer, kInside, kPatching, kSet, FIELD(SgpuUmdBufferHeader, size_bytes), -8,
     "a buffer of 4 GiB"},
    {kLength, kInside, kPatching, kSet, 0, 4, 8, "a submission of half a header"},
    {kLength, kInside, kPatching, kAdd, 0, 4, -8, "a submission that ends in the last command"},

    {kLength, kInside, kAddresses, kAdd, 0, 4, -8, "a submission that ends in the last command"},
    {kLength, kInside, kAddresses, kAdd, 0, 4, -4, "a submission that ends in half a word"},
    {kSubmission, kInside, kAddresses, kAdd, FIELD(SgpuUmdSubmission, magic), 1,
     "another magic number"},
    {kSubmission, kInside, kAddresses, kAdd, FIELD(SgpuUmdSubmission, version), 1,
     "a version that nobody knows"},
    {kSubmission, kInside, kAddresses, kAdd, FIELD(SgpuUmdSubmission, flags), 1,
     "a flag of the submission"},
    {kSubmission, kInside, kAddresses, kAdd, FIELD(SgpuUmdSubmission, reserved), 1,
     "the submission's reserved field"},
    {kSubmissionBytes, kInside, kAddresses, kAdd, 0, 4, -8, "private data cut short"},
};

/* --- the commands --- */

static SgpuUmdReference at_place(const SoftgpuJob* job, uint32_t allocation, uint32_t bytes,
                                 uint32_t alignment, int at_end) {
  SgpuUmdReference reference = {allocation, job->scratch % 64 + 64};
  reference.offset -= reference.offset % 8;
  if (at_end) {
    reference.offset = job->shapes[allocation].size_bytes - bytes;
    reference.offset -= reference.offset % alignment;
  }
  return reference;
}

static uint32_t extent(uint32_t pitch, uint32_t row_bytes, uint32_t rows) {
  return (rows - 1) * pitch + row_bytes;
}

/* A command that is right, with `first` and `second` where the row wants them. */
static Command right_command(const SoftgpuJob* job, const Row* row) {
  const int first = row->place == kFirstAtEnd, second = row->place == kSecondAtEnd;
  Command c;
  memset(&c, 0, sizeof(c));
  switch (row->command) {
    case kFence:
    case kSignal:
    case kWait:
      c.header.opcode = row->command == kFence    ? SGPU_UMD_OP_FENCE_WRITE
                        : row->command == kSignal ? SGPU_UMD_OP_SEM_SIGNAL
                                                  : SGPU_UMD_OP_SEM_WAIT;
      c.header.size_bytes = sizeof(c.fence);
      c.fence.memory = at_place(job, kReadBack, 8, 8, first);
      c.fence.value = row->command == kWait ? 0 : 0x700000007;
      c.fence.width = 8;
      break;
    case kCopy:
      c.header.opcode = SGPU_UMD_OP_COPY;
      c.header.size_bytes = sizeof(c.copy);
      c.copy.source = at_place(job, kBytes, 123, 1, first);
      c.copy.destination = at_place(job, kReadBack, 123, 1, second);
      c.copy.size_bytes = 123;
      break;
    case kFill:
      c.header.opcode = SGPU_UMD_OP_FILL;
      c.header.size_bytes = sizeof(c.fill);
      c.fill.destination = at_place(job, kReadBack, 100, 4, first);
      c.fill.size_bytes = 100;
      break;
    case kBlit2d:
      c.header.opcode = SGPU_UMD_OP_BLIT2D;
      c.header.size_bytes = sizeof(c.blit2d);
      c.blit2d.width_bytes = kWidth;
      c.blit2d.height = kHeight;
      c.blit2d.source_pitch = kWidth + 5;
      c.blit2d.destination_pitch = kWidth + 2;
      c.blit2d.source = at_place(job, kBytes, extent(kWidth + 5, kWidth, kHeight), 1, first);
      c.blit2d.destination =
          at_place(job, kReadBack, extent(kWidth + 2, kWidth, kHeight), 1, second);
      break;
    case kConvolve:
    case kSameMemory: {
      SgpuUmdConvolve* v = &c.convolve;
      const uint32_t from = extent(4 * (kWidth + 3), 4 * kWidth, kHeight);
      const uint32_t to = extent(4 * (kWidth + 2), 4 * kOutputWidth, kOutputHeight);
      v->header.opcode = SGPU_UMD_OP_CONVOLVE;
      v->header.size_bytes = sizeof(*v);
      v->source_pitch = 4 * (kWidth + 3);
      v->destination_pitch = 4 * (kWidth + 2); /* room for rows that are too long */
      v->source_width = kWidth;
      v->source_height = kHeight;
      v->output_x = kOutputX;
      v->output_y = kOutputY;
      v->output_width = kOutputWidth;
      v->output_height = kOutputHeight;
      v->kernel_width = row->place == kFirstAtEnd ? 1 : 7;
      v->kernel_height = row->place == kSecondAtEnd ? 1 : 7;
      v->divisor = row->place == kInside ? 1 << 24 : 1;
      v->bias = row->place == kFirstAtEnd ? -255 : 255;
      v->flags = row->place == kInside ? 7 : 0;
      v->source = at_place(job, kVideo, from, 4, first);
      v->destination = at_place(job, kReadBack, to, 4, second);
      if (row->command == kSameMemory) {
        v->destination = v->source;
        v->destination.offset += from;
      }
      break;
    }
    case kDownscale: {
      SgpuUmdDownscale* d = &c.downscale;
      const uint32_t width = (kWidth + 1) / 2, height = (kHeight + 1) / 2;
      d->header.opcode = SGPU_UMD_OP_DOWNSCALE;
      d->header.size_bytes = sizeof(*d);
      d->source_pitch = 4 * (kWidth + 2);
      d->destination_pitch = 4 * (width + 1);
      d->source_width = kWidth;
      d->source_height = kHeight;
      d->source = at_place(job, kVideo, extent(4 * (kWidth + 2), 4 * kWidth, kHeight), 4, first);
      d->destination =
          at_place(job, kReadBack, extent(4 * (width + 1), 4 * width, height), 4, second);
      break;
    }
    case kChecksum:
      c.header.opcode = SGPU_UMD_OP_CHECKSUM;
      c.header.size_bytes = sizeof(c.checksum);
      c.checksum.source = at_place(job, kBytes, extent(kWidth + 3, kWidth, kHeight), 1, first);
      c.checksum.result = at_place(job, kReadBack, 8, 8, second);
      c.checksum.pitch = kWidth + 3;
      c.checksum.width_bytes = kWidth;
      c.checksum.height = kHeight;
      c.checksum.kind = SGPU_UMD_CHECKSUM_SUM64;
      break;
    default:
      c.header.opcode = SGPU_UMD_OP_DELAY;
      c.header.size_bytes = sizeof(c.delay);
      c.delay.flags = SGPU_UMD_DELAY_PREEMPTIBLE;
      break;
  }
  return c;
}

static void change(void* structure, const Row* row, int64_t value) {
  uint64_t field = 0;
  memcpy(&field, (uint8_t*)structure + row->field, row->field_bytes);
  field = row->change == kAdd ? field + (uint64_t)value : (uint64_t)value;
  memcpy((uint8_t*)structure + row->field, &field, row->field_bytes);
}

/* Before names are put in: the destination moves to where it shares a pixel with the source. */
static void put_over_source(Command* command, const Row* row) {
  const SgpuUmdReference source = command->convolve.source;
  const int convolve = command->header.opcode == SGPU_UMD_OP_CONVOLVE;
  const uint32_t from = convolve ? extent(4 * (kWidth + 3), 4 * kWidth, kHeight)
                                 : extent(4 * (kWidth + 2), 4 * kWidth, kHeight);
  const uint32_t to = convolve
                          ? extent(4 * (kWidth + 2), 4 * kOutputWidth, kOutputHeight)
                          : extent(4 * (kWidth / 2 + 2), 4 * (kWidth / 2 + 1), kHeight / 2 + 1);
  SgpuUmdReference* destination = &command->convolve.destination;
  command->convolve.source.offset += 2048;
  destination->allocation = source.allocation;
  destination->offset = command->convolve.source.offset;
  if (row->value == 0)
    destination->offset += from - 4;
  else
    destination->offset -= to - 4;
}

static void change_command(const DxgkitClientJob* job, const UseList* list, const Row* row,
                           Command* command) {
  int64_t value = row->value;
  if (row->change == kNothing || row->change == kOutputOverInput) return;
  if (row->change == kNoSuchEntry) value = job->use_count;
  if (row->change == kEmptyEntry) value = list->empty;
  if (row->change == kReadingEntry) value = list->reading[kReadBack];
  if (row->change == kCode) value = (int64_t)job->commands_address;
  change(command, row, value);
}

static int append(DxgkitClientJob* job, const void* bytes, uint32_t size) {
  if (job->command_bytes_max - job->command_bytes < size) return 0;
  memcpy((uint8_t*)job->commands + job->command_bytes, bytes, size);
  job->command_bytes += size;
  return 1;
}

static int append_command(DxgkitClientJob* job, UseList* list, Command* command) {
  if (job->addresses != NULL)
    name_addresses(job, command);
  else
    name_uses(list, command);
  return append(job, command, command->header.size_bytes);
}

/* The row with this number of those that are for this node and model. */
static const Row* find_row(const DxgkitClientJob* job, uint32_t variant) {
  const uint32_t model = job->addresses != NULL ? kAddresses : kPatching;
  for (size_t i = 0; i < sizeof(kRows) / sizeof(kRows[0]); ++i) {
    const Row* row = &kRows[i];
    const int image = row->command >= kConvolve && row->command <= kSameMemory;
    if ((row->models & model) == 0) continue;
    /* On other nodes the command itself is the mistake. */
    if (image && job->node != SGPU_UMD_NODE_3D && row->change != kNothing) continue;
    if (variant-- == 0) return row;
  }
  return NULL;
}

const char* record_overreach(void* client, DxgkitClientJob* job, uint32_t variant,
                             DxgkitClientOverreach* overreach) {
  (void)client;
  const Row* const row = find_row(job, variant);
  if (row == NULL) return NULL;
  const int patching = job->addresses == NULL;
  SgpuUmdBufferHeader header = {.magic = SGPU_UMD_BUFFER_MAGIC, .version = SGPU_UMD_VERSION};
  SgpuUmdSubmission submission = {.magic = SGPU_UMD_SUBMISSION_MAGIC, .version = SGPU_UMD_VERSION};
  SoftgpuJob work;
  UseList list = {.empty = 0};
  make_job(&work, job->seed, job->node, 0);
  if (patching && !make_use_list(job, &list)) return "the allocation list is too short";
  if (patching && !append(job, &header, sizeof(header))) return "the command buffer is too short";

  /* Something right first, so that the mistake is not where the buffer begins. */
  const Row copy = {.command = kCopy, .place = kInside};
  Command command = right_command(&work, &copy);
  if (!append_command(job, &list, &command)) return "the command buffer is too short";

  command = right_command(&work, row);
  if (row->change == kOutputOverInput) put_over_source(&command, row);
  const uint32_t bytes = command.header.size_bytes;
  if (patching)
    name_uses(&list, &command);
  else
    name_addresses(job, &command);
  if (row->command < kBuffer) change_command(job, &list, row, &command);
  /* A longer command takes what follows it; there it would be right. */
  const uint64_t behind = 0;
  if (!append(job, &command, bytes) ||
      (command.header.size_bytes > bytes && !append(job, &behind, sizeof(behind))))
    return "the command buffer is too short";

  if (patching) {
    header.size_bytes = job->command_bytes;
    if (row->command == kBuffer) change(&header, row, row->value);
    memcpy(job->commands, &header, sizeof(header));
  } else {
    if (job->private_bytes_max < sizeof(submission)) return "too little room for private data";
    if (row->command == kSubmission) change(&submission, row, row->value);
    memcpy(job->private_data, &submission, sizeof(submission));
    job->private_bytes = sizeof(submission);
  }
  if (row->command == kLength) change(&job->command_bytes, row, row->value);
  if (row->command == kSubmissionBytes) change(&job->private_bytes, row, row->value);
  overreach->what = row->what;
  /* With addresses the driver looks at the submission, and the engine at commands. */
  const int looked_at =
      row->command >= kSubmission || (row->command == kLength && row->value % 8 != 0);
  overreach->expected = patching || looked_at ? DXGKIT_CLIENT_REFUSED : DXGKIT_CLIENT_STOPPED;
  const int image = row->command >= kConvolve && row->command <= kSameMemory;
  if (row->change == kNothing && !(image && job->node != SGPU_UMD_NODE_3D))
    overreach->expected = DXGKIT_CLIENT_RIGHT;
  return NULL;
}
