/* lockstep data show, as letters and as PNG files, which libpng reads back. */
#include "verbs/full_disk.h"

#include "cli/out/font.h"
#include "verbs/picture.h"

/* Two training images of 2x2 red, green and blue, classes 3 and 1, and two grey ones for testing. */
static void make_small(void)
{
    assert_int_equal(
        shell("mkdir -p d && printf "
              "'\\0\\0\\010\\04\\0\\0\\0\\02\\0\\0\\0\\02\\0\\0\\0\\02\\0\\0\\0\\03"
              "\\377\\0\\0\\0\\377\\0\\0\\0\\377\\012\\024\\036"
              "\\01\\01\\01\\02\\02\\02\\03\\03\\03\\04\\04\\04' >d/train-images-idx3-ubyte && "
              "printf '\\0\\0\\010\\01\\0\\0\\0\\02\\03\\01' >d/train-labels-idx1-ubyte && "
              "printf '\\0\\0\\010\\03\\0\\0\\0\\02\\0\\0\\0\\01\\0\\0\\0\\02\\0\\377\\200\\100' "
              ">d/t10k-images-idx3-ubyte && cp d/train-labels-idx1-ubyte d/t10k-labels-idx1-ubyte"),
        0);
}

static const uint8_t *pixel(const picture *p, uint32_t x, uint32_t y)
{
    return p->value + 3 * ((size_t)y * p->image.width + x);
}

static void expect_colour(const picture *p, uint32_t x, uint32_t y, int red, int green, int blue)
{
    const uint8_t *found = pixel(p, x, y);
    if (found[0] != red || found[1] != green || found[2] != blue)
        fail_msg("pixel %u, %u is %d %d %d, expected %d %d %d", x, y, found[0], found[1], found[2],
                 red, green, blue);
}

/* Pixels of a part of the page that are not white: letters. */
static int ink(const picture *p, uint32_t left, uint32_t top, uint32_t width, uint32_t height)
{
    int count = 0;
    for (uint32_t y = top; y < top + height; y++)
        for (uint32_t x = left; x < left + width; x++) count += *pixel(p, x, y) < 255;
    return count;
}

/* Where things are on a page: MARGIN 28, title 14, MARGIN, images of 112, GAP 14. */
static void a_page_has_images_and_labels(void **state)
{
    (void)state;
    make_small();
    run("data show d --out a.png");
    expect(0, "");
    assert_string_equal(last.out, "a.png: 2 samples\n");
    picture p = read_png("a.png", PNG_FORMAT_RGB);
    expect_colour(&p, 0, 0, 255, 255, 255);
    expect_colour(&p, 27, 70, 255, 255, 255);
    expect_colour(&p, 28, 70, 255, 0, 0); /* each pixel is 56x56 */
    expect_colour(&p, 83, 125, 255, 0, 0);
    expect_colour(&p, 84, 70, 0, 255, 0);
    expect_colour(&p, 28, 126, 0, 0, 255);
    expect_colour(&p, 139, 181, 10, 20, 30);
    expect_colour(&p, 140, 181, 255, 255, 255);
    expect_colour(&p, 154, 70, 1, 1, 1);
    expect_colour(&p, 265, 181, 4, 4, 4);
    assert_true(ink(&p, 28, 28, 200, 18) > 100); /* title */
    /* A 3 has 14 pixels of the font, a 1 has 10, each of 2x2. */
    assert_int_equal(ink(&p, 28, 183, 112, 28), 14 * 4);
    assert_int_equal(ink(&p, 154, 183, 112, 28), 10 * 4);
    free(p.value);
    run("data show d --out a.png --test --class 1");
    expect_ok();
    p = read_png("a.png", PNG_FORMAT_RGB);
    expect_colour(&p, 28, 70, 128, 128, 128);
    expect_colour(&p, 84, 70, 64, 64, 64);
    free(p.value);
    run("data show digits --out a.png");
    assert_string_equal(last.out, "a.png: 100 samples\n");
    p = read_png("a.png", PNG_FORMAT_RGB);
    assert_int_equal(p.image.width, 2 * 28 + 10 * (112 + 14) - 14);
    free(p.value);
}

static void letters_where_there_is_no_terminal(void **state)
{
    (void)state;
    make_small();
    run("data show d --test");
    expect(0, "");
    assert_string_equal(last.out, "d: 2 of 2 test samples\n\n @  +:\n3   1 \n");
    run("data show d"); /* a letter is two rows: luma 52 and 83 of red over blue, green over dark */
    assert_string_equal(last.out, "d: 2 of 2 training samples\n\n:-    \n3   1 \n");
    run("data show digits --count 3 --first 4");
    expect_ok();
    expect_out("digits: 3 of 60,000 training samples, from number 4 on\n\n");
    const char *line = last.out;
    for (int lines = 0; *line != '\0'; lines++) {
        const size_t length = strcspn(line, "\n");
        if (lines >= 2) assert_int_equal(length, 14 + 2 + 14 + 2 + 14);
        line += length + 1;
    }
    run("data show digits --class 7 --count 5");
    expect_ok();
    expect_out("training samples, class 7\n");
    int sevens = 0;
    last.out[strlen(last.out) - 1] = '\0';
    for (const char *at = strrchr(last.out, '\n'); *at != '\0'; at++) sevens += *at == '7';
    assert_int_equal(sevens, 5);
    write_text("c.yaml", tiny);
    run("data show c.yaml --count 1000");
    expect_ok();
    expect_out("c.yaml: 500 of 500 training samples\n");
}

