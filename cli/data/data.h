/* The actions of `lockstep data`, one file each. */
#ifndef CLI_DATA_H
#define CLI_DATA_H

#include <lockstep/text.h>

#include "cli/cli.h"
#include "cli/pool.h"
#include "recipe/data/published.h"

/* What an action is about, `what`: a known data set, a folder of IDX files, or a configuration. */
typedef struct data_source {
    lks_recipe *recipe;
    lks_context *context;
    lks_dataset *data;          /* the split that --test asks for */
    const lki_published *known; /* NULL: nothing */
    const char *split;          /* "training" or "test" */
    bool configured;            /* by a file, which `what` is */
} data_source;
/* But for `data`. */
LKS_MUSTUSE lks_status data_configure(data_source *out, const cli_args *cli, const char *what);
/* Anew, with one more key, "key=value": those of a configuration's file cannot be set once it has been read. */
LKS_MUSTUSE lks_status data_reconfigure(data_source *source, const cli_args *cli, const char *what,
                                        const char *setting);
LKS_MUSTUSE lks_status data_open(data_source *out, const cli_args *cli, const char *what);
void data_close(data_source *source); /* also after a failure */
/* The names of known data sets, for who has mistyped one. */
void data_offer_names(lki_nearest *near);

/* Downloads a known data set into `folder`, which may have some of its files already. */
LKS_MUSTUSE lks_status data_download(const cli_args *cli, cli_pool *pool,
                                     const lki_published *known, const char *folder);

/* One for each action but those above. */
LKS_MUSTUSE lks_status data_check(const cli_args *cli, const char *what);
LKS_MUSTUSE lks_status data_pack(const cli_args *cli, const char *what);
LKS_MUSTUSE lks_status data_shard(const cli_args *cli, const char *what);
LKS_MUSTUSE lks_status data_columns(const cli_args *cli, const char *what); /* what: NULL */
LKS_MUSTUSE lks_status data_show(const cli_args *cli, const char *what);
LKS_MUSTUSE lks_status data_stats(const cli_args *cli, const char *what);
LKS_MUSTUSE lks_status data_vocabulary(const cli_args *cli, const char *what);

/* An option's number, within these bounds; it stays as it is where the option is not given. */
LKS_MUSTUSE lks_status data_read_number(int64_t *out, const cli_args *cli, cli_local option,
                                        const char *name, int64_t least, int64_t most);
/* --threads; 0 where it is not given. */
LKS_MUSTUSE lks_status data_threads(int *out, const cli_args *cli);
/* Of a text: samples, statistics. */
LKS_MUSTUSE lks_status data_text_show(const data_source *source, const cli_args *cli,
                                      const char *what);
LKS_MUSTUSE lks_status data_text_stats(const data_source *source, const cli_args *cli,
                                       const char *what);
/* Refuses options of data show that are for images; `classes`: samples have one. */
LKS_MUSTUSE lks_status data_text_options(const cli_args *cli, const char *what, bool classes);
/* The same of a table's texts, where the data set has some; check says what tokens there are. */
bool data_has_sentences(const lks_dataset *data);
LKS_MUSTUSE lks_status data_sentences_show(const data_source *source, const cli_args *cli,
                                           const char *what);
LKS_MUSTUSE lks_status data_sentences_stats(const data_source *source, const cli_args *cli,
                                            const char *what);
LKS_MUSTUSE lks_status data_sentences_check(lks_dataset *data);
/* The same of frames. */
bool data_has_frames(const lks_dataset *data);
LKS_MUSTUSE lks_status data_frames_show(const data_source *source, const cli_args *cli,
                                        const char *what);
LKS_MUSTUSE lks_status data_frames_say_lengths(lks_dataset *data);
/* Positions of a sample up to the last that is no padding. */
int64_t data_frames_length(const lks_shape *shape, const float *x);
/* Whether it is a text, and what is wrong with it then. */
bool data_text_check(lks_status *status, const cli_args *cli, const char *what);
/* The same of shards, and of tables. */
bool data_rows_check(lks_status *status, const cli_args *cli, const char *what);
/* What is wrong with a folder in another format than IDX: each split is opened, and every sample read. */
LKS_MUSTUSE lks_status data_check_samples(cli_pool *pool, lks_context *context, const char *folder);
void data_say_no_test(void);
/* The statistics of data in shards, and of a table's columns. */
LKS_MUSTUSE lks_status data_shards_stats(const data_source *source, const cli_args *cli);
LKS_MUSTUSE lks_status data_table_stats(const data_source *source, const cli_args *cli);

/* "28x28x1", "28x28"; "1" for a number. */
const char *data_shape_text(char text[64], const lks_shape *shape);

#endif
