#include "recipe/text/network_file.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "recipe/text/emit.h"

enum { MAX_LAYERS = 64, NUMBERS = 4, MAX_BYTES = 1 << 16, LAST = -1 };

/* What stands once in a file: its names, range and default. */
enum { ITERATIONS, WARMUP, BATCH, CLASSES, CHANNELS, HEIGHT, WIDTH, BIAS, FC_RELU, COUNT };
static const struct row {
    const char *name, *section, *key; /* NUM_CLASSES; or network: num_classes in JSON */
    int64_t least, most, usual;
} rows[COUNT] = {
    [ITERATIONS] = {"NUM_ITERATIONS", "benchmark", "num_iterations", 1, 1000000000, 1000},
    [WARMUP] = {"WARMUP_ITERATIONS", "benchmark", "warmup_iterations", 0, 1000000000, 100},
    [BATCH] = {"BATCH_SIZE", "network", "batch_size", 1, 65536, 1},
    [CLASSES] = {"NUM_CLASSES", "network", "num_classes", 2, 65536, 3},
    [CHANNELS] = {"IN_CHANNELS", "network", "in_channels", 1, 65536, 1},
    [HEIGHT] = {"INPUT_HEIGHT", "network", "input_height", 1, 65536, 3},
    [WIDTH] = {"INPUT_WIDTH", "network", "input_width", 1, 65536, 3},
    [BIAS] = {"BIAS", "network", "bias", 0, 1, 0},
    [FC_RELU] = {"FC_RELU", "network", "fc_relu", 0, 1, 0},
};

static const struct part {
    const char *name;
    int64_t least, most;
} conv_parts[NUMBERS] = {{"out_channels", 1, 65536},
                         {"kernel_size", 1, 65536},
                         {"stride", 1, 65536},
                         {"padding", 0, 65536}};
static const struct part fc_part = {"out_features", 1, 16777216};

typedef struct layer {
    int line;
    int64_t number[NUMBERS]; /* of a convolution as in conv_parts; of FC the units, or LAST */
} layer;

typedef struct network {
    lki_heap *heap;
    const char *path;
    int64_t value[COUNT];
    int line[COUNT]; /* 0: it is not in the file */
    layer conv[MAX_LAYERS], fc[MAX_LAYERS];
    int convs, fcs;
} network;

static void begin(network *net, lki_heap *heap, const char *path)
{
    *net = (network){.heap = heap, .path = path};
    for (int i = 0; i < COUNT; i++) net->value[i] = rows[i].usual;
}

static lks_status check(const network *net, int line, const char *name, const char *text,
                        int64_t least, int64_t most, int64_t *out)
{
    if (lki_text_is_int(text, out) && *out >= least && *out <= most) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "%s:%d: %s is '%.60s', expected an integer from %" PRId64 " to %" PRId64,
                    net->path, line, name, text, least, most);
}

static lks_status check_units(const network *net, int line, const char *name, const char *text,
                              int64_t *out)
{
    if (lki_text_is_int(text, out) && *out == LAST) return LKS_OK;
    return check(net, line, name, text, fc_part.least, fc_part.most, out);
}

static lks_status set_row(network *net, int i, int line, const char *name, const char *text)
{
    if (net->line[i] > 0)
        return LKI_FAIL(LKS_E_INVALID, "%s:%d: %s stands here again, it is in line %d", net->path,
                        line, name, net->line[i]);
    net->line[i] = line;
    return check(net, line, name, text, rows[i].least, rows[i].most, &net->value[i]);
}

/* Room for one more layer. */
static lks_status add_layer(network *net, bool conv, int line, layer **out)
{
    int *count = conv ? &net->convs : &net->fcs;
    if (*count == MAX_LAYERS)
        return LKI_FAIL(LKS_E_INVALID, "%s:%d: more than %d %s layers", net->path, line, MAX_LAYERS,
                        conv ? "CONV" : "FC");
    *out = conv ? &net->conv[(*count)++] : &net->fc[(*count)++];
    **out = (layer){.line = line, .number = {0, 0, 1, 0}};
    return LKS_OK;
}

/* The layers as the items of a list. Where it can be they stand in the lines in which the file has them, so that what is
 * found later, as sizes that do not fit, names these. */
typedef struct writer {
    lki_emit emit;
    int line;
} writer;

static void write_text(writer *w, const char *text)
{
    lki_emit_raw(&w->emit, text, strlen(text));
}

