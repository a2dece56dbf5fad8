/*
 * A simulation that trains a network on its own fields while it runs, with no file between them.
 *
 *     mpicc in_situ.c -llockstep -lm -o in_situ
 *     mpiexec -n 4 ./in_situ 2            two processes simulate, two train
 *
 * Heat spreads on a square grid, under a source that moves, in strips of rows with halos. The surrogate
 * learns to jump: from the 5 x 5 temperatures around a point to how much warmer it is STRIDE steps later.
 *
 * The processes that train do nothing else: they compute on one field while the simulation is on its way
 * to the next one, which waits only if it is a whole field ahead. (Were all to simulate and some of them
 * to train as well, those would be late at every halo, and all others would wait for them.) How many do
 * what is then a question of speed alone: the fields are the same bits in any number of strips, the
 * model is the same bits on any number of ranks, and so the hash at the end is the same for any 2 + 2,
 * 3 + 1 or 1 + 5.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

#include <lockstep/lockstep.h>

enum { N = 64, STRIDE = 10, FIELDS = 30 }; /* the grid; steps between fields */
enum { AROUND = 2, PATCH = 2 * AROUND + 1, IN = PATCH * PATCH };
enum { INNER = N - 2 * AROUND, POINTS = INNER * INNER }; /* that have all 5 x 5 */
enum { BATCH = 256, BATCHES = 10 };                      /* for each field, of points drawn anew */

#define TRY(call)                                                                                  \
    do {                                                                                           \
        lks_status status_ = (call);                                                               \
        if (status_ != LKS_OK) return status_;                                                     \
    } while (0)

/* ---- The simulation: plain MPI. Row 0 and row rows + 1 are the neighbours'; the rim is cold. */

typedef struct strip {
    MPI_Comm comm;
    int first, rows;
    float now[N + 2][N + 2], next[N + 2][N + 2];
} strip;

static int first_row(int rank, int size)
{
    return N * rank / size;
}

static void exchange_halos(strip *s, int rank, int size)
{
    const int up = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    const int down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(s->now[1], N + 2, MPI_FLOAT, up, 0, s->now[s->rows + 1], N + 2, MPI_FLOAT, down, 0,
                 s->comm, MPI_STATUS_IGNORE);
    MPI_Sendrecv(s->now[s->rows], N + 2, MPI_FLOAT, down, 1, s->now[0], N + 2, MPI_FLOAT, up, 1,
                 s->comm, MPI_STATUS_IGNORE);
}

static void advance(strip *s, int rank, int size, int step)
{
    const double angle = 0.01 * step;
    const int hot_row = (int)(N / 2 + N / 4 * cos(angle)),
              hot_column = (int)(N / 2 + N / 4 * sin(angle));
    exchange_halos(s, rank, size);
    for (int i = 1; i <= s->rows; i++)
        for (int k = 1; k <= N; k++)
            s->next[i][k] = s->now[i][k] +
                            0.2f * (s->now[i - 1][k] + s->now[i + 1][k] + s->now[i][k - 1] +
                                    s->now[i][k + 1] - 4 * s->now[i][k]);
    if (hot_row >= s->first && hot_row < s->first + s->rows)
        s->next[hot_row - s->first + 1][hot_column + 1] += 0.02f;
    for (int i = 1; i <= s->rows; i++) memcpy(s->now[i], s->next[i], sizeof s->now[i]);
}

/* Each field leaves while the next one is computed. */
static void simulate(MPI_Comm comm, int trainer)
{
    static strip s;
    static float leaving[N][N];
    int rank, size;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    s.comm = comm;
    s.first = first_row(rank, size);
    s.rows = first_row(rank + 1, size) - s.first;
    for (int i = 1; i <= s.rows; i++)
        for (int k = 1; k <= N; k++)
            s.now[i][k] = ((s.first + i - 1) / 8 + (k - 1) / 8) % 3 == 0 ? 1.0f : 0.0f;
    for (int field = 0; field < FIELDS; field++) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < s.rows; i++) memcpy(leaving[i], &s.now[i + 1][1], sizeof leaving[i]);
        MPI_Isend(leaving, s.rows * N, MPI_FLOAT, trainer, field, MPI_COMM_WORLD, &request);
        for (int step = 0; step < STRIDE; step++) advance(&s, rank, size, field * STRIDE + step);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* ---- The training: an lks_model on a communicator of its own. */

typedef struct trainer {
    lks_comm *comm;
    lks_context *context;
    lks_graph *graph;
    lks_model *model;
    int simulating;
    float before[N][N], field[N][N];
    float x[POINTS][IN], y[POINTS];
    double first_error, last_error, still_error;
} trainer;

static lks_status make_model(trainer *t)
{
    TRY(lks_context_create(&t->context, &(lks_context_opts){.seed = 1}));
    TRY(lks_graph_create(&t->graph, t->context));
    lks_tensor *x = lks_input(t->graph, &(lks_input_opts){.shape = LKS_SHAPE(IN)});
    lks_tensor *y = lks_target(t->graph, &(lks_target_opts){.shape = LKS_SHAPE(1)});
    x = lks_tanh(t->graph, lks_dense(t->graph, x, &(lks_dense_opts){.units = 32}));
    x = lks_dense(t->graph, x, &(lks_dense_opts){.units = 1});
    const lks_model_opts opts = {.loss = lks_mse(t->graph, x, y),
                                 .global_batch = BATCH,
                                 .replicas = 8,
                                 .workers = 1, /* threads of each process */
                                 .optim = lks_adam(),
                                 .comm = t->comm};
    return lks_model_compile(&t->model, t->graph, &opts);
}

