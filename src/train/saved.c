#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/check.h"
#include "base/context.h"
#include "base/memory.h"
#include "numeric/hash.h"
#include "train/ranks.h"
#include "train/saved.h"
#include "train/turned.h"

/* The state's entries that belong to a set, in the order in which the file has them. */
typedef struct layout {
    int *index; /* of the model's entries */
    int count;
    size_t largest; /* bytes of the largest tensor */
} layout;

static bool in_set(lki_state_set set, lks_state_kind kind)
{
    return kind == LKS_PARAMETER || kind == LKS_BUFFER ||
           (kind != LKS_GRADIENT && set == LKI_STATE_ALL);
}

static lks_status make_layout(lki_arena *arena, const lks_model *model, lki_state_set set,
                              layout *out)
{
    const int entries = lks_model_state_count(model);
    void *memory;
    *out = (layout){0};
    LKI_TRY(lki_arena_alloc(arena, &memory, (size_t)(entries + 1) * sizeof(int),
                            "the order of saved tensors"));
    out->index = memory;
    for (size_t width = 8; width > 0; --width) {
        for (int i = 0; i < entries; ++i) {
            const lks_state_info info = lks_model_state_info(model, i);
            if (!in_set(set, info.kind) || lks_dtype_size(info.dtype) != width) continue;
            out->index[out->count++] = i;
            if (info.bytes > out->largest) out->largest = info.bytes;
        }
    }
    return LKS_OK;
}

