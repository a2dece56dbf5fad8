/* lockstep data check and data stats. */
#include "cli/program.h"

/* A right data set in d: 200 and 50 digits. */
static void make_data(void)
{
    shell("rm -rf d");
    run("data digits --out d --samples 200 --test-samples 50");
    expect_ok();
}

static void check_wrong(int code, int wrong, const char *sentence)
{
    char text[200];
    run("data check d");
    snprintf(text, sizeof text, "lockstep: %d thing%s in d %s wrong, as said above\n", wrong,
             wrong == 1 ? "" : "s", wrong == 1 ? "is" : "are");
    expect(code, text);
    expect_out(sentence);
}

static void need_real_files(void)
{
    if (lkt_data_folder() != NULL) return;
    print_message("no real data: skipped\n");
    skip();
}

static void right_folders_are_right(void **state)
{
    (void)state;
    make_data();
    run("data check d");
    expect(0, "");
    assert_string_equal(last.out, "train-images-idx3-ubyte     200 images of 28x28\n"
                                  "train-labels-idx1-ubyte     200 labels from 0 to 9\n"
                                  "t10k-images-idx3-ubyte      50 images of 28x28\n"
                                  "t10k-labels-idx1-ubyte      50 labels from 0 to 9\n"
                                  "d: nothing is wrong\n");
    shell("gzip d/t* && mkdir -p e/MNIST && mv d e/MNIST/raw");
    run("data check e");
    expect_ok();
    expect_out("train-images-idx3-ubyte.gz  200 images of 28x28, packed\n");
    expect_out("e/MNIST/raw: nothing is wrong\n");
    shell("cd e/MNIST/raw && gunzip -k train-images*.gz && "
          "mv train-images-idx3-ubyte train-images.idx3-ubyte && touch "
          "t10k-images-idx3-ubyte.gz.part");
    run("data check e");
    expect_ok();
    expect_out("train-images-idx3-ubyte.gz  not used: train-images.idx3-ubyte is read instead\n");
    expect_out("t10k-images-idx3-ubyte.gz.part  an unfinished download; start it again, or remove");
}

static void each_fault_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *fault; /* commands that bring it about */
        int code, wrong;
        const char *sentence;
    } cases[] = {
        {"rm d/t10k-labels*", 3, 1,
         "t10k-labels-idx1-ubyte      WRONG: missing, packed (.gz) as well as unpacked; put it"},
        {"truncate -s 9999 d/train-images*", 4, 1, "it is truncated, copy or download it again"},
        {"echo more >>d/train-labels-idx1-ubyte", 4, 1, "has 5 trailing bytes"},
        {"gzip d/train-images* && truncate -s 9999 d/train-images*", 4, 1,
         "the gzip data ends too early, after 9999 bytes; the file is truncated"},
        {"gzip d/train-images* && printf xxxxxxxx | dd of=d/train-images-idx3-ubyte.gz bs=1 "
         "seek=5000 conv=notrunc status=none",
         4, 1, "the gzip data is damaged near byte"},
        {"printf '\\377' | dd of=d/t10k-labels-idx1-ubyte bs=1 seek=13 conv=notrunc status=none", 4,
         1, "its labels go up to 255, but those of train-labels-idx1-ubyte only up to 9"},
        {"cp d/t10k-labels-idx1-ubyte d/train-labels-idx1-ubyte", 4, 1,
         "it has 200 images, but train-labels-idx1-ubyte has 50 labels"},
        {"cp d/t10k-labels-idx1-ubyte d/t10k-images-idx3-ubyte", 4, 1,
         "are the two files swapped?"},
        {"printf '\\0\\0\\0\\016\\0\\0\\0\\070' | dd of=d/t10k-images-idx3-ubyte bs=1 seek=8 "
         "conv=notrunc status=none",
         4, 1, "its images are 14x56, but those of train-images-idx3-ubyte are 28x28"},
        {"dd if=/dev/zero of=d/t10k-images-idx3-ubyte bs=1 seek=16 count=39200 conv=notrunc "
         "status=none",
         4, 1, "all its pixels are the same; check how the file was made"},
        {"printf '\\0\\0\\015' | dd of=d/t10k-images-idx3-ubyte bs=1 conv=notrunc status=none", 4,
         1, "holds 32-bit floats (type byte 0x0d), expected unsigned bytes"},
        {"echo 'not a data set' >d/train-images-idx3-ubyte && rm d/t10k-images*", 4, 2,
         "expected 00 00 08 03 as an IDX file of images does"},
        {"rm d/t10k-images* && : >d/train-images-idx3-ubyte", 4, 2, "has 0 bytes, too few"},
        {"rm d/t10k-images* && mkdir d/t10k-images-idx3-ubyte", 3, 1, "it is a folder"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_data();
        assert_int_equal(shell("%s", cases[i].fault), 0);
        check_wrong(cases[i].code, cases[i].wrong, cases[i].sentence);
    }
}

