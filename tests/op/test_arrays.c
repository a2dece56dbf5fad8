/* What a backend does with arrays of the host: additions; that it is found by its name; and the order of what flatten gives. */
#include <string.h>

#include "core/backend.h"
#include "support/backends.h"
#include "support/ops.h"
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

/* PyTorch's order, which its dense layers behind Flatten expect: of an image (channel, row, column), of a sequence (position,
 * channel). Gradients come back the same way. */
static void flatten_has_pytorchs_order(void **state)
{
    static const lks_shape shapes[] = {{3, {3, 2, 4}}, {2, {5, 3}}, {1, {7}}};
    lkt_random random = lkt_random_make("flatten", 7);
    (void)state;
    for (int b = 0; b == 0 || lkt_backends()[b - 1] != NULL; b++)
        for (int k = 0; k < 3; k++) {
            const int64_t *dim = shapes[k].dim, channels = k == 0 ? dim[2] : 1;
            const int64_t all = lks_shape_elements(&shapes[k]), pixels = all / channels;
            lkt_result found;
            lkt_case c;
            lkt_case_begin(&c);
            lks_tensor *x = lks_input(c.graph, &(lks_input_opts){.shape = shapes[k]});
            x = lks_flatten(c.graph, x);
            lkt_case_end(&c, x, x, 2, LKT_RANDOM, &random);
            lkt_run(&c, b == 0 ? lkt_ref() : lkt_backends()[b - 1], NULL, NULL, &found);
            for (int64_t i = 0; i < 2 * all; i++) {
                const int64_t at = i % all, sample = i - at;
                const int64_t from = sample + at % pixels * channels + at / pixels;
                assert_float_equal(found.out[i], ((const float *)c.in[0])[from], 0);
                assert_float_equal(found.d_in[0][from], c.d_out[i], 0);
            }
            lkt_case_free(&c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_is_one_rounding),
        cmocka_unit_test(backends_are_found_by_name),
        cmocka_unit_test(flatten_has_pytorchs_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
