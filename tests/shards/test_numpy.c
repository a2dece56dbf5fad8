/* .npy files of every type, byte order, order of dimensions and version: what is written is read back, numpy reads it, and
 * what numpy writes is read. */
#include "data/folder.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/npy_files.h"
#include "data/numpy/npy.h"

enum { ELEMENTS = 2 * 3 * 4, FILES = 12 * 2 * 2 * 3 };

static const char *const types[] = {"b1", "i1", "i2", "i4", "i8", "u1",
                                    "u2", "u4", "u8", "f2", "f4", "f8"};
static const lki_npy_kind kind_of[] = {LKI_NPY_BOOL,     LKI_NPY_SIGNED,   LKI_NPY_SIGNED,
                                       LKI_NPY_SIGNED,   LKI_NPY_SIGNED,   LKI_NPY_UNSIGNED,
                                       LKI_NPY_UNSIGNED, LKI_NPY_UNSIGNED, LKI_NPY_UNSIGNED,
                                       LKI_NPY_FLOAT,    LKI_NPY_FLOAT,    LKI_NPY_FLOAT};

/* File `number` of all. */
typedef struct form {
    int type, version;
    bool fortran, big;
    char name[64];
} form;

static form form_of(int number)
{
    form f = {.type = number / 12,
              .fortran = number % 2,
              .big = number / 2 % 2,
              .version = number / 4 % 3 + 1};
    snprintf(f.name, sizeof f.name, "%s_%s_%s_%d.npy", types[f.type], f.fortran ? "F" : "C",
             f.big ? "big" : "little", f.version);
    return f;
}

/* Element `index` in C's order: -11.5 to 11.5 of floats, and what integers and truth values hold of it. */
static double value_of(const form *f, int index)
{
    const int number = index - ELEMENTS / 2;
    if (kind_of[f->type] == LKI_NPY_BOOL) return index % 3 == 0;
    if (kind_of[f->type] == LKI_NPY_UNSIGNED) return 10 * index;
    return kind_of[f->type] == LKI_NPY_FLOAT ? number + 0.5 : number * 10;
}

/* The half of a number of at most 11 bits. */
static uint64_t half_bits(double number)
{
    const float single = (float)number;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, exponent = (bits >> 23 & 255) - 112;
    return number == 0 ? 0 : sign | exponent << 10 | (bits >> 13 & 1023);
}

static uint64_t bits_of(const form *f, size_t size, double value)
{
    const float single = (float)value;
    uint64_t bits = (uint64_t)(int64_t)value;
    uint32_t low;
    if (kind_of[f->type] != LKI_NPY_FLOAT) return bits;
    if (size == 2) return half_bits(value);
    memcpy(&low, &single, sizeof low);
    memcpy(&bits, &value, sizeof bits);
    return size == 4 ? low : bits;
}

static lki_npy npy_of(const form *f)
{
    return (lki_npy){.kind = kind_of[f->type],
                     .size = (size_t)(types[f->type][1] - '0'),
                     .big = f->big,
                     .fortran = f->fortran,
                     .ndim = 3,
                     .dim = {2, 3, 4}};
}

/* Where element `index` in C's order lies. */
static int64_t place_of(const lki_npy *npy, int index)
{
    int64_t stride[LKI_NPY_DIMS];
    lki_npy_strides(npy, stride);
    return index / 12 * stride[0] + index / 4 % 3 * stride[1] + index % 4 * stride[2];
}

static void make_file(bytes *to, const form *f)
{
    uint8_t head[LKI_NPY_HEAD];
    const lki_npy npy = npy_of(f);
    to->count = 0;
    put(to, head, lki_npy_write_head(head, &npy, f->version));
    assert_int_equal(to->count % 64, 0);
    const size_t begin = to->count;
    to->count += ELEMENTS * npy.size;
    for (int i = 0; i < ELEMENTS; i++) {
        const uint64_t bits = bits_of(f, npy.size, value_of(f, i));
        uint8_t *at = to->data + begin + (size_t)place_of(&npy, i) * npy.size;
        for (size_t k = 0; k < npy.size; k++)
            at[f->big ? npy.size - 1 - k : k] = (uint8_t)(bits >> 8 * k);
    }
}

