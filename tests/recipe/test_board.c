/* What a run leaves for TensorBoard and spreadsheets: read back by a reader of the test's own, and by
 * TensorBoard where it is installed ($LKT_PYTHON, else python3, has the package "tensorboard"). */
#include "recipe/recipes.h"

#include <math.h>
#include <sys/syscall.h>

#include <lockstep/tools.h>

#include "recipe/board/events.h"
#include "recipe/board/record.h"
#include "recipe/events.h"

#if defined(LKT_HAVE_PNG)
#include <png.h>
#endif
#include "support/ranks/fake.h"

static const char NETWORK[] = "data: {name: digits, samples: 300, test_samples: 100}\n"
                              "model:\n"
                              "  layers:\n"
                              "    - flatten\n"
                              "    - dense: {units: 12}\n"
                              "    - relu\n"
                              "    - dropout: 0.3\n"
                              "    - dense: 10\n"
                              "train: {epochs: 2, batch_size: 30, hash_every: 4, replicas: 6, "
                              "device: ref}\n"
                              "optimizer: {name: adam, lr: 0.002}\n"
                              "validation: {samples: 60}\n"
                              "log: {interval: 3, quiet: true}\n";
enum { STEPS = 16, EPOCHS = 2, BATCHES = 8 };

#if defined(LKT_HAVE_PNG)
static const char PICTURES[] = "log.images=2";
#else
static const char *const PICTURES = NULL;
#endif

/* ---------------------------------------------------------------- runs */

static lks_recipe *opened(const char *a, const char *b)
{
    lks_recipe *recipe;
    LKT_OK(lks_recipe_open_text(&recipe, "net.yaml", NETWORK));
    set_path(recipe, "log.tensorboard", "board");
    if (a != NULL) LKT_OK(lks_recipe_set(recipe, a));
    if (b != NULL) LKT_OK(lks_recipe_set(recipe, b));
    return recipe;
}

static void assert_epochs(const lks_run *run)
{
    for (int e = 0; e < EPOCHS; e++) {
        const lks_epoch *epoch = &run->history[e];
        assert_true(curve("loss/train", e + 1) == (double)(float)lks_metrics_loss(&epoch->train));
        assert_true(curve("loss/valid", e + 1) == (double)(float)lks_metrics_loss(&epoch->valid));
        assert_true(curve("loss/test", e + 1) == (double)(float)lks_metrics_loss(&epoch->test));
        assert_true(curve("acc1/valid", e + 1) ==
                    (double)(float)((double)epoch->valid.correct / 60));
        assert_true(curve("acc5/train", e + 1) ==
                    (double)(float)((double)epoch->train.top5 / (double)epoch->train.samples));
        assert_true(curve("acc5/valid", e + 1) == (double)(float)((double)epoch->valid.top5 / 60));
        assert_true(curve("acc5/test", e + 1) == (double)(float)((double)epoch->test.top5 / 100));
        assert_true(epoch->valid.top5 > epoch->valid.correct);
        assert_true(curve("learning_rate", e + 1) == (double)0.002f);
        assert_true(curve("samples_per_second", e + 1) > 0);
    }
    assert_int_equal(values_of("loss/train"), EPOCHS);
    /* Every third step, and the last of each epoch. */
    static const int steps[] = {3, 6, 8, 9, 12, 15, 16};
    for (int i = 0; i < 7; i++) {
        assert_true(isfinite(curve("loss/step", steps[i])));
        assert_true(curve("acc5/step", steps[i]) >= curve("acc1/step", steps[i]));
        assert_true(curve("samples_per_second/step", steps[i]) > 0);
    }
    assert_int_equal(values_of("loss/step"), 7);
}

