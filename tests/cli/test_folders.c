/* Data sets of one's own: IDX files in a folder, of any number of classes, shape, and split. */
#include "cli/program.h"

/* An IDX file of `count` items of this shape in d. Item i has the label i mod classes, and brighter
 * pixels in a row that the label chooses, so that there is something to learn. */
static void put_idx(const char *name, int count, const int *shape, int ndim, int classes)
{
    const int dims[] = {count, shape[0], shape[1], shape[2]};
    char path[100];
    snprintf(path, sizeof path, "d/%s", name);
    FILE *file = fopen(in_folder(path), "wb");
    assert_non_null(file);
    fprintf(file, "%c%c%c%c", 0, 0, 8, 1 + ndim);
    int elements = 1;
    for (int i = 0; i <= ndim; i++) {
        fprintf(file, "%c%c%c%c", 0, 0, dims[i] >> 8, dims[i] & 255);
        if (i > 0) elements *= dims[i];
    }
    for (int i = 0; i < count; i++) {
        if (ndim == 0) fputc(i % classes, file);
        for (int e = 0; ndim > 0 && e < elements; e++)
            fputc((e * classes / elements == i % classes ? 200 : 20) + (i * 31 + e * 7) % 50, file);
    }
    assert_int_equal(fclose(file), 0);
}

typedef struct folder_shape {
    const char *images; /* "idx4" */
    int ndim, shape[3], classes;
} folder_shape;

static void put_split(const char *split, int count, const folder_shape *s)
{
    char name[64];
    snprintf(name, sizeof name, "%s-images-%s-ubyte", split, s->images);
    put_idx(name, count, s->shape, s->ndim, s->classes);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", split);
    put_idx(name, count, (const int[3]){0}, 0, s->classes);
}

static void put_folder(const folder_shape *s)
{
    shell("rm -rf d && mkdir d");
    put_split("train", 4 * s->classes, s);
    put_split("t10k", s->classes, s);
}

static const folder_shape letters = {"idx3", 2, {26, 5}, 26};

#define NET                                                                                        \
    "model: {name: mlp, hidden: [12]}\n"                                                           \
    "train: {epochs: 2, batch_size: 16, replicas: 3}\n"                                            \
    "optimizer: {name: adam, lr: 0.01}\n"
static const char own[] = "data: {path: d, mean: 0.2, std: 0.3}\n" NET;

/* The number of outputs that `info` shows of the last layer. */
static void expect_outputs(const char *output)
{
    run("info c.yaml");
    expect_ok();
    expect_out(output);
}

static void any_number_of_classes_and_any_shape(void **state)
{
    (void)state;
    static const folder_shape shapes[] = {
        {"idx3", 2, {10, 6}, 5}, {"idx3", 2, {26, 5}, 26},   {"idx4", 3, {8, 7, 3}, 12},
        {"idx2", 1, {40}, 3},    {"idx3", 2, {16, 16}, 256}, {"idx3", 2, {4, 4}, 2},
    };
    write_text("c.yaml", own);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char text[64];
        put_folder(&shapes[i]);
        run("train c.yaml --out o --save-model");
        expect_ok();
        snprintf(text, sizeof text, "/%d (", shapes[i].classes); /* accuracy on the test split */
        expect_out(text);
        run("eval c.yaml --out o");
        expect_ok();
        run("predict c.yaml --out o");
        expect_ok();
        run("data check d");
        expect(0, "");
        snprintf(text, sizeof text, "labels from 0 to %d", shapes[i].classes - 1);
        expect_out(text);
        shell("rm -rf o");
    }
    /* a network that is made for images takes shape and classes from the data, too */
    put_folder(&shapes[2]);
    write_text("c.yaml", "data: {path: d}\nmodel: {name: mnist_cnn}\ntrain: {epochs: 1}\n");
    run("train c.yaml");
    expect_ok();
    expect_outputs("12");
}

