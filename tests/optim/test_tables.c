/* The tables of optimizers and schedules: that they fit their structs, that their defaults pass, that the keys
 * of a configuration agree with them, and that lists tell them. */
#include <stdlib.h>
#include <string.h>

#include <lockstep/tools.h>

#include "optim/optimizer.h"
#include "optim/schedule/schedule.h"
#include "recipe/config.h"
#include "support/test.h"

static void tables_fit(void **state)
{
    const lki_optimizer *o;
    int count = 0;
    (void)state;
    for (; (o = lki_optimizer_at(count)) != NULL; count++) {
        const lks_optim optim = lki_optimizer_make(o);
        LKT_OK(lks_optim_check(&optim));
        assert_true(strtod(o->lr, NULL) > 0);
        assert_ptr_equal(lki_optimizer_find(o->name), o);
        assert_ptr_equal(lki_optimizer_of(o->kind), o);
        for (int i = 0; i < o->attributes.count; i++) {
            const lki_attribute *a = &o->attributes.list[i];
            assert_int_equal(a->size, a->type == LKI_DOUBLE ? sizeof(double) : sizeof(bool));
            assert_true(a->offset + a->size <= sizeof optim);
        }
        for (int a = 1; a < LKI_MAX_STATES; a++) /* without gaps */
            assert_true(o->states[a] == NULL || o->states[a - 1] != NULL);
    }
    assert_true(count >= 6);
    assert_null(lki_optimizer_at(-1));
    assert_null(lki_optimizer_find("nothing"));
}

/* A schedule whose members are all set, but those that have a default. */
static lks_schedule least(const lki_schedule_rule *rule)
{
    return (lks_schedule){.kind = rule->kind,
                          .lr = 1,
                          .gamma = rule->kind == LKS_EXPONENTIAL ? 0.5 : 0,
                          .length = 9,
                          .milestones = {2, 5},
                          .milestone_count = 2};
}

/* That a member of 0 has its default is known to the table, and to rates, which no table is read for. */
static void tables_of_schedules_fit(void **state)
{
    const lki_schedule_rule *rule;
    int count = 0;
    (void)state;
    for (; (rule = lki_schedule_rule_at(count)) != NULL; count++) {
        lks_schedule schedule = least(rule), filled = schedule;
        LKT_OK(lks_schedule_check(&schedule));
        assert_ptr_equal(lki_schedule_find(rule->name), rule);
        assert_ptr_equal(lki_schedule_of(rule->kind), rule);
        for (int i = 0; i < rule->attributes.count; i++) {
            const lki_attribute *a = &rule->attributes.list[i];
            assert_true(a->offset + a->size <= sizeof schedule);
            assert_true(a->count + sizeof(int) <= sizeof schedule);
        }
        lki_attributes_fill(&rule->attributes, &filled);
        for (int64_t t = 0; t < 12; t++)
            assert_true(lks_schedule_at(&schedule, 0, t) == lks_schedule_at(&filled, 0, t));
        lks_plateau a = lks_plateau_begin(&schedule), b = lks_plateau_begin(&filled);
        for (int t = 0; t < 40; t++) {
            const double loss = 1 - 1e-4 * (t % 20) * (t < 20 ? 1.001 : 0.999);
            lks_plateau_observe(&schedule, &a, loss);
            lks_plateau_observe(&filled, &b, loss);
            assert_true(a.lr == b.lr && a.best == b.best && a.bad == b.bad);
        }
    }
    assert_true(count >= 9);
    assert_null(lki_schedule_rule_at(-1));
    assert_null(lki_schedule_find("nothing"));
}

/* Whether a list "[0.9, 0.999]", or one value, has this number. */
static bool says(const char *yaml, int place, const char *number)
{
    for (yaml += yaml[0] == '['; place > 0; place--) yaml = strchr(yaml, ',') + 1;
    if (strcmp(yaml, "true") == 0 || strcmp(yaml, "false") == 0) return strcmp(yaml, number) == 0;
    return strtod(yaml, NULL) == strtod(number, NULL);
}

/* Every attribute has a key of its type; where the key has a default, it is the table's. */
static void keys_agree(lki_key name, const char *owner, const lki_attributes *table)
{
    for (int i = 0; i < table->count; i++) {
        const lki_attribute *a = &table->list[i];
        const lki_key key = lki_key_beside(name, lki_attribute_key(a));
        char only[LKI_KEY_NAMES_SIZE];
        if (key == LKI_KEY_NONE) fail_msg("%s: no key %s", owner, lki_attribute_key(a));
        const char *standard = lki_key_rows[key].fallback;
        if (lki_key_only(key, only)) assert_non_null(strstr(only, owner));
        assert_true(lki_key_is_of(key, owner));
        if (standard != NULL && !says(standard, a->place, a->fallback != NULL ? a->fallback : "0"))
            fail_msg("%s of %s: default %s, but that of the key is %s", a->name, owner, a->fallback,
                     standard);
    }
}