static void has_the_numbers_of_the_run(void **state)
{
    const lks_run *run;
    lks_recipe *recipe = opened("log.histograms=2", NULL), *plain;
    (void)state;
    LKT_OK(lks_recipe_train(recipe, NULL, &run));
    read_events("board");
    assert_int_equal(file_count, 1);
    assert_epochs(run);
    assert_int_equal(values_of("parameters/dense_1.weight"), 1); /* of the second epoch */
    assert_true(curve("parameters/dense_1.weight", 2) == 12 * 784);
    assert_true(curve("gradients/dense_1.weight", 2) == 12 * 784);
    assert_true(curve("gradients/dense_2.bias", 2) == 10);
    LKT_OK(lks_recipe_open_text(&plain, "net.yaml", NETWORK));
    const uint64_t hash = run->hash;
    LKT_OK(lks_recipe_train(plain, NULL, &run));
    assert_int_equal(run->hash, hash); /* that it is watched changes no bit */
    lks_recipe_close(plain);
    lks_recipe_close(recipe);
}

static void curves_as_lightning_names_them(void **state)
{
    const lks_run *run;
    lks_recipe *recipe = opened("log.curves=lightning", "optimizer.clip_norm=1");
    (void)state;
    LKT_OK(lks_recipe_train(recipe, NULL, &run));
    read_events("board");
    for (int e = 0; e < EPOCHS; e++) {
        const int64_t step = (e + 1) * BATCHES;
        assert_true(curve("val_loss", step) ==
                    (double)(float)lks_metrics_loss(&run->history[e].valid));
        assert_true(curve("train_loss_epoch", step) ==
                    (double)(float)lks_metrics_loss(&run->history[e].train));
        assert_true(curve("val_acc5", step) ==
                    (double)(float)((double)run->history[e].valid.top5 / 60));
        assert_true(curve("epoch", step) == e + 1);
        assert_true(curve("grad_norm", step) > 0);
    }
    lks_recipe_close(recipe);
}

static void tensorboard_reads_the_same(void **state)
{
    static char text[OUTPUT_SIZE], own[OUTPUT_SIZE];
    const char *python = getenv("LKT_PYTHON");
    lks_recipe *recipe = opened("log.histograms=1", PICTURES);
    (void)state;
    LKT_OK(lks_recipe_train(recipe, NULL, NULL));
    lks_recipe_close(recipe);
    const int code = shell("'%s' '%s' board >lines.txt 2>err.txt", python ? python : "python3",
                           source("tests/recipe/read_events.py"));
    if (code == 77) {
        print_message("skipped: python3 has no package 'tensorboard' (or set LKT_PYTHON)\n");
        skip();
    }
    read_text(text, "err.txt");
    if (code != 0) fail_msg("%s", text);
    read_events("board");
    size_t used = 0;
    for (int i = 0; i < line_count; i++)
        used += (size_t)snprintf(own + used, sizeof own - used, "%s\n", lines[i]);
    assert_true(line_count > 40);
    read_text(text, "lines.txt");
    assert_string_equal(text, own);
}

#if defined(LKT_HAVE_PNG)
/* What the loader gives the network in each epoch, and another picture in the next. */
static void samples_are_shown_as_the_network_saw_them(void **state)
{
    static uint8_t pixels[2][28 * 28];
    lks_recipe *recipe = opened("log.images=1", "data.augment=[{translate: 4}]");
    (void)state;
    LKT_OK(lks_recipe_train(recipe, NULL, NULL));
    read_events("board");
    assert_int_equal(values_of("samples/0"), EPOCHS);
    assert_int_equal(values_of("samples/1"), 0);
    const lks_recipe_parts parts = lks_recipe_get_parts(recipe);
    lks_loader_opts opts = {.global_batch = 1, .in_order = true, .threads = -1};
    lks_loader *loader;
    lks_batch batch;
    LKT_OK(lks_recipe_augment(recipe, &opts));
    LKT_OK(lks_loader_create(&loader, parts.context, parts.train, &opts));
    for (int e = 0; e < EPOCHS; e++) {
        LKT_OK(lks_loader_seek(loader, e * lks_loader_batches(loader)));
        LKT_OK(lks_loader_next(loader, &batch));
        memcpy(pixels[e], batch.x, sizeof pixels[e]);
    }
    lks_loader_destroy(loader);
    lks_recipe_close(recipe);
    png_image file = {.version = PNG_IMAGE_VERSION};
    uint8_t found[28 * 28];
    assert_true(png_image_begin_read_from_memory(&file, image, image_bytes) != 0);
    assert_true(file.width == 28 && file.height == 28);
    file.format = PNG_FORMAT_GRAY;
    assert_true(png_image_finish_read(&file, NULL, found, 0, NULL) != 0);
    assert_memory_equal(found, pixels[EPOCHS - 1], sizeof found); /* events come in order */
    assert_true(memcmp(pixels[0], pixels[1], sizeof pixels[0]) != 0);
}
#else
static void samples_are_shown_as_the_network_saw_them(void **state)
{
    lks_recipe *recipe = opened("log.images=1", NULL);
    (void)state;
    LKT_FAILS(LKS_E_INVALID, "log.images is set, but this program was built without libpng",
              lks_recipe_train(recipe, NULL, NULL));
    lks_recipe_close(recipe);
}
#endif

