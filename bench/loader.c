/*
 * How fast the loader hands out samples, in the shuffled order and in batches of 128: MNIST from
 * its files (where a folder is given), the digits, and the same digits from arrays. A training of
 * the MNIST CNN asks for about 2,000 samples a second and core; what a thread of the loader reads
 * should be ten times that.
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
static void measure(lks_context *context, lks_dataset *set, int count)
{
    const lks_loader_opts opts = {.global_batch = BATCH, .threads = count};
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

static void print_row(lks_context *context, const char *name, lks_dataset *set)
{
    printf("%-10s", name);
    for (int t = 0; t < THREADS; t++) measure(context, set, threads[t]);
    printf("\n");
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
    printf("%-10s", "threads");
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
    lks_context_destroy(context);
    free(x);
    free(y);
    return 0;
}
