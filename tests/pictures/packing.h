/* Folders of classes with pictures, and packing them. */
#ifndef LKT_PICTURES_PACKING_H
#define LKT_PICTURES_PACKING_H

#include "data/pictures.h"

#include <unistd.h>

#include <lockstep/tools.h>

#include "data/pictures/packed.h"

enum { CLASSES = 3, EACH = 12, SIZE = 8 };
static const char *const class_names[CLASSES] = {"2", "10", "ape"};

static inline void make_class_folders(const char *root, int each)
{
    char path[4096];
    mkdir(in_folder(root), 0777);
    for (int c = 0; c < CLASSES; c++) {
        snprintf(path, sizeof path, "%s/%s/%s", folder, root, class_names[c]);
        mkdir(path, 0777);
        for (int i = 0; i < each; i++) {
            snprintf(path, sizeof path, "%s/%s/%s/%02d.png", folder, root, class_names[c], i);
            lkt_write_sample(path, c, i, 9 + i, 20 - i);
        }
    }
}

static inline lks_status pack(lks_pack_result *result, const char *what, const char *to,
                              lks_pack_opts opts)
{
    opts.out = in_folder(to);
    if (opts.width == 0) opts.width = opts.height = SIZE;
    return lks_pack_pictures(result, context, in_folder(what), &opts);
}

#endif
