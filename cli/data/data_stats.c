/* lockstep data stats: mean and standard deviation for data.mean and data.std, and class counts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "cli/data/data.h"
#include "cli/out/text.h"

/* As many columns of a table as data.mean takes numbers. */
enum { VALUES = 256, LONGEST_BAR = 40, MOST_COLUMNS = 64 };

/* Of bytes everything follows from how often each value occurs in each channel, which is exact. */
typedef struct counts {
    int64_t channels, classes;
    bool columns, floats; /* the channels are those of a table; samples are no bytes */
    bool frames;          /* whose padding is left out */
    bool measured;        /* of a table: what it has has been said column by column */
    int64_t *values;      /* [channels][VALUES] */
    int64_t *labels;      /* [classes]; none where targets are floats */
    int64_t targets;      /* of a sample, 4 bytes each, */
    int32_t *target;      /* and room for them */
    double *
        moment; /* [3][channels], of bytes scaled to 0..1: means, deviations, what a configuration may have */
    double least, most; /* value */
} counts;

/* A sample, whose classes are counted once. */
static lks_status next_sample(counts *c, lks_dataset *data, int64_t i, void *x, bool count)
{
    const lks_status status = lks_dataset_read(data, i, x, c->target);
    for (int64_t t = 0; t < c->targets && status == LKS_OK && count && c->classes > 0; t++)
        if (c->target[t] != LKS_NO_CLASS) c->labels[c->target[t]]++;
    return status;
}

/* In the order of the samples, about the mean, so that floats give the same digits everywhere. */
static lks_status measure_floats(counts *c, lks_dataset *data, float *x)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    const int64_t all = lks_shape_elements(&info.shape);
    int64_t seen = 0; /* elements of all samples, without padding */
    c->least = INFINITY;
    c->most = -INFINITY;
    for (int pass = 0; pass < 2; pass++) {
        double *sum = c->moment + pass * c->channels;
        for (int64_t i = 0; i < info.samples; i++) {
            const lks_status status = next_sample(c, data, i, x, pass == 0);
            if (status != LKS_OK) return status;
            const int64_t elements = c->frames
                                         ? data_frames_length(&info.shape, x) * info.shape.dim[1]
                                         : all;
            if (pass == 0) seen += elements;
            for (int64_t k = 0; k < elements; k++) {
                const int64_t channel = k % c->channels;
                const double value = (double)x[k], off = value - c->moment[channel];
                sum[channel] += pass == 0 ? value : off * off;
                c->least = fmin(c->least, value);
                c->most = fmax(c->most, value);
            }
        }
        const double each = (double)(seen / c->channels);
        for (int64_t i = 0; i < c->channels && seen > 0; i++)
            sum[i] = pass == 0 ? sum[i] / each : sqrt(sum[i] / each);
    }
    return LKS_OK;
}

static lks_status count_samples(counts *c, lks_dataset *data, uint8_t *x)
{
    const lks_dataset_info info = lks_dataset_get_info(data);
    const int64_t elements = lks_shape_elements(&info.shape);
    for (int64_t i = 0; i < info.samples; i++) {
        const lks_status status = next_sample(c, data, i, x, true);
        if (status != LKS_OK) return status;
        for (int64_t k = 0; k < elements; k += c->channels)
            for (int64_t channel = 0; channel < c->channels; channel++)
                c->values[channel * VALUES + x[k + channel]]++;
    }
    return LKS_OK;
}

/* Of bytes that are scaled to 0..1, over all samples: the deviation of the whole, not an estimate
 * from a part of it. */
static void data_stats_moments(const int64_t *values, double *mean, double *deviation)
{
    double sum = 0, squares = 0, count = 0;
    for (int v = 0; v < VALUES; v++) {
        sum += (double)values[v] * v;
        count += (double)values[v];
    }
    const double centre = sum / count;
    for (int v = 0; v < VALUES; v++) squares += (double)values[v] * (v - centre) * (v - centre);
    *mean = centre / (VALUES - 1);
    *deviation = sqrt(squares / count) / (VALUES - 1);
}

