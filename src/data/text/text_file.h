/*
 * The bytes of a text: a file's, or those of all texts of a folder, one behind the other in the byte order of their names, with nothing in
 * between (`cat *.txt`).
 */
#ifndef LKI_DATA_TEXT_TEXT_FILE_H
#define LKI_DATA_TEXT_TEXT_FILE_H

#include "data/text/tokenizer.h"

typedef struct lki_text_file {
    lki_passage passage; /* its text is there behind lki_text_file_load(), its bytes before */
    lki_file file;       /* of a file, which is mapped */
    void *memory;        /* of a folder: NULL, or the bytes */
    uint64_t hash;       /* of a folder */
    lki_arena arena;     /* names and places of its files */
} lki_text_file;

/* Whether a file of a folder is a text by its name: .txt, .txt.gz or .tokens, and not hidden. */
bool lki_text_file_is(const char *name);

/* Opens a file or folder; the files of a folder are looked at one by one. Closed by lki_text_file_close(), also after a failure. `path` must outlive
 * it. */
lks_status lki_text_file_open(lki_text_file *out, lks_context *context, const char *path);
/* lki_hash() of the bytes. */
uint64_t lki_text_file_hash(const lki_text_file *text);
/* Reads a folder's bytes into memory; of a file they are mapped. */
lks_status lki_text_file_load(lki_text_file *text);
void lki_text_file_close(lki_text_file *text); /* zeroed is fine */

#endif