/* Killed behind its last checkpoint: what was shown of later steps is there once, as it was. */
static void a_resumed_run_has_every_step_once(void **state)
{
    static char before[MOST_LINES][LINE];
    const lks_run *run;
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        lks_recipe *recipe = opened("checkpoint.every_steps=5", "checkpoint.keep=20");
        set_path(recipe, "checkpoint.path", "run");
        LKT_OK(lks_recipe_set(recipe, "checkpoint.resume=true"));
        LKT_OK(lks_recipe_train(recipe, NULL, &run));
        read_events("board");
        assert_epochs(run);
        assert_int_equal(file_count, turn + 1);
        if (turn == 0) {
            memcpy(before, lines, sizeof before);
            assert_int_equal(shell("rm run/step-00000015.* run/step-00000016.* && for f in "
                                   "board/*; do printf x >> $f; done"),
                             0);
        }
        for (int i = 0; i < line_count; i++)
            if (strstr(lines[i], "per_second") == NULL) assert_string_equal(lines[i], before[i]);
        lks_recipe_close(recipe);
    }
}

/* A file that is cut off anywhere has whole records, and those of other programs are left alone. */
static void any_part_of_a_file_is_whole_records(void **state)
{
    static uint8_t data[1 << 16];
    static size_t ends[100];
    lki_events *events;
    int count = 0;
    (void)state;
    LKT_OK(lki_events_open(&events, folder, 0));
    for (int step = 1; step <= 5; step++) {
        lki_events_begin(events, step);
        lki_events_scalar(events, "loss", step);
        LKT_OK(lki_events_end(events));
    }
    lki_events_close(events);
    assert_int_equal(shell("cat events* > all"), 0);
    FILE *file = fopen(in_folder("all"), "rb");
    const size_t bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    for (size_t at = 0; at < bytes; at = ends[count++])
        ends[count] = at + 16 + number_of(data + at, 8);
    assert_int_equal(count, 7);
    for (size_t cut = 0, whole = 0, records = 0; cut <= bytes; cut++) {
        if (cut == ends[records]) whole = ends[records++];
        assert_int_equal(lki_events_keep(data, cut, 5), whole);
    }
    for (int step = 0; step <= 5; step++) /* records: version, start (of step 1), 1, 2, ... */
        assert_int_equal(lki_events_keep(data, bytes, step), ends[step == 0 ? 0 : step + 1]);
    for (size_t i = 0; i < bytes; i++) { /* a byte that has changed ends it there */
        data[i] ^= 4;
        size_t expected = 0;
        for (int r = 0; ends[r] <= i; r++) expected = ends[r];
        assert_int_equal(lki_events_keep(data, bytes, 5), expected);
        data[i] ^= 4;
    }
    write_text("events.out.tfevents.1.other", "not ours");
    write_text("events.out.tfevents.1.other.lockstep", "not ours either");
    LKT_OK(lki_events_cut(folder, 2));
    assert_int_equal(shell("grep -q 'not ours' events.out.tfevents.1.other && "
                           "grep -q either events.out.tfevents.1.other.lockstep"),
                     0);
}

