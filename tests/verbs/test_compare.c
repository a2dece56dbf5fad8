/* lockstep compare: tensors, checkpoints, records. */
#include "cli/program.h"
#include "numeric/hash.h"
#include <math.h>

static void tensors_are_compared(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --out a --set checkpoint.every_steps=5 --set checkpoint.keep=9");
    run("train c.yaml --out b --set checkpoint.every_steps=5 --set checkpoint.keep=9 --workers 2");
    run("compare a b");
    expect(0, "");
    assert_string_equal(last.out, "step 5\nstep 10\nstep 15\nstep 20\nequal\n");
    /* One bit of one element: fc1.bias[3] at step 15. */
    run("compare a/step-00000015.json b/step-00000015.safetensors");
    expect_ok();
    assert_int_equal(shell("python3 -c \"\nimport json, struct\n"
                           "f = open('b/step-00000015.safetensors', 'r+b')\n"
                           "n = struct.unpack('<Q', f.read(8))[0]\n"
                           "at = json.loads(f.read(n))['fc1.bias']['data_offsets'][0]\n"
                           "f.seek(8 + n + at + 12)\n"
                           "bits = struct.unpack('<I', f.read(4))[0]\n"
                           "f.seek(8 + n + at + 12)\n"
                           "f.write(struct.pack('<I', bits ^ 2))\n\""),
                     0);
    run("compare a b");
    expect(1, "");
    expect_out("step 10\nstep 15\ntensor fc1.bias, element [3]: ");
    expect_out(", 2 floats apart)\n");
    expect_out("1 of 8 tensors differs; the largest difference is "); /* 4, and momentum's 4 */
    expect_out(", in fc1.bias\ndifferent\n");
    assert_null(strstr(last.out, "step 20"));
    static const char *const apart[][3] = {{"-1.0", "-1.0000001", "1"},
                                           {"-1.0000001", "-1.0", "1"},
                                           {"-0.0", "1e-45", "1"},
                                           {"1e-45", "-1e-45", "2"},
                                           {"-1.0", "1.0", "2130706432"}};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        char text[64];
        shell("python3 -c \"\nimport struct\n"
              "head = b'{\\\"x\\\":{\\\"dtype\\\":\\\"F32\\\",\\\"shape\\\":[1],"
              "\\\"data_offsets\\\":[0,4]}}'\n"
              "for name, x in (('x', %s), ('y', %s)):\n"
              "  open(name + '.safetensors', 'wb').write(\n"
              "    struct.pack('<Q', len(head)) + head + struct.pack('<f', x))\n\"",
              apart[i][0], apart[i][1]);
        run("compare x.safetensors y.safetensors");
        expect(1, "");
        snprintf(text, sizeof text, ", %s float%s apart)\n", apart[i][2],
                 strcmp(apart[i][2], "1") == 0 ? "" : "s");
        expect_out(text);
    }
    run("compare a b/step-00000015.safetensors"); /* the newest of a */
    expect(1, "");
    run("train c.yaml --save-model --quiet"); /* the same, but nothing of the optimizer */
    for (int turn = 0; turn < 2; turn++) {
        run("compare %s", turn == 0 ? "mlp.safetensors a" : "a mlp.safetensors");
        expect(1, "");
        expect_out(" is only in a/step-00000020.safetensors\n4 tensors are only in one of them\n");
        assert_null(strstr(last.out, "differ;"));
    }
    run("train c.yaml --save-model --set model.hidden=[8] --quiet");
    run("compare mlp.safetensors a");
    expect(1, "");
    expect_out("tensor fc1.weight has other dimensions or another type\n");
    expect_out("4 tensors are only in one of them\n");
    run("train c.yaml --out c --steps 3");
    run("compare a c");
    expect(5, "a and c have no checkpoint of the same step");
    run("compare a c.yaml");
    expect(2, "c.yaml is a record and a is not");
    run("compare a none.safetensors");
    expect(3, "none.safetensors");
}

/* Changes the record of a checkpoint, and seals it again. */
static void change_record(const char *name, const char *from, const char *to)
{
    static char text[OUTPUT_SIZE], changed[OUTPUT_SIZE];
    read_text(text, name);
    char *at = strstr(text, from);
    if (at == NULL) fail_msg("no %s in %s", from, name);
    const int used = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to,
                              at + strlen(from));
    assert_true(used > 0 && used < (int)sizeof changed);
    char *seal = strstr(changed, ",\n  \"checksum\": \"");
    assert_non_null(seal);
    snprintf(seal + 16, 32, "\"%016llx\"\n}\n",
             (unsigned long long)lki_hash(changed, (size_t)(seal - changed)));
    write_text(name, changed);
}

