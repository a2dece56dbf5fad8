/* What the module `lockstep` calls where C's own functions take structs: options become arguments, so that
 * no Fortran type has to have the layout of a C struct that may grow. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include <lockstep/lockstep.h>
#include <lockstep/recipe.h>

/* What the module writes down itself. */
_Static_assert(sizeof(lks_metrics) == 56 && offsetof(lks_metrics, counted) == 48, "lks_metrics");
_Static_assert(LKS_E_COMM == 13 && LKS_E_TIMEOUT == 14, "lks_status");

/* An array of Fortran: where it is, its last extent, and how many elements it has. */
typedef struct lksf_array {
    void *data;
    int64_t samples, elements;
} lksf_array;

lks_status lksf_context_create(lks_context **out, const char *device, int64_t seed);
lks_status lksf_comm_create(lks_comm **out, const char *transport, const int *mpi_comm,
                            double timeout_s, bool verify);
lks_status lksf_comm_broadcast(lks_comm *comm, int root, void *array, size_t bytes);
lks_status lksf_comm_average(lks_comm *comm, float *array, int64_t count, double weight);
lks_tensor *lksf_input(lks_graph *graph, const int64_t *sizes, int count);
lks_tensor *lksf_target(lks_graph *graph, int64_t classes, const int64_t *sizes, int count);
lks_status lksf_model_compile(lks_model **out, lks_graph *graph, lks_tensor *loss,
                              const int64_t *sizes, const char *optimizer, const double *momentum,
                              const double *weight_decay, lks_comm *comm);
lks_status lksf_model_step(lks_model *model, const lksf_array *x, const lksf_array *y, bool classes,
                           double lr, lks_metrics *metrics);
lks_status lksf_model_evaluate(lks_model *model, const lksf_array *x, const lksf_array *y,
                               bool classes, lks_metrics *sum);
lks_status lksf_model_predict(lks_model *model, const lksf_array *x, const lksf_array *out);
lks_status lksf_partition(int64_t samples, const double *fractions, int parts, uint64_t seed,
                          int64_t *order, int64_t *start, int64_t starts);
lks_status lksf_recipe_train(lks_recipe *recipe, int64_t *hash, int64_t *step);
const char *lksf_error_message(void);

lks_status lksf_context_create(lks_context **out, const char *device, int64_t seed)
{
    const lks_context_opts opts = {.device = *device != 0 ? device : NULL, .seed = (uint64_t)seed};
    return lks_context_create(out, &opts);
}

/* Fortran's number of a communicator as C's: the same number in MPICH and its kin, a pointer in Open MPI.
 * It is the MPI that the program has loaded which is asked; nothing here is linked with one. */
static lks_status make_mpi_comm(void *out, int number)
{
    void *const convert = dlsym(RTLD_DEFAULT, "MPI_Comm_f2c");
    if (dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") != NULL && convert != NULL) {
        void *(*function)(int);
        memcpy(&function, &convert, sizeof function);
        void *const handle = function(number);
        memcpy(out, &handle, sizeof handle);
        return LKS_OK;
    }
    if (dlsym(RTLD_DEFAULT, "MPI_Comm_rank") == NULL)
        return lks_fail(LKS_E_COMM, "lks_comm_create() got an MPI communicator, but this program "
                                    "is not linked with MPI; build it with mpif90");
    memcpy(out, &number, sizeof number);
    return LKS_OK;
}

lks_status lksf_comm_create(lks_comm **out, const char *transport, const int *mpi_comm,
                            double timeout_s, bool verify)
{
    void *handle = NULL;
    lks_comm_opts opts = {
        .transport = *transport != 0 ? transport : NULL, .timeout_s = timeout_s, .verify = verify};
    *out = NULL;
    if (mpi_comm != NULL) {
        const lks_status status = make_mpi_comm(&handle, *mpi_comm);
        if (status != LKS_OK) return status;
        opts.mpi_comm = &handle;
        if (opts.transport == NULL) opts.transport = "mpi";
    }
    return lks_comm_create(out, &opts);
}

lks_status lksf_comm_broadcast(lks_comm *comm, int root, void *array, size_t bytes)
{
    return lks_comm_broadcast(comm, root, &array, &bytes, 1);
}

lks_status lksf_comm_average(lks_comm *comm, float *array, int64_t count, double weight)
{
    return lks_comm_average(comm, &array, &count, 1, weight);
}

/* Fortran's first index is C's last. */
static lks_shape shape_of(const int64_t *sizes, int count)
{
    lks_shape shape = {.ndim = count};
    for (int k = 0; k < count && k < LKS_MAX_DIMS; k++) shape.dim[k] = sizes[count - 1 - k];
    return shape;
}

lks_tensor *lksf_input(lks_graph *graph, const int64_t *sizes, int count)
{
    return lks_input(graph, &(lks_input_opts){.shape = shape_of(sizes, count)});
}

lks_tensor *lksf_target(lks_graph *graph, int64_t classes, const int64_t *sizes, int count)
{
    const lks_target_opts opts = {.classes = classes, .shape = shape_of(sizes, count)};
    return lks_target(graph, &opts);
}

