#include "recipe/board/record.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "recipe/board/events.h"

enum { LENGTH = 8, SUM = 4, HEAD = LENGTH + SUM };

uint32_t lki_record_sum(const uint8_t *data, size_t bytes)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0x82f63b78u & (0u - (crc & 1)));
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void lki_record_begin(lki_message *m)
{
    lki_message_raw(m, 0, LENGTH);
    lki_message_raw(m, 0, SUM);
}

void lki_record_end(lki_message *m)
{
    if (m->failed) return;
    lki_message head = {.data = m->data, .room = HEAD};
    const size_t bytes = m->used - HEAD;
    lki_message_raw(&head, bytes, LENGTH);
    lki_message_raw(&head, lki_record_sum(m->data, LENGTH), SUM);
    lki_message_raw(m, lki_record_sum(m->data + HEAD, bytes), SUM);
}

/* ---------------------------------------------------------------- what others may have damaged */

static uint64_t number_at(const uint8_t *data, int bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++) number |= (uint64_t)data[i] << 8 * i;
    return number;
}

/* The next record, of at most `bytes` bytes with its frame; 0: there is no whole one. */
static size_t record_at(const uint8_t *data, size_t bytes)
{
    if (bytes < HEAD + SUM || number_at(data + LENGTH, SUM) != lki_record_sum(data, LENGTH))
        return 0;
    const uint64_t length = number_at(data, LENGTH);
    if (length > bytes - HEAD - SUM) return 0;
    return number_at(data + HEAD + length, SUM) == lki_record_sum(data + HEAD, length)
               ? HEAD + length + SUM
               : 0;
}

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) return true;
    }
    return false;
}

/* Field 2 of an event, 0 where it has none; -1: the bytes are no message. */
static int64_t step_of(const uint8_t *at, size_t bytes)
{
    const uint8_t *end = at + bytes;
    uint64_t tag, value, step = 0;
    while (at < end) {
        if (!read_varint(&at, end, &tag)) return -1;
        const int type = (int)(tag & 7);
        value = type == 1 ? 8 : 4;
        if (type != 1 && type != 5 && !((type == 0 || type == 2) && read_varint(&at, end, &value)))
            return -1;
        if (tag == 2 << 3) step = value;
        if (type == 0) continue;
        if (value > (uint64_t)(end - at)) return -1;
        at += value;
    }
    return step <= INT64_MAX ? (int64_t)step : -1;
}

size_t lki_events_keep(const uint8_t *data, size_t bytes, int64_t step)
{
    static const char version[] = LKI_EVENTS_VERSION;
    const size_t first = record_at(data, bytes), length = sizeof version - 1;
    /* The first record of every such file ends with its version, which is a text. */
    if (first < HEAD + length + SUM || memcmp(data + first - SUM - length, version, length) != 0)
        return 0;
    size_t kept = first;
    for (size_t next; (next = record_at(data + kept, bytes - kept)) != 0; kept += next) {
        const int64_t at = step_of(data + kept + HEAD, next - HEAD - SUM);
        if (at < 0 || at > step) break;
    }
    return kept;
}

static lks_status cut_file(const char *path, int64_t step)
{
    lki_file file;
    LKI_TRY(lki_file_open(&file, NULL, path));
    const size_t bytes = file.bytes, kept = lki_events_keep(file.data, bytes, step);
    lki_file_close(&file);
    if (kept == 0 || kept == bytes) return LKS_OK;
    return truncate(path, (off_t)kept) == 0 ? LKS_OK : lki_fail_io("shorten", path, errno);
}

static bool is_ours(const char *name)
{
    static const char begin[] = "events.out.tfevents.", end[] = LKI_EVENTS_END;
    const size_t length = strlen(name), last = sizeof end - 1;
    return length > sizeof begin + last && strncmp(name, begin, sizeof begin - 1) == 0 &&
           strcmp(name + length - last, end) == 0;
}

lks_status lki_events_cut(const char *folder, int64_t step)
{
    char path[PATH_MAX];
    lks_status status = LKS_OK;
    int error = 0;
    DIR *open = opendir(folder);
    if (open == NULL) return lki_fail_io("read the folder", folder, errno);
    for (const struct dirent *entry;
         status == LKS_OK && (entry = lki_folder_next(open, &error)) != NULL;) {
        if (!is_ours(entry->d_name)) continue;
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        status = length < 0 || length >= PATH_MAX ? lki_fail_io("read", folder, ENAMETOOLONG)
                                                  : cut_file(path, step);
    }
    if (error != 0) status = lki_fail_io("read the folder", folder, error);
    closedir(open);
    return status;
}
