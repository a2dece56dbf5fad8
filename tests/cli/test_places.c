/* Where the program writes: folders that are in use, links, devices, what must not be replaced. */
#include "verbs/background.h"

#include <signal.h>

#include <jansson.h>

/* The folder of a run that goes on belongs to it; the next start ends at once and says whose it is. */
static void a_folder_has_one_training(void **state)
{
    (void)state;
    char hash[32], process[64];
    write_text("c.yaml", tiny);
    const pid_t child = start("train c.yaml --epochs 100000 --out run --set log.interval=1");
    wait_for("out.txt", "Train Epoch: 3 ");
    assert_int_equal(shell("'%s' train c.yaml --out run/ --resume >out2 2>err2", program()), 3);
    read_text(last.err, "err2");
    snprintf(process, sizeof process, "training (process %d on ", (int)child);
    if (strstr(last.err, process) == NULL) fail_msg("no \"%s\" in:\n%s", process, last.err);
    read_text(last.out, "out2");
    assert_string_equal(last.out, "");
    assert_int_equal(shell("'%s' eval c.yaml --out run >out2 2>err2", program()), 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(there("run/.lockstep.lock"));
    run("train c.yaml --out run --resume --steps 50"); /* what was killed holds nothing */
    expect_ok();
    last_hash(hash);
    assert_false(there("run/.lockstep.lock"));
}

/* Of some that start together one trains; no other exits with a fault of Lockstep. */
static void one_of_many_starts_wins(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    write_text("race.sh", "for i in 1 2 3 4; do\n"
                          "  (\"$1\" train c.yaml --out run >out.$i 2>err.$i; echo $? >code.$i) &\n"
                          "done\nwait\n");
    for (int round = 0; round < 5; round++) {
        int won = 0;
        shell("rm -rf run && sh race.sh '%s'", program());
        for (int i = 1; i <= 4; i++) {
            char name[24];
            snprintf(name, sizeof name, "code.%d", i);
            read_text(last.out, name);
            const int code = atoi(last.out);
            snprintf(name, sizeof name, "err.%d", i);
            read_text(last.err, name);
            won += code == 0;
            const char *why = code == 3 ? "in use by another training" : "has checkpoints up to";
            if (code != 0 && ((code != 3 && code != 2) || strstr(last.err, why) == NULL))
                fail_msg("exit code %d: %s", code, last.err);
        }
        assert_int_equal(won, 1);
    }
}

static void a_dry_run_leaves_nothing(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --dry-run --out run --save-model --record run.json");
    expect(0, "");
    assert_false(there("run") || there("run.json") || there("mlp.safetensors"));
    run("train c.yaml --out run --steps 3");
    expect(0, "");
    run("train c.yaml --out run --dry-run"); /* it says what the training would */
    expect(2, "which has checkpoints up to step 3; give --resume");
    run("train c.yaml --out run --dry-run --resume");
    expect(0, "");
    assert_int_equal(shell("test \"$(ls -A run)\" = \"$(printf '%%s\\n' record.json "
                           "step-00000003.json step-00000003.safetensors)\""),
                     0);
}

/* What must be as it was: a copy in copy/. */
static void expect_unchanged(const char *names)
{
    if (shell("for f in %s; do cmp $f copy/$f || exit 1; done >same.txt 2>&1", names) != 0) {
        read_text(last.err, "same.txt");
        fail_msg("%s", last.err);
    }
}

/* Nothing that a command reads is ever written over, by whatever name. */
static void inputs_are_not_replaced(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --quiet --epochs 1 --out run --save-model --record a.json");
    expect_ok();
    run("data digits --out d --samples 200 --test-samples 50");
    expect_ok();
    write_text("d.yaml", "data: {name: mnist, path: d}\n"
                         "model: {name: mlp, hidden: [8]}\n"
                         "train: {batch_size: 10, steps: 2}\n");
    shell("ln -s c.yaml link && ln c.yaml hard && ln -s run/step-00000010.json step && "
          "cp -r . ../copy && mv ../copy copy");
    static const char *const commands[] = {
        "train c.yaml --record c.yaml",
        "train c.yaml --record ./link",
        "train c.yaml --record hard",
        "train c.yaml --resume --out run --record run/step-00000010.json",
        "train c.yaml --resume --out run --record step",
        "train c.yaml --resume --out run --record run/step-00000020.json", /* of a later one */
        "train c.yaml --init mlp.safetensors --record mlp.safetensors",
        "train c.yaml --init mlp.safetensors --save-model",
        "train d.yaml --record d/train-images-idx3-ubyte",
        "bench c.yaml --steps 1 --record c.yaml",
        "report a.json --svg a.json",
        "report a.json --html ./a.json",
        "data show d.yaml --out d.yaml",
        "data show d --out d/t10k-labels-idx1-ubyte",
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        run("%s", commands[i]);
        if (last.code != 2) fail_msg("%s: exit code %d\n%s", commands[i], last.code, last.err);
        expect(2, "; give another name");
        expect_unchanged("c.yaml d.yaml a.json mlp.safetensors run/* d/*");
        assert_false(there("run/step-00000020.json"));
        assert_null(strstr(last.out, "Train Epoch"));
    }
    run("report a.json --svg both --html both");
    expect(2, "'both' would be written twice; give two names");
    run("train c.yaml --save-model --record mlp.safetensors");
    expect(2, "'mlp.safetensors' would be written twice");
    run("train d.yaml --record d/run.json"); /* a record may lie beside the data, and be replaced */
    expect_ok();
    run("train d.yaml --record d/run.json");
    expect_ok();
}

/* Waits for it, but not for ever. */
static void finish_soon(pid_t child)
{
    siginfo_t info = {.si_pid = 0};
    for (int i = 0; i < 200 && info.si_pid == 0; i++) {
        assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT), 0);
        if (info.si_pid == 0) nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    if (info.si_pid == 0) kill(child, SIGKILL);
    finish(child);
}

