/*
 * An embedding of many more words than a batch has: of its gradient only rows that occur travel, and there are no other
 * bits than those of one process, for any ranks and workers, optimizers that step by elements, by rows and behind a norm,
 * buckets of any size, batches of one word and of none in a rank; and a rank that fails, or a bit that flips.
 */
#include <stdlib.h>

#include "base/check.h"
#include "numeric/hash.h"
#include "support/ranks/cuts.h"
#include "support/ranks/small.h"

enum {
    BATCH = 9,
    CONTEXT = 4,
    WORDS = 1301,
    UNITS = 7, /* blocks of an update end within rows */
    CLASSES = 3,
    BATCHES = 5,
    STEPS = 7
};

static int32_t token[BATCHES][BATCH * CONTEXT], label[BATCH];

/* Any words; one word; first and last ones; few; all of some rows that lie side by side. */
static int fill(void **state)
{
    lkt_random random = {.state = 5};
    (void)state;
    for (int i = 0; i < BATCH * CONTEXT; i++) {
        token[0][i] = (int32_t)lkt_random_below(&random, WORDS);
        token[1][i] = 585; /* of which a block ends within, as of 1170 */
        token[2][i] = i % 2 == 0 ? 0 : WORDS - 1;
        token[3][i] = 63 + (int32_t)lkt_random_below(&random, 3);
        token[4][i] = 1160 + i;
    }
    for (int i = 0; i < BATCH; i++) label[i] = i % CLASSES;
    return 0;
}

/* The last batches are short, so that ranks have no samples. */
static lks_batch batch_of(int step)
{
    const int at = step % BATCHES;
    return (lks_batch){.x = token[at], .y = label, .count = at < 3 ? BATCH : at == 3 ? 2 : 7};
}

typedef struct setting {
    const char *name;
    lks_optim optim;
    double clip_norm, ema_decay;
    int each;      /* ranks of a host; 0: all are on one */
    bool two;      /* embeddings: the second one has more to gain */
    int64_t words; /* default: WORDS */
} setting;
static setting now; /* set before ranks begin */

static lks_status build(lkt_small *m, lks_comm *comm, lks_model_opts opts)
{
    if (comm != NULL && now.each > 0) lkt_pretend_hosts(comm, now.each);
    LKI_TRY(lks_context_create(&m->context, &(lks_context_opts){.seed = 8}));
    LKI_TRY(lks_graph_create(&m->graph, m->context));
    lks_tensor *tokens = lks_input(
        m->graph, &(lks_input_opts){.shape = LKS_SHAPE(CONTEXT),
                                    .dtype = LKS_I32,
                                    .vocabulary = now.words > 0 ? now.words : WORDS});
    lks_tensor *first = now.two ? lks_embedding(m->graph, tokens, &(lks_embedding_opts){.units = 3})
                                : NULL;
    lks_tensor *x = lks_embedding(m->graph, tokens,
                                  &(lks_embedding_opts){.name = "embedding", .units = UNITS});
    if (now.two) x = lks_concat(m->graph, first, x);
    x = lks_lstm(m->graph, x, &(lks_recurrent_opts){.hidden = 5});
    x = lks_flatten(m->graph, x);
    x = lks_dense(m->graph, x, &(lks_dense_opts){.units = CLASSES});
    lks_tensor *y = lks_target(m->graph, &(lks_target_opts){.classes = CLASSES});
    m->loss = lks_cross_entropy(m->graph, x, y, NULL);
    LKI_TRY(lks_graph_status(m->graph));
    opts.global_batch = BATCH;
    opts.replicas = 5;
    opts.optim = now.optim;
    opts.clip_norm = now.clip_norm;
    opts.ema_decay = now.ema_decay;
    return lkt_small_compile(m, comm, opts);
}

static lks_status train(lkt_small *m, int steps, uint64_t *hash)
{
    for (int i = 0; i < steps; i++) {
        const lks_batch batch = batch_of(i);
        LKI_TRY(lks_model_step(m->model, &batch, .05, NULL));
    }
    return lks_model_hash(m->model, hash);
}

/* Of the embedding, behind that: of a batch that has 28 of its rows. */
static lks_status look(lkt_small *m, uint64_t *gradient)
{
    static _Thread_local float values[WORDS * UNITS];
    const lks_batch batch = batch_of(4);
    LKI_TRY(lks_model_gradient(m->model, &batch, NULL));
    const int at = lks_model_state_find(m->model, "gradient.embedding.weight");
    LKI_TRY(lks_model_state_read(m->model, at, values, sizeof values));
    *gradient = lki_hash(values, sizeof values);
    return LKS_OK;
}

typedef struct outcome {
    uint64_t trained, gradient;
} outcome;

static lks_status run(lkt_small *m, outcome *o)
{
    LKI_TRY(train(m, STEPS, &o->trained));
    return look(m, &o->gradient);
}

static bool same(const outcome *a, const outcome *b)
{
    return a->trained == b->trained && a->gradient == b->gradient;
}

