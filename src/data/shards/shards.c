#include "data/shards/shards.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined __x86_64__
#include <immintrin.h>
#endif

#include "base/check.h"
#include "base/float.h"
#include "base/memory.h"

static const char *const array_name[] = {"x", "y"};

/* ---------------------------------------------------------------- the plan */

lks_status lki_shards_check(const lki_shards_plan *plan, const char *path)
{
    const int64_t each = plan->rows_each;
    if (plan->rows < 1 || each < 1 || plan->width[0] < 1 || plan->width[1] < 1 ||
        plan->width[0] > LKI_SHARDS_WIDTH || plan->width[1] > LKI_SHARDS_WIDTH)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': %" PRId64 " rows in shards of %" PRId64 ", of %" PRId64
                        " and %" PRId64 " columns; expected at least 1, and at most %d columns",
                        path, plan->rows, each, plan->width[0], plan->width[1], LKI_SHARDS_WIDTH);
    const int64_t needed = (plan->rows - 1) / each + 1;
    if (needed != plan->shards)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': %" PRId64 " rows in shards of %" PRId64 " are %" PRId64
                        " shards, but num_shards is %" PRId64,
                        path, plan->rows, each, needed, plan->shards);
    if (needed > LKI_SHARDS_MOST)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s': %" PRId64 " shards, expected at most %d; put more rows into each",
                        path, needed, LKI_SHARDS_MOST);
    return LKS_OK;
}

bool lki_shards_path(char out[LKI_SHARDS_PATH], const char *folder, const char *step, int array,
                     int64_t shard)
{
    const int length = snprintf(out, LKI_SHARDS_PATH,
                                "%s/data/processed/flattened-%s/%s/%" PRId64 ".npy", folder, step,
                                array_name[array], shard);
    return length > 0 && length < LKI_SHARDS_PATH;
}

int64_t lki_shards_rows(const lki_shards_plan *plan, int64_t shard)
{
    const int64_t left = plan->rows - shard * plan->rows_each;
    return left < plan->rows_each ? left : plan->rows_each;
}

/* ---------------------------------------------------------------- files */

static lks_status check_head(const lki_npy *npy, const lki_shards_plan *plan, int array,
                             int64_t index, const char *path)
{
    const int64_t rows = lki_shards_rows(plan, index);
    if (npy->kind != LKI_NPY_FLOAT || strcmp(npy->type, plan->type) != 0)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' holds %s, but metadata.json says %s; write it again with astype()",
                        path, npy->type, plan->type);
    if (npy->ndim != 2 || npy->dim[1] != plan->width[array])
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %d dimension%s and %" PRId64
                        " columns, but metadata.json says 2 dimensions and %" PRId64 " columns",
                        path, npy->ndim, LKI_S(npy->ndim), npy->ndim > 1 ? npy->dim[1] : 1,
                        plan->width[array]);
    if (npy->dim[0] != rows)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' has %" PRId64 " row%s, but metadata.json says %" PRId64
                        " for shard %" PRId64 " of %" PRId64 "; write it again",
                        path, npy->dim[0], LKI_S(npy->dim[0]), rows, index, plan->shards);
    if (npy->fortran && npy->dim[0] > 1 && npy->dim[1] > 1)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' is in Fortran's order, expected rows one after the other; write it "
                        "again with numpy.ascontiguousarray()",
                        path);
    return LKS_OK;
}

lks_status lki_shard_open(lki_shard *out, const lki_shards *shards, int array, int64_t index)
{
    char path[LKI_SHARDS_PATH];
    const lki_shards_plan *plan = &shards->plan;
    *out = (lki_shard){.begin = 0};
    if (!lki_shards_path(path, shards->folder, plan->step, array, index))
        return lki_fail_io("open", shards->folder, ENAMETOOLONG);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return LKI_FAIL(LKS_E_IO,
                        "shard %" PRId64 " of %" PRId64
                        " is missing: there is no '%s'; copy it, or write the shards again",
                        index, plan->shards, path);
    LKI_TRY(lki_file_open(&out->file, shards->context, path));
    lks_status status = lki_npy_read(&out->npy, out->file.data, out->file.bytes, path);
    if (status == LKS_OK) status = check_head(&out->npy, plan, array, index, path);
    if (status == LKS_OK && !out->file.mapped)
        status = LKI_FAIL(LKS_E_FORMAT, "'%s' is packed by gzip; unpack it", path);
    if (status == LKS_OK)
        out->begin = (size_t)(out->npy.data - out->file.data);
    else
        lki_file_close(&out->file);
    return status;
}

