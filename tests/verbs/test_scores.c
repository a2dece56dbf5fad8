/* eval --metrics and --worst, and info --filters: counts against what predict says of each sample, by the
 * definitions; one sheet of any number of processes; pictures against the weights. */
#include "cli/program.h"

#include <math.h>

#include <lockstep/recipe.h>

#include "cli/report/scores.h"
#include "support/ranks/fake.h"

#if defined(LKT_HAVE_PNG)
#include "verbs/picture.h"
#endif

static const char net[] =
    "data: {name: digits, samples: 600, test_samples: 237, mean: 0.13, classes: 12}\n"
    "model:\n"
    "  name: net\n"
    "  layers:\n"
    "    - conv2d: {filters: 4, kernel: 3}\n"
    "    - relu\n"
    "    - max_pool: 4\n"
    "    - flatten\n"
    "    - dense: 12\n"
    "train: {epochs: 2, batch_size: 50, replicas: 4, seed: 3, test_batch_size: 64}\n"
    "optimizer: {name: adam, lr: 0.01}\n";
enum { CLASSES = 12, SAMPLES = 237, TOP = 5 }; /* of digits two classes are never there */

static void trained(void)
{
    write_text("c.yaml", net);
    run("train c.yaml --out run --quiet --record r.json");
    expect_ok();
}

/* ---------------------------------------------------------------- by the definitions */

static int64_t confusion[CLASSES][CLASSES], top5;

/* How many outputs stand before that of the label when they are sorted, equal ones as they came. */
static int place_of(const double *output, int label)
{
    int place = 0;
    for (int c = 0; c < CLASSES; c++)
        place += output[c] > output[label] || (output[c] == output[label] && c < label);
    return place;
}

static void count_predictions(void)
{
    run("predict c.yaml --out run --format json --outputs");
    expect_ok();
    memset(confusion, 0, sizeof confusion);
    top5 = 0;
    int samples = 0;
    for (const char *at = last.out; *at != '\0'; at = strchr(at, '\n') + 1) {
        double output[CLASSES];
        json_t *json = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        json_t *outputs = json_object_get(json, "outputs");
        if (json_array_size(outputs) != CLASSES) continue;
        const int label = (int)json_integer_value(json_object_get(json, "label"));
        const int class = (int)json_integer_value(json_object_get(json, "class"));
        for (size_t c = 0; c < CLASSES; c++)
            output[c] = json_number_value(json_array_get(outputs, c));
        confusion[label][class]++;
        top5 += place_of(output, label) < TOP;
        samples++;
        json_decref(json);
    }
    assert_int_equal(samples, SAMPLES);
}

static double number_in(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    if (!json_is_number(value)) fail_msg("no %s in:\n%s", key, last.out);
    return json_number_value(value);
}

