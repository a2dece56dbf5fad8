/* Data sets of a text: windows of its tokens. lockstep/text.h says which. */
#ifndef LKI_DATA_TEXT_WINDOWS_H
#define LKI_DATA_TEXT_WINDOWS_H

#include <lockstep/text.h>

/* As lks_dataset_open_text(); opts->tokenizer is `owned` where that is not NULL, which the data set destroys, also when
 * this fails. */
lks_status lki_text_open(lks_dataset **out, lks_context *context, const char *path,
                         const lks_text_opts *opts, lks_tokenizer *owned);

/* How many tokens the text has. */
int64_t lki_text_tokens(const lks_dataset *whole);
/* A text of the tokens [first, first + count) of another one, which must outlive it. */
lks_status lki_text_part(lks_dataset **out, const lks_dataset *whole, int64_t first, int64_t count);
/* Tokens [first, first + count) of the text. */
void lki_text_read(const lks_dataset *whole, int64_t first, int64_t count, int32_t *out);

#endif