/* The strips come to the first that trains, and from it to all of them. */
static lks_status receive_field(trainer *t, int number)
{
    memcpy(t->before, t->field, sizeof t->field);
    for (int r = 0; r < t->simulating && lks_comm_rank(t->comm) == 0; r++) {
        const int first = first_row(r, t->simulating), end = first_row(r + 1, t->simulating);
        MPI_Recv(t->field[first], (end - first) * N, MPI_FLOAT, r, number, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    }
    return lks_comm_broadcast(t->comm, 0, (void *[]){t->field}, (size_t[]){sizeof t->field}, 1);
}

/* Every inner point of two fields, in an order that the seed draws: what surrounded it, and its change. */
static lks_status make_samples(trainer *t, int number)
{
    static int64_t order[POINTS];
    int64_t start[2];
    TRY(lks_partition(POINTS, (double[]){1}, 1, (uint64_t)number, order, start));
    for (int i = 0; i < POINTS; i++) {
        const int64_t row = order[i] / INNER, column = order[i] % INNER; /* of the patch's corner */
        for (int k = 0; k < PATCH; k++)
            memcpy(&t->x[i][k * PATCH], &t->before[row + k][column], PATCH * sizeof(float));
        t->y[i] = t->field[row + AROUND][column + AROUND] -
                  t->before[row + AROUND][column + AROUND];
    }
    return LKS_OK;
}

/* How far off the model is for a field that it has not seen yet, each rank for a part of its points; and
 * how far somebody is who says that nothing changes. */
static lks_status judge(trainer *t, int number)
{
    const int rank = lks_comm_rank(t->comm), size = lks_comm_size(t->comm);
    const int first = POINTS * rank / size, end = POINTS * (rank + 1) / size;
    const lks_batch part = {.x = t->x[first], .y = &t->y[first], .count = end - first};
    lks_metrics sum = {0};
    double still = 0;
    TRY(lks_comm_agree(t->comm, lks_model_evaluate(t->model, &part, &sum)));
    TRY(lks_comm_metrics(t->comm, &sum));
    for (int i = 0; i < POINTS; i++) {
        const double change = t->y[i];
        still += change * change;
    }
    t->last_error = sqrt(lks_metrics_loss(&sum));
    t->still_error = sqrt(still / POINTS);
    if (number == 1) t->first_error = t->last_error;
    if (rank == 0)
        printf("field %2d: off by %.4f, where it changes by %.4f\n", number, t->last_error,
               t->still_error);
    return LKS_OK;
}

static lks_status train(trainer *t, MPI_Comm comm)
{
    uint64_t hash;
    TRY(lks_comm_create(&t->comm, &(lks_comm_opts){.transport = "mpi", .mpi_comm = &comm}));
    TRY(make_model(t));
    TRY(receive_field(t, 0));
    for (int number = 1; number < FIELDS; number++) {
        TRY(receive_field(t, number));
        TRY(make_samples(t, number));
        TRY(judge(t, number));
        for (int k = 0; k < BATCHES; k++) { /* whole batches: each rank takes its part */
            const lks_batch batch = {.x = t->x[k * BATCH], .y = &t->y[k * BATCH], .count = BATCH};
            TRY(lks_model_step(t->model, &batch, 0.01, NULL));
        }
    }
    TRY(lks_model_hash(t->model, &hash));
    if (lks_comm_rank(t->comm) == 0)
        printf("%d simulate, %d train: hash %016" PRIx64 "\n", t->simulating,
               lks_comm_size(t->comm), hash);
    if (t->last_error < t->first_error && t->last_error < t->still_error / 2) return LKS_OK;
    return lks_fail(LKS_E_NUMERIC, "the surrogate has not learned how heat spreads");
}

int main(int argc, char **argv)
{
    static trainer t;
    int rank, size, level;
    MPI_Comm mine;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int training = argc > 1 ? atoi(argv[1]) : size / 2;
    t.simulating = size - training;
    if (training < 1 || t.simulating < 1) {
        if (rank == 0)
            fprintf(stderr, "in_situ: of %d processes %d cannot train\n", size, training);
        MPI_Finalize();
        return 2;
    }
    const bool trains = rank >= t.simulating;
    MPI_Comm_split(MPI_COMM_WORLD, trains, rank, &mine);
    if (trains && train(&t, mine) != LKS_OK) { /* those who simulate would wait for ever */
        fprintf(stderr, "in_situ: %s\n", lks_last_error()->message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (!trains) simulate(mine, t.simulating);
    lks_model_destroy(t.model);
    lks_graph_destroy(t.graph);
    lks_context_destroy(t.context);
    lks_comm_destroy(t.comm);
    MPI_Comm_free(&mine);
    MPI_Finalize();
    return 0;
}