static void data_stats_print_list(const char *key, const double *numbers, int64_t count)
{
    enum { EXACT = 4 }; /* so many are given with all their digits, too */
    char line[16 * MOST_COLUMNS + 32 * EXACT];
    size_t used = 0;
    for (int64_t i = 0; i < count && used < sizeof line; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%.4f%s",
                                 i > 0       ? ", "
                                 : count > 1 ? "["
                                             : "",
                                 numbers[i], count > 1 && i + 1 == count ? "]" : "");
    for (int64_t i = 0; i < count && count <= EXACT && used < sizeof line; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s %.9f", i == 0 ? " #" : "",
                                 numbers[i]);
    const int at = printf("  %s: ", key);
    text_print_wrapped(stdout, line, at, 4, count <= EXACT ? 0 : say_columns());
}

/* What the counts of bytes give. */
static void measure_bytes(counts *c)
{
    c->least = VALUES - 1;
    for (int64_t i = 0; i < c->channels; i++) {
        const int64_t *values = c->values + i * VALUES;
        data_stats_moments(values, &c->moment[i], &c->moment[c->channels + i]);
        for (int v = 0; v < VALUES; v++) {
            if (values[v] == 0) continue;
            c->least = fmin(c->least, v);
            c->most = fmax(c->most, v);
        }
    }
}

static void print_moments(counts *c)
{
    const double *deviation = c->moment + c->channels;
    double *std = c->moment + 2 * c->channels;
    if (c->floats)
        say("floats from %g to %g; for a configuration:\n", c->least, c->most);
    else
        say("bytes from %.0f to %.0f; scaled to 0..1, for a configuration:\n", c->least, c->most);
    say("data:");
    data_stats_print_list("mean", c->moment, c->channels);
    for (int64_t i = 0; i < c->channels; i++) std[i] = deviation[i] == 0 ? 1 : deviation[i];
    data_stats_print_list("std", std, c->channels);
    for (int64_t i = 0; i < c->channels; i++)
        if (deviation[i] == 0)
            say("  # %s %lld is the same everywhere: 1 stands for its std, which is 0",
                c->columns ? "column" : "channel", (long long)i);
}

/* `share` of `width` columns, to an eighth of one where the terminal can. */
static void print_bar(double share, int width, bool blocks)
{
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const int eighths = (int)lround(share * width * 8);
    for (int i = 0; i < (blocks ? eighths / 8 : (eighths + 4) / 8); i++)
        fputs(blocks ? "█" : "#", stdout);
    if (blocks) fputs(parts[eighths % 8], stdout);
}

static void print_classes(const counts *c, cli_pool *pool, const data_source *source)
{
    const bool named = lks_dataset_class(source->data, 0) != NULL;
    const int columns = say_columns(), width = named ? 15 : 7;
    const int room = (columns > 0 ? columns : 79) - width - 22;
    const int longest = room < 1 ? 1 : room > LONGEST_BAR ? LONGEST_BAR : room;
    int64_t most = 1, all = 0;
    for (int64_t i = 0; i < c->classes; i++) {
        all += c->labels[i];
        if (c->labels[i] > most) most = c->labels[i];
    }
    say("\n%-*s %10s %8s", width, "class", "samples", "share");
    for (int64_t i = 0; i < c->classes; i++) {
        char count[TEXT_NUMBER_SIZE];
        const char *class = lks_dataset_class(source->data, i);
        const char *name = pool_format(pool, "%lld %s", (long long)i,
                                       class != NULL ? text_clean(pool, class) : "");
        printf("%s%*s %10s %7.2f%%", name, text_gap(name, width), "",
               lks_text_count(count, c->labels[i]), 100.0 * (double)c->labels[i] / (double)all);
        if (c->labels[i] > 0) fputs("  ", stdout);
        print_bar((double)c->labels[i] / (double)most, longest, columns > 0 && say_unicode());
        putchar('\n');
    }
}

/* What a table's texts are made of, and their classes. */
static lks_status report_sentences(const data_source *source, const cli_args *cli, const char *what)
{
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    lks_status status = data_sentences_stats(source, cli, what);
    if (status != LKS_OK || info.classes == 0) return status;
    counts c = {.classes = info.classes, .targets = 1};
    int32_t label, *x = malloc((size_t)info.shape.dim[0] * sizeof *x);
    c.target = &label;
    c.labels = calloc((size_t)c.classes, sizeof *c.labels);
    if (x == NULL || c.labels == NULL)
        status = lks_fail(LKS_E_NOMEM, "out of memory for the statistics of %.200s", what);
    for (int64_t i = 0; i < info.samples && status == LKS_OK; i++)
        status = next_sample(&c, source->data, i, x, true);
    if (status == LKS_OK) print_classes(&c, cli->pool, source);
    free(c.labels);
    free(x);
    return status;
}