static void wrong_options_are_said(void **state)
{
    (void)state;
    make_small();
    run("data show d --first 2");
    expect(2, "--first is '2', expected an integer from 0 to 1");
    run("data show d --count 0");
    expect(2, "--count is '0', expected an integer from 1 to 10000");
    run("data show d --class 10");
    expect(2, "--class is '10', expected an integer from 0 to 3"); /* as far as its labels go */
    run("data show digits --class 10");
    expect(2, "--class is '10', expected an integer from 0 to 9");
    run("data show d --class 2");
    expect(2, "there is no sample of class 2 from number 0 on");
    run("data show d --class 3 --first 1");
    expect(2, "there is no sample of class 3 from number 1 on");
    run("data show digits --count 10000 --out a.png");
    expect(2, "pixels, expected at most 67 million; choose a smaller --count");
    assert_false(there("a.png"));
    run("data show nowhere");
    expect(2, "'nowhere' is neither a data set that is known (digits, mnist, fashion, cifar10, "
              "cifar100, dummy), nor a folder");
    run("data show mnist");
    expect(3, "data set 'mnist' is not at ");
    run("data show");
    expect(2, "data show needs to know of what");
    /* Samples of one dimension: 2 of 4. */
    shell("printf '\\0\\0\\010\\02\\0\\0\\0\\02\\0\\0\\0\\04aaaabbbb' >d/train-images-idx3-ubyte");
    run("data show d");
    expect(2, "samples of 4 are no images; expected rows, columns, and channels");
}

/* A page that cannot be written whole leaves what was there. */
static void a_page_is_whole_or_not_there(void **state)
{
    (void)state;
    make_small();
    run("data show d --out folder/a.png");
    expect(3, "cannot write 'folder/a.png': there is no such file or folder");
    run("data show d --out a.jpeg");
    expect(2, "--out: 'a.jpeg' would be another kind of picture");
    assert_false(there("a.jpeg"));
    run("data show d --out d");
    expect(3, "--out: 'd' is a folder, expected a file");
    write_text("a.png", "old");
    run_on_full_disk("data show d --out a.png");
    expect(3, "cannot write 'a.png': no space left on the device");
    assert_int_equal(shell("test \"$(cat a.png)\" = old && ! ls -A | grep lockstep-"), 0);
}

/* ---------------------------------------------------------------- letters */

enum { PAGE_WIDTH = 40 };

static void set_dot(void *user, int x, int y, int size)
{
    char(*page)[PAGE_WIDTH + 1] = user;
    assert_int_equal(size, 1);
    assert_true(x >= 0 && x < PAGE_WIDTH && y >= 0 && y < FONT_ROWS);
    page[y][x] = '#';
}

/* As rows, each cut behind its last dot. */
static void expect_drawn(const char *text, const char *const *expected)
{
    char page[FONT_ROWS][PAGE_WIDTH + 1];
    memset(page, ' ', sizeof page);
    font_draw(text, 1, 0, 0, set_dot, page);
    for (int y = 0; y < FONT_ROWS; y++) {
        int used = PAGE_WIDTH;
        while (used > 0 && page[y][used - 1] == ' ') used--;
        page[y][used] = '\0';
        assert_true(used <= font_width(text, 1));
        assert_string_equal(page[y], expected[y]);
    }
}

static void letters_of_latin_1_have_their_marks(void **state)
{
    (void)state;
    expect_drawn("\xc3\xa4\xc3\x96\xc3\x9f\xc3\xa9\xc3\xa7", /* a", O", sharp s, e', c, */
                 (const char *const[]){
                     " # #   # #   ###     #",
                     "            #   #   #",
                     " ###   ###  #   #  ###   ###",
                     "    # #   # # ##  #   # #   #",
                     " #### #   # #   # ##### #",
                     "#   # #   # #   # #     #   #",
                     " ####  ###  # ##   ###   ###",
                     "                          #",
                     "                         #",
                 });
}

static void others_are_one_question_mark_each(void **state)
{
    (void)state;
    assert_int_equal(font_width("\xe6\xbc\xa2", 1), font_width("?", 1));
    assert_int_equal(font_width("\xc4\x8d", 1), font_width("?", 1));
    assert_int_equal(font_width("\xc3", 1), font_width("?", 1)); /* cut off */
    assert_int_equal(font_width("\xc3\x84", 2), font_width("A", 2));
    assert_int_equal(font_width("", 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_page_has_images_and_labels),
        TEST(letters_where_there_is_no_terminal),
        TEST(wrong_options_are_said),
        TEST(a_page_is_whole_or_not_there),
        cmocka_unit_test(letters_of_latin_1_have_their_marks),
        cmocka_unit_test(others_are_one_question_mark_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
