/* The training loop of several processes, which are threads here: what one of them fails at alone ends on
 * all of them. */
#include "train/tiny.h"

#include <lockstep/trainer.h>

#include "support/ranks/fake.h"

enum { RANKS = 3, LATE = 40 };

typedef struct reader {
    int rank, bad_rank;
    int64_t reads;
} reader;

typedef struct ends {
    int bad_rank;
    lks_status status[RANKS];
    int64_t step[RANKS];
    char sentence[RANKS][600];
} ends;

static lks_status read_sample(void *user, int64_t index, void *x, void *y)
{
    reader *r = user;
    tiny_sample(index, x, y);
    return r->rank == r->bad_rank && ++r->reads > LATE
               ? lks_fail(LKS_E_IO, "sample %lld is on a disk that has gone", (long long)index)
               : LKS_OK;
}

static int train(lks_comm *comm, int rank, void *user)
{
    ends *e = user;
    reader mine = {.rank = rank, .bad_rank = e->bad_rank};
    const lks_dataset_ops ops = {.info = {.samples = TINY_SAMPLES,
                                          .shape = LKS_SHAPE(TINY_FEATURES),
                                          .classes = TINY_CLASSES},
                                 .read = read_sample};
    tiny net = tiny_open(&(tiny_opts){.model = {.comm = comm}});
    const lks_model_info info = lks_model_get_info(net.model);
    lks_dataset *data;
    lks_loader *loader;
    lks_run run;
    LKT_OK(lks_dataset_create(&data, net.context, "tiny", &ops, &mine));
    LKT_OK(lks_loader_create(&loader, net.context, data,
                             &(lks_loader_opts){.global_batch = TINY_BATCH,
                                                .threads = -1,
                                                .shares = info.shares,
                                                .first_share = info.first_share,
                                                .last_share = info.last_share}));
    e->status[rank] = lks_train(
        net.context,
        &(lks_train_opts){
            .model = net.model, .train = loader, .schedule = {.lr = 0.1}, .steps = 30},
        &run);
    e->step[rank] = run.progress.step;
    snprintf(e->sentence[rank], sizeof e->sentence[rank], "%s", lks_last_error()->message);
    lks_run_clear(&run);
    lks_loader_destroy(loader);
    lks_dataset_destroy(data);
    tiny_close(&net);
    return 0;
}

static void a_sample_that_one_cannot_read(void **state)
{
    (void)state;
    for (int bad = 0; bad < RANKS; bad++) {
        ends e = {.bad_rank = bad};
        lkt_ranks(&(lkt_hub_opts){.size = RANKS, .seed = 5, .delay = 2}, NULL, train, &e);
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(e.status[r], LKS_E_IO);
            assert_int_equal(e.step[r], e.step[0]);
            assert_non_null(strstr(e.sentence[r], "is on a disk that has gone"));
        }
        assert_true(e.step[0] > 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_sample_that_one_cannot_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
