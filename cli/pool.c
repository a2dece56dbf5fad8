#include "cli/pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/exit_code.h"

struct pool_block {
    struct pool_block *next;
    max_align_t data[];
};

void *pool_alloc(cli_pool *pool, size_t bytes)
{
    struct pool_block *block = calloc(1, sizeof *block + bytes);
    if (block == NULL) {
        fprintf(stderr, "lockstep: out of memory: %zu bytes for the command\n", bytes);
        exit(exit_code_of(LKS_E_NOMEM));
    }
    block->next = pool->blocks;
    pool->blocks = block;
    return block->data;
}

char *pool_copy(cli_pool *pool, const char *text, size_t bytes)
{
    char *copy = pool_alloc(pool, bytes + 1);
    memcpy(copy, text, bytes);
    return copy;
}

char *pool_format(cli_pool *pool, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = pool_alloc(pool, (size_t)length + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

void pool_clear(cli_pool *pool)
{
    while (pool->blocks != NULL) {
        struct pool_block *next = pool->blocks->next;
        free(pool->blocks);
        pool->blocks = next;
    }
}
