/*
 * A loop and a model of your own, in several processes: all that is asked of the library is what makes
 * processes one, <lockstep/comm.h>.
 *
 *     cc own_loop.c -llockstep -lm -o own_loop
 *     mpiexec -n 3 ./own_loop             (or ./own_loop alone: a communicator of one)
 *     mpiexec -n 3 ./own_loop 4 1 1       rank 0 is faster, and takes four samples of six
 *
 * Learns which points of a square lie in a ring. Before the first step it proves what everything rests
 * on: the average of the ranks' gradients, each weighted by its samples, is the gradient of the whole
 * batch. So the lines below "Time" are the same for any number of processes, but for the last digits of
 * floating point (where these count, too, train an lks_model: it gives the same bits).
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <lockstep/comm.h>

enum { SAMPLES = 1000, BATCHES = 10, EPOCHS = 20, HIDDEN = 24, PARAMETERS = 4 * HIDDEN + 1 };

#define TRY(call) /* passes a failure on; main() prints the sentence */                            \
    do {                                                                                           \
        lks_status status_ = (call);                                                               \
        if (status_ != LKS_OK) return status_;                                                     \
    } while (0)

typedef struct sums {
    double loss;
    int64_t correct, samples;
} sums;

typedef struct program {
    lks_comm *comm;
    int rank, size;
    float w[PARAMETERS], velocity[PARAMETERS];
    /* An epoch: its samples in order, cut into BATCHES batches of `size` parts. */
    double *fraction;
    int64_t *start, order[SAMPLES];
} program;

/* Point number `index`, and whether it lies in the ring. */
static double read_point(int64_t index, double *x)
{
    x[0] = 2.0 * fmod((double)index * 0.7548776662466927, 1.0) - 1.0;
    x[1] = 2.0 * fmod((double)index * 0.5698402909980532, 1.0) - 1.0;
    const double radius = sqrt(x[0] * x[0] + x[1] * x[1]);
    return radius > 0.4 && radius < 0.8;
}

/* The model: z = b + sum_h v_h tanh(u_h . x + c_h), a point lies inside where z > 0; logistic loss.
 * Parameters are u (2 x HIDDEN), c, v, b. Adds to `sum`, and (unless it is NULL) gives the mean gradient. */
static void run_model(const float *w, const int64_t *ids, int64_t count, sums *sum, float *gradient)
{
    const float *u = w, *c = u + 2 * HIDDEN, *v = c + HIDDEN, *b = v + HIDDEN;
    double total[PARAMETERS] = {0};
    for (int64_t i = 0; i < count; i++) {
        double x[2], tanh_of[HIDDEN], z = *b;
        const double inside = read_point(ids[i], x);
        for (int h = 0; h < HIDDEN; h++) {
            tanh_of[h] = tanh(u[2 * h] * x[0] + u[2 * h + 1] * x[1] + c[h]);
            z += v[h] * tanh_of[h];
        }
        sum->loss += fmax(z, 0) - z * inside + log1p(exp(-fabs(z)));
        sum->correct += (z > 0) == (inside > 0);
        const double dz = 1 / (1 + exp(-z)) - inside;
        for (int h = 0; h < HIDDEN; h++) {
            const double dh = dz * v[h] * (1 - tanh_of[h] * tanh_of[h]);
            total[2 * h] += dh * x[0];
            total[2 * h + 1] += dh * x[1];
            total[2 * HIDDEN + h] += dh;
            total[3 * HIDDEN + h] += dz * tanh_of[h];
        }
        total[4 * HIDDEN] += dz;
    }
    sum->samples += count;
    for (int k = 0; k < PARAMETERS && gradient != NULL; k++)
        gradient[k] = count > 0 ? (float)(total[k] / (double)count) : 0;
}

/* This rank's part of a batch. */
static const int64_t *part_of(const program *p, int batch, int64_t *count)
{
    const int64_t *start = p->start + batch * p->size + p->rank;
    *count = start[1] - start[0];
    return p->order + start[0];
}

static double largest_of(const float *a, const float *b)
{
    double largest = 0;
    for (int k = 0; k < PARAMETERS; k++)
        largest = fmax(largest, fabs((double)a[k] - (b != NULL ? (double)b[k] : 0)));
    return largest;
}

/*
 * Is the average the gradient of the whole batch? The ranks' means are rounded to float, and so are
 * their average and what it is compared with: three roundings, each of half of FLT_EPSILON of a number
 * that is at most the largest of any rank. Without weights, the mean of means is another number.
 */
static lks_status prove_average(program *p)
{
    float mean[PARAMETERS], equal[PARAMETERS], whole[PARAMETERS], *arrays[] = {mean};
    const int64_t counts[] = {PARAMETERS}, batch = p->start[p->size];
    double largest[p->size], most = 0;
    sums unused = {0};
    int64_t count;
    const int64_t *ids = part_of(p, 0, &count);
    run_model(p->w, p->order, batch, &unused, whole);
    run_model(p->w, ids, count, &unused, mean);
    const double own = largest_of(mean, NULL);
    TRY(lks_comm_all_gather(p->comm, &own, sizeof own, largest));
    for (int r = 0; r < p->size; r++) most = fmax(most, largest[r]);
    memcpy(equal, mean, sizeof mean);
    TRY(lks_comm_average(p->comm, arrays, counts, 1, (double)count));
    TRY(lks_comm_average(p->comm, (float *[]){equal}, counts, 1, 1));
    const double off = largest_of(mean, whole);
    if (p->rank == 0) {
        printf("gradient of a batch of %" PRId64 ", averaged over %d ranks: ", batch, p->size);
        printf("%.1e from the large-batch gradient\n", off);
        printf("(largest number %.1e; without weights it would be %.1e)\n", most,
               largest_of(equal, whole));
    }
    if (off <= 2 * (double)FLT_EPSILON * most) return LKS_OK;
    return lks_fail(LKS_E_BUG, "the averaged gradient is not that of the large batch");
}

