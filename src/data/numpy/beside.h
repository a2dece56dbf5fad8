/* Arrays that lie beside one of samples: labels, and the lengths of samples that are frames. */
#ifndef LKI_DATA_NUMPY_BESIDE_H
#define LKI_DATA_NUMPY_BESIDE_H

#include "data/numpy/arrays.h"

enum { LKI_NUMPY_CLASSES = 65536 }; /* the most there can be */

typedef struct lki_beside {
    const char *samples; /* what their array is called, for messages */
    int64_t count;       /* of samples */
    int64_t positions;   /* of a sample that is frames, of which each may have a label of its own */
    const lki_array *labels;  /* NULL: there are none */
    const lki_array *lengths; /* NULL: samples are no frames */
} lki_beside;

/* How many positions of a sample are no padding. */
int64_t lki_beside_length(const lki_beside *beside, int64_t index);
/* Labels of a sample: one, or of frames one for each position, where the array has so many. */
int64_t lki_beside_labels_each(const lki_beside *beside);
/* Types, dimensions and counts of both, and that every length lies in a sample. */
lks_status lki_beside_check(const lki_beside *beside);
/* The labels, which have been checked as above, into `out` [count][labels each], where it is not NULL: LKS_NO_CLASS at padding.
 * *classes 0: becomes one more than the largest; else all have to be below it. */
lks_status lki_beside_read(const lki_beside *beside, int32_t *out, int64_t *classes);

#endif
