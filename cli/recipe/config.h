/* The configuration of a run: a value for every key, from defaults, a YAML file and flags. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "cli/recipe/config_keys.h"
#include "cli/recipe/value.h"

typedef enum config_key {
#define X(id, name, type, range, fallback, only, change, help) KEY_##id,
    CONFIG_KEY_LIST(X)
#undef X
        KEY_COUNT,
    KEY_NONE = -1,
} config_key;

/* What a run that is resumed may do with a key; config_keys.h explains. */
typedef enum config_change { CHANGE_FREE, CHANGE_SAID, CHANGE_FIXED } config_change;

typedef struct config_row {
    cli_spec spec;
    const char *fallback; /* YAML; NULL: not set */
    const char *only;     /* names of the section that have this key; NULL: all */
    config_change change;
    const char *help;
} config_row;
extern const config_row config_rows[KEY_COUNT];

/* Later ones win. */
typedef enum config_source { FROM_DEFAULT, FROM_FILE, FROM_COMMAND } config_source;

typedef struct cli_config {
    cli_value value[KEY_COUNT];
    config_source source[KEY_COUNT];
    cli_pool pool; /* holds every text and tree */
} cli_config;

/* Every key at its default. */
LKS_MUSTUSE lks_status config_create(cli_config **out);
void config_destroy(cli_config *config); /* NULL is fine */

/* Sets what the file sets. */
LKS_MUSTUSE lks_status config_read(cli_config *config, const char *path);
/* The same from text that is called `name` in messages. */
LKS_MUSTUSE lks_status config_read_text(cli_config *config, const char *name, const char *text);
/* Sets one key from a flag: `text` is taken as it is, `where` is the flag. */
LKS_MUSTUSE lks_status config_set(cli_config *config, config_key key, const char *text,
                                  const char *where);
/* Sets a default that depends on other keys. */
LKS_MUSTUSE lks_status config_settle(cli_config *config, config_key key, const char *text);
/* Calls data that has a folder, but no name, as the folder is called. */
LKS_MUSTUSE lks_status config_name_data(cli_config *config);
/* Sets a.b=c from --set; c is YAML. */
LKS_MUSTUSE lks_status config_assign(cli_config *config, const char *assignment);

/*
 * Checks what concerns several keys and settles it. A key that the chosen name does not have is an
 * error, unless the name comes from a later source than the key: `--set optimizer.name=adam` drops
 * the file's rho. In the same way --steps replaces the file's epochs, and --epochs its steps.
 */
LKS_MUSTUSE lks_status config_resolve(cli_config *config);

/* Whether the key is set; its value. The key must have the type, and but for strings be set. */
bool config_has(const cli_config *config, config_key key);
int64_t config_int(const cli_config *config, config_key key);
double config_float(const cli_config *config, config_key key);
bool config_bool(const cli_config *config, config_key key);
const char *config_text(const cli_config *config, config_key key); /* NULL when not set */

/* "net.yaml:12" for a node in a key's list whose own place is "net.yaml:7"; or the flag. */
const char *config_where(cli_config *config, config_key key, const cli_node *node);

/* LKS_E_INVALID "<where>: <key> <sentence>" about the value of a key. */
lks_status config_fail(const cli_config *config, config_key key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* {"data": {"name": "mnist", ...}, ...}: every key but those the chosen names do not have. */
json_t *config_json(const cli_config *config);
/* The same as YAML; reading it gives the same configuration. */
void config_print(const cli_config *config, FILE *out);
/* The table of keys for the help. */
void config_keys_print(FILE *out);

#endif
