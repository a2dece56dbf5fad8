/* The tables of verbs and options: parser and help follow from them. */
#include "cli/cli.h"

#include "cli/report/runs.h"

#define ROW(ID, id, operands, least, most, summary)                                                \
    {#id, operands, least, most, summary, verb_##id},
const cli_verb cli_verbs[] = {CLI_VERB_LIST(ROW)};
const int cli_verb_count = sizeof cli_verbs / sizeof *cli_verbs;

enum {
    TRAIN = VERB_TRAIN,
    LOADS = VERB_EVAL | VERB_PREDICT,
    RUNS = VERB_TRAIN | VERB_EVAL | VERB_PREDICT | VERB_INFO | VERB_VERIFY | VERB_BENCH |
           VERB_FIND | VERB_SWEEP,
    LAUNCHES = VERB_LAUNCH | VERB_DOCTOR,
    ALL = ~0,
};

#define ALIAS(name, argument, verbs, key)                                                          \
    {                                                                                              \
        name, 0, argument, verbs, LKI_KEY_##key, LOCAL_NONE, NULL                                  \
    }
#define ALIAS_(name, argument, verbs, key, help)                                                   \
    {                                                                                              \
        name, 0, argument, verbs, LKI_KEY_##key, LOCAL_NONE, help                                  \
    }
#define LOCAL(name, letter, argument, verbs, id, help)                                             \
    {                                                                                              \
        name, letter, argument, verbs, LKI_KEY_NONE, LOCAL_##id, help                              \
    }

const cli_option cli_options[] = {
    ALIAS("data", "DIR", RUNS, DATA_PATH),
    ALIAS("epochs", "N", TRAIN | VERB_SWEEP, TRAIN_EPOCHS),
    ALIAS("steps", "N", TRAIN | VERB_VERIFY | VERB_SWEEP, TRAIN_STEPS),
    LOCAL("grid", 0, "KEY=VALUES", VERB_SWEEP, GRID,
          "a key and the values that it is to have, such as optimizer.lr=0.1,0.01; "
          "repeated, all combinations are trained; default: none, one has to be given"),
    LOCAL("jobs", 0, "N", VERB_SWEEP, JOBS,
          "trainings at once; default: as many as there are cores for their workers"),
    ALIAS_("steps", "N", VERB_BENCH, TRAIN_STEPS, "steps to measure; null: those of 3 seconds"),
    LOCAL("seconds", 0, "S", VERB_BENCH, SECONDS, "measure for so long; default 3"),
    LOCAL("seconds", 0, "S", VERB_OP, SECONDS, "time each pass for so long; default 0.2"),
    ALIAS_("steps", "N", VERB_FIND, TRAIN_STEPS, "of lr: steps of the sweep; null: 200"),
    LOCAL("seconds", 0, "S", VERB_FIND, SECONDS,
          "of batch: measure each size for so long; default 1"),
    LOCAL("from", 0, "RATE", VERB_FIND, FROM, "of lr: the first rate; default 1e-6"),
    LOCAL("to", 0, "RATE", VERB_FIND, TO, "of lr: the last rate; default 10"),
    LOCAL("profile", 0, NULL, VERB_BENCH, PROFILE, "where the time goes, per layer and pass"),
    LOCAL(
        "passes", 0, NULL, VERB_BENCH, PASSES,
        "forward, gradients of activations and those of parameters, each by itself, by one worker"),
    ALIAS("batch-size", "N", RUNS, TRAIN_BATCH_SIZE),
    ALIAS("test-batch-size", "N", TRAIN | LOADS, TRAIN_TEST_BATCH_SIZE),
    ALIAS("lr", "RATE", TRAIN | VERB_VERIFY, OPTIMIZER_LR),
    ALIAS("gamma", "FACTOR", TRAIN | VERB_VERIFY, SCHEDULE_GAMMA),
    ALIAS("replicas", "V", RUNS, TRAIN_REPLICAS),
    ALIAS("workers", "W", RUNS & ~VERB_VERIFY, TRAIN_WORKERS),
    ALIAS("balance", "HOW", TRAIN | VERB_BENCH, TRAIN_BALANCE),
    LOCAL("workers", 0, "LIST", VERB_VERIFY, WORKERS,
          "numbers of workers to compare; default 1,2,3,5,8, as far as there are replicas"),
    LOCAL(
        "launch", 0, NULL, VERB_DOCTOR, LAUNCH,
        "of the processes that lockstep launch would start with these options: what each gets, and "
        "what is between them"),
    LOCAL("ranks", 'n', "N", LAUNCHES, RANKS,
          "how many ranks; default: those of --hosts, or the tasks of the Slurm job"),
    LOCAL(
        "hosts", 0, "LIST", LAUNCHES, HOSTS,
        "hosts with the ranks of each, such as a:2,b:2; default: this host, or those of the Slurm "
        "job"),
    LOCAL("workers", 0, "W", LAUNCHES, WORKERS,
          "workers of each rank; default: its part of the cores of its host"),
    LOCAL("bind", 0, "WHAT", LAUNCHES, BIND,
          "cores: ranks of a host divide its cores; none: they share them; default cores"),
    LOCAL("by", 0, "NAME", LAUNCHES, BY,
          "what starts the ranks: openmpi, mpich or srun; default: srun inside a Slurm allocation, "
          "else the MPI whose module is there"),
    LOCAL("hosts", 0, "LIST", VERB_PS, HOSTS,
          "hosts to look at, such as a,b, reached as launch reaches them, with this program at the "
          "same path; exit code 12 where one cannot be asked; default: this host"),
    LOCAL("hosts", 0, "LIST", VERB_STOP, HOSTS,
          "hosts where the run may be that is not on this one, such as a,b; exit code 12, and "
          "nothing is stopped, where one cannot be asked; default: none"),
    LOCAL("agent", 0, "FILE", LAUNCHES | VERB_PS | VERB_STOP, AGENT,
          "a program that runs a command on another host, called as ssh is; default: ssh"),
    LOCAL("log-dir", 0, "DIR", VERB_LAUNCH, LOG_DIR,
          "folder for what each rank says, in rank-N.log; default: ranks in the folder of --out, "
          "where a training has one, else none"),
    LOCAL("program", 0, "FILE", VERB_LAUNCH, PROGRAM,
          "the ranks run this program with the words that follow, if any, and no verb; default: "
          "this program"),
    LOCAL("dry-run", 0, NULL, VERB_LAUNCH, DRY_RUN, "print what would be started, and stop"),
    LOCAL("watch", 0, "TOKEN", VERB_LAUNCH, WATCH,
          "what launch itself starts on each host by mpiexec or srun: watch over one rank; "
          "default: none"),
    LOCAL("max-restarts", 0, "K", VERB_LAUNCH, MAX_RESTARTS,
          "after the death of a rank, a host or MPI go on from the last checkpoint, so often at "
          "most; default 0"),
    LOCAL("nnodes", 0, "N", LAUNCHES, NNODES,
          "hosts on which this command is typed, and which meet at --rdzv-endpoint; or MIN:MAX, as "
          "with --elastic; default 1"),
    LOCAL(
        "elastic", 0, NULL, VERB_LAUNCH, ELASTIC,
        "go on with the hosts that are left when one goes, and with all when it is back: --nnodes "
        "1:N"),
    LOCAL("nproc-per-node", 0, "N", LAUNCHES, NPROC, "ranks on this host; default 1"),
    LOCAL("node-rank", 0, "K", LAUNCHES, NODE_RANK,
          "which of the hosts this is; default: 0 at the endpoint, the others as they come"),
    LOCAL("standalone", 0, NULL, LAUNCHES, STANDALONE, "this host alone, without a rendezvous"),
    LOCAL("rdzv-endpoint", 0, "HOST:PORT", LAUNCHES, RDZV_ENDPOINT,
          "where the hosts meet: an address of one of them; default port 29400"),
    LOCAL("rdzv-id", 0, "ID", LAUNCHES, RDZV_ID,
          "what keeps two launches apart that meet at one endpoint; default none"),
    LOCAL("rdzv-timeout", 0, "S", LAUNCHES, RDZV_TIMEOUT,
          "how long to wait for the other hosts; default 600"),
    LOCAL("rdzv-secret", 0, "FILE", LAUNCHES, RDZV_SECRET,
          "file of mode 600 with what only the hosts know; default: LKS_RDZV_SECRET, or one that "
          "the first host draws and prints"),
    LOCAL("rdzv-backend", 0, "NAME", LAUNCHES, RDZV_BACKEND,
          "taken as torchrun has it, and of no effect; default c10d"),
    LOCAL("nodes", 0, "N", VERB_SLURM, NODES, "nodes of the job; default 1"),
    LOCAL("ntasks-per-node", 0, "N", VERB_SLURM, TASKS, "ranks on each node; default 1"),
    LOCAL("cpus-per-task", 0, "N", VERB_SLURM, CPUS,
          "cores of each rank; default: the configuration's workers, or 1"),
    LOCAL("time", 0, "TIME", VERB_SLURM, TIME,
          "how long the job may run at a time, as Slurm takes it: minutes, or "
          "days-hours:minutes:seconds; default 60"),
    LOCAL("partition", 0, "NAME", VERB_SLURM, PARTITION, "default: Slurm's own"),
    LOCAL("account", 0, "NAME", VERB_SLURM, ACCOUNT, "default: Slurm's own"),
    ALIAS("seed", "N", RUNS | VERB_OP, TRAIN_SEED),
    ALIAS_("seed", "N", VERB_DATA, DATA_SEED, NULL),
    ALIAS("device", "NAME", RUNS | VERB_OP, TRAIN_DEVICE),
    ALIAS("dry-run", NULL, TRAIN, TRAIN_DRY_RUN),
    ALIAS("init", "FILE", RUNS & ~(VERB_INFO | LOADS), MODEL_INIT),
    ALIAS_("init", "FILE", LOADS, MODEL_INIT,
           "safetensors file of the weights; null: those of --out"),
    ALIAS("save-model", NULL, TRAIN, MODEL_SAVE),
    ALIAS("out", "DIR", TRAIN, CHECKPOINT_PATH),
    ALIAS_("out", "DIR", LOADS, CHECKPOINT_PATH,
           "folder of checkpoints: the newest is used, or what --best says; null: --init has the "
           "weights"),
    LOCAL("best", 0, NULL, LOADS, BEST,
          "of --out the checkpoint whose loss was the best; the default where the run restores the "
          "best (validation.patience)"),
    LOCAL("last", 0, NULL, LOADS, LAST, "of --out the newest checkpoint"),
    ALIAS_("out", "DIR", VERB_DOCTOR, CHECKPOINT_PATH,
           "a folder for checkpoints, to try it; null: none is tried"),
    LOCAL("out", 0, "DIR", VERB_SWEEP, OUT,
          "folder with a folder for each training: checkpoints, run.json and log.txt; default: "
          "<name of CONFIG>-sweep"),
    LOCAL(
        "out", 0, "PATH", VERB_DATA, OUT,
        "folder for the four files, for shards, or for packed pictures; default for a download: "
        "where training "
        "looks for them; for pictures: beside them; of show, a PNG file; of vocabulary, its file"),
    LOCAL("mirror", 0, "URL", VERB_DATA, MIRROR,
          "download from this place instead of the official ones: the address of a folder, http, "
          "https or file; may be repeated, and they are tried in order"),
    LOCAL("patience", 0, "SECONDS", VERB_DATA, PATIENCE,
          "give a place up when nothing comes for so long; default 30"),
    LOCAL("test", 0, NULL, VERB_DATA, TEST, "the test samples, not those for training"),
    LOCAL("count", 0, "N", VERB_DATA, COUNT, "samples to show; default 10, in a file 100"),
    LOCAL("first", 0, "N", VERB_DATA, FIRST, "show samples from this number on; default 0"),
    LOCAL("class", 0, "N", VERB_DATA, CLASS, "show only samples of this class; default: of all"),
    LOCAL("augment", 0, NULL, VERB_DATA, AUGMENT,
          "show samples as the training of a configuration sees them, by its data.augment and "
          "data.mixup"),
    LOCAL("epoch", 0, "N", VERB_DATA, EPOCH, "of --augment: in this epoch, from 1; default 1"),
    LOCAL("size", 0, "N", VERB_DATA, SIZE,
          "of pack: pixels of every packed picture, N or WIDTHxHEIGHT; default: none, it has to be "
          "given"),
    LOCAL("split", 0, "SHARE", VERB_DATA, SPLIT,
          "of pack: hold so much of every class back as test pictures, drawn by --seed; default: "
          "those in val, or none"),
    LOCAL("skip-bad", 0, NULL, VERB_DATA, SKIP_BAD,
          "of pack: leave pictures out that cannot be read; default: they are an error"),
    LOCAL("rows", 0, "N", VERB_DATA, ROWS,
          "of shard: rows of a file, default 320; of columns: how many there are to be"),
    LOCAL("threads", 0, "N", VERB_DATA, THREADS,
          "of pack, shard, columns, and stats of shards: threads; default: one for each core"),
    ALIAS("resume", NULL, TRAIN, CHECKPOINT_RESUME),
    LOCAL("arch", 0, "NETWORK", TRAIN, ARCH,
          "in the place of CONFIG: this network on --dataset, with Adam, as scripts for PyTorch's "
          "DDP "
          "have it; --batch-size is then that of a process, and a run in --checkpoint-dir goes on; "
          "default alexnet"),
    LOCAL("dataset", 0, "NAME", TRAIN, DATASET,
          "of --arch: dummy, or tiny-imagenet with --data DIR; default dummy"),
    ALIAS_("num-epochs", "N", TRAIN, TRAIN_EPOCHS, "as --epochs; of --arch: default 60"),
    ALIAS_("num-classes", "N", TRAIN, DATA_CLASSES, "classes of the data; of --arch: default 10"),
    ALIAS_("checkpoint-dir", "DIR", TRAIN, CHECKPOINT_PATH,
           "as --out; of --arch: default checkpoints/NETWORK-DATASET"),
    LOCAL("no-checkpoint", 0, NULL, TRAIN, NO_CHECKPOINT, "of --arch: write no checkpoints"),
    LOCAL("resume-from", 0, "WHICH", TRAIN, RESUME_FROM,
          "as --resume WHICH: latest, or an epoch, while checkpoints of later ones are put aside; "
          "default of --arch: latest"),
    LOCAL("evaluate", 0, "BOOL", TRAIN, EVALUATE,
          "of --arch: True tests the weights of --checkpoint-dir once; default False"),
    LOCAL("model-name", 0, "NAME", TRAIN, MODEL_NAME,
          "of --arch: is shown; files of checkpoints are called as ever; default: none"),
    LOCAL("exp-name", 0, "NAME", TRAIN, EXP_NAME, "of --arch: is shown; default: none"),
    ALIAS("accept-changes", NULL, TRAIN, CHECKPOINT_ACCEPT_CHANGES),
    ALIAS("record", "FILE", TRAIN, LOG_RECORD),
    ALIAS_("record", "FILE", VERB_BENCH, LOG_RECORD,
           "JSON file for all that was measured; null: none is written"),
    ALIAS("csv", "FILE", TRAIN, LOG_CSV),
    LOCAL("csv", 0, "FILE", VERB_FIND, CSV,
          "of lr: rates and losses as a table; default: none is written"),
    ALIAS("tensorboard", "DIR", TRAIN, LOG_TENSORBOARD),
    ALIAS("log-interval", "N", TRAIN, LOG_INTERVAL),
    ALIAS("format", "FORMAT", TRAIN, LOG_FORMAT),
    ALIAS_("format", "FORMAT", VERB_EVAL | VERB_DOCTOR | VERB_BENCH | VERB_FIND | VERB_OP,
           LOG_FORMAT, "text or json"),
    ALIAS_("log-format", "FORMAT", TRAIN | VERB_EVAL, LOG_FORMAT, "the older name of --format"),
    ALIAS("quiet", NULL, TRAIN, LOG_QUIET),
    ALIAS("verbose", NULL, RUNS, LOG_VERBOSE),
    LOCAL(
        "split", 0, "NAME", LOADS, SPLIT,
        "test, validation (what the training held back: validation.samples or .fraction) or train "
        "(what it trained on); default test"),
    LOCAL("metrics", 0, NULL, VERB_EVAL, METRICS,
          "accuracy among the five largest outputs, precision, recall and F1 of each class, and "
          "which classes are taken for which, too"),
    LOCAL("worst", 0, "N", VERB_EVAL, WORST,
          "draw the N samples whose wrong class is the most probable into the PNG file behind "
          "CONFIG; default: none are drawn"),
    LOCAL("targets", 0, NULL, VERB_EVAL, TARGETS,
          "of data without classes the scores of every target; default: where there are more than "
          "20, their mean and the 10 worst"),
    LOCAL("images", 0, "WHAT", VERB_PREDICT, IMAGES,
          "a JPEG or PNG file, a folder of such files, or an IDX or .npy file of images; default: "
          "the samples of --split"),
    LOCAL(
        "skip-bad", 0, NULL, VERB_PREDICT, SKIP_BAD,
        "of --images: leave pictures out that cannot be read; default: they are an error when the "
        "others are predicted"),
    LOCAL("table", 0, "FILE", VERB_PREDICT, TABLE,
          "a table with the columns of data.table, which needs no targets nor data.table itself, "
          "or of data.series, whose next times are forecast; default: the samples of --split"),
    LOCAL("format", 0, "FORMAT", VERB_PREDICT, FORMAT,
          "text, csv, json, or npy: the numbers that csv has of them, as NumPy reads them; default "
          "text"),
    LOCAL("format", 0, "FORMAT", VERB_PS, FORMAT, "text, or json: an object a line; default text"),
    LOCAL("yes", 'y', NULL, VERB_STOP, YES, "do not ask"),
    LOCAL("probabilities", 0, NULL, VERB_PREDICT, PROBABILITIES, "those of all classes too"),
    LOCAL("outputs", 0, NULL, VERB_PREDICT, OUTPUTS,
          "what the network gives too, as it is (logits, or logarithms of probabilities)"),
    LOCAL("count", 0, "N", VERB_PREDICT, COUNT, "only the first so many; default: all"),
    LOCAL("prompt", 0, "TEXT", VERB_SAMPLE, PROMPT,
          "what the text begins with; default: a line feed"),
    LOCAL("prompts", 0, "FILE", VERB_SAMPLE, PROMPTS,
          "a text for each line of a file, which begins with it; - is standard input; default: one "
          "text"),
    LOCAL("tokens", 0, "N", VERB_SAMPLE, TOKENS, "tokens to make of each text; default 200"),
    LOCAL("temperature", 0, "T", VERB_SAMPLE, TEMPERATURE,
          "outputs are divided by it: below 1 what is probable becomes more so, 0 takes always the "
          "most probable token; default 1"),
    LOCAL("top-k", 0, "K", VERB_SAMPLE, TOP_K,
          "draw from so many tokens, the most probable; default: from all"),
    LOCAL("top-p", 0, "P", VERB_SAMPLE, TOP_P,
          "draw from as few tokens, the most probable, as have this share of all together; default "
          "1"),
    LOCAL(
        "stop", 0, "TEXT", VERB_SAMPLE, STOP,
        "a text ends in front of this, as soon as the network makes it; may be repeated; default: "
        "after --tokens"),
    LOCAL("seed", 0, "N", VERB_SAMPLE, SEED, "of what is drawn; default 0"),
    LOCAL("best", 0, NULL, VERB_SAMPLE, BEST,
          "of a folder the checkpoint whose validation loss was the smallest; the default where "
          "the run restores the best (validation.patience)"),
    LOCAL("last", 0, NULL, VERB_SAMPLE, LAST, "of a folder the newest checkpoint"),
    LOCAL("workers", 0, "W", VERB_SAMPLE, WORKERS,
          "cores that compute; no character depends on it; default: as the training had"),
    ALIAS_("level", "LEVEL", VERB_DATA, DATA_LEVEL,
           "of a text: word, char, byte or bpe; default char"),
    ALIAS_("words", "N", VERB_DATA, DATA_WORDS,
           "of level word: keep so many; of bpe: learn so many tokens; null: all, of bpe 4096"),
    ALIAS_("tokenizer", "FILE", VERB_DATA, DATA_TOKENIZER,
           "of a text: file of a vocabulary; null: one is made from the text"),
    ALIAS_("samples", "N", VERB_DATA, DATA_SAMPLES, "training samples to write; default 60000"),
    ALIAS_("test-samples", "N", VERB_DATA, DATA_TEST_SAMPLES, "test samples; default 10000"),
    LOCAL("comm-timeout", 0, "SECONDS", TRAIN | VERB_EVAL | VERB_BENCH | VERB_FIND | VERB_DATA,
          COMM_TIMEOUT, "of several processes: how long to wait for another; default 600"),
    LOCAL("comm-timeout", 0, "SECONDS", VERB_PS | VERB_STOP, COMM_TIMEOUT,
          "how long to wait for the answer of another host; default 10"),
    LOCAL("verify-comm", 0, NULL, TRAIN | VERB_EVAL | VERB_BENCH | VERB_FIND, VERIFY_COMM,
          "of several processes: compare what all are about to exchange, each time; slow"),
    LOCAL(
        "num-processes", 0, "N", TRAIN, PROCESSES,
        "as so many processes, the ranks, on this host or those of the Slurm job: lockstep launch "
        "-n N; the batch is that of all; default 1"),
    LOCAL("num-processes", 0, "N", VERB_DATA, PROCESSES,
          "of shard, columns, and stats of shards: as so many processes, on this host or those of "
          "the Slurm job, as by lockstep launch -n N; default 1"),
    LOCAL("gpus", 0, "N", TRAIN, GPUS,
          "as kosmoss has it: processes of each of --num-nodes, here on cores; default 1"),
    LOCAL("num-nodes", 0, "N", TRAIN, NUM_NODES,
          "--num-processes is --gpus times this; without Slurm all are on this host; default 1"),
    LOCAL("strategy", 0, "NAME", TRAIN, STRATEGY,
          "ddp or horovod: processes take every step together; average: each alone, and their "
          "models are averaged as train.average_every says, by default after every step; default: "
          "as the configuration says"),
    LOCAL("memory", 0, NULL, VERB_INFO, MEMORY, "the memory map too"),
    LOCAL("svg", 0, "FILE", VERB_FIND, SVG, "of lr: the curve as a picture too"),
    LOCAL("memory", 0, "SIZE", VERB_FIND, MEMORY,
          "of batch: what it may take, such as 800M or 4G; default: what this process may have"),
    LOCAL("svg", 0, "FILE", VERB_REPORT | VERB_SWEEP, SVG, "the curves as a picture too"),
    LOCAL("html", 0, "FILE", VERB_REPORT | VERB_SWEEP, HTML, "everything as one page too"),
    LOCAL("root", 0, "DIR", VERB_DOCTOR, ROOT,
          "read proc and sys below this folder, as where a host's are mounted in a container; "
          "default: /"),
    LOCAL("filters", 0, "FILE", VERB_INFO, FILTERS,
          "of a checkpoint or a safetensors file: draw the filters of the first convolution into "
          "this PNG file too; default: none are drawn"),
    LOCAL("plan", 0, NULL, VERB_INFO, PLAN, "what computes each layer too, and why"),
    LOCAL("models", 0, NULL, VERB_INFO, MODELS,
          "list all networks by name, with their parameters, and stop"),
    LOCAL("shape", 0, "HxWxC", VERB_INFO, SHAPE,
          "of a network by name: images of this size; default: those it was published for"),
    LOCAL("set", 0, "KEY=VALUE", RUNS, SET,
          "set any key of the configuration, such as "
          "optimizer.lr=0.1; may be repeated"),
    LOCAL("config", 0, "NAME", RUNS | VERB_DATA, CONFIG,
          "which of several configurations in the file (its `configs`), as FILE#NAME does; list: "
          "print their names, and stop; default: the one called default"),
    LOCAL("bias", 0, NULL, VERB_TRAIN | VERB_BENCH | VERB_INFO, BIAS,
          "of a network_config.txt, or the JSON file beside it: its layers have biases, as "
          "FILE#bias or --config bias does"),
    LOCAL("fc-relu", 0, NULL, VERB_TRAIN | VERB_BENCH | VERB_INFO, FC_RELU,
          "of such a file: relu stands between FC layers, as FILE#fc_relu does"),
    LOCAL("yaml-config", 0, "FILE", RUNS & ~VERB_FIND, YAML_CONFIG,
          "another way to give CONFIG; default: it is the first operand"),
    LOCAL("print-config", 0, NULL, RUNS, PRINT_CONFIG,
          "print the configuration with everything settled, as YAML, and stop"),
    LOCAL("help", 'h', NULL, ALL, HELP, "this help"),
    LOCAL("help-config", 0, NULL, ALL, HELP_CONFIG, "every key of a configuration"),
    LOCAL("help-layers", 0, NULL, ALL, HELP_LAYERS,
          "every layer for model.layers, augmentation for data.augment"),
    LOCAL("help-as", 0, "FORMAT", VERB_NONE, HELP_AS,
          "all of the help as a man page (man), completion for a shell (bash, zsh), or a page of "
          "the documentation (cli.md, ops.md)"),
    LOCAL("version", 'V', NULL, ALL, VERSION, "version and build"),
};
const int cli_option_count = sizeof cli_options / sizeof *cli_options;
