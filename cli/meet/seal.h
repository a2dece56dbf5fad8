/*
 * Proofs and sealed messages of a rendezvous, as docs/rendezvous.md has them. All of the cryptography is
 * libsodium's, which is loaded when it is used: a program that starts no rendezvous does not have it.
 */
#ifndef CLI_MEET_SEAL_H
#define CLI_MEET_SEAL_H

#include <lockstep/status.h>

#include "cli/meet/wire.h"

enum { SEAL_KEY = 32, SEAL_SECRET_LEAST = 16, SEAL_SECRET_MOST = 256 };

/* LKS_E_UNSUPPORTED where libsodium is not there; before any other function of this file. */
LKS_MUSTUSE lks_status seal_begin(void);

void seal_random(void *out, size_t bytes);

/* LKS_E_INVALID for a secret that is too short or too long. */
LKS_MUSTUSE lks_status seal_key(uint8_t key[SEAL_KEY], const char *secret);

/* What both sides have drawn for a connection. */
typedef struct seal_draw {
    uint8_t member[WIRE_RANDOM], leader[WIRE_RANDOM];
} seal_draw;

/* The proof of one side, and whether what was received is that. */
void seal_prove(uint8_t proof[WIRE_PROOF], const uint8_t key[SEAL_KEY], bool leader,
                const seal_draw *draw);
bool seal_is_proof(const uint8_t proof[WIRE_PROOF], const uint8_t key[SEAL_KEY], bool leader,
                   const seal_draw *draw);

/* A connection behind the proofs, as one side has it. */
typedef struct seal_link {
    uint8_t in[SEAL_KEY], out[SEAL_KEY];
    uint64_t received, sent; /* sealed frames */
} seal_link;
void seal_open_link(seal_link *link, const uint8_t key[SEAL_KEY], bool leader,
                    const seal_draw *draw);

/* Makes a whole frame, header, sealed body and tag, of the body of this length that stands in it behind WIRE_HEADER, and
 * has room for WIRE_TAG behind it. Returns the frame's length. */
size_t seal_close(seal_link *link, uint8_t *frame, wire_type type, size_t length);
/* The body of a frame whose header was read, in place of its `length` sealed bytes; it is WIRE_TAG shorter.
 * false: nobody who has the key has sent it now; the link is of no more use. */
bool seal_open(seal_link *link, const uint8_t header[WIRE_HEADER], uint8_t *body, size_t length);

#endif
