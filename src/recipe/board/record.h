/* Records of event files: u64 length, checksum of it, the bytes, checksum of these; all little-endian. */
#ifndef LKI_RECIPE_BOARD_RECORD_H
#define LKI_RECIPE_BOARD_RECORD_H

#include "recipe/board/message.h"

#define LKI_EVENTS_VERSION "brain.Event:2"
#define LKI_EVENTS_END     ".lockstep" /* of names of files */

/* The message that is built between becomes one. */
void lki_record_begin(lki_message *m);
void lki_record_end(lki_message *m);

/* CRC-32C (Castagnoli; RFC 3720, B.4), turned and shifted so that the checksum of bytes with a checksum in
 * them is not always the same. */
uint32_t lki_record_sum(const uint8_t *data, size_t bytes);

#endif
