/* Memory through the context's allocator, and arenas. */
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/context.h"
#include "base/memory.h"

/* A context of which only the allocator is used. */
typedef struct place {
    lkt_heap heap;
    lks_context context;
} place;

static void place_make(place *here, bool own)
{
    memset(here, 0, sizeof *here);
    assert_int_equal(pthread_mutex_init(&here->context.lock, NULL), 0);
    here->context.opts.allocator = own ? lkt_heap_allocator(&here->heap) : lki_system_allocator;
}

static void place_check(place *here)
{
    assert_int_equal(here->heap.live, 0);
    assert_int_equal(here->heap.live_bytes, 0);
    assert_int_equal(here->heap.errors, 0);
    pthread_mutex_destroy(&here->context.lock);
}

static bool all_zero(const void *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (((const uint8_t *)memory)[i]) return false;
    }
    return true;
}

static void allocates_zeroed(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 100000, 2 << 20, (4 << 20) + 100};
    for (int kind = 0; kind < 3; kind++) { /* no context, the system's, one's own */
        place here;
        place_make(&here, kind == 2);
        lks_context *context = kind == 0 ? NULL : &here.context;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            void *memory = NULL;
            LKT_OK(lki_alloc(context, &memory, sizes[i], "a test"));
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % LKI_ALIGN, 0);
            if (kind < 2 && sizes[i] >= 2 << 20) /* huge pages may hold it */
                assert_int_equal((uintptr_t)memory % (2 << 20), 0);
            assert_true(all_zero(memory, sizes[i]));
            memset(memory, 0xff, sizes[i]);
            lki_free(context, memory, sizes[i]);
        }
        lki_free(context, NULL, 0);
        lki_free(context, NULL, 5);
        assert_int_equal(here.heap.allocations, kind == 2 ? 9 : 0);
        place_check(&here);
    }
    assert_int_equal(lki_align(0), 0);
    assert_int_equal(lki_align(1), 64);
    assert_int_equal(lki_align(64), 64);
    assert_int_equal(lki_align(65), 128);
}

static void no_memory(void **state)
{
    (void)state;
    place here;
    place_make(&here, true);
    here.heap.fail_at = 1;
    void *memory = &here;
    LKT_FAILS(LKS_E_NOMEM, "no memory for the gradients: 12 bytes",
              lki_alloc(&here.context, &memory, 12, "the gradients"));
    assert_null(memory);
    memory = &here;
    LKT_FAILS(LKS_E_NOMEM, "the moon", lki_alloc(&here.context, &memory, SIZE_MAX, "the moon"));
    assert_null(memory);
    LKT_FAILS(LKS_E_NOMEM, "the moon", lki_alloc(NULL, &memory, SIZE_MAX / 2 + 2, "the moon"));
    place_check(&here);
}

typedef struct pattern {
    uint8_t *at;
    size_t bytes;
    uint8_t value;
} pattern;

/* Objects of random sizes keep what was written into them, and do not overlap. */
static void arena_objects(void **state)
{
    (void)state;
    enum { OBJECTS = 2000 };
    static pattern objects[OBJECTS];
    lkt_random random = lkt_random_make("arena_objects", 11);
    place here;
    place_make(&here, true);
    lki_arena arena = {.context = &here.context};
    for (int i = 0; i < OBJECTS; i++) {
        const int64_t most = lkt_random_below(&random, 50) == 0 ? 60000 : 200;
        const size_t bytes = (size_t)lkt_random_below(&random, most + 1);
        void *memory;
        LKT_OK(lki_arena_alloc(&arena, &memory, bytes, "an object"));
        assert_int_equal((uintptr_t)memory % (bytes >= LKI_ALIGN ? LKI_ALIGN : 16), 0);
        assert_true(all_zero(memory, bytes));
        objects[i] = (pattern){.at = memory, .bytes = bytes, .value = (uint8_t)(i % 255 + 1)};
        memset(memory, objects[i].value, bytes);
    }
    for (int i = 0; i < OBJECTS; i++) {
        for (size_t k = 0; k < objects[i].bytes; k++) {
            assert_int_equal(objects[i].at[k], objects[i].value);
        }
    }
    assert_true(here.heap.allocations < OBJECTS / 4); /* chunks, not one call per object */
    lki_arena_release(&arena);
    assert_null(arena.head);
    lki_arena_release(&arena); /* twice is fine */
    place_check(&here);
}

