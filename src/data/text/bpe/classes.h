/* What a code point is: a letter, a number (general categories L and N), white space, or another. */
#ifndef LKI_DATA_TEXT_BPE_CLASSES_H
#define LKI_DATA_TEXT_BPE_CLASSES_H

#include <stdint.h>

typedef enum lki_class { LKI_OTHER, LKI_LETTER, LKI_NUMBER, LKI_SPACE } lki_class;

/* Pages of code points, of 2 bits each; behind the last page all are others. */
enum { LKI_CLASS_PAGE = 128, LKI_CLASS_PAGES = 1608 };
extern const uint8_t lki_class_page[LKI_CLASS_PAGES];
extern const uint8_t lki_class_of[][LKI_CLASS_PAGE / 4];

static inline lki_class lki_class_of_code(uint32_t code)
{
    if (code >= LKI_CLASS_PAGE * LKI_CLASS_PAGES) return LKI_OTHER;
    const uint32_t at = code % LKI_CLASS_PAGE;
    return (lki_class)(lki_class_of[lki_class_page[code / LKI_CLASS_PAGE]][at / 4] >> at % 4 * 2 &
                       3);
}

#endif
