/*
 * Dense layers and convolutions against their definition in bits: scalar loops that take terms in
 * the written order, in blocks of 64 of their numbers, each an f32 accumulator from +0, in groups of 16
 * blocks added in f32, in a total in double; or in double alone where the result has fewer than 16
 * columns; or in two chains of factors that are bfloat16 (docs/numerics.md 3). So an element's bits depend neither on tiles, tails and strips nor on how samples, rows and
 * replicas are cut.
 */
#ifndef LKT_CPU_PRODUCTS_H
#define LKT_CPU_PRODUCTS_H

#include "cpu/vectors.h"
#include "numeric/bf16.h"
#include "numeric/tree.h"

#ifdef LKT_HAVE_CPU

/* The definition, with a check at each access, takes longer than all kernels. */
static inline int cases(void)
{
    return lkt_in_part() ? 12 : 25;
}

/* A sum of products as it is defined: terms come with their numbers, ascending. */
typedef struct sum {
    float block, group;
    double total;
    int64_t number; /* of the last term */
    bool narrow;    /* all in double */
    bool bf16;      /* factors are rounded to bfloat16: `block` has the even terms of 32, and */
    float odd;      /* the odd ones; `group` is the sum of those before */
} sum;

/* An empty sum, of an element of a result with so many columns. */
static sum sum_of(int64_t columns)
{
    return (sum){.narrow = columns < 16};
}

static void end_block(sum *s)
{
    s->group += s->bf16 ? s->block + s->odd : s->block;
    s->block = s->odd = 0;
}

/* Also before numbers start anew. */
static void end_group(sum *s)
{
    end_block(s);
    s->total += (double)s->group;
    s->group = 0;
    s->number = 0;
}

static void add_term(sum *s, int64_t number, float a, float b)
{
    if (s->bf16) {
        float *of = number % 2 == 0 ? &s->block : &s->odd;
        if (number / 32 != s->number / 32) end_block(s);
        s->number = number;
        *of = fmaf(lki_bf16_round(a), lki_bf16_round(b), *of);
        return;
    }
    if (s->narrow) {
        s->total += (double)a * (double)b;
        return;
    }
    if (number / 1024 != s->number / 1024)
        end_group(s);
    else if (number / 64 != s->number / 64)
        end_block(s);
    s->number = number;
    s->block = fmaf(a, b, s->block);
}

static float total_of(sum *s)
{
    end_group(s);
    return (float)s->total;
}

#endif
#endif