lks_status lki_shards_open(lki_shards *out, lks_context *context, const char *folder,
                           const lki_shards_plan *plan, bool mapped)
{
    *out = (lki_shards){.context = context, .plan = *plan, .folder = folder, .mapped = mapped};
    for (int k = 0; k < 2; k++) {
        void *memory;
        LKI_TRY(lki_alloc(context, &memory, (size_t)plan->shards * sizeof(lki_shard),
                          "the list of shards"));
        out->shard[k] = memory;
        for (int64_t i = 0; i < plan->shards; i++) {
            LKI_TRY(lki_shard_open(&out->shard[k][i], out, k, i));
            if (!mapped) lki_file_close(&out->shard[k][i].file);
        }
    }
    return LKS_OK;
}

void lki_shards_close(lki_shards *shards)
{
    const size_t columns = (size_t)(shards->plan.width[0] + shards->plan.width[1]);
    for (int k = 0; k < 2; k++) {
        if (shards->shard[k] == NULL) continue;
        for (int64_t i = 0; i < shards->plan.shards; i++) lki_file_close(&shards->shard[k][i].file);
        lki_free(shards->context, shards->shard[k],
                 (size_t)shards->plan.shards * sizeof(lki_shard));
    }
    lki_free(shards->context, shards->mean, columns * sizeof(double));
    lki_free(shards->context, shards->inverse, columns * sizeof(double));
    *shards = (lki_shards){.context = NULL};
}

/* ---------------------------------------------------------------- loops over a row */

/* No instruction set makes a difference to a bit of these: nothing is contracted, and every element is by itself. */

static inline __attribute__((always_inline)) bool finite_by(const float *values, int64_t count)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

/* (value - mean) * inverse in double, rounded once; from and to may be the same. Returns whether all values were finite, which
 * is looked at behind it, when they have come from memory. */
static inline __attribute__((always_inline)) bool standardise_by(float *to, const float *from,
                                                                 const double *mean,
                                                                 const double *inverse,
                                                                 int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] = (float)(((double)from[i] - mean[i]) * inverse[i]);
    return from == to || finite_by(from, count);
}

#if defined __x86_64__
/* The same past the caches, which a batch of such rows would fill before anybody reads it. */
__attribute__((target("avx2"))) static bool standardise_avx2(float *to, const float *from,
                                                             const double *mean,
                                                             const double *inverse, int64_t count)
{
    const __m256i infinite = _mm256_set1_epi32(0x7f800000);
    const int64_t ahead = (int64_t)((32 - (uintptr_t)to % 32) % 32 / sizeof(float));
    const int64_t begin = ahead < count ? ahead : count;
    const int64_t end = begin + (count - begin) / 8 * 8;
    __m256i bad = _mm256_setzero_si256();
    if (!standardise_by(to, from, mean, inverse, begin)) return false;
    for (int64_t i = begin; i < end; i += 8) {
        const __m256 v = _mm256_loadu_ps(from + i);
        const __m256i bits = _mm256_and_si256(_mm256_castps_si256(v), infinite);
        __m128 half[2] = {_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)};
        for (int k = 0; k < 2; k++) {
            const __m256d d = _mm256_sub_pd(_mm256_cvtps_pd(half[k]),
                                            _mm256_loadu_pd(mean + i + 4 * k));
            half[k] = _mm256_cvtpd_ps(_mm256_mul_pd(d, _mm256_loadu_pd(inverse + i + 4 * k)));
        }
        bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(bits, infinite));
        _mm256_stream_ps(to + i, _mm256_set_m128(half[1], half[0]));
    }
    _mm_sfence();
    return standardise_by(to + end, from + end, mean + end, inverse + end, count - end) &&
           _mm256_testz_si256(bad, bad);
}
#endif

static bool standardise(float *to, const float *from, const double *mean, const double *inverse,
                        int64_t count)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2")) return standardise_avx2(to, from, mean, inverse, count);
#endif
    return standardise_by(to, from, mean, inverse, count);
}

/* ---------------------------------------------------------------- rows */

const float *lki_shard_floats(const lki_shard *shard)
{
    const uint8_t *data = shard->file.data;
    if (data == NULL || !lki_npy_is_own_float(&shard->npy)) return NULL;
    if ((uintptr_t)(data + shard->begin) % sizeof(float) != 0) return NULL;
    return (const float *)(const void *)(data + shard->begin);
}

