/* YAML as a tree: limits hold, and what is printed is read as the same value. The same bytes as a file of the toy network,
 * as lines and as JSON: what is taken is a configuration. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "recipe/text/emit.h"
#include "recipe/text/network_file.h"
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

static char *printed(const lki_yaml *root, bool yaml)
{
    lki_emit emit = {.yaml = yaml};
    lks_status status = LKS_OK;
    lki_emit_tree(&emit, root);
    char *text = lki_emit_take(&emit, "a tree", &status);
    FUZZ_CHECK(text != NULL);
    return text;
}

/* As JSON, which another library reads. */
static json_t *json_of(const lki_yaml *root)
{
    char *text = printed(root, false);
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    if (json == NULL) fprintf(stderr, "%s\n", text);
    FUZZ_CHECK(json != NULL);
    free(text);
    return json;
}

static void check_printed(lki_heap *pool, const lki_yaml *root)
{
    const lki_yaml *again;
    json_t *one = json_of(root);
    char *text = printed(root, true);
    FUZZ_CHECK(strlen(text) <= root->bytes);
    const lks_status status = lki_yaml_read_file(&again, pool, fuzz_file(1, text, strlen(text)));
    if (status != LKS_OK) fprintf(stderr, "%s\n", text);
    FUZZ_CHECK(status == LKS_OK);
    json_t *other = json_of(again);
    if (!json_equal(one, other)) fprintf(stderr, "%s\n", text);
    FUZZ_CHECK(json_equal(one, other) && again->weight == root->weight &&
               again->height == root->height && again->bytes <= root->bytes);
    json_decref(one);
    json_decref(other);
    free(text);
}

static void check_network(lks_status status, const lki_yaml *root)
{
    if (status != LKS_OK) {
        fuzz_check_failure(status);
        return;
    }
    count_nodes(root, 0);
    FUZZ_CHECK(root->kind == LKI_YAML_MAP && root->count == 7 && !lki_network_file_is(root));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lki_heap pool = {0};
    const lki_yaml *root;
    const lks_status status = lki_yaml_read_file(&root, &pool, fuzz_file(0, data, bytes));
    if (status == LKS_OK) {
        count_nodes(root, 0);
        check_printed(&pool, root);
        if (lki_network_file_is(root)) {
            const lki_yaml *network;
            const lks_status taken = lki_network_file_tree(&network, &pool, "n.json", NULL, root);
            check_network(taken, network);
        }
    } else {
        fuzz_check_failure(status);
    }
    const lks_status lines = lki_network_file_read(&root, &pool, fuzz_file(0, data, bytes), "bias");
    check_network(lines, root);
    lki_heap_clear(&pool);
    return 0;
}
