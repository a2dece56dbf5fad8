/* Every pointer of the functions that have to do with ranks as NULL: a documented answer (context.h), no crash. */
#include <string.h>

#include <lockstep/comm.h>
#include <lockstep/model.h>
#include <lockstep/tools.h>

#include "support/test.h"

/* Refused as an argument, with a sentence. */
#define REFUSES(expression) LKT_FAILS(LKS_E_INVALID, "", expression)

static void of_communicators(void **state)
{
    lks_comm *comm = NULL;
    (void)state;
    REFUSES(lks_comm_create(NULL, NULL));
    REFUSES(lks_comm_make_id(NULL, NULL));
    LKT_OK(lks_comm_create(&comm, NULL));
    REFUSES(lks_comm_metrics(comm, NULL));
    lks_comm_destroy(comm);
    lks_comm_destroy(NULL);
    /* One process. */
    assert_int_equal(lks_comm_rank(NULL), 0);
    assert_int_equal(lks_comm_size(NULL), 1);
    assert_int_equal(lks_comm_local_rank(NULL), 0);
    assert_int_equal(lks_comm_local_size(NULL), 1);
    assert_string_equal(lks_comm_host(NULL, 0), "");
    assert_true(lks_comm_waited(NULL) == 0);
    assert_string_equal(lks_comm_library(NULL), "");
    assert_int_equal(lks_comm_lost(NULL), -1);
    assert_false(lks_comm_watched(NULL));
    assert_int_equal(lks_comm_cores(NULL), lks_cores());
    REFUSES(lks_comm_measure(NULL, NULL, 0, NULL));
    REFUSES(lks_comm_measure(NULL, NULL, 1, &(int){0}));
    REFUSES(lks_comm_clock(NULL, NULL, &(double){0}));
    REFUSES(lks_comm_clock(NULL, &(double){0}, NULL));
    lks_comm_abort(NULL, 1);
    LKT_OK(lks_comm_barrier(NULL));
    LKT_OK(lks_comm_same(NULL, "a", "b"));
    LKT_OK(lks_comm_agree(NULL, LKS_OK));
    LKT_OK(lks_comm_metrics(NULL, &(lks_metrics){0}));
    assert_null(lks_model_comm(NULL));
    (void)lks_fail(LKS_E_IO, "a loader failed");
    REFUSES(lks_model_fail(NULL, LKS_E_IO));
    REFUSES(lks_model_check_ranks(NULL));
    REFUSES(lks_model_average(NULL));
    assert_int_equal(lks_model_alone(NULL), 0);
    lks_model_raise(NULL, LKS_E_STOPPED);
    assert_int_equal(lks_model_raised(NULL), LKS_OK);
    (void)lks_fail(LKS_E_IO, "mine");
    assert_int_equal(lks_comm_agree(NULL, LKS_E_NOMEM), LKS_E_NOMEM);
    assert_string_equal(lks_last_error()->message, "mine");
}

/* Alone, too, what has bytes needs a pointer. */
static void collectives(lks_comm *comm)
{
    char bytes[4] = {1, 2, 3, 4}, other[4] = {0};
    float value = 5, *const none[] = {NULL}, *const values[] = {&value};
    const int64_t one = 1;
    REFUSES(lks_comm_same(comm, NULL, "b"));
    REFUSES(lks_comm_same(comm, "a", NULL));
    REFUSES(lks_comm_broadcast(comm, 0, NULL, &(size_t){1}, 1));
    REFUSES(lks_comm_broadcast(comm, 0, (void *const[]){bytes}, NULL, 1));
    REFUSES(lks_comm_broadcast(comm, 0, (void *const[]){NULL}, &(size_t){1}, 1));
    LKT_FAILS(LKS_E_INVALID, "got root 1, but there is 1 rank",
              lks_comm_broadcast(comm, 1, NULL, NULL, 0));
    REFUSES(lks_comm_average(comm, NULL, &one, 1, 1));
    REFUSES(lks_comm_average(comm, none, NULL, 1, 1));
    REFUSES(lks_comm_average(comm, none, &one, 1, 1));
    REFUSES(lks_comm_average(comm, values, &one, 1, -1));
    LKT_FAILS(LKS_E_INVALID, "got weight 0", lks_comm_average(comm, values, &one, 1, 0));
    REFUSES(lks_comm_all_gather(comm, NULL, 4, bytes));
    REFUSES(lks_comm_all_gather(comm, bytes, 4, NULL));
    REFUSES(lks_comm_all_to_all(comm, NULL, 4, bytes));
    REFUSES(lks_comm_all_to_all(comm, bytes, 4, NULL));
    LKT_OK(lks_comm_all_gather(comm, NULL, 0, NULL));
    LKT_OK(lks_comm_all_to_all(comm, NULL, 0, NULL));
    LKT_OK(lks_comm_broadcast(comm, 0, NULL, NULL, 0));
    LKT_OK(lks_comm_average(comm, NULL, NULL, 0, 1));
    LKT_OK(lks_comm_average(comm, values, &one, 1, 3));
    assert_true(value == 5);
    LKT_OK(lks_comm_all_gather(comm, bytes, 4, other));
    assert_memory_equal(bytes, other, 4);
    memset(other, 0, sizeof other);
    LKT_OK(lks_comm_all_to_all(comm, bytes, 4, other));
    assert_memory_equal(bytes, other, 4);
}

static void of_collectives(void **state)
{
    lks_comm *comm = NULL;
    (void)state;
    collectives(NULL);
    LKT_OK(lks_comm_create(&comm, NULL));
    collectives(comm);
    lks_comm_destroy(comm);
}

static void of_partitions(void **state)
{
    int64_t order[2], start[2];
    (void)state;
    REFUSES(lks_partition(2, NULL, 1, 0, order, start));
    REFUSES(lks_partition(2, &(double){1}, 1, 0, NULL, start));
    REFUSES(lks_partition(2, &(double){1}, 1, 0, order, NULL));
    LKT_OK(lks_partition(0, &(double){1}, 1, 0, NULL, start));
}

static void of_modules(void **state)
{
    char text[64];
    (void)state;
    assert_true(lks_mpi_modules(NULL, 9, NULL, 0) >= 0);
    assert_false(lks_mpi_loaded());
    REFUSES(lks_mpi_library(text, sizeof text, NULL));
    REFUSES(lks_mpi_library(NULL, 0, "a"));
    LKT_FAILS(LKS_E_COMM, "the module 'a.so' cannot be loaded", lks_mpi_library(text, 64, "a.so"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_communicators),
        cmocka_unit_test(of_modules),
        cmocka_unit_test(of_collectives),
        cmocka_unit_test(of_partitions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