/* Bytes of a row at `from` as floats. */
static void decode(float *out, const lki_npy *npy, const uint8_t *from, int64_t count)
{
    if (lki_npy_is_own_float(npy)) {
        memcpy(out, from, (size_t)count * sizeof(float));
        return;
    }
    for (int64_t i = 0; i < count; i++) out[i] = lki_npy_float(npy, from + (size_t)i * npy->size);
}

static lks_status fail_value(const lki_shards *shards, int array, int64_t index, int64_t row,
                             const float *values)
{
    char path[LKI_SHARDS_PATH];
    int64_t column = 0;
    while (isfinite(values[column])) column++;
    lki_shards_path(path, shards->folder, shards->plan.step, array, index);
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s': row %" PRId64 " (sample %" PRId64 ") has %s in column %" PRId64
                    ", expected numbers; take such samples out before they are sharded",
                    path, row, index * shards->plan.rows_each + row,
                    isnan(values[column]) ? "a NaN" : "an infinite value", column);
}

/* The bytes of a row, by one read. */
static lks_status fetch(uint8_t *out, size_t bytes, const char *path, size_t at)
{
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return lki_fail_io("open", path, errno);
    lks_status status = LKS_OK;
    while (bytes > 0 && status == LKS_OK) {
        const ssize_t done = pread(descriptor, out, bytes, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) status = lki_fail_io("read", path, errno);
        if (done == 0)
            status = LKI_FAIL(LKS_E_IO, "'%s' has become shorter since it was opened", path);
        if (done <= 0) continue;
        out += done;
        at += (size_t)done;
        bytes -= (size_t)done;
    }
    close(descriptor);
    return status;
}

/* Of a shard whose file is not mapped. */
static lks_status read_row(float *out, const lki_shards *shards, const lki_shard *shard, int array,
                           int64_t index, size_t offset)
{
    char path[LKI_SHARDS_PATH];
    void *memory;
    const int64_t width = shards->plan.width[array];
    const size_t bytes = (size_t)width * shard->npy.size;
    LKI_TRY(lki_alloc(shards->context, &memory, bytes, "a row"));
    lki_shards_path(path, shards->folder, shards->plan.step, array, index);
    const lks_status status = fetch(memory, bytes, path, shard->begin + offset);
    if (status == LKS_OK) decode(out, &shard->npy, memory, width);
    lki_free(shards->context, memory, bytes);
    return status;
}

lks_status lki_shard_row(float *out, const lki_shards *shards, const lki_shard *shard, int array,
                         int64_t index, int64_t row)
{
    const int64_t width = shards->plan.width[array];
    const size_t offset = (size_t)(row * width) * shard->npy.size;
    if (shard->file.data != NULL)
        decode(out, &shard->npy, shard->file.data + shard->begin + offset, width);
    else
        LKI_TRY(read_row(out, shards, shard, array, index, offset));
    return finite_by(out, width) ? LKS_OK : fail_value(shards, array, index, row, out);
}

/* Its row of samples or of targets, standardised out of the file where that is mapped and has floats as they are. */
static lks_status read_array(float *out, const lki_shards *shards, int array, int64_t index,
                             int64_t row)
{
    const lki_shard *shard = &shards->shard[array][index];
    const int64_t width = shards->plan.width[array], first = array == 0 ? 0 : shards->plan.width[0];
    const float *from = shards->mean != NULL ? lki_shard_floats(shard) : NULL;
    if (from == NULL) LKI_TRY(lki_shard_row(out, shards, shard, array, index, row));
    if (shards->mean == NULL) return LKS_OK;
    from = from != NULL ? from + row * width : out;
    if (standardise(out, from, shards->mean + first, shards->inverse + first, width)) return LKS_OK;
    return fail_value(shards, array, index, row, from);
}

/* Asks for the lines of a mapped row at once: rows come in a random order, which no processor foresees. */
static void prefetch(const lki_shards *shards, int array, int64_t index, int64_t row)
{
    const float *from = lki_shard_floats(&shards->shard[array][index]);
    const int64_t width = shards->plan.width[array];
    for (int64_t i = 0; from != NULL && i < width; i += 16)
        __builtin_prefetch(from + row * width + i);
}

lks_status lki_shards_read(const lki_shards *shards, int64_t row, float *x, float *y)
{
    const int64_t index = row / shards->plan.rows_each, within = row % shards->plan.rows_each;
    const unsigned saved = lki_float_enter();
    for (int array = 0; array < 2; array++) prefetch(shards, array, index, within);
    lks_status status = read_array(x, shards, 0, index, within);
    if (status == LKS_OK) status = read_array(y, shards, 1, index, within);
    lki_float_leave(saved);
    return status;
}
