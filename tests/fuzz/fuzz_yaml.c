/* YAML as a tree: limits hold, and what is printed is read as the same value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/out/text.h"
#include "recipe/text/yaml.h"
#include "recipe/text/setting.h"
#include "fuzz/fuzz.h"

/* Counts values, each alias as what it stands for. */
static int count_nodes(const lki_yaml *node, int depth)
{
    int nodes = 1, entries = 0;
    FUZZ_CHECK(depth <= LKI_YAML_MAX_DEPTH);
    FUZZ_CHECK((node->kind == LKI_YAML_SCALAR) == (node->text != NULL));
    for (const lki_yaml_entry *e = node->first; e != NULL; e = e->next) {
        FUZZ_CHECK((node->kind == LKI_YAML_MAP) == (e->key != NULL));
        nodes += count_nodes(e->value, depth + 1) + (e->key != NULL);
        entries++;
    }
    FUZZ_CHECK(entries == node->count && nodes == node->weight && nodes <= LKI_YAML_MAX_NODES);
    return nodes;
}

static void check_printed(cli_pool *pool, const lki_yaml *root)
{
    char *text = NULL;
    size_t bytes;
    const lki_yaml *again;
    json_t *one = lki_yaml_json(root);
    FILE *out = open_memstream(&text, &bytes);
    FUZZ_CHECK(out != NULL && one != NULL);
    text_print_yaml(out, one);
    FUZZ_CHECK(fclose(out) == 0 && bytes <= root->bytes);
    const lks_status status = lki_yaml_read_file(&again, pool, fuzz_file(1, text, bytes));
    if (status != LKS_OK) fprintf(stderr, "%s\n", text);
    FUZZ_CHECK(status == LKS_OK);
    json_t *other = lki_yaml_json(again);
    if (!json_equal(one, other)) fprintf(stderr, "%s\n", text);
    FUZZ_CHECK(json_equal(one, other) && again->weight == root->weight &&
               again->height == root->height && again->bytes <= root->bytes);
    json_decref(one);
    json_decref(other);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    cli_pool pool = {0};
    const lki_yaml *root;
    const lks_status status = lki_yaml_read_file(&root, &pool, fuzz_file(0, data, bytes));
    if (status == LKS_OK) {
        count_nodes(root, 0);
        check_printed(&pool, root);
    } else {
        fuzz_check_failure(status);
    }
    pool_clear(&pool);
    return 0;
}
