/* Loading libhdf5, and listing what is in a file. */
#if defined(LKI_HAVE_HDF5)

#include "data/hdf5/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "build.h"

/* Groups in groups; links may go in circles. */
enum { DEEPEST = 16, MOST_OBJECTS = 10000, MOST_NAMES = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lki_hdf5_library library;

static lks_status fail_hdf5(void)
{
    const char *why = dlerror();
    return LKI_FAIL(
        LKS_E_UNSUPPORTED,
        "an HDF5 file needs libhdf5, which could not be loaded (%.200s); install it (on "
        "Debian: apt-get install libhdf5-dev), or write the array as .npy",
        why != NULL ? why : "H5open failed");
}

/* Once; under the lock. */
static lks_status load_hdf5(void)
{
    static bool loaded;
    static const struct symbol {
        const char *name;
        size_t offset;
    } symbols[] = {
#define SYMBOL(result, name, arguments) {#name, offsetof(lki_hdf5_library, name)},
        LKI_HDF5_CALLS(SYMBOL)};
    if (loaded) return LKS_OK;
    void *object = dlopen(LKI_HDF5_SONAME, RTLD_NOW | RTLD_LOCAL);
    /* Where it is in no folder of the loader's. */
    if (object == NULL) object = dlopen(LKI_HDF5_FOLDER "/" LKI_HDF5_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) return fail_hdf5();
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(object, symbols[i].name);
        if (symbol == NULL) return fail_hdf5();
        memcpy((char *)&library + symbols[i].offset, &symbol, sizeof symbol);
    }
    loaded = library.H5open() >= 0;
    return loaded ? LKS_OK : fail_hdf5();
}

lks_status lki_hdf5_enter(const lki_hdf5_library **out)
{
    pthread_mutex_lock(&lock);
    const lks_status status = load_hdf5();
    if (status != LKS_OK) {
        pthread_mutex_unlock(&lock);
        return status;
    }
    library.H5Eget_auto2(H5E_DEFAULT, &library.print, &library.print_to);
    library.H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    *out = &library;
    return LKS_OK;
}

void lki_hdf5_leave(void)
{
    library.H5Eset_auto2(H5E_DEFAULT, library.print, library.print_to);
    pthread_mutex_unlock(&lock);
}

/* The first is the innermost, which knows most, but of filters, for which it has looked in folders. */
static herr_t note_error(unsigned number, const H5E_error2_t *error, void *user)
{
    char *why = user;
    if (error->desc != NULL && (number == 0 || strncmp(error->desc, "required filter", 15) == 0))
        snprintf(why, LKI_HDF5_NAME, "%s", error->desc);
    return 0;
}

void lki_hdf5_why(char why[LKI_HDF5_NAME])
{
    snprintf(why, LKI_HDF5_NAME, "nothing");
    library.H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_error, why);
}

lks_status lki_hdf5_fail(const char *path, const char *what)
{
    char why[LKI_HDF5_NAME];
    lki_hdf5_why(why);
    return LKI_FAIL(LKS_E_FORMAT, "'%s' %s: libhdf5 says: %s", path, what, why);
}

/* ---------------------------------------------------------------- names */

typedef struct listing {
    char *names, *only;
    int64_t count, looked_at;
} listing;

static void note_dataset(listing *l, const char *path)
{
    const size_t used = strlen(l->names);
    if (l->count++ == 0) snprintf(l->only, LKI_HDF5_NAME, "%s", path);
    if (l->count <= MOST_NAMES)
        snprintf(l->names + used, LKI_HDF5_NAMES - used, "%s%s", used > 0 ? ", " : "", path);
}

static void list_group(listing *l, hid_t group, const char *path, int depth)
{
    H5G_info_t info;
    char name[LKI_HDF5_NAME], whole[LKI_HDF5_NAME];
    if (depth > DEEPEST || library.H5Gget_info(group, &info) < 0) return;
    for (hsize_t i = 0; i < info.nlinks && l->looked_at < MOST_OBJECTS; i++) {
        l->looked_at++;
        const ssize_t length = library.H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i,
                                                          name, sizeof name, H5P_DEFAULT);
        if (length < 0 || length >= (ssize_t)sizeof name ||
            snprintf(whole, sizeof whole, "%s/%s", path, name) >= (int)sizeof whole)
            continue;
        const hid_t object = library.H5Oopen(group, name, H5P_DEFAULT);
        if (object < 0) continue; /* a link to nothing */
        const H5I_type_t type = library.H5Iget_type(object);
        if (type == H5I_DATASET) note_dataset(l, whole);
        if (type == H5I_GROUP) list_group(l, object, whole, depth + 1);
        library.H5Oclose(object);
    }
}

void lki_hdf5_list(hid_t file, char names[LKI_HDF5_NAMES], char only[LKI_HDF5_NAME], int64_t *count)
{
    listing l = {.names = names, .only = only};
    names[0] = only[0] = '\0';
    list_group(&l, file, "", 0);
    const size_t used = strlen(names);
    if (l.count > MOST_NAMES)
        snprintf(names + used, LKI_HDF5_NAMES - used, " and %lld more",
                 (long long)(l.count - MOST_NAMES));
    *count = l.count;
}

#else
typedef int lki_no_hdf5_library;
#endif
