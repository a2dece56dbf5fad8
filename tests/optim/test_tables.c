/* The tables of optimizers: that they fit lks_optim, that their defaults pass, and that lists tell them. */
#include <string.h>

#include <lockstep/tools.h>

#include "optim/optimizer.h"
#include "support/test.h"

static void tables_fit(void **state)
{
    const lki_optimizer *o;
    int count = 0;
    (void)state;
    for (; (o = lki_optimizer_at(count)) != NULL; count++) {
        const lks_optim optim = lki_optimizer_make(o);
        LKT_OK(lks_optim_check(&optim));
        assert_ptr_equal(lki_optimizer_find(o->name), o);
        assert_ptr_equal(lki_optimizer_of(o->kind), o);
        for (int i = 0; i < o->attributes.count; i++) {
            const lki_attribute *a = &o->attributes.list[i];
            assert_int_equal(a->size, a->type == LKI_DOUBLE ? sizeof(double) : sizeof(bool));
            assert_true(a->offset + a->size <= sizeof optim);
        }
        for (int a = 1; a < LKI_MAX_STATES; a++) /* without gaps */
            assert_true(o->states[a] == NULL || o->states[a - 1] != NULL);
    }
    assert_true(count >= 6);
    assert_null(lki_optimizer_at(-1));
    assert_null(lki_optimizer_find("nothing"));
}

static void lists_tell_them(void **state)
{
    const char *what = NULL;
    lks_option option;
    (void)state;
    assert_string_equal(lks_list_name(LKS_LIST_OPTIMIZERS, 0, &what), "sgd");
    assert_true(what != NULL && what[0] != '\0');
    assert_null(lks_list_name(LKS_LIST_OPTIMIZERS, 1000, NULL));
    assert_true(lks_list_option(LKS_LIST_OPTIMIZERS, 1, 1, &option));
    assert_string_equal(option.name, "beta1");
    assert_string_equal(option.standard, "0.9");
    assert_string_equal(option.expected, "a number of at least 0 and below 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_fit),
        cmocka_unit_test(lists_tell_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