static void write_number(writer *w, const char *before, int64_t number)
{
    char text[64];
    snprintf(text, sizeof text, "%s%" PRId64, before, number);
    write_text(w, text);
}

static void go_to_line(writer *w, int line)
{
    for (; w->line < line; w->line++) write_text(w, "\n");
}

static void write_conv(writer *w, const layer *l, const network *net, int index)
{
    go_to_line(w, l->line);
    write_number(w, "  {conv2d: {filters: ", l->number[0]);
    write_number(w, ", kernel: ", l->number[1]);
    write_number(w, ", stride: ", l->number[2]);
    write_number(w, ", padding: ", l->number[3]);
    write_text(w, net->value[BIAS] ? "" : ", bias: false");
    write_number(w, ", weight_init: kaiming_normal, name: conv", index + 1);
    write_text(w, "}}, relu,");
}

static void write_fc(writer *w, const layer *l, const network *net, int index)
{
    go_to_line(w, l->line);
    write_number(w, "  {dense: {units: ", l->number[0]);
    write_text(w, net->value[BIAS] ? "" : ", bias: false");
    write_number(w, ", weight_init: kaiming_normal, name: fc", index + 1);
    write_text(w, index + 1 < net->fcs && net->value[FC_RELU] ? "}}, relu," : "}},");
}

static void write_head(writer *w, const network *net)
{
    write_number(w, "{data: {name: checkerboard, shape: [", net->value[HEIGHT]);
    write_number(w, ", ", net->value[WIDTH]);
    write_number(w, ", ", net->value[CHANNELS]);
    write_number(w, "], shuffle: false, classes: ", net->value[CLASSES]);
    write_number(w, ", samples: ", net->value[ITERATIONS] * net->value[BATCH]);
    write_number(w, "}, bench: {calls: ", net->value[ITERATIONS]);
    write_number(w, ", warmup: ", net->value[WARMUP]);
    write_number(w, "}, train: {replicas: 1, seed: 1, batch_size: ", net->value[BATCH]);
    write_text(w, "}, loss: {name: mse}, optimizer: {name: sgd, lr: 0.001}, "
                  "log: {format: iterations}, model: {name: toy, layers: [");
}

/* What names such as "bias,fc_relu" switch on, whatever the file says. */
static lks_status take_variant(network *net, const char *names)
{
    while (names != NULL && *names != '\0') {
        const size_t length = strcspn(names, ",");
        int i = BIAS;
        while (i < COUNT &&
               (strlen(rows[i].key) != length || strncmp(rows[i].key, names, length) != 0))
            i++;
        if (i == COUNT)
            return LKI_FAIL(LKS_E_INVALID,
                            "%s: a network's file has no variant '%.*s', expected bias or fc_relu",
                            net->path, length < 60 ? (int)length : 60, names);
        net->value[i] = 1;
        names += length + (names[length] == ',');
    }
    return LKS_OK;
}

static lks_status write_configuration(network *net, const char *variant, const lki_yaml **out)
{
    writer w = {.line = 1};
    lks_status status = LKS_OK;
    layer *last = net->fcs > 0 ? &net->fc[net->fcs - 1] : NULL;
    LKI_TRY(take_variant(net, variant));
    if (last == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s: there is no FC layer; end the network with FC=-1, which has "
                        "NUM_CLASSES outputs",
                        net->path);
    for (int i = 0; i < net->fcs; i++)
        if (net->fc[i].number[0] == LAST) net->fc[i].number[0] = net->value[CLASSES];
    if (last->number[0] != net->value[CLASSES])
        return LKI_FAIL(LKS_E_INVALID,
                        "%s:%d: the last FC has %" PRId64 " outputs, expected %" PRId64
                        ", NUM_CLASSES, or -1, which stands for them",
                        net->path, last->line, last->number[0], net->value[CLASSES]);
    write_head(&w, net);
    for (int i = 0; i < net->convs; i++) write_conv(&w, &net->conv[i], net, i);
    write_text(&w, " flatten,");
    for (int i = 0; i < net->fcs; i++) write_fc(&w, &net->fc[i], net, i);
    write_text(&w, " ]}}");
    char *text = lki_emit_take(&w.emit, "a network's file", &status);
    if (status == LKS_OK) status = lki_yaml_read_lines(out, net->heap, net->path, text);
    free(text);
    return status;
}

