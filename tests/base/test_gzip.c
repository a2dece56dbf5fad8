/* gzip files: whole ones by any name, and every way in which they are damaged. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/context.h"
#include "base/file.h"
#include "base/inflate.h"

enum { ROOM = 1 << 20 };

static uint8_t packed[ROOM + 64];
static char path[4300];

/* One gzip member in packed[at ...]; returns its bytes. */
static size_t pack(size_t at, const uint8_t *data, size_t bytes, int level)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes};
    assert_int_equal(
        deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_out = packed + at;
    stream.avail_out = (uInt)(ROOM - at);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    const size_t made = stream.total_out;
    deflateEnd(&stream);
    return made;
}

static void put(size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(packed, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/images.idx", lkt_make_folder()); /* any name does */
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lkt_remove_folder();
    return 0;
}

static uint8_t *make_data(size_t bytes, int kinds, uint64_t seed)
{
    uint8_t *data = malloc(bytes + 1);
    assert_non_null(data);
    lkt_random random = {.state = seed};
    for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)lkt_random_below(&random, kinds);
    return data;
}

static void check_open(const uint8_t *data, size_t bytes)
{
    lki_file file;
    LKT_OK(lki_file_open(&file, NULL, path));
    assert_int_equal(file.bytes, bytes);
    if (bytes) assert_memory_equal(file.data, data, bytes);
    assert_false(file.mapped);
    lki_file_close(&file);
}

/* Sizes around nothing and around the first room; data from random to all zero (1000 to 1). */
static void whole_files(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 1000, 65535, 65536, 65537, 900000};
    static const int kinds[] = {256, 4, 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int k = 0; k < 3; k++) {
            uint8_t *data = make_data(sizes[i], kinds[k], i);
            put(pack(0, data, sizes[i], k == 0 ? 1 : 9));
            check_open(data, sizes[i]);
            free(data);
        }
    }
}

static void several_members(void **state)
{
    (void)state;
    enum { BYTES = 300000 };
    uint8_t *data = make_data(BYTES, 3, 8);
    size_t end = pack(0, data, 1000, 6);
    end += pack(end, data + 1000, 0, 6); /* an empty member between */
    end += pack(end, data + 1000, 150000, 1);
    end += pack(end, data + 151000, BYTES - 151000, 9);
    put(end);
    check_open(data, BYTES);
    free(data);
}

/* Less than the two bytes that tell gzip is a plain file. */
static void plain_files(void **state)
{
    (void)state;
    packed[0] = 0x1f;
    packed[1] = 0x8c;
    for (size_t bytes = 0; bytes <= 2; bytes++) {
        put(bytes);
        lki_file file;
        LKT_OK(lki_file_open(&file, NULL, path));
        assert_int_equal(file.bytes, bytes);
        lki_file_close(&file);
    }
}

static void truncated(void **state)
{
    (void)state;
    uint8_t *data = make_data(3000, 5, 1);
    const size_t whole = pack(0, data, 3000, 6);
    for (size_t bytes = 2; bytes < whole; bytes++) {
        lki_file file = {0};
        LKT_FAILS(LKS_E_FORMAT, "ends too early", lki_gzip_inflate(&file, packed, bytes, "x"));
        assert_null(file.data);
        assert_int_equal(file.bytes, 0);
    }
    free(data);
}

/* One bit of the file is wrong: a clear failure, or it is one that changes no data (the time, the
 * system that wrote it, and the like in the first ten bytes, or what fills up the last byte of the
 * compressed data). */
