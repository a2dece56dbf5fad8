/* The tables of attributes: that they fit the structs they speak of, and what follows from them. */
#include <math.h>
#include <string.h>

#include "core/attribute_init.h"
#include "core/graph.h"
#include "core/range.h"
#include "support/test.h"

static size_t size_of(lki_attribute_type type)
{
    switch (type) {
    case LKI_INT:
        return sizeof(int64_t);
    case LKI_SHORT:
    case LKI_WORD:
        return sizeof(int);
    case LKI_FLOAT:
        return sizeof(float);
    case LKI_DOUBLE:
        return sizeof(double);
    case LKI_BOOL:
    case LKI_NOT:
        return sizeof(bool);
    case LKI_PAIR:
        return 2 * sizeof(int64_t);
    case LKI_INIT:
        return sizeof(lks_init);
    case LKI_FLOATS:
        return sizeof(float *);
    case LKI_SHAPE:
        return sizeof(lks_shape);
    case LKI_DTYPE:
        return sizeof(lks_dtype);
    case LKI_TEXT:
        return sizeof(char *);
    case LKI_INTS: /* as many as there is room for */
        break;
    }
    return 0;
}

/* Each member is of the type that the table says, and lies in the struct; names are unique. */
static void tables_fit_their_structs(void **state)
{
    (void)state;
    for (lki_op_id id = 0; id < LKI_OP_COUNT; id++) {
        const lki_op *op = lki_op_get(id);
        assert_int_equal(lki_op_find(op->name), id);
        assert_true(op->what != NULL && op->what[0] != '\0');
        assert_true(op->attributes.count == 0 || op->attr_size > 0);
        for (int i = 0; i < op->attributes.count; i++) {
            const lki_attribute *a = &op->attributes.list[i];
            assert_int_equal(a->size, size_of(a->type));
            assert_true(a->offset + a->size <= op->attr_size);
            assert_ptr_equal(lki_attribute_find(&op->attributes, a->name), a);
            assert_false(a->required && a->fallback != NULL);
            if (a->type == LKI_WORD || a->type == LKI_INIT) assert_non_null(a->range);
        }
    }
    assert_int_equal(lki_op_find("nothing"), LKI_OP_COUNT);
}

/* What a table calls the default is so after fill, prints nothing, and passes the check. */
static void defaults_are_what_the_table_says(void **state)
{
    (void)state;
    for (lki_op_id id = 0; id < LKI_OP_COUNT; id++) {
        const lki_op *op = lki_op_get(id);
        char *values = test_calloc(1, op->attr_size + 1), text[512];
        bool asks = false;
        for (int i = 0; i < op->attributes.count; i++) asks |= op->attributes.list[i].required;
        lki_attributes_fill(&op->attributes, values);
        if (!asks) {
            assert_int_equal(lki_attributes_print(&op->attributes, values, text, sizeof text), 0);
            LKT_OK(lki_attributes_check(&op->attributes, values, op->name));
        }
        test_free(values);
    }
    lks_batch_norm_opts norm = {.momentum = 0.5f};
    lki_attributes_fill(&lki_op_get(LKI_OP_BATCH_NORM)->attributes, &norm);
    assert_true(norm.momentum == 0.5f && norm.epsilon == 1e-5f);
    lks_pool_opts pool = {.kernel = {3, 2}, .stride = {0, 5}};
    lki_attributes_fill(&lki_op_get(LKI_OP_MAX_POOL)->attributes, &pool);
    assert_true(pool.stride[0] == 3 && pool.stride[1] == 5);
    char text[64]; /* what has no default is said, zero too */
    const lks_dropout_opts nothing = {.probability = 0};
    lki_attributes_print(&lki_op_get(LKI_OP_DROPOUT)->attributes, &nothing, text, sizeof text);
    assert_string_equal(text, "probability=0");
    const lks_init init = {.kind = LKS_INIT_UNIFORM, .scale = 0.5f, .fan_out = true};
    const lki_attribute *weight = lki_attribute_find(&lki_op_get(LKI_OP_DENSE)->attributes,
                                                     "weight_init");
    assert_string_equal(lki_init_print(weight, &init, text, sizeof text), "uniform:0.5");
    const lks_init weak = {.kind = LKS_INIT_XAVIER_NORMAL, .gain = -0.5f};
    LKT_FAILS(LKS_E_INVALID, "gain -0.5, expected a positive number",
              lki_init_check(weight, &weak, "dense"));
    const lks_target_opts many = {.classes = INT32_MAX};
    LKT_OK(lki_attributes_check(&lki_op_get(LKI_OP_TARGET)->attributes, &many, "target"));
}

