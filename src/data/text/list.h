/* Every kind of tokenizer, once: the first that a file is of reads it. Adding one is a line here and a file
 * beside it. */
#ifndef LKI_DATA_TEXT_LIST_H
#define LKI_DATA_TEXT_LIST_H

#define LKI_TOKENIZER_LIST(X) X(word) X(char) X(byte) X(bpe)

#endif