static lks_status report(counts *c, cli_pool *pool, const data_source *source, const char *what)
{
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    char shape[64], samples[TEXT_NUMBER_SIZE];
    void *x = malloc((size_t)lks_shape_elements(&info.shape) * lks_dtype_size(info.dtype));
    c->moment = calloc(3 * (size_t)c->channels, sizeof *c->moment);
    c->values = calloc((size_t)c->channels * VALUES, sizeof *c->values);
    c->labels = calloc((size_t)c->classes + 1, sizeof *c->labels);
    c->targets = lks_shape_elements(&info.target_shape);
    c->target = malloc((size_t)c->targets * sizeof *c->target);
    lks_status status = LKS_OK;
    if (x == NULL || c->moment == NULL || c->values == NULL || c->labels == NULL ||
        c->target == NULL)
        status = lks_fail(LKS_E_NOMEM, "out of memory for the statistics of %.200s", what);
    if (status == LKS_OK)
        status = c->floats ? measure_floats(c, source->data, x) : count_samples(c, source->data, x);
    if (status == LKS_OK) {
        if (!c->floats) measure_bytes(c);
        say("%s: %s %s sample%s of %s", what, lks_text_count(samples, info.samples), source->split,
            TEXT_S(info.samples), data_shape_text(shape, &info.shape));
        if (c->frames) status = data_frames_say_lengths(source->data);
    }
    if (status == LKS_OK) {
        if (!c->measured) print_moments(c);
        if (c->classes > 0) print_classes(c, pool, source);
    }
    free(c->target);
    free(c->labels);
    free(c->values);
    free(c->moment);
    free(x);
    return status;
}

/* A text by itself may be shorter than the usual window, which its statistics do without. */
static lks_status open_short(data_source *source, const cli_args *cli, const char *what,
                             lks_status status)
{
    const char *text = lks_recipe_text(source->recipe, "data.text");
    if (status != LKS_E_INVALID || text == NULL || strcmp(text, what) != 0) return status;
    status = data_reconfigure(source, cli, what, "data.context=1");
    if (status != LKS_OK) return status;
    return lks_recipe_dataset(&source->data, source->recipe, source->context,
                              cli->local[LOCAL_TEST] != NULL);
}

static lks_status measure(data_source *source, const cli_args *cli, const char *what)
{
    const bool test = cli->local[LOCAL_TEST] != NULL;
    if (lks_recipe_has(source->recipe, "data.shards")) return data_shards_stats(source, cli);
    const bool table = lks_recipe_has(source->recipe, "data.series") ||
                       (lks_recipe_has(source->recipe, "data.table") &&
                        !lks_recipe_has(source->recipe, "data.text_column"));
    lks_status status = table ? data_table_stats(source, cli) : LKS_OK; /* also where values miss */
    if (status == LKS_OK)
        status = open_short(
            source, cli, what,
            lks_recipe_dataset(&source->data, source->recipe, source->context, test));
    if (status != LKS_OK) return status;
    if (data_has_sentences(source->data)) return report_sentences(source, cli, what);
    if (lks_dataset_tokenizer(source->data) != NULL) return data_text_stats(source, cli, what);
    const lks_dataset_info info = lks_dataset_get_info(source->data);
    const int64_t last = info.shape.dim[info.shape.ndim - 1];
    /* Rows, columns, channels; the columns of a table; features of frames; what else has fewer dimensions has one channel. */
    counts c = {.classes = info.classes,
                .columns = info.shape.ndim == 1 && last <= MOST_COLUMNS,
                .floats = info.dtype == LKS_F32,
                .frames = data_has_frames(source->data),
                .measured = table};
    const bool features = c.frames && last <= MOST_COLUMNS;
    c.channels = info.shape.ndim >= 3 || c.columns || features ? last : 1;
    return report(&c, cli->pool, source, what);
}

lks_status data_stats(const cli_args *cli, const char *what)
{
    data_source source;
    cli_ranks ranks;
    lks_status status = cli_meet(&ranks, cli);
    if (status != LKS_OK) return status;
    status = lks_comm_agree(ranks.comm, data_configure(&source, cli, what));
    if (status == LKS_OK) {
        lks_recipe_comm(source.recipe, ranks.comm);
        status = measure(&source, cli, what);
    }
    data_close(&source);
    return cli_part(&ranks, status);
}