static void described(const char *range, const char *expected)
{
    char text[160];
    lki_range_describe(range, "a number", text, sizeof text);
    assert_string_equal(text, expected);
}

static void ranges_are_read_and_described(void **state)
{
    (void)state;
    described(NULL, "a number");
    described("[1,)", "a number of at least 1");
    described("(0,)", "a number above 0");
    described("[0,1]", "a number from 0 to 1");
    described("(0,1]", "a number above 0 and at most 1");
    described("[0,0.5)", "a number of at least 0 and below 0.5");
    const lki_range half = lki_range_of("[0,0.5)"), open = lki_range_of("(0,)");
    assert_true(lki_range_has(&half, 0.0) && lki_range_has(&half, 0.4999));
    assert_false(lki_range_has(&half, 0.5) || lki_range_has(&half, -1e-9));
    assert_true(lki_range_has(&open, 1e300));
    assert_false(lki_range_has(&open, 0.0) || lki_range_has(&open, (double)NAN));
}

static void words_have_numbers(void **state)
{
    char text[200];
    int length;
    (void)state;
    assert_int_equal(lki_word_find("sgd adam adamw", "adamw"), 2);
    assert_int_equal(lki_word_find("sgd adam adamw", "ada"), -1);
    assert_int_equal(lki_word_find("sgd adam adamw", ""), -1);
    assert_null(lki_word_at("sgd adam", 2, &length));
    lki_words_describe("sgd adam adamw", text, sizeof text);
    assert_string_equal(text, "sgd, adam or adamw");
    assert_int_equal(lki_word_find(LKI_INIT_WORDS, "constant"), LKS_INIT_CONSTANT);
    assert_int_equal(lki_word_find(LKI_INIT_WORDS, "kaiming_normal"), LKS_INIT_KAIMING_NORMAL);
    assert_int_equal(lki_word_find(LKI_INIT_WORDS " identity", "identity"), LKS_INIT_IDENTITY);
}

/* An enum has the words' numbers and no others. */
static void numbers_without_a_word_are_refused(void **state)
{
    int seen = 0;
    (void)state;
    for (lki_op_id id = 0; id < LKI_OP_COUNT; id++) {
        const lki_op *op = lki_op_get(id);
        char *values = test_calloc(1, op->attr_size + 1);
        for (int i = 0; i < op->attributes.count; i++) {
            const lki_attribute *a = &op->attributes.list[i];
            const lki_attributes own = {a, 1};
            int length, words = 0;
            if (a->type != LKI_WORD) continue;
            while (lki_word_at(a->range, words, &length) != NULL) words++;
            for (int value = -1; value <= words; value++) {
                memcpy(values + a->offset, &value, sizeof value);
                if (value >= 0 && value < words)
                    LKT_OK(lki_attributes_check(&own, values, "it"));
                else
                    LKT_FAILS(LKS_E_INVALID, "expected ", lki_attributes_check(&own, values, "it"));
            }
            seen++;
        }
        test_free(values);
    }
    assert_true(seen > 0);
}

/* Room for few integers, with a count behind it. */
static void lists_of_integers_are_printed(void **state)
{
    struct options {
        int64_t sizes[3];
        int count;
    } values = {{0}, 0};
    static const lki_attribute list[] = {
        LKI_ATTRIBUTE(INTS, struct options, sizes, .count = offsetof(struct options, count)),
    };
    const lki_attributes table = LKI_ATTRIBUTES(list);
    char text[40];
    (void)state;
    assert_int_equal(lki_attributes_print(&table, &values, text, sizeof text), 0);
    values = (struct options){{5, -1, 7}, 2};
    lki_attributes_print(&table, &values, text, sizeof text);
    assert_string_equal(text, "sizes=5,-1");
    LKT_OK(lki_attributes_check(&table, &values, "it"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_fit_their_structs),
        cmocka_unit_test(defaults_are_what_the_table_says),
        cmocka_unit_test(ranges_are_read_and_described),
        cmocka_unit_test(words_have_numbers),
        cmocka_unit_test(numbers_without_a_word_are_refused),
        cmocka_unit_test(lists_of_integers_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
