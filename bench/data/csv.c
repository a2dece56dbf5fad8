/*
 * How fast tables are read from CSV, in bytes of text a second: columns of integers, of numbers of 6 digits, and of 17, as
 * pandas writes doubles, and a mixture of numbers, texts and texts between quotes; each with one thread and with as many as
 * there are cores. The bar is 200 MB/s a core.
 *
 *   cmake --build --preset release && build/release/tests/bench_csv [FILE.csv]
 *
 * Each figure is the best of ROUNDS, with the file in the page cache.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "data/table/table.h"

enum { ROUNDS = 5, COLUMNS = 12 };

/* Columns have these formats in turn. */
static void write_file(const char *path, const char *const format[4], int64_t rows)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) exit(1);
    uint64_t state = 1;
    for (int64_t i = 0; i < rows; i++)
        for (int c = 0; c < COLUMNS; c++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
            fprintf(file, format[c % 4], (double)(int64_t)state * 0x1p-53);
            fputc(c + 1 < COLUMNS ? ',' : '\n', file);
        }
    if (fclose(file) != 0) exit(1);
}

static double rate(const char *path, int threads)
{
    double best = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const lki_csv_opts opts = {.threads = threads};
        lki_table table;
        const double start = lki_seconds();
        if (lki_csv_open(&table, NULL, path, &opts) != LKS_OK) {
            fprintf(stderr, "%s\n", lks_last_error()->message);
            exit(1);
        }
        const double found = (double)table.file.bytes / (lki_seconds() - start) * 1e-6;
        if (found > best) best = found;
        lki_table_close(&table);
    }
    return best;
}

int main(int argc, char **argv)
{
    static const struct kind {
        const char *name, *format[4];
    } kinds[] = {{"integers", {"%.0f", "%.0f", "%.0f", "%.0f"}},
                 {"6 digits", {"%.6g", "%.6g", "%.6g", "%.6g"}},
                 {"17 digits", {"%.17g", "%.17g", "%.17g", "%.17g"}},
                 {"mixed", {"%.0f", "\"No. %.0f, north\"", "%.6g", "street %.0f"}}};
    const bool brief = argc > 1 && strcmp(argv[1], "--brief") == 0;
    char path[] = "/tmp/lockstep-bench-XXXXXX";
    printf("MB/s, with 1 thread and with all:\n");
    if (argc > 1 && !brief) {
        printf("%-10s %6.0f %6.0f\n", "the file", rate(argv[1], 1), rate(argv[1], 0));
        return 0;
    }
    const int open = mkstemp(path);
    if (open < 0) return 1;
    for (int i = 0; i < 4; i++) {
        write_file(path, kinds[i].format, brief ? 1000 : 400000);
        printf("%-10s %6.0f %6.0f\n", kinds[i].name, rate(path, 1), rate(path, 0));
    }
    return remove(path);
}
