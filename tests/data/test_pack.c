/* Packing pictures into a file, and the file as a data set. */
#include "pictures/packing.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "data/pictures/packed.h"

static void expect_same(const char *a, const char *b)
{
    size_t counts[2];
    char path[2][4096];
    snprintf(path[0], sizeof path[0], "%s/%s/" LKI_PACKED_FILE, folder, a);
    snprintf(path[1], sizeof path[1], "%s/%s/" LKI_PACKED_FILE, folder, b);
    uint8_t *first = read_bytes(path[0], &counts[0]), *second = read_bytes(path[1], &counts[1]);
    assert_int_equal(counts[0], counts[1]);
    assert_memory_equal(first, second, counts[0]);
    free(first);
    free(second);
}

static void a_packed_file_is_a_data_set(void **state)
{
    (void)state;
    lks_pack_result result;
    lks_dataset *set;
    make_class_folders("p", EACH);
    write_bytes(in_folder("p/ape/notes.txt"), "x", 1);
    LKT_OK(pack(&result, "p", "o", (lks_pack_opts){.height = 5, .width = 7}));
    assert_int_equal(result.samples[0], CLASSES * EACH);
    assert_int_equal(result.samples[1], 0);
    assert_int_equal(result.others, 1);
    assert_true(lks_dataset_folder_has(in_folder("o"), false));
    assert_false(lks_dataset_folder_has(in_folder("o"), true));
    LKT_OK(lks_dataset_open_folder(&set, context, in_folder("o"), false, 0));
    const lks_dataset_info info = lks_dataset_get_info(set);
    assert_int_equal(info.samples, CLASSES * EACH);
    assert_int_equal(info.classes, CLASSES);
    assert_true(lks_shape_equal(&info.shape, &LKS_SHAPE(5, 7, 3)));
    for (int c = 0; c < CLASSES; c++)
        assert_string_equal(lks_dataset_class(set, c), class_names[c]);
    assert_null(lks_dataset_class(set, CLASSES));
    assert_null(lks_dataset_class(set, -1));
    for (int i = 0; i < CLASSES * EACH; i++) {
        uint8_t found[5 * 7 * 3], expected[5 * 7 * 3];
        char path[100];
        int32_t label;
        LKT_OK(lks_dataset_read(set, i, found, &label));
        assert_int_equal(label, i / EACH);
        snprintf(path, sizeof path, "p/%s/%02d.png", class_names[i / EACH], i % EACH);
        LKT_OK(decode(expected, in_folder(path), 5, 7));
        assert_memory_equal(found, expected, sizeof found);
    }
    lks_dataset_destroy(set);
    /* A network may have more outputs than there are classes, not fewer. */
    LKT_OK(lks_dataset_open_folder(&set, context, in_folder("o"), false, 1000));
    assert_int_equal(lks_dataset_get_info(set).classes, 1000);
    assert_null(lks_dataset_class(set, CLASSES));
    lks_dataset_destroy(set);
    LKT_FAILS(LKS_E_INVALID, "has 3 classes, but 2",
              lks_dataset_open_folder(&set, context, in_folder("o"), false, 2));
}

static bool stop_at_once(void *user, int64_t done, int64_t all)
{
    (void)user, (void)done, (void)all;
    return false;
}

static void threads_change_no_byte(void **state)
{
    (void)state;
    lks_pack_result result;
    make_class_folders("p", EACH);
    const lks_pack_opts opts = {.split = 0.25, .seed = 3, .threads = 1};
    LKT_OK(pack(&result, "p", "one", opts));
    assert_int_equal(result.samples[0], CLASSES * 9);
    assert_int_equal(result.samples[1], CLASSES * 3);
    for (int threads = 2; threads <= 8; threads += 3) {
        char name[16];
        snprintf(name, sizeof name, "many%d", threads);
        lks_pack_opts many = opts;
        many.threads = threads;
        LKT_OK(pack(&result, "p", name, many));
        expect_same("one", name);
    }
    /* Another seed draws others, as many of each class. */
    lks_dataset *a, *b;
    uint64_t hash[2];
    lks_pack_opts other = opts;
    other.seed = 4;
    LKT_OK(pack(&result, "p", "other", other));
    LKT_OK(lks_dataset_open_folder(&a, context, in_folder("one"), true, 0));
    LKT_OK(lks_dataset_open_folder(&b, context, in_folder("other"), true, 0));
    LKT_OK(lks_dataset_hash(a, &hash[0]));
    LKT_OK(lks_dataset_hash(b, &hash[1]));
    assert_true(hash[0] != hash[1]);
    for (int i = 0; i < CLASSES * 3; i++) {
        uint8_t x[SIZE * SIZE * 3];
        int32_t label;
        LKT_OK(lks_dataset_read(b, i, x, &label));
        assert_int_equal(label, i / 3);
    }
    lks_dataset_destroy(a);
    lks_dataset_destroy(b);
    LKT_FAILS(LKS_E_IO, "is there already", pack(&result, "p", "one", opts));
}

