/* What a backend does with arrays of the host: additions; and that it is found by its name. */
#include <string.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/test.h"

static void add_is_one_rounding(void **state)
{
    enum { COUNT = 1003 };
    lkt_random random = lkt_random_make("add_is_one_rounding", 42);

    (void)state;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        static float left[COUNT], right[COUNT], sum[COUNT];

        for (int i = 0; i < COUNT; i++) {
            left[i] = (float)lkt_random_real(&random, -1.0, 1.0);
            right[i] = (float)lkt_random_real(&random, -1e-3, 1e-3);
            sum[i] = left[i] + right[i];
        }
        lkt_backends()[b]->add(COUNT - 3, left + 1, right + 1);
        assert_memory_equal(left + 1, sum + 1, (COUNT - 3) * sizeof(float));
        assert_true(left[COUNT - 1] != sum[COUNT - 1]);
    }
}

static void backends_are_found_by_name(void **state)
{
    (void)state;
    assert_non_null(lkt_backends()[0]);
    for (int b = 0; lkt_backends()[b] != NULL; b++)
        assert_ptr_equal(lki_backend_find(lkt_backends()[b]->name), lkt_backends()[b]);
    assert_string_equal(lki_backend_find("ref")->name, "ref");
    assert_null(lki_backend_find("abacus"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_is_one_rounding),
        cmocka_unit_test(backends_are_found_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
