/*
 * IDX files, plain or gzip. Input: number of classes to ask for (0: counted); 0, or 1 where labels
 * come too; a byte for the length of the labels' file; that file; the images' file.
 *
 * Or a folder of them. Input: number of classes; 2, and a bit for each file that is not there; how
 * they are called; three bytes for lengths; labels and images of training, labels and images of test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/data.h>
#include <lockstep/tools.h>

#include "fuzz/fuzz.h"

/* `images` NULL: they were packed, and are not compared. */
static void read_some(lks_dataset *set, const uint8_t *images, size_t file_bytes)
{
    const lks_dataset_info info = lks_dataset_get_info(set);
    uint64_t hash;
    FUZZ_CHECK(info.samples > 0 && info.classes > 0 && info.classes <= 256);
    const size_t bytes = (size_t)lks_shape_elements(&info.shape);
    FUZZ_CHECK(bytes > 0 && bytes < (size_t)1 << 30);
    uint8_t *x = malloc(bytes);
    FUZZ_CHECK(x != NULL);
    for (int64_t i = 0; i < info.samples && i < 100; i++) {
        const int64_t index = i % 2 == 0 ? i / 2 : info.samples - 1 - i / 2;
        int32_t label = -1;
        FUZZ_CHECK(lks_dataset_read(set, index, x, &label) == LKS_OK);
        FUZZ_CHECK(label >= 0 && label < info.classes);
        if (images == NULL) continue;
        FUZZ_CHECK(memcmp(x, images + file_bytes - (size_t)(info.samples - index) * bytes, bytes) ==
                   0);
    }
    FUZZ_CHECK(lks_dataset_read(set, info.samples, x, x) != LKS_OK);
    FUZZ_CHECK(lks_dataset_hash(set, &hash) == LKS_OK);
    free(x);
}

enum { SET = 4 }; /* files of a data set: labels and images, twice */
static char folder[64], link_path[SET][200];

static void remove_links(void)
{
    for (int i = 0; i < SET; i++)
        if (link_path[i][0] != '\0') unlink(link_path[i]);
    for (int i = 0; i < SET; i++) link_path[i][0] = '\0';
}

static void remove_folder(void)
{
    remove_links();
    for (int i = 3; i >= 0; i--) { /* MNIST/raw and its like */
        char path[128];
        snprintf(path, sizeof path, "%s%s", folder, lks_idx_place(i));
        rmdir(path);
        if (i > 0) *strrchr(path, '/') = '\0';
        rmdir(path);
    }
}

static void make_folder(void)
{
    if (folder[0] != '\0') return;
    snprintf(folder, sizeof folder, "/tmp/fuzz-idx-XXXXXX");
    FUZZ_CHECK(mkdtemp(folder) != NULL);
    for (int i = 1; lks_idx_place(i) != NULL; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", folder, lks_idx_place(i));
        *strrchr(path, '/') = '\0';
        FUZZ_CHECK(mkdir(path, 0777) == 0);
        snprintf(path, sizeof path, "%s%s", folder, lks_idx_place(i));
        FUZZ_CHECK(mkdir(path, 0777) == 0);
    }
    atexit(remove_folder);
}

/* A file of the data set under one of the names that it may have. */
static void put_file(int file, uint8_t style, const uint8_t *data, size_t bytes)
{
    static const char *const kinds[] = {"idx3", "idx4", "idx2", "idx5"};
    const bool labels = file % 2 == 0, test = file >= 2;
    snprintf(link_path[file], sizeof link_path[file], "%s%s/%s-%s%c%s-ubyte%s", folder,
             lks_idx_place(style / 2 % 4),
             !test       ? "train"
             : style & 1 ? "test"
                         : "t10k",
             labels ? "labels" : "images", style & 8 ? '.' : '-',
             labels ? "idx1" : kinds[style / 16 % 4], style & 64 ? ".gz" : "");
    FUZZ_CHECK(symlink(fuzz_file(file, data, bytes), link_path[file]) == 0);
}

/* `known`: classes of the training labels; 0: they are not known. Returns the classes. */
static int64_t read_split(bool test, int64_t classes, int64_t known)
{
    lks_dataset *set;
    const bool labels = link_path[2 * test][0] != '\0', images = link_path[2 * test + 1][0] != '\0';
    int64_t found = 0;
    FUZZ_CHECK(lks_dataset_folder_has(folder, test) == (labels || images));
    const lks_status status = lks_dataset_open_folder(&set, NULL, folder, test, classes);
    if (!labels || !images) FUZZ_CHECK(status == LKS_E_IO);
    if (status == LKS_OK) {
        found = lks_dataset_get_info(set).classes;
        FUZZ_CHECK(classes == 0 || found == classes);
        FUZZ_CHECK(classes > 0 || known == 0 || found == known);
        read_some(set, NULL, 0);
    } else {
        FUZZ_CHECK(set == NULL);
        fuzz_check_failure(status);
    }
    lks_dataset_destroy(set);
    return found;
}

static void read_folder(const uint8_t *data, size_t bytes)
{
    enum { HEAD = 6 };
    size_t left = bytes - HEAD;
    const uint8_t *from = data + HEAD;
    make_folder();
    for (int i = 0; i < SET; i++) {
        const size_t wanted = i < SET - 1 ? data[3 + i] : left,
                     some = wanted < left ? wanted : left;
        if ((data[1] >> (4 + i) & 1) == 0) put_file(i, data[2], from, some);
        from += some;
        left -= some;
    }
    const int64_t known = read_split(false, data[0], 0);
    (void)read_split(true, data[0], link_path[0][0] != '\0' ? known : 0);
    remove_links();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    lks_dataset *set;
    if (bytes < 3) return 0;
    if ((data[1] & 2) != 0) {
        if (bytes >= 6) read_folder(data, bytes);
        return 0;
    }
    const int64_t classes = data[0];
    const bool labelled = data[1] % 2 == 1;
    const size_t rest = bytes - 3, head = data[2] < rest ? data[2] : rest;
    const char *labels = fuzz_file(0, data + 3, head);
    const char *images = fuzz_file(1, data + 3 + head, rest - head);
    const lks_status status = lks_dataset_open_idx(&set, NULL, images, labelled ? labels : NULL,
                                                   classes);
    if (status == LKS_OK) {
        const uint8_t *file = data + 3 + head;
        const bool packed = file[0] == 0x1f && file[1] == 0x8b;
        read_some(set, packed ? NULL : file, rest - head);
    } else {
        FUZZ_CHECK(set == NULL);
        fuzz_check_failure(status);
    }
    lks_dataset_destroy(set);
    return 0;
}
