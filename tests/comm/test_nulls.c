/* Every pointer of the functions of comm.h as NULL: a documented answer (context.h), no crash. */
#include <lockstep/comm.h>

#include "support/test.h"

/* Refused as an argument, with a sentence. */
#define REFUSES(expression) LKT_FAILS(LKS_E_INVALID, "", expression)

static void of_communicators(void **state)
{
    lks_comm *comm = NULL;
    (void)state;
    REFUSES(lks_comm_create(NULL, NULL));
    LKT_OK(lks_comm_create(&comm, NULL));
    lks_comm_destroy(comm);
    lks_comm_destroy(NULL);
    assert_int_equal(lks_comm_rank(NULL), 0);
    assert_int_equal(lks_comm_size(NULL), 0);
    assert_int_equal(lks_comm_local_rank(NULL), 0);
    assert_int_equal(lks_comm_local_size(NULL), 0);
    assert_string_equal(lks_comm_host(NULL, 0), "");
    assert_string_equal(lks_comm_library(NULL), "");
    REFUSES(lks_comm_agree(NULL, LKS_OK));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_communicators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
