/* What lockstep.hpp owns stays where its making anew fails: without exceptions, and (with LOCKSTEP_EXCEPTIONS) with. */
#include <cstdio>
#include <cstring>

#include <lockstep/lockstep.hpp>

static int failed;

static void expect(bool well, const char *what)
{
    if (!well) std::printf("not as expected: %s\n", what);
    failed |= !well;
}

/* The status, however it is told. */
template <typename Call> static lks_status status_of(Call call)
{
#ifdef LOCKSTEP_EXCEPTIONS
    try {
        return call();
    } catch (const lockstep::error &error) {
        expect(std::strcmp(error.what(), lks_last_error()->message) == 0, "the sentence is thrown");
        return error.status;
    }
#else
    return call();
#endif
}

int main()
{
    lockstep::context context;
    lockstep::graph graph;
    lockstep::model model;
    lks_context_opts unknown = lks_context_opts();
    lks_input_opts input = lks_input_opts();
    lks_dense_opts dense = lks_dense_opts();
    lks_model_opts opts = lks_model_opts();
    const float x[2] = {1, 2};
    float before[3], after[3] = {0, 0, 0};
    unknown.device = "abacus";
    input.shape = LKS_SHAPE(2);
    dense.units = 3;
    opts.global_batch = 1;
    expect(status_of([&] { return context.create(); }) == LKS_OK, "a context");
    expect(status_of([&] { return graph.create(context); }) == LKS_OK, "a graph");
    opts.output = lks_dense(graph, lks_input(graph, &input), &dense);
    expect(status_of([&] { return model.compile(graph, opts); }) == LKS_OK, "a model");
    expect(status_of([&] { return model.predict(x, 1, before); }) == LKS_OK, "a prediction");

    lks_context *const own_context = context;
    lks_model *const own_model = model;
    opts.global_batch = -1;
    expect(status_of([&] { return model.compile(graph, opts); }) == LKS_E_INVALID, "no model");
    expect(status_of([&] { return graph.create(nullptr); }) == LKS_E_INVALID, "no graph");
    expect(status_of([&] { return context.create(unknown); }) != LKS_OK, "no context");
    expect(context == own_context && model == own_model, "what there was stays");
    if (failed == 0) (void)status_of([&] { return model.predict(x, 1, after); });
    expect(std::memcmp(before, after, sizeof before) == 0, "the same prediction");
    return failed;
}