static void classes_without_samples_are_counted(void **state)
{
    (void)state;
    make_data();
    shell("printf '\\377' | dd of=d/train-labels-idx1-ubyte bs=1 seek=13 conv=notrunc status=none");
    run("data check d");
    expect_ok();
    expect_out("200 labels from 0 to 255, 245 of these without a sample\n");
}

/* What it names is looked at, as tables and texts are. */
static void a_configuration_is_checked_by_what_it_names(void **state)
{
    (void)state;
    make_data();
    write_text("c.yaml", "data: {path: d}\nmodel: {name: mlp}\n");
    run("data check c.yaml");
    expect_ok();
    expect_out("d: nothing is wrong\n");
    shell("truncate -s 100 d/train-labels-idx1-ubyte");
    run("data check c.yaml");
    expect(4, "lockstep: 1 thing in d is wrong, as said above\n");
    expect_out("it is truncated");
    write_text("c.yaml", "data: {name: mnist, path: nowhere}\nmodel: {name: mlp}\n");
    run("data check c.yaml");
    expect(3, "nowhere cannot be read: No such file or directory; expected a folder");
    write_text("c.yaml", "data: {path: [1]}\n");
    run("data check c.yaml");
    expect(2, "data.path");
    static const char *const drawn[] = {"digits", "dummy", "checkerboard"};
    for (int i = 0; i < 3; i++) {
        char config[100], line[100];
        snprintf(config, sizeof config, "data: {name: %s}\nmodel: {name: mlp}\n", drawn[i]);
        write_text("c.yaml", config);
        run("data check c.yaml");
        expect_ok();
        snprintf(line, sizeof line, "c.yaml: its data, %s, is drawn by the program", drawn[i]);
        expect_out(line);
    }
}

static void what_is_no_folder_of_data_is_said(void **state)
{
    (void)state;
    write_text("c.yaml", tiny);
    shell("mkdir empty; mkdir -m 700 closed");
    run("data check nowhere");
    expect(3, "nowhere cannot be read: No such file or directory; expected a folder");
    run("data check empty");
    expect(3, "empty is no data set: it has none of the files train-images-idx3-ubyte[.gz],");
    run("data check mnist");
    expect(3, "/.local/share/lockstep/mnist cannot be read: No such file");
    run("data check digits");
    expect(2, "digits are drawn by the program, there is nothing to check");
    run("data check");
    expect(2, "data check needs to know of what: lockstep data check mnist, for example");
    run("data mnist elsewhere");
    expect(2, "data mnist takes nothing more, found 'elsewhere'; a folder is given by --out");
    run("data chekc d");
    expect(2, "unknown data set 'chekc'; the nearest is check; expected digits, mnist, fashion, "
              "cifar10 or cifar100");
    if (geteuid() != 0) {
        shell("chmod 0 closed");
        run("data check closed");
        expect(3, "closed cannot be read: Permission denied");
    } else if (shell("chmod 711 . && setpriv --reuid 65534 --clear-groups '%s' data check closed "
                     ">out.txt 2>err.txt; test $? = 3",
                     program()) == 0) { /* root may read anything */
        read_text(last.err, "err.txt");
        assert_non_null(strstr(last.err, "closed cannot be read: Permission denied"));
    }
}

