#include "comm/modules.h"

#include "base/check.h"

#include "build.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/tools.h>

#if defined(LKI_HAVE_MODULES)

#include <dlfcn.h>
#include <link.h>

bool lki_modules_can_load(void)
{
    return true;
}

static void *module_symbol(const char *path, const char *name, int mode)
{
    void *object = dlopen(path, mode);
    return object != NULL ? dlsym(object, name) : NULL;
}

lks_status lki_module_load(const lki_transport **out, const char *path)
{
    const lki_transport *(*show)(void) = NULL;
    *out = NULL;
    void *symbol = module_symbol(path, "lki_transport_mpi", RTLD_NOW | RTLD_LOCAL);
    if (symbol == NULL) {
        const char *why = dlerror();
        return LKI_FAIL(
            LKS_E_COMM,
            "the module '%.200s' cannot be loaded (%.200s); install the MPI that it needs, "
            "or name another module in LKS_MODULES",
            path, why != NULL ? why : "no reason given");
    }
    memcpy(&show, &symbol, sizeof show);
    const lki_transport *transport = show();
    if (transport->abi != LKI_TRANSPORT_ABI)
        return LKI_FAIL(
            LKS_E_COMM,
            "the module '%.300s' is of another version of Lockstep (interface %d, expected "
            "%d); install the one of this version",
            path, transport->abi, LKI_TRANSPORT_ABI);
    *out = transport;
    return LKS_OK;
}

typedef struct version {
    char *out;
    int size;
    bool found;
} version;

static int ask_version(struct dl_phdr_info *info, size_t size, void *user)
{
    version *asked = user;
    int (*get)(char *, int *) = NULL;
    char text[8192]; /* as long as any MPI may write */
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : info->dlpi_name;
    (void)size;
    if (strncmp(name, "libmpi", 6) != 0) return 0;
    void *symbol = module_symbol(info->dlpi_name, "MPI_Get_library_version",
                                 RTLD_LAZY | RTLD_NOLOAD);
    if (symbol == NULL) return 0;
    memcpy(&get, &symbol, sizeof get);
    if (get(text, &(int){0}) != 0) return 0;
    snprintf(asked->out, (size_t)asked->size, "%.*s", (int)strcspn(text, ",\n"), text);
    asked->found = true;
    return 1;
}

const char *lki_mpi_in_process(char *out, int size)
{
    version asked = {.out = out, .size = size};
    dl_iterate_phdr(ask_version, &asked);
    return asked.found ? out : NULL;
}

/* The file that has this code; false where it is the program itself, whose name may be relative. */
static bool module_own_file(char out[LKI_MODULE_PATH])
{
    static const char here = 0;
    Dl_info info;
    if (dladdr(&here, &info) == 0 || strchr(info.dli_fname, '/') == NULL) return false;
    char *real = realpath(info.dli_fname, NULL);
    if (real == NULL) return false;
    snprintf(out, LKI_MODULE_PATH, "%s", real);
    free(real);
    return true;
}

#else

bool lki_modules_can_load(void)
{
    return false;
}

lks_status lki_module_load(const lki_transport **out, const char *path)
{
    *out = NULL;
    return LKI_FAIL(LKS_E_COMM, "this program cannot load the module '%.300s'", path);
}

const char *lki_mpi_in_process(char *out, int size)
{
    (void)out, (void)size;
    return NULL;
}

static bool module_own_file(char out[LKI_MODULE_PATH])
{
    (void)out;
    return false;
}

#endif

/* "liblockstep-openmpi.so" -> "openmpi". */
static bool module_name(char out[64], const char *file)
{
    static const char begin[] = "liblockstep-", end[] = ".so";
    const size_t length = strlen(file), ends = sizeof begin + sizeof end - 2;
    if (length <= ends || length - ends >= 64 || strncmp(file, begin, sizeof begin - 1) != 0 ||
        strcmp(file + length - sizeof end + 1, end) != 0)
        return false;
    memcpy(out, file + sizeof begin - 1, length - ends);
    out[length - ends] = '\0';
    return true;
}