static json_t *describe_tensor(const lks_state_info *info, size_t begin)
{
    json_t *shape = json_array();
    for (int d = 0; d < info->shape.ndim; ++d) {
        if (json_array_append_new(shape, json_integer(info->shape.dim[d])) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", lks_dtype_name(info->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)(begin + info->bytes));
}

/* The header's text, padded with spaces to a multiple of 8; freed with free(). NULL: no memory. */
static char *make_header(const lks_model *model, const layout *order)
{
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    size_t begin = 0;
    bool whole = header != NULL;
    for (int i = 0; i < order->count; ++i) {
        const lks_state_info info = lks_model_state_info(model, order->index[i]);
        whole = whole && json_object_set_new(header, info.name, describe_tensor(&info, begin)) == 0;
        begin += info.bytes;
    }
    const size_t length = whole ? json_dumpb(header, NULL, 0, JSON_COMPACT) : 0;
    const size_t padded = (length + 7) / 8 * 8;
    char *text = length ? malloc(padded + 1) : NULL;
    if (text) {
        memset(text, ' ', padded);
        text[padded] = 0;
        /* Without memory for its own the writer stops early. */
        whole = json_dumpb(header, text, length, JSON_COMPACT) == length;
    }
    json_decref(header);
    if (whole) return text;
    free(text);
    return NULL;
}

static lks_status saved_check_finite(const lks_state_info *info, const void *data, int64_t step)
{
    if (info->dtype != LKS_F32 || info->kind == LKS_OPTIMIZER) return LKS_OK;
    const float *value = data;
    for (size_t i = 0; i < info->bytes / sizeof(float); ++i) {
        if (isfinite(value[i])) continue;
        return LKI_FAIL(LKS_E_NUMERIC,
                        "%s '%s' is not finite after step %" PRId64 ": element %zu is %g; it is "
                        "not saved; look for data that is not finite, or lower the learning rate, "
                        "and continue from what was saved last",
                        info->kind == LKS_PARAMETER ? "parameter"
                        : info->kind == LKS_CARRIED ? "carried state"
                                                    : "buffer",
                        info->name, step, i, (double)value[i]);
    }
    return LKS_OK;
}

static lks_status write_part(lki_writer *writer, lki_hash_stream *hash, lki_identity *sum,
                             const void *data, size_t bytes)
{
    lki_hash_stream_add(hash, data, bytes);
    sum->bytes += bytes;
    return lki_writer_write(writer, data, bytes);
}

/* The entry whose values are written under the name of entry `index`: weights alone are averages,
 * where the model has been asked to use them. */
static int source_of(const lks_model *model, lki_state_set set, int index)
{
    const lks_state_info info = lks_model_state_info(model, index);
    const bool averages = set == LKI_STATE_WEIGHTS && lks_model_get_info(model).averages;
    if (!averages || info.kind != LKS_PARAMETER) return index;
    for (int i = 0; i < lks_model_state_count(model); ++i) {
        const lks_state_info other = lks_model_state_info(model, i);
        if (other.kind == LKS_AVERAGE && strcmp(strchr(other.name, '.') + 1, info.name) == 0)
            return i;
    }
    return index;
}

static lks_status state_write_all(lks_model *model, lki_state_set set, const layout *order,
                                  lki_writer *writer, lki_hash_stream *hash, lki_identity *sum,
                                  void *buffer, const char *header)
{
    uint8_t length[8];
    for (int i = 0; i < 8; ++i) length[i] = (uint8_t)((uint64_t)strlen(header) >> (8 * i));
    LKI_TRY(write_part(writer, hash, sum, length, sizeof(length)));
    LKI_TRY(write_part(writer, hash, sum, header, strlen(header)));
    for (int i = 0; i < order->count; ++i) {
        const lks_state_info info = lks_model_state_info(model, order->index[i]);
        LKI_TRY(lks_model_state_read(model, source_of(model, set, order->index[i]), buffer,
                                     info.bytes));
        LKI_TRY(saved_check_finite(&info, buffer, lks_model_progress(model).step));
        LKI_TRY(write_part(writer, hash, sum, buffer, info.bytes));
    }
    return LKS_OK;
}

lks_status lki_state_write(lks_model *model, lki_state_set set, lki_writer *writer,
                           lki_identity *identity)
{
    lki_arena arena = {.context = lks_model_context(model)};
    lki_identity sum = {0};
    layout order;
    void *buffer;
    char *header = NULL;
    lki_hash_stream *hash = NULL;
    lks_status status;
    LKI_TRY_OR(status, done, lki_hash_stream_open(&hash, arena.context));
    LKI_TRY_OR(status, done, make_layout(&arena, model, set, &order));
    LKI_TRY_OR(status, done, lki_arena_alloc(&arena, &buffer, order.largest, "a tensor to save"));
    header = make_header(model, &order);
    if (!header) {
        status = LKI_FAIL(LKS_E_NOMEM, "no memory for the header of a file of %d tensor%s",
                          order.count, LKI_S(order.count));
        goto done;
    }
    status = state_write_all(model, set, &order, writer, hash, &sum, buffer, header);
done:
    sum.checksum = lki_hash_stream_close(hash);
    if (identity) *identity = sum;
    free(header);
    lki_arena_release(&arena);
    return status;
}

/* Says why the file has no tensor of this name that would fit. */
static lks_status missing_tensor(const lks_tensor_file *file, const lks_state_info *info,
                                 const char *what)
{
    char name[LKI_NAME_TEXT];
    const size_t length = strlen(info->name);
    for (int i = 0; i < lks_tensor_file_count(file); i++) {
        const char *other = lks_tensor_file_entry(file, i).name;
        const size_t prefix = strlen(other) > length ? strlen(other) - length : 0;
        if (prefix == 0 || other[prefix - 1] != '.' || strcmp(other + prefix, info->name) != 0) {
            continue;
        }
        if (info->kind == LKS_OPTIMIZER || info->kind == LKS_AVERAGE) break;
        return LKI_FAIL(LKS_E_MISMATCH,
                        "%s has no tensor '%s', but has '%s': rename its tensors without the "
                        "prefix",
                        what, info->name, lki_name_print(other, name));
    }
    if (info->kind == LKS_AVERAGE) {
        return LKI_FAIL(LKS_E_MISMATCH,
                        "%s has no '%s': it was made without averages of the parameters (ema), and "
                        "they cannot begin later",
                        what, info->name);
    }
    if (info->kind == LKS_CARRIED) {
        return LKI_FAIL(LKS_E_MISMATCH,
                        "%s has no '%s': it was made without carry_state, so nothing was carried "
                        "from batch to batch; leave that out, or start in another folder",
                        what, info->name);
    }
    if (info->kind == LKS_OPTIMIZER) {
        return LKI_FAIL(LKS_E_MISMATCH,
                        "%s has no '%s', which this run's optimizer keeps: it was made with "
                        "another optimizer, or by another network",
                        what, info->name);
    }
    if (lks_tensor_file_count(file) == 0) {
        return LKI_FAIL(LKS_E_MISMATCH, "%s has no tensors, expected '%s'", what, info->name);
    }
    return LKI_FAIL(LKS_E_MISMATCH,
                    "%s has no tensor '%s', which the model needs (its first of %d is '%s'): it "
                    "belongs to another network",
                    what, info->name, lks_tensor_file_count(file),
                    lki_name_print(lks_tensor_file_entry(file, 0).name, name));
}

static bool same_tensor(const lks_tensor_entry *entry, const lks_state_info *info, bool turned)
{
    bool same = entry->dtype == info->dtype && entry->shape.ndim == info->shape.ndim;
    for (int d = 0; same && d < info->shape.ndim; d++) {
        same = entry->shape.dim[d] == info->shape.dim[turned ? info->shape.ndim - 1 - d : d];
    }
    return same;
}

/* The file's tensor for an entry; NULL: it has none that fits. */
static const void *matching(const lks_tensor_file *file, const lks_state_info *info)
{
    const int index = lks_tensor_file_find(file, info->name);
    if (index < 0) return NULL;
    const lks_tensor_entry entry = lks_tensor_file_entry(file, index);
    return same_tensor(&entry, info, lki_turned(file, info->name)) ? entry.data : NULL;
}

lks_status lki_state_check(const lks_model *model, lki_state_set set, const lks_tensor_file *file,
                           const char *what)
{
    int wanted = 0;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (!in_set(set, info.kind)) continue;
        wanted++;
        const int index = lks_tensor_file_find(file, info.name);
        if (index < 0) return missing_tensor(file, &info, what);
        const lks_tensor_entry entry = lks_tensor_file_entry(file, index);
        if (!same_tensor(&entry, &info, lki_turned(file, info.name))) {
            char found[LKI_TENSOR_TEXT], expected[LKI_TENSOR_TEXT];
            return LKI_FAIL(LKS_E_MISMATCH,
                            "%s belongs to another network: its '%s' is %s, the model's is %s",
                            what, info.name, lki_tensor_print(entry.dtype, &entry.shape, found),
                            lki_tensor_print(info.dtype, &info.shape, expected));
        }
    }
    if (set != LKI_STATE_ALL || wanted == lks_tensor_file_count(file)) return LKS_OK;
    for (int i = 0; i < lks_tensor_file_count(file); i++) {
        const char *name = lks_tensor_file_entry(file, i).name;
        const int index = lks_model_state_find(model, name);
        if (index >= 0 && in_set(set, lks_model_state_info(model, index).kind)) continue;
        char shown[LKI_NAME_TEXT];
        return LKI_FAIL(LKS_E_MISMATCH,
                        "%s has a tensor '%s', which the model does not: it belongs to another "
                        "network or optimizer",
                        what, lki_name_print(name, shown));
    }
    return LKS_OK;
}

/* Room for the largest entry of a set that the file, if there is one, does not give as it is. NULL: for none. */
static lks_status make_room(const lks_model *model, lki_state_set set, const lks_tensor_file *file,
                            void **room)
{
    size_t largest = 0;
    *room = NULL;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (!in_set(set, info.kind) || info.bytes <= largest) continue;
        if (file == NULL || matching(file, &info) == NULL || lki_turned(file, info.name))
            largest = info.bytes;
    }
    if (largest == 0) return LKS_OK;
    *room = malloc(largest);
    if (*room != NULL) return LKS_OK;
    return LKI_FAIL(LKS_E_NOMEM, "no memory for a tensor of %zu bytes that rank 0 has read",
                    largest);
}