/* A record's pipe waits for its reader, whom a signal says not to wait for: in the training, and after
 * it. What is printed and saved is whole. */
static void a_pipe_may_have_no_reader(void **state)
{
    (void)state;
    static const struct row {
        const char *epochs, *file, *until;
    } rows[] = {{"100000", "out.txt", "Train Epoch: 3 "}, {"2", "run/step-00000020.json", "{"}};
    char hash[32];
    write_text("c.yaml", tiny);
    shell("mkfifo pipe");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char arguments[200];
        shell("rm -rf run out.txt err.txt");
        snprintf(arguments, sizeof arguments,
                 "train c.yaml --epochs %s --out run --record pipe --set log.interval=1",
                 rows[i].epochs);
        const pid_t child = start(arguments);
        wait_for(rows[i].file, rows[i].until);
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
        assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
        kill(child, SIGTERM);
        finish_soon(child);
        expect(3,
               "cannot write 'pipe': it is a pipe that nobody reads, and a signal asked to stop");
        const long long step = last_hash(hash);
        assert_int_equal(shell("test -p pipe && test -s run/step-%08lld.json", step), 0);
    }
}

/* A device, a pipe, a link: never replaced by a file, also where one might. */
static void devices_and_links_stay(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    shell("mkdir sub && ln -s sub/target.json link && mkfifo pipe");
    run("train c.yaml --quiet --record link");
    expect(0, "");
    assert_int_equal(shell("test -L link && test -f sub/target.json && "
                           "test $(ls -A sub | wc -l) = 1"),
                     0);
    if (lkt_make_device(in_folder("null"), 3) && lkt_make_device(in_folder("full"), 7)) {
        run("train c.yaml --quiet --record null");
        expect(0, "");
        run("train c.yaml --quiet --record full");
        expect(3, "cannot write 'full': no space left on the device");
        assert_int_equal(strncmp(last.out, "hash ", 5), 0); /* it has been trained */
        run("bench c.yaml --steps 1 --record null");
        expect(0, "");
        run("report link --svg null --html null");
        expect(0, "");
#if defined(LKT_HAVE_PNG)
        run("data show digits --count 1 --out null");
        expect(0, "");
#endif
        assert_int_equal(shell("test -c null && test -c full"), 0);
    }
    assert_int_equal(shell("(timeout 20 cat pipe >piped.json &) && '%s' train c.yaml --quiet "
                           "--record pipe >out.txt && sleep 0.2 && test -p pipe && "
                           "'%s' compare sub/target.json piped.json >out.txt",
                           program(), program()),
                     0);
    /* Once, behind all that is printed before it. */
    shell("ln -s /proc/self/fd/1 stdout"); /* as /dev/stdout */
    run("train c.yaml --quiet --record stdout");
    expect(0, "");
    assert_int_equal(last.out[0], '{');
    char *end = strstr(last.out, "\n}\nhash ");
    assert_non_null(end);
    assert_null(strstr(strstr(last.out, "\"version\"") + 1, "\"version\""));
    shell("ln -s /proc/self/fd/2 stderr");
    run("train c.yaml --quiet --record stderr");
    expect_ok();
    assert_int_equal(last.err[0], '{');
    assert_non_null(strstr(last.err, "\n}\n"));
    assert_null(strstr(strstr(last.err, "\"version\"") + 1, "\"version\""));
}