static lks_status make_optim(lks_optim *out, const char *name)
{
    if (strcmp(name, "sgd") == 0) return *out = lks_sgd(0), LKS_OK;
    if (strcmp(name, "adam") == 0) return *out = lks_adam(), LKS_OK;
    if (strcmp(name, "adamw") == 0) return *out = lks_adamw(), LKS_OK;
    if (strcmp(name, "adamp") == 0) return *out = lks_adamp(), LKS_OK;
    if (strcmp(name, "adadelta") == 0) return *out = lks_adadelta(), LKS_OK;
    if (strcmp(name, "rmsprop") == 0) return *out = lks_rmsprop(), LKS_OK;
    return lks_fail(LKS_E_INVALID,
                    "optimizer '%.40s' is not known; expected sgd, adam, adamw, adamp, adadelta or "
                    "rmsprop",
                    name);
}

/* sizes: global batch, replicas, workers. */
lks_status lksf_model_compile(lks_model **out, lks_graph *graph, lks_tensor *loss,
                              const int64_t *sizes, const char *optimizer, const double *momentum,
                              const double *weight_decay, lks_comm *comm)
{
    lks_model_opts opts = {.loss = loss,
                           .global_batch = sizes[0],
                           .replicas = (int)sizes[1],
                           .workers = (int)sizes[2],
                           .comm = comm};
    *out = NULL;
    lks_status status = lks_graph_status(graph);
    if (status == LKS_OK) status = make_optim(&opts.optim, optimizer);
    if (status != LKS_OK) return status;
    if (momentum != NULL) opts.optim.momentum = *momentum;
    if (weight_decay != NULL) opts.optim.weight_decay = *weight_decay;
    return lks_model_compile(out, graph, &opts);
}

/* One array of numbers for each of so many samples, `each` of the model's (0: it has none, and C says so). C is
 * given no sizes, and would read or write beyond the end. */
static lks_status check_array(const char *function, const char *name, const lksf_array *array,
                              int64_t samples, int64_t each)
{
    if (array->samples != samples)
        return lks_fail(LKS_E_SHAPE,
                        "%s() got %lld samples in x and %lld in %s, by their last extents",
                        function, (long long)samples, (long long)array->samples, name);
    if (each == 0 || (array->elements % each == 0 && array->elements / each == samples))
        return LKS_OK;
    return lks_fail(LKS_E_SHAPE,
                    "%s() got an array %s of %lld numbers, expected %lld for each of its %lld "
                    "samples, as the last extent counts them",
                    function, name, (long long)array->elements, (long long)each,
                    (long long)samples);
}

static lks_status check_batch(const lks_model *model, const char *function, const lksf_array *x,
                              const lksf_array *y, bool classes)
{
    const lks_model_info info = lks_model_get_info(model);
    lks_status status = check_array(function, "x", x, x->samples, info.inputs);
    if (status == LKS_OK) status = check_array(function, "y", y, x->samples, info.targets);
    if (status != LKS_OK || info.targets == 0 || classes == (info.classes > 0)) return status;
    return lks_fail(LKS_E_INVALID, "%s() got %s in y, expected %s, as the network's target says",
                    function, classes ? "classes" : "numbers", classes ? "numbers" : "classes");
}

lks_status lksf_model_step(lks_model *model, const lksf_array *x, const lksf_array *y, bool classes,
                           double lr, lks_metrics *metrics)
{
    const lks_batch batch = {.x = x->data, .y = y->data, .count = x->samples};
    const lks_status status = check_batch(model, "lks_model_step", x, y, classes);
    if (status != LKS_OK) return lks_model_fail(model, status);
    return lks_model_step(model, &batch, lr, metrics);
}

lks_status lksf_model_evaluate(lks_model *model, const lksf_array *x, const lksf_array *y,
                               bool classes, lks_metrics *sum)
{
    const lks_batch batch = {.x = x->data, .y = y->data, .count = x->samples};
    const lks_status status = check_batch(model, "lks_model_evaluate", x, y, classes);
    if (status != LKS_OK) return status;
    return lks_model_evaluate(model, &batch, sum);
}

lks_status lksf_model_predict(lks_model *model, const lksf_array *x, const lksf_array *out)
{
    const lks_model_info info = lks_model_get_info(model);
    lks_status status = check_array("lks_model_predict", "x", x, x->samples, info.inputs);
    if (status == LKS_OK)
        status = check_array("lks_model_predict", "out", out, x->samples, info.outputs);
    if (status != LKS_OK) return status;
    return lks_model_predict(model, x->data, x->samples, out->data);
}

lks_status lksf_partition(int64_t samples, const double *fractions, int parts, uint64_t seed,
                          int64_t *order, int64_t *start, int64_t starts)
{
    if (starts == (int64_t)parts + 1)
        return lks_partition(samples, fractions, parts, seed, order, start);
    return lks_fail(LKS_E_SHAPE,
                    "lks_partition() got an array start of %lld numbers for %d fractions, expected "
                    "%lld, one more",
                    (long long)starts, parts, (long long)parts + 1);
}

lks_status lksf_recipe_train(lks_recipe *recipe, int64_t *hash, int64_t *step)
{
    const lks_run *run;
    const lks_status status = lks_recipe_train(recipe, NULL, &run);
    if (status != LKS_OK) return status;
    if (hash != NULL) *hash = (int64_t)run->hash;
    if (step != NULL) *step = run->progress.step;
    return LKS_OK;
}

const char *lksf_error_message(void)
{
    return lks_last_error()->message;
}
