/* Data sets of a text: windows of its tokens. lockstep/text.h says which. */
#ifndef LKI_DATA_TEXT_WINDOWS_H
#define LKI_DATA_TEXT_WINDOWS_H

#include <lockstep/text.h>

/* As lks_dataset_open_text(); opts->tokenizer is `owned` where that is not NULL, which the data set destroys, also when
 * this fails. */
lks_status lki_text_open(lks_dataset **out, lks_context *context, const char *path,
                         const lks_text_opts *opts, lks_tokenizer *owned);

/* A text of the tokens [first, first + count) of another one, which must outlive it; without columns, with its windows
 * anywhere or one behind the other. */
lks_status lki_text_part(lks_dataset **out, const lks_dataset *whole, int64_t first, int64_t count,
                         bool anywhere);
#endif
