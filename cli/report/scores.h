/* What saved weights make of a set of samples with classes, beyond loss and accuracy. */
#ifndef CLI_SCORES_H
#define CLI_SCORES_H

#include "cli/cli.h"

/* A sample that was given a wrong class. */
typedef struct scores_wrong {
    double share;  /* probability of the class that it was given */
    int64_t index; /* in the samples that were looked at */
    int32_t label, best;
} scores_wrong;

typedef struct scores {
    const lks_dataset *data; /* whose classes may have names */
    const char *const *name; /* [classes], of a record that has them; or NULL */
    lks_class_counts of;
    int64_t samples, correct;
    int64_t top5;        /* samples whose class is among the five largest outputs */
    int most, count;     /* of wrong: room for, */
    scores_wrong *wrong; /* and the most confident of, the first the most; free it */
} scores;

/* Evaluates all samples of `data`, each process a part of them; all end with the same. `most` wrong ones are kept.
 * Free it also after a failure. */
LKS_MUSTUSE lks_status scores_count(scores *out, lks_metrics *sum, lks_recipe *recipe,
                                    lks_dataset *data, int most);
void scores_free(scores *scores);

/* As tables on standard output; and as keys that begin with `prefix` and "_". */
void scores_print(const scores *s, cli_pool *pool);
/* Parts of that: precision, recall and F1 of each class; and what each was taken for, the matrix, or of many classes the most
 * frequent mistakes. On a page of HTML; NULL: on standard output. */
void scores_print_classes(const scores *s, cli_pool *pool, FILE *page);
void scores_print_confusion(const scores *s, cli_pool *pool, FILE *page);
void scores_json(const scores *s, json_t *json, cli_pool *pool, const char *prefix);
/* The wrong samples as a sheet: class, probability, and the class that was right. */
LKS_MUSTUSE lks_status scores_draw(const scores *s, cli_pool *pool, lks_dataset *data,
                                   const char *title, const char *path);

#endif
