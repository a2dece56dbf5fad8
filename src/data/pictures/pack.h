/* Inside of packing: what pack.c shares with pack_file.c. */
#ifndef LKI_DATA_PICTURES_PACK_H
#define LKI_DATA_PICTURES_PACK_H

#include <limits.h>

#include <lockstep/context.h>

#include "data/pictures/layout.h"
#include "data/pictures/packed.h"

/* The file while it is packed. Any thread may put and look at slots, each at its own. */
typedef struct lki_part {
    lks_context *context;
    char target[PATH_MAX], path[PATH_MAX]; /* as it will be called; as it is called now */
    char folder[PATH_MAX];
    int descriptor;
    lki_packed_head head;
    lki_packed_places at;
    uint8_t *front; /* all before the slots, as the file has it; checks are written by any thread */
    int32_t *label;
    uint64_t *check;
    bool begun, resumed; /* by this call; by an earlier one */
} lki_part;

/* Makes the folder where it is missing, and locks and begins the .part, or goes on with one of the same pictures, sizes
 * and times of files. LKS_E_IO: another one packs there, or what is packed is there already. `part` is to be left, also
 * after a failure. */
lks_status lki_part_open(lki_part *part, lks_context *context, const char *folder,
                         const lki_pictures *pictures, int height, int width);
/* Whether a slot is done, by its bytes; else it is not marked so any more. `room` has a slot. */
lks_status lki_part_has(bool *out, lki_part *part, int64_t slot, uint8_t *room);
lks_status lki_part_put(lki_part *part, int64_t slot, const uint8_t *bytes);
/* Gives it its name. Slots without a picture are left out. */
lks_status lki_part_finish(lki_part *part);
/* A .part in which no slot is done goes. */
void lki_part_leave(lki_part *part);

#endif
