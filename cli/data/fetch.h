/*
 * Fetching a file of known size from an address, by libcurl. The library is loaded by fetch_open(),
 * so that nothing else in the program needs it. Proxies are taken from the environment
 * (http_proxy, https_proxy, all_proxy, no_proxy).
 */
#ifndef CLI_FETCH_H
#define CLI_FETCH_H

#include <stdint.h>

#include <lockstep/status.h>

typedef struct cli_fetch cli_fetch;

/* One at a time. LKS_E_IO where libcurl cannot be loaded, LKS_E_UNSUPPORTED in a build without. */
LKS_MUSTUSE lks_status fetch_open(cli_fetch **out);
void fetch_close(cli_fetch *fetch); /* NULL is fine */

/* What libcurl says of itself: "libcurl/7.88.1 OpenSSL/3.0.17 ...". */
const char *fetch_version(const cli_fetch *fetch);

typedef struct fetch_request {
    const char *address;
    int file;        /* to append to; the server is asked for what is not there yet */
    int64_t bytes;   /* of the whole file */
    double patience; /* seconds: stop when less than a kilobyte arrives in that time */
    void (*progress)(void *user, int64_t have); /* called often */
    void *user;
} fetch_request;

typedef enum fetch_end {
    FETCH_DONE,    /* `file` has all its bytes */
    FETCH_BROKEN,  /* the connection ended or stood still; going on may help */
    FETCH_REFUSED, /* not to be had here: no such host, status 404, ... */
    FETCH_WRONG,   /* something else: too few or too many bytes */
    FETCH_FAILED,  /* `file` could not be written; the record has the sentence */
} fetch_end;

enum { FETCH_REASON = 320 };

/* Whatever the end, the file holds what arrived so far. `reason` is part of a sentence: what
 * happened, for BROKEN, REFUSED and WRONG. */
fetch_end fetch_run(cli_fetch *fetch, const fetch_request *request, char reason[FETCH_REASON]);

#endif
