/* One operation written as a line: "conv2d filters=32 kernel=3x3 no_bias in=8x28x28x1". */
#ifndef LKI_RECIPE_NETWORK_LINE_H
#define LKI_RECIPE_NETWORK_LINE_H

#include <lockstep/graph.h>

#include "recipe/text/yaml.h"

typedef struct lki_line {
    const char *name;
    lki_yaml options;      /* a map, as a configuration has it */
    const char *in, *with; /* as they were given; NULL: they were not */
    int64_t samples;       /* lki_line_sizes() reads these three from in and with */
    lks_input_opts input;  /* shape and type of one sample */
    lks_shape second;      /* of the second input, where it is another one; ndim 0: not given */
    int64_t words;         /* the second input are tokens below this; 0: numbers */
} lki_line;

/*
 * Parts a line into words (by any white space, so that a wrapped line can be pasted): a name, `in`, `with`
 * and options: "kernel=3x3" and "mean=0.1,0.2" are lists, "no_bias" is bias: false,
 * "weight_init=uniform:0.5" gives weight_scale too and "weight_init=kaiming_normal:fan_out"
 * weight_fan_out: true. Sentences begin with `where`.
 */
LKS_MUSTUSE lks_status lki_line_read(lki_line *out, lki_heap *heap, const char *where,
                                     const char *text);

/* `in` is the number of samples and the shape of one (":u8" behind it: bytes; ":1000": tokens), `with` the shape of a
 * second input (":1000": tokens). */
LKS_MUSTUSE lks_status lki_line_sizes(lki_line *line, const char *where);

/* One more option. */
void lki_line_add(lki_heap *heap, lki_line *line, const char *key, const char *value);

#endif
