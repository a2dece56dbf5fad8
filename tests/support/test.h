/* What every test includes: cmocka with what it needs, and generic helpers. */
#ifndef LKT_TEST_H
#define LKT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <lockstep/context.h>

/* Asserts success, else fails with the record's sentence. */
#define LKT_OK(expression)                                                                         \
    do {                                                                                           \
        const lks_status lkt_status_ = (expression);                                               \
        if (lkt_status_ != LKS_OK) {                                                               \
            fail_msg("%s: %s: %s", #expression, lks_status_name(lkt_status_),                      \
                     lks_last_error()->message);                                                   \
        }                                                                                          \
    } while (0)

/* Asserts failure with this status and a sentence that contains `part`. */
#define LKT_FAILS(status, part, expression)                                                        \
    lkt_fails(__FILE__, __LINE__, (status), (part), (expression))
void lkt_fails(const char *file, int line, lks_status expected, const char *part, lks_status found);

/* The folder of real data sets: LKS_TEST_DATA, else ../shared/datasets beside the sources; NULL
 * where there is none (the test then says so and calls skip()). */
const char *lkt_data_folder(void);

/* A new empty folder for the test's files, below TMPDIR; removed with what is in it by
 * lkt_remove_folder. The caller frees neither: one folder at a time. */
const char *lkt_make_folder(void);
void lkt_remove_folder(void);

/* A device in the test's folder that is /dev/null (minor 3) or /dev/full (7). Whoever may not make one
 * gets a link; root, who could destroy the machine's own by a fault that is looked for, does not:
 * false, and there is none. */
bool lkt_make_device(const char *path, int minor);

/*
 * Random numbers of property tests (SplitMix64: Steele, Lea, Flood 2014). The seed is LKT_SEED from
 * the environment, else `seed`; it is printed, so that a failure can be run again.
 */
typedef struct lkt_random {
    uint64_t state;
} lkt_random;
lkt_random lkt_random_make(const char *test, uint64_t seed);
uint64_t lkt_random_bits(lkt_random *random);
int64_t lkt_random_below(lkt_random *random, int64_t count); /* in [0, count) */
int64_t lkt_random_from(lkt_random *random, int64_t least, int64_t most);
double lkt_random_real(lkt_random *random, double least, double most);
bool lkt_random_chance(lkt_random *random, int one_in);
int64_t lkt_random_pick(lkt_random *random, int count, const int64_t choices[]);
#define LKT_PICK(random, ...)                                                                      \
    lkt_random_pick((random), (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),           \
                    (int64_t[]){__VA_ARGS__})

/*
 * An allocator that counts and can fail. Zero it; lkt_heap_allocator() makes the lks_allocator to
 * put into lks_context_opts. Allocation number `fail_at` (from 1; 0: none) and, with
 * `fail_from_there`, all after it return NULL. Every block is checked when it is released: known,
 * the same size, nothing written past its end.
 */
typedef struct lkt_heap {
    int64_t allocations, releases; /* calls so far, failed ones included */
    int64_t live;                  /* blocks not yet released */
    size_t live_bytes, most_bytes;
    int64_t fail_at;
    bool fail_from_there;
    int64_t errors; /* bad releases; each is printed */
} lkt_heap;
lks_allocator lkt_heap_allocator(lkt_heap *heap);

/*
 * What must not happen to the test program itself: runs body(user) in a child process and gives its
 * result, or 1000 + the signal that ended it. The child may not use cmocka's asserts; LKT_CHECK
 * returns 1 from the body after printing what did not hold.
 */
int lkt_in_child(int (*body)(void *user), void *user);
#define LKT_CHECK(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_error("%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition,    \
                        lks_last_error()->message);                                                \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/*
 * For children: from now on the kernel refuses this system call (SYS_write, SYS_fsync, ...) with
 * `error`, for files other than the standard three; SYS_openat only where it may create a file.
 * Holds over exec. False where the kernel has no seccomp for us: the test is then skipped.
 */
bool lkt_refuse(long call, int error);

/* For children: any system call of this thread but futex and the end of the program ends the
 * program by SIGSYS. */
bool lkt_allow_futex_only(void);

/* Whether an emulator runs this: who uses one puts LKT_EMULATED into the environment. */
bool lkt_emulated(void);

/* Whether an address or thread sanitizer is built in: gcc and clang say it by different names. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LKT_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LKT_SANITIZER 1
#endif
#endif
#ifndef LKT_SANITIZER
#define LKT_SANITIZER 0
#endif

/* Whether a sanitizer or an emulator runs this, which make system calls and map memory of their own. */
bool lkt_sanitized(void);

/* Whether the longest tests try a part of their cases: there, and where LKT_PART is in the environment, as ./test.sh puts it. */
bool lkt_in_part(void);

#endif