lks_status lki_state_put(lks_model *model, lki_state_set set, const lks_tensor_file *file)
{
    void *room;
    lks_status status = lki_agree(model, make_room(model, set, file, &room));
    for (int i = 0; i < lks_model_state_count(model) && status == LKS_OK; i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (!in_set(set, info.kind)) continue;
        const void *given = file != NULL ? matching(file, &info) : NULL;
        lks_status read = LKS_OK;
        if (file != NULL && given == NULL) /* what it has goes to all */
            read = lks_model_state_read(model, i, room, info.bytes);
        if (read != LKS_OK) memset(room, 0, info.bytes);
        if (given != NULL && lki_turned(file, info.name)) {
            lki_turn(&info.shape, given, room);
            given = NULL;
        }
        /* Values of the file are only read. */
        void *values = given != NULL ? (void *)(uintptr_t)given : room;
        status = lki_spread_entry(model, i, values, info.bytes);
        if (status == LKS_OK) status = read;
    }
    free(room);
    return lki_agree(model, status);
}

static bool has_spread(const lks_model *model)
{
    for (int i = 0; i < lks_model_state_count(model); i++)
        if (lks_model_state_info(model, i).spread) return true;
    return false;
}

lks_status lki_state_attend(lks_model *model)
{
    void *room = NULL;
    if (!has_spread(model)) return LKS_OK;
    lks_status status = lki_agree(
        model, lki_leads(model) ? LKS_OK : make_room(model, LKI_STATE_ALL, NULL, &room));
    for (int i = 0; i < lks_model_state_count(model) && !lki_leads(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.spread && status == LKS_OK)
            status = lks_model_state_read(model, i, room, info.bytes);
    }
    free(room);
    return status;
}

