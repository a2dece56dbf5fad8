/* Recurrent layers on texts that end early: with masked the last position has what the last word has left. */
#include <string.h>

#include "table/reviews.h"

static void an_lstm_learns_which_words_tell(void **state)
{
    (void)state;
    char hash[32], found[32];
    write_reviews("r.csv", ROWS, "");
    write_text("c.yaml",
               "data: {table: r.csv, text_column: review, targets: [label], ignore: [id],\n"
               "  level: word, context: 32, test_fraction: 0.2}\n"
               "model: {name: net, layers: [{embedding: {units: 8, masked: true}},\n"
               "  {lstm: {hidden: 12, masked: true}}, {select: -1}, {dense: 2}]}\n"
               "train: {epochs: 8, batch_size: 32, replicas: 3}\n"
               "optimizer: {name: adam, lr: 0.02}\n");
    run("train c.yaml --out o --workers 1");
    expect_ok();
    assert_int_equal(last_hash(hash), 80);
    run("eval c.yaml --out o");
    expect(0, "");
    expect_out("Accuracy: 80/80 (100%)");
    run("train c.yaml --out p --epochs 3 --workers 3");
    expect_ok();
    run("train c.yaml --out p --resume --workers 2");
    expect_ok();
    assert_int_equal(last_hash(found), 80);
    assert_string_equal(found, hash);
}

/* A layer that goes forward has read the padding last. */
static void who_reads_padding_last_is_told(void **state)
{
    static const char *const layers[][2] = {
        {"gru: {hidden: 6}}, {select: -1",
         "select 'select_1' takes the last position of gru 'gru_1'"},
        {"rnn: {hidden: 6}}, {select: -1", "; with masked: true its state stays as it is there"},
        {"lstm: {hidden: 6}}, {select: 15", "last position of lstm 'lstm_1', which has read the"},
        {"gru: {hidden: 6, bidirectional: true}}, {select: -1",
         "last position of gru 'gru_1', which"},
        {"gru: {hidden: 6, masked: true}}, {select: -1", NULL},
        {"gru: {hidden: 6, layers: 2, bidirectional: true, masked: true}}, {select: -1",
         "last position of both directions of gru 'gru_1"},
        {"gru: {hidden: 6, bidirectional: true, masked: true}}, {select: 14", NULL},
        {"gru: {hidden: 6, reverse: true}}, {select: 0", NULL},
        {"gru: {hidden: 6}}, {select: 3", NULL},
        {"dense: 6}, {select: -1", NULL}};
    (void)state;
    write_reviews("r.csv", ROWS, "");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "data: {table: r.csv, text_column: review, targets: [label], ignore: [id], "
                 "level: word, context: 16}\n"
                 "model: {name: net, layers: [{embedding: {units: 4}}, {%s}, {dense: 2}]}\n",
                 layers[i][0]);
        write_text("p.yaml", text);
        run("train p.yaml --steps 1");
        expect_ok();
        const char *said = layers[i][1] != NULL ? layers[i][1] : "padding";
        if ((strstr(last.err, said) != NULL) != (layers[i][1] != NULL)) fail_msg("%s", last.err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_lstm_learns_which_words_tell),
        cmocka_unit_test(who_reads_padding_last_is_told),
    };
    return cmocka_run_group_tests_name("padding", tests, set_up, tear_down);
}