/* Sums over all ranks, added in order of ranks; rank 0 prints them. */
static lks_status report(const program *p, const char *what, const sums *own)
{
    sums all[p->size], sum = {0};
    TRY(lks_comm_all_gather(p->comm, own, sizeof *own, all));
    for (int r = 0; r < p->size; r++) {
        sum.loss += all[r].loss;
        sum.correct += all[r].correct;
        sum.samples += all[r].samples;
    }
    if (p->rank == 0)
        printf("%s  correct: %.4f  loss: [%.4f]\n", what, (double)sum.correct / (double)sum.samples,
               sum.loss / (double)sum.samples);
    return LKS_OK;
}

/* One call deals an epoch: fractions are those of all parts of all batches. Borders of batches do not
 * depend on the ranks, and no sample is left over. */
static lks_status deal(program *p, int epoch)
{
    return lks_partition(SAMPLES, p->fraction, BATCHES * p->size, (uint64_t)epoch, p->order,
                         p->start);
}

static lks_status train_epoch(program *p, sums *sum)
{
    float gradient[PARAMETERS], *arrays[] = {gradient};
    for (int batch = 0; batch < BATCHES; batch++) {
        int64_t count;
        const int64_t *ids = part_of(p, batch, &count);
        run_model(p->w, ids, count, sum, gradient);
        TRY(lks_comm_average(p->comm, arrays, (int64_t[]){PARAMETERS}, 1, (double)count));
        for (int k = 0; k < PARAMETERS; k++) {
            p->velocity[k] = 0.9f * p->velocity[k] + gradient[k];
            p->w[k] -= 0.5f * p->velocity[k];
        }
    }
    return LKS_OK;
}

/* What one rank may fail at alone: the others hear of it where they agree. */
static lks_status prepare(program *p, int argc, char **argv)
{
    if (argc != 1 && argc != 1 + p->size)
        return lks_fail(LKS_E_INVALID, "%d shares for %d ranks; expected one for each, or none",
                        argc - 1, p->size);
    const size_t parts = (size_t)BATCHES * (size_t)p->size;
    p->fraction = malloc(parts * sizeof *p->fraction);
    p->start = malloc((parts + 1) * sizeof *p->start);
    if (p->fraction == NULL || p->start == NULL) return lks_fail(LKS_E_NOMEM, "no memory");
    for (size_t k = 0; k < parts; k++)
        p->fraction[k] = argc == 1 ? 1 : strtod(argv[1 + k % (size_t)p->size], NULL);
    if (p->rank == 0) /* the others get them from here */
        for (int k = 0; k < PARAMETERS; k++) p->w[k] = (float)(8 * fmod(k * 0.618034, 1) - 4);
    return deal(p, 0);
}

static lks_status run(program *p, int argc, char **argv)
{
    TRY(lks_comm_create(&p->comm, NULL));
    p->rank = lks_comm_rank(p->comm);
    p->size = lks_comm_size(p->comm);
    TRY(lks_comm_agree(p->comm, prepare(p, argc, argv)));
    TRY(lks_comm_broadcast(p->comm, 0, (void *[]){p->w}, (size_t[]){sizeof p->w}, 1));

    int64_t count, own = 0, length[p->size];
    for (int batch = 0; batch < BATCHES; batch++) own += (part_of(p, batch, &count), count);
    TRY(lks_comm_all_gather(p->comm, &own, sizeof own, length));
    for (int r = 0; r < p->size && p->rank == 0; r++)
        printf("rank %d on %s  partitioned dataset length: %" PRId64 "\n", r,
               lks_comm_host(p->comm, r), length[r]);
    TRY(prove_average(p));

    struct timespec begin, end;
    sums sum[EPOCHS] = {{0}}, last = {0};
    timespec_get(&begin, TIME_UTC);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        TRY(deal(p, epoch));
        TRY(train_epoch(p, &sum[epoch]));
    }
    timespec_get(&end, TIME_UTC);
    if (p->rank == 0)
        printf("Time: %.3f\n",
               (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        char what[16];
        snprintf(what, sizeof what, "%d", epoch);
        TRY(report(p, what, &sum[epoch]));
    }
    for (int batch = 0; batch < BATCHES; batch++) {
        const int64_t *ids = part_of(p, batch, &count);
        run_model(p->w, ids, count, &last, NULL);
    }
    return report(p, "trained", &last);
}

int main(int argc, char **argv)
{
    static program p;
    const lks_status status = run(&p, argc, argv);
    if (status != LKS_OK && p.rank == 0)
        fprintf(stderr, "own_loop: %s\n", lks_last_error()->message);
    lks_comm_destroy(p.comm);
    free(p.fraction);
    free(p.start);
    return (int)status;
}
