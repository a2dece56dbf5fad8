/*
 * Layers by oneDNN, 2.6 and 3.x, to compare with: one pass over `count` samples in the calling thread alone, on
 * memory of its own. Activations are NHWC; Winograd's may be in any layout, and nothing counts for changing it.
 */
#ifndef BENCH_ONEDNN_H
#define BENCH_ONEDNN_H

#include "backend/cpu/cpu.h"

typedef enum onednn_pass { ONEDNN_FORWARD, ONEDNN_DATA, ONEDNN_WEIGHT } onednn_pass;
typedef enum onednn_kind { ONEDNN_DIRECT, ONEDNN_WINOGRAD, ONEDNN_DENSE } onednn_kind;
typedef struct onednn_layer onednn_layer;

/* NULL where the library has none. ONEDNN_DENSE is of a shape of one pixel. */
onednn_layer *onednn_layer_create(const lki_conv_shape *s, int64_t count, onednn_pass pass,
                                  onednn_kind kind);
/* A gradient of the weight ends in the order of parameters. */
void onednn_layer_run(onednn_layer *layer);
void onednn_layer_destroy(onednn_layer *layer); /* NULL is fine */
const char *onednn_layer_name(const onednn_layer *layer);
const char *onednn_version(void);

#endif
