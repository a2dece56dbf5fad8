/*
 * Runs a fuzz target over files and the files of folders, without libFuzzer.
 *   fuzz_<what> PATH...
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"

static int inputs;

static int run_file(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s cannot be opened\n", path);
        return 1;
    }
    const size_t bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    /* In a block of its own size, so that a sanitizer sees what is read behind it. */
    uint8_t *copy = malloc(bytes + 1);
    if (copy == NULL) return 1;
    memcpy(copy, data, bytes);
    fprintf(stderr, "%s\n", path); /* the last one is the one that went wrong */
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
    inputs++;
    return 0;
}

static int run_path(const char *path)
{
    int failed = 0;
    DIR *folder = opendir(path);
    if (folder == NULL) return run_file(path);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char name[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        failed |= run_file(name);
    }
    closedir(folder);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;
    for (int i = 1; i < argc; i++) failed |= run_path(argv[i]);
    printf("%d inputs\n", inputs);
    return failed || inputs == 0;
}