static void counts_are_those_of_the_definitions(void **state)
{
    double precision = 0, recall = 0, f1 = 0, classes = 0, right = 0;
    char first[80], line[80];
    (void)state;
    trained();
    count_predictions();
    run("eval c.yaml --out run --metrics --format json");
    expect_ok();
    json_t *json = json_loads(last.out, 0, NULL);
    assert_non_null(json);
    const json_t *matrix = json_object_get(json, "test_confusion");
    assert_int_equal(json_array_size(matrix), CLASSES);
    for (size_t c = 0; c < CLASSES; c++) {
        double given = 0, there = 0;
        for (size_t g = 0; g < CLASSES; g++) {
            assert_int_equal(json_integer_value(json_array_get(json_array_get(matrix, c), g)),
                             confusion[c][g]);
            there += (double)confusion[c][g];
            given += (double)confusion[g][c];
        }
        if (there + given == 0) continue;
        const double hit = (double)confusion[c][c];
        const double p = given > 0 ? hit / given : 0, r = there > 0 ? hit / there : 0;
        if (c == 0) snprintf(first, sizeof first, "0       %2.0f     %.4f  %.4f ", there, p, r);
        precision += p;
        recall += r;
        f1 += p + r > 0 ? 2 * p * r / (p + r) : 0;
        right += hit;
        classes++;
    }
    assert_true(classes >= 10);
    assert_int_equal(number_in(json, "test_top5"), top5);
    assert_int_equal(number_in(json, "test_correct"), (int64_t)right);
    assert_true(right > 40 && right < SAMPLES); /* there are both */
    assert_true(fabs(number_in(json, "test_macro_precision") - precision / classes) < 1e-12);
    assert_true(fabs(number_in(json, "test_macro_recall") - recall / classes) < 1e-12);
    assert_true(fabs(number_in(json, "test_macro_f1") - f1 / classes) < 1e-12);
    assert_true(fabs(number_in(json, "test_micro_f1") - right / SAMPLES) < 1e-12);
    /* The loss and the counts are those of the training, though there is one pass for all. */
    json_t *record = read_json_file("r.json");
    const json_t *epoch = json_array_get(json_object_get(record, "epochs"), 1);
    static const char *const same[] = {"test_loss", "test_correct", "test_top5", "test_samples"};
    for (size_t i = 0; i < 4; i++)
        assert_true(number_in(epoch, same[i]) == number_in(json, same[i]));
    assert_true(number_in(epoch, "train_top5") > number_in(epoch, "train_correct"));
    static const char *const rates[] = {"test_macro_precision", "test_macro_recall",
                                        "test_macro_f1", "test_micro_f1"};
    for (size_t i = 0; i < 4; i++)
        assert_true(number_in(epoch, rates[i]) == number_in(json, rates[i]));
    json_decref(record);
    run("report r.json");
    expect_ok();
    char share[32];
    snprintf(share, sizeof share, "%.2f", 100.0 * (double)top5 / SAMPLES);
    expect_out("final top 5 %");
    expect_out(share);
    expect_out("final F1 %");
    snprintf(share, sizeof share, "%.2f", 100 * f1 / classes);
    expect_out(share);
    json_decref(json);
    run("eval c.yaml --out run --metrics");
    expect_ok();
    expect_out("\nTop 5: ");
    expect_out(first);
    expect_out("   11        0          -       -       -");
    snprintf(line, sizeof line, "macro      237     %.4f  %.4f  %.4f", precision / classes,
             recall / classes, f1 / classes);
    expect_out(line);
    expect_out("class \\ given");
}

/* ---------------------------------------------------------------- processes */

enum { MOST_RANKS = 3, WORST = 9 };

typedef struct seen {
    int64_t counts[3 + CLASSES * CLASSES];
    scores_wrong wrong[WORST];
    int count;
} seen;

static lks_status count_all(seen *out, lks_comm *comm)
{
    lks_recipe *recipe;
    scores s = {0};
    lks_metrics sum;
    int64_t step;
    lks_status status = lks_recipe_open_text(&recipe, "c.yaml", net);
    lks_recipe_comm(recipe, comm);
    char key[4200];
    snprintf(key, sizeof key, "checkpoint.path=%s/run", folder);
    if (status == LKS_OK) status = lks_recipe_set(recipe, key);
    if (status == LKS_OK) status = lks_recipe_open_data(recipe, LKS_RECIPE_TEST);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    if (status == LKS_OK) status = lks_recipe_load(recipe, LKS_WHICH_RUN, &step);
    if (status == LKS_OK)
        status = scores_count(&s, &sum, recipe, lks_recipe_get_parts(recipe).test, WORST);
    if (status == LKS_OK) {
        const int64_t head[] = {s.samples, s.correct, s.top5};
        memcpy(out->counts, head, sizeof head);
        memcpy(out->counts + 3, s.of.confusion, sizeof out->counts - sizeof head);
        out->count = s.count;
        for (int i = 0; i < s.count; i++) { /* member by member: they have gaps */
            out->wrong[i].share = s.wrong[i].share;
            out->wrong[i].index = s.wrong[i].index;
            out->wrong[i].label = s.wrong[i].label;
            out->wrong[i].best = s.wrong[i].best;
        }
    }
    scores_free(&s);
    lks_recipe_close(recipe);
    return status;
}

static int rank_body(lks_comm *comm, int rank, void *user)
{
    seen *all = user;
    return comm == NULL || count_all(&all[rank], comm) != LKS_OK;
}

static void any_number_of_processes_counts_the_same(void **state)
{
    static seen one, many[MOST_RANKS];
    (void)state;
    trained();
    LKT_OK(count_all(&one, NULL));
    assert_int_equal(one.counts[0], SAMPLES);
    assert_int_equal(one.count, WORST);
    for (int i = 0; i < WORST; i++) {
        assert_true(one.wrong[i].best != one.wrong[i].label);
        assert_true(i == 0 || one.wrong[i].share <= one.wrong[i - 1].share);
    }
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        memset(many, 0, sizeof many);
        lkt_ranks(&(lkt_hub_opts){.size = ranks, .seed = 3, .delay = 2}, NULL, rank_body, many);
        for (int r = 0; r < ranks; r++) assert_memory_equal(&many[r], &one, sizeof one);
    }
}

