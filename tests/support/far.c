#include "support/far.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "core/cluster.h"

/* [ unused | data, up to the end | a page that is not its own ] */
typedef struct region {
    struct region *next;
    char *pages, *data;
    size_t bytes; /* of data */
    size_t size;  /* of the pages, without the last one */
} region;

/* Addresses, taken one behind the other until all regions are free again; emulators keep a note of every page. */
static const size_t SPACE = (size_t)1 << 32;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* around what follows */
static char *space;
static size_t used;
static region *regions;
static int inside; /* threads, without keys */

static int key = -1; /* without: mprotect */
static _Thread_local int depth;

__attribute__((noreturn, format(printf, 1, 2))) static void broken(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("far: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    abort();
}

/* ---------------------------------------------------------------- who may touch it */

static void protect_all(int rights)
{
    if (mprotect(space, used, rights) != 0) broken("mprotect failed");
}

static void count_in(int change)
{
    pthread_mutex_lock(&lock);
    if (inside == 0) protect_all(PROT_READ | PROT_WRITE);
    inside += change;
    if (inside == 0) protect_all(PROT_NONE);
    pthread_mutex_unlock(&lock);
}

static void enter(void)
{
    if (depth++ > 0) return;
    if (key < 0)
        count_in(1);
    else
        pkey_set(key, 0);
}

static void leave(void)
{
    if (--depth > 0) return;
    if (key < 0)
        count_in(-1);
    else
        pkey_set(key, PKEY_DISABLE_ACCESS);
}

/* All `bytes` from `memory` on are the device's; NULL is, too. */
static void own(const void *memory, size_t bytes, const char *what)
{
    const char *begin = memory;
    bool found = memory == NULL;
    pthread_mutex_lock(&lock);
    for (const region *r = regions; r != NULL && !found; r = r->next)
        found = begin >= r->data && begin <= r->data + r->bytes &&
                bytes <= (size_t)(r->data + r->bytes - begin);
    pthread_mutex_unlock(&lock);
    if (!found) broken("%s: %zu bytes that are not the device's", what, bytes);
}

static void own_floats(const float *memory, int64_t count, const char *what)
{
    own(memory, (size_t)count * sizeof *memory, what);
}

/* ---------------------------------------------------------------- memory */

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static bool take_pages(region *r)
{
    bool taken = false;
    pthread_mutex_lock(&lock);
    if (r->bytes < LKT_FAR_MOST && r->bytes < SPACE - used) {
        r->size = (r->bytes + page_size() - 1) / page_size() * page_size();
        r->pages = space + used;
        r->data = r->pages + r->size - r->bytes;
        r->next = regions;
        regions = r;
        used += r->size + page_size();
        taken = true;
        if (key >= 0 && pkey_mprotect(r->pages, r->size, PROT_READ | PROT_WRITE, key) != 0)
            broken("pkey_mprotect failed");
        if (inside > 0) protect_all(PROT_READ | PROT_WRITE);
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

static lks_status far_alloc(lks_context *context, void **out, size_t bytes, const char *what)
{
    void *made;
    *out = NULL;
    LKI_TRY(lki_alloc(context, &made, sizeof(region), what)); /* fails where tests want it */
    region *r = made;
    r->bytes = lki_align(bytes > 0 ? bytes : 1);
    if (!take_pages(r)) {
        lki_free(context, r, sizeof(region));
        return LKI_FAIL(LKS_E_NOMEM, "no memory for %s: %zu bytes were asked for", what, bytes);
    }
    *out = r->data;
    return LKS_OK;
}

static void far_free(lks_context *context, void *memory, size_t bytes)
{
    if (memory == NULL) return;
    pthread_mutex_lock(&lock);
    region **at = &regions;
    while (*at != NULL && (*at)->data != memory) at = &(*at)->next;
    region *r = *at;
    if (r == NULL || r->bytes != lki_align(bytes > 0 ? bytes : 1))
        broken("free: no such array of %zu bytes", bytes);
    *at = r->next;
    if (madvise(r->pages, r->size, MADV_DONTNEED) != 0 || /* zero for who takes them next */
        (key >= 0 && mprotect(r->pages, r->size, PROT_NONE) != 0))
        broken("pages cannot be given back");
    if (regions == NULL) used = 0;
    pthread_mutex_unlock(&lock);
    lki_free(context, r, sizeof(region));
}

static void far_copy_in(void *to, const void *host, size_t bytes)
{
    own(to, bytes, "copy_in");
    enter();
    memcpy(to, host, bytes);
    leave();
}

static void far_copy_out(void *host, const void *from, size_t bytes)
{
    own(from, bytes, "copy_out");
    enter();
    memcpy(host, from, bytes);
    leave();
}

static void far_copy(void *to, const void *from, size_t bytes)
{
    own(to, bytes, "copy");
    own(from, bytes, "copy");
    enter();
    memcpy(to, from, bytes);
    leave();
}

static int64_t far_count_correct(int64_t samples, int64_t width, const float *output,
                                 const int32_t *label, int64_t *top5)
{
    own_floats(output, samples * width, "count_correct: output");
    own(label, (size_t)samples * sizeof *label, "count_correct: label");
    enter();
    const int64_t correct = lki_host_memory.count_correct(samples, width, output, label, top5);
    leave();
    return correct;
}

static void far_mean(int64_t count, float scale, float most, const float *sums, float *gradient)
{
    own_floats(sums, count, "mean: sums");
    own_floats(gradient, count, "mean: gradient");
    enter();
    lki_host_memory.mean(count, scale, most, sums, gradient);
    leave();
}

static void far_add_stats(int64_t count, double *left, const double *right)
{
    own(left, (size_t)count * sizeof *left, "add_stats");
    own(right, (size_t)count * sizeof *right, "add_stats");
    enter();
    lki_host_memory.add_stats(count, left, right);
    leave();
}

static void far_merge(const lki_node *node, double *left, const double *right)
{
    own(left, (size_t)node->meets * sizeof *left, "merge");
    own(right, (size_t)node->meets * sizeof *right, "merge");
    enter();
    lki_host_memory.merge(node, left, right);
    leave();
}

static void far_update_buffers(const lki_node *node, const double *sums, void *const buffer[])
{
    own(sums, (size_t)(node->stats + node->meets) * sizeof *sums, "update_buffers: sums");
    for (int i = 0; i < node->buffer_count; i++) own(buffer[i], 1, "update_buffers: buffer");
    enter();
    lki_host_memory.update_buffers(node, sums, buffer);
    leave();
}

static const lki_memory far_memory = {
    .alloc = far_alloc,
    .free = far_free,
    .copy_in = far_copy_in,
    .copy_out = far_copy_out,
    .count_correct = far_count_correct,
    .copy = far_copy,
    .mean = far_mean,
    .add_stats = far_add_stats,
    .merge = far_merge,
    .update_buffers = far_update_buffers,
};

/* ---------------------------------------------------------------- kernels */

/* One of ref's, and what goes around it. */
typedef struct far_kernel {
    lki_kernel kernel;
    const lki_kernel *inner;
} far_kernel;

static const lki_kernel *inner_of(const lki_plan *plan)
{
    return ((const far_kernel *)(const void *)plan->kernel)->inner;
}

static void own_args(const lki_plan *plan, const lki_args *args)
{
    const lki_needs *needs = &plan->needs;
    const lki_cluster *cluster = &plan->cluster;
    const int64_t n = args->count;
    const int64_t out = n * lks_shape_elements(&lki_cluster_tail(cluster)->out.shape);
    own_floats(args->out, out, "out");
    own_floats(args->d_out, out, "d_out");
    for (int i = 0; i < cluster->in_count; i++) {
        const lks_tensor *in = cluster->in[i];
        const int64_t elements = n * lks_shape_elements(&in->shape);
        own(args->in[i], (size_t)elements * lks_dtype_size(in->dtype), "in");
        own_floats(args->d_in[i], elements, "d_in");
    }
    for (int i = 0; i < LKI_MAX_SLOTS; i++) {
        own(args->param[i], 1, "param");
        own(args->d_param[i], 1, "d_param");
    }
    for (int i = 0; i < LKI_MAX_BUFFER; i++) own(args->buffer[i], 1, "buffer");
    own(args->stats, 1, "stats");
    own(args->met, 1, "met");
    own(args->packed, needs->packed_bytes, "packed");
    own(args->saved, needs->saved_bytes * (size_t)n, "saved");
    own(args->replica, needs->replica_bytes, "replica");
    own(args->sums, needs->sums_bytes, "sums");
    own(args->workspace, needs->workspace_bytes, "workspace");
}

static lks_status far_plan(lki_plan *plan)
{
    return inner_of(plan)->plan(plan);
}

static void far_release(lki_plan *plan)
{
    inner_of(plan)->release(plan);
}

/* A call of ref's that gives nothing back. */
#define INSIDE(call) (enter(), (call), leave())

static void far_prepare(lki_plan *plan, const float *const param[], void *packed, int part,
                        int parts)
{
    own(packed, plan->needs.packed_bytes, "prepare: packed");
    for (int i = 0; i < LKI_MAX_SLOTS; i++) own(param[i], 1, "prepare: param");
    INSIDE(inner_of(plan)->prepare(plan, param, packed, part, parts));
}

static void far_pack_rows(const lki_plan *plan, int slot, const float *param, void *packed,
                          int64_t first, int64_t count)
{
    own(packed, plan->needs.packed_bytes, "pack: packed");
    own(param, 1, "pack: param");
    INSIDE(inner_of(plan)->pack(plan, slot, param, packed, first, count));
}

/* far_forward() and so on: the one of ref, inside. */
#define PASS(function)                                                                             \
    static lks_status far_##function(const lki_plan *plan, const lki_args *args)                   \
    {                                                                                              \
        own_args(plan, args);                                                                      \
        enter();                                                                                   \
        const lks_status status = inner_of(plan)->function(plan, args);                            \
        leave();                                                                                   \
        return status;                                                                             \
    }

PASS(forward)
PASS(finish)
PASS(apply)
PASS(gather)
PASS(finish_backward)
PASS(give)
PASS(give_backward)
PASS(backward)

/* Who is given the sums is the host. */
static void far_rows_sum(void *user, lki_tree_node node, int slot, int64_t first, int64_t count,
                         const float *sums)
{
    const lki_rows *rows = user;
    leave();
    own_floats(sums, count, "rows: sums");
    rows->sum(rows->user, node, slot, first, count, sums);
    enter();
}

static void far_rows(const lki_plan *plan, const lki_rows *rows)
{
    const lki_node *node = lki_cluster_head(&plan->cluster);
    const int64_t samples = rows->start[rows->last] - rows->start[rows->first];
    lki_rows around = *rows;
    around.sum = far_rows_sum;
    around.user = (void *)(uintptr_t)rows;
    own_floats(rows->in, samples * lks_shape_elements(&node->in[0]->shape), "rows: in");
    own_floats(rows->d_out, samples * lks_shape_elements(&node->out.shape), "rows: d_out");
    own(rows->workspace, plan->needs.workspace_bytes, "rows: workspace");
    INSIDE(inner_of(plan)->rows(plan, &around));
}

/* ---------------------------------------------------------------- the backend */

static const lki_backend *ref;

static lks_status far_fingerprint(char *out, size_t size)
{
    snprintf(out, size, "ref in memory of its own");
    return LKS_OK;
}

static void own_states(int64_t count, float *const state[LKI_MAX_STATES])
{
    for (int i = 0; i < LKI_MAX_STATES; i++) own_floats(state[i], count, "state");
}

static void far_update(const lki_update *update, int64_t count, float *w,
                       float *const state[LKI_MAX_STATES], const float *sums)
{
    own_states(count, state);
    own_floats(w, count, "update: w");
    own_floats(sums, count, "update: sums");
    INSIDE(ref->update(update, count, w, state, sums));
}

static void far_add(int64_t count, float *left, const float *right)
{
    own_floats(left, count, "add");
    own_floats(right, count, "add");
    INSIDE(ref->add(count, left, right));
}

static void far_approach(int64_t count, float part, float *left, const float *right)
{
    own_floats(left, count, "approach");
    own_floats(right, count, "approach");
    INSIDE(ref->approach(count, part, left, right));
}

static void far_pack(int64_t count, const float *from, uint16_t *to)
{
    own_floats(from, count, "pack");
    own(to, (size_t)count * sizeof *to, "pack");
    INSIDE(ref->pack(count, from, to));
}

static void far_unpack(int64_t count, const uint16_t *from, float *to)
{
    own(from, (size_t)count * sizeof *from, "unpack");
    own_floats(to, count, "unpack");
    INSIDE(ref->unpack(count, from, to));
}

static double far_dot(int64_t count, const float *a, const float *b)
{
    own_floats(a, count, "dot");
    own_floats(b, count, "dot");
    enter();
    const double sum = ref->dot(count, a, b);
    leave();
    return sum;
}

static void far_direction(const lki_update *update, int64_t count, const float *w,
                          float *const state[LKI_MAX_STATES], float *gradient,
                          double sum[LKI_ROW_SUMS])
{
    own_states(count, state);
    own_floats(w, count, "direction: parameter");
    own_floats(gradient, count, "direction: gradient");
    INSIDE(ref->direction(update, count, w, state, gradient, sum));
}

enum { MOST_IMPLS = 64 };

/* What a kernel has is wrapped, and what is not known here is still called: it ends the test. */
static void wrap(const lki_impl *inner, far_kernel *kernel, lki_impl *out)
{
    *kernel = (far_kernel){.kernel = *inner->kernel, .inner = inner->kernel};
    kernel->kernel.plan = far_plan;
    kernel->kernel.forward = far_forward;
    if (inner->kernel->release != NULL) kernel->kernel.release = far_release;
    if (inner->kernel->prepare != NULL) kernel->kernel.prepare = far_prepare;
    if (inner->kernel->pack != NULL) kernel->kernel.pack = far_pack_rows;
    if (inner->kernel->backward != NULL) kernel->kernel.backward = far_backward;
    if (lki_in_halves(inner->kernel)) {
        kernel->kernel.finish = far_finish;
        kernel->kernel.apply = far_apply;
        kernel->kernel.gather = far_gather;
        kernel->kernel.finish_backward = far_finish_backward;
    }
    if (inner->kernel->give != NULL) kernel->kernel.give = far_give;
    if (inner->kernel->give_backward != NULL) kernel->kernel.give_backward = far_give_backward;
    if (inner->kernel->rows != NULL) kernel->kernel.rows = far_rows;
    *out = *inner;
    out->kernel = &kernel->kernel;
}

const lki_backend *lkt_far(bool keys)
{
    static far_kernel kernels[MOST_IMPLS];
    static lki_impl impls[MOST_IMPLS];
    static const lki_impl *list[MOST_IMPLS + 1];
    static lki_backend far = {
        .name = "far",
        .memory = &far_memory,
        .fingerprint = far_fingerprint,
        .impl = list,
        .update = far_update,
        .add = far_add,
        .approach = far_approach,
        .dot = far_dot,
        .direction = far_direction,
        .pack = far_pack,
        .unpack = far_unpack,
    };
    if (ref != NULL) return &far;
    ref = lki_backend_find("ref");
    for (int i = 0; ref->impl[i] != NULL; i++) {
        if (i == MOST_IMPLS) broken("there is room for %d kernels", MOST_IMPLS);
        wrap(ref->impl[i], &kernels[i], &impls[i]);
        list[i] = &impls[i];
    }
    if (keys) key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    space = mmap(NULL, SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) broken("no addresses");
    return &far;
}
