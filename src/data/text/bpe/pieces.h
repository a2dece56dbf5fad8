/*
 * A text in pieces, no token of which crosses their borders, by GPT-2's regular expression:
 *
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * A byte that is no part of a character in UTF-8 counts as a character that is no letter, number or white space.
 */
#ifndef LKI_DATA_TEXT_BPE_PIECES_H
#define LKI_DATA_TEXT_BPE_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the piece that begins at `at`, at < end. */
size_t lki_piece(const uint8_t *at, const uint8_t *end);
/* The same where the piece begins with a space that stands in front of `at` and is not counted; at <= end. */
size_t lki_piece_behind_space(const uint8_t *at, const uint8_t *end);
/* Whether the character in front of text[at], at > 0, is white space. */
bool lki_piece_space_before(const uint8_t *text, size_t at);

#endif