static void published_files_are_known(void **state)
{
    (void)state;
#if !defined(LKT_HAVE_MD)
    print_message("built without libmd: skipped\n");
    skip();
#endif
    need_real_files();
    shell("cp -r '%s/mnist' d && chmod -R u+w d", lkt_data_folder());
    run("data check d");
    expect(0, "");
    expect_out(
        "train-images-idx3-ubyte.gz  60,000 images of 28x28, packed; as published for mnist\n");
    expect_out("t10k-labels-idx1-ubyte.gz   10,000 labels from 0 to 9, packed; as published for ");
    shell("gunzip d/t10k*");
    run("data check d");
    expect_ok();
    expect_out("t10k-labels-idx1-ubyte      10,000 labels from 0 to 9; as published for mnist\n");
    shell("gzip -1 d/t10k-images*"); /* the same content in other bytes */
    check_wrong(
        5, 1,
        "t10k-images-idx3-ubyte.gz   WRONG: 10,000 images of 28x28, packed, but not the file "
        "that was published for mnist: changed, damaged or packed again; remove it and run "
        "'lockstep data mnist --out d'");
    shell("gunzip d/t10k-images* && cp d/t10k-labels-idx1-ubyte d/train-labels-idx1-ubyte && "
          "rm d/train-labels*.gz");
    check_wrong(
        5, 2,
        "train-labels-idx1-ubyte     WRONG: it is t10k-labels-idx1-ubyte of mnist, expected "
        "train-labels-idx1-ubyte of mnist; exchange it for the right file");
    expect_out("it has 60000 images, but train-labels-idx1-ubyte has 10000 labels");
    /* By name, the files have to be those. */
    run("data digits --out .local/share/lockstep/mnist --samples 20 --test-samples 10");
    run("data check mnist");
    expect(5, "4 things in ");
}

static void statistics_are_right(void **state)
{
    (void)state;
    run("data stats digits --seed 0");
    expect(0, "");
    expect_out("digits: 60,000 training samples of 28x28x1\nbytes from 0 to 255;");
    expect_out("data:\n  mean: 0.1250 # 0.1249");
    expect_out("\n  std: 0.2548 # 0.2548");
    expect_out("\nclass      samples    share\n0 ");
    write_text("c.yaml", "data: {name: digits, samples: 10, test_samples: 7}\n"
                         "model: {name: mlp}\n");
    run("data stats c.yaml --test");
    expect_ok();
    expect_out("c.yaml: 7 test samples of 28x28x1\n");
    /* Two images of 1x2 pixels in three channels, by hand. */
    shell("mkdir d && printf '\\0\\0\\010\\04\\0\\0\\0\\02\\0\\0\\0\\01\\0\\0\\0\\02\\0\\0\\0\\03"
          "\\0\\377\\063\\377\\377\\063\\0\\377\\063\\377\\377\\063' >d/train-images-idx3-ubyte && "
          "printf '\\0\\0\\010\\01\\0\\0\\0\\02\\03\\011' >d/train-labels-idx1-ubyte");
    run("data stats d");
    expect_ok();
    expect_out("d: 2 training samples of 1x2x3\nbytes from 0 to 255; ");
    expect_out("  mean: [0.5000, 1.0000, 0.2000] # 0.500000000 1.000000000 0.200000000\n"
               "  std: [0.5000, 1.0000, 1.0000] # 0.500000000 1.000000000 1.000000000\n"
               "  # channel 1 is the same everywhere: 1 stands for its std, which is 0\n");
    expect_out("\n2                0    0.00%\n"
               "3                1   50.00%  ########################################\n");
    run("data stats d --test");
    expect(3, "data set 'd': 'd' has no test samples; expected t10k-images-idx3-ubyte[.gz]");
    run("data stats fashoin");
    expect(2, "'fashoin' is neither a data set that is known (digits, mnist, fashion, cifar10, "
              "cifar100, dummy), nor a folder, "
              "nor a configuration; the nearest is fashion");
    run("data stats d/train-images-idx3-ubyte");
    expect(2, "d/train-images-idx3-ubyte");
}

static void statistics_of_mnist_are_the_usual(void **state)
{
    (void)state;
    need_real_files();
    run("data stats '%s/mnist'", lkt_data_folder());
    expect_ok();
    expect_out("  mean: 0.1307 # 0.130660");
    expect_out("  std: 0.3081 # 0.308107");
    expect_out("\n0            5,923    9.87%  ");
    expect_out("\n9            5,949    9.91%  ");
    shell("mkdir -p .local/share/lockstep && ln -s '%s/mnist' .local/share/lockstep/fashion_mnist",
          lkt_data_folder());
    run("data stats fashion --test"); /* other files, for the names of the classes */
    expect_ok();
    expect_out("\n9 Ankle boot         1,009   10.09%  ");
}

