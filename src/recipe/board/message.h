/* Messages of Protocol Buffers (https://protobuf.dev/programming-guides/encoding) as bytes that grow. */
#ifndef LKI_RECIPE_BOARD_MESSAGE_H
#define LKI_RECIPE_BOARD_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero is an empty one. */
typedef struct lki_message {
    uint8_t *data; /* free() it */
    size_t used, room;
    bool failed; /* there was no memory: then nothing more is added */
} lki_message;

/* Fields, in any order; a repeated one once for each value. */
void lki_message_int(lki_message *m, int field, uint64_t value);
void lki_message_float(lki_message *m, int field, float value);
void lki_message_double(lki_message *m, int field, double value);
void lki_message_doubles(lki_message *m, int field, const double *value, int64_t count);
void lki_message_bytes(lki_message *m, int field, const void *data, size_t bytes);
void lki_message_text(lki_message *m, int field, const char *text);
/* A message in it: what is added until close is the field's. */
size_t lki_message_open(lki_message *m, int field);
void lki_message_close(lki_message *m, size_t opened);

/* Little-endian, without a field. */
void lki_message_raw(lki_message *m, uint64_t value, int bytes);

#endif