/* Before the first step, not after the last. */
static void folders_are_no_files(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    shell("mkdir -p folder mlp.safetensors");
    static const char *const wrong[] = {"--record folder", "--record folder/", "--record new/",
                                        "--save-model"};
    for (size_t i = 0; i < 4; i++) {
        run("train c.yaml %s", wrong[i]);
        expect(3, "is a folder, expected a file");
        assert_string_equal(last.out, "");
    }
    static const char *const right[] = {
        "--out a/ --record a/run.json", "--out b --record b/run.json",
        "--out c --record ./c/run.json", "--out d/e/// --record d/e/run.json"};
    for (size_t i = 0; i < 4; i++) {
        run("train c.yaml --quiet --steps 1 %s", right[i]);
        expect(0, "");
    }
    assert_true(there("a/run.json") && there("b/run.json") && there("c/run.json") &&
                there("d/e/run.json"));
}

/* Whatever fails behind the last step, the hash is said. */
static void the_hash_is_always_said(void **state)
{
    (void)state;
    char whole[32], hash[32];
    write_text("c.yaml", tiny);
    run("train c.yaml");
    last_hash(whole);
    if (lkt_make_device(in_folder("full"), 7)) {
        run("train c.yaml --record full --save-model");
        expect(3, "no space left");
        assert_int_equal(last_hash(hash), 20);
        assert_string_equal(hash, whole);
        assert_non_null(strstr(last.err, "lockstep: the weights are in mlp.safetensors\n"));
    }
    /* The last checkpoint is too large for the limit, and so are the weights. */
    const int code = shell("(ulimit -f 40; exec '%s' train c.yaml --out run --save-model --set "
                           "checkpoint.every_epochs=0) >out.txt 2>err.txt",
                           program());
    read_text(last.out, "out.txt");
    read_text(last.err, "err.txt");
    last.code = code;
    expect(3, "safetensors': the file would be larger than is allowed (see ulimit -f)");
    /* Both are said, and the first ends the program. */
    const char *weights = strstr(last.err, "mlp.safetensors': the file would be larger");
    assert_non_null(weights);
    assert_non_null(strstr(weights, "/step-00000020.safetensors': the file would be larger"));
    assert_int_equal(last_hash(hash), 20);
    assert_string_equal(hash, whole);
}

/* Killed at any time, a run has the record of its last epoch. */
static void the_record_is_kept_current(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    const pid_t child = start(
        "train c.yaml --epochs 100000 --record run.json --set log.interval=1");
    wait_for("out.txt", "Train Epoch: 4 ");
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    json_t *record = json_load_file(in_folder("run.json"), 0, NULL);
    assert_non_null(record);
    const json_int_t epochs = (json_int_t)json_array_size(json_object_get(record, "epochs"));
    assert_true(epochs >= 3);
    assert_int_equal(json_integer_value(json_object_get(record, "steps")), 10 * epochs);
    assert_true(json_is_false(json_object_get(record, "finished")));
    char hash[32];
    run("train c.yaml --epochs %d", (int)epochs); /* its hash is that of this moment */
    last_hash(hash);
    assert_string_equal(hash, json_string_value(json_object_get(record, "hash")));
    json_decref(record);
}

