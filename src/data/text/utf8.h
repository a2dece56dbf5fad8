/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef LKI_DATA_TEXT_UTF8_H
#define LKI_DATA_TEXT_UTF8_H

#include <stddef.h>
#include <stdint.h>

#include "data/text/tokenizer.h"

enum { LKI_CODE_POINTS = 0x110000, LKI_UTF8_BYTES = 4 };

/* The bytes of the code point at `at`, at < end; 0: it is none. */
int lki_utf8_read(uint32_t *code, const uint8_t *at, const uint8_t *end);
/* Writes a code point that is one; returns its bytes. */
int lki_utf8_write(uint32_t code, char out[LKI_UTF8_BYTES]);
/* How many bytes in front are valid; `bytes`: all. */
size_t lki_utf8_valid(const char *text, size_t bytes);

/* Fails with LKS_E_FORMAT: what is wrong at byte `at` of a passage that is not valid there. */
lks_status lki_utf8_fail(const lki_passage *passage, size_t at);
/* What messages call the text, or its file, that byte `at` of a passage stands in, its name in quotes or "the text", and which byte of it that is: *byte. */
enum { LKI_PASSAGE_NAME = 300 };
const char *lki_passage_place(const lki_passage *passage, size_t at, size_t *byte,
                              char out[LKI_PASSAGE_NAME]);

#endif
