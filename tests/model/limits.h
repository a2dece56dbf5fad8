/* A model at its limits. */
#ifndef LKT_MODEL_LIMITS_H
#define LKT_MODEL_LIMITS_H

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "model/model.h"
#include "support/runs.h"
#include "support/backends.h"
#include "support/test.h"

enum { WIDTH = 4, CLASSES = 3, SAMPLES = 6 };

static const float X[SAMPLES * WIDTH] = {1, 2, 3, 4, -1, 0, 1, 2, .5f, .25f, 0, 1,
                                         0, 1, 0, 1, 2,  2, 2, 2, 3,   -3,   1, 0};
static const int32_t Y[SAMPLES] = {0, 1, 2, 0, 1, 2};
static const int64_t IDS[SAMPLES] = {100, 101, 102, 103, 104, 105};

typedef struct net {
    lks_context *context;
    lks_graph *graph;
    lks_tensor *x, *y, *hidden, *loss;
    lks_model *model;
} net;

/* x[4] -> dense 'fc' 3 -> cross entropy. */
static net make_net(void)
{
    net n = {0};
    LKT_OK(
        lks_context_create(&n.context, &(lks_context_opts){.device = lkt_device(NULL), .seed = 1}));
    LKT_OK(lks_graph_create(&n.graph, n.context));
    n.x = lks_input(n.graph, &(lks_input_opts){.name = "x", .shape = LKS_SHAPE(WIDTH)});
    n.y = lks_target(n.graph, &(lks_target_opts){.name = "y", .classes = CLASSES});
    n.hidden = lks_dense(n.graph, n.x, &(lks_dense_opts){.name = "fc", .units = CLASSES});
    n.loss = lks_cross_entropy(n.graph, n.hidden, n.y, NULL);
    LKT_OK(lks_graph_status(n.graph));
    return n;
}

static net open_net(lks_model_opts opts)
{
    net n = make_net();
    opts.loss = n.loss;
    opts.global_batch = SAMPLES;
    LKT_OK(lks_model_compile(&n.model, n.graph, &opts));
    return n;
}

static void close_net(net *n)
{
    lks_model_destroy(n->model);
    lks_graph_destroy(n->graph);
    lks_context_destroy(n->context);
}

static lks_batch batch_of(const float *x)
{
    return (lks_batch){.x = x, .y = Y, .ids = IDS, .count = SAMPLES};
}

static void fails(lks_status found, lks_status status, const char *expected)
{
    assert_int_equal(found, status);
    assert_string_equal(lks_last_error()->message, expected);
}

#endif
