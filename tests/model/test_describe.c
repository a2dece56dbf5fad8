/* What a model says of itself: layers, plan and memory, to the letter, on ref, whose kernels are the
 * same everywhere. */
#include <string.h>

#include <lockstep/tools.h>

#include "support/runs.h"
#include "support/test.h"

enum { TEXT_SIZE = 8192 };

typedef struct text {
    char all[TEXT_SIZE];
    size_t used;
} text;

static void write_line(void *user, const char *line)
{
    text *t = user;
    const int length = snprintf(t->all + t->used, sizeof t->all - t->used, "%s\n", line);
    assert_true(length > 0 && (size_t)length < sizeof t->all - t->used);
    t->used += (size_t)length;
}

/* Segments of slices, of whole replicas and of several replicas at once; a name too long for a line, and
 * a layer that nothing reads. */
static void open_session(lkt_model *s, lks_model_opts opts, lks_log_fn log, void *user)
{
    *s = lkt_begin(&(lks_context_opts){
        .device = "ref", .seed = 1, .log = log, .log_user = user, .log_level = LKS_LOG_DEBUG});
    lks_graph *g = s->graph;
    lks_tensor *x = lks_input(
        g, &(lks_input_opts){.name = "pixels", .shape = LKS_SHAPE(40, 40, 3), .dtype = LKS_U8});
    lks_tensor *y = lks_target(g, &(lks_target_opts){.classes = 10});
    x = lks_normalize(
        g, x, &(lks_normalize_opts){.count = 1, .mean = (float[]){.5f}, .std = (float[]){.25f}});
    x = lks_conv2d(g, x,
                   &(lks_conv2d_opts){.name = "a_convolution_with_a_long_name",
                                      .filters = 8,
                                      .kernel = {3, 3},
                                      .padding = {1, 1}});
    x = lks_batch_norm(g, x, &(lks_batch_norm_opts){.name = "bn"});
    x = lks_max_pool(g, lks_relu(g, x), &(lks_pool_opts){.kernel = {2, 2}});
    x = lks_flatten(g, x);
    (void)lks_dense(g, x, &(lks_dense_opts){.name = "unread", .units = 32});
    x = lks_relu(g, lks_dense(g, x, &(lks_dense_opts){.name = "fc1", .units = 32}));
    x = lks_dropout(g, x, &(lks_dropout_opts){.probability = .5f});
    x = lks_dense(g, x, &(lks_dense_opts){.name = "fc2", .units = 10});
    opts.loss = lks_cross_entropy(g, x, y, NULL);
    opts.global_batch = 20;
    opts.replicas = 5;
    lkt_compile(s, &opts);
}

static void says(const lkt_model *s, lks_describe what, const char *expected)
{
    text found = {.used = 0};
    LKT_OK(lks_model_describe(s->model, what, write_line, &found));
    assert_string_equal(found.all, expected);
}

static const char LAYERS[] =
    "name                            output      parameters    mult-adds  operation\n"
    "pixels                          40x40x3              -            -\n"
    "    input shape=40x40x3 dtype=U8\n"
    "target_1                        one number           -            -\n"
    "    target classes=10\n"
    "normalize_1                     40x40x3              -            -\n"
    "    normalize mean=0.5 std=0.25 in=4x40x40x3:u8\n"
    "a_convolution_with_a_long_name  40x40x8            224      345,600\n"
    "    conv2d filters=8 kernel=3x3 padding=1 in=4x40x40x3\n"
    "bn                              40x40x8             16            -\n"
    "    batch_norm in=4x40x40x8\n"
    "relu_1                          40x40x8              -            -\n"
    "    relu in=4x40x40x8\n"
    "max_pool_1                      20x20x8              -            -\n"
    "    max_pool kernel=2x2 in=4x40x40x8\n"
    "flatten_1                       3200                 -            -\n"
    "    flatten in=4x20x20x8\n"
    "fc1                             32             102,432      102,400\n"
    "    dense units=32 in=4x3200\n"
    "relu_2                          32                   -            -\n"
    "    relu in=4x32\n"
    "dropout_1                       32                   -            -\n"
    "    dropout probability=0.5 in=4x32\n"
    "fc2                             10                 330          320\n"
    "    dense units=10 in=4x32\n"
    "cross_entropy_1                 one number           -            -\n"
    "    cross_entropy in=4x10\n"
    "103,002 parameters to train, 103,019 numbers with running statistics\n"
    "448,320 multiply-adds in a sample's forward pass\n"
    "0.41 MB parameters, 0.82 MB optimizer, 5.23 MB activations, 6.68 MB in all\n"
    "batches of 20 in 5 replicas on 2 workers\n";

