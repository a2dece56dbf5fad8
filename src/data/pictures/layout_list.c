/* The list of pictures that were found, their classes, splits and order. */
#include "data/pictures/layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "numeric/permutation.h"

enum { FIRST_ROOM = 1024 };

lks_status lki_pictures_add(lki_pictures *out, const char *path, const char *class,
                            size_t class_bytes, bool test)
{
    void *memory;
    if (out->count ==
        out->room) { /* old lists stay in the arena, together no longer than the last */
        const int64_t room = out->room == 0 ? FIRST_ROOM : 2 * out->room;
        LKI_TRY(lki_arena_alloc(&out->arena, &memory, (size_t)room * sizeof(lki_picture),
                                "the list of pictures"));
        if (out->count > 0) memcpy(memory, out->picture, (size_t)out->count * sizeof(lki_picture));
        out->picture = memory;
        out->room = room;
    }
    lki_picture *picture = &out->picture[out->count];
    *picture = (lki_picture){.test = test};
    LKI_TRY(lki_arena_string(&out->arena, &picture->path, path));
    LKI_TRY(lki_arena_alloc(&out->arena, &memory, class_bytes + 1, "the name of a class"));
    memcpy(memory, class, class_bytes);
    picture->class = memory;
    out->count++;
    out->split[test]++;
    return LKS_OK;
}

/* "12" and "012" are numbers, and 12; other names are not. */
static bool read_number(const char *name, uint64_t *out)
{
    const size_t length = strlen(name);
    *out = 0;
    if (length == 0 || length > 18 || strspn(name, "0123456789") != length) return false;
    for (; *name; name++) *out = 10 * *out + (uint64_t)(*name - '0');
    return true;
}

/* Numbers before words, by their values. */
static int compare_names(const char *a, const char *b)
{
    uint64_t x, y;
    const bool is_x = read_number(a, &x), is_y = read_number(b, &y);
    if (is_x != is_y) return is_x ? -1 : 1;
    if (is_x && x != y) return x < y ? -1 : 1;
    return strcmp(a, b);
}

static int by_class(const void *a, const void *b)
{
    return compare_names(((const lki_picture *)a)->class, ((const lki_picture *)b)->class);
}

static int by_split_class_path(const void *a, const void *b)
{
    const lki_picture *x = a, *y = b;
    if (x->test != y->test) return x->test ? 1 : -1;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    return strcmp(x->path, y->path);
}

static int find_name(const void *a, const void *b)
{
    return compare_names(a, *(const char *const *)b);
}

/* Classes are those of training pictures; others are told, as their names are likely to be mistakes. */
static lks_status number_classes(lki_pictures *out)
{
    void *memory;
    const size_t count = (size_t)out->split[0];
    LKI_TRY(
        lki_arena_alloc(&out->arena, &memory, count * sizeof(lki_picture), "pictures by class"));
    lki_picture *sorted = memory;
    size_t used = 0;
    for (int64_t i = 0; i < out->count; i++)
        if (!out->picture[i].test) sorted[used++] = out->picture[i];
    qsort(sorted, count, sizeof *sorted, by_class);
    for (size_t i = 0; i < count; i++)
        out->classes += i == 0 || strcmp(sorted[i - 1].class, sorted[i].class) != 0;
    LKI_TRY(lki_arena_alloc(&out->arena, &memory, (size_t)out->classes * sizeof *out->name,
                            "the names of classes"));
    out->name = memory;
    for (size_t i = 0, class = 0; i < count; i++)
        if (i == 0 || strcmp(sorted[i - 1].class, sorted[i].class) != 0)
            out->name[class ++] = sorted[i].class;
    for (int64_t i = 0; i < out->count; i++) {
        lki_picture *p = &out->picture[i];
        const char **found = bsearch(p->class, out->name, (size_t)out->classes, sizeof *out->name,
                                     find_name);
        if (found == NULL)
            return LKI_FAIL(LKS_E_FORMAT,
                            "'%.300s' is of the class '%.60s', of which there is no picture for "
                            "training; expected one of %" PRId64 ", such as '%.60s'",
                            p->path, p->class, out->classes, out->name[0]);
        p->label = (int32_t)(found - out->name);
    }
    return LKS_OK;
}

/* Who asks for test pictures and gets none is to hear of it before all is packed. */
static lks_status fail_none_held(const char *what, double share, int64_t most)
{
    const double least = ceil(0.5 / share); /* of which half a picture is rounded up */
    return LKI_FAIL(LKS_E_INVALID,
                    "'%.300s': --split %g of %" PRId64
                    " picture%s is none, and no class has more; a class needs at least %.0f for "
                    "one test picture: give more pictures or a larger share, or leave out --split",
                    what, share, most, most == 1 ? "" : "s", least < 2 ? 2 : least);
}

/* The last of each class's permutation go to the test split; both keep their order. */
static lks_status hold_back(lki_pictures *out, const char *what, double share, uint64_t seed)
{
    int64_t most = 0;
    void *memory;
    const size_t bytes = (size_t)(out->count + out->classes + 1) * sizeof(int64_t);
    LKI_TRY(lki_arena_alloc(&out->arena, &memory, bytes, "pictures to hold back"));
    int64_t *member = memory,
            *end = member + out->count; /* end[c]: of class c's, which lie together */
    for (int64_t i = 0; i < out->count; i++) end[out->picture[i].label + 1]++;
    for (int64_t c = 0; c < out->classes; c++) end[c + 1] += end[c];
    for (int64_t i = 0; i < out->count; i++) member[end[out->picture[i].label]++] = i;
    for (int64_t c = 0; c < out->classes; c++) {
        const int64_t first = c == 0 ? 0 : end[c - 1], count = end[c] - first;
        if (count > most) most = count;
        const lki_permutation turn = lki_permutation_make(seed, c, count);
        const int64_t kept = count - (int64_t)((double)count * share + 0.5);
        for (int64_t i = kept < 1 ? 1 : kept; i < count; i++) {
            out->picture[member[first + lki_permutation_at(&turn, i)]].test = true;
            out->split[0]--;
            out->split[1]++;
        }
    }
    return out->split[1] > 0 ? LKS_OK : fail_none_held(what, share, most);
}

/* Training pictures first, each split in its order. */
static lks_status order(lki_pictures *out)
{
    void *memory;
    LKI_TRY(lki_arena_alloc(&out->arena, &memory, (size_t)out->count * sizeof(lki_picture),
                            "pictures in order"));
    lki_picture *ordered = memory;
    int64_t used = 0;
    for (int test = 0; test < 2; test++)
        for (int64_t i = 0; i < out->count; i++)
            if (out->picture[i].test == (test == 1)) ordered[used++] = out->picture[i];
    out->picture = ordered;
    return LKS_OK;
}

lks_status lki_pictures_settle(lki_pictures *out, const char *what, bool sorted, double share,
                               uint64_t seed)
{
    LKI_TRY(number_classes(out));
    if (out->classes < 2)
        return LKI_FAIL(LKS_E_FORMAT,
                        "'%.300s' has one class, '%.60s', expected at least two; give the folder "
                        "in which the folders of classes are",
                        what, out->name[0]);
    if (sorted) qsort(out->picture, (size_t)out->count, sizeof *out->picture, by_split_class_path);
    if (share > 0) LKI_TRY(hold_back(out, what, share, seed));
    return order(out);
}
