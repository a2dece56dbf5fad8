/* What another host answers to ps: what is taken of it is printed as lines that are taken again. */
#include <stdlib.h>
#include <string.h>

#include "cli/out/text.h"
#include "cli/running/row.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    cli_pool pool = {0};
    running_ranks list = {0}, again = {0};
    char *answer = pool_copy(&pool, (const char *)data, bytes);
    const bool good = row_read(&list, answer, bytes, "host", &pool);
    FUZZ_CHECK(good || list.count == 0);
    for (int i = 0; i < list.count; i++) {
        json_t *json = row_write(&pool, &list.rank[i]);
        char *text = text_json(json), *line = pool_format(&pool, "%s\n", text);
        FUZZ_CHECK(row_read(&again, line, strlen(line), "host", &pool) && again.count == i + 1);
        free(text);
        json_decref(json);
    }
    running_sort(&list);
    FUZZ_CHECK(list.count <= again.count);
    pool_clear(&pool);
    return 0;
}
