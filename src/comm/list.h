/* Every way to other processes, once; the first that a launcher has prepared is taken. Adding one is a
 * line here and a file beside it. */
#ifndef LKI_COMM_LIST_H
#define LKI_COMM_LIST_H

#define LKI_WAY_LIST(X) X(mpi) X(self) X(socket)

#endif