/* The .part of an unfinished packing, as it is found. */
static char part_path[4096];

static int64_t count_done(int64_t *slots, bool damage)
{
    size_t count;
    lki_packed_head head;
    lki_packed_places at;
    uint8_t *bytes = read_bytes(part_path, &count);
    memcpy(&head, bytes, sizeof head);
    assert_true(lki_packed_place(&at, &head));
    assert_int_equal(at.end, count);
    *slots = at.count;
    int64_t done = 0;
    for (int64_t i = 0; i < at.count; i++) {
        uint64_t check;
        memcpy(&check, bytes + at.checks + 8 * i, sizeof check);
        done += check != 0;
        if (damage && check != 0) {
            bytes[at.slots + (size_t)i * at.slot_bytes + 5] ^= 1;
            damage = false;
        }
    }
    write_bytes(part_path, bytes, count);
    free(bytes);
    return done;
}

/* Bad pictures leave a .part in which all others are. */
static void a_part_is_gone_on_with(void **state)
{
    (void)state;
    lks_pack_result result;
    int64_t slots;
    char path[100];
    make_class_folders("p", EACH);
    LKT_OK(pack(&result, "p", "whole", (lks_pack_opts){.threads = 1}));
    write_bytes(in_folder("p/10/05.png"), "GIF", 3);
    LKT_FAILS(LKS_E_FORMAT, "1 of 36 pictures cannot be read",
              pack(&result, "p", "o", (lks_pack_opts){.threads = 2}));
    snprintf(part_path, sizeof part_path, "%s/o/" LKI_PACKED_FILE ".part", folder);
    assert_int_equal(count_done(&slots, true), 35);
    assert_false(lks_dataset_folder_has(in_folder("o"), false));
    LKT_OK(pack(&result, "p", "o", (lks_pack_opts){.skip_bad = true}));
    assert_int_equal(result.kept, 34); /* one slot was damaged, and is made anew */
    assert_int_equal(result.bad, 1);
    assert_int_equal(result.samples[0], 35);
    assert_int_equal(access(part_path, F_OK), -1);
    LKT_OK(pack(&result, "p", "fresh", (lks_pack_opts){.skip_bad = true, .threads = 3}));
    assert_int_equal(result.kept, 0);
    expect_same("o", "fresh");
    /* What was begun with other pictures or sizes is begun anew. */
    LKT_FAILS(LKS_E_FORMAT, "1 of 36", pack(&result, "p", "n", (lks_pack_opts){.threads = 1}));
    lkt_write_sample(in_folder("p/10/05.png"), 1, 5, 9 + 5, 20 - 5);
    LKT_OK(pack(&result, "p", "n", (lks_pack_opts){.threads = 1}));
    assert_int_equal(result.kept, 0);
    expect_same("n", "whole");
    for (int i = 0; i < EACH; i++) { /* that take long enough to be stopped */
        snprintf(path, sizeof path, "p/2/%02d.png", i);
        lkt_write_sample(in_folder(path), 0, i, 400, 400);
    }
    LKT_OK(pack(&result, "p", "larger", (lks_pack_opts){.threads = 2}));
    LKT_FAILS(LKS_E_STOPPED, "the same command goes on",
              pack(&result, "p", "s", (lks_pack_opts){.threads = 1, .progress = stop_at_once}));
    LKT_OK(pack(&result, "p", "s", (lks_pack_opts){.threads = 1}));
    assert_true(result.kept < CLASSES * EACH);
    expect_same("s", "larger");
}