/* Without space and comment around. */
static char *trim(char *text)
{
    text[strcspn(text, "#\r\n")] = '\0';
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) text[--length] = '\0';
    return text;
}

static lks_status read_conv(network *net, int line, char *text)
{
    layer *l;
    LKI_TRY(add_layer(net, true, line, &l));
    for (int i = 0; i < NUMBERS; i++) {
        char *comma = strchr(text, ','), name[40];
        if ((comma != NULL) != (i + 1 < NUMBERS))
            return LKI_FAIL(LKS_E_INVALID,
                            "%s:%d: CONV has %s numbers, expected four: CONV=out_channels,"
                            "kernel_size,stride,padding",
                            net->path, line, comma == NULL ? "fewer" : "more");
        if (comma != NULL) *comma = '\0';
        snprintf(name, sizeof name, "CONV's %s", conv_parts[i].name);
        LKI_TRY(check(net, line, name, trim(text), conv_parts[i].least, conv_parts[i].most,
                      &l->number[i]));
        text = comma != NULL ? comma + 1 : text;
    }
    return LKS_OK;
}

static lks_status read_line(network *net, int line, char *text)
{
    layer *l;
    text = trim(text);
    if (*text == '\0') return LKS_OK;
    char *equals = strchr(text, '=');
    if (equals == NULL)
        return LKI_FAIL(LKS_E_INVALID, "%s:%d: '%.60s' has no =, expected KEY=INT, such as FC=128",
                        net->path, line, text);
    *equals = '\0';
    const char *name = trim(text);
    char *value = trim(equals + 1);
    if (strcmp(name, "CONV") == 0) return read_conv(net, line, value);
    if (strcmp(name, "FC") == 0) {
        LKI_TRY(add_layer(net, false, line, &l));
        return check_units(net, line, "FC", value, &l->number[0]);
    }
    lki_nearest nearest = {.word = name};
    for (int i = 0; i < COUNT; i++) {
        if (strcmp(name, rows[i].name) == 0) return set_row(net, i, line, name, value);
        lki_nearest_offer(&nearest, rows[i].name);
    }
    return LKI_FAIL(LKS_E_INVALID, "%s:%d: unknown key '%.60s'; %s%s", net->path, line, name,
                    nearest.best != NULL ? "the nearest is " : "expected CONV, FC or one such as ",
                    nearest.best != NULL ? nearest.best : rows[CLASSES].name);
}

lks_status lki_network_file_lines(const lki_yaml **out, lki_heap *heap, const char *path,
                                  const char *variant, const char *text)
{
    network net;
    *out = NULL;
    begin(&net, heap, path);
    for (int line = 1; *text != '\0'; line++) {
        const size_t length = strcspn(text, "\n");
        char *own = lki_heap_alloc(heap, length + 1);
        if (own == NULL) return lki_heap_status(heap, LKS_OK);
        memcpy(own, text, length);
        LKI_TRY(read_line(&net, line, own));
        text += length + (text[length] == '\n');
    }
    return write_configuration(&net, variant, out);
}

lks_status lki_network_file_read(const lki_yaml **out, lki_heap *heap, const char *path,
                                 const char *variant)
{
    *out = NULL;
    char *text = lki_heap_alloc(heap, MAX_BYTES + 1);
    if (text == NULL) return lki_heap_status(heap, LKS_OK);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return LKI_FAIL(LKS_E_IO, "configuration %s cannot be opened: %s", path, strerror(errno));
    errno = 0;
    const size_t bytes = fread(text, 1, MAX_BYTES + 1, file);
    const int failed = ferror(file) ? errno : 0;
    fclose(file);
    if (failed)
        return LKI_FAIL(LKS_E_IO, "configuration %s cannot be read: %s", path, strerror(failed));
    if (bytes > MAX_BYTES || strlen(text) < bytes)
        return LKI_FAIL(LKS_E_INVALID, "%s: %s, so it is no network's file", path,
                        bytes > MAX_BYTES ? "larger than 65536 bytes" : "has bytes that are 0");
    return lki_network_file_lines(out, heap, path, variant, text);
}

bool lki_network_file_has_lines(const char *path)
{
    return lki_text_ends(path, ".txt");
}

bool lki_network_file_is(const lki_yaml *root)
{
    return lki_yaml_find(root, "network") != NULL;
}

