/*
 * Pictures to pack, and what they are packed into. Input: 0, and the file of a picture, or a marker of Exif; 1, and packed pictures, whose
 * digest is made right; 2, and a table of files and classes, between commas; 3, the same between tabs.
 */
#include <stdlib.h>
#include <string.h>

#include "data/pictures/exif.h"
#include "data/pictures/layout.h"
#include "data/pictures/packed.h"
#include "data/pictures/picture.h"
#include "fuzz/fuzz.h"

static void read_picture(const uint8_t *data, size_t bytes)
{
    enum { HEIGHT = 5, WIDTH = 7 };
    uint8_t found[2][HEIGHT * WIDTH * LKI_PICTURE_CHANNELS];
    for (int i = 0; i < 2; i++) { /* the same twice, whatever memory had */
        lki_resize to = {.height = HEIGHT, .width = WIDTH};
        memset(found[i], 17 * i, sizeof found[i]);
        const lks_status status = lki_picture_read(found[i], &to, data, bytes);
        lki_resize_free(&to);
        if (status == LKS_OK) continue;
        FUZZ_CHECK(status == LKS_E_FORMAT || status == LKS_E_UNSUPPORTED);
        fuzz_check_failure(status);
        return;
    }
    FUZZ_CHECK(memcmp(found[0], found[1], sizeof found[0]) == 0);
}

static void read_packed(const uint8_t *data, size_t bytes)
{
    lki_packed_head head;
    lki_packed_places at;
    lki_packed packed;
    uint8_t *file = malloc(bytes + 1);
    FUZZ_CHECK(file != NULL);
    memcpy(file, data, bytes);
    if (bytes >= sizeof head) {
        memcpy(&head, file, sizeof head);
        if (lki_packed_place(&at, &head) && at.end == bytes && head.digest != 0) {
            head.digest = lki_packed_digest(file, at.slots);
            memcpy(file, &head, sizeof head);
        }
    }
    const lks_status status = lki_packed_read(&packed, file, bytes, "input");
    if (status == LKS_OK) {
        FUZZ_CHECK(packed.at.slots + (size_t)packed.at.count * packed.at.slot_bytes == bytes);
        FUZZ_CHECK((const uint8_t *)(packed.check + packed.at.count) <= file + packed.at.slots);
        const uint8_t *name = file + packed.at.names;
        for (uint32_t i = 0; i < packed.head.classes; i++) name += strlen((const char *)name) + 1;
        FUZZ_CHECK(name == file + packed.at.names + packed.head.name_bytes);
        for (int64_t i = 0; i < packed.at.count; i++)
            FUZZ_CHECK(packed.label[i] >= -1 && packed.label[i] < (int64_t)packed.head.classes);
    } else {
        FUZZ_CHECK(status == LKS_E_FORMAT);
        fuzz_check_failure(status);
    }
    free(file);
}

static void read_table(char separator, const uint8_t *data, size_t bytes)
{
    lki_pictures found = {.arena = {.context = NULL}};
    lks_status status = lki_pictures_read_table(&found, fuzz_file(0, data, bytes), "/nowhere",
                                                separator, true, false);
    FUZZ_CHECK(found.count == found.split[0] && found.count <= found.room);
    if (status == LKS_OK && found.count > 0)
        status = lki_pictures_settle(&found, "input", bytes % 2 == 0, 0.3, bytes);
    if (status == LKS_OK) {
        FUZZ_CHECK(found.split[0] + found.split[1] == found.count);
        for (int64_t i = 0; i < found.count; i++) {
            const lki_picture *p = &found.picture[i];
            FUZZ_CHECK(p->path[0] == '/' && p->test == (i >= found.split[0]));
            FUZZ_CHECK(p->label >= 0 && p->label < found.classes);
            FUZZ_CHECK(strcmp(p->class, found.name[p->label]) == 0 && p->class[0] != '\0');
        }
    } else {
        fuzz_check_failure(status);
    }
    lki_arena_release(&found.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    switch (data[0] % 4) {
    case 0:
        read_picture(data + 1, bytes - 1);
        FUZZ_CHECK(lki_exif_orientation(data + 1, bytes - 1) >= 1 &&
                   lki_exif_orientation(data + 1, bytes - 1) <= 8);
        break;
    case 1:
        read_packed(data + 1, bytes - 1);
        break;
    default:
        read_table(data[0] % 4 == 2 ? '\0' : '\t', data + 1, bytes - 1);
        break;
    }
    return 0;
}
