/* lockstep data pack: from a folder of pictures to a training and what it predicts; interrupted, and where files fail. */
#include "cli/program.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#include "data/png_file.h"

enum { CLASSES = 3 };
static const char *const class_names[CLASSES] = {"apple", "leaf", "sky"};

static void make_pictures(const char *root, int each, int side)
{
    char path[4200];
    for (int c = 0; c < CLASSES; c++) {
        assert_int_equal(shell("mkdir -p '%s/%s'", root, class_names[c]), 0);
        for (int i = 0; i < each; i++) {
            snprintf(path, sizeof path, "%s/%s/%s/%03d.png", folder, root, class_names[c], i);
            lkt_write_sample(path, c, i, side + i % 5, side + 10 - i % 7);
        }
    }
}

static void pictures_are_trained_on(void **state)
{
    (void)state;
    make_pictures("photos", 20, 20);
    run("data pack photos/ --size 16 --split 0.2 --threads 2");
    expect(0, "");
    expect_out("photos/: a folder for each class; 3 classes, 48 training and 12 test pictures\n");
    expect_out("photos-16x16/pictures.packed: ");
    expect_out(
        "Next: lockstep data show photos-16x16; lockstep train CONFIG --data photos-16x16\n");
    run("data check photos-16x16");
    expect_ok();
    expect_out("48 training samples of 16x16x3\n12 test samples of 16x16x3\n");
    run("data stats photos-16x16 --test");
    expect_ok();
    expect_out("0 apple                  4   33.33%");
    run("data show photos-16x16 --count 2");
    expect_ok();
    expect_out("apple");
    write_text("c.yaml", "data: {path: photos-16x16, augment: [crop: 2, flip]}\n"
                         "model: {name: mlp, hidden: [32]}\n"
                         "train: {epochs: 10, batch_size: 6, replicas: 2, workers: 1}\n"
                         "optimizer: {name: adam, lr: 0.002}\n"
                         "checkpoint: {path: run}\n");
    run("data show c.yaml --augment --count 2");
    expect_ok();
    run("train c.yaml");
    expect_ok();
    run("eval c.yaml --metrics");
    expect_ok();
    expect_out("Accuracy: 12/12 (100%)");
    expect_out("0 apple        4     1.0000");
    assert_null(strstr(last.out, "Top 5")); /* there are three */
    expect_out("2 sky          0  0  4\n");
    run("predict c.yaml --format csv");
    expect_ok();
    expect_out("0,0,");
    expect_out("11,2,sky,");
    run("predict c.yaml --images photos/leaf --format csv");
    expect_ok();
    expect_out("sample,class,name,probability\nphotos/leaf/000.png,1,leaf,");
    run("predict c.yaml --images photos/sky/003.png --format json");
    expect_ok();
    expect_out(
        "{\"sample\": 0, \"file\": \"photos/sky/003.png\", \"class\": 2, \"name\": \"sky\", ");
    assert_int_equal(shell("cp photos/sky/003.png 'a,\"b\".PNG'"), 0);
    run("predict c.yaml --images 'a,\"b\".PNG' --format csv");
    expect_ok();
    expect_out("\n\"a,\"\"b\"\".PNG\",2,sky,");
    run("predict c.yaml --images none.png");
    expect(3, "cannot read 'none.png': there is no such file or folder");
}

/* Whatever a file is called, it is what its first bytes say. */
static void pictures_are_known_by_their_bytes(void **state)
{
    (void)state;
    static const char *const names[] = {"noext", "a.jfif", "b.jpe", "c.npy", "d.gif"};
    make_pictures("photos", 4, 12);
    run("data pack photos --size 4");
    expect_ok();
    write_text("c.yaml", "data: {path: photos-4x4}\nmodel: {name: mlp, hidden: [4]}\n"
                         "train: {batch_size: 2, replicas: 2}\n");
    run("train c.yaml --quiet --save-model");
    expect_ok();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(shell("cp photos/sky/003.png %s", names[i]), 0);
        run("predict c.yaml --init mlp.safetensors --images %s --format csv", names[i]);
        expect_ok();
        expect_out("sample,class,name,probability\n");
        expect_out(names[i]);
    }
    static const struct {
        const char *name, *text, *sentence;
    } others[] = {
        {"a.gif", "GIF89a", "a.gif: it is no JPEG and no PNG, but GIF by its first bytes"},
        {"noext", "BM6", "noext: it is no JPEG and no PNG, but BMP by its first bytes"},
        {"a.jpg", "\1\2\3\4", "a.jpg: it is no JPEG and no PNG, but something else"},
        {"a.jfif", "", "a.jfif: the file is empty"},
        {"text", "hello",
         "'text' starts with the bytes 68 65 6c 6c, expected 00 00 08 03 as an IDX"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_text(others[i].name, others[i].text);
        run("predict c.yaml --init mlp.safetensors --images %s", others[i].name);
        expect(4, others[i].sentence);
    }
}

