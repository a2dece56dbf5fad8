/*
 * NumPy's .npy files, one array each: versions 1.0, 2.0 and 3.0, numbers and truth values of any size and byte
 * order, in C's and in Fortran's order. Objects, text, dates and records are refused.
 */
#ifndef LKI_DATA_NUMPY_NPY_H
#define LKI_DATA_NUMPY_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstep/status.h>

enum { LKI_NPY_DIMS = 8, LKI_NPY_TYPE = 16 };

typedef enum lki_npy_kind {
    LKI_NPY_BOOL,
    LKI_NPY_SIGNED,
    LKI_NPY_UNSIGNED,
    LKI_NPY_FLOAT
} lki_npy_kind;

/* Borrows the bytes it was read from. */
typedef struct lki_npy {
    lki_npy_kind kind;
    size_t size;  /* bytes of an element: 1, 2, 4, 8 */
    bool big;     /* the first byte is the highest */
    bool fortran; /* the first dimension is the fastest, else the last */
    int ndim;
    int64_t dim[LKI_NPY_DIMS];
    int64_t elements;
    const uint8_t *data;     /* elements * size bytes, at any address */
    char type[LKI_NPY_TYPE]; /* as NumPy calls it: "uint8", for messages */
} lki_npy;

/* By its first bytes. */
bool lki_npy_is(const uint8_t *data, size_t bytes);

/* Reads and checks the header, and that exactly the elements that it promises follow. `path` is for messages. */
lks_status lki_npy_read(lki_npy *out, const uint8_t *data, size_t bytes, const char *path);

/* The order of this machine's own bytes; and whether elements are floats just as it has them. */
enum { LKI_NPY_OWN_BIG = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ };
bool lki_npy_is_own_float(const lki_npy *npy);

/* How many elements lie between two that are next to each other in each dimension. */
void lki_npy_strides(const lki_npy *npy, int64_t stride[LKI_NPY_DIMS]);

/* The element at `from`, an integer or a truth value; what int64_t cannot hold is INT64_MAX. */
int64_t lki_npy_integer(const lki_npy *npy, const uint8_t *from);
/* The element at `from`, of any kind, rounded once, as the thread rounds. */
float lki_npy_float(const lki_npy *npy, const uint8_t *from);
double lki_npy_double(const lki_npy *npy, const uint8_t *from);

enum { LKI_NPY_HEAD = 512 };
/* What a file begins with whose elements are those of `npy`: kind, size, order and dimensions of it, as version 1, 2 or
 * 3 and as numpy.save() writes it; a multiple of 64 bytes, which it returns. */
size_t lki_npy_write_head(uint8_t out[LKI_NPY_HEAD], const lki_npy *npy, int version);

#endif