static void keys_agree_with_tables(void **state)
{
    const lki_optimizer *o;
    const lki_schedule_rule *rule;
    (void)state;
    for (int i = 0; (o = lki_optimizer_at(i)) != NULL; i++)
        keys_agree(LKI_KEY_OPTIMIZER_NAME, o->name, &o->attributes);
    for (int i = 0; (rule = lki_schedule_rule_at(i)) != NULL; i++)
        keys_agree(LKI_KEY_SCHEDULE_NAME, rule->name, &rule->attributes);
}

/* "optimizer.momentum" is for some, "optimizer.lr" and "optimizer.weight_decay", which all have, for all. */
static void keys_know_their_names(void **state)
{
    static const struct {
        lki_key key;
        const char *only;
    } keys[] = {
        {LKI_KEY_OPTIMIZER_MOMENTUM, "sgd rmsprop lars"},
        {LKI_KEY_OPTIMIZER_LR, NULL},
        {LKI_KEY_OPTIMIZER_WEIGHT_DECAY, NULL},
        {LKI_KEY_OPTIMIZER_BETAS, "adam adamw adamp lamb"},
        {LKI_KEY_SCHEDULE_LENGTH, "cosine linear polynomial one_cycle"},
        {LKI_KEY_SCHEDULE_PER_STEP, NULL},
        {LKI_KEY_LOSS_LABEL_SMOOTHING, "cross_entropy"},
        {LKI_KEY_MODEL_HIDDEN, "mlp"},
        {LKI_KEY_MODEL_DROPOUT,
         "mnist_cnn mlp alexnet vgg11 vgg13 vgg16 vgg19 vgg11_bn vgg13_bn vgg16_bn vgg19_bn "
         "mobilenet_v2 gpt encoder vit lstm_lm gru_lm rnn_lm needle_transformer"},
        {LKI_KEY_MODEL_SAVE, NULL},
        {LKI_KEY_DATA_SEED, "digits dummy"},
        {LKI_KEY_DATA_MEAN, NULL},
        {LKI_KEY_TRAIN_SEED, NULL},
        {LKI_KEY_OPTIMIZER_NAME, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char only[LKI_KEY_NAMES_SIZE];
        assert_int_equal(lki_key_only(keys[i].key, only), keys[i].only != NULL);
        if (keys[i].only != NULL) assert_string_equal(only, keys[i].only);
        assert_int_equal(lki_key_is_of(keys[i].key, "nothing"), keys[i].only == NULL);
    }
    assert_false(
        lki_key_is_of(LKI_KEY_SCHEDULE_STEP_SIZE, "multi_step")); /* not a part of a word */
    assert_int_equal(lki_key_beside(LKI_KEY_OPTIMIZER_LR, "nothing"), LKI_KEY_NONE);
    assert_int_equal(lki_key_name(LKI_KEY_TRAIN_SEED), LKI_KEY_NONE);
}

/* Defaults that are not the key's own: what most have, and who has another. */
static void help_tells_defaults(void **state)
{
    static const struct {
        lki_key key;
        const char *help;
    } keys[] = {
        {LKI_KEY_OPTIMIZER_LR,
         "learning rate; null: 0.001, for adadelta 1, for rmsprop 0.01, for lars 0.1"},
        {LKI_KEY_OPTIMIZER_EPS,
         "keeps a divisor from 0; null: 1e-8, for adadelta 1e-6, for lamb 1e-6"},
        {LKI_KEY_OPTIMIZER_DAMPENING, "of the momentum"},
    };
    char help[LKI_KEY_HELP_SIZE];
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_string_equal(lki_key_help(keys[i].key, help), keys[i].help);
    lki_key_help(LKI_KEY_OPTIMIZER_WEIGHT_DECAY, help);
    assert_non_null(strstr(help, "lr times this; null: 0, for adamw 0.01"));
}

static void lists_tell_them(void **state)
{
    const char *what = NULL;
    lks_option option;
    (void)state;
    assert_string_equal(lks_list_name(LKS_LIST_OPTIMIZERS, 0, &what), "sgd");
    assert_true(what != NULL && what[0] != '\0');
    assert_null(lks_list_name(LKS_LIST_OPTIMIZERS, 1000, NULL));
    assert_true(lks_list_option(LKS_LIST_OPTIMIZERS, 1, 1, &option));
    assert_string_equal(option.name, "beta1");
    assert_string_equal(option.standard, "0.9");
    assert_string_equal(option.expected, "a number of at least 0 and below 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_fit),
        cmocka_unit_test(tables_of_schedules_fit),
        cmocka_unit_test(keys_agree_with_tables),
        cmocka_unit_test(keys_know_their_names),
        cmocka_unit_test(help_tells_defaults),
        cmocka_unit_test(lists_tell_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