/* The others are predicted, whatever is asked for; samples keep their numbers. */
static void bad_pictures_have_no_prediction(void **state)
{
    (void)state;
    const char *const command =
        "predict c.yaml --init mlp.safetensors --format csv --images photos";
    char good[OUTPUT_SIZE];
    make_pictures("photos", 4, 12);
    run("data pack photos --size 4");
    expect_ok();
    write_text("c.yaml", "data: {path: photos-4x4}\nmodel: {name: mlp, hidden: [4]}\n"
                         "train: {batch_size: 2, replicas: 2, test_batch_size: 5}\n");
    run("train c.yaml --quiet --save-model");
    expect_ok();
    run("%s | grep -v 'leaf/001\\|sky/003'", command);
    expect_ok();
    memcpy(good, last.out, sizeof good);
    write_text("photos/leaf/001.png", "GIF89a");
    write_text("photos/sky/003.png", "");
    run("%s", command);
    expect(4,
           "lockstep: photos/leaf/001.png: it is no JPEG and no PNG, but GIF by its first bytes\n"
           "lockstep: photos/sky/003.png: the file is empty\n"
           "lockstep: 2 of 12 pictures cannot be read, as said above, and have no prediction; ");
    assert_string_equal(last.out, good);
    run("%s --skip-bad", command);
    expect(0, "photos/sky/003.png: the file is empty\nlockstep: 2 bad pictures are left out\n");
    assert_string_equal(last.out, good);
    run("%s --count 6 --skip-bad", command);
    expect(0, "lockstep: 1 bad picture is left out\n");
    assert_null(strstr(last.err, "sky"));
    run("predict c.yaml --init mlp.safetensors --images photos/sky --format json");
    expect(4, "1 of 4 pictures cannot be read");
    expect_out("{\"sample\": 2, \"file\": \"photos/sky/002.png\"");
    run("predict c.yaml --init mlp.safetensors --images photos/sky/003.png --skip-bad");
    expect(4, "lockstep: no picture can be read, so nothing is predicted\n");
    run("predict c.yaml --init mlp.safetensors --skip-bad");
    expect(2, "--skip-bad is of pictures; give --images, or drop it");
}

/* A network for grey images takes pictures, which become grey; where nothing fits, both shapes are told. */
static void grey_networks_take_pictures(void **state)
{
    (void)state;
    make_pictures("photos", 1, 28);
    write_text("c.yaml", "data: {name: digits, samples: 100, test_samples: 10}\n"
                         "model: {name: mlp, hidden: [4]}\ntrain: {batch_size: 50, replicas: 2}\n");
    run("train c.yaml --quiet --save-model");
    expect_ok();
    run("predict c.yaml --init mlp.safetensors --images photos --format csv");
    expect_ok();
    expect_out("sample,class,probability\nphotos/apple/000.png,");
    run("predict c.yaml --init mlp.safetensors --images photos/sky/000.png --format csv");
    expect_ok();
    run("data digits --out d --samples 4 --test-samples 4");
    expect_ok();
    run("data pack photos --size 6x5");
    expect_ok();
    write_text("p.yaml", "data: {path: photos-6x5}\nmodel: {name: mlp, hidden: [4]}\n"
                         "train: {batch_size: 2, replicas: 2}\n");
    run("train p.yaml --quiet --save-model");
    expect_ok();
    run("predict p.yaml --init mlp.safetensors --images d/t10k-images-idx3-ubyte");
    expect(2, "d/t10k-images-idx3-ubyte gives 28x28x1, the data is 5x6x3; expected a file of such "
              "samples, or pictures (JPEG, PNG), which become as large as these\n");
}

/* Columns are counted in characters, and no character is cut. */
static void names_beyond_ascii_stand_in_columns(void **state)
{
    (void)state;
    static const char *const names[] = {"caf\xC3\xA9", "\xC3\xA9t\xC3\xA9\xC3\xA9", "plain"};
    make_pictures("other", 3, 12);
    for (int c = 0; c < CLASSES; c++)
        assert_int_equal(shell("mv other/%s 'other/%s'", class_names[c], names[c]), 0);
    run("data pack other --size 3");
    expect_ok();
    run("data stats other-3x3");
    expect_ok();
    expect_out("\n0 caf\xC3\xA9                   3   33.33%");
    expect_out("\n1 plain                  3   33.33%");
    expect_out("\n2 \xC3\xA9t\xC3\xA9\xC3\xA9                   3   33.33%");
    run("data show other-3x3 --count 2 --class 2");
    expect_ok();
    expect_out("\n\xC3\xA9t\xC3\xA9  \xC3\xA9t\xC3\xA9\n");
}

