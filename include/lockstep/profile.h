/* Where the time of a step goes, and what the cores could do at most. */
#ifndef LOCKSTEP_PROFILE_H
#define LOCKSTEP_PROFILE_H

#include <lockstep/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * From now on lks_model_step() measures where its time goes, with clock_gettime() and in memory that
 * is allocated here; counting starts at zero. It changes no bit of a run. lks_profile_stop() ends
 * it, and what was counted can still be read.
 */
LKS_API LKS_MUSTUSE lks_status lks_profile_start(lks_model *model);
LKS_API void lks_profile_stop(lks_model *model);

typedef struct lks_profile {
    int64_t steps, samples;
    double seconds; /* in lks_model_step() */
    int rows;
} lks_profile;
LKS_API lks_profile lks_profile_total(const lks_model *model); /* zero: never started */

/*
 * Where the time went, row by row: seconds of all rows together are those of the total. A worker's
 * time from the call of a step to its return is in one of its rows.
 */
typedef struct lks_profile_row {
    int stage;        /* 0 .. lks_model_stages() - 1; -1: of no stage */
    const char *pass; /* forward, backward, rows (gradients by rows), update, prepare; start, tree,
                           metrics, wait gradients, wait parameters, hash, end */
    int64_t calls;    /* of all workers */
    double seconds;   /* mean over workers */
    double flops;     /* of all workers: two for each multiply-add of the definition, also where a
                           kernel skips zeros; 0: none */
    double bytes;     /* that all workers together read and write at least; 0: not counted */
} lks_profile_row;
LKS_API lks_profile_row lks_profile_get(const lks_model *model, int row);

/* The stages of a compiled model: a kernel and the layers that it computes. */
LKS_API int lks_model_stages(const lks_model *model);
/* Layer `index` of a stage, from 0; NULL: it has no more. */
LKS_API const lks_tensor *lks_model_stage_layer(const lks_model *model, int stage, int index);

/* A buffer of this size holds any such line. */
#define LKS_LINE_SIZE 2560

/* The operation that makes a tensor, as `lockstep op` reads it: "conv2d filters=32 kernel=3x3
 * in=8x28x28x1", for so many samples (0: without `in`). Returns buffer. */
LKS_API const char *lks_tensor_line(const lks_tensor *tensor, int64_t samples, char *buffer,
                                    size_t size);

/*
 * One operation alone: the context's device against ref, on random numbers in [-1, 1) and on others in
 * [0, 1), whose sums grow; and its speed on the calling thread.
 */
typedef struct lks_op_error {
    char what[64];       /* "output", "gradient of weight" */
    double error, bound; /* of the element that is the farthest in units of its bound; the bound is
                              derived from the order of sums in docs/numerics.md */
    double share;        /* error / bound: at most 1 where all is well */
} lks_op_error;

typedef struct lks_op_time {
    const char *pass; /* forward, backward, rows (gradient of the parameters by rows) */
    int runs;
    double median, least, most; /* seconds, of all samples */
    double flops, bytes;        /* as in lks_profile_row */
} lks_op_time;

typedef struct lks_op_report {
    bool good; /* every error is within its bound */
    lks_op_error errors[12];
    int error_count;
    lks_op_time times[3];
    int time_count;
    double peak;        /* of the thread, as lks_peak() measures it */
    int64_t slice;      /* samples that the kernel takes at a time */
    char algorithm[40]; /* that the kernel chose; may be empty */
} lks_op_report;

/* Checks and times the operation that makes `tensor`, with inputs of the shapes that its graph gives
 * them, for about `seconds` each pass. */
LKS_API LKS_MUSTUSE lks_status lks_op_check(lks_op_report *out, lks_context *context,
                                            const lks_tensor *tensor, int64_t samples,
                                            double seconds);

/* Floating-point operations a second of so many threads, each with fused multiply-adds in registers
 * alone (two operations each), measured for `seconds`. */
LKS_API LKS_MUSTUSE lks_status lks_peak(double *flops, lks_context *context, int threads,
                                        double seconds);

#ifdef __cplusplus
}
#endif
#endif
