/*
 * Whatever a model makes of a random chain of operations (fused kernels, halves, rows, zeros left out, Winograd's
 * algorithm) against the same chain in double: prediction, loss and the gradient of every parameter lie in balls
 * that are derived (support/chains/balls.h), and some gradients are compared with difference quotients of the loss
 * in double. Chains are convolutions with what stands behind them, in the orders that networks have, with sizes
 * that lean to edges: one pixel, odd numbers, windows in the border, nothing active, all active. ref is held to the
 * same.
 *
 * Each implementation of a device with a rule of its own must have been met at least once, by its name in the plan:
 * a new one that no chain has fails here. LKT_CHAINS in the environment is the number of chains, for long runs;
 * a chain that fails says with which LKT_SEED it is the first.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"
#include "support/backends.h"
#include "support/chains/chains.h"

enum { CHAINS = 250, MORE = 4000, MOST_COST = 20000000 };

static void inside(const lkt_chain *c, const char *device, const char *what, const float *found,
                   const lkt_ball *balls, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - balls[i].v) <= balls[i].r))
            fail_msg("%s, %s: %s[%lld] is %.9g, expected %.9g +- %.2g", c->text, device, what,
                     (long long)i, (double)found[i], balls[i].v, balls[i].r);
}

/* The mean loss in double, with element k of a parameter moved to t. */
static double loss_at(const lkt_chain *c, float *parameter, float t)
{
    const float kept = *parameter;
    lkt_balls_of of = c->of;
    lkt_balls balls;
    of.training = of.bare = true;
    *parameter = t;
    lkt_balls_make(&of, &balls);
    *parameter = kept;
    lkt_balls_free(&balls);
    return balls.loss.v;
}

/* The quotient over a distance of 2 h. Added to `room`: how far those of its halves are from each other, by
 * curvature, or by a kink where one is inside. */
static double quotient(const lkt_chain *c, float *parameter, float h, double *room)
{
    const float middle = *parameter, above = middle + h, below = middle - h;
    const double at = loss_at(c, parameter, middle);
    const double up = (loss_at(c, parameter, above) - at) / ((double)above - (double)middle);
    const double down = (at - loss_at(c, parameter, below)) / ((double)middle - (double)below);
    *room += fabs(up - down);
    return (up + down) / 2;
}

/* A gradient against quotients of the loss. True: the room is less than 2% of the gradient. */
static bool is_quotient(const lkt_chain *c, const char *what, float *parameter, float found,
                        double room)
{
    const double near = quotient(c, parameter, 0x1p-12f, &room);
    room += 1e-9 * (1 + fabs(near));
    if (!(fabs((double)found - near) <= room))
        fail_msg("%s: %s is %.9g, the difference quotient %.9g +- %.2g", c->text, what,
                 (double)found, near, room);
    return room < 0.02 * fabs((double)found);
}

/* What was sharp enough to say something. */
typedef struct tally {
    int gradients, sharp, quotients;
} tally;

static void tell(const lkt_chain *c, const char *what, float *parameter, const float *found,
                 const lkt_ball *balls, int64_t count, bool quotients, tally *told)
{
    double largest = 0, radius = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        if (fabs(balls[i].v) > fabs(balls[at].v)) at = i;
        radius = fmax(radius, balls[i].r);
    }
    largest = fabs(balls[at].v);
    told->gradients++;
    told->sharp += radius < 0.01 * largest;
    if (quotients && largest > 0)
        told->quotients += is_quotient(c, what, &parameter[at], found[at], balls[at].r);
}

