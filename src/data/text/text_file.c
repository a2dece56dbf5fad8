#include "data/text/text_file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "numeric/hash.h"

bool lki_text_file_is(const char *name)
{
    static const char *const ends[] = {".txt", ".txt.gz", ".tokens"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (name[0] != '.' && lki_text_ends(name, ends[i])) return true;
    return false;
}

/* ---------------------------------------------------------------- the files of a folder */

/* A list while it grows, in the arena. */
typedef struct file_entry {
    struct file_entry *next;
    const char *path;
} file_entry;

static lks_status add_file(file_entry **list, lki_arena *arena, const char *folder,
                           const char *name)
{
    char path[PATH_MAX];
    void *memory;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return lki_fail_io("open", name, ENAMETOOLONG);
    LKI_TRY(lki_arena_alloc(arena, &memory, sizeof(file_entry), "a text's file"));
    file_entry *added = memory;
    added->next = *list;
    *list = added;
    return lki_arena_string(arena, &added->path, path);
}

static lks_status read_folder(file_entry **list, int *count, lki_arena *arena, const char *folder)
{
    DIR *open = opendir(folder);
    lks_status status = LKS_OK;
    int error = 0;
    if (open == NULL) return lki_fail_io("open", folder, errno);
    for (const struct dirent *e; status == LKS_OK && (e = lki_folder_next(open, &error)) != NULL;) {
        if (!lki_text_file_is(e->d_name)) continue;
        status = add_file(list, arena, folder, e->d_name);
        ++*count;
    }
    closedir(open);
    if (status == LKS_OK && error != 0) status = lki_fail_io("read the folder", folder, error);
    return status;
}

static int in_order_of_names(const void *a, const void *b)
{
    return strcmp(((const lki_joined_file *)a)->name, ((const lki_joined_file *)b)->name);
}

static lks_status list_parts(lki_joined_file **out, lki_text_file *text, const char *folder)
{
    file_entry *list = NULL;
    int count = 0;
    void *memory;
    LKI_TRY(read_folder(&list, &count, &text->arena, folder));
    if (count == 0)
        return LKI_FAIL(LKS_E_IO,
                        "'%.300s' is a folder without a text, expected files that end in .txt, "
                        ".txt.gz or .tokens",
                        folder);
    LKI_TRY(lki_arena_alloc(&text->arena, &memory, (size_t)count * sizeof(lki_joined_file),
                            "the files of a text"));
    lki_joined_file *part = memory;
    for (int i = 0; list != NULL; list = list->next) part[i++].name = list->path;
    qsort(part, (size_t)count, sizeof *part, in_order_of_names);
    text->passage.part = *out = part;
    text->passage.parts = count;
    return LKS_OK;
}

/* Where each begins, and the hash of all, a file at a time. */
static lks_status measure_parts(lki_text_file *text, lki_joined_file *part, lki_hash_stream *stream)
{
    for (int i = 0; i < text->passage.parts; i++) {
        lki_file file;
        LKI_TRY(lki_file_open(&file, text->arena.context, part[i].name));
        part[i].first = text->passage.bytes;
        text->passage.bytes += file.bytes;
        lki_hash_stream_add(stream, file.data, file.bytes);
        lki_file_close(&file);
    }
    return LKS_OK;
}

static lks_status open_texts(lki_text_file *text, const char *folder)
{
    lki_hash_stream *stream;
    lki_joined_file *part = NULL;
    LKI_TRY(list_parts(&part, text, folder));
    LKI_TRY(lki_hash_stream_open(&stream, text->arena.context));
    const lks_status status = measure_parts(text, part, stream);
    text->hash = lki_hash_stream_close(stream);
    return status;
}

/* ---------------------------------------------------------------- a text */

lks_status lki_text_file_open(lki_text_file *out, lks_context *context, const char *path)
{
    *out = (lki_text_file){.passage.name = path, .arena.context = context};
    if (lki_folder_is(path)) return open_texts(out, path);
    LKI_TRY(lki_file_open(&out->file, context, path));
    out->passage.text = (const char *)out->file.data;
    out->passage.bytes = out->file.bytes;
    return LKS_OK;
}

uint64_t lki_text_file_hash(const lki_text_file *text)
{
    return text->passage.part != NULL ? text->hash
                                      : lki_hash(text->passage.text, text->passage.bytes);
}

static lks_status fail_changed(const char *path)
{
    return LKI_FAIL(LKS_E_IO, "'%.300s' changed while it was read; begin again when it is complete",
                    path);
}

/* One file of a folder to its place. */
static lks_status load_part(const lki_text_file *text, int number, char *to)
{
    const lki_joined_file *part = &text->passage.part[number];
    const bool last = number + 1 == text->passage.parts;
    const size_t bytes = (last ? text->passage.bytes : part[1].first) - part->first;
    lki_file file;
    LKI_TRY(lki_file_open(&file, text->arena.context, part->name));
    const bool same = file.bytes == bytes;
    if (same && bytes > 0) memcpy(to + part->first, file.data, bytes);
    lki_file_close(&file);
    return same ? LKS_OK : fail_changed(part->name);
}

lks_status lki_text_file_load(lki_text_file *text)
{
    const size_t bytes = text->passage.bytes;
    if (text->passage.part == NULL || text->memory != NULL || bytes == 0) return LKS_OK;
    LKI_TRY(lki_alloc(text->arena.context, &text->memory, bytes, "the texts of a folder"));
    for (int i = 0; i < text->passage.parts; i++) LKI_TRY(load_part(text, i, text->memory));
    text->passage.text = text->memory;
    return lki_hash(text->memory, bytes) == text->hash ? LKS_OK : fail_changed(text->passage.name);
}

void lki_text_file_close(lki_text_file *text)
{
    lki_file_close(&text->file);
    if (text->memory != NULL) lki_free(text->arena.context, text->memory, text->passage.bytes);
    lki_arena_release(&text->arena);
    *text = (lki_text_file){.arena.context = text->arena.context};
}
