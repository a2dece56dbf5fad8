/* SHA-256 of a file, by libmd. */
#ifndef CLI_DIGEST_H
#define CLI_DIGEST_H

#include <lockstep/status.h>

enum { DIGEST_SIZE = 65 }; /* 64 hexadecimal digits and the final 0 */

/* LKS_E_UNSUPPORTED in a build without libmd. */
LKS_MUSTUSE lks_status digest_available(void);

/* LKS_E_IO when the file cannot be read. */
LKS_MUSTUSE lks_status digest_sha256(char out[DIGEST_SIZE], const char *path);

#endif