static void flipped_bits(void **state)
{
    (void)state;
    uint8_t *data = make_data(500, 5, 2);
    const size_t bytes = pack(0, data, 500, 6);
    int harmless = 0;
    for (size_t bit = 16; bit < bytes * 8; bit++) { /* the first two bytes make it gzip */
        packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
        lki_file file = {0};
        const lks_status status = lki_gzip_inflate(&file, packed, bytes, "images.idx");
        if (status == LKS_OK) {
            harmless++;
            assert_int_equal(file.bytes, 500);
            assert_memory_equal(file.data, data, 500);
        } else {
            assert_int_equal(status, LKS_E_FORMAT);
            assert_non_null(strstr(lks_last_error()->message, "images.idx"));
            assert_non_null(strstr(lks_last_error()->message, "get"));
        }
        lki_file_close(&file);
        packed[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(harmless < 64 + 8);
    free(data);
}

static void trailing_bytes(void **state)
{
    (void)state;
    uint8_t *data = make_data(500, 5, 3);
    const size_t bytes = pack(0, data, 500, 6);
    for (size_t extra = 1; extra < 40; extra++) {
        memset(packed + bytes, extra % 2 ? 0 : 'x', extra);
        put(bytes + extra);
        lki_file file;
        char sentence[64];
        snprintf(sentence, sizeof sentence, "%zu byte%s the end of the gzip data, expected none",
                 extra, extra == 1 ? " follows" : "s follow");
        LKT_FAILS(LKS_E_FORMAT, sentence, lki_file_open(&file, NULL, path));
        assert_null(file.data);
    }
    free(data);
}

static lks_status open_counted(lkt_heap *heap, lki_file *file)
{
    lks_context context = {.opts = {.allocator = lkt_heap_allocator(heap)}};
    assert_int_equal(pthread_mutex_init(&context.lock, NULL), 0);
    const lks_status status = lki_file_open(file, &context, path);
    lki_file_close(file);
    pthread_mutex_destroy(&context.lock);
    assert_int_equal(heap->live, 0);
    assert_int_equal(heap->errors, 0);
    return status;
}

/* A size at the end that is a lie is found, and never believed beyond 16 times the file: zlib's
 * own 50 kB, the room, and its first 64 kB. */
static void claims(void **state)
{
    (void)state;
    static const uint32_t lies[] = {0, 1, 499, 501, 8000, 1 << 20, 0x7fffffff, 0xffffffff};
    uint8_t *data = make_data(500, 256, 4);
    const size_t bytes = pack(0, data, 500, 6);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        for (int k = 0; k < 4; k++) packed[bytes - 4 + (size_t)k] = (uint8_t)(lies[i] >> 8 * k);
        put(bytes);
        lkt_heap heap = {0};
        lki_file file;
        LKT_FAILS(LKS_E_FORMAT, "incorrect length check", open_counted(&heap, &file));
        assert_true(heap.most_bytes < 50000 + 65536 + 16 * bytes);
    }
    free(data);
}

/* Data that is larger than the first guess grows in few steps and ends in the right size. */
static void grows(void **state)
{
    (void)state;
    enum { BYTES = 20 << 20 };
    uint8_t *data = calloc(BYTES, 1);
    assert_non_null(data);
    put(pack(0, data, BYTES, 9));
    lkt_heap heap = {0};
    lki_file file;
    LKT_OK(open_counted(&heap, &file));
    assert_true(heap.allocations < 20);
    check_open(data, BYTES);
    free(data);
}

static void no_memory(void **state)
{
    (void)state;
    uint8_t *data = make_data(200000, 1, 5);
    put(pack(0, data, 200000, 9));
    lki_file file;
    int64_t n = 1;
    for (;; n++) {
        lkt_heap heap = {.fail_at = n};
        const lks_status status = open_counted(&heap, &file);
        if (heap.allocations < n) {
            assert_int_equal(status, LKS_OK);
            break;
        }
        LKT_FAILS(LKS_E_NOMEM, "no memory for", status);
        assert_null(file.data);
    }
    assert_true(n > 4);
    free(data);
}

static void real_files(void **state)
{
    (void)state;
    const char *folder = lkt_data_folder();
    if (!folder) skip();
    static const struct {
        const char *name;
        size_t bytes;
    } files[] = {{"mnist/train-images-idx3-ubyte.gz", 16 + 60000 * 784},
                 {"mnist/t10k-labels-idx1-ubyte.gz", 8 + 10000}};
    for (int i = 0; i < 2; i++) {
        char name[4300];
        snprintf(name, sizeof name, "%s/%s", folder, files[i].name);
        lki_file file;
        LKT_OK(lki_file_open(&file, NULL, name));
        assert_int_equal(file.bytes, files[i].bytes);
        assert_int_equal(file.data[2], 8); /* unsigned bytes */
        lki_file_close(&file);
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(whole_files),  IN_FOLDER(several_members),
        IN_FOLDER(plain_files),  IN_FOLDER(truncated),
        IN_FOLDER(flipped_bits), IN_FOLDER(trailing_bytes),
        IN_FOLDER(claims),       IN_FOLDER(grows),
        IN_FOLDER(no_memory),    cmocka_unit_test(real_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