static lks_status unknown(const network *net, const lki_yaml_entry *e, const char *expected)
{
    return LKI_FAIL(LKS_E_INVALID, "%s:%d: unknown key '%.60s', expected %s", net->path,
                    e->key->line, e->key->text, expected);
}

/* As a number is written; what is none by its kind is written so that it is none. */
static const char *scalar(const network *net, const lki_yaml *node)
{
    if (node->kind != LKI_YAML_SCALAR) return node->kind == LKI_YAML_MAP ? "{...}" : "[...]";
    if (!node->plain) return lki_heap_format(net->heap, "\"%s\"", node->text);
    return strcmp(node->text, "true") == 0    ? "1"
           : strcmp(node->text, "false") == 0 ? "0"
                                              : node->text;
}

static lks_status read_rows(network *net, const char *section, const lki_yaml *map)
{
    if (map->kind != LKI_YAML_MAP)
        return LKI_FAIL(LKS_E_INVALID, "%s:%d: %s is not {...}", net->path, map->line, section);
    for (const lki_yaml_entry *e = map->first; e != NULL; e = e->next) {
        int i = 0;
        while (i < COUNT &&
               (strcmp(rows[i].section, section) != 0 || strcmp(rows[i].key, e->key->text) != 0))
            i++;
        if (i == COUNT)
            return unknown(net, e,
                           strcmp(section, "network") == 0 ? "one such as num_classes"
                                                           : "num_iterations or "
                                                             "warmup_iterations");
        LKI_TRY(set_row(net, i, e->value->line, rows[i].key, scalar(net, e->value)));
    }
    return LKS_OK;
}

static lks_status read_layer(network *net, bool conv, const lki_yaml *map)
{
    layer *l;
    const lki_yaml *first = map->kind == LKI_YAML_MAP
                                ? lki_yaml_find(map, conv ? conv_parts[0].name : fc_part.name)
                                : NULL;
    if (first == NULL || (conv && lki_yaml_find(map, conv_parts[1].name) == NULL))
        return LKI_FAIL(LKS_E_INVALID, "%s:%d: a layer of %s needs %s", net->path, map->line,
                        conv ? "conv_layers" : "fc_layers",
                        conv ? "out_channels and kernel_size" : fc_part.name);
    LKI_TRY(add_layer(net, conv, map->line, &l));
    for (const lki_yaml_entry *e = map->first; e != NULL; e = e->next) {
        int i = 0;
        while (conv && i < NUMBERS && strcmp(conv_parts[i].name, e->key->text) != 0) i++;
        if (i == NUMBERS || (!conv && strcmp(fc_part.name, e->key->text) != 0))
            return unknown(net, e,
                           conv ? "out_channels, kernel_size, stride or padding" : fc_part.name);
        const int line = e->value->line;
        LKI_TRY(conv ? check(net, line, conv_parts[i].name, scalar(net, e->value),
                             conv_parts[i].least, conv_parts[i].most, &l->number[i])
                     : check_units(net, line, fc_part.name, scalar(net, e->value), &l->number[0]));
    }
    return LKS_OK;
}

static lks_status read_layers(network *net, bool conv, const lki_yaml *list)
{
    if (list->kind != LKI_YAML_LIST)
        return LKI_FAIL(LKS_E_INVALID, "%s:%d: %s is not [...]", net->path, list->line,
                        conv ? "conv_layers" : "fc_layers");
    for (const lki_yaml_entry *e = list->first; e != NULL; e = e->next)
        LKI_TRY(read_layer(net, conv, e->value));
    return LKS_OK;
}

lks_status lki_network_file_tree(const lki_yaml **out, lki_heap *heap, const char *path,
                                 const char *variant, const lki_yaml *root)
{
    network net;
    *out = NULL;
    begin(&net, heap, path);
    for (const lki_yaml_entry *e = root->first; e != NULL; e = e->next) {
        const char *key = e->key->text;
        if (strcmp(key, "benchmark") == 0 || strcmp(key, "network") == 0)
            LKI_TRY(read_rows(&net, key, e->value));
        else if (strcmp(key, "conv_layers") == 0 || strcmp(key, "fc_layers") == 0)
            LKI_TRY(read_layers(&net, key[0] == 'c', e->value));
        else
            return unknown(&net, e, "benchmark, network, conv_layers or fc_layers");
    }
    return write_configuration(&net, variant, out);
}
