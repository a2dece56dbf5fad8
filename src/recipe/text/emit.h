/* JSON and YAML as text that grows. */
#ifndef LKI_RECIPE_EMIT_H
#define LKI_RECIPE_EMIT_H

#include "recipe/text/setting.h"

enum { LKI_EMIT_DEPTH = LKI_YAML_MAX_DEPTH + 8 };

/* Zero but for these is an empty text: */
typedef struct lki_emit {
    bool yaml;  /* on one line, with quotes only where they are needed */
    int indent; /* of JSON: 0: on one line */

    char *text; /* NULL: nothing yet */
    size_t used, room;
    bool failed; /* there was no memory, or it was nested too deep */
    int depth;
    struct {
        bool flat, after_key;
        int64_t count;
    } level[LKI_EMIT_DEPTH];
} lki_emit;

/* A value, alone or in what is open; in a map each behind its key. */
void lki_emit_open(lki_emit *emit, char bracket, bool flat); /* '{' or '['; flat: on one line */
void lki_emit_close(lki_emit *emit, char bracket);
void lki_emit_key(lki_emit *emit, const char *key);
void lki_emit_int(lki_emit *emit, int64_t number);
void lki_emit_real(lki_emit *emit, double number); /* null where it is none */
void lki_emit_bool(lki_emit *emit, bool value);
void lki_emit_null(lki_emit *emit);
void lki_emit_string(lki_emit *emit, const char *text); /* UTF-8; NULL, or what is none: null */
void lki_emit_hex(lki_emit *emit, uint64_t number);     /* a text of 16 digits */

/* A tree: plain scalars become numbers, truth values or null where they look like it. */
void lki_emit_tree(lki_emit *emit, const lki_yaml *node);
void lki_emit_setting(lki_emit *emit, const lki_setting *setting, lki_type type);

void lki_emit_raw(lki_emit *emit, const char *text, size_t bytes);
/* The text, to be freed with free(), and NULL where `what` had no memory: then *status, where it was
 * OK, is LKS_E_NOMEM. Empties `emit`. */
char *lki_emit_take(lki_emit *emit, const char *what, lks_status *status);

#endif