static outcome alone(lks_model_opts opts)
{
    lkt_small m = {.model = NULL};
    outcome o = {0};
    LKT_OK(build(&m, NULL, opts));
    LKT_OK(run(&m, &o));
    lkt_small_end(&m);
    return o;
}

/* ---------------------------------------------------------------- the same bits */

typedef struct layout {
    int ranks;
    bool apart; /* without memory in common */
    bool cuts, dense;
    lks_model_opts opts;
} layout;
static const layout layouts[] = {
    {2, true, false, false, {.workers = 1}},
    {2, true, false, false, {.workers = 2, .bucket_bytes = 256}},
    {3, true, false, false, {.workers = 1, .exchange = LKS_EXCHANGE_AFTER}},
    {5, true, false, false, {.workers = 1, .bucket_bytes = 64}},
    {2, true, true, false, {.workers = 2, .balance = LKS_BALANCE_AUTO}},
    {3, false, false, false, {.workers = 1}},
    {3, false, false, false, {.workers = 1, .shard = LKS_SHARD_OFF}},
    {3, true, false, true, {.workers = 1, .shard = LKS_SHARD_ON}},
    {3, true, false, true, {.workers = 1, .by_replica = true}},
};

typedef struct expectation {
    const layout *layout;
    outcome at_end;
} expectation;

static int runs(lkt_small *m, int rank, void *user)
{
    const expectation *e = user;
    outcome o = {0};
    (void)rank;
    if (e->layout->cuts) lkt_cut_often(m->model);
    LKT_CHECK(run(m, &o) == LKS_OK && same(&o, &e->at_end));
    LKT_CHECK(lks_model_check_ranks(m->model) == LKS_OK);
#ifdef LKT_HAVE_CPU
    const lki_sparse *sparse = m->model->across->sparse;
    LKT_CHECK((sparse == NULL) == e->layout->dense);
    LKT_CHECK(sparse == NULL || sparse->units == UNITS);
#endif
    return 0;
}

static void any_ranks_have_the_same_bits(void **state)
{
    setting settings[] = {{.name = "sgd", .optim = lks_sgd(.9), .ema_decay = .9},
                          {.name = "adamw, clipped", .optim = lks_adamw(), .clip_norm = .3},
                          {.name = "adamp", .optim = lks_adamp()},
                          {.name = "lamb", .optim = lks_lamb(), .two = true}};
    (void)state;
    settings[0].optim.weight_decay = .01;
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        now = settings[s];
        const outcome expected = alone((lks_model_opts){.workers = 1});
        const outcome found = alone((lks_model_opts){.workers = 3, .by_replica = true});
        assert_true(same(&found, &expected));
        for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
            expectation e = {.layout = &layouts[i], .at_end = expected};
            lkt_small_tell(layouts[i].ranks, &(lkt_story){.build = build,
                                                          .opts = layouts[i].opts,
                                                          .body = runs,
                                                          .user = &e,
                                                          .apart = layouts[i].apart});
        }
    }
}

static int runs_in_rounds(lkt_small *m, int rank, void *user)
{
    const lki_ranks *sums = &m->model->across->sums;
    const int result = runs(m, rank, user);
    LKT_CHECK(lki_ranks_rounds(sums) == 2);
    for (int b = 0; b < sums->buckets; b++)
        LKT_CHECK(sums->round[0].bucket[b].count == sums->bucket[b].count);
    return result;
}

/* In two rounds, whose slices then have other sizes in every step, too. */
static void any_hosts_have_the_same_bits(void **state)
{
    static const layout both[] = {{4, true, false, false, {.workers = 1}},
                                  {4, true, false, false, {.workers = 1, .bucket_bytes = 256}}};
    (void)state;
    now = (setting){.optim = lks_adamw(), .clip_norm = .3};
    expectation e = {.at_end = alone((lks_model_opts){.workers = 1})};
    now.each = 2;
    for (int i = 0; i < 2; i++) {
        e.layout = &both[i];
        lkt_small_tell(4, &(lkt_story){.build = build,
                                       .opts = e.layout->opts,
                                       .body = runs_in_rounds,
                                       .user = &e,
                                       .apart = true});
    }
}

/* ---------------------------------------------------------------- what travels */

#ifdef LKT_HAVE_CPU
/* Rows of a batch, by hand; and the bytes of a step: with those of all words they would be 36 kB more. */
static int sends_few(lkt_small *m, int rank, void *user)
{
    static const int64_t rows[BATCHES] = {36, 1, 2, 3, 28};
    const lki_across *across = m->model->across;
    int64_t bytes[BATCHES];
    (void)user, (void)rank;
    for (int i = 0; i < BATCHES; i++) {
        const lks_batch batch = batch_of(i);
        LKT_CHECK(lks_model_step(m->model, &batch, .05, NULL) == LKS_OK);
        LKT_CHECK(across->sparse->count == rows[i]);
        bytes[i] = lki_ranks_sent(&across->sums);
    }
    LKT_CHECK(across->rows_count * (int64_t)sizeof(float) < 36 * UNITS * 4 + 512);
    LKT_CHECK(bytes[0] > bytes[4] && bytes[4] > bytes[1]);
    /* Of two ranks each sends half of the sums of its nodes and half of the totals; slices begin at lines. */
    const int64_t sent = (lki_ranks_own(&across->sums) + 1) * 35 * UNITS * 4 / 2;
    LKT_CHECK(llabs(bytes[0] - bytes[1] - sent) <= 3 * 64);
    return 0;
}