static const char PLAN[] =
    "stage  segment  at a time    gradient      saved  implementation: layers\n"
    "    0        0  4 samples                      0  normalize (loops): normalize_1\n"
    "    1        0  4 samples    by replica        0  conv2d (loops):\n"
    "                                                  a_convolution_with_a_long_name\n"
    "    2     0, 1  4 samples    by replica        0  batch_norm (loops): bn\n"
    "    3        1  4 samples                      0  relu (loops): relu_1\n"
    "    4        1  4 samples                      0  max_pool (loops): max_pool_1\n"
    "    5        1  4 samples                      0  flatten (loops): flatten_1\n"
    "    6        2  3 replicas   by rows           0  dense (loops): fc1\n"
    "    7        2  3 replicas                     0  relu (loops): relu_2\n"
    "    8        2  3 replicas                    32  dropout (loops): dropout_1\n"
    "    9        2  3 replicas   by rows           0  dense (loops): fc2\n"
    "   10        2  3 replicas                     0  cross_entropy (loops):\n"
    "                                                  cross_entropy_1\n"
    "saved: bytes of a sample that the kernel keeps from forward for backward\n";

static const char MEMORY[] =
    "place    node             value          offset        bytes  alive (ticks)\n"
    "cohort   normalize_1      out           1843200       230400  0 to 23\n"
    "cohort   a_convolution_with_a_long_name out                 0       614400  0 to 23\n"
    "slice    a_convolution_with_a_long_name d_out         2073600       204800  21 to 22\n"
    "sums     a_convolution_with_a_long_name sums          2432000         1792  21 to 23\n"
    "slice    bn               out            614400       204800  3 to 4\n"
    "cohort   bn               d_out          614400       614400  17 to 23\n"
    "replica  bn               replica       2483200          768  0 to 23\n"
    "cohort   relu_1           out           1228800       614400  0 to 23\n"
    "slice    relu_1           d_out         2073600       204800  18 to 19\n"
    "slice    max_pool_1       out            614400        51200  5 to 6\n"
    "slice    max_pool_1       d_out         2432000        51200  17 to 18\n"
    "kept     flatten_1        out                 0       256000  6 to 16\n"
    "cohort   flatten_1        d_out         2278400       153600  16 to 23\n"
    "cohort   fc1              out            614400         1536  7 to 8\n"
    "kept     fc1              d_out          256000         2560  15 to 16\n"
    "cohort   relu_2           out            615936         1536  8 to 15\n"
    "cohort   relu_2           d_out          614400         1536  14 to 15\n"
    "kept     dropout_1        out            258560         2560  9 to 13\n"
    "cohort   dropout_1        d_out          617472         1536  13 to 14\n"
    "cohort   dropout_1        saved          619008          384  9 to 14\n"
    "cohort   fc2              out           2483968          512  10 to 23\n"
    "kept     fc2              d_out          261120          832  12 to 13\n"
    "cohort   cross_entropy_1  out           2484480           64  11 to 23\n"
    "activations of a worker                             4969088 bytes (all workers)\n"
    "workspace of a worker                                204800 bytes (all workers)\n"
    "gradients by replica of worker 0                       2048 bytes\n"
    "gradients by replica of worker 1                       2176 bytes\n"
    "kept for gradients by rows                           261952 bytes\n"
    "parameters and optimizer state                      1236480 bytes\n"
    "packed parameters                                      1728 bytes\n"
    "buffers                                                 192 bytes\n";

/* Two workers, gradients by rows, groups of three replicas at most. */
static void by_rows_on_two_workers(void **state)
{
    (void)state;
    lkt_model s;
    open_session(&s, (lks_model_opts){.workers = 2, .optim = lks_adam()}, NULL, NULL);
    says(&s, LKS_DESCRIBE_LAYERS, LAYERS);
    says(&s, LKS_DESCRIBE_PLAN, PLAN);
    says(&s, LKS_DESCRIBE_MEMORY, MEMORY);
    LKT_FAILS(LKS_E_INVALID, "there is no description 3",
              lks_model_describe(s.model, (lks_describe)3, write_line, NULL));
    lkt_end(&s);
}

