/*
 * Tensors in safetensors files, and checkpoints of a run.
 *
 * A checkpoint is a pair of files in a folder, step-<n>.safetensors (parameters, buffers, optimizer
 * state) and step-<n>.json (everything else, and the checksum of the first). The JSON file is
 * renamed into place last: a checkpoint exists when it does. Both are written to a temporary name,
 * synced, renamed, and the folder is synced.
 *
 * What saves or loads a model of several processes is collective: rank 0 reads and writes, and all get what
 * it has read, or its failure.
 */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include <lockstep/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A safetensors file, read by mmap. Every header field is checked when it is opened. */
typedef struct lks_tensor_file lks_tensor_file;

typedef struct lks_tensor_entry {
    const char *name;
    lks_dtype dtype;
    lks_shape shape;
    size_t bytes;
    const void *data; /* little-endian, logical order; aligned to its elements */
} lks_tensor_entry;

LKS_API LKS_MUSTUSE lks_status lks_tensor_file_open(lks_tensor_file **out, lks_context *context,
                                                    const char *path);
LKS_API void lks_tensor_file_close(lks_tensor_file *file);
LKS_API int lks_tensor_file_count(const lks_tensor_file *file);
LKS_API lks_tensor_entry lks_tensor_file_entry(const lks_tensor_file *file, int index);
LKS_API int lks_tensor_file_find(const lks_tensor_file *file, const char *name);
/* The value of a key in the file's metadata, or NULL. */
LKS_API const char *lks_tensor_file_metadata(const lks_tensor_file *file, const char *key);

/* Parameters and buffers under their names: a file that other programs read. LKS_E_NUMERIC, and no
 * file, if one is not finite. */
LKS_API LKS_MUSTUSE lks_status lks_weights_save(lks_model *model, const char *path);
/* Every parameter and buffer of the model must be in the file with its shape; nothing is changed
 * unless all are. Other tensors in the file are ignored. Of Hugging Face's GPT-2 the matrices of dense layers are
 * transposed, which is seen by those of the names "...attn.c_attn.weight". */
LKS_API LKS_MUSTUSE lks_status lks_weights_load(lks_model *model, const char *path);
/* The same for a network with another head: tensors that the file lacks, or has with another type or shape, keep
 * their values, and a warning in the log names each. LKS_E_MISMATCH if no parameter fits. */
LKS_API LKS_MUSTUSE lks_status lks_weights_load_matching(lks_model *model, const char *path);

/* Means over the classes that samples have or were given (macro), as scikit-learn defines them: 0 for one that is never
 * given, or never there. The means over samples (micro) are the accuracy. NaN: not measured, or there is no such class. */
typedef struct lks_rates {
    double precision, recall, f1;
} lks_rates;
/* Of so many classes each: samples of it that were given it, samples that were given it, samples of it. With one
 * class its own rates. */
LKS_API lks_rates lks_rates_of(int64_t classes, const int64_t *right, const int64_t *given,
                               const int64_t *there);

/* One finished epoch, or what a finished run has of its last; counts are 0 where nothing was evaluated. */
typedef struct lks_epoch {
    int64_t epoch; /* from 1 */
    lks_metrics train, valid, test;
    double learning_rate; /* of its last step */
    double seconds;       /* training, without evaluation */
    lks_rates valid_rates, test_rates;
} lks_epoch;

enum { LKS_CONFUSION_CLASSES = 1000 };

/* Everything in a checkpoint beside the model's state. Strings are owned by whoever filled it in;
 * those of lks_checkpoint_load() by the library, until lks_run_clear(). */
typedef struct lks_run {
    lks_progress progress;
    uint64_t seed;
    int64_t global_batch;
    int replicas;                  /* a*V */
    int hash_every;                /* steps between links */
    uint64_t data_hash, test_hash; /* of the data; 0: not known */
    uint64_t vocabulary_hash;      /* of tokens' vocabulary; 0: there is none, or it is not known */
    int numerics;                  /* of the program that wrote it: set by lks_checkpoint_load() */
    const char *fingerprint;       /* of its machine: for people */
    const char *law;    /* lks_model_info.law of the model: set by lks_checkpoint_load() */
    const char *config; /* the resolved configuration, JSON text; may be NULL */
    lks_metrics so_far; /* of the epoch that is not finished */
    double so_far_seconds;
    double best_loss;    /* smallest validation loss; NaN: none yet */
    int64_t best_step;   /* after which it was measured; -1: none yet. Its checkpoint stays, where
                            one was written */
    int bad_epochs;      /* evaluations since the best */
    lks_plateau plateau; /* of a schedule LKS_PLATEAU; lr 0: none */
    bool finished;       /* the run reached its last step */
    uint64_t hash;       /* lks_train() alone: of the run, when it has ended or was stopped */
    lks_epoch *history;
    int64_t epochs; /* in history */
    int64_t *
        confusion; /* lks_train() alone: of the test, by the parameters that the model ends with, [class][class that
                           a sample was given]; NULL where this call did not test them, or samples have no class of their own,
                           or one of more than LKS_CONFUSION_CLASSES */
    int64_t confusion_classes;
} lks_run;
LKS_API void lks_run_clear(lks_run *run);

/*
 * Saves model and run as step <progress.step>, then removes older ones but the last `keep` (0: all
 * stay) and run->best_step. The run must agree with its model in progress, seed, batch and
 * replicas. A parameter or buffer that is not finite is LKS_E_NUMERIC. When it fails, the
 * checkpoints of other steps are untouched.
 */
LKS_API LKS_MUSTUSE lks_status lks_checkpoint_save(lks_model *model, const lks_run *run,
                                                   const char *folder, int keep);

/*
 * Makes the folder with its parents, sees that files can be written there, and locks it: one
 * training at a time writes to it. LKS_E_IO with the process and the host of the one that does. The
 * lock ends with its process, however that ends. A file system without locks gets a line in the log
 * (of `context`, which may be NULL), and no lock. lks_train() takes it; your own loop may.
 */
typedef struct lks_folder_lock lks_folder_lock;
LKS_API LKS_MUSTUSE lks_status lks_checkpoint_lock(lks_folder_lock **out, lks_context *context,
                                                   const char *folder);
LKS_API void lks_checkpoint_unlock(lks_folder_lock *lock); /* NULL is fine */

/* The newest checkpoint in a folder: its step, or -1 when there is none. Unfinished files of a
 * save that was cut off are not looked at. */
LKS_API LKS_MUSTUSE lks_status lks_checkpoint_find(const char *folder, int64_t *step);

/* Checks all of it (checksum, names, shapes, N, V, seed) before it changes the model. A checkpoint
 * with another version of the numerics loads; compare run->numerics. `model` NULL: only the run is read. */
LKS_API LKS_MUSTUSE lks_status lks_checkpoint_load(lks_context *context, lks_model *model,
                                                   lks_run *run, const char *folder, int64_t step);

/* Whether both files are there and whole, by their checksums, whatever model they are of. */
LKS_API LKS_MUSTUSE lks_status lks_checkpoint_check(lks_context *context, const char *folder,
                                                    int64_t step);

#ifdef __cplusplus
}
#endif
#endif