/* A network of zeros is as sure of class 0 for every sample: then mistakes stand as the samples do, whoever saw them. */
static const char zeros[] = "data: {name: digits, samples: 600, test_samples: 237, mean: 0.13}\n"
                            "model: {name: net, layers: [flatten, {dense: {units: 10, weight_init: "
                            "zeros, bias_init: zeros}}]}\n"
                            "train: {replicas: 4, test_batch_size: 64}\n";

static lks_status worst_of_zeros(scores_wrong wrong[WORST], lks_comm *comm)
{
    lks_recipe *recipe;
    scores s = {0};
    lks_metrics sum;
    lks_status status = lks_recipe_open_text(&recipe, "c.yaml", zeros);
    lks_recipe_comm(recipe, comm);
    if (status == LKS_OK) status = lks_recipe_open_data(recipe, LKS_RECIPE_TEST);
    if (status == LKS_OK) status = lks_recipe_compile(recipe, 0);
    lks_dataset *test = status == LKS_OK ? lks_recipe_get_parts(recipe).test : NULL;
    if (status == LKS_OK) status = scores_count(&s, &sum, recipe, test, WORST);
    int64_t index = 0;
    for (int i = 0; i < WORST && status == LKS_OK; i++, index++) {
        uint8_t pixels[28 * 28];
        int32_t label = 0;
        while (lks_dataset_read(test, index, pixels, &label) == LKS_OK && label == 0) index++;
        wrong[i] = s.wrong[i];
        if (i >= s.count || wrong[i].index != index || wrong[i].label != label) break;
        if (i == WORST - 1) index = -1;
    }
    scores_free(&s);
    lks_recipe_close(recipe);
    return status != LKS_OK ? status : index == 0 ? LKS_OK : LKS_E_STATE;
}

static int zeros_body(lks_comm *comm, int rank, void *user)
{
    scores_wrong(*all)[WORST] = user;
    return comm == NULL || worst_of_zeros(all[rank], comm) != LKS_OK;
}

static void equal_mistakes_stand_as_their_samples(void **state)
{
    static scores_wrong wrong[MOST_RANKS][WORST];
    (void)state;
    LKT_OK(worst_of_zeros(wrong[0], NULL));
    assert_true(wrong[0][0].share == wrong[0][WORST - 1].share);
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++)
        lkt_ranks(&(lkt_hub_opts){.size = ranks, .seed = 3, .delay = 2}, NULL, zeros_body, wrong);
}

/* ---------------------------------------------------------------- other places */

/* Samples that are held back from anywhere stand elsewhere than in the whole, and by no one distance: a mistake is read
 * again by its place among them, and has the label there that it was counted with. Weights as they begin are mostly
 * wrong. */
static void mistakes_are_found_among_samples_held_back(void **state)
{
    static const char held[] = "validation: {samples: 100, shuffle: true}\n";
    char text[sizeof net + sizeof held];
    lks_recipe *recipe;
    scores s = {0};
    lks_metrics sum;
    int moved = 0;
    int64_t distance = 0;
    (void)state;
    snprintf(text, sizeof text, "%s%s", net, held);
    LKT_OK(lks_recipe_open_text(&recipe, "c.yaml", text));
    LKT_OK(lks_recipe_open_data(recipe, LKS_RECIPE_TRAIN));
    LKT_OK(lks_recipe_compile(recipe, 0));
    lks_dataset *valid = lks_recipe_get_parts(recipe).valid;
    LKT_OK(scores_count(&s, &sum, recipe, valid, WORST));
    assert_int_equal(s.samples, 100);
    assert_int_equal(s.count, WORST);
    for (int i = 0; i < s.count; i++) {
        uint8_t pixels[28 * 28];
        int32_t label;
        assert_in_range(s.wrong[i].index, 0, 99);
        LKT_OK(lks_dataset_read(valid, s.wrong[i].index, pixels, &label));
        assert_int_equal(label, s.wrong[i].label);
        const int64_t from = lks_dataset_position(valid, s.wrong[i].index) - s.wrong[i].index;
        if (i == 0) distance = from;
        moved += from != distance;
    }
    assert_true(moved > 0);
    scores_free(&s);
    lks_recipe_close(recipe);
}

