/* The configuration of a run: a value for every key, from defaults, a YAML file and flags. */
#ifndef LKI_RECIPE_CONFIG_H
#define LKI_RECIPE_CONFIG_H

#include "recipe/keys.h"
#include "recipe/text/emit.h"
#include "recipe/text/setting.h"

typedef enum lki_key {
#define X(id, name, type, range, fallback, change, help) LKI_KEY_##id,
    LKI_KEY_LIST(X)
#undef X
        LKI_KEY_COUNT,
    LKI_KEY_NONE = -1,
} lki_key;

/* What a run that is resumed may do with a key; keys.h explains. */
typedef enum lki_key_change { LKI_CHANGE_FREE, LKI_CHANGE_SAID, LKI_CHANGE_FIXED } lki_key_change;

typedef struct lki_key_row {
    lki_spec spec;
    const char *fallback; /* YAML; NULL: not set */
    lki_key_change change;
    const char *help; /* lki_key_help() is the whole */
} lki_key_row;
extern const lki_key_row lki_key_rows[LKI_KEY_COUNT];

/* Later ones win. */
typedef enum lki_setter { LKI_FROM_DEFAULT, LKI_FROM_FILE, LKI_FROM_COMMAND } lki_setter;

typedef struct lki_config {
    lki_setting value[LKI_KEY_COUNT];
    lki_setter source[LKI_KEY_COUNT];
    lki_heap heap; /* holds every text and tree */
} lki_config;

/* Every key at its default. */
LKS_MUSTUSE lks_status lki_config_create(lki_config **out);
void lki_config_destroy(lki_config *config); /* NULL is fine */

/* Sets what the file sets. */
LKS_MUSTUSE lks_status lki_config_read(lki_config *config, const char *path);
/* The same from text that is called `name` in messages. */
LKS_MUSTUSE lks_status lki_config_read_text(lki_config *config, const char *name, const char *text);
/* Sets one key from a flag: `text` is taken as it is, `where` is the flag. */
LKS_MUSTUSE lks_status lki_config_set(lki_config *config, lki_key key, const char *text,
                                      const char *where);
/* Sets a default that depends on other keys. */
LKS_MUSTUSE lks_status lki_config_settle(lki_config *config, lki_key key, const char *text);
/* Calls data that has a folder, but no name, as the folder is called. */
LKS_MUSTUSE lks_status lki_config_name_data(lki_config *config);
/* Sets a.b=c from --set; c is YAML. */
LKS_MUSTUSE lks_status lki_config_assign(lki_config *config, const char *assignment);

/*
 * Checks what concerns several keys and settles it. A key that the chosen name does not have is an
 * error, unless the name comes from a later source than the key: `--set optimizer.name=adam` drops
 * the file's rho. In the same way --steps replaces the file's epochs, and --epochs its steps.
 */
LKS_MUSTUSE lks_status lki_config_resolve(lki_config *config);

/* Whether the key is set; its value. The key must have the type, and but for strings be set. */
bool lki_config_has(const lki_config *config, lki_key key);
int64_t lki_config_int(const lki_config *config, lki_key key);
double lki_config_float(const lki_config *config, lki_key key);
bool lki_config_bool(const lki_config *config, lki_key key);
const char *lki_config_text(const lki_config *config, lki_key key); /* NULL when not set */

/* "net.yaml:12" for a node in a key's list whose own place is "net.yaml:7"; or the flag. */
const char *lki_config_where(lki_config *config, lki_key key, const lki_yaml *node);

/* LKS_E_INVALID "<where>: <key> <sentence>" about the value of a key. */
lks_status lki_config_fail(const lki_config *config, lki_key key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

lki_key lki_key_find(const char *name); /* LKI_KEY_NONE: there is none */
/* "optimizer.lr" -> "optimizer"; true when it is another one than the key's before. */
bool lki_key_section(int key, char section[32]);
/* "optimizer.lr" -> "lr" */
const char *lki_key_own_name(int key);
/* The key of the name that a section's other keys may depend on, "optimizer.name" of "optimizer.lr"; NONE:
 * it has none. */
lki_key lki_key_name(lki_key key);
/* The key of this name of its own in the same section, or NONE. */
lki_key lki_key_beside(lki_key key, const char *own);
enum { LKI_KEY_NAMES_SIZE = 400, LKI_KEY_HELP_SIZE = 600 };
/* What it means; returns `out`. */
const char *lki_key_help(lki_key key, char out[LKI_KEY_HELP_SIZE]);
/* Whether the key is for some names of its section alone; "sgd rmsprop": these. */
bool lki_key_only(lki_key key, char names[LKI_KEY_NAMES_SIZE]);
/* Whether it is for this name; NULL: for every one. */
bool lki_key_is_of(lki_key key, const char *name);
/* Whether the chosen name of its section does not have the key. */
bool lki_config_hides(const lki_config *config, int key);

/* {"data": {"name": "mnist", ...}, ...}: every key but those the chosen names do not have. */
void lki_config_emit(lki_emit *emit, const lki_config *config);
/* The same as YAML, a line for each key; reading it gives the same configuration. */
void lki_config_emit_yaml(lki_emit *emit, const lki_config *config);
#endif
