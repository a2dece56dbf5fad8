/* A whole training as `lockstep train` reads it: a YAML file or text, and the run. */
#ifndef LOCKSTEP_RECIPE_H
#define LOCKSTEP_RECIPE_H

#include <lockstep/comm.h>
#include <lockstep/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 *     lks_recipe *recipe;
 *     lks_status status = lks_recipe_open(&recipe, "digits.yaml");
 *     if (status == LKS_OK) status = lks_recipe_set(recipe, "train.workers=2");
 *     if (status == LKS_OK) status = lks_recipe_train(recipe, NULL, NULL);
 *     lks_recipe_close(recipe);
 *
 * The keys are those of `lockstep --help-config`; bits, files and sentences of errors, with file and
 * line, are those of `lockstep train`. "FILE#NAME" is a file's configuration of that name. A recipe belongs to
 * one thread at a time.
 */
typedef struct lks_recipe lks_recipe;

/* Reads a file (NULL: every key at its default), or text that is called `name` in messages (NULL: "the
 * recipe"); *out is NULL after a failure. What it has opened, closing destroys; NULL is fine. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_open(lks_recipe **out, const char *path);
LKS_API LKS_MUSTUSE lks_status lks_recipe_open_text(lks_recipe **out, const char *name,
                                                    const char *text);
LKS_API void lks_recipe_close(lks_recipe *recipe);

/* "optimizer.lr=0.1", as --set has it: what stands behind the = is YAML. It wins over the file, and
 * a later one over an earlier. LKS_E_STATE once the recipe has been used. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_set(lks_recipe *recipe, const char *assignment);
/* Where lines of its context's log go, and what else there is to say; default: nowhere. */
LKS_API void lks_recipe_log(lks_recipe *recipe, lks_log_fn log, void *user);

/* The processes that train it together, each with a recipe of the same keys: borrowed, set before it is
 * started. From there on calls that open, train, evaluate, load and save are collective, rank 0 reads and
 * writes the run's files, and each process reads its own data, which must be the same. Default: this
 * process alone. */
LKS_API void lks_recipe_comm(lks_recipe *recipe, lks_comm *comm);

/* Checks what concerns several keys, and sets the defaults that follow from others. What uses a
 * recipe begins with this. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_resolve(lks_recipe *recipe);
/* Every key with its value, as YAML that gives the same recipe; the text lives until the next call.
 * And one key's value: "0.1", "[0.9, 0.999]", "null" where it is not set, "" where there is no such
 * key; it lives as long as the recipe. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_yaml(lks_recipe *recipe, const char **out);
LKS_API const char *lks_recipe_value(lks_recipe *recipe, const char *key);

/* Opens data, with the parts that the keys say; builds network and model, anew if need be, for so many
 * workers (0: as the keys say). */
typedef enum lks_recipe_data {
    LKS_RECIPE_TRAIN = 1, /* training data, and validation where it is asked for */
    LKS_RECIPE_TEST = 2,  /* test data; with the training data only where there is a test split */
    LKS_RECIPE_SHAPE =
        4, /* the test data, or else the training data; or none where it is not there,
                             but its shape is known */
} lks_recipe_data;
LKS_API LKS_MUSTUSE lks_status lks_recipe_open_data(lks_recipe *recipe, int data);
LKS_API LKS_MUSTUSE lks_status lks_recipe_compile(lks_recipe *recipe, int workers);
/* Collective. Puts model.init's weights, where the configuration has some, into the compiled model. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_init_weights(lks_recipe *recipe);

/* What it has opened, owned by it; NULL: not yet. */
typedef struct lks_recipe_parts {
    lks_context *context;
    lks_comm *comm; /* as lks_recipe_comm() has set it; not owned */
    lks_dataset *train, *valid, *test;
    lks_dataset_info data; /* with the number of classes settled */
    lks_graph *graph;
    lks_tensor *loss, *output;
    lks_model *model;
    int64_t epochs, steps; /* where the run ends, once it is started; 0 before */
} lks_recipe_parts;
LKS_API lks_recipe_parts lks_recipe_get_parts(const lks_recipe *recipe);

/* For a loop of your own: a loader over a part of the data, shuffled as the keys say or in order for
 * testing; and the schedule of a run of so many epochs or steps (0: not given), each epoch with so many
 * batches. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_loader(lks_loader **out, const lks_recipe *recipe,
                                                 lks_dataset *dataset, bool training);
LKS_API lks_schedule lks_recipe_schedule(const lks_recipe *recipe, int64_t epochs, int64_t steps,
                                         int64_t batches);

/* All that comes before the first step: folder, data, model, weights, opened anew. lks_recipe_train()
 * calls it. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_start(lks_recipe *recipe);
/*
 * Trains as `lockstep train` does, with its checkpoints, weights and record; a second call is
 * LKS_E_STATE. An event that returns LKS_E_STOPPED ends the run after its step: it is saved, and that
 * status comes back. `events` and `run` may be NULL; the run is the recipe's, as long as it is open.
 */
LKS_API LKS_MUSTUSE lks_status lks_recipe_train(lks_recipe *recipe, const lks_train_events *events,
                                                const lks_run **run);
/* What --record writes: the run so far, with its configuration, as JSON. free() it. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_record(const lks_recipe *recipe, char **out);

/* Loads weights of model.init, or a checkpoint in checkpoint.path; *step (or NULL) is its step, or -1. */
typedef enum lks_which {
    LKS_WHICH_RUN, /* the best where the run ends with its best weights, else the newest */
    LKS_WHICH_BEST,
    LKS_WHICH_LAST,
} lks_which;
LKS_API LKS_MUSTUSE lks_status lks_recipe_load(lks_recipe *recipe, lks_which which, int64_t *step);

/* Loss and accuracy of `dataset` (NULL: the test data), with the weights that the model has: of
 * validation data the numbers that a training prints for it. */
LKS_API LKS_MUSTUSE lks_status lks_recipe_evaluate(lks_recipe *recipe, lks_dataset *dataset,
                                                   lks_metrics *out);

/* One sample's outputs. Data without classes has no best, label and softmax, but what is wanted. */
typedef struct lks_prediction {
    int64_t id;          /* of the sample in its data, as it was opened: lks_dataset_position() */
    int64_t index;       /* in the data that is looked at */
    int64_t best;        /* the class with the largest output */
    int32_t label;       /* as the data has it */
    int64_t classes;     /* of the output */
    const float *output; /* [classes], as the network gives them */
    const double
        *softmax; /* [classes]: probabilities, where outputs are logits or their logarithms */
    const float *wanted; /* [classes]: the targets of data without classes; else NULL */
} lks_prediction;
/* The first `count` samples of `dataset` (NULL: the test data), one after the other. */
LKS_API LKS_MUSTUSE lks_status
lks_recipe_predict(lks_recipe *recipe, lks_dataset *dataset, int64_t count,
                   void (*each)(void *user, const lks_prediction *prediction), void *user);

#ifdef __cplusplus
}
#endif
#endif
