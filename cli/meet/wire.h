/*
 * Messages between agents, as docs/rendezvous.md has them: what is written here is read as the same, and
 * anything else is refused. Nothing in here reads or writes a file, or keeps a pointer into what it read.
 */
#ifndef CLI_MEET_WIRE_H
#define CLI_MEET_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_VERSION = 1,
    WIRE_HEADER = 8,
    WIRE_RANDOM = 32,
    WIRE_PROOF = 32,
    WIRE_TAG = 16,
    WIRE_BODY = 65000, /* of any message; sealed it is longer by the tag */
    WIRE_TEXT = 256,
    WIRE_OUTPUT = 16384 - 7,
};

typedef enum wire_type {
    WIRE_HELLO = 1,
    WIRE_CHALLENGE,
    WIRE_PROVE,
    WIRE_JOIN,
    WIRE_WELCOME,
    WIRE_REFUSE,
    WIRE_START,
    WIRE_SAID,
    WIRE_ENDED,
    WIRE_STOP,
    WIRE_BEAT,
    WIRE_BYE,
    WIRE_TYPES
} wire_type;

typedef enum wire_reason {
    WIRE_OTHER_ID = 1,
    WIRE_OTHER_VERSION,
    WIRE_OTHER_NODES,
    WIRE_OTHER_STARTER,
    WIRE_DUPLICATE,
    WIRE_LATE,
    WIRE_NO_RANK,
    WIRE_REASONS
} wire_reason;

/* What of it has a meaning depends on the type. */
typedef struct wire_message {
    wire_type type;
    uint8_t random[WIRE_RANDOM], proof[WIRE_PROOF];
    char id[WIRE_TEXT], version[WIRE_TEXT], host[WIRE_TEXT], starter[WIRE_TEXT];
    int32_t node, nodes, ranks, process, first, number, code, signal;
    uint8_t reason, stream;
    char text[WIRE_TEXT];  /* of refuse a sentence, of start the daemon's name */
    uint16_t words;        /* of start */
    const char *list;      /* they, each with a 0 behind it */
    const uint8_t *output; /* of said */
    size_t output_bytes;
} wire_message;

/* What the first bytes of a frame say: the type and the length of its body; false: it is none of this
 * version, of a type that is not `sealed` as told, or too long for its type. */
bool wire_header_read(wire_type *type, size_t *length, const uint8_t header[WIRE_HEADER],
                      bool sealed);
void wire_header_write(uint8_t header[WIRE_HEADER], wire_type type, size_t length);
/* Hello, challenge and prove are not. */
bool wire_is_sealed(wire_type type);

/* Writes the body of a message (unsealed) and returns its length; *good is false where it does not fit, or
 * something in it is not valid. */
size_t wire_write(uint8_t *body, size_t room, const wire_message *message, bool *good);
/* Reads a whole body; false: it is none. `words` (WIRE_BODY bytes) gets the list of start; output
 * points into the body. */
bool wire_read(wire_message *out, wire_type type, const uint8_t *body, size_t length, char *words);

#endif