/* ---------------------------------------------------------------- pictures */

#if defined(LKT_HAVE_PNG)
/* Four filters of 3x3, two beside each other: MARGIN 28, the title's 14, MARGIN; 38 pixels for each tap, a
 * label of 6 + 14 below, GAP 14. */
static void filters_are_the_weights(void **state)
{
    lks_tensor_file *file;
    double most = 0;
    (void)state;
    trained();
    run("info run --filters f.png");
    expect_ok();
    expect_out("f.png: 4 filters of conv2d_1.weight");
    const picture p = read_png("f.png", PNG_FORMAT_GRAY);
    assert_int_equal(shell("cp run/step-*24.safetensors w"), 0);
    LKT_OK(lks_tensor_file_open(&file, NULL, in_folder("w")));
    const lks_tensor_entry entry = lks_tensor_file_entry(
        file, lks_tensor_file_find(file, "conv2d_1.weight"));
    const float *weight = entry.data;
    for (int i = 0; i < 36; i++) most = fmax(most, fabs((double)weight[i]));
    const uint32_t height = (p.image.height - 70 - 28) / 2;
    for (uint32_t i = 0; i < 36; i++) {
        const uint32_t f = i / 9, x = 28 + f % 2 * 128 + i % 3 * 38 + 19;
        const uint32_t y = 70 + f / 2 * height + i % 9 / 3 * 38 + 19;
        const double expected = 127.5 + 127.5 * (double)weight[i] / most;
        const double found = p.value[y * p.image.width + x];
        if (fabs(found - expected) > 1) /* rounded, and grey from colours and back */
            fail_msg("tap %u is %g, expected %g", i, found, expected);
    }
    free(p.value);
    lks_tensor_file_close(file);
}

static void the_worst_are_drawn(void **state)
{
    (void)state;
    trained();
    run("eval c.yaml --out run --worst 6 w.png");
    expect(0, "w.png: 6 samples");
    const picture p = read_png("w.png", PNG_FORMAT_GRAY);
    assert_true(p.image.width > 300 && p.image.height > 200);
    free(p.value);
    run("eval c.yaml --out run --worst 1 w.png --split validation --set validation.samples=2");
    assert_int_not_equal(last.code, 0); /* other data than the run's */
}
#else
static void filters_are_the_weights(void **state)
{
    (void)state;
    print_message("skipped: built without libpng\n");
    skip();
}

static void the_worst_are_drawn(void **state)
{
    filters_are_the_weights(state);
}
#endif

static void what_cannot_be(void **state)
{
    (void)state;
    trained();
    run("eval c.yaml --out run --worst 3");
    expect(2, "--worst 3 needs a PNG file behind the configuration");
    run("eval c.yaml --out run w.png");
    expect(2, "a second operand is a PNG file for --worst N, which is not given");
    run("eval c.yaml --out run --worst many w.png");
    expect(2, "--worst is 'many', expected an integer from 1 to 10000");
    run("eval c.yaml --out run --worst 3 c.yaml");
    expect(2, "'c.yaml' is a file that this command reads");
    run("eval c.yaml --out run --worst 3 nowhere/w.png");
    expect(3, "there is no such file or folder");
    run("eval c.yaml --out run --worst 3 w.JPG");
    expect(2, "--worst: 'w.JPG' would be another kind of picture, but PNG is what is written; "
              "expected a name that ends in .png");
    run("info run --filters f.svg");
    expect(2, "--filters: 'f.svg' would be another kind of picture");
    run("info c.yaml --filters f.png");
    expect(2, "--filters draws what is saved");
    write_text("mlp.yaml", "data: {name: digits, samples: 50}\nmodel: {name: mlp}\n"
                           "train: {steps: 1}\n");
    run("train mlp.yaml --out dense --quiet");
    run("info dense --filters f.png");
    expect(2, "has no weight of a convolution with more than one tap");
    assert_false(there("f.png"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_are_those_of_the_definitions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_number_of_processes_counts_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mistakes_are_found_among_samples_held_back, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(filters_are_the_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(equal_mistakes_stand_as_their_samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_worst_are_drawn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
