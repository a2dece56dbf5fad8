/*
 * Reading safetensors.
 *
 *   | N: u64, little-endian | header: N bytes of JSON | data ............................ |
 *   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
 *    "__metadata__": {"key": "text", ...}}
 *
 * Offsets count from the start of the data; tensors cover it without hole or overlap. A file may
 * come from anyone: nothing in the header is believed before it has been checked.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/check.h"
#include "base/json.h"
#include "base/shape.h"
#include "base/memory.h"
#include "numeric/hash.h"
#include "train/saved.h"

enum { LENGTH_BYTES = 8, MAX_HEADER = 100 * 1000 * 1000 };

typedef struct placed {
    lks_tensor_entry entry;
    size_t begin; /* in the data */
} placed;

struct lks_tensor_file {
    lks_context *context;
    lki_file file;
    lki_arena arena; /* the tensors, and copies of those that the file does not align */
    json_t *header;  /* owns names and metadata */
    placed *tensor;  /* in the order of the data */
    int count;
};

const char *lki_tensor_print(lks_dtype dtype, const lks_shape *shape, char buffer[LKI_TENSOR_TEXT])
{
    if (shape->ndim > 0) lki_shape_print(shape, buffer, LKI_TENSOR_TEXT);
    const size_t used = shape->ndim > 0 ? strlen(buffer) : 0;
    snprintf(buffer + used, LKI_TENSOR_TEXT - used, "%s%s", used ? " " : "", lks_dtype_name(dtype));
    return buffer;
}

const char *lki_name_print(const char *name, char buffer[LKI_NAME_TEXT])
{
    const size_t length = strlen(name), shown = length > 80 ? 77 : length;
    for (size_t i = 0; i < shown; ++i) {
        const unsigned char c = (unsigned char)name[i];
        buffer[i] = c < 0x20 || c == 0x7f ? '?' : name[i];
    }
    strcpy(buffer + shown, shown < length ? "..." : "");
    return buffer;
}

static lks_status bad_tensor(const char *path, const char *name, const char *problem)
{
    char text[LKI_NAME_TEXT];
    return LKI_FAIL(LKS_E_FORMAT, "'%s' is not a valid safetensors file: tensor '%s' %s", path,
                    lki_name_print(name, text), problem);
}

static lks_status parse_dtype(const char *path, const char *name, const char *text, lks_dtype *out)
{
    const lks_dtype known[] = {LKS_F32, LKS_U8, LKS_I32, LKS_I64};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
        if (strcmp(text, lks_dtype_name(known[i])) == 0) {
            *out = known[i];
            return LKS_OK;
        }
    }
    char shown[LKI_NAME_TEXT], tensor[LKI_NAME_TEXT];
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s': tensor '%s' has the type '%s', which this version does not read; "
                    "expected F32, I32, I64 or U8; convert it first",
                    path, lki_name_print(name, tensor), lki_name_print(text, shown));
}

static lks_status parse_shape(const char *path, const char *name, const json_t *json,
                              lks_tensor_entry *entry)
{
    const size_t ndim = json_array_size(json);
    if (!json_is_array(json)) return bad_tensor(path, name, "has no shape");
    if (ndim > LKS_MAX_DIMS) return bad_tensor(path, name, "has more than 5 dimensions");
    size_t bytes = lks_dtype_size(entry->dtype);
    entry->shape.ndim = (int)ndim;
    for (size_t d = 0; d < ndim; ++d) {
        const json_t *dim = json_array_get(json, d);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
            return bad_tensor(path, name, "has a dimension that is not a number of at least 0");
        }
        entry->shape.dim[d] = json_integer_value(dim);
        if (__builtin_mul_overflow(bytes, (size_t)entry->shape.dim[d], &bytes) ||
            bytes > PTRDIFF_MAX) {
            return bad_tensor(path, name, "has a shape of more bytes than memory can address");
        }
    }
    entry->bytes = bytes;
    return LKS_OK;
}

