/* Every pointer of the functions of text.h as NULL. */
#include <math.h>

#include <lockstep/model.h>

#include "text/texts.h"

#define REFUSES(expression) LKT_FAILS(LKS_E_INVALID, "", expression)

static void of_tokenizers(void **state)
{
    (void)state;
    lks_tokenizer *t;
    const char *texts[] = {"a b", NULL};
    const size_t bytes[] = {3, 0};
    int32_t ids[4];
    int64_t count;
    REFUSES(lks_tokenizer_open(NULL, context, "a"));
    REFUSES(lks_tokenizer_open(&t, context, NULL));
    assert_null(t);
    REFUSES(lks_tokenizer_build(NULL, context, NULL, texts, bytes, 1));
    REFUSES(lks_tokenizer_build(&t, context, NULL, NULL, bytes, 1));
    REFUSES(lks_tokenizer_build(&t, context, NULL, texts, NULL, 1));
    REFUSES(lks_tokenizer_build(&t, context, NULL, texts, bytes, 2));
    REFUSES(lks_tokenizer_build(&t, context, NULL, texts, bytes, -1));
    assert_null(t);
    LKT_OK(lks_tokenizer_build(&t, NULL, NULL, texts, bytes, 1)); /* the system's memory */
    REFUSES(lks_tokenizer_encode(NULL, "a", 1, ids, 4, &count));
    REFUSES(lks_tokenizer_encode(t, NULL, 1, ids, 4, &count));
    REFUSES(lks_tokenizer_encode(t, "a", 1, NULL, 4, &count));
    REFUSES(lks_tokenizer_encode(t, "a", 1, ids, 4, NULL));
    LKT_OK(lks_tokenizer_encode(t, NULL, 0, NULL, 0, &count));
    assert_int_equal(count, 0);
    size_t length = 7;
    assert_null(lks_tokenizer_token(NULL, 0, &length));
    assert_int_equal(length, 0);
    assert_null(lks_tokenizer_token(t, 0, NULL));
    assert_int_equal(lks_tokenizer_size(NULL), 0);
    assert_int_equal(lks_tokenizer_hash(NULL), 0);
    assert_string_equal(lks_tokenizer_level(NULL), "");
    assert_int_equal(lks_tokenizer_unknown(NULL), -1);
    REFUSES(lks_tokenizer_write(NULL, in("a")));
    REFUSES(lks_tokenizer_write(t, NULL));
    lks_tokenizer_destroy(t);
    lks_tokenizer_destroy(NULL);
}

static void of_texts(void **state)
{
    (void)state;
    lks_dataset *data;
    lks_tokenizer *t = build(NULL, "a b");
    const lks_text_opts opts = {.tokenizer = t, .context = 1};
    REFUSES(lks_dataset_open_text(NULL, context, "a", &opts));
    REFUSES(lks_dataset_open_text(&data, context, NULL, &opts));
    REFUSES(lks_dataset_open_text(&data, context, "a", NULL));
    assert_null(data);
    assert_null(lks_dataset_tokenizer(NULL));
    assert_int_equal(lks_dataset_tokens(NULL, 0, 1, NULL), 0);
    assert_true(isnan(lks_metrics_perplexity(NULL)));
    lks_tokenizer_destroy(t);
    REFUSES(lks_recipe_valid_dataset(&data, NULL, context));
    assert_null(data);
    REFUSES(lks_recipe_valid_dataset(NULL, NULL, context));
    assert_false(lks_recipe_has_test(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(of_tokenizers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_texts, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