static void one_packs_at_a_time(void **state)
{
    (void)state;
    lks_pack_result result;
    make_class_folders("p", 1);
    mkdir(in_folder("o"), 0777);
    snprintf(part_path, sizeof part_path, "%s/o/" LKI_PACKED_FILE ".part", folder);
    const int other = open(part_path, O_RDWR | O_CREAT, 0666);
    assert_int_equal(flock(other, LOCK_EX), 0);
    LKT_FAILS(LKS_E_IO, "another process that packs", pack(&result, "p", "o", (lks_pack_opts){0}));
    close(other);
    LKT_OK(pack(&result, "p", "o", (lks_pack_opts){0}));
}

/* Whichever allocation fails: nothing is finished, nothing is kept, and the next call goes on. */
static void no_memory_is_told(void **state)
{
    (void)state;
    lks_pack_result result;
    make_class_folders("p", 2);
    LKT_OK(pack(&result, "p", "whole", (lks_pack_opts){0}));
    for (int64_t n = 1;; n++) {
        lkt_heap heap = {0};
        lks_context *own;
        const lks_allocator allocator = lkt_heap_allocator(&heap);
        LKT_OK(lks_context_create(&own, &(lks_context_opts){.allocator = allocator}));
        const int64_t live = heap.live;
        heap.fail_at = heap.allocations + n;
        const lks_pack_opts opts = {
            .out = in_folder("o"), .height = SIZE, .width = SIZE, .threads = 2};
        const lks_status status = lks_pack_pictures(&result, own, in_folder("p"), &opts);
        if (status != LKS_OK) LKT_FAILS(LKS_E_NOMEM, "", status);
        assert_int_equal(heap.live, live);
        assert_int_equal(heap.errors, 0);
        lks_context_destroy(own);
        if (status == LKS_OK) {
            assert_in_range(n, 10, 100);
            break;
        }
        assert_false(lks_dataset_folder_has(in_folder("o"), false));
    }
    expect_same("o", "whole");
}

/* Any byte of what comes before the slots, and any of a slot. */
static void a_damaged_file_is_refused(void **state)
{
    (void)state;
    lks_pack_result result;
    lks_dataset *set;
    size_t count;
    uint8_t x[SIZE * SIZE * 3];
    int32_t label;
    make_class_folders("p", 2);
    LKT_OK(pack(&result, "p", "o", (lks_pack_opts){0}));
    const char *path = in_folder("o/" LKI_PACKED_FILE);
    char kept[4096];
    snprintf(kept, sizeof kept, "%s", path);
    uint8_t *bytes = read_bytes(kept, &count);
    lki_packed packed;
    LKT_OK(lki_packed_read(&packed, bytes, count, "a"));
    for (size_t i = 0; i < packed.at.slots; i++) {
        bytes[i] ^= 4;
        lki_packed other;
        if (lki_packed_read(&other, bytes, count, "a") == LKS_OK)
            fail_msg("byte %zu is not looked at", i);
        bytes[i] ^= 4;
    }
    bytes[packed.at.slots + 2 * packed.at.slot_bytes] ^= 1;
    bytes[packed.at.slots + 4 * packed.at.slot_bytes - 1] ^= 1;
    write_bytes(kept, bytes, count);
    LKT_OK(lks_dataset_open_folder(&set, context, in_folder("o"), false, 0));
    LKT_OK(lks_dataset_read(set, 1, x, &label));
    LKT_FAILS(LKS_E_FORMAT, "is damaged in slot 2", lks_dataset_read(set, 2, x, &label));
    LKT_FAILS(LKS_E_FORMAT, "is damaged in slot 3", lks_dataset_read(set, 3, x, &label));
    lks_dataset_destroy(set);
    write_bytes(kept, bytes, count - 1);
    LKT_FAILS(LKS_E_FORMAT, "damaged or cut off",
              lks_dataset_open_folder(&set, context, in_folder("o"), false, 0));
    write_bytes(kept, bytes, 10);
    LKT_FAILS(LKS_E_FORMAT, "too short",
              lks_dataset_open_folder(&set, context, in_folder("o"), false, 0));
    free(bytes);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_packed_file_is_a_data_set), TEST(threads_change_no_byte),
        TEST(a_part_is_gone_on_with),      TEST(one_packs_at_a_time),
        TEST(no_memory_is_told),           TEST(a_damaged_file_is_refused),
    };
    return cmocka_run_group_tests_name("data/pack", tests, NULL, NULL);
}
