/* lockstep verify: the promise, tried out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/out/text.h"
#include "cli/process.h"

enum { MAX_RUNS = 64, DEFAULT_STEPS = 20 };

typedef struct verification {
    int workers[MAX_RUNS];
    uint64_t hash[MAX_RUNS];
    int runs;
    int64_t steps;
} verification;

/* "1,2,3,5" */
static lks_status read_list(verification *v, const char *list, int64_t replicas)
{
    const char *at = list;
    while (*at != '\0') {
        char word[16] = "";
        const size_t length = strcspn(at, ",");
        int64_t workers;
        if (length < sizeof word) memcpy(word, at, length);
        if (!lki_text_is_int(word, &workers) || workers < 1)
            return lks_fail(LKS_E_INVALID,
                            "--workers is '%.60s', expected numbers of workers such as 1,2,3,5",
                            list);
        if (workers > replicas)
            return lks_fail(LKS_E_INVALID,
                            "--workers has %" PRId64 ", expected at most %" PRId64
                            ": each worker needs a replica; --replicas %" PRId64
                            " would allow it (other bits)",
                            workers, replicas, workers);
        if (v->runs == MAX_RUNS)
            return lks_fail(LKS_E_INVALID, "--workers has more than %d numbers", MAX_RUNS);
        v->workers[v->runs++] = (int)workers;
        at += length;
        at += *at == ',';
    }
    if (v->runs < 2)
        return lks_fail(LKS_E_INVALID,
                        "--workers is '%.60s', expected at least two numbers to "
                        "compare, such as 1,2",
                        list);
    return LKS_OK;
}

static lks_status choose_workers(verification *v, const cli_args *cli, const lks_recipe *recipe)
{
    static const int usual[] = {1, 2, 3, 5, 8};
    const int64_t replicas = lks_recipe_int(recipe, "train.replicas") *
                             lks_recipe_int(recipe, "train.accumulate");
    if (cli->local[LOCAL_WORKERS] != NULL) return read_list(v, cli->local[LOCAL_WORKERS], replicas);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (usual[i] <= replicas) v->workers[v->runs++] = usual[i];
    if (v->runs >= 2) return LKS_OK;
    return lks_fail(LKS_E_INVALID, "with 1 replica there is only 1 worker, so nothing to compare; "
                                   "give --replicas 8");
}

/* One whole run, from initial weights; nothing but the data is shared with the others. */
static lks_status run_once(verification *v, lks_recipe *recipe, int run)
{
    lks_loader *loader = NULL;
    lks_status status = lks_recipe_compile(recipe, v->workers[run]);
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    if (status == LKS_OK) status = lks_recipe_init_weights(recipe);
    if (status == LKS_OK) status = lks_recipe_loader(&loader, recipe, parts.train, true);
    if (status != LKS_OK) return status;
    const int64_t epochs = lks_recipe_has(recipe, "train.epochs")
                               ? lks_recipe_int(recipe, "train.epochs")
                               : 0;
    const int64_t batches = lks_loader_batches(loader);
    const lks_train_opts opts = {
        .model = parts.model,
        .train = loader,
        .schedule = lks_recipe_schedule(recipe, epochs, v->steps, batches > 0 ? batches : 1),
        .steps = v->steps};
    const double began = process_clock();
    status = lks_train(parts.context, &opts, NULL);
    const double seconds = process_clock() - began;
    if (status == LKS_OK) status = lks_model_hash(parts.model, &v->hash[run]);
    lks_loader_destroy(loader);
    if (status == LKS_OK)
        say("%7d  %6" PRId64 "  %016" PRIx64 "  %7.2f", v->workers[run], v->steps, v->hash[run],
            seconds);
    return status;
}

static void verify_judge(const verification *v, int *code)
{
    int other = 0;
    for (int i = 1; i < v->runs; i++) {
        if (v->hash[i] == v->hash[0]) continue;
        say("workers %d: the hash differs from that of workers %d", v->workers[i], v->workers[0]);
        other++;
    }
    if (other == 0) {
        say("equal: %d runs have the same bits after %" PRId64 " step%s", v->runs, v->steps,
            TEXT_S(v->steps));
        return;
    }
    say("different: %d of %d runs", other, v->runs);
    *code = EXIT_DIFFERENT;
}

static lks_status verify(const cli_args *cli, lks_recipe *recipe, int *code)
{
    verification all = {.runs = 0}, *v = &all;
    lks_status status = choose_workers(v, cli, recipe);
    /* The file's own steps are the length of a training, not of a check. */
    v->steps = lks_recipe_given(recipe, "train.steps") ? lks_recipe_int(recipe, "train.steps")
                                                       : DEFAULT_STEPS;
    if (status == LKS_OK) status = lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN);
    if (status != LKS_OK) return status;
    say("workers   steps  hash              seconds");
    for (int run = 0; run < v->runs && status == LKS_OK; run++) status = run_once(v, recipe, run);
    if (status == LKS_OK) verify_judge(v, code);
    return status;
}

lks_status verb_verify(const cli_args *cli, int *code)
{
    return cli_with_recipe(cli, code, NULL, verify);
}