/* RFC 3720 has this one. */
static void checksum_is_the_published_one(void **state)
{
    uint8_t ascending[32];
    (void)state;
    for (int i = 0; i < 32; i++) ascending[i] = (uint8_t)i;
    const uint32_t crc = 0x46dd794e;
    assert_int_equal(lki_record_sum(ascending, 32), (crc >> 15 | crc << 17) + 0xa282ead8u);
    assert_int_equal(checksum(ascending, 32), lki_record_sum(ascending, 32));
}

static int full_disk(void *user)
{
    lks_recipe *recipe;
    const lks_run *run;
    (void)user;
    LKT_CHECK(lks_recipe_open_text(&recipe, "net.yaml", NETWORK) == LKS_OK);
    char key[4200];
    snprintf(key, sizeof key, "log.tensorboard=%s", in_folder("board"));
    LKT_CHECK(lks_recipe_set(recipe, key) == LKS_OK);
    LKT_CHECK(lks_recipe_start(recipe) == LKS_OK);
    if (!lkt_refuse(SYS_write, 28 /* ENOSPC */)) return 77;
    LKT_CHECK(lks_recipe_train(recipe, NULL, &run) == LKS_OK);
    LKT_CHECK(run->progress.step == STEPS);
    lks_recipe_close(recipe);
    return 0;
}

static void a_full_disk_does_not_end_the_run(void **state)
{
    (void)state;
    const int code = lkt_in_child(full_disk, NULL);
    if (code == 77) skip();
    assert_int_equal(code, 0);
}

typedef struct rank_run {
    uint64_t hash[2];
    lks_rates rates[2];
} rank_run;

static int rank_body(lks_comm *comm, int rank, void *user)
{
    rank_run *r = user;
    char key[4200];
    lks_recipe *recipe;
    const lks_run *run = NULL;
    if (comm == NULL) return 1;
    lks_status status = lks_recipe_open_text(&recipe, "net.yaml", NETWORK);
    snprintf(key, sizeof key, "log.tensorboard=%s/board", folder);
    if (status == LKS_OK) status = lks_recipe_set(recipe, key);
    if (status == LKS_OK) status = lks_recipe_set(recipe, "log.histograms=1");
    lks_recipe_comm(recipe, comm);
    if (status == LKS_OK) status = lks_recipe_train(recipe, NULL, &run);
    if (run != NULL) r->hash[rank] = run->hash;
    if (run != NULL) r->rates[rank] = run->history[EPOCHS - 1].test_rates;
    lks_recipe_close(recipe);
    return status != LKS_OK;
}

/* One of them writes, and histograms of gradients are those of the whole batch. */
static void ranks_have_one_file(void **state)
{
    static char one[MOST_LINES][LINE];
    rank_run r = {.hash = {0}};
    const lks_run *run;
    lks_recipe *recipe = opened("log.histograms=1", NULL);
    (void)state;
    LKT_OK(lks_recipe_train(recipe, NULL, &run));
    read_events("board");
    memcpy(one, lines, sizeof one);
    assert_int_equal(shell("rm -r board"), 0);
    lkt_ranks(&(lkt_hub_opts){.size = 2, .seed = 3, .delay = 2}, NULL, rank_body, &r);
    assert_int_equal(r.hash[0], run->hash);
    assert_int_equal(r.hash[1], run->hash);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(&r.rates[i], &run->history[EPOCHS - 1].test_rates, sizeof r.rates[i]);
    assert_true(run->history[EPOCHS - 1].test_rates.f1 > 0);
    read_events("board");
    assert_int_equal(file_count, 1);
    for (int i = 0; i < line_count; i++)
        if (strstr(lines[i], "per_second") == NULL) assert_string_equal(lines[i], one[i]);
    lks_recipe_close(recipe);
}

static void what_cannot_be(void **state)
{
    lks_recipe *recipe = opened("log.tensorboard=true", NULL);
    (void)state;
    LKT_FAILS(LKS_E_INVALID, "log.tensorboard is true, which is a folder beside the checkpoints",
              lks_recipe_train(recipe, NULL, NULL));
    lks_recipe_close(recipe);
    write_text("file", "");
    recipe = opened(NULL, NULL);
    set_path(recipe, "log.tensorboard", "file");
    LKT_FAILS(LKS_E_IO, "a part of the path is not a folder", lks_recipe_train(recipe, NULL, NULL));
    lks_recipe_close(recipe);
    recipe = opened("log.tensorboard=false", "log.csv=/dev/null");
    LKT_FAILS(LKS_E_INVALID, "log.csv is /dev/null, which cannot be replaced after every epoch",
              lks_recipe_train(recipe, NULL, NULL));
    lks_recipe_close(recipe);
    recipe = opened("train.dry_run=true", NULL);
    LKT_OK(lks_recipe_train(recipe, NULL, NULL));
    lks_recipe_close(recipe);
    assert_false(there("board"));
}

