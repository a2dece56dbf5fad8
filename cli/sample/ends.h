/* Texts at which generated text ends (--stop). */
#ifndef CLI_SAMPLE_ENDS_H
#define CLI_SAMPLE_ENDS_H

#include "cli/cli.h"

typedef struct sample_end {
    const char *text;
    size_t bytes, met; /* so many of its bytes are the last that were made */
    size_t *shorter;   /* [bytes]: of its first i + 1 bytes so many of the last are the first */
} sample_end;

typedef struct sample_ends {
    int count;
    sample_end *each; /* in the command's pool */
} sample_ends;

typedef void sample_put(void *user, char byte);

sample_ends sample_ends_of(const cli_args *cli);
/* Takes the next byte, and puts those that can be part of no end any more, in their order. True: one of the ends has been
 * made, the longest where several have, and everything in front of it is put. */
bool sample_ends_take(sample_ends *ends, char byte, sample_put *put, void *user);
/* No byte follows: puts what was held back, and is ready for another text. */
void sample_ends_release(sample_ends *ends, sample_put *put, void *user);

#endif
