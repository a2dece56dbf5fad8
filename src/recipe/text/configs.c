#include "recipe/text/configs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "base/check.h"
#include "recipe/text/setting.h"

static const char usual[] = "default";

const char *lki_configs_split(const char **name, lki_heap *heap, const char *path)
{
    const char *hash = strrchr(path, '#');
    *name = NULL;
    if (hash == NULL || access(path, F_OK) == 0) return path;
    *name = lki_heap_format(heap, "%s", hash + 1);
    return lki_heap_copy(heap, path, (size_t)(hash - path));
}

static const lki_yaml *value_in(const lki_yaml *map, const char *key)
{
    if (map->kind != LKI_YAML_MAP) return NULL;
    for (const lki_yaml_entry *e = map->first; e != NULL; e = e->next)
        if (strcmp(e->key->text, key) == 0) return e->value;
    return NULL;
}

/* "a, b, c", as many as a sentence bears. */
static const char *list_names(char *out, size_t size, const lki_yaml *configs)
{
    size_t used = 0;
    out[0] = '\0';
    for (const lki_yaml_entry *e = configs->first; e != NULL; e = e->next) {
        if (used + strlen(e->key->text) + 8 > size) {
            snprintf(out + used, size - used, ", ...");
            break;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%s", used > 0 ? ", " : "",
                                 e->key->text);
    }
    return out;
}

static lks_status not_there(const char *path, const char *name, const lki_yaml *configs)
{
    char names[400];
    lki_nearest near = {.word = name != NULL ? name : ""};
    for (const lki_yaml_entry *e = configs->first; e != NULL; e = e->next)
        lki_nearest_offer(&near, e->key->text);
    list_names(names, sizeof names, configs);
    if (name == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s has several configurations; choose one with --config: %s", path, names);
    return LKI_FAIL(LKS_E_INVALID, "%s has no configuration '%.60s'%s%s, expected one of %s", path,
                    name, near.best != NULL ? "; the nearest is " : "",
                    near.best != NULL ? near.best : "", names);
}

/* NULL: the file has no `configs`. */
static lks_status find_all(const lki_yaml **out, const char *path, const lki_yaml *root)
{
    *out = value_in(root, LKI_CONFIGS);
    if (*out == NULL || ((*out)->kind == LKI_YAML_MAP && (*out)->count > 0)) return LKS_OK;
    return LKI_FAIL(LKS_E_INVALID,
                    "%s:%d: " LKI_CONFIGS
                    " is a map of configurations by name, such as '" LKI_CONFIGS
                    ": {fast: {train.epochs: 3}}'",
                    path, (*out)->line);
}

lks_status lki_configs_find(const lki_yaml **out, const char *path, const char *name,
                            const lki_yaml *root)
{
    const lki_yaml *configs;
    *out = NULL;
    LKI_TRY(find_all(&configs, path, root));
    if (configs == NULL && name == NULL) return LKS_OK;
    if (configs == NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s is one configuration, without names (" LKI_CONFIGS
                        "); drop --config, or #%.60s",
                        path, name);
    const lki_yaml *found = value_in(configs, name != NULL ? name : usual);
    if (found == NULL) return not_there(path, name, configs);
    if (lki_yaml_is_null(found)) return LKS_OK;
    if (found->kind != LKI_YAML_MAP || value_in(found, LKI_CONFIGS) != NULL)
        return LKI_FAIL(LKS_E_INVALID,
                        "%s:%d: configuration '%.60s' is not a map of sections and keys alone",
                        path, found->line, name != NULL ? name : usual);
    *out = found;
    return LKS_OK;
}

lks_status lks_recipe_names(const char *path, char **out)
{
    lki_heap heap = {0};
    const lki_yaml *root, *configs = NULL;
    const char *name;
    if (out == NULL) return LKI_FAIL_NULL(out);
    *out = NULL;
    if (path == NULL) return LKI_FAIL_NULL(path);
    path = lki_configs_split(&name, &heap, path);
    lks_status status = lki_yaml_read_file(&root, &heap, path);
    if (status == LKS_OK) status = find_all(&configs, path, root);
    const size_t size = configs != NULL ? configs->bytes + 1 : 1;
    char *text = calloc(1, size);
    size_t used = 0;
    for (const lki_yaml_entry *e = configs != NULL ? configs->first : NULL;
         e != NULL && text != NULL; e = e->next)
        used += (size_t)snprintf(text + used, size - used, "%s\n", e->key->text);
    if (status == LKS_OK && text == NULL) status = LKI_FAIL(LKS_E_NOMEM, "no memory for names");
    status = lki_heap_status(&heap, status);
    lki_heap_clear(&heap);
    if (status == LKS_OK)
        *out = text;
    else
        free(text);
    return status;
}
