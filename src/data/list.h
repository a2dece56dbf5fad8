/* Every format of data sets in folders, once; the first that a folder has anything of is read. Adding one
 * is a line here and a file beside it. */
#ifndef LKI_DATA_LIST_H
#define LKI_DATA_LIST_H

#define LKI_DATA_FORMAT_LIST(X) X(idx) X(cifar) X(packed) X(numpy)

#endif