/* One worker, gradients by replica and kept for their norm, averages: nothing is joint. */
static void by_replica_on_one_worker(void **state)
{
    (void)state;
    lkt_model s;
    open_session(
        &s,
        (lks_model_opts){
            .workers = 1, .optim = lks_adam(), .clip_norm = 1, .ema_decay = .9, .by_replica = true},
        NULL, NULL);
    says(&s, LKS_DESCRIBE_PLAN,
         "stage  segment  at a time    gradient      saved  implementation: layers\n"
         "    0        0  4 samples                      0  normalize (loops): normalize_1\n"
         "    1        0  4 samples    by replica        0  conv2d (loops):\n"
         "                                                  a_convolution_with_a_long_name\n"
         "    2     0, 1  4 samples    by replica        0  batch_norm (loops): bn\n"
         "    3        1  4 samples                      0  relu (loops): relu_1\n"
         "    4        1  4 samples                      0  max_pool (loops): max_pool_1\n"
         "    5        1  4 samples                      0  flatten (loops): flatten_1\n"
         "    6        2  a replica    by replica        0  dense (loops): fc1\n"
         "    7        2  a replica                      0  relu (loops): relu_2\n"
         "    8        2  a replica                     32  dropout (loops): dropout_1\n"
         "    9        2  a replica    by replica        0  dense (loops): fc2\n"
         "   10        2  a replica                      0  cross_entropy (loops):\n"
         "                                                  cross_entropy_1\n"
         "saved: bytes of a sample that the kernel keeps from forward for backward\n");
    says(&s, LKS_DESCRIBE_MEMORY,
         "place    node             value          offset        bytes  alive (ticks)\n"
         "cohort   normalize_1      out            819200        76800  0 to 23\n"
         "cohort   a_convolution_with_a_long_name out                 0       204800  0 to 23\n"
         "slice    a_convolution_with_a_long_name d_out          204800       204800  21 to 22\n"
         "sums     a_convolution_with_a_long_name sums           614400         1792  21 to 23\n"
         "slice    bn               out            204800       204800  3 to 4\n"
         "cohort   bn               d_out          409600       204800  17 to 23\n"
         "replica  bn               replica        998400          256  0 to 23\n"
         "cohort   relu_1           out            614400       204800  3 to 20\n"
         "slice    relu_1           d_out          204800       204800  18 to 19\n"
         "slice    max_pool_1       out            204800        51200  5 to 6\n"
         "slice    max_pool_1       d_out          896000        51200  17 to 18\n"
         "cohort   flatten_1        out            409600        51200  3 to 16\n"
         "cohort   flatten_1        d_out          947200        51200  16 to 20\n"
         "cohort   fc1              out            204800          512  7 to 8\n"
         "cohort   fc1              d_out          204800          512  15 to 16\n"
         "cohort   relu_2           out            205312          512  8 to 15\n"
         "cohort   relu_2           d_out          205824          512  14 to 15\n"
         "cohort   dropout_1        out            204800          512  9 to 13\n"
         "cohort   dropout_1        d_out          206336          512  13 to 14\n"
         "cohort   dropout_1        saved          206848          128  9 to 14\n"
         "cohort   fc2              out            998656          192  10 to 23\n"
         "cohort   fc2              d_out          205824          192  12 to 13\n"
         "cohort   cross_entropy_1  out            998848           64  11 to 23\n"
         "activations of a worker                              998912 bytes\n"
         "workspace of a worker                                102400 bytes\n"
         "gradients by replica of worker 0                    1234048 bytes\n"
         "kept for gradients by rows                                0 bytes\n"
         "gradients, kept for the update                       412160 bytes\n"
         "parameters and optimizer state                      1648640 bytes\n"
         "packed parameters                                      1728 bytes\n"
         "buffers                                                 192 bytes\n");
    text layers = {.used = 0};
    LKT_OK(lks_model_describe(s.model, LKS_DESCRIBE_LAYERS, write_line, &layers));
    assert_non_null(strstr(
        layers.all, "0.41 MB parameters, 0.82 MB optimizer, 1.00 MB activations, 4.40 MB in all\n"
                    "batches of 20 in 5 replicas on 1 worker\n"));
    lkt_end(&s);
}

/* What only predicts forms no gradient and keeps nothing for one. */
static void a_plan_without_training(void **state)
{
    (void)state;
    lkt_model m = lkt_begin(&(lks_context_opts){.device = "ref"});
    lks_tensor *x = lks_input(m.graph, &(lks_input_opts){.shape = LKS_SHAPE(12)});
    x = lks_dropout(m.graph, lks_dense(m.graph, x, &(lks_dense_opts){.units = 32}),
                    &(lks_dropout_opts){.probability = .5f});
    lkt_compile(&m, &(lks_model_opts){.output = x, .global_batch = 1, .workers = 1});
    says(&m, LKS_DESCRIBE_PLAN,
         "stage  segment  at a time    gradient      saved  implementation: layers\n"
         "    0        0  8 replicas                     0  dense (loops): dense_1\n"
         "    1        0  8 replicas                     0  dropout (loops): dropout_1\n"
         "saved: bytes of a sample that the kernel keeps from forward for backward\n");
    lkt_end(&m);
}

typedef struct log {
    text lines;
    int debug, others;
} log;

