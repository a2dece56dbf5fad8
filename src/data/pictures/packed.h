/*
 * The file of packed pictures, which is mapped: a slot of fixed size for each picture that was found, in an order that
 * says nothing of who decoded it when.
 *
 *   head      below
 *   names     of the classes, each with a zero byte behind it; zeros up to a multiple of 8
 *   labels    int32 of each slot, -1: a picture that was left out; zeros up to a multiple of 8
 *   checks    uint64 of each slot: XXH3-64 of its bytes with bit 0 set; 0: nothing is in it
 *   slots     from a multiple of 64 on; each [height][width][channels], as bytes: those for training, then those for testing
 *
 * All numbers are little-endian. While it is made it is called ".part", its head has no digest, and its checks say
 * which slots are done.
 */
#ifndef LKI_DATA_PICTURES_PACKED_H
#define LKI_DATA_PICTURES_PACKED_H

#include <lockstep/context.h>

#define LKI_PACKED_FILE "pictures.packed"

enum { LKI_PACKED_SIDE = 2048, LKI_PACKED_CLASSES = 1 << 20 };

typedef struct lki_packed_head {
    char magic[8]; /* LKI_PACKED_MAGIC */
    uint32_t height, width, channels, classes;
    uint64_t slots[2];   /* for training, for testing */
    uint64_t name_bytes; /* of all names with their zero bytes */
    uint64_t digest;     /* XXH3-64 of all before the slots, with this one 0 */
    uint64_t source;     /* of a .part: what was packed how; else 0 */
} lki_packed_head;
#define LKI_PACKED_MAGIC "LKSPICT1"

/* Where things are, in bytes from the start. */
typedef struct lki_packed_places {
    size_t names, labels, checks, slots, slot_bytes, end;
    int64_t count; /* of slots */
} lki_packed_places;

/* False: the head is none, or of a file that cannot be. */
bool lki_packed_place(lki_packed_places *out, const lki_packed_head *head);

/* A file as it lies in memory, aligned to 8 bytes. */
typedef struct lki_packed {
    lki_packed_head head;
    lki_packed_places at;
    const uint8_t *data;
    const int32_t *label;
    const uint64_t *check;
} lki_packed;

/* LKS_E_FORMAT where it is anything but a finished file; slots are looked at when they are read. `path` is for messages. */
lks_status lki_packed_read(lki_packed *out, const uint8_t *data, size_t bytes, const char *path);

uint64_t lki_packed_check(const uint8_t *slot, size_t bytes);
/* Of all before the slots. */
uint64_t lki_packed_digest(const uint8_t *front, size_t bytes);

#endif