static lks_status weights_save(lks_model *model, const char *path)
{
    const double begin = lki_seconds();
    lki_writer *writer;
    LKI_TRY(lki_writer_open(&writer, lks_model_context(model), path));
    lki_writer_tidy(writer);
    const lks_status status = lki_state_write(model, LKI_STATE_WEIGHTS, writer, NULL);
    if (status != LKS_OK) {
        lki_writer_abandon(writer);
        return status;
    }
    LKI_TRY(lki_writer_commit(writer));
    lki_log_line(lks_model_context(model), LKS_LOG_DEBUG, "saved '%.400s' in %.3f s", path,
                 lki_seconds() - begin);
    return LKS_OK;
}

lks_status lks_weights_save(lks_model *model, const char *path)
{
    if (model == NULL) return LKI_FAIL_NULL(model);
    if (path == NULL) return LKI_FAIL_NULL(path);
    LKI_TRY(lki_check_together(model));
    return lki_agree(model, lki_leads(model) ? weights_save(model, path) : LKS_OK);
}

/* Names what the file does not give. */
static lks_status check_matching(const lks_model *model, const lks_tensor_file *file,
                                 const char *what)
{
    int fit = 0;
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        if (info.kind == LKS_PARAMETER && matching(file, &info) != NULL) fit++;
    }
    if (fit == 0)
        return LKI_FAIL(LKS_E_MISMATCH,
                        "%s has no parameter of this model with its shape: it belongs to another "
                        "network",
                        what);
    for (int i = 0; i < lks_model_state_count(model); i++) {
        const lks_state_info info = lks_model_state_info(model, i);
        char found[LKI_TENSOR_TEXT], expected[LKI_TENSOR_TEXT];
        if (!in_set(LKI_STATE_WEIGHTS, info.kind) || matching(file, &info) != NULL) continue;
        const int index = lks_tensor_file_find(file, info.name);
        lks_tensor_entry entry = {0};
        if (index >= 0) entry = lks_tensor_file_entry(file, index);
        lki_log_line(lks_model_context(model), LKS_LOG_WARN,
                     "%s is not taken from %s, which has %s%s; the model's is %s", info.name, what,
                     index < 0 ? "none" : "",
                     index < 0 ? "" : lki_tensor_print(entry.dtype, &entry.shape, found),
                     lki_tensor_print(info.dtype, &info.shape, expected));
    }
    return LKS_OK;
}

/* A file that fits the model, or a part of it; NULL with a failure. */
static lks_status weights_open(lks_tensor_file **file, const lks_model *model, const char *path,
                               bool part)
{
    char what[256];
    snprintf(what, sizeof what, "'%s'", path);
    LKI_TRY(lks_tensor_file_open(file, lks_model_context(model), path));
    const lks_status status = part ? check_matching(model, *file, what)
                                   : lki_state_check(model, LKI_STATE_WEIGHTS, *file, what);
    if (status == LKS_OK) return LKS_OK;
    lks_tensor_file_close(*file);
    *file = NULL;
    return status;
}

static lks_status weights_load(lks_model *model, const char *path, bool part)
{
    const double begin = lki_seconds();
    lks_tensor_file *file = NULL;
    LKI_TRY(lki_agree(model, lki_leads(model) ? weights_open(&file, model, path, part) : LKS_OK));
    const lks_status status = lki_state_put(model, LKI_STATE_WEIGHTS, file);
    lks_tensor_file_close(file);
    if (status == LKS_OK && lki_leads(model))
        lki_log_line(lks_model_context(model), LKS_LOG_DEBUG, "loaded '%.400s' in %.3f s", path,
                     lki_seconds() - begin);
    return status;
}

lks_status lks_weights_load(lks_model *model, const char *path)
{
    if (model == NULL) return LKI_FAIL_NULL(model);
    if (path == NULL) return LKI_FAIL_NULL(path);
    return weights_load(model, path, false);
}

lks_status lks_weights_load_matching(lks_model *model, const char *path)
{
    if (model == NULL) return LKI_FAIL_NULL(model);
    if (path == NULL) return LKI_FAIL_NULL(path);
    return weights_load(model, path, true);
}
