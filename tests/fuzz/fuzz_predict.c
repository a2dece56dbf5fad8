/*
 * What `lockstep predict` prints: of any weights and images, as a table and as JSON. Input: classes
 * less 2 (0 to 3); samples less 1 (0 to 3); 0, or 1 for log-probabilities; the weights and biases as
 * bytes of floats; images of two pixels. Both forms say the same, and what they say of the outputs is
 * what the network is.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/cli.h"
#include "fuzz/fuzz.h"

enum { PIXELS = 2, MOST = 5, CONFIG = 0, WEIGHTS = 1, IMAGES = 2, LABELS = 3 };

typedef struct scene {
    int classes, samples;
    bool logs;
    float weight[MOST][PIXELS], bias[MOST];
    uint8_t pixel[4][PIXELS];
} scene;

static char folder[] = "/tmp/fuzz-predict-XXXXXX", link_path[3][80];

static void remove_folder(void)
{
    for (int i = 0; i < 3; i++) unlink(link_path[i]);
    rmdir(folder);
}

static void make_folder(void)
{
    static const char *const names[] = {"w.safetensors", "t10k-images-idx3-ubyte",
                                        "t10k-labels-idx1-ubyte"};
    if (link_path[0][0] != '\0') return;
    FUZZ_CHECK(mkdtemp(folder) != NULL);
    for (int i = 0; i < 3; i++) {
        snprintf(link_path[i], sizeof link_path[i], "%s/%s", folder, names[i]);
        FUZZ_CHECK(symlink(fuzz_file(WEIGHTS + i, "", 0), link_path[i]) == 0);
    }
    atexit(remove_folder);
}

static const char *put_files(const scene *s)
{
    char text[1000];
    uint8_t file[400] = {0};
    const int length = snprintf(
        (char *)file + 8, 300,
        "{\"d.weight\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]},"
        "\"d.bias\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
        s->classes, PIXELS, 4 * PIXELS * s->classes, s->classes, 4 * PIXELS * s->classes,
        4 * (PIXELS + 1) * s->classes);
    file[0] = (uint8_t)length;
    uint8_t *at = file + 8 + length;
    memcpy(at, s->weight, 4 * PIXELS * (size_t)s->classes);
    memcpy(at + 4 * PIXELS * s->classes, s->bias, 4 * (size_t)s->classes);
    (void)fuzz_file(WEIGHTS, file, 8 + (size_t)(length + 4 * (PIXELS + 1) * s->classes));
    uint8_t images[16 + sizeof s->pixel] = {0, 0, 8, 3, 0, 0, 0, (uint8_t)s->samples,
                                            0, 0, 0, 1, 0, 0, 0, PIXELS};
    memcpy(images + 16, s->pixel, sizeof s->pixel);
    (void)fuzz_file(IMAGES, images, 16 + (size_t)(s->samples * PIXELS));
    const uint8_t labels[12] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)s->samples, 0, 1, 0, 1};
    (void)fuzz_file(LABELS, labels, 8 + (size_t)s->samples);
    const int bytes = snprintf(
        text, sizeof text,
        "data: {path: %s, classes: %d}\n"
        "model: {name: net, init: %s, layers: [flatten, {dense: {units: %d, "
        "name: d}}%s]}\n"
        "train: {device: ref, workers: 1, batch_size: 3, test_batch_size: 3, "
        "replicas: 1}\nloss: {name: %s}\n",
        folder, s->classes, link_path[0], s->classes, s->logs ? ", log_softmax" : "",
        s->logs ? "nll" : "cross_entropy");
    return fuzz_file(CONFIG, text, (size_t)bytes);
}

/* What the verb prints; NULL: it has failed. */
static char *predict(const char *config, const char *format)
{
    char *words[] = {"lockstep",  "predict",  (char *)(uintptr_t)config, "--probabilities",
                     "--outputs", "--format", (char *)(uintptr_t)format, NULL};
    cli_pool pool = {0};
    cli_args cli;
    char *text = NULL;
    size_t bytes;
    int code = 0;
    FILE *before = stdout;
    FUZZ_CHECK(cli_parse(&cli, &pool, 7, words) == LKS_OK);
    stdout = open_memstream(&text, &bytes);
    FUZZ_CHECK(stdout != NULL);
    const lks_status status = cli.verb->run(&cli, &code);
    FUZZ_CHECK(fclose(stdout) == 0 && code == 0);
    stdout = before;
    pool_clear(&pool);
    if (status == LKS_OK) return text;
    fuzz_check_failure(status);
    FUZZ_CHECK(*text == '\0');
    free(text);
    return NULL;
}

