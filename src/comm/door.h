/*
 * Where rank 0 is reached by the others, beside the transport: TCP over IPv4, non-blocking sockets, and a
 * pair of keys drawn for each run, by which both sides know each other among the strangers of a network.
 */
#ifndef LKI_COMM_DOOR_H
#define LKI_COMM_DOOR_H

#include <stdbool.h>
#include <stdint.h>

enum { LKI_DOOR_ADDRESSES = 8, LKI_DOOR_KEY = 16 };

/* What the others have to know. */
typedef struct lki_door {
    double period_s; /* of the watch; 0: there is no door */
    uint16_t port;   /* this and addresses as in a packet */
    int32_t count;
    uint32_t address[LKI_DOOR_ADDRESSES];
    uint8_t hello[LKI_DOOR_KEY], welcome[LKI_DOOR_KEY];
} lki_door;

/* The first thing that a rank says. */
typedef struct lki_door_hello {
    uint8_t key[LKI_DOOR_KEY];
    int32_t rank;
} lki_door_hello;

/* Listens; on the loopback device alone where all ranks are `near`, else on every one of this host.
 * Returns the socket, or -1: there is none, and the door has period 0. */
int lki_door_open(lki_door *door, double period_s, bool near);
/* A socket that has been welcomed; -1: nobody answers as rank 0 would. Takes a second for each
 * address at most, and five where somebody is there who does not answer. */
int lki_door_enter(const lki_door *door, int rank);
/* Whether a hello has the key, and a rank of those there are; and the answer to it. */
bool lki_door_knows(const lki_door *door, const lki_door_hello *hello, int size);
bool lki_door_welcome(const lki_door *door, int socket);

#endif
