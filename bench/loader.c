/*
 * How fast the loader hands out samples, in the shuffled order and in batches of 128: MNIST from
 * its files (where a folder is given), the digits, and the same digits from arrays. A training of
 * the MNIST CNN asks for about 2,000 samples a second and core; what a thread of the loader reads
 * should be ten times that. Then images of 32x32x3 with augmentations, and mixed with others, which
 * are read and augmented, too.
 *
 *   cmake --build --preset release && build/release/tests/bench_loader [MNIST's folder]
 *
 * Each figure is the best of ROUNDS, each of at least SECONDS; in parentheses the CPU time of the
 * process for one sample, which says what it takes from the training when all cores are busy.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstep/data.h>

enum { BATCH = 128, ROUNDS = 5, ARRAY_SAMPLES = 60000, SAMPLE = 28 * 28 };
static double round_seconds = 0.3;

static const lks_augmentation augmented[] = {
    {.kind = LKS_AUGMENT_CROP, .fill = LKS_FILL_REFLECT},
    {.kind = LKS_AUGMENT_FLIP},
    {.kind = LKS_AUGMENT_ROTATE, .interpolation = LKS_BILINEAR},
    {.kind = LKS_AUGMENT_RESIZED_CROP},
    {.kind = LKS_AUGMENT_CUTOUT},
    {.kind = LKS_AUGMENT_JITTER, .brightness = 0.4, .contrast = 0.4},
    {.kind = LKS_AUGMENT_JITTER, .saturation = 0.4, .hue = 0.1},
};
/* Rows of the table: which of them. */
static const struct row {
    const char *name;
    int first, count;
    double mixup;
} rows[] = {{"32x32x3", 0, 0, 0}, {"crop", 0, 1, 0},        {"flip", 1, 1, 0},
            {"rotate", 2, 1, 0},  {"all three", 0, 3, 0},   {"resized", 3, 1, 0},
            {"cutout", 4, 1, 0},  {"light", 5, 1, 0},       {"hue", 6, 1, 0},
            {"mixup", 0, 0, 1},   {"three, mixed", 0, 3, 1}};

static const int threads[] = {-1, 1, 2, 4};
enum { THREADS = sizeof threads / sizeof *threads };

static void check(lks_status status)
{
    if (status == LKS_OK) return;
    fprintf(stderr, "loader: %s\n", lks_last_error()->message);
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Prints "samples/s (CPU time of one)" for this number of threads. */
static void measure(lks_context *context, lks_dataset *set, int count, const struct row *row)
{
    const lks_loader_opts opts = {.global_batch = BATCH,
                                  .threads = count,
                                  .augment = augmented + row->first,
                                  .augmentations = row->count,
                                  .mixup = row->mixup};
    lks_loader *loader;
    lks_batch batch;
    double best = 0, cpu = 0;

    check(lks_loader_create(&loader, context, set, &opts));
    for (int round = 0; round <= ROUNDS; round++) {
        const double start = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
        double elapsed;
        int64_t samples = 0;
        do {
            for (int i = 0; i < 16; i++) {
                check(lks_loader_next(loader, &batch));
                samples += batch.count;
            }
            elapsed = seconds(CLOCK_MONOTONIC) - start;
        } while (elapsed < round_seconds);
        if (round == 0 || (double)samples / elapsed <= best) continue; /* the first warms up */
        best = (double)samples / elapsed;
        cpu = (seconds(CLOCK_PROCESS_CPUTIME_ID) - used) / (double)samples;
    }
    lks_loader_destroy(loader);
    printf("  %8.0f (%6.2f us)", best, cpu * 1e6);
    fflush(stdout);
}

static void print_augmented(lks_context *context, const struct row *row, lks_dataset *set)
{
    printf("%-12s", row->name);
    for (int t = 0; t < THREADS; t++) measure(context, set, threads[t], row);
    printf("\n");
}

static void print_row(lks_context *context, const char *name, lks_dataset *set)
{
    const struct row row = {.name = name};
    print_augmented(context, &row, set);
}

/* As many images as there are digits take too much memory; a few do as well. */
static void print_images(lks_context *context)
{
    static uint8_t x[4096][32][32][3];
    static int32_t y[4096];
    const lks_dataset_info info = {
        .samples = 4096, .shape = LKS_SHAPE(32, 32, 3), .dtype = LKS_U8, .classes = 10};
    uint8_t *at = &x[0][0][0][0];
    lks_dataset *set;
    for (size_t i = 0; i < sizeof x; i++) at[i] = (uint8_t)(i * 2654435761u >> 13);
    check(lks_dataset_from_arrays(&set, context, &info, x, y));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) print_augmented(context, &rows[i], set);
    lks_dataset_destroy(set);
}

/* The digits, drawn beforehand. */
static lks_dataset *draw_all(lks_context *context, lks_dataset *digits, uint8_t **x, int32_t **y)
{
    lks_dataset *set;
    const lks_dataset_info info = lks_dataset_get_info(digits);
    *x = malloc((size_t)info.samples * SAMPLE);
    *y = malloc((size_t)info.samples * sizeof **y);
    if (!*x || !*y) {
        fprintf(stderr, "loader: out of memory\n");
        exit(1);
    }
    for (int64_t i = 0; i < info.samples; i++)
        check(lks_dataset_read(digits, i, *x + i * SAMPLE, *y + i));
    check(lks_dataset_from_arrays(&set, context, &info, *x, *y));
    return set;
}

int main(int argc, char **argv)
{
    const bool brief = argc > 1 && strcmp(argv[1], "--brief") == 0; /* only to see that it runs */
    const char *folder = argc > 1 && !brief ? argv[1] : NULL;
    const lks_digits_opts opts = {.samples = brief ? 500 : ARRAY_SAMPLES};
    lks_context *context;
    lks_dataset *digits, *arrays, *mnist;
    uint8_t *x;
    int32_t *y;

    if (brief) round_seconds = 0.001;
    check(lks_context_create(&context, NULL));
    printf("samples/s (CPU time of one), batches of %d\n", BATCH);
    printf("%-12s", "threads");
    for (int t = 0; t < THREADS; t++) printf("  %20d", threads[t] < 0 ? 0 : threads[t]);
    printf("  (0: in the caller)\n");
    if (folder) {
        check(lks_dataset_open_mnist(&mnist, context, folder, false));
        print_row(context, "mnist", mnist);
        lks_dataset_destroy(mnist);
    }
    check(lks_dataset_open_digits(&digits, context, &opts));
    print_row(context, "digits", digits);
    arrays = draw_all(context, digits, &x, &y);
    print_row(context, "arrays", arrays);
    lks_dataset_destroy(arrays);
    lks_dataset_destroy(digits);
    print_images(context);
    lks_context_destroy(context);
    free(x);
    free(y);
    return 0;
}