/* Everything about one tensor but how it lies beside the others. */
static lks_status parse_tensor(const char *path, const char *name, const json_t *json,
                               size_t data_bytes, placed *out)
{
    lks_tensor_entry *entry = &out->entry;
    const char *dtype = json_string_value(json_object_get(json, "dtype"));
    if (!dtype) return bad_tensor(path, name, "has no dtype");
    entry->name = name;
    LKI_TRY(parse_dtype(path, name, dtype, &entry->dtype));
    LKI_TRY(parse_shape(path, name, json_object_get(json, "shape"), entry));

    const json_t *offsets = json_object_get(json, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last)) {
        return bad_tensor(path, name, "has no data_offsets of two whole numbers");
    }
    const json_int_t b = json_integer_value(first), e = json_integer_value(last);
    if (b < 0 || e < b) return bad_tensor(path, name, "ends before it begins");
    if ((uint64_t)e > data_bytes) {
        return bad_tensor(path, name, "ends beyond the end of the file; the file is truncated");
    }
    if ((size_t)(e - b) != entry->bytes) {
        return bad_tensor(path, name, "has offsets that do not fit its shape and type");
    }
    out->begin = (size_t)b;
    return LKS_OK;
}

static lks_status check_metadata(const char *path, json_t *metadata)
{
    const char *key;
    json_t *value;
    bool valid = json_is_object(metadata);
    json_object_foreach(metadata, key, value)
    {
        valid = valid && json_is_string(value);
    }
    if (valid) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' is not a valid safetensors file: its __metadata__ is not a list of texts",
                    path);
}

static int by_place(const void *left, const void *right)
{
    const placed *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->entry.bytes != b->entry.bytes) return a->entry.bytes < b->entry.bytes ? -1 : 1;
    return strcmp(a->entry.name, b->entry.name);
}

/* Sorted tensors must cover [0, bytes) exactly. */
static lks_status check_cover(const char *path, const placed *tensor, int count, size_t bytes)
{
    size_t end = 0;
    for (int i = 0; i < count; ++i) {
        if (tensor[i].begin < end) {
            return bad_tensor(path, tensor[i].entry.name, "overlaps the one before it");
        }
        if (tensor[i].begin > end) {
            return bad_tensor(path, tensor[i].entry.name, "leaves a hole before it");
        }
        end = tensor[i].begin + tensor[i].entry.bytes;
    }
    if (end == bytes) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT,
                    "'%s' is not a valid safetensors file: its tensors end after %zu bytes of "
                    "data, the file after %zu",
                    path, end, bytes);
}

/* The header's bytes, after the claim about their number has been checked. */
static lks_status find_header(const lki_file *file, const char *path, size_t *header_bytes)
{
    uint64_t claim = 0;
    if (file->bytes < LENGTH_BYTES + 2) {
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' is not a safetensors file: it has %zu byte%s, expected at least 10",
                        path, file->bytes, LKI_S(file->bytes));
    }
    for (int i = 0; i < LENGTH_BYTES; ++i) claim |= (uint64_t)file->data[i] << (8 * i);
    const size_t rest = file->bytes - LENGTH_BYTES;
    if (claim > rest || claim > MAX_HEADER || claim < 2) {
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' is not a safetensors file, or is truncated: it claims a header of "
                        "%llu byte%s, expected 2 to %zu",
                        path, (unsigned long long)claim, LKI_S(claim),
                        rest < MAX_HEADER ? rest : MAX_HEADER);
    }
    if (file->data[LENGTH_BYTES] != '{') {
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' is not a safetensors file: its header does not begin with '{'", path);
    }
    *header_bytes = (size_t)claim;
    return LKS_OK;
}

static lks_status parse_header(lks_tensor_file *file, const char *path)
{
    size_t header_bytes = 0;
    LKI_TRY(find_header(&file->file, path, &header_bytes));
    const char *text = (const char *)file->file.data + LENGTH_BYTES;
    json_error_t problem;
    bool no_memory;
    file->header = lki_json_load(text, header_bytes, &problem, &no_memory);
    if (no_memory) {
        return LKI_FAIL(LKS_E_NOMEM, "'%s': no memory for its header of %zu bytes", path,
                        header_bytes);
    }
    if (!json_is_object(file->header)) {
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%s' is not a valid safetensors file: its header is not valid JSON at "
                        "byte %d",
                        path, problem.position);
    }
    const size_t data_bytes = file->file.bytes - LENGTH_BYTES - header_bytes;
    void *memory;
    LKI_TRY(lki_arena_alloc(&file->arena, &memory,
                            (json_object_size(file->header) + 1) * sizeof(placed),
                            "the tensors of a file"));
    file->tensor = memory;

    const char *name;
    json_t *value;
    json_object_foreach(file->header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            LKI_TRY(check_metadata(path, value));
            continue;
        }
        LKI_TRY(parse_tensor(path, name, value, data_bytes, &file->tensor[file->count]));
        ++file->count;
    }
    qsort(file->tensor, (size_t)file->count, sizeof(placed), by_place);
    return check_cover(path, file->tensor, file->count, data_bytes);
}

