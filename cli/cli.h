/* The command line: verbs, options, and what was given. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdatomic.h>

#include "cli/out/say.h"
#include "cli/pool.h"
#include "cli/verbs/list.h"
#include <jansson.h>

#include <lockstep/tools.h>

#include "recipe/config.h"

typedef struct cli cli_args;

typedef struct cli_verb {
    const char *name;
    const char *operands; /* as help prints them */
    int least, most;      /* operands */
    const char *summary;
    /* Does it. *code is 0; a verb may set another exit code for an outcome that is no failure. */
    lks_status (*run)(const cli_args *cli, int *code);
} cli_verb;

#define VERB_AT(ID, ...)  VERB_AT_##ID,
#define VERB_BIT(ID, ...) VERB_##ID = 1 << VERB_AT_##ID,
enum { CLI_VERB_LIST(VERB_AT) };
/* One bit for each verb, for the options that it takes. */
enum {
    CLI_VERB_LIST(VERB_BIT) VERB_NONE = 1 << 30, /* before any verb */
};

/* Options that are no keys of the configuration. */
typedef enum cli_local {
    LOCAL_NONE,
    LOCAL_SET,  /* may be repeated */
    LOCAL_GRID, /* may be repeated */
    LOCAL_JOBS,
    LOCAL_PRINT_CONFIG,
    LOCAL_CONFIG,
    LOCAL_YAML_CONFIG,
    LOCAL_SPLIT,
    LOCAL_IMAGES,
    LOCAL_TABLE,
    LOCAL_TARGETS,
    LOCAL_ARCH,
    LOCAL_DATASET,
    LOCAL_EVALUATE,
    LOCAL_RESUME_FROM,
    LOCAL_MODEL_NAME,
    LOCAL_EXP_NAME,
    LOCAL_NO_CHECKPOINT,
    LOCAL_COUNT,
    LOCAL_BEST,
    LOCAL_LAST,
    LOCAL_FORMAT,
    LOCAL_PROBABILITIES,
    LOCAL_OUTPUTS,
    LOCAL_MEMORY,
    LOCAL_OUT,
    LOCAL_MIRROR, /* may be repeated */
    LOCAL_PATIENCE,
    LOCAL_TEST,
    LOCAL_FIRST,
    LOCAL_CLASS,
    LOCAL_PLAN,
    LOCAL_MODELS,
    LOCAL_SHAPE,
    LOCAL_METRICS,
    LOCAL_WORST,
    LOCAL_FILTERS,
    LOCAL_PROFILE,
    LOCAL_PASSES,
    LOCAL_BIAS,
    LOCAL_FC_RELU,
    LOCAL_SECONDS,
    LOCAL_WORKERS,
    LOCAL_SVG,
    LOCAL_CSV,
    LOCAL_FROM,
    LOCAL_TO,
    LOCAL_HTML,
    LOCAL_AUGMENT,
    LOCAL_EPOCH,
    LOCAL_SIZE,
    LOCAL_SKIP_BAD,
    LOCAL_THREADS,
    LOCAL_ROWS,
    LOCAL_ROOT,
    LOCAL_LAUNCH,
    LOCAL_RANKS,
    LOCAL_HOSTS,
    LOCAL_BIND,
    LOCAL_BY,
    LOCAL_AGENT,
    LOCAL_LOG_DIR,
    LOCAL_PROGRAM,
    LOCAL_DRY_RUN,
    LOCAL_WATCH,
    LOCAL_MAX_RESTARTS,
    LOCAL_NNODES,
    LOCAL_ELASTIC,
    LOCAL_NPROC,
    LOCAL_NODE_RANK,
    LOCAL_STANDALONE,
    LOCAL_RDZV_ENDPOINT,
    LOCAL_RDZV_ID,
    LOCAL_RDZV_TIMEOUT,
    LOCAL_RDZV_SECRET,
    LOCAL_RDZV_BACKEND,
    LOCAL_NODES,
    LOCAL_TASKS,
    LOCAL_CPUS,
    LOCAL_TIME,
    LOCAL_PARTITION,
    LOCAL_ACCOUNT,
    LOCAL_COMM_TIMEOUT,
    LOCAL_VERIFY_COMM,
    LOCAL_YES,
    LOCAL_PROCESSES,
    LOCAL_GPUS,
    LOCAL_NUM_NODES,
    LOCAL_STRATEGY,
    LOCAL_PROMPT,
    LOCAL_PROMPTS,
    LOCAL_TOKENS,
    LOCAL_TEMPERATURE,
    LOCAL_TOP_K,
    LOCAL_TOP_P,
    LOCAL_STOP, /* may be repeated */
    LOCAL_SEED,
    LOCAL_HELP,
    LOCAL_HELP_CONFIG,
    LOCAL_HELP_LAYERS,
    LOCAL_HELP_AS,
    LOCAL_VERSION,
    LOCAL_OPTIONS
} cli_local;

typedef struct cli_option {
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* NULL: it takes none */
    int verbs;
    lki_key key;      /* the key it sets, or KEY_NONE */
    cli_local local;  /* when it is no key */
    const char *help; /* NULL: the key's */
} cli_option;
bool cli_is_repeated(cli_local local); /* may be given several times, each of which counts */
extern const cli_option cli_options[];
extern const int cli_option_count;
extern const cli_verb cli_verbs[];
extern const int cli_verb_count;

typedef struct cli_setting {
    const cli_option *option;
    const char *text; /* its argument; "true" where it takes none */
} cli_setting;

