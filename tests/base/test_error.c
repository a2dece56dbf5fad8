/* Status codes, the error record, versions, element types. */
#include "support/test.h"

#include <pthread.h>
#include <string.h>

#include <lockstep/tensor.h>

#include "base/check.h"

static void names_and_texts(void **state)
{
    (void)state;
    assert_string_equal(lks_status_name(LKS_OK), "LKS_OK");
    assert_string_equal(lks_status_name(LKS_E_SHAPE), "LKS_E_SHAPE");
    assert_string_equal(lks_status_name(LKS_E_BUG), "LKS_E_BUG");
    assert_string_equal(lks_status_text(LKS_E_NOMEM), "out of memory");
    assert_string_equal(lks_status_name((lks_status)99), "LKS_E_UNKNOWN");
    assert_string_equal(lks_status_text((lks_status)99), "not a status of this library");
}

static lks_status passes_on(lks_status status)
{
    LKI_TRY(status);
    return LKI_FAIL(LKS_E_BUG, "reached the end");
}

static lks_status cleans_up(lks_status status, int *cleaned)
{
    lks_status result;
    LKI_TRY_OR(result, out, status);
    result = LKI_FAIL(LKS_E_BUG, "reached the end");
out:
    (*cleaned)++;
    return result;
}

static void record(void **state)
{
    (void)state;
    assert_int_equal(LKI_FAIL(LKS_E_IO, "cannot open '%s': %d", "x", 7), LKS_E_IO);
    const int line = __LINE__ - 1;
    const lks_error *error = lks_last_error();
    assert_int_equal(error->status, LKS_E_IO);
    assert_string_equal(error->message, "cannot open 'x': 7");
    assert_int_equal(error->line, line);
    assert_non_null(strstr(error->file, "test_error.c"));

    lki_fail_at("/home/src/lockstep/src/base/x.c", 3, LKS_E_BUG, "x");
    assert_string_equal(lks_last_error()->file, "base/x.c");
    lki_fail_at("base/x.c", 3, LKS_E_BUG, "x");
    assert_string_equal(lks_last_error()->file, "base/x.c");

    assert_int_equal(lks_fail(LKS_E_STOPPED, "%s of %d", "epoch 3", 14), LKS_E_STOPPED);
    assert_string_equal(lks_last_error()->message, "epoch 3 of 14");
    assert_int_equal(lks_last_error()->status, LKS_E_STOPPED);

    assert_int_equal(passes_on(LKS_E_IO), LKS_E_IO);
    assert_int_equal(passes_on(LKS_OK), LKS_E_BUG);
    int cleaned = 0;
    assert_int_equal(cleans_up(LKS_E_IO, &cleaned), LKS_E_IO);
    assert_int_equal(cleans_up(LKS_OK, &cleaned), LKS_E_BUG);
    assert_int_equal(cleaned, 2);
}

/* A sentence may quote the last one, and one that is too long says that it was cut. */
static void long_and_nested(void **state)
{
    (void)state;
    lks_fail(LKS_E_IO, "inner");
    lks_fail(LKS_E_FORMAT, "outer: %s", lks_last_error()->message);
    assert_string_equal(lks_last_error()->message, "outer: inner");
    const size_t room = sizeof lks_last_error()->message;
    for (size_t length = room - 3; length <= room + 2; length++) {
        char text[700];
        memset(text, 'a', length);
        text[length] = '\0';
        lks_fail(LKS_E_FORMAT, "%s", text);
        const char *message = lks_last_error()->message;
        if (length < room) {
            assert_string_equal(message, text);
        } else {
            assert_int_equal(strlen(message), room - 1);
            assert_string_equal(message + room - 4, "...");
        }
    }
}

static void *other_thread(void *saved)
{
    const bool fresh = lks_last_error()->status == LKS_OK && !lks_last_error()->message[0];
    lks_fail(LKS_E_NUMERIC, "of the other thread");
    *(lks_error *)saved = *lks_last_error();
    return fresh ? saved : NULL;
}

static void one_per_thread(void **state)
{
    (void)state;
    lks_fail(LKS_E_IO, "of this thread");
    lks_error saved;
    pthread_t thread;
    void *fresh;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &saved), 0);
    pthread_join(thread, &fresh);
    assert_ptr_equal(fresh, &saved);
    assert_string_equal(lks_last_error()->message, "of this thread");
    lki_error_restore(&saved);
    assert_string_equal(lks_last_error()->message, "of the other thread");
    assert_int_equal(lks_last_error()->status, LKS_E_NUMERIC);
    lki_error_restore(lks_last_error()); /* itself is fine */
    assert_string_equal(lks_last_error()->message, "of the other thread");
}

static void version(void **state)
{
    (void)state;
    int major, minor, patch;
    assert_int_equal(sscanf(lks_version(), "%d.%d.%d", &major, &minor, &patch), 3);
    assert_true(strlen(lks_build_info()) > 3);
    assert_null(strchr(lks_build_info(), '\n'));
}

static void types(void **state)
{
    (void)state;
    assert_int_equal(lks_dtype_size(LKS_F32), 4);
    assert_int_equal(lks_dtype_size(LKS_U8), 1);
    assert_int_equal(lks_dtype_size(LKS_I32), 4);
    assert_int_equal(lks_dtype_size(LKS_I64), 8);
    assert_string_equal(lks_dtype_name(LKS_F32), "F32");
    assert_string_equal(lks_dtype_name(LKS_U8), "U8");
    assert_string_equal(lks_dtype_name(LKS_I32), "I32");
    assert_string_equal(lks_dtype_name(LKS_I64), "I64");
    assert_int_equal(lks_shape_elements(&LKS_SHAPE(28, 28, 3)), 2352);
    assert_int_equal(lks_shape_elements(&(lks_shape){0}), 1);
    assert_int_equal(lks_shape_elements(&LKS_SHAPE(1 << 20, 1 << 20)), INT64_C(1) << 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_texts), cmocka_unit_test(record),
        cmocka_unit_test(long_and_nested), cmocka_unit_test(one_per_thread),
        cmocka_unit_test(version),         cmocka_unit_test(types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