static void module_add(lki_modules *all, const char *path)
{
    const char *slash = strrchr(path, '/');
    lki_module *m = &all->module[all->count];
    if (all->count == LKI_MODULES_MOST) return;
    if (!module_name(m->name, slash != NULL ? slash + 1 : path)) return;
    if ((size_t)snprintf(m->path, sizeof m->path, "%s", path) >= sizeof m->path) return;
    m->kin = strncmp(m->name, "openmpi", 7) == 0 ? LKI_KIN_OPENMPI : LKI_KIN_MPICH;
    all->count++;
}

static int by_path(const void *a, const void *b)
{
    const lki_module *left = a, *right = b;
    return strcmp(left->path, right->path);
}

/* "FOLDER, " is one of those, and not the end of one. */
static bool module_is_searched(const lki_modules *all, const char *path)
{
    const char *at = all->searched;
    for (; (at = strstr(at, path)) != NULL; at++)
        if (at == all->searched || (at >= all->searched + 2 && strncmp(at - 2, ", ", 2) == 0))
            return true;
    return false;
}

static void module_search(lki_modules *all, const char *folder)
{
    char path[LKI_MODULE_PATH + 300], where[LKI_MODULE_PATH];
    const int first = all->count;
    const size_t used = strlen(all->searched);
    char *real = realpath(folder, NULL);
    snprintf(where, sizeof where, "%s", real != NULL ? real : folder);
    free(real);
    snprintf(path, sizeof path, "%s, ", where);
    if (module_is_searched(all, path)) return; /* two ways to one folder */
    snprintf(all->searched + used, sizeof all->searched - used, "%s", path);
    DIR *open = opendir(where);
    if (open == NULL) return;
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", where, entry->d_name);
        module_add(all, path);
    }
    closedir(open);
    qsort(&all->module[first], (size_t)(all->count - first), sizeof *all->module, by_path);
}

/* Beside a program: in the build's folder, or in the installed tree. Beside a library the same. */
static void module_search_beside(lki_modules *all, char file[LKI_MODULE_PATH])
{
    static const char *const beside[] = {"../" LKI_MODULES_BUILD, LKI_LIBDIR_FROM_BIN "/lockstep",
                                         "lockstep"};
    char folder[LKI_MODULE_PATH + 128];
    char *slash = strrchr(file, '/');
    if (slash == NULL) return;
    *slash = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        snprintf(folder, sizeof folder, "%s/%s", file, beside[i]);
        if (access(folder, X_OK) == 0) module_search(all, folder);
    }
}

void lki_modules_find(lki_modules *out)
{
    const char *asked = getenv("LKS_MODULES");
    char file[LKI_MODULE_PATH];
    struct stat info;
    *out = (lki_modules){.count = 0};
    if (asked != NULL && *asked != '\0') {
        if (stat(asked, &info) == 0 && S_ISREG(info.st_mode)) {
            module_add(out, asked);
            snprintf(out->searched, sizeof out->searched, "%s, ", asked);
        } else {
            module_search(out, asked);
        }
    } else {
        if (module_own_file(file)) module_search_beside(out, file);
        const ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
        if (length > 0) file[length] = '\0';
        if (length > 0) module_search_beside(out, file);
        module_search(out, LKI_MODULES_INSTALLED);
    }
    const size_t used = strlen(out->searched);
    if (used >= 2) out->searched[used - 2] = '\0'; /* the comma behind the last */
}

int lks_mpi_modules(lks_mpi_module *out, int most, char *searched, size_t size)
{
    lki_modules all;
    lki_modules_find(&all);
    if (searched != NULL) snprintf(searched, size, "%s", all.searched);
    for (int i = 0; i < all.count && i < most && out != NULL; i++) {
        out[i] = (lks_mpi_module){.path = ""};
        memcpy(out[i].path, all.module[i].path, sizeof out[i].path);
        memcpy(out[i].name, all.module[i].name, sizeof out[i].name);
    }
    return all.count;
}

bool lks_mpi_loaded(void)
{
    char text[8];
    return lki_mpi_in_process(text, sizeof text) != NULL;
}

lks_status lks_mpi_library(char *out, size_t size, const char *path)
{
    const lki_transport *transport;
    if (path == NULL) return LKI_FAIL_NULL(path);
    if (out == NULL) return LKI_FAIL_NULL(out);
    LKI_TRY(lki_module_load(&transport, path));
    snprintf(out, size, "%s", transport->library);
    return LKS_OK;
}