static void write_log(void *user, lks_log_level level, const char *line)
{
    log *l = user;
    if (level == LKS_LOG_DEBUG)
        l->debug++;
    else
        l->others++;
    write_line(&l->lines, line);
}

/* The log has the context, and behind a compilation what was chosen. */
static void a_compilation_is_logged(void **state)
{
    (void)state;
    log l = {.debug = 0};
    lkt_model s;
    open_session(&s, (lks_model_opts){.workers = 2}, write_log, &l);
    char first[512];
    snprintf(first, sizeof first, "Lockstep %s, device ref; %s\n", lks_version(),
             lks_context_fingerprint(s.context));
    assert_true(strncmp(l.lines.all, first, strlen(first)) == 0);
    const char *compiled = l.lines.all + strlen(first);
    assert_true(strncmp(compiled, "compiled in 0.", strlen("compiled in 0.")) == 0);
    assert_non_null(strstr(compiled,
                           " s: 103002 parameters, 5 replicas, 20 samples a step, 2 workers; "
                           "the kernels:\nstage  segment  at a time"));
    assert_int_equal(l.others, 0);
    assert_int_equal(l.debug, 2 + 1 + 13 + 1); /* two stages take two lines */
    lkt_end(&s);
}

/* A line says the samples of the first input, and the second one where it is another shape. */
static void a_tensor_is_one_line(void **state)
{
    (void)state;
    char line[LKS_LINE_SIZE], tiny[6];
    lks_context *context;
    lks_graph *g;
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_graph_create(&g, context));
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(6, 5, 4)});
    lks_tensor *gate = lks_sigmoid(g, lks_global_avg_pool(g, x));
    LKT_OK(lks_graph_status(g));
    assert_string_equal(lks_tensor_line(gate, 3, line, sizeof line), "sigmoid in=3x4");
    assert_string_equal(lks_tensor_line(gate, 0, line, sizeof line), "sigmoid");
    assert_string_equal(lks_tensor_line(lks_mul(g, x, gate), 3, line, sizeof line),
                        "mul in=3x6x5x4 with=4");
    assert_string_equal(lks_tensor_line(lks_add(g, x, x), 2, line, sizeof line), "add in=2x6x5x4");
    assert_string_equal(lks_tensor_line(x, 2, line, sizeof line), "input shape=6x5x4");
    assert_ptr_equal(lks_tensor_line(gate, 3, tiny, sizeof tiny), tiny);
    assert_string_equal(tiny, "sigmo");
    assert_string_equal(lks_tensor_line(NULL, 3, line, sizeof line), "");
    assert_ptr_equal(lks_tensor_line(NULL, 3, line, sizeof line), line);
    strcpy(tiny, "x");
    assert_string_equal(lks_tensor_line(gate, 3, tiny, 0), "");
    assert_string_equal(tiny, "x");
    lks_graph_destroy(g);
    lks_context_destroy(context);
}

/* What has a value for each of many channels ends with the rest of its line, whatever the values are. */
static void a_line_says_how_many_values_more_there_are(void **state)
{
    (void)state;
    enum { CHANNELS = 200 };
    char line[LKS_LINE_SIZE];
    float mean[CHANNELS], std[CHANNELS];
    lks_context *context;
    lks_graph *g;
    for (int c = 0; c < CHANNELS; c++) {
        mean[c] = -1.17549435e-38f * (float)(1 + c % 9);
        std[c] = 1.00000012f;
    }
    LKT_OK(lks_context_create(&context, NULL));
    LKT_OK(lks_graph_create(&g, context));
    lks_tensor *x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(1, 1, CHANNELS)});
    lks_normalize_opts opts = {.count = CHANNELS, .mean = mean, .std = std};
    lks_tensor_line(lks_normalize(g, x, &opts), 2, line, sizeof line);
    assert_non_null(strstr(line, "e-38,... (136 more) std=1.0"));
    assert_non_null(strstr(line, ",... (136 more) in=2x1x1x200"));
    lks_graph_destroy(g);
    LKT_OK(lks_graph_create(&g, context));
    x = lks_input(g, &(lks_input_opts){.shape = LKS_SHAPE(1, 1, 64)});
    opts.count = 64;
    lks_tensor_line(lks_normalize(g, x, &opts), 2, line, sizeof line);
    assert_null(strstr(line, "more"));
    assert_non_null(strstr(line, " in=2x1x1x64"));
    lks_graph_destroy(g);
    lks_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_rows_on_two_workers),
        cmocka_unit_test(by_replica_on_one_worker),
        cmocka_unit_test(a_plan_without_training),
        cmocka_unit_test(a_compilation_is_logged),
        cmocka_unit_test(a_tensor_is_one_line),
        cmocka_unit_test(a_line_says_how_many_values_more_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
