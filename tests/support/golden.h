/* Golden files, and networks whose parameters and samples come from integers: what others made of them. */
#ifndef LKT_GOLDEN_H
#define LKT_GOLDEN_H

#include <jansson.h>

#include <lockstep/lockstep.h>

/* A golden file of the sources, "tests/op/golden/ops.json"; a failure of the test if there is none. */
json_t *lkt_json_load(const char *path);

int64_t lkt_json_integer(const json_t *object, const char *key); /* 0 where there is none */
double lkt_json_number(const json_t *object, const char *key);   /* likewise */

/* 32 bits for each i: the numbers that golden files leave out, as tools/goldens/accuracy.py has them. */
uint32_t lkt_hashed(uint32_t i, uint32_t stream);

/* A parameter becomes ((lkt_hashed(i, stream) >> 8) * 2^-23 - 1) * bound + more. */
void lkt_golden_write(lks_model *model, const char *name, uint32_t stream, float bound, float more);
/* A step for each loss of the file, by three batches in turn, x[3 * batch][elements]. A loss may be `factor` times
 * as far from PyTorch's float64 as its own float32 runs are. `who` begins the sentence. */
void lkt_golden_train(lks_model *model, const json_t *golden, const char *who, const float *x,
                      const int32_t *y, int64_t elements, int batch, double lr);

#endif