/* Of a name that is too long for a label no part of a character is shown. */
static void long_names_end_with_a_character(void **state)
{
    (void)state;
    char name[41] = "", label[48] = "\n     ";
    make_pictures("other", 3, 12);
    for (int i = 0; i < 20; i++) strcat(name, "\xC3\xA9");
    for (int i = 0; i < 15; i++) strcat(label, "\xC3\xA9");
    assert_int_equal(shell("mv other/apple other/%s", name), 0);
    run("data pack other --size 25x2");
    expect_ok();
    run("data show other-25x2 --count 1 --class 2");
    expect_ok();
    strcat(label, "     ");
    if (strstr(last.out, label) == NULL) fail_msg("no '%s' in %s", label, last.out);
}

/* Weights of other classes: what to do is said, and that the file cannot be read and written. */
static void other_classes_say_how_to_begin(void **state)
{
    (void)state;
    make_pictures("photos", 3, 12);
    run("data pack photos --size 4");
    expect_ok();
    assert_int_equal(shell("cp -r photos two && rm -r two/sky"), 0);
    run("data pack two --size 4");
    expect_ok();
    write_text("c.yaml", "data: {path: photos-4x4}\nmodel: {name: mlp, hidden: [4]}\n"
                         "train: {batch_size: 2, replicas: 2}\n");
    run("train c.yaml --quiet --save-model");
    expect_ok();
    run("train c.yaml --quiet --data two-4x4 --init mlp.safetensors");
    expect(5, "'mlp.safetensors' belongs to another network: its 'fc2.weight' is 3x4 F32, the "
              "model's is 2x4 F32; to begin with what fits: model.init_matching: true");
    run("eval c.yaml --data two-4x4 --init mlp.safetensors --split train");
    expect(5, "the model's is 2x4 F32\n"); /* with a random head there is nothing to evaluate */
    run("train c.yaml --quiet --data two-4x4 --init mlp.safetensors --set model.init_matching=true "
        "--save-model");
    expect(2, "model.save: 'mlp.safetensors' is a file that this command reads; give another name "
              "to that file first, as model.name says this one");
    run("train c.yaml --quiet --data two-4x4 --init mlp.safetensors --set model.init_matching=true "
        "--record mlp.safetensors");
    expect(2, "log.record: 'mlp.safetensors' is a file that this command reads; give another name");
}

/* Ends the packing after so many seconds, unless it has come to its end. Returns whether it was ended. */
static bool pack_for(double time, int number)
{
    const int code = shell(
        "'%s' data pack photos --size 48 --out o --threads 2 >out.txt 2>err.txt & p=$!; "
        "sleep %.3f; kill -%d $p 2>/dev/null; wait $p",
        program(), time, number);
    read_text(last.out, "out.txt");
    read_text(last.err, "err.txt");
    last.code = code;
    return code != 0;
}

static void a_kill_at_any_moment_loses_nothing(void **state)
{
    (void)state;
    int killed = 0;
    make_pictures("photos", 60, 150);
    run("data pack photos --size 48 --out whole --threads 1");
    expect_ok();
    for (int i = 1; i < 60; i++) {
        const bool ended = pack_for(0.004 * i, i % 5 == 4 ? SIGINT : SIGKILL);
        killed += ended;
        if (!ended) break;
        assert_false(there("o/pictures.packed"));
        if (last.code == 9) expect(9, "pictures are packed; the same command goes on from there");
    }
    if (killed == 0) fail_msg("nothing was killed");
    if (!there("o/pictures.packed")) {
        run("data pack photos --size 48 --out o");
        expect_ok();
    }
    assert_int_equal(shell("cmp o/pictures.packed whole/pictures.packed"), 0);
    assert_false(there("o/pictures.packed.part"));
}

static void bad_pictures_are_named(void **state)
{
    (void)state;
    make_pictures("photos", 4, 12);
    write_text("photos/leaf/001.png", "GIF89a");
    write_text("photos/sky/002.png", "");
    write_text("photos/sky/notes.txt", "of this summer");
    run("data pack photos --size 8");
    expect(4,
           "lockstep: photos/leaf/001.png: it is no JPEG and no PNG, but GIF by its first bytes\n"
           "lockstep: photos/sky/002.png: the file is empty\n"
           "lockstep: 2 of 12 pictures cannot be read, as said above, so nothing is finished");
    assert_false(there("photos-8x8/pictures.packed"));
    run("data pack photos --size 8 --skip-bad");
    expect(0, "10 pictures had been packed by an earlier run\n");
    expect(0, "2 bad pictures are left out\n");
    expect(0, "1 file is not called as pictures are\n");
    expect_out("10 training and 0 test pictures");
    expect_out("There is no test split: ");
    run("data pack photos --size 8 --skip-bad");
    expect(3, "'photos-8x8/pictures.packed' is there already");
    run("data pack photos --size 9 --skip-bad --out photos-8x8");
    expect(3, "is there already");
}