static void the_training_labels_say_how_many_classes(void **state)
{
    (void)state;
    put_folder(&letters);
    write_text("c.yaml", own);
    run("train c.yaml --out o");
    expect_ok();
    /* a test split without the last classes is still one of the same network */
    put_split("t10k", 7, &letters);
    run("eval c.yaml --out o");
    expect_ok();
    expect_out("/7 (");
    /* so is a part of the training samples */
    run("train c.yaml --set data.samples=20 --out p");
    expect_ok();
    run("compare o p");
    assert_null(strstr(last.out, "shape"));
    /* labels above those of training */
    put_split("train", 20, &letters);
    put_split("t10k", 26, &letters);
    run("train c.yaml");
    expect(4, "d/t10k-labels-idx1-ubyte' has labels up to 25, but ");
    expect(4, "train-labels-idx1-ubyte' only up to 19; if both are of the same data set, say how "
              "many classes it has (data.classes)");
    run("eval c.yaml --out o");
    expect(4, "only up to 19");
    run("data check d");
    expect(4, "1 thing in d is wrong");
    expect_out("its labels go up to 25, but those of train-labels-idx1-ubyte only up to 19");
    /* data.classes is honoured: as said, and above what the labels have */
    run("train c.yaml --set data.classes=26");
    expect_ok();
    run("train c.yaml --set data.classes=1000 --set model.hidden=[4] --save-model");
    expect_ok();
    run("info mlp.safetensors");
    expect_out("[1000][4]");
    run("train c.yaml --set data.classes=10");
    expect(4, "label number 10 is 10, expected 0 to 9 for 10 classes");
    /* and where the data are drawn */
    write_text("drawn.yaml", "data: {samples: 50, test_samples: 10}\n" NET);
    for (int classes = 9; classes <= 11; classes++) {
        run("train drawn.yaml --set data.classes=%d", classes);
        expect(classes < 10 ? 2 : 0,
               classes < 10 ? "data.classes is 9, but there are labels up to 9" : "");
    }
}

static void messages_name_the_data_in_use(void **state)
{
    (void)state;
    put_folder(&letters);
    shell("mv d letters");
    write_text("c.yaml", "data: {path: ./letters/}\n" NET);
    run("train c.yaml --print-config");
    expect_out("name: letters");
    shell("rm letters/t10k-labels*");
    run("train c.yaml");
    expect(3, "data set 'letters': './letters/' has the images of the test split but no "
              "t10k-labels-idx1-ubyte[.gz]; put that file beside it");
    run("train c.yaml --data nowhere");
    expect(3, "data set 'nowhere' is not at nowhere: No such file or directory; expected a folder "
              "with its files");
    shell("rm letters/train*");
    run("train c.yaml");
    expect(3, "data set 'letters': './letters/' has no training samples; expected "
              "train-images-idx3-ubyte[.gz] and train-labels-idx1-ubyte[.gz]");
    assert_null(strstr(last.err, "no MNIST"));
    assert_null(strstr(last.err, "gets it"));
    expect(3, "; 'lockstep data check ./letters/' looks at it");
    run("train c.yaml --set data.name=mnist");
    expect(3, "data set 'mnist': ");
    expect(3, "'lockstep data mnist --out ./letters/' gets it");
}

static void a_folder_for_training_alone(void **state)
{
    (void)state;
    shell("rm -rf d && mkdir d");
    put_split("train", 104, &letters);
    write_text("c.yaml", own);
    run("train c.yaml --out o");
    expect(0, "d has no test split, so nothing is tested; validation.fraction: 0.1 with "
              "validation.shuffle: true would hold samples back");
    assert_null(strstr(last.out, "Test set"));
    run("info c.yaml");
    expect(0, "");
    run("eval c.yaml --out o");
    expect(3,
           "there are no test samples in d; --split validation takes those that the training held");
    run("predict c.yaml --out o");
    expect(3,
           "there are no test samples in d; --split validation takes those that the training held");
    run("predict c.yaml --out o --images d/train-images-idx3-ubyte --count 2");
    expect_ok();
    run("verify c.yaml --workers 1,2 --steps 2");
    expect_ok();
    run("data check d");
    expect(0, "");
    expect_out("no test split: a training can hold samples back");
    run("train c.yaml --dry-run");
    expect_ok();
}

/* The samples are sorted by class here, as many folders are: the last are of classes that would
 * then be in no batch. */