static void archives_and_random_images_are_looked_at(void **state)
{
    (void)state;
    /* Two records: a label, and 3072 equal bytes. */
    shell("mkdir -p c && ones() { head -c 3072 /dev/zero | tr '\\0' '\\377'; } && "
          "{ printf '\\001'; ones; printf '\\002'; ones; } >c/test_batch.bin && "
          "for k in 1 2 3 4 5; do cp c/test_batch.bin c/data_batch_$k.bin; done");
    run("data check c");
    expect(0, "");
    assert_string_equal(last.out, "10 training samples of 32x32x3\n2 test samples of 32x32x3\n"
                                  "c: nothing is wrong\n");
    run("data stats c");
    expect_ok();
    expect_out("c: 10 training samples of 32x32x3\n");
    expect_out("  mean: [1.0000, 1.0000, 1.0000]");
#if defined(LKT_HAVE_PNG)
    run("data show c --test --out c.png");
    expect_ok();
    expect_out("c.png: 2 samples\n");
    run("data show dummy --count 2 --out d.png");
    expect_ok();
#endif
    shell("rm c/data* && truncate -s 6000 c/test_batch.bin");
    run("data check c");
    expect(
        4,
        "has 6000 bytes, expected records of 3073 (1 of labels, 3072 of pixels); it is truncated");
    shell("echo no archive >c/cifar-10-binary.tar.gz");
    run("data check c");
#if defined(LKT_HAVE_MD)
    expect(5, "c/cifar-10-binary.tar.gz is not the file that was published for cifar10, it has 11 "
              "bytes, expected 170052171: it is truncated, or packed again; remove it and run "
              "'lockstep data cifar10 --out c'");
    run("data check c/cifar-10-binary.tar.gz");
    expect(5, "c/cifar-10-binary.tar.gz is not the file that was published for cifar10, it has 11");
    shell("truncate -s 170052171 c/cifar-10-binary.tar.gz");
    run("data check c");
    expect(5, "it has as many bytes, but others: it is changed or damaged; remove it and run");
    shell("mv c/cifar-10-binary.tar.gz cifar-100-python.tar.gz");
    run("data check cifar-100-python.tar.gz");
    expect(5, "cifar-100-python.tar.gz is not the file that was published for cifar100, it has "
              "170052171 bytes, expected 169001437: it is truncated, or packed again; copy or "
              "download it again");
    shell("echo no archive >c/cifar-10-binary.tar.gz");
#else
    expect(4, "the tar archive ends within a header, at byte 0");
#endif
    run("data digits --out .local/share/lockstep/cifar10 --samples 20 --test-samples 10");
    expect_ok();
    run("data check cifar10");
    expect(5, "has IDX files, but cifar10 is published as cifar-10-binary.tar.gz; give a folder");
    write_text("c.yaml", "data: {name: dummy, shape: [4, 5, 3], samples: 9, classes: 3}\n"
                         "model: {name: mlp}\ntrain: {steps: 2, batch_size: 3}\n");
    run("data stats c.yaml");
    expect_ok();
    expect_out("c.yaml: 9 training samples of 4x5x3\n");
    run("train c.yaml");
    expect_ok();
    run("data dummy --out d");
    expect(2, "has U8 samples and 1000 classes; IDX files are written of U8 samples with 1 to 256");
    write_text("c.yaml", "data: {name: digits, shape: [4, 5, 3]}\nmodel: {name: mlp}\n");
    run("data stats c.yaml");
    expect(2, "data.shape");
}

/* Killed while it writes, it leaves what the next one removes. */
static void leftovers_of_a_kill_go(void **state)
{
    (void)state;
    assert_int_equal(shell("mkdir d && echo x >d/.train-images-idx3-ubyte.lockstep-0123456789abcdef"
                           " && echo x >d/.t10k-labels-idx1-ubyte.lockstep-0123456789abcdef"),
                     0);
    run("data digits --out d --samples 20 --test-samples 10");
    expect(0, "");
    assert_int_equal(shell("test $(ls -A d | wc -l) = 4"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(right_folders_are_right),
        TEST(each_fault_is_named),
        TEST(classes_without_samples_are_counted),
        TEST(a_configuration_is_checked_by_what_it_names),
        TEST(what_is_no_folder_of_data_is_said),
        TEST(published_files_are_known),
        TEST(statistics_are_right),
        TEST(statistics_of_mnist_are_the_usual),
        TEST(archives_and_random_images_are_looked_at),
        TEST(leftovers_of_a_kill_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