static int has_any(lkt_small *m, int rank, void *user)
{
    const bool *expected = user;
    (void)rank;
    LKT_CHECK((m->model->across->sparse != NULL) == *expected);
    return 0;
}

/* Where a batch has more tokens than half of the words all rows travel. */
static void most_words_are_no_few(void **state)
{
    (void)state;
    for (int64_t words = 2 * BATCH * CONTEXT - 1; words <= 2 * BATCH * CONTEXT; words++) {
        bool expected = words == 2 * BATCH * CONTEXT;
        now = (setting){.optim = lks_adam(), .words = words};
        lkt_small_tell(2, &(lkt_story){.build = build,
                                       .opts = {.workers = 1},
                                       .body = has_any,
                                       .user = &expected,
                                       .apart = true});
    }
}

static void rows_that_occur_travel(void **state)
{
    (void)state;
    now = (setting){.optim = lks_adam()};
    lkt_small_tell(
        2, &(lkt_story){.build = build, .opts = {.workers = 1}, .body = sends_few, .apart = true});
}
#endif

/* ---------------------------------------------------------------- failures */

/* A word that is not there, on one rank: nobody has stepped, and all go on. */
static int goes_on(lkt_small *m, int rank, void *user)
{
    const uint64_t *expected = user;
    uint64_t hash = 0;
    int32_t words[BATCH * CONTEXT];
    lks_batch batch = batch_of(0);
    memcpy(words, batch.x, sizeof words);
    words[0] = WORDS;
    if (rank == 0) batch.x = words;
    LKT_CHECK(lks_model_step(m->model, &batch, .05, NULL) == LKS_E_INVALID);
    LKT_CHECK(train(m, STEPS, &hash) == LKS_OK && hash == *expected);
    return 0;
}

static void a_word_that_is_not_there_stops_all(void **state)
{
    (void)state;
    now = (setting){.optim = lks_adam()};
    uint64_t hash = alone((lks_model_opts){.workers = 1}).trained;
    lkt_small_tell(
        3,
        &(lkt_story){
            .build = build, .opts = {.workers = 1}, .body = goes_on, .user = &hash, .apart = true});
}

static int meets_a_flip(lks_comm *comm, int rank, void *user)
{
    lkt_small m = {.model = NULL};
    uint64_t hash = 0;
    (void)rank, (void)user;
    lks_status status = build(&m, comm, (lks_model_opts){.workers = 1, .bucket_bytes = 256});
    if (status == LKS_OK) status = train(&m, 3, &hash);
    if (status == LKS_OK) status = lks_model_check_ranks(m.model);
    lkt_small_end(&m);
    return status == LKS_OK ? 0 : 2;
}

/* Any message, in its first float, in a bit that is not rounded away, and in the last word of those that say which rows occur:
 * everybody hears of it, where it is not of a number so small that it changes nothing, and nobody waits for ever. */
static void any_message_may_change(void **state)
{
    static const size_t bytes[] = {2, WORDS / 64 * 8 + 9};
    (void)state;
    now = (setting){.optim = lks_adam()};
    for (int i = 0; i < 2; i++)
        for (int n = 0, messages = 0; n <= messages; n += n > 0 && lkt_in_part() ? 3 : 1) {
            lkt_flip flip = {.rank = 1, .at = n, .byte = bytes[i]};
            int results[LKT_MOST_RANKS];
            const lkt_hub_opts hub = {.size = 3, .seed = 3, .delay = n % 3, .flip = &flip};
            lkt_ranks_run(&hub, NULL, meets_a_flip, NULL, results);
            if (n == 0) messages = flip.seen;
            const int expected = n > 0 && (i == 0 || results[0] != 0) ? 2 : 0;
            for (int r = 0; r < 3; r++)
                if (results[r] != expected)
                    fail_msg("message %d of %d, byte %zu: rank %d has %d", n, messages, bytes[i], r,
                             results[r]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ranks_have_the_same_bits),
        cmocka_unit_test(any_hosts_have_the_same_bits),
#ifdef LKT_HAVE_CPU
        cmocka_unit_test(rows_that_occur_travel),
        cmocka_unit_test(most_words_are_no_few),
#endif
        cmocka_unit_test(a_word_that_is_not_there_stops_all),
        cmocka_unit_test(any_message_may_change),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