/* The next field of a line: a number. What is not finite has one name each, on every machine. */
static double next_field(char **at)
{
    char *end = *at + strcspn(*at, ",\n"), *rest;
    const char last = *end;
    *end = '\0';
    const double number = strtod(*at, &rest);
    FUZZ_CHECK(rest == end && end > *at && last != '\0');
    if (!isfinite(number))
        FUZZ_CHECK(strcmp(*at, isnan(number) ? "nan" : number > 0 ? "inf" : "-inf") == 0);
    *at = end + 1;
    return number;
}

static double value_of(const json_t *json)
{
    FUZZ_CHECK(json_is_null(json) || json_is_number(json));
    return json_is_null(json) ? (double)NAN : json_number_value(json);
}

/* JSON has null for all that is not finite. */
static void check_same(double number, const json_t *json)
{
    const double other = value_of(json);
    FUZZ_CHECK(isfinite(number) ? number == other : isnan(other));
}

static void check_outputs(const scene *s, int sample, const double *output)
{
    for (int k = 0; k < s->classes && !s->logs; k++) {
        double sum = (double)s->bias[k], size = fabs(sum);
        for (int i = 0; i < PIXELS; i++) {
            const double x = s->pixel[sample][i] / 255.0;
            sum += (double)s->weight[k][i] * x;
            size += fabs((double)s->weight[k][i] * x);
        }
        /* Each term, and x in it, is rounded a few times to 24 bits; what is stored is 0 where its size is
         * below 2^-63. */
        if (size < (double)FLT_MAX / 4)
            FUZZ_CHECK(fabs(output[k] - sum) <=
                       8 * (double)FLT_EPSILON * size + (PIXELS + 2) * ldexp(1, -63));
    }
}

static void check_line(const scene *s, int sample, char **at, const char *line)
{
    double share[MOST], output[MOST], sum = 0;
    json_t *json = json_loads(line, 0, NULL);
    FUZZ_CHECK(next_field(at) == sample &&
               json_integer_value(json_object_get(json, "sample")) == sample);
    const int class = (int)next_field(at);
    FUZZ_CHECK(class >= 0 && class < s->classes &&
               json_integer_value(json_object_get(json, "class")) == class);
    const double probability = next_field(at);
    FUZZ_CHECK(next_field(at) == sample % 2 &&
               json_integer_value(json_object_get(json, "label")) == sample % 2);
    for (int k = 0; k < s->classes; k++) {
        share[k] = next_field(at);
        check_same(share[k], json_array_get(json_object_get(json, "probabilities"), (size_t)k));
        sum += share[k];
    }
    bool finite = true;
    for (int k = 0; k < s->classes; k++) {
        output[k] = next_field(at);
        finite = finite && isfinite(output[k]);
        check_same(output[k], json_array_get(json_object_get(json, "outputs"), (size_t)k));
    }
    for (int k = 0; k < s->classes; k++) /* of the largest the first */
        FUZZ_CHECK(!(output[k] > output[class]) && (k >= class || output[k] != output[class]));
    FUZZ_CHECK(!finite || fabs(sum - 1) < 1e-6);
    FUZZ_CHECK(!finite || fabs(probability - share[class]) < 1e-6);
    FUZZ_CHECK(!finite ||
               fabs(value_of(json_object_get(json, "probability")) - probability) < 1e-6);
    check_outputs(s, sample, output);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    scene s = {0};
    enum { HEAD = 3 };
    if (bytes < HEAD) return 0;
    make_folder();
    s.classes = 2 + data[0] % 4;
    s.samples = 1 + data[1] % 4;
    s.logs = data[2] % 2 == 1;
    const size_t rest = bytes - HEAD, weights = sizeof s.weight + sizeof s.bias;
    uint8_t all[sizeof s.weight + sizeof s.bias + sizeof s.pixel] = {0};
    memcpy(all, data + HEAD, rest < sizeof all ? rest : sizeof all);
    memcpy(s.weight, all, sizeof s.weight);
    memcpy(s.bias, all + sizeof s.weight, sizeof s.bias);
    memcpy(s.pixel, all + weights, sizeof s.pixel);
    const char *config = put_files(&s);
    char *table = predict(config, "csv"), *lines = predict(config, "json");
    FUZZ_CHECK((table == NULL) == (lines == NULL));
    if (table != NULL) {
        char *at = strchr(table, '\n') + 1, *line = lines;
        FUZZ_CHECK(strncmp(table, "sample,class,probability,label,p0,p1,", 37) == 0);
        for (int i = 0; i < s.samples; i++) {
            char *end = strchr(line, '\n');
            FUZZ_CHECK(end != NULL);
            *end = '\0';
            check_line(&s, i, &at, line);
            line = end + 1;
        }
        FUZZ_CHECK(*at == '\0' && *line == '\0');
    }
    free(table);
    free(lines);
    return 0;
}