static void arena_strings(void **state)
{
    (void)state;
    lki_arena arena = {.context = NULL};
    char text[] = "conv1.weight";
    const char *copy, *empty;
    LKT_OK(lki_arena_string(&arena, &copy, text));
    LKT_OK(lki_arena_string(&arena, &empty, ""));
    text[0] = 'x';
    assert_string_equal(copy, "conv1.weight");
    assert_string_equal(empty, "");
    lki_arena_release(&arena);
}

static void arena_no_memory(void **state)
{
    (void)state;
    place here;
    place_make(&here, true);
    for (int64_t n = 1; n <= 3; n++) {
        here.heap = (lkt_heap){.fail_at = n};
        lki_arena arena = {.context = &here.context};
        lks_status status = LKS_OK;
        void *memory = NULL;
        for (int i = 0; i < 3 && status == LKS_OK; i++) {
            status = lki_arena_alloc(&arena, &memory, 20000, "a table");
        }
        LKT_FAILS(LKS_E_NOMEM, "a table", status);
        assert_null(memory);
        lki_arena_release(&arena);
        assert_int_equal(here.heap.live, 0);
    }
    lki_arena arena = {.context = &here.context};
    void *memory = &here;
    LKT_FAILS(LKS_E_NOMEM, "a table", lki_arena_alloc(&arena, &memory, SIZE_MAX, "a table"));
    assert_null(memory);
    LKT_FAILS(LKS_E_NOMEM, "a table", lki_arena_alloc(&arena, &memory, SIZE_MAX - 40, "a table"));
    const char *string = "x";
    here.heap = (lkt_heap){.fail_at = 1};
    LKT_FAILS(LKS_E_NOMEM, "a name", lki_arena_string(&arena, &string, "y"));
    assert_null(string);
    place_check(&here);
}

/* Several threads at once: the allocator, which is not thread-safe, sees one call at a time. */
static void *churn(void *argument)
{
    place *here = argument;
    for (int i = 0; i < 2000; i++) {
        void *memory;
        if (lki_alloc(&here->context, &memory, (size_t)i, "a block") != LKS_OK) return argument;
        lki_free(&here->context, memory, (size_t)i);
    }
    return NULL;
}

static void one_call_at_a_time(void **state)
{
    (void)state;
    place here;
    place_make(&here, true);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &here), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(here.heap.allocations, 8000);
    assert_int_equal(here.heap.releases, 8000);
    place_check(&here);
}

static atomic_bool forked;

static void *slow_alloc(void *user, size_t bytes, size_t align)
{
    (void)user;
    usleep(500);
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void slow_release(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
}

static void *allocate_all_the_time(void *argument)
{
    while (!atomic_load(&forked)) {
        void *memory;
        if (lki_alloc(argument, &memory, 1, "a block") != LKS_OK) return argument;
        lki_free(argument, memory, 1);
    }
    return NULL;
}

/* A child gives back what it has, whatever a thread that it does not have was at. */
static void a_child_may_release(void **state)
{
    (void)state;
    const lks_context_opts opts = {.allocator = {.alloc = slow_alloc, .release = slow_release}};
    lks_context *context;
    pthread_t thread;
    void *memory, *failed;
    int ended = 0;
    if (lkt_sanitized()) skip(); /* some know no fork of several threads */
    LKT_OK(lks_context_create(&context, &opts));
    LKT_OK(lki_alloc(context, &memory, 1, "a block"));
    assert_int_equal(pthread_create(&thread, NULL, allocate_all_the_time, context), 0);
    for (int i = 0; i < 10; i++) {
        int status;
        usleep(2000);
        const pid_t child = fork();
        if (child == 0) {
            alarm(5);
            lki_free(context, memory, 1);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        ended += status == 0;
        if (status != 0) break;
    }
    atomic_store(&forked, true);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(ended, 10);
    lki_free(context, memory, 1);
    lks_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocates_zeroed),    cmocka_unit_test(no_memory),
        cmocka_unit_test(arena_objects),       cmocka_unit_test(arena_strings),
        cmocka_unit_test(arena_no_memory),     cmocka_unit_test(one_call_at_a_time),
        cmocka_unit_test(a_child_may_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