static void a_folder_for_training_alone_is_split(void **state)
{
    (void)state;
    static const folder_shape bars = {"idx3", 2, {8, 8}, 4};
    char hash[4][32];
    shell("rm -rf d && mkdir d");
    put_split("train", 400, &bars);
    shell("cd d && for k in 0 1 2 3; do for i in $(seq 100); do printf \"\\\\00$k\"; done; done >l "
          "&& "
          "(head -c 8 train-labels-idx1-ubyte; cat l) >m && mv m train-labels-idx1-ubyte; rm l");
    write_text("c.yaml", "data: {path: d}\n" NET "validation: {fraction: 0.25, shuffle: true}\n");
    run("train c.yaml --record r.json --out o");
    expect(0, "");
    expect_out("Train set size: 300\nValidation set size: 100\nUsing");
    expect_out("Validation set: Average loss: ");
    expect_out("%)\n\nepoch 1/"); /* an empty line behind what was tested */
    last_hash(hash[0]);
    run("train c.yaml --workers 1");
    last_hash(hash[1]);
    assert_string_equal(hash[0], hash[1]);
    run("train c.yaml --set validation.shuffle=false --epochs 9");
    expect_ok();
    expect_out("Accuracy: 0/100"); /* the last quarter is one class, which was never seen */
    last_hash(hash[2]);
    assert_string_not_equal(hash[0], hash[2]);
    run("train c.yaml --set validation.samples=100");
    last_hash(hash[3]);
    assert_string_equal(hash[0], hash[3]);
    run("train c.yaml --set validation.shuffle=false --out o --resume --epochs 3");
    expect(
        5,
        "validation.shuffle was true, is false"); /* which samples are trained on is part of the run */
    run("train c.yaml --out o --resume --epochs 3");
    expect_ok();
    /* it splits what data.samples leaves */
    run("train c.yaml --set data.samples=40");
    expect_out("Train set size: 30\nValidation set size: 10\nUsing");
    for (int samples = 1; samples <= 400; samples += 399) { /* not all */
        run("train c.yaml --set validation.samples=%d", samples);
        expect(samples == 400 ? 2 : 0, samples == 400 ? "would hold back 400 of 400 samples" : "");
    }
    run("train c.yaml --set data.validation=0.1");
    expect(2, "unknown key 'data.validation'; the nearest is 'validation.fraction'");
}

/* The loss that a line has behind `what`. */
static double loss_behind(const char *what)
{
    const char *at = strstr(last.out, what);
    if (at == NULL) fail_msg("no \"%s\" in:\n%s", what, last.out);
    return atof(at + strlen(what));
}

/* Without drawing, those that are held back are the last, and none that is trained on: as a test split
 * they have the same loss. */
static void the_last_are_held_back(void **state)
{
    (void)state;
    static const folder_shape bars = {"idx3", 2, {8, 8}, 4};
    shell("rm -rf d && mkdir d");
    put_split("train", 401, &bars);
    write_text("c.yaml", "data: {path: d}\n" NET);
    shell("cd d && head -c 4 train-images-idx3-ubyte >t && printf '\\0\\0\\0\\143\\0\\0\\0\\10"
          "\\0\\0\\0\\10' >>t && tail -c $((99 * 64)) train-images-idx3-ubyte >>t && "
          "mv t t10k-images-idx3-ubyte");
    shell("cd d && head -c 4 train-labels-idx1-ubyte >t && printf '\\0\\0\\0\\143' >>t && "
          "tail -c 99 train-labels-idx1-ubyte >>t && mv t t10k-labels-idx1-ubyte");
    run("train c.yaml --epochs 3 --set validation.samples=99 --set validation.shuffle=false");
    expect(0, "");
    expect_out("Train set size: 302\nValidation set size: 99\nTest set size: 99\n");
    assert_true(loss_behind("Validation set: Average loss: ") > 0);
    assert_true(loss_behind("Validation set: Average loss: ") ==
                loss_behind("Test set: Average loss: "));
    run("train c.yaml --steps 1 --set validation.fraction=0.25 --set data.samples=399");
    expect_out("Train set size: 300\nValidation set size: 99\n"); /* of 99.75 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(any_number_of_classes_and_any_shape),  TEST(the_training_labels_say_how_many_classes),
        TEST(messages_name_the_data_in_use),        TEST(a_folder_for_training_alone),
        TEST(a_folder_for_training_alone_is_split), TEST(the_last_are_held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