/* Points every tensor at its data; a copy where the file does not align it. */
static lks_status place_data(lks_tensor_file *file)
{
    size_t all = 0;
    for (int i = 0; i < file->count; ++i) all += file->tensor[i].entry.bytes;
    const uint8_t *data = file->file.data + (file->file.bytes - all);
    for (int i = 0; i < file->count; ++i) {
        lks_tensor_entry *entry = &file->tensor[i].entry;
        entry->data = data + file->tensor[i].begin;
        if (entry->bytes == 0 || (uintptr_t)entry->data % lks_dtype_size(entry->dtype) == 0) {
            continue;
        }
        void *copy;
        LKI_TRY(lki_arena_alloc(&file->arena, &copy, entry->bytes, "a copy of a tensor"));
        memcpy(copy, entry->data, entry->bytes);
        entry->data = copy;
    }
    return LKS_OK;
}

static lks_status check_identity(const lki_file *file, const char *path,
                                 const lki_identity *expected)
{
    if (file->bytes != expected->bytes) {
        return LKI_FAIL(LKS_E_FORMAT, "'%s' is damaged: it has %zu byte%s, expected %zu", path,
                        file->bytes, LKI_S(file->bytes), expected->bytes);
    }
    const uint64_t found = lki_hash(file->data, file->bytes);
    if (found == expected->checksum) return LKS_OK;
    return LKI_FAIL(LKS_E_FORMAT, "'%s' is damaged: its checksum is %016llx, expected %016llx",
                    path, (unsigned long long)found, (unsigned long long)expected->checksum);
}

lks_status lki_tensor_file_open(lks_tensor_file **out, lks_context *context, const char *path,
                                const lki_identity *expected)
{
    *out = NULL;
    void *memory;
    LKI_TRY(lki_alloc(context, &memory, sizeof(lks_tensor_file), "a tensor file"));
    lks_tensor_file *file = memory;
    file->context = context;
    file->arena.context = context;

    lks_status status;
    LKI_TRY_OR(status, failed, lki_file_open(&file->file, context, path));
    if (expected) LKI_TRY_OR(status, failed, check_identity(&file->file, path, expected));
    LKI_TRY_OR(status, failed, parse_header(file, path));
    LKI_TRY_OR(status, failed, place_data(file));
    *out = file;
    return LKS_OK;
failed:
    lks_tensor_file_close(file);
    return status;
}

lks_status lks_tensor_file_open(lks_tensor_file **out, lks_context *context, const char *path)
{
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (path == NULL) return LKI_FAIL_NULL(path);
    return lki_tensor_file_open(out, context, path, NULL);
}

void lks_tensor_file_close(lks_tensor_file *file)
{
    if (!file) return;
    json_decref(file->header);
    lki_arena_release(&file->arena);
    lki_file_close(&file->file);
    lki_free(file->context, file, sizeof(*file));
}

int lks_tensor_file_count(const lks_tensor_file *file)
{
    return file != NULL ? file->count : 0;
}

lks_tensor_entry lks_tensor_file_entry(const lks_tensor_file *file, int index)
{
    if (index < 0 || index >= lks_tensor_file_count(file)) return (lks_tensor_entry){0};
    return file->tensor[index].entry;
}

int lks_tensor_file_find(const lks_tensor_file *file, const char *name)
{
    for (int i = 0; name != NULL && i < lks_tensor_file_count(file); ++i) {
        if (strcmp(file->tensor[i].entry.name, name) == 0) return i;
    }
    return -1;
}

const char *lks_tensor_file_metadata(const lks_tensor_file *file, const char *key)
{
    if (file == NULL || key == NULL) return NULL;
    const json_t *metadata = json_object_get(file->header, "__metadata__");
    return json_string_value(json_object_get(metadata, key));
}