static void check_gradients(const lkt_chain *c, const char *device, lks_model *model,
                            const lkt_balls *balls, bool quotients, tally *told)
{
    lks_metrics metrics;
    const lks_batch batch = {.x = c->of.x, .y = c->of.y, .count = c->count};
    LKT_OK(lks_model_gradient(model, &batch, &metrics));
    const float loss = (float)lks_metrics_loss(&metrics);
    const lkt_ball rounded = {balls->loss.v, balls->loss.r + 0x1p-24 * fabs(balls->loss.v)};
    inside(c, device, "the loss", &loss, &rounded, 1);
    for (const lki_node *node = c->graph->first; node != NULL; node = node->next)
        for (int i = 0; i < node->param_count; i++) {
            const int64_t count = lks_shape_elements(&node->param[i].shape);
            const lkt_ball *expected = balls->d_param[node->index][i];
            float *found = test_malloc((size_t)count * sizeof *found);
            char what[150];
            LKT_OK(lks_model_state_read(
                model, lkt_chain_state(model, "gradient.", node, node->param[i].suffix), found,
                (size_t)count * sizeof *found));
            snprintf(what, sizeof what, "the gradient of %s.%s", node->name, node->param[i].suffix);
            inside(c, device, what, found, expected, count);
            tell(c, what, c->of.param[node->index][i], found, expected, count, quotients, told);
            test_free(found);
        }
}

static void check_chain(lkt_chain *c, const char *const devices[], bool quotients, tally *told)
{
    lkt_balls balls[2];
    for (int training = 0; training < 2; training++) {
        c->of.training = training;
        lkt_balls_make(&c->of, &balls[training]);
    }
    for (int d = 0; devices[d] != NULL; d++) {
        const int64_t outs = c->count * lks_shape_elements(&c->output->shape);
        float *found = test_malloc((size_t)outs * sizeof *found);
        lks_model *model = lkt_chain_compile(c, devices[d]);
        LKT_OK(lks_model_predict(model, c->of.x, c->count, found));
        inside(c, devices[d], "the prediction", found, balls[0].out[c->output->node->index], outs);
        check_gradients(c, devices[d], model, &balls[1], quotients && devices[d + 1] == NULL, told);
        lks_model_destroy(model);
        test_free(found);
    }
    for (int training = 0; training < 2; training++) lkt_balls_free(&balls[training]);
}

/* Whether a model of the chain, on any device, has an implementation that was not met yet. */
static bool meets_others(lkt_met *met, lkt_chain *c)
{
    bool others = false;
    for (int b = 0; lkt_backends()[b] != NULL; b++) {
        lks_model *model = lkt_chain_compile(c, lkt_backends()[b]->name);
        others |= lkt_met_others(met, model, 1);
        lks_model_destroy(model);
    }
    return others;
}

static void any_chain_is_as_in_double(void **state)
{
    const char *given = getenv("LKT_CHAINS");
    const int chains = given != NULL ? atoi(given) : lkt_in_part() ? CHAINS / 4 : CHAINS;
    const lkt_random start = lkt_random_make("any_chain_is_as_in_double", 5000);
    const char *devices[18] = {"ref"};
    lkt_met met = lkt_met_none();
    tally told = {0};
    (void)state;
    for (int b = 0, d = 1; lkt_backends()[b] != NULL; b++)
        if (strcmp(lkt_backends()[b]->name, "ref") != 0) devices[d++] = lkt_backends()[b]->name;
    for (int k = 0; k < chains || (lkt_met_fewer(&met, 1) != NULL && k < MORE && given == NULL);
         k++) {
        lkt_chain c;
        lkt_chain_draw(&c, start.state + (uint64_t)k);
        lkt_chain_fill(&c);
        c.opts.recompute = k % 2 == 1;
        const bool small = lkt_chain_cost(&c) < MOST_COST;
        if (small && (meets_others(&met, &c) || k < chains))
            check_chain(&c, devices, lkt_chain_cost(&c) < MOST_COST / 100 && k % 4 == 0, &told);
        lkt_chain_free(&c);
    }
    print_message("%d gradients, %d of them known within 1%%; %d difference quotients within 2%%\n",
                  told.gradients, told.sharp, told.quotients);
    if (given != NULL) return;
    assert_true(told.sharp > told.gradients / 3 && told.quotients > chains / 4);
    if (lkt_met_fewer(&met, 1) != NULL)
        fail_msg("no chain was computed by %s: add what it takes to support/chains/chains.c",
                 lkt_met_fewer(&met, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_chain_is_as_in_double),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