/* What the tensors do not show: another rate in the history, another seed, other data. */
static void the_records_of_checkpoints_are_compared(void **state)
{
    (void)state;
    static const struct row {
        const char *from, *to, *said;
    } rows[] = {
        {"\"seed\": \"0000000000000003\"", "\"seed\": \"0000000000000004\"",
         "record: seed is \"0000000000000003\" and \"0000000000000004\"\ndifferent\n"},
        {"\"learning_rate\": 0.1", "\"learning_rate\": 0.2",
         "record: history[0].learning_rate is 0.1 and 0.2\ndifferent\n"},
        {"\"bad_epochs\": 0", "\"bad_epochs\": 7", "record: bad_epochs is 0 and 7\ndifferent\n"},
        {"\\\"shuffle\\\": true", "\\\"shuffle\\\": false",
         "record: data.shuffle is true and false\ndifferent\n"},
        {"\"plateau\": null", "\"plateau\": {\"lr\": 1.0, \"best\": 1.0, \"bad\": 0}",
         "record: plateau is null and {"},
    };
    static const char *const none[][2] = {{"\"finished\": true", "\"finished\": false"},
                                          {"\"so_far_seconds\": 0.0", "\"so_far_seconds\": 1.0"},
                                          {"\\\"lr\\\": 0.1", "\\\"lr\\\": 0.2"}};
    static const char record[] = "b/step-00000010.json";
    write_text("c.yaml", tiny);
    run("train c.yaml --out a --epochs 1");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shell("rm -rf b && cp -r a b");
        change_record(record, rows[i].from, rows[i].to);
        run("compare a b");
        expect(1, "");
        expect_out(rows[i].said);
        run("compare a/step-00000010.safetensors %s", record);
        expect(1, "");
        run("compare a/step-00000010.safetensors b/step-00000010.safetensors");
        expect(1, "");
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        shell("rm -rf b && cp -r a b");
        change_record(record, none[i][0], none[i][1]);
        run("compare a b");
        expect(0, "");
    }
    shell("sed -i 's/\"seed\": \"0/\"seed\": \"1/' %s", record); /* not sealed */
    run("compare a b");
    expect(4, "b/step-00000010.json' is damaged");
    run("compare a none");
    expect(3, "none cannot be opened: No such file");
    run("compare none.json a");
    expect(3, "none.json cannot be opened: No such file");
}

static void damaged_checkpoints_are_said(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --out a --epochs 1");
    shell("cp -r a b && printf x | dd of=b/step-00000010.safetensors bs=1 seek=2000 conv=notrunc "
          "2>dd.txt");
    run("info b");
    expect(4, "b/step-00000010.safetensors' is damaged: its checksum is ");
    expect_out("checkpoint    b, step 10 (finished)\n");
    /* Also where its data is not at hand, so that no hash can be computed. */
    change_record("b/step-00000010.json", "\\\"name\\\": \\\"digits\\\"",
                  "\\\"name\\\": \\\"noned\\\"");
    run("info b/step-00000010.json");
    expect(4, "is damaged");
    shell("sed -i 's/\"seed\": \"0/\"seed\": \"1/' b/step-00000010.json");
    run("info b");
    expect(4, "b/step-00000010.json' is damaged");
    shell("rm a/step-00000010.safetensors");
    run("info a");
    expect(3, "a/step-00000010.safetensors");
}

static void records_are_compared(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    run("train c.yaml --record a.json --workers 1");
    run("train c.yaml --record b.json --workers 2");
    run("compare a.json b.json");
    expect(0, "");
    expect_out("setting train.workers: 1 and 2\n");
    expect_out("\nequal\n");
    /* A smaller rate from the second epoch on: the links part after step 8 of 4, 8, 12, ... */
    run("train c.yaml --record b.json --set schedule.name=step --set schedule.gamma=0.99");
    run("compare a.json b.json");
    expect(1, "");
    expect_out("setting schedule.gamma: nothing and 0.99\n");
    expect_out("step 12: the links of the hash chain differ; at step 8 they did not\n");
    expect_out("epoch 2: train_loss is ");
    expect_out("\nhash: ");
    expect_out("\ndifferent\n");
    run("train c.yaml --record v.json --set validation.samples=50"); /* of what nothing follows */
    shell("sed 's/\"valid_correct\": [0-9]*/\"valid_correct\": 51/' v.json >w.json");
    run("compare v.json w.json");
    expect(1, "");
    expect_out("epoch 1: valid_correct is ");
    run("compare a.json c.yaml");
    expect(4, "c.yaml:1: not JSON");
    write_text("c.json", "{}");
    run("compare a.json c.json");
    expect(4, "c.json is no record of a training");
    run("compare a.json none.json");
    expect(3, "none.json cannot be opened");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tensors_are_compared),
        TEST(the_records_of_checkpoints_are_compared),
        TEST(damaged_checkpoints_are_said),
        TEST(records_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