struct cli {
    cli_pool *pool; /* that lasts as long as the command */
    int argc;       /* as they were typed */
    char **argv;
    const cli_verb *verb; /* NULL: none */
    int verb_bit;
    int operands;
    char **operand;
    int settings; /* keys and what may be repeated, in order */
    cli_setting *setting;
    const char *local[LOCAL_OPTIONS]; /* NULL: not given */
};

/* Reads the command line; the pool holds the settings. */
LKS_MUSTUSE lks_status cli_parse(cli_args *out, cli_pool *pool, int argc, char **argv);

/* The recipe: defaults, then the file (NULL: none), then the options; resolved where there is a file.
 * Its log goes to standard error, and its time counts from the start of the process. */
LKS_MUSTUSE lks_status cli_configure(lks_recipe **out, const cli_args *cli, const char *path);

/* The same command with `count` settings more, each "key=value" as behind --set. */
cli_args cli_with_settings(const cli_args *cli, int count, const char *const *setting);

/* Runs `body` with the recipe of the first operand, or prints it where that is asked for; together with the
 * other processes of `comm` (NULL: alone). */
LKS_MUSTUSE lks_status cli_with_recipe(const cli_args *cli, int *code, lks_comm *comm,
                                       lks_status (*body)(const cli_args *cli, lks_recipe *recipe,
                                                          int *code));
/* The same, together with the processes that a launcher started beside this one, of which the first talks. */
LKS_MUSTUSE lks_status cli_with_ranks(const cli_args *cli, int *code,
                                      lks_status (*body)(const cli_args *cli, lks_recipe *recipe,
                                                         int *code));
/* Joins these processes, of which the first talks from then on; and leaves them with what came of it: the status. */
typedef struct cli_ranks {
    lks_comm *comm;
    atomic_bool said; /* that one is lost */
    bool watches;     /* for one that is */
} cli_ranks;
LKS_MUSTUSE lks_status cli_meet(cli_ranks *out, const cli_args *cli);
LKS_MUSTUSE lks_status cli_part(cli_ranks *ranks, lks_status status);
/* Whether processes that were started together do it together. */
bool cli_is_shared(const cli_args *cli);
/* Of processes that were started together the first does what one can do; whether this is another of them,
 * which has nothing to do. The first says so, where one might expect that all work. */
bool cli_leaves(const cli_args *cli);
/* A command that cannot be taken (`status` is not LKS_OK), of this process or of all that were started with
 * it: the same status and sentence for all, which the first says. */
LKS_MUSTUSE lks_status cli_refuse(lks_status status);
/* Says where workers of several processes share a core, unless it is to be `quiet`; of one process it does
 * nothing. *cores are those of all. Collective. */
LKS_MUSTUSE lks_status cli_say_crowd(const cli_args *cli, lks_comm *comm, int workers, bool quiet,
                                     int *cores);
/* Its keys as JSON; NULL: no memory, which is noted (text_watch_memory()). */
json_t *cli_recipe_json(lks_recipe *recipe);
/* Loads weights as lks_recipe_load() does, by --best and --last. */
LKS_MUSTUSE lks_status cli_load(const cli_args *cli, lks_recipe *recipe, int64_t *step);

/* --split: which samples of the data saved weights are tried on. */
typedef struct cli_split {
    const char *name;
    const char *title; /* "Test": of its set in the lines of a training */
    const char *key;   /* "test": before "_loss" in its events */
} cli_split;
extern const char cli_split_words[];
/* Opens the data that it is in; and when the model is loaded (lks_recipe_load() gave its step), the
 * samples themselves, as the run with these weights had them. */
LKS_MUSTUSE lks_status cli_split_open(const cli_split **out, const cli_args *cli,
                                      lks_recipe *recipe);
LKS_MUSTUSE lks_status cli_split_data(lks_dataset **out, const cli_split *split, lks_recipe *recipe,
                                      int64_t step);

/* What each class of the data is called, for people: its name, or else its number; NULL: none has a name. */
const char *const *cli_class_names(cli_pool *pool, const lks_dataset *data);
/* What a number that the network has stands for. */
double cli_in_units(const lks_unit *unit, float number);
/* What the number is in its unit, as the shortest decimal that is the same number when it is standardised again. */
double cli_shortened(const lks_unit *unit, float number);

/* A number from 1 to `most` behind an option, whose `name` is for the sentence; *out stays where it is not given. */
LKS_MUSTUSE lks_status cli_count(int64_t *out, const cli_args *cli, cli_local local,
                                 const char *name, int64_t most);
/* --seconds, where it is given; and --comm-timeout. */
LKS_MUSTUSE lks_status cli_seconds(double *out, const cli_args *cli);
LKS_MUSTUSE lks_status cli_comm_timeout(double *out, const cli_args *cli);

void cli_help(const cli_args *cli, FILE *out);

/* What an option does, as help says it: with the key that it sets and the default. */
enum { CLI_TEXT_SIZE = 400 };
void cli_option_text(char *text, size_t size, const cli_option *option);

/* Words with a NULL behind them as one line, quoted for a shell. */
char *cli_words(cli_pool *pool, char *const *words);
/* The file of this program, to start it again; where that is not known, the name that was typed. */
char *cli_program(const cli_args *cli);
/* The command line that was typed, with `extra` added where it is not there, quoted for a shell; of processes
 * that were started together that of who started them, as far as it can be known. */
char *cli_command(const cli_args *cli, cli_pool *pool, const char *extra);
/* What a process of `lockstep launch` finds in this variable: launch's own command line. */
#define CLI_LAUNCHED "LKS_LAUNCHED"

/* One file each. */
#define VERB_DECLARE(ID, id, ...) lks_status verb_##id(const cli_args *cli, int *code);
CLI_VERB_LIST(VERB_DECLARE)

#endif
