/* NumPy's .npy files: headers, elements, layouts of samples, labels, and what is wrong with them. */
#include "data/folder.h"

#include <math.h>
#include <string.h>

#include <lockstep/tools.h>

#include "data/npy_files.h"
#include "data/numpy/npy.h"

static bytes b, labels;

static const char *in(const char *name)
{
    static char path[2][4200];
    static int turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void write_file(const char *name, const bytes *from)
{
    write_bytes(in(name), from);
}

/* ---------------------------------------------------------------- headers */

static void headers_in_every_form_are_read(void **state)
{
    (void)state;
    static const struct {
        int version;
        const char *header;
        bool fortran;
        int ndim;
    } cases[] = {
        {1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }  \n", false, 2},
        {2, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}", false, 2},
        {3, "{\"descr\": \"u1\", \"fortran_order\":True,\"shape\":(6,)}\n", true, 1},
        {1, " { 'shape' : ( 2L , 3L ) , 'descr' : '>u1' , 'fortran_order' : True } ", true, 2},
        {1, "{'shape': (1, 1, 1, 1, 1, 1, 1, 6), 'descr': '=i1', 'fortran_order': False}", false,
         8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lki_npy npy;
        put_header(&b, cases[i].version, cases[i].header);
        put(&b, "abcdef", 6);
        LKT_OK(lki_npy_read(&npy, b.data, b.count, "x"));
        assert_int_equal(npy.ndim, cases[i].ndim);
        assert_int_equal(npy.fortran, cases[i].fortran);
        assert_int_equal(npy.elements, 6);
        assert_int_equal(npy.data[0], 'a');
        LKT_FAILS(LKS_E_FORMAT, "has 5 bytes of elements, fewer than its header promises",
                  lki_npy_read(&npy, b.data, b.count - 1, "x"));
        put(&b, "g", 1);
        LKT_FAILS(LKS_E_FORMAT, "has 1 byte behind the elements",
                  lki_npy_read(&npy, b.data, b.count, "x"));
        for (size_t cut = 0; cut < b.count - 7; cut++)
            LKT_FAILS(LKS_E_FORMAT, cut < 6 ? "is no .npy file" : "ends within its header",
                      lki_npy_read(&npy, b.data, cut, "x"));
    }
}

#define HEAD(type, shape) "{'descr': " type ", 'fortran_order': False, 'shape': " shape "}"

static void wrong_headers_are_said(void **state)
{
    (void)state;
    static const struct {
        const char *header, *says;
    } cases[] = {
        {HEAD("'<f4'", "(2, 3) "), "has 0 bytes of elements, fewer"},
        {HEAD("'<f4'", "(99999999999, 99999999999)"), "has 0 bytes of elements, fewer"},
        {HEAD("'<f4'", "(99999999999999999999,)"), "no size that fits in memory at its character"},
        {HEAD("'<f4'", "(1,1,1,1,1,1,1,1,1)"), "has more than 8 dimensions"},
        {HEAD("'<f4'", "(-1,)"), "no size of a dimension at its character"},
        {HEAD("'<f4'", "(,)"), "no size of a dimension"},
        {HEAD("'<f4'", "(1 1)"), "no ',' or ')'"},
        {HEAD("'<f4'", "7"), "no shape"},
        {HEAD("'|O'", "(1,)"), "holds Python objects ('|O'), expected integers"},
        {HEAD("'<U9'", "(1,)"), "holds text ('<U9')"},
        {HEAD("'<M8'", "(1,)"), "holds dates"},
        {HEAD("'<c8'", "(1,)"), "holds complex numbers"},
        {HEAD("'<f16'", "(1,)"), "holds numbers of another size ('<f16')"},
        {HEAD("'|f1'", "(1,)"), "holds numbers of another size"},
        {HEAD("'|b2'", "(1,)"), "holds numbers of another size"},
        {HEAD("'<i3'", "(1,)"), "holds numbers of another size"},
        {HEAD("''", "(1,)"), "holds elements of an unknown type ('')"},
        {HEAD("'<'", "(1,)"), "holds elements of an unknown type ('<')"},
        {HEAD("'\\x41'", "(1,)"), "no type at"},
        {HEAD("'12345678901234567890'", "(1,)"), "no type at"},
        {HEAD("[('a', '<f4')]", "(1,)"), "holds records of several fields"},
        {HEAD("'u1', 'descr': 'u1'", "(0,)"), "no key that is known and new"},
        {HEAD("'u1', 'other': 'u1'", "(0,)"), "no key that is known and new"},
        {"{'descr': 'u1', 'fortran_order': 0, 'shape': (0,)}", "no True or False"},
        {"{'descr': 'u1', 'shape': (0,)}", "no descr, fortran_order and shape"},
        {"{'descr' 'u1'", "no ':' at its character 9"},
        {"{'descr': 'u1' 'shape': (0,)}", "no ','"},
        {"{'descr': 'u1", "no type"},
        {"{", "no key"},
        {"", "no dictionary at its character 0"},
        {HEAD("'u1'", "(0,)") " x", "no end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lki_npy npy;
        put_header(&b, 1, cases[i].header);
        LKT_FAILS(LKS_E_FORMAT, cases[i].says, lki_npy_read(&npy, b.data, b.count, "x"));
    }
    lki_npy npy;
    put_header(&b, 4, "");
    LKT_FAILS(LKS_E_FORMAT, "is of version 4 of the .npy format, expected 1, 2 or 3",
              lki_npy_read(&npy, b.data, b.count, "x"));
    put_header(&b, 1, HEAD("'u1'", "(0, 99999999999, 99999999999)"));
    LKT_OK(lki_npy_read(&npy, b.data, b.count, "x"));
    assert_int_equal(npy.elements, 0);
}

/* ---------------------------------------------------------------- elements */

static void put_value(bytes *to, uint64_t bits, int size, bool big)
{
    for (int i = 0; i < size; i++) put_number(to, bits >> 8 * (big ? size - 1 - i : i), 1);
}

static void integers_of_every_type_are_read(void **state)
{
    (void)state;
    for (int size = 1; size <= 8; size *= 2)
        for (int k = 0; k < 4; k++) {
            const bool big = k % 2 == 1, is_signed = k / 2 == 1;
            const uint64_t top = (uint64_t)1 << (8 * size - 1);
            const uint64_t given[] = {0, 1, 100, top - 1, top, UINT64_MAX};
            char type[8];
            lki_npy npy;
            snprintf(type, sizeof type, "%c%c%d", big ? '>' : '<', is_signed ? 'i' : 'u', size);
            put_npy(&b, type, false, "(6,)");
            for (int i = 0; i < 6; i++) put_value(&b, given[i], size, big);
            LKT_OK(lki_npy_read(&npy, b.data, b.count, "x"));
            for (int i = 0; i < 6; i++) {
                const uint64_t low = given[i] &
                                     (2 * top - 1); /* of 64 bits: all, as 2 * top is 0 */
                int64_t expected = low > INT64_MAX ? INT64_MAX : (int64_t)low;
                if (is_signed && i >= 4) expected = i == 5 ? -1 : -(int64_t)(top - 1) - 1;
                assert_true(lki_npy_integer(&npy, npy.data + i * size) == expected);
            }
        }
}

/* Every half but those that are no number, by its value; then the rounding of doubles. */
static void floats_of_every_size_are_read(void **state)
{
    (void)state;
    lki_npy npy = {.kind = LKI_NPY_FLOAT, .size = 2};
    for (unsigned half = 0; half < 65536; half++) {
        const uint8_t from[2] = {(uint8_t)half, (uint8_t)(half >> 8)};
        const int exponent = (int)(half >> 10 & 31), fraction = (int)(half & 1023);
        const double sign = half >> 15 ? -1 : 1;
        const double value = exponent == 0 ? ldexp(fraction, -24)
                                           : ldexp(1024 + fraction, exponent - 25);
        const float found = lki_npy_float(&npy, from);
        if (exponent == 31 && fraction > 0)
            assert_true(isnan(found));
        else if (exponent == 31)
            assert_true(isinf(found) && (found < 0) == (sign < 0));
        else
            assert_true((double)found == sign * value && !signbit(found) == (sign > 0));
    }
    static const double wide[] = {0.1, -3.5e38, 1e-300, 16777217.0, 16777219.0};
    npy = (lki_npy){.kind = LKI_NPY_FLOAT, .size = 8, .big = true};
    for (int i = 0; i < 5; i++) {
        uint64_t bits;
        memcpy(&bits, &wide[i], sizeof bits);
        b.count = 0;
        put_value(&b, bits, 8, true);
        const float found = lki_npy_float(&npy, b.data);
        assert_true(found == (float)wide[i]);
    }
}

/* ---------------------------------------------------------------- data sets */

enum { SAMPLES = 70, ROWS = 6, COLUMNS = 5, CHANNELS = 3, SIZE = ROWS * COLUMNS * CHANNELS };

static uint8_t value_of(int64_t sample, int64_t row, int64_t column, int64_t channel)
{
    return (uint8_t)(sample * 37 + row * 11 + column * 5 + channel * 101 + 3);
}

static uint64_t hash_of(lks_dataset *set)
{
    uint64_t hash;
    LKT_OK(lks_dataset_hash(set, &hash));
    lks_dataset_destroy(set);
    return hash;
}

/* The same samples from arrays, as bytes or as floats. */
static uint64_t expected_hash(bool floats)
{
    static uint8_t x[SAMPLES * SIZE];
    static float f[SAMPLES * SIZE];
    int32_t y[SAMPLES];
    lks_dataset *set;
    const lks_dataset_info info = {.samples = SAMPLES,
                                   .shape = {3, {ROWS, COLUMNS, CHANNELS}},
                                   .dtype = floats ? LKS_F32 : LKS_U8,
                                   .classes = 9};
    for (int i = 0; i < SAMPLES * SIZE; i++) {
        x[i] = value_of(i / SIZE, i / (COLUMNS * CHANNELS) % ROWS, i / CHANNELS % COLUMNS,
                        i % CHANNELS);
        f[i] = x[i];
    }
    for (int i = 0; i < SAMPLES; i++) y[i] = i % 9;
    LKT_OK(lks_dataset_from_arrays(&set, context, &info, floats ? (void *)f : x, y));
    return hash_of(set);
}

/* A value in the type that the array has. */
static void put_as(bytes *to, uint8_t value, char kind, int size, bool big)
{
    uint64_t bits = value;
    const float narrow = value;
    const double wide = value;
    uint32_t low;
    memcpy(&low, &narrow, sizeof low);
    if (kind == 'f' && size == 8) memcpy(&bits, &wide, sizeof bits);
    if (kind == 'f' && size == 4) bits = low;
    if (kind == 'f' &&
        size == 2) /* an integer below 2048: the float's highest bits, of another bias */
        bits = value == 0 ? 0 : ((low >> 23) - 112) << 10 | (low >> 13 & 1023);
    put_value(to, bits, size, big);
}

/* The samples in an array whose dimensions are in this order: "NHWC". */
static void put_images(bytes *to, char kind, int size, bool big, bool fortran, const char *order)
{
    static const int64_t sizes[] = {
        ['N'] = SAMPLES, ['H'] = ROWS, ['W'] = COLUMNS, ['C'] = CHANNELS};
    char type[8], shape[64] = "(";
    snprintf(type, sizeof type, "%c%c%d", big ? '>' : '<', kind, size);
    for (int d = 0; d < 4; d++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%d,",
                 (int)sizes[(int)order[d]]);
    strcat(shape, ")");
    put_npy(to, type, fortran, shape);
    for (int i = 0; i < SAMPLES * SIZE; i++) {
        int64_t at[128] = {0}, rest = i;
        for (int d = 0; d < 4; d++) {
            const int letter = order[fortran ? d : 3 - d];
            at[letter] = rest % sizes[letter];
            rest /= sizes[letter];
        }
        put_as(to, value_of(at['N'], at['H'], at['W'], at['C']), kind, size, big);
    }
}

static void put_labels(bytes *to, const char *type, const char *shape, int count)
{
    put_npy(to, type, false, shape);
    for (int i = 0; i < count; i++) put_value(to, (uint64_t)(i % 9), type[2] - '0', type[0] == '>');
}

/* Channels of an image of 6x5x3 in front: 3 rows would be as many as the rule can take for channels. */
static void every_form_of_an_array_is_one_data_set(void **state)
{
    (void)state;
    static const struct {
        char kind;
        int size;
    } types[] = {{'u', 1}, {'u', 2}, {'i', 2}, {'i', 4}, {'u', 8},
                 {'i', 8}, {'f', 2}, {'f', 4}, {'f', 8}};
    const uint64_t expected[2] = {expected_hash(false), expected_hash(true)};
    put_labels(&labels, ">i8", "(70, 1)", SAMPLES);
    write_file("y.npy", &labels);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int k = 0; k < 8; k++) {
            lks_dataset *set;
            const bool floats = types[t].kind == 'f';
            put_images(&b, types[t].kind, types[t].size, k & 1, k & 2, k & 4 ? "NCHW" : "NHWC");
            write_file("x.npy", &b);
            LKT_OK(lks_dataset_open_npy(&set, context, in("x.npy"), in("y.npy"), 0));
            const lks_dataset_info info = lks_dataset_get_info(set);
            assert_int_equal(info.classes, 9);
            assert_int_equal(info.dtype, floats ? LKS_F32 : LKS_U8);
            assert_true(hash_of(set) == expected[floats]);
        }
}

static void shapes_are_by_the_rule(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        lks_shape expected;
    } cases[] = {
        {"(2, 60)", {1, {60}}},
        {"(2, 6, 10)", {3, {6, 10, 1}}},
        {"(2, 6, 10, 1)", {3, {6, 10, 1}}},
        {"(2, 1, 6, 10)", {3, {6, 10, 1}}},
        {"(2, 3, 4, 5)", {3, {4, 5, 3}}},
        {"(2, 3, 5, 4)", {3, {3, 5, 4}}},
        {"(2, 4, 5, 3)", {3, {4, 5, 3}}},
        {"(2, 2, 2, 15)", {3, {2, 2, 15}}},
        {"(2, 5, 2, 6)", {3, {5, 2, 6}}},
        {"(2, 1, 12, 5)", {3, {12, 5, 1}}},
        {"(2, 2, 3, 2, 5)", {4, {2, 3, 2, 5}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lks_dataset *set;
        char text[64];
        put_npy(&b, "|u1", false, cases[i].shape);
        for (int k = 0; k < 120; k++) put_number(&b, (uint64_t)k, 1);
        write_file("x.npy", &b);
        LKT_OK(lks_dataset_open_npy(&set, context, in("x.npy"), NULL, 0));
        const lks_shape found = lks_dataset_get_info(set).shape;
        if (!lks_shape_equal(&found, &cases[i].expected))
            fail_msg("%s is %s", cases[i].shape, lks_shape_text(text, sizeof text, &found));
        lks_dataset_destroy(set);
    }
}

/* Truth values are 0 and 1, whatever byte stands for true. */
static void truth_values_are_zero_and_one(void **state)
{
    (void)state;
    lks_dataset *set;
    uint8_t x[4];
    int32_t y;
    put_npy(&b, "|b1", false, "(2, 4)");
    put(&b, "\0\1\2\377\1\0\0\0", 8);
    write_file("x.npy", &b);
    put_npy(&labels, "|b1", false, "(2,)");
    put(&labels, "\1\0", 2);
    write_file("y.npy", &labels);
    LKT_OK(lks_dataset_open_npy(&set, context, in("x.npy"), in("y.npy"), 0));
    LKT_OK(lks_dataset_read(set, 0, x, &y));
    assert_memory_equal(x, "\0\1\1\1", 4);
    assert_int_equal(y, 1);
    lks_dataset_destroy(set);
}

static void fails(lks_status status, const char *part, int64_t classes)
{
    lks_dataset *set = (lks_dataset *)(void *)context; /* must become NULL */
    write_file("x.npy", &b);
    write_file("y.npy", &labels);
    LKT_FAILS(status, part, lks_dataset_open_npy(&set, context, in("x.npy"), in("y.npy"), classes));
    assert_null(set);
}

static void wrong_data_sets_are_said(void **state)
{
    (void)state;
    put_images(&b, 'u', 1, false, false, "NHWC");
    put_labels(&labels, "<i4", "(69,)", 69);
    fails(LKS_E_FORMAT, "has 70 samples but '", 0);
    fails(LKS_E_FORMAT, "y.npy' has 69 labels, expected as many; are they of the same data set?",
          0);
    put_labels(&labels, "<i4", "(70,)", SAMPLES);
    fails(LKS_E_FORMAT, "label number 8 is 8, expected 0 to 7; the file is damaged", 8);
    fails(LKS_E_INVALID, "-1 classes were asked for, expected 1 to 65536", -1);
    labels.data[labels.count - 1] = 0x80;
    fails(LKS_E_FORMAT, "label number 69 is -21474836", 0);
    put_labels(&labels, "<i4", "(70,)", SAMPLES);
    labels.data[labels.count - 2] = 1;
    fails(LKS_E_FORMAT, "label number 69 is 65542, expected 0 to 65535, the most there can be", 0);
    put_npy(&labels, "<f4", false, "(0,)");
    fails(LKS_E_FORMAT, "is of float32, expected labels that are integers; convert", 0);
    put_labels(&labels, "|u1", "(70, 9)", SAMPLES * 9);
    fails(LKS_E_FORMAT, "has 2 dimensions, expected 1, with one label a sample; of one column a",
          0);
    put_labels(&labels, "<i4", "()", 1);
    fails(LKS_E_FORMAT, "has 0 dimensions, expected 1", 0);
    put_labels(&labels, "<i4", "(70,)", SAMPLES);
    put_npy(&b, "<i2", false, "(70, 2)");
    for (int i = 0; i < 140; i++) put_number(&b, i == 99 ? 256 : 255, 2);
    fails(LKS_E_FORMAT, "is of int16 and has the value 256, expected integers from 0 to 255", 0);
    put_npy(&b, "|i1", false, "(70, 1)");
    for (int i = 0; i < 70; i++) put_number(&b, 255, 1);
    fails(LKS_E_FORMAT, "is of int8 and has the value -1, expected", 0);
    put_npy(&b, "|u1", false, "(70,)");
    for (int i = 0; i < 70; i++) put_number(&b, 0, 1);
    fails(LKS_E_FORMAT, "has 1 dimension, expected 2 to 6, each at least 1", 0);
    put_npy(&b, "|u1", false, "(70, 0)");
    fails(LKS_E_FORMAT, "has 2 dimensions, one of them 0, expected", 0);
    put_npy(&b, "|u1", false, "(70,1,1,1,1,1,1)");
    for (int i = 0; i < 70; i++) put_number(&b, 0, 1);
    fails(LKS_E_FORMAT, "has 7 dimensions, expected 2 to 6", 0);
    lks_dataset *set;
    LKT_FAILS(LKS_E_IO, "there is no such file",
              lks_dataset_open_npy(&set, context, in("none.npy"), NULL, 0));
    LKT_FAILS(LKS_E_INVALID, "got NULL as images",
              lks_dataset_open_npy(&set, context, NULL, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(headers_in_every_form_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_headers_are_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(integers_of_every_type_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(floats_of_every_size_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_form_of_an_array_is_one_data_set, set_up, tear_down),
        cmocka_unit_test_setup_teardown(shapes_are_by_the_rule, set_up, tear_down),
        cmocka_unit_test_setup_teardown(truth_values_are_zero_and_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wrong_data_sets_are_said, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