static void assert_read(const uint8_t *data, size_t count, const form *f)
{
    lki_npy npy;
    LKT_OK(lki_npy_read(&npy, data, count, f->name));
    assert_int_equal(npy.kind, kind_of[f->type]);
    assert_int_equal(npy.fortran, f->fortran);
    assert_int_equal(npy.ndim, 3);
    assert_int_equal(npy.elements, ELEMENTS);
    for (int i = 0; i < ELEMENTS; i++) {
        const uint8_t *at = npy.data + (size_t)place_of(&npy, i) * npy.size;
        const double found = npy.kind == LKI_NPY_FLOAT ? (double)lki_npy_float(&npy, at)
                                                       : (double)lki_npy_integer(&npy, at);
        if (found != value_of(f, i))
            fail_msg("%s: element %d is %g, expected %g", f->name, i, found, value_of(f, i));
    }
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    static bytes file;
    for (int i = 0; i < FILES; i++) {
        const form f = form_of(i);
        make_file(&file, &f);
        assert_int_equal(file.data[6], f.version);
        assert_read(file.data, file.count, &f);
    }
}

static void heads_of_any_shape_are_read_back(void **state)
{
    (void)state;
    lki_npy npy = {.kind = LKI_NPY_FLOAT, .size = 4}, found;
    uint8_t head[LKI_NPY_HEAD + 4] = {0};
    for (npy.ndim = 0; npy.ndim <= LKI_NPY_DIMS; npy.ndim++) {
        const size_t count = lki_npy_write_head(head, &npy, 1);
        assert_int_equal(count % 64, 0);
        LKT_OK(lki_npy_read(&found, head, count + (npy.ndim == 0 ? 4 : 0), "x"));
        assert_int_equal(found.ndim, npy.ndim);
        assert_memory_equal(found.dim, npy.dim, sizeof npy.dim);
    }
    npy = (lki_npy){
        .kind = LKI_NPY_FLOAT, .size = 4, .ndim = LKI_NPY_DIMS}; /* the longest head, of nothing */
    for (int i = 1; i < LKI_NPY_DIMS; i++) npy.dim[i] = INT64_MAX;
    const size_t count = lki_npy_write_head(head, &npy, 3);
    assert_true(count <= LKI_NPY_HEAD);
    LKT_OK(lki_npy_read(&found, head, count, "x"));
    assert_int_equal(found.dim[7], INT64_MAX);
}

/* Every file in the folder is compared with what its name says, then written anew beside it as "numpy_...". */
static const char script[] =
    "import os, sys\n"
    "try:\n    import numpy as np\nexcept ImportError:\n    sys.exit(77)\n"
    "i = np.arange(24)\n"
    "values = {'b': i % 3 == 0, 'i': (i - 12) * 10, 'u': 10 * i, 'f': i - 11.5}\n"
    "for name in os.listdir(sys.argv[1]):\n"
    "    kind, order, end, version = name[:-4].split('_')\n"
    "    a = np.load(sys.argv[1] + '/' + name)\n"
    "    mark = '|' if kind[1] == '1' else '>' if end == 'big' else '<'\n"
    "    expected = values[kind[0]].reshape(2, 3, 4).astype(mark + kind)\n"
    "    assert a.dtype == expected.dtype and (a == expected).all(), name\n"
    "    assert a.flags.f_contiguous == (order == 'F'), name\n"
    "    with open(sys.argv[1] + '/numpy_' + name, 'wb') as f:\n"
    "        np.lib.format.write_array(f, np.array(expected, order=order), version=(int(version), "
    "0))\n";

static void numpy_reads_ours_and_we_numpys(void **state)
{
    (void)state;
    static bytes file;
    char path[4300], command[8192];
    for (int i = 0; i < FILES; i++) {
        const form f = form_of(i);
        make_file(&file, &f);
        snprintf(path, sizeof path, "%s/%s", folder, f.name);
        write_bytes(path, &file);
    }
    snprintf(command, sizeof command, "python3 -c \"%s\" '%s'", script, folder);
    const int code = system(command);
    if (code == 77 << 8 || code == 127 << 8) {
        print_message("no numpy for python3: skipped\n");
        skip();
    }
    assert_int_equal(code, 0);
    for (int i = 0; i < FILES; i++) {
        const form f = form_of(i);
        lki_file read;
        snprintf(path, sizeof path, "%s/numpy_%s", folder, f.name);
        LKT_OK(lki_file_open(&read, context, path));
        assert_read(read.data, read.bytes, &f);
        lki_file_close(&read);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(heads_of_any_shape_are_read_back),
        cmocka_unit_test_setup_teardown(numpy_reads_ours_and_we_numpys, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