static void folders_without_pictures_are_named(void **state)
{
    (void)state;
    make_pictures("photos", 2, 12);
    assert_int_equal(shell("mkdir -p photos/moon photos/bee/old && touch photos/moon/readme"), 0);
    run("data pack photos --size 8");
    expect(0, "lockstep: photos/bee: the folder has no picture and is no class\n"
              "lockstep: photos/moon: the folder has no picture and is no class\n");
    expect_out("3 classes, 6 training");
    assert_int_equal(shell("rm -r photos/leaf photos/sky"), 0);
    run("data pack photos --size 4");
    expect(4, "photos/moon: the folder has no picture and is no class\n");
    expect(4, "has one class, 'apple'");
}

/* The folder itself has a name, and nothing is written into it. */
static void the_folder_itself_is_packed_beside_it(void **state)
{
    (void)state;
    make_pictures("photos", 2, 12);
    assert_int_equal(shell("cd photos && '%s' data pack . --size 8 >../out.txt", program()), 0);
    read_text(last.out, "out.txt");
    expect_out(".: a folder for each class");
    expect_out("Next: lockstep data show ../photos-8x8;");
    assert_true(there("photos-8x8/pictures.packed"));
    assert_int_equal(shell("test $(ls -A photos | wc -l) = 3"), 0);
    assert_int_equal(
        shell("cd photos/sky && '%s' data pack ../ --size 9 >../../out.txt", program()), 0);
    assert_true(there("photos-9x9/pictures.packed"));
    assert_int_equal(shell("test $(ls -A photos | wc -l) = 3"), 0);
}

static void options_are_checked(void **state)
{
    (void)state;
    make_pictures("photos", 2, 12);
    static const struct {
        const char *arguments, *sentence;
    } cases[] = {
        {"photos", "give --size 64, or --size 80x60"},
        {"photos --size 0", "--size is '0', expected a number of pixels"},
        {"photos --size 8x", "--size is '8x'"},
        {"photos --size 3000", "pictures of 3000 x 3000 pixels were asked for"},
        {"photos --size 8 --split 1", "--split is '1', expected a share"},
        {"photos --size 8 --threads 0", "--threads is '0', expected an integer from 1 to 256"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run("data pack %s", cases[i].arguments);
        expect(2, cases[i].sentence);
    }
    run("data pack");
    expect(2, "data pack needs to know of what: give a folder");
    run("data pack photos --size 8 --out photos/apple/000.png");
    expect(3, "a part of the path is not a folder");
}

static int refuse_places(void *command)
{
    if (!lkt_refuse(SYS_pwrite64, ENOSPC)) return 77;
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    return 127;
}

static int refuse_space(void *command)
{
    if (!lkt_refuse(SYS_fallocate, ENOSPC)) return 77;
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    return 127;
}

static void a_full_disk_is_told(void **state)
{
    (void)state;
    make_pictures("photos", 2, 12);
    for (int late = 0; late < 2; late++) {
        char command[16384];
        snprintf(command, sizeof command,
                 "cd '%s' && exec '%s' data pack photos --size 8 --out o 2>err.txt", folder,
                 program());
        last.code = lkt_in_child(late == 1 ? refuse_places : refuse_space, command);
        if (last.code == 77) {
            print_message("no seccomp here: skipped\n");
            skip();
        }
        read_text(last.err, "err.txt");
        expect(3, "no space left on the device");
        assert_false(there("o/pictures.packed"));
        assert_false(there("o/pictures.packed.part"));
    }
    run("data pack photos --size 8 --out o");
    expect_ok();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pictures_are_trained_on),
        TEST(pictures_are_known_by_their_bytes),
        TEST(bad_pictures_have_no_prediction),
        TEST(grey_networks_take_pictures),
        TEST(names_beyond_ascii_stand_in_columns),
        TEST(long_names_end_with_a_character),
        TEST(other_classes_say_how_to_begin),
        TEST(a_kill_at_any_moment_loses_nothing),
        TEST(bad_pictures_are_named),
        TEST(folders_without_pictures_are_named),
        TEST(the_folder_itself_is_packed_beside_it),
        TEST(options_are_checked),
        TEST(a_full_disk_is_told),
    };
    return cmocka_run_group_tests_name("verbs/pack", tests, NULL, NULL);
}