static void a_table_for_spreadsheets(void **state)
{
    static char text[OUTPUT_SIZE];
    const lks_run *run;
    (void)state;
    for (int turn = 1; turn <= EPOCHS; turn++) { /* a resumed run has all of its epochs */
        char epochs[40];
        snprintf(epochs, sizeof epochs, "train.epochs=%d", turn);
        lks_recipe *recipe = opened("checkpoint.resume=true", epochs);
        set_path(recipe, "checkpoint.path", "run");
        set_path(recipe, "log.csv", "log.csv");
        LKT_OK(lks_recipe_train(recipe, NULL, &run));
        read_text(text, "log.csv");
        char *line = text;
        for (int e = 0; e < turn; e++) {
            double cell[14];
            line = strchr(line, '\n') + 1;
            char *at = line;
            for (int i = 0; i < 14; i++, at++) cell[i] = strtod(at, &at);
            assert_true(at[-1] == '\n' && cell[0] == e + 1 && cell[1] == (e + 1) * BATCHES);
            const double loss = lks_metrics_loss(&run->history[e].valid);
            assert_true(fabs(cell[5] - loss) <= 1e-8 * loss); /* it has nine digits */
            assert_true(fabs(cell[6] - (double)run->history[e].valid.correct / 60) < 1e-9);
            assert_true(fabs(cell[7] - (double)run->history[e].valid.top5 / 60) < 1e-9);
            assert_true(cell[11] == 0.002);
        }
        assert_null(strchr(strchr(line, '\n') + 1, '\n'));
        lks_recipe_close(recipe);
    }
    static const char titles[] =
        "epoch,step,train_loss,train_accuracy,train_top5_accuracy,valid_loss,valid_accuracy,"
        "valid_top5_accuracy,test_loss,test_accuracy,test_top5_accuracy,lr,seconds,"
        "samples_per_second\n";
    assert_int_equal(strncmp(text, titles, sizeof titles - 1), 0);
}

static void any_sample_is_among_five_of_five_classes(void **state)
{
    static char text[OUTPUT_SIZE];
    lks_recipe *recipe;
    (void)state;
    LKT_OK(lks_recipe_open_text(&recipe, "five.yaml",
                                "data: {name: dummy, samples: 40, test_samples: 10, classes: 5, "
                                "shape: [4, 4, 1]}\n"
                                "model: {layers: [flatten, {dense: 5}]}\n"
                                "train: {batch_size: 20, epochs: 1, device: ref}\n"
                                "optimizer: {lr: 0.1}\n"
                                "log: {quiet: true}\n"));
    set_path(recipe, "log.tensorboard", "board");
    set_path(recipe, "log.csv", "log.csv");
    LKT_OK(lks_recipe_train(recipe, NULL, NULL));
    lks_recipe_close(recipe);
    read_events("board");
    assert_int_equal(values_of("acc1/test"), 1);
    assert_int_equal(values_of("acc5/test"), 0);
    read_text(text, "log.csv");
    assert_null(strstr(text, "top5"));
    assert_non_null(strstr(text, "1,2,"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(has_the_numbers_of_the_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(curves_as_lightning_names_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tensorboard_reads_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(samples_are_shown_as_the_network_saw_them, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_resumed_run_has_every_step_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_part_of_a_file_is_whole_records, set_up, tear_down),
        cmocka_unit_test(checksum_is_the_published_one),
        cmocka_unit_test_setup_teardown(a_full_disk_does_not_end_the_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranks_have_one_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_table_for_spreadsheets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_sample_is_among_five_of_five_classes, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
