#include "data/shards/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/memory.h"
#include "numeric/hash.h"

lks_status lki_shards_stats_path(char out[LKI_SHARDS_PATH], const lki_shards *shards,
                                 const uint8_t *used)
{
    const int length = snprintf(out, LKI_SHARDS_PATH, "%s/stats-flattened-%s-%016" PRIx64 ".npy",
                                shards->folder, shards->plan.step,
                                lki_hash(used, (size_t)shards->plan.rows));
    return length > 0 && length < LKI_SHARDS_PATH
               ? LKS_OK
               : lki_fail_io("open", shards->folder, ENAMETOOLONG);
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

static bool is_fresh(const lki_shards *shards, const char *path)
{
    struct stat stats, shard;
    char name[LKI_SHARDS_PATH];
    if (stat(path, &stats) != 0) return false;
    for (int array = 0; array < 2; array++)
        for (int64_t i = 0; i < shards->plan.shards; i++)
            if (!lki_shards_path(name, shards->folder, shards->plan.step, array, i) ||
                stat(name, &shard) != 0 || is_newer(&shard.st_mtim, &stats.st_mtim))
                return false;
    return true;
}

static lki_npy head_of(const lki_shards *shards)
{
    return (lki_npy){.kind = LKI_NPY_FLOAT,
                     .size = sizeof(double),
                     .big = LKI_NPY_OWN_BIG,
                     .ndim = 2,
                     .dim = {2, shards->plan.width[0] + shards->plan.width[1]}};
}

bool lki_shards_stats_read(double *mean, double *deviation, const lki_shards *shards,
                           const char *path)
{
    const lki_npy expected = head_of(shards);
    const size_t columns = (size_t)expected.dim[1];
    lki_file file = {.data = NULL};
    lki_npy npy;
    bool good = is_fresh(shards, path) && lki_file_open(&file, shards->context, path) == LKS_OK &&
                lki_npy_read(&npy, file.data, file.bytes, path) == LKS_OK &&
                npy.kind == expected.kind && npy.size == expected.size && npy.big == expected.big &&
                !npy.fortran && npy.ndim == 2 && npy.dim[0] == 2 && npy.dim[1] == expected.dim[1];
    if (good) {
        memcpy(mean, npy.data, columns * sizeof *mean);
        memcpy(deviation, npy.data + columns * sizeof *mean, columns * sizeof *mean);
    }
    for (size_t c = 0; c < columns && good; c++)
        good = isfinite(mean[c]) && isfinite(deviation[c]) && deviation[c] > 0;
    lki_file_close(&file);
    return good;
}

lks_status lki_shards_stats_write(const char *path, const lki_shards *shards, const double *mean,
                                  const double *deviation)
{
    const lki_npy npy = head_of(shards);
    const size_t bytes = (size_t)npy.dim[1] * sizeof *mean;
    uint8_t head[LKI_NPY_HEAD];
    lki_writer *writer;
    LKI_TRY(lki_writer_open(&writer, shards->context, path));
    lki_writer_tidy(writer);
    lks_status status = lki_writer_write(writer, head, lki_npy_write_head(head, &npy, 1));
    if (status == LKS_OK) status = lki_writer_write(writer, mean, bytes);
    if (status == LKS_OK) status = lki_writer_write(writer, deviation, bytes);
    if (status == LKS_OK) return lki_writer_commit(writer);
    lki_writer_abandon(writer);
    return status;
}
