/* Which modules for MPI are found, and in which order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/tools.h>

#include "support/test.h"

enum { MOST = 32 };

static char folder[] = "/tmp/lockstep-modules-XXXXXX";
static char paths[2 * MOST][200];
static int files;

static void put(const char *name)
{
    FILE *file;
    snprintf(paths[files], sizeof paths[files], "%s/%s", folder, name);
    file = fopen(paths[files++], "w");
    assert_non_null(file);
    fclose(file);
}

static const char *program; /* what this one's file is said to be; NULL: what it is */

ssize_t __real_readlink(const char *path, char *out, size_t size);
ssize_t __wrap_readlink(const char *path, char *out, size_t size);

ssize_t __wrap_readlink(const char *path, char *out, size_t size)
{
    if (program == NULL || strcmp(path, "/proc/self/exe") != 0)
        return __real_readlink(path, out, size);
    assert_true(strlen(program) < size);
    memcpy(out, program, strlen(program));
    return (ssize_t)strlen(program);
}

static int make_folder(void **state)
{
    (void)state;
    files = 0;
    return mkdtemp(folder) == NULL || setenv("LKS_MODULES", folder, 1) != 0;
}

static int remove_folder(void **state)
{
    (void)state;
    for (int i = 0; i < files; i++) unlink(paths[i]);
    rmdir(folder);
    strcpy(strrchr(folder, '-'), "-XXXXXX");
    return unsetenv("LKS_MODULES");
}

static void they_have_names_and_an_order(void **state)
{
    (void)state;
    lks_mpi_module found[MOST];
    char searched[256], longest[80], longer[80];
    snprintf(longest, sizeof longest, "liblockstep-%063d.so", 7);
    snprintf(longer, sizeof longer, "liblockstep-%064d.so", 7);
    const char *const others[] = {"liblockstep-.so", "liblockstep-mpich.sox", "lockstep-mpich.so",
                                  "liblockstep.so", longer};
    put("liblockstep-openmpi.so");
    put("liblockstep-mpich-4.so");
    put("liblockstep-mpich.so");
    put(longest);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) put(others[i]);
    assert_int_equal(lks_mpi_modules(found, MOST, searched, sizeof searched), 4);
    assert_string_equal(searched, folder);
    assert_int_equal(strlen(found[0].name), 63);
    assert_string_equal(found[1].name, "mpich-4");
    assert_string_equal(found[2].name, "mpich");
    assert_string_equal(found[3].name, "openmpi");
    assert_string_equal(found[3].path, paths[0]);
    setenv("LKS_MODULES", paths[2], 1);
    assert_int_equal(lks_mpi_modules(found, MOST, searched, sizeof searched), 1);
    assert_string_equal(found[0].path, paths[2]);
}

static void there_may_be_many(void **state)
{
    (void)state;
    char name[64];
    lks_mpi_module found[MOST];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "liblockstep-m%02d.so", i);
        put(name);
    }
    assert_int_equal(lks_mpi_modules(found, MOST, NULL, 0), 16);
    for (int i = 1; i < 16; i++) assert_true(strcmp(found[i - 1].name, found[i].name) < 0);
    memset(found, 'x', sizeof found);
    assert_int_equal(lks_mpi_modules(found, 2, NULL, 0), 16);
    assert_int_equal(found[2].name[0], 'x');
}

/* Modules lie beside a program, in bin/../modules or in bin/lockstep, and one may be a link to the other. */
static void two_ways_to_a_folder_are_one(void **state)
{
    (void)state;
    static const char *const parts[] = {"bin", "modules"};
    static char file[200], folders[2][200], link[200];
    lks_mpi_module found[MOST];
    char searched[8192];
    int count = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(folders[i], sizeof folders[i], "%s/%s", folder, parts[i]);
        assert_int_equal(mkdir(folders[i], 0777), 0);
    }
    put("modules/liblockstep-mpich-twice.so");
    snprintf(link, sizeof link, "%s/bin/lockstep", folder);
    assert_int_equal(symlink("../modules", link), 0);
    snprintf(file, sizeof file, "%s/bin/program", folder);
    unsetenv("LKS_MODULES");
    program = file;
    const int all = lks_mpi_modules(found, MOST, searched, sizeof searched);
    program = NULL;
    for (int i = 0; i < all && i < MOST; i++) count += strcmp(found[i].name, "mpich-twice") == 0;
    assert_int_equal(count, 1);
    const char *first = strstr(searched, folders[1]);
    assert_non_null(first);
    assert_null(strstr(first + 1, folders[1]));
    unlink(paths[0]);
    unlink(link);
    for (int i = 0; i < 2; i++) rmdir(folders[i]);
}

/* A tree may be installed below a folder, as packages are made: both have their modules. */
static void an_end_of_a_path_is_another_folder(void **state)
{
    (void)state;
    static const char *const parts[] = {"", "/bin", "/modules"};
    static char file[400], folders[5][200], link[400];
    lks_mpi_module found[MOST];
    int count = 0;
    snprintf(folders[0], sizeof folders[0], "%s/tmp", folder);
    for (int i = 0; i < 3; i++)
        snprintf(folders[1 + i], sizeof folders[1 + i], "%s%s%s", folder, folder, parts[i]);
    snprintf(folders[4], sizeof folders[4], "%s/modules", folder);
    for (int i = 0; i < 5; i++) assert_int_equal(mkdir(folders[i], 0777), 0);
    put("modules/liblockstep-mpich-below.so");
    snprintf(link, sizeof link, "%s/lockstep", folders[2]);
    assert_int_equal(symlink(folders[4], link), 0);
    snprintf(file, sizeof file, "%s/program", folders[2]);
    unsetenv("LKS_MODULES");
    program = file;
    const int all = lks_mpi_modules(found, MOST, NULL, 0);
    program = NULL;
    for (int i = 0; i < all && i < MOST; i++) count += strcmp(found[i].name, "mpich-below") == 0;
    assert_int_equal(count, 1);
    unlink(paths[0]);
    unlink(link);
    for (int i = 4; i >= 0; i--) rmdir(folders[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(they_have_names_and_an_order, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(there_may_be_many, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(two_ways_to_a_folder_are_one, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(an_end_of_a_path_is_another_folder, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
