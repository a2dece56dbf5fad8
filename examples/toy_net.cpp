/*
 * The training of toy_net.c in C++, with exceptions:
 *
 *     c++ toy_net.cpp -llockstep -o toy_net && ./toy_net
 */
#include <cmath>
#include <cstdio>

#define LOCKSTEP_EXCEPTIONS
#include <lockstep/lockstep.hpp>

static const float board[9] = {1, 0, 1, 0, 1, 0, 1, 0, 1}, target[3] = {1, 0, 0};

/* The network, a line for each layer, and its loss. */
static lks_tensor *describe(lks_graph *graph)
{
    static const char *const layers[] = {
        "conv2d filters=16 kernel=3 padding=1 no_bias weight_init=kaiming_normal", "relu",
        "conv2d filters=32 kernel=3 padding=1 no_bias weight_init=kaiming_normal", "relu",
        "conv2d filters=64 kernel=3 padding=1 no_bias weight_init=kaiming_normal", "relu",
        "flatten",
        "dense units=512 no_bias weight_init=kaiming_normal",
        "dense units=128 no_bias weight_init=kaiming_normal",
        "dense name=last units=3 no_bias weight_init=kaiming_normal"};
    lks_input_opts in = lks_input_opts();
    lks_target_opts out = lks_target_opts();
    in.shape = LKS_SHAPE(3, 3, 1);
    out.shape = LKS_SHAPE(3);
    lks_tensor *x = lks_input(graph, &in), *y = lks_target(graph, &out);
    for (const char *layer : layers) x = lks_graph_line(graph, x, layer);
    return lks_mse(graph, x, y);
}

static void run()
{
    lockstep::context context;
    lockstep::graph graph;
    lockstep::model model;
    lks_context_opts context_opts = lks_context_opts();
    lks_model_opts opts = lks_model_opts();
    context_opts.seed = 1;
    context.create(context_opts);
    graph.create(context);
    opts.loss = describe(graph);
    opts.global_batch = 1;
    opts.layers = true;
    model.compile(graph, opts);

    lks_batch batch = lks_batch();
    batch.x = board;
    batch.y = target;
    batch.count = 1;
    for (int i = 0; i < 300; i++) {
        lks_metrics metrics;
        model.zero_gradients();
        model.forward(batch, true, &metrics);
        model.backward_input();
        model.backward_params();
        model.update(0.001);
        if (i % 30 == 0) std::printf("Iteration %d, Loss: %f\n", i, lks_metrics_loss(&metrics));
    }
    std::vector<float> output;
    model.forward(batch, false);
    model.read("last", output);
    std::printf("output %.4f %.4f %.4f\n", output[0], output[1], output[2]);
    if (output.size() != 3 || std::fabs(output[0] - 1) > 0.1f)
        lockstep::check(lks_fail(LKS_E_BUG, "it has not learned"));
}

int main()
{
    try {
        run();
    } catch (const lockstep::error &error) {
        std::fprintf(stderr, "toy_net: %s\n", error.what());
        return 1;
    }
    return 0;
}
