/*
 * The part of tests/interop/interop.py that needs no PyTorch: weights that PyTorch saved, with the logits
 * that it has for them in float64 (tools/goldens/interop.py made tests/interop/samples), and names, shapes
 * and types of what `train --save-model` writes.
 */
#include "cli/program.h"

#include <math.h>

#include "support/op_json.h"

enum { SAMPLES = 24, PIXELS = 784, CLASSES = 10, STREAM = 1000 };

/* The distance that is promised, as in interop.py; logits are of size 1 to 6. */
static const double BOUND = 1e-5;

static void write_images(void)
{
    static const uint8_t head[] = {0, 0, 8, 3, 0, 0, 0, SAMPLES, 0, 0, 0, 28, 0, 0, 0, 28};
    FILE *file = fopen(in_folder("images"), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(head, 1, sizeof head, file), sizeof head);
    for (uint32_t i = 0; i < SAMPLES * PIXELS; i++) {
        const uint32_t row = i / 28 % 28, column = i % 28, sample = i / PIXELS;
        const bool bright = row / 7 == sample % 4 && column / 7 == sample / 4 % 4;

        putc((int)((lkt_hashed(i, STREAM) >> 26) + (bright ? 160 : 0)), file);
    }
    assert_int_equal(fclose(file), 0);
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void pytorchs_weights_give_its_logits(void **state)
{
    json_t *golden = lkt_json_load("tests/interop/samples/samples.json"), *network;
    size_t index;

    (void)state;
    write_images();
    json_array_foreach(json_object_get(golden, "networks"), index, network)
    {
        const json_t *logits = json_object_get(network, "logits");
        double worst = 0;
        size_t row = 0;

        write_text("c.yaml", text_of(network, "config"));
        run("predict c.yaml --init '%s/tests/interop/samples/%s.safetensors' --images images "
            "--outputs --format json",
            getenv("LKT_SOURCE") != NULL ? getenv("LKT_SOURCE") : ".", text_of(network, "name"));
        expect_ok();
        for (char *line = strtok(last.out, "\n"); line != NULL; line = strtok(NULL, "\n")) {
            json_t *answer = json_loads(line, 0, NULL);
            const json_t *found = json_object_get(answer, "outputs");

            assert_int_equal(json_array_size(found), CLASSES);
            for (size_t i = 0; i < CLASSES; i++)
                worst = fmax(
                    worst, fabs(json_number_value(json_array_get(found, i)) -
                                json_number_value(json_array_get(json_array_get(logits, row), i))));
            json_decref(answer);
            row++;
        }
        assert_int_equal(row, SAMPLES);
        print_message("%s: logits differ by %.1e at most\n", text_of(network, "name"), worst);
        if (!(worst <= BOUND)) fail_msg("%s: more than %g", text_of(network, "name"), BOUND);
    }
    json_decref(golden);
}

/* The header of a safetensors file in the test's folder. */
static json_t *read_header(const char *name)
{
    FILE *file = fopen(in_folder(name), "rb");
    uint64_t length;

    if (file == NULL) fail_msg("%s is missing", name);
    assert_int_equal(fread(&length, sizeof length, 1, file), 1);
    assert_in_range(length, 2, 1 << 20);
    char *text = malloc((size_t)length);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)length, file), length);
    json_t *header = json_loadb(text, (size_t)length, 0, NULL);
    assert_non_null(header);
    free(text);
    fclose(file);
    return header;
}

static void saved_weights_have_pytorchs_names(void **state)
{
    json_t *golden = lkt_json_load("tests/interop/samples/samples.json"), *network, *entry;
    const char *name;
    size_t index;

    (void)state;
    json_array_foreach(json_object_get(golden, "networks"), index, network)
    {
        json_t *wanted = json_object_get(network, "state");
        char file[100];

        write_text("c.yaml", text_of(network, "config"));
        run("train c.yaml --steps 2 --save-model --quiet");
        expect_ok();
        snprintf(file, sizeof file, "%s.safetensors", text_of(network, "name"));
        json_t *header = read_header(file);
        assert_string_equal(text_of(json_object_get(header, "__metadata__"), "format"), "pt");
        assert_int_equal(json_object_size(header), json_object_size(wanted) + 1);
        json_object_foreach(wanted, name, entry)
        {
            const char *type = json_string_value(json_array_get(entry, 0));
            json_t *found = json_object_get(header, name);

            if (found == NULL) fail_msg("%s has no %s", file, name);
            assert_string_equal(text_of(found, "dtype"),
                                strcmp(type, "torch.float32") == 0 ? "F32" : "I64");
            if (!json_equal(json_object_get(found, "shape"), json_array_get(entry, 1)))
                fail_msg("%s: %s has another shape than PyTorch's", file, name);
        }
        json_decref(header);
    }
    json_decref(golden);
}

static void half_precision_is_refused(void **state)
{
    json_t *golden = lkt_json_load("tests/interop/samples/samples.json");

    (void)state;
    write_images();
    write_text("c.yaml", text_of(json_array_get(json_object_get(golden, "networks"), 1), "config"));
    run("predict c.yaml --init '%s' --images images",
        source("tests/interop/samples/block-half.safetensors"));
    expect(4, "type 'F16'");
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pytorchs_weights_give_its_logits),
        TEST(saved_weights_have_pytorchs_names),
        TEST(half_precision_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
