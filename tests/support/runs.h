/* Small networks and short runs for tests of whole models. */
#ifndef LKT_RUNS_H
#define LKT_RUNS_H

#include <lockstep/lockstep.h>

/* Networks on 12x10x3 u8 images with 5 classes; each returns its loss. */
typedef lks_tensor *(*lkt_net)(lks_graph *graph);
lks_tensor *lkt_net_mlp(lks_graph *graph);      /* dense, relu, dropout .3, dense, cross entropy */
lks_tensor *lkt_net_conv(lks_graph *graph);     /* as MNIST's: conv, conv, pool, dropout, dense */
lks_tensor *lkt_net_residual(lks_graph *graph); /* batch norm, add, stride, average pools */
lks_tensor *
lkt_net_synced(lks_graph *graph);            /* the same, over the batch; batch norm behind dense */
lks_tensor *lkt_net_gated(lks_graph *graph); /* every activation, gates of channels, scale */
lks_tensor *
lkt_net_deep(lks_graph *graph); /* four blocks, each with another thing that backward reads */
lks_tensor *lkt_net_joined(lks_graph *graph); /* layer norms, concat, average without padding */

/* `samples` images and labels from an integer formula; the library's memory, freed with it. */
typedef struct lkt_images {
    uint8_t *x;
    int32_t *y;
    int64_t samples;
} lkt_images;
lkt_images lkt_images_make(int64_t samples);
void lkt_images_free(lkt_images *images);

/* A model with a context and a graph of its own: the graph is filled between begin and compile. They fail the
 * test on any error. What was not compiled ends, too. */
typedef struct lkt_model {
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
} lkt_model;
lkt_model lkt_begin(const lks_context_opts *opts);
void lkt_compile(lkt_model *m, const lks_model_opts *opts);
void lkt_end(lkt_model *m);

typedef struct lkt_run {
    const char *device;
    lkt_net net;
    int64_t samples, batch;
    int steps;
    lks_model_opts opts; /* loss and global_batch are filled in */
    double mixup;        /* of the loader */
    bool
        whole_batches; /* of several ranks, each reads all samples of a batch, and not its own alone */
    void (*compiled)(lks_model *model, void *user); /* NULL: nobody asks */
    void *user;
    int64_t *cuts; /* receives how often ranges of replicas were changed; may be NULL */
} lkt_run;

/* Trains; `hash` receives the last hash, `metrics` (may be NULL) the sums over all steps and one
 * evaluation of all samples behind them. With a communicator in the options every rank calls it. */
lks_status lkt_run_try(const lkt_run *run, uint64_t *hash, lks_metrics metrics[2]);
/* The same, returning the hash. Fails the test on any error. */
uint64_t lkt_run_hash(const lkt_run *run, lks_metrics metrics[2]);

/* Of all that a checkpoint would have of the model's state. Aborts on any error. */
uint64_t lkt_state_hash(lks_model *model);

#endif
