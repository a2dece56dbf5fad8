/* lockstep compare */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/verbs/checkpoint_path.h"
#include "cli/verbs/compare.h"

/* The first step that both folders have and in which they differ; all their steps otherwise. */
static lks_status compare_folders(bool *equal, cli_pool *pool, lks_context *context, const char *a,
                                  const char *b)
{
    int64_t *steps_a, *steps_b;
    int count_a, count_b, common = 0;
    lks_status status = checkpoint_steps(&steps_a, &count_a, pool, a);
    if (status == LKS_OK) status = checkpoint_steps(&steps_b, &count_b, pool, b);
    *equal = true;
    for (int i = 0, j = 0; status == LKS_OK && *equal && i < count_a && j < count_b;) {
        if (steps_a[i] != steps_b[j]) {
            if (steps_a[i] < steps_b[j])
                i++;
            else
                j++;
            continue;
        }
        const int64_t step = steps_a[i];
        say("step %lld", (long long)step);
        const checkpoint_path one = {a, step, checkpoint_tensors(pool, a, step)};
        const checkpoint_path other = {b, step, checkpoint_tensors(pool, b, step)};
        status = compare_checkpoints(equal, context, &one, &other);
        common++;
        i++;
        j++;
    }
    if (status == LKS_OK && common == 0)
        return lks_fail(LKS_E_MISMATCH, "%.200s and %.200s have no checkpoint of the same step", a,
                        b);
    return status;
}

/* One of them is no folder. A file of weights alone has nothing but tensors. */
static lks_status compare_files(bool *equal, cli_pool *pool, lks_context *context, const char *a,
                                const char *b)
{
    checkpoint_path one = {.tensors = a}, other = {.tensors = b};
    const bool weights_a = checkpoint_kind_of(a) == PATH_TENSORS;
    const bool weights_b = checkpoint_kind_of(b) == PATH_TENSORS;
    lks_status status = weights_a ? LKS_OK : checkpoint_resolve(&one, pool, a);
    if (status == LKS_OK && !weights_b) status = checkpoint_resolve(&other, pool, b);
    if (status != LKS_OK) return status;
    return weights_a || weights_b ? compare_tensors(equal, context, one.tensors, other.tensors)
                                  : compare_checkpoints(equal, context, &one, &other);
}

static lks_status compare(bool *equal, cli_pool *pool, const char *a, const char *b)
{
    const checkpoint_kind kind_a = checkpoint_kind_of(a), kind_b = checkpoint_kind_of(b);
    for (int i = 0; i < 2; i++)
        if (access(i == 0 ? a : b, F_OK) != 0)
            return lks_fail(LKS_E_IO, "%.300s cannot be opened: %s", i == 0 ? a : b,
                            strerror(errno));
    if ((kind_a == PATH_OTHER) != (kind_b == PATH_OTHER))
        return lks_fail(LKS_E_INVALID,
                        "%.200s is a record and %.200s is not; expected two records, or two of "
                        "checkpoints and safetensors files",
                        kind_a == PATH_OTHER ? a : b, kind_a == PATH_OTHER ? b : a);
    if (kind_a == PATH_OTHER) return compare_records(equal, a, b);
    lks_context *context;
    lks_status status = lks_context_create(&context, &say_logged);
    if (status == LKS_OK && kind_a == PATH_FOLDER && kind_b == PATH_FOLDER) {
        status = compare_folders(equal, pool, context, a, b);
    } else if (status == LKS_OK) {
        status = compare_files(equal, pool, context, a, b);
    }
    lks_context_destroy(context);
    return status;
}

lks_status verb_compare(const cli_args *cli, int *code)
{
    cli_pool pool = {0};
    bool equal = true;
    const lks_status status = compare(&equal, &pool, cli->operand[0], cli->operand[1]);
    pool_clear(&pool);
    if (status != LKS_OK) return status;
    say(equal ? "equal" : "different");
    if (!equal) *code = EXIT_DIFFERENT;
    return LKS_OK;
}
