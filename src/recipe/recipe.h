/* What a recipe is inside: its configuration, what it has opened, and its run. */
#ifndef LKI_RECIPE_RECIPE_H
#define LKI_RECIPE_RECIPE_H

#include <lockstep/recipe.h>
#include <lockstep/tools.h>

#include "recipe/run/fits.h"
#include "recipe/session.h"

typedef struct lki_link {
    int64_t step;
    uint64_t link;
} lki_link;

/* Behind this step workers have so many replicas each. */
typedef struct lki_cut {
    int64_t step;
    int64_t *replicas; /* [workers], of all processes */
    int workers;
} lki_cut;

typedef struct lki_board lki_board;

/* Of this process, since the epoch began. */
typedef struct lki_spent {
    int64_t samples;
    double tokens, seconds, waited;
} lki_spent;

/* What the weights at the end of a run make of test data that is numbers; of classes the run has it. */
typedef struct lki_scores {
    int64_t targets;
    lks_fit *fit;   /* [targets], or NULL; free it */
    lki_fits *sums; /* of the training's own test behind its last step; NULL: none are wanted */
    bool tested;    /* that test has been made */
} lki_scores;

typedef enum lki_recipe_state {
    LKI_RECIPE_OPEN, /* keys may be set */
    LKI_RECIPE_RESOLVED,
    LKI_RECIPE_REFUSED,
} lki_recipe_state;

struct lks_recipe {
    lki_config *config;
    lki_session session;
    lki_recipe_state state;
    lks_error refusal; /* why its keys do not go together */
    char *yaml;        /* lks_recipe_yaml() gave it */
    lks_folder_lock *lock;
    lks_loader *train, *valid, *test;
    lks_train_opts opts;
    char *json; /* the configuration, for checkpoints */
    lks_run run;
    lks_train_events events; /* the caller's */
    bool looked; /* at the folder of checkpoints, which is locked where it is written to */
    bool started, ran, stopped;
    const char *record; /* its file; NULL: none is written */
    bool keeps_record;  /* it is kept up to date, for whoever finds the run killed */
    bool keeps_csv;
    double record_written; /* when, in seconds */
    lki_board *board;      /* what TensorBoard shows; NULL: nothing */
    int64_t epochs, steps;
    lki_scores scores;
    lki_link *links; /* of the hash chain, for the record */
    int64_t link_count, link_room;
    lki_cut *cuts; /* likewise */
    int64_t cut_count;
    lki_spent spent;
    lks_pace *paces;    /* [processes]; NULL: there is one, or none has begun */
    int64_t paces_step; /* 0: not gathered yet */
    double began;       /* on the clock that never goes back */
    const char *counted_from;
    double first_step; /* seconds until it was finished; 0: there was none */
};

/* A line for people, through the recipe's log. */
void lki_recipe_say(const lks_recipe *recipe, lks_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* This process writes what the run leaves: always, where it is the only one. And what only one process
 * does, or may fail at alone, ends so on all of them. */
static inline bool lki_recipe_leads(const lks_recipe *recipe)
{
    return lks_comm_rank(recipe->session.comm) == 0;
}
static inline lks_status lki_recipe_agree(const lks_recipe *recipe, lks_status mine)
{
    return lks_comm_agree(recipe->session.comm, mine);
}

/* ranks.c: LKS_E_MISMATCH where processes that shall train together differ in their program or
 * configuration; in their data; or in the model's parameters. */
lks_status lki_ranks_compare_config(const lks_recipe *recipe);
lks_status lki_ranks_compare_data(const lks_recipe *recipe);
lks_status lki_ranks_compare_model(const lks_recipe *recipe);

/* cuts.c: behind a step with a link; and all of it is freed. */
lks_status lki_cuts_follow(lks_recipe *recipe, int64_t step);
void lki_cuts_free(lks_recipe *recipe);

/* paces.c: memory, and a step of this process. And of all: collective, and fails with them alone. */
lks_status lki_paces_begin(lks_recipe *recipe);
void lki_paces_step(lks_recipe *recipe, const lks_step_event *event);
lks_status lki_paces_gather(lks_recipe *recipe, int64_t step);

/* Whether a run that is resumed in `folder` is still the same; says what has changed. */
lks_status lki_changes_check(const lks_recipe *recipe, const char *folder);
/* Loads the weights of a checkpoint; says what makes other numbers of them than the run had. */
lks_status lki_changes_load(const lks_recipe *recipe, const char *folder, int64_t step);
/* The first key with another value that makes another run of it, or LKI_KEY_NONE. */
lki_key lki_changes_first(const lki_config *a, const lki_config *b);

/* whiten.c: puts filters from the training data, as model.whiten asks for, into the compiled model. */
lks_status lki_whiten(lki_session *session);

/* The file for the weights; NULL: they are not saved. */
const char *lki_weights_file(lks_recipe *recipe);
/* Writes the record: at the end, or in between, without waiting for the disk. `within`: the step behind which it is
 * written, in an epoch that goes on; NULL: there is none. */
lks_status lki_record_write(const lks_recipe *recipe, const lks_step_event *within, bool at_end);
/* scores.c: for the record of a run that has come to its end, what the training's own test has summed and counted, or one
 * more pass over the test data where it has not tested these weights. Nothing where there is no record, no test, a class
 * for each position, or more than LKS_CONFUSION_CLASSES. Before the training, which then sums; and behind it. Both are
 * collective. And all of it is freed. */
void lki_scores_begin(lks_recipe *recipe);
lks_status lki_scores_take(lks_recipe *recipe);
void lki_scores_free(lki_scores *scores);
/* Seconds since the recipe began. */
double lki_recipe_seconds(const lks_recipe *recipe);

#endif
