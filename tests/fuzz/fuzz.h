/*
 * Fuzz targets: each fuzz_<what>.c has one function that takes any bytes, hands them to a parser
 * and checks what comes back. With LKS_FUZZ (clang) libFuzzer drives it; else replay.c, over the
 * corpus.
 */
#ifndef LKT_FUZZ_H
#define LKT_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lockstep/status.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Ends the program when something does not hold. */
#define FUZZ_CHECK(condition) fuzz_check((condition), __FILE__, __LINE__, #condition)
void fuzz_check(bool good, const char *file, int line, const char *what);

/* The status of a failed call comes with its record, which has a sentence. */
void fuzz_check_failure(lks_status status);

/* The path of a file in memory that has these bytes; the next call with this slot changes it. */
enum { FUZZ_FILES = 4 };
const char *fuzz_file(int slot, const void *data, size_t bytes);

#endif
