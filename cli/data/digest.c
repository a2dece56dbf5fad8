#include "cli/data/digest.h"

#include <errno.h>
#include <string.h>

#if defined(CLI_HAVE_MD)

#include <sha2.h>

lks_status digest_available(void)
{
    return LKS_OK;
}

lks_status digest_sha256(char out[DIGEST_SIZE], const char *path)
{
    if (SHA256File(path, out) != NULL) return LKS_OK;
    return lks_fail(LKS_E_IO, "%.400s cannot be read: %s", path, strerror(errno));
}

#else

lks_status digest_available(void)
{
    return lks_fail(LKS_E_UNSUPPORTED,
                    "data files cannot be compared with what was published: this program was built "
                    "without libmd, which computes SHA-256; install it (on Debian: apt-get install "
                    "libmd-dev), then configure and build again");
}

lks_status digest_sha256(char out[DIGEST_SIZE], const char *path)
{
    (void)path;
    *out = '\0';
    return digest_available();
}

#endif
