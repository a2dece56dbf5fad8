/* Memory that lives as long as the command: strings and trees, freed together. */
#ifndef CLI_POOL_H
#define CLI_POOL_H

#include <stddef.h>

typedef struct cli_pool {
    struct pool_block *blocks; /* all zero is an empty cli_pool */
} cli_pool;

/* Zeroed, aligned for any type. Ends the program with a sentence when there is no memory. */
void *pool_alloc(cli_pool *pool, size_t bytes);
char *pool_copy(cli_pool *pool, const char *text, size_t bytes); /* adds the final 0 */
char *pool_format(cli_pool *pool, const char *format, ...) __attribute__((format(printf, 2, 3)));
void pool_clear(cli_pool *pool);

#endif
