/* Reading safetensors: what PyTorch writes, what it may not be, and files that are not to be
 * believed. */
#include "support/backends.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>

static char path[4200];

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/file.safetensors", lkt_make_folder());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lkt_remove_folder();
    return 0;
}

static void write_bytes(const void *data, size_t bytes)
{
    unlink(path); /* some file systems write a truncated file back at once, which is slow */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* A header of `length` bytes that claims `claim`, and data_bytes of 1, 2, 3, ... */
static void write_claim(uint64_t claim, const char *header, size_t length, size_t data_bytes)
{
    uint8_t *all = malloc(8 + length + data_bytes + 1);
    assert_non_null(all);
    for (int i = 0; i < 8; i++) all[i] = (uint8_t)(claim >> 8 * i);
    memcpy(all + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++) all[8 + length + i] = (uint8_t)(i + 1);
    write_bytes(all, 8 + length + data_bytes);
    free(all);
}

static void write_header(const char *header, size_t data_bytes)
{
    write_claim(strlen(header), header, strlen(header), data_bytes);
}

static void refuses(const char *part)
{
    lks_tensor_file *file = (lks_tensor_file *)(void *)path;
    LKT_FAILS(LKS_E_FORMAT, part, lks_tensor_file_open(&file, NULL, path));
    assert_null(file);
}

static void refuses_header(const char *part, const char *header, size_t data_bytes)
{
    write_header(header, data_bytes);
    refuses(part);
}

static lks_tensor_entry entry_of(const lks_tensor_file *file, const char *name)
{
    const int index = lks_tensor_file_find(file, name);
    if (index < 0) fail_msg("no tensor '%s'", name);
    return lks_tensor_file_entry(file, index);
}

/* tools/goldens/safetensors_file.py made it: 7 i % 11 - 5, or 7 i % 251 for u8. */
static void reads_pytorchs(void **state)
{
    (void)state;
    const char *source = getenv("LKT_SOURCE");
    snprintf(path, sizeof path, "%s/tests/checkpoint/golden/from_pytorch.safetensors",
             source ? source : ".");
    lks_tensor_file *file;
    LKT_OK(lks_tensor_file_open(&file, NULL, path));
    assert_int_equal(lks_tensor_file_count(file), 6);
    assert_string_equal(lks_tensor_file_metadata(file, "note"), "made for tests");
    assert_null(lks_tensor_file_metadata(file, "nothing"));
    assert_int_equal(lks_tensor_file_find(file, "fc2.weight"), -1);
    assert_null(lks_tensor_file_entry(file, 6).name);
    assert_null(lks_tensor_file_entry(file, -1).name);

    const lks_tensor_entry weight = entry_of(file, "fc1.weight");
    assert_int_equal(weight.dtype, LKS_F32);
    assert_int_equal(weight.shape.ndim, 2);
    assert_int_equal(weight.shape.dim[0], 5);
    assert_int_equal(weight.shape.dim[1], 3);
    assert_int_equal(weight.bytes, 60);
    for (int i = 0; i < 15; i++) {
        assert_true(((const float *)weight.data)[i] == (float)(i * 7 % 11 - 5) / 4.0f);
    }
    const lks_tensor_entry tracked = entry_of(file, "bn.num_batches_tracked");
    assert_int_equal(tracked.dtype, LKS_I64);
    assert_int_equal(tracked.shape.ndim, 0);
    assert_int_equal(*(const int64_t *)tracked.data, INT64_C(1234567890123));
    const lks_tensor_entry labels = entry_of(file, "labels");
    assert_int_equal(labels.dtype, LKS_I32);
    for (int i = 0; i < 7; i++) assert_int_equal(((const int32_t *)labels.data)[i], i * 7 % 11 - 5);
    const lks_tensor_entry pixels = entry_of(file, "pixels");
    assert_int_equal(pixels.dtype, LKS_U8);
    for (int i = 0; i < 6; i++) assert_int_equal(((const uint8_t *)pixels.data)[i], i * 7 % 251);
    assert_int_equal(entry_of(file, "nothing").bytes, 0);
    lks_tensor_file_close(file);
    lks_tensor_file_close(NULL);
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"

/* Allowed by the format: any order in the header, no padding, tensors that are not aligned. */
static void reads_unusual_files(void **state)
{
    (void)state;
    lks_tensor_file *file;
    write_header("{" T("b", "F32", "2", "1,9") "," T("a", "U8", "1", "0,1") "," T(
                     "c", "I64", "", "9,17") "," T("e", "F32", "0,7", "17,17") "}",
                 17);
    LKT_OK(lks_tensor_file_open(&file, NULL, path));
    assert_int_equal(lks_tensor_file_count(file), 4);
    assert_string_equal(lks_tensor_file_entry(file, 0).name, "a");
    const lks_tensor_entry b = entry_of(file, "b"), c = entry_of(file, "c");
    assert_int_equal((uintptr_t)b.data % sizeof(float), 0);
    assert_int_equal((uintptr_t)c.data % sizeof(int64_t), 0);
    assert_memory_equal(b.data, "\2\3\4\5\6\7\10\11", 8);
    assert_memory_equal(c.data, "\12\13\14\15\16\17\20\21", 8);
    lks_tensor_file_close(file);

    write_header("{" T("a", "U8", "1,2,1,3,1", "0,6") "}", 6);
    LKT_OK(lks_tensor_file_open(&file, NULL, path));
    const lks_tensor_entry a = entry_of(file, "a");
    assert_int_equal(a.shape.ndim, 5); /* as many as there may be */
    assert_int_equal(a.shape.dim[3], 3);
    lks_tensor_file_close(file);

    write_header("{}", 0);
    LKT_OK(lks_tensor_file_open(&file, NULL, path));
    assert_int_equal(lks_tensor_file_count(file), 0);
    assert_null(lks_tensor_file_metadata(file, "format"));
    lks_tensor_file_close(file);

    write_header("{" T("a", "U8", "1", "0,1") ",\"__metadata__\":{}}     ", 1);
    LKT_OK(lks_tensor_file_open(&file, NULL, path));
    lks_tensor_file_close(file);
}

static void refuses_bad_lengths(void **state)
{
    (void)state;
    const char *good = "{" T("a", "U8", "4", "0,4") "}";
    lks_tensor_file *file;
    LKT_FAILS(LKS_E_IO, "no such file", lks_tensor_file_open(&file, NULL, path));
    write_bytes("", 0);
    refuses("it has 0 bytes");
    write_bytes("123456789", 9);
    refuses("it has 9 bytes");
    const uint64_t claims[] = {UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 7, INT64_MAX, 0, 1};
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        char part[80];
        snprintf(part, sizeof part, "claims a header of %llu byte%s,",
                 (unsigned long long)claims[i], claims[i] == 1 ? "" : "s");
        write_claim(claims[i], good, strlen(good), 4);
        refuses(part);
    }
    write_claim(strlen(good) + 5, good, strlen(good), 4);
    refuses("claims a header");
    write_claim(strlen(good) - 1, good, strlen(good), 4);
    refuses("not valid JSON");
    write_claim(strlen(good) + 4, good, strlen(good), 4);
    refuses("not valid JSON");

    /* A header larger than the format allows, in a file without so many blocks on the disk. */
    write_claim(150 * 1000 * 1000, good, strlen(good), 0);
    assert_int_equal(truncate(path, 200 * 1000 * 1000), 0);
    refuses("expected 2 to 100000000");
}

static void refuses_bad_json(void **state)
{
    (void)state;
    refuses_header("does not begin with '{'", "[]", 0);
    refuses_header("does not begin with '{'", " {}", 0);
    refuses_header("not valid JSON at byte", "{\"a\":", 0);
    refuses_header("not valid JSON", "{\"\xff\xfe\":{}}", 0);
    refuses_header("not valid JSON", "{\"a\xc3\":{}}", 0);
    refuses_header("not valid JSON", "{\"a\\u0000b\":{}}", 0);
    refuses_header("not valid JSON", "{" T("a", "U8", "1", "0,1") "," T("a", "U8", "1", "0,1") "}",
                   1);
    refuses_header("not valid JSON", "{" T("a", "U8", "1", "0,9223372036854775808") "}", 1);
    refuses_header("not valid JSON", "{} {}", 0);

    enum { DEPTH = 100000 };
    char *deep = malloc(DEPTH + 6);
    assert_non_null(deep);
    memcpy(deep, "{\"a\":", 5);
    memset(deep + 5, '[', DEPTH);
    deep[DEPTH + 5] = '\0';
    refuses_header("not valid JSON", deep, 0);
    free(deep);
}

static void refuses_bad_tensors(void **state)
{
    (void)state;
    refuses_header("__metadata__ is not", "{\"__metadata__\":{\"a\":1}}", 0);
    refuses_header("__metadata__ is not", "{\"__metadata__\":[]}", 0);
    refuses_header("tensor 'a' has no dtype", "{\"a\":{}}", 0);
    refuses_header("tensor 'a' has no dtype", "{\"a\":3}", 0);
    refuses_header("tensor 'a' has no dtype", "{\"a\":{\"dtype\":5}}", 0);
    refuses_header("has no shape", "{\"a\":{\"dtype\":\"U8\",\"shape\":3}}", 0);
    refuses_header("has no data_offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 0);
    refuses_header("has no data_offsets", "{" T("a", "U8", "1", "0") "}", 1);
    refuses_header("has no data_offsets", "{" T("a", "U8", "1", "0,1,1") "}", 1);
    refuses_header("has no data_offsets", "{" T("a", "U8", "1", "0,1.0") "}", 1);
    refuses_header("type 'BF16', which this version does not read",
                   "{" T("a", "BF16", "1", "0,2") "}", 2);
    refuses_header("type 'f32'", "{" T("a", "f32", "1", "0,4") "}", 4);
    refuses_header("dimension that is not", "{" T("a", "U8", "-1", "0,1") "}", 1);
    refuses_header("dimension that is not", "{" T("a", "U8", "1.5", "0,1") "}", 1);
    refuses_header("dimension that is not", "{" T("a", "U8", "true", "0,1") "}", 1);
    refuses_header("more than 5 dimensions", "{" T("a", "U8", "1,1,1,1,1,1", "0,1") "}", 1);
    refuses_header("more bytes than memory",
                   "{" T("a", "U8", "4611686018427387904,4611686018427387904", "0,0") "}", 0);
    refuses_header("more bytes than memory", "{" T("a", "F32", "4611686018427387904", "0,0") "}",
                   0);
    refuses_header("more bytes than memory", "{" T("a", "I64", "9223372036854775807", "0,0") "}",
                   0);
    refuses_header("ends before it begins", "{" T("a", "U8", "1", "1,0") "}", 1);
    refuses_header("ends before it begins", "{" T("a", "U8", "1", "-1,0") "}", 1);
    refuses_header("truncated", "{" T("a", "U8", "9", "0,9") "}", 8);
    refuses_header("truncated", "{" T("a", "U8", "9", "0,9223372036854775807") "}", 8);
    refuses_header("do not fit its shape", "{" T("a", "F32", "2", "0,4") "}", 4);
    refuses_header("tensor 'b' overlaps",
                   "{" T("a", "U8", "3", "0,3") "," T("b", "U8", "3", "2,5") "}", 5);
    refuses_header("tensor 'b' overlaps",
                   "{" T("a", "U8", "3", "0,3") "," T("b", "U8", "3", "0,3") "}", 3);
    refuses_header("hole before", "{" T("a", "U8", "3", "1,4") "}", 4);
    refuses_header("tensor 'b' leaves a hole",
                   "{" T("a", "U8", "1", "0,1") "," T("b", "U8", "1", "2,3") "}", 3);
    refuses_header("end after 3 bytes of data, the file after 4", "{" T("a", "U8", "3", "0,3") "}",
                   4);
    refuses_header("tensor '?[31mred' has no dtype", "{\"\\u001b[31mred\":{}}", 0);
}

/* Opens a file that may be anything. What opens is whole: sizes fit, and every byte can be read. */
static int64_t opens(const void *data, size_t bytes)
{
    lks_tensor_file *file;
    write_bytes(data, bytes);
    if (lks_tensor_file_open(&file, NULL, path) != LKS_OK) {
        assert_null(file);
        assert_true(strlen(lks_last_error()->message) > 20);
        return 0;
    }
    size_t all = 0;
    unsigned sum = 0;
    for (int i = 0; i < lks_tensor_file_count(file); i++) {
        const lks_tensor_entry entry = lks_tensor_file_entry(file, i);
        assert_int_equal((size_t)lks_shape_elements(&entry.shape) * lks_dtype_size(entry.dtype),
                         entry.bytes);
        assert_int_equal((uintptr_t)entry.data % lks_dtype_size(entry.dtype), 0);
        for (size_t k = 0; k < entry.bytes; k++) sum += ((const uint8_t *)entry.data)[k];
        all += entry.bytes;
    }
    assert_true(all < bytes && sum <= 255 * all);
    lks_tensor_file_close(file);
    return 1;
}

/* Every truncation, and every byte of the file with each bit flipped and with a few other values. */
static void survives_damage(void **state)
{
    (void)state;
    const char *header = "{" T("a", "U8", "3", "0,3") "," T(
        "b", "F32", "1,2", "3,11") ",\"__metadata__\":{\"format\":\"pt\"}}";
    uint8_t file[256];
    const size_t length = strlen(header), bytes = 8 + length + 11;
    memset(file, 0, sizeof file);
    file[0] = (uint8_t)length;
    memcpy(file + 8, header, length);
    assert_int_equal(opens(file, bytes), 1);

    int64_t opened = 0;
    for (size_t cut = 0; cut < bytes; cut++) opened += opens(file, cut);
    assert_int_equal(opened, 0);
    const uint8_t values[] = {0x00, 0xff, '"', '}', '9', '-'};
    for (size_t at = 0; at < bytes; at++) {
        const uint8_t right = file[at];
        for (int bit = 0; bit < 8; bit++) {
            file[at] = (uint8_t)(right ^ (1u << bit));
            opened += opens(file, bytes);
        }
        for (size_t i = 0; i < sizeof values; i++) {
            file[at] = values[i];
            opened += opens(file, bytes);
        }
        file[at] = right;
    }
    /* Data, names and the metadata's texts may change; the rest may not. */
    print_message("%lld of %zu damaged files open\n", (long long)opened, 14 * bytes);
    assert_true(opened > 14 * 11 && opened < (int64_t)(14 * bytes / 4));
}

static void allocations_fail(void **state)
{
    (void)state;
    write_header("{" T("b", "F32", "2", "1,9") "," T("a", "U8", "1", "0,1") "}", 9);
    for (int64_t n = 1;; n++) {
        lkt_heap heap = {0};
        lks_context *context;
        LKT_OK(lks_context_create(&context,
                                  &(lks_context_opts){.device = lkt_device("ref"),
                                                      .allocator = lkt_heap_allocator(&heap)}));
        heap.fail_at = heap.allocations + n;
        lks_tensor_file *file;
        const lks_status status = lks_tensor_file_open(&file, context, path);
        if (status == LKS_OK) lks_tensor_file_close(file);
        lks_context_destroy(context);
        assert_int_equal(heap.live, 0);
        assert_int_equal(heap.errors, 0);
        if (status == LKS_OK) {
            assert_true(n > 2);
            break;
        }
        assert_int_equal(status, LKS_E_NOMEM);
    }
}

/* Header lengths that begin like gzip: 0x8b1f, alone and with more behind it. */
static void header_lengths_are_no_gzip(void **state)
{
    static const size_t lengths[] = {0x8b1f, 0x18b1f, 0x88b1f};
    const char *text = "{\"a\": {\"dtype\": \"U8\", \"shape\": [3], \"data_offsets\": [0, 3]}}";
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        lks_tensor_file *file;
        char *header = malloc(lengths[i]);
        assert_non_null(header);
        memset(header, ' ', lengths[i]);
        memcpy(header, text, strlen(text));
        write_claim(lengths[i], header, lengths[i], 3);
        LKT_OK(lks_tensor_file_open(&file, NULL, path));
        assert_memory_equal(entry_of(file, "a").data, "\1\2\3", 3);
        lks_tensor_file_close(file);
        free(header);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_pytorchs),
        cmocka_unit_test_setup_teardown(reads_unusual_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(header_lengths_are_no_gzip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_bad_lengths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_bad_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_bad_tensors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(survives_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(allocations_fail, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