/* Where a launcher starts many: what all do together finds no way to meet here; what one does is done by the
 * first. The script of a batch job with tasks is none of them. */
static void tasks_do_it_once(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    static const struct row {
        const char *environment;
        int code; /* of what one does */
        const char *says;
    } rows[] = {
        {"SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2", 0,
         NULL},
        {"OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1", 0, NULL},
        {"PMI_SIZE=16 PMI_RANK=15", 0, NULL},
        {"MPI_LOCALNRANKS=2", 2,
         "this is one of 2 processes that were started together (MPI_LOCAL"},
        {"MV2_COMM_WORLD_SIZE=3 MV2_COMM_WORLD_RANK=1", 0, NULL},
    };
    static const char *const commands[] = {"data digits --out d",
                                           "predict c.yaml",
                                           "info c.yaml",
                                           "op relu",
                                           "eval --help",
                                           "bench c.yaml --record b.json",
                                           "train c.yaml --out run --record r.json",
                                           "eval c.yaml --out run"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; k < 8; k++) {
            if (rows[i].code != 0 && k > 0 && k < 5) continue; /* they write nothing */
            last.code = shell("env LKS_MODULES=/nowhere %s '%s' %s >out.txt 2>err.txt",
                              rows[i].environment, program(), commands[k]);
            read_text(last.out, "out.txt");
            read_text(last.err, "err.txt");
            assert_string_equal(last.out, "");
            if (k < 5 && rows[i].says == NULL) assert_string_equal(last.err, "");
            const char *says = rows[i].says != NULL ? rows[i].says : "";
            expect(k < 5 ? rows[i].code : 12, k < 5 ? says : " started ");
        }
    }
    assert_int_equal(shell("test -z \"$(ls -d run r.json d b.json 2>out.txt)\""), 0);
    for (int rank = 0; rank < 2; rank++) { /* all of one host find no module: one says so */
        last.code = shell("env LKS_MODULES=/nowhere PMI_SIZE=4 PMI_RANK=%d MPI_LOCALRANKID=%d "
                          "MPI_LOCALNRANKS=2 '%s' train c.yaml >out.txt 2>err.txt",
                          2 + rank, rank, program());
        read_text(last.err, "err.txt");
        expect(12, rank == 0 ? "there is no module for MPICH" : "");
        assert_true((last.err[0] == '\0') == (rank == 1));
    }
    const char *const first =
        "env SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0 '%s' %s >out.txt 2>err.txt";
    assert_int_equal(shell(first, program(), "data digits --out d --samples 20 --test-samples 10"),
                     0);
    read_text(last.err, "err.txt");
    assert_string_equal(
        last.err, "lockstep: data is done by one process, so of the 3 that srun started the "
                  "others end at once; unset SLURM_STEP_NUM_TASKS where each is to have a run "
                  "of its own\n");
    assert_int_equal(shell("exit $(ls d | wc -l)"), 4);
    static const char *const fine[] = {
        ("SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_NPROCS=4 SLURM_PROCID=0 SLURM_LOCALID=0 "
         "SLURM_TASKS_PER_NODE=4 SLURM_NNODES=1"), /* sbatch --ntasks=4, without srun */
        "SLURM_JOB_ID=7 SLURM_NTASKS=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0",
        "OMPI_COMM_WORLD_SIZE=1 PMI_SIZE=1 MPI_LOCALNRANKS=1",
        "PMI_SIZE= SLURM_STEP_NUM_TASKS=x",
    };
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            shell("env %s '%s' train c.yaml --steps 1 >out.txt 2>err.txt", fine[i], program()), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_folder_has_one_training), TEST(one_of_many_starts_wins),
        TEST(a_dry_run_leaves_nothing),  TEST(inputs_are_not_replaced),
        TEST(devices_and_links_stay),    TEST(folders_are_no_files),
        TEST(the_hash_is_always_said),   TEST(the_record_is_kept_current),
        TEST(tasks_do_it_once),          TEST(a_pipe_may_have_no_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
