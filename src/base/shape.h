/* Shapes as text, and compared. */
#ifndef LKI_BASE_SHAPE_H
#define LKI_BASE_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

#include <lockstep/tensor.h>

/* "28x28x1"; returns buffer. */
const char *lki_shape_print(const lks_shape *shape, char *buffer, size_t size);
bool lki_shape_equal(const lks_shape *a, const lks_shape *b);

#endif
