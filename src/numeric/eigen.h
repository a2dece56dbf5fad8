/* Eigenvectors of a symmetric matrix, with the same bits everywhere: sums, products, quotients and roots of
 * doubles in a written order, and nothing else. */
#ifndef LKI_NUMERIC_EIGEN_H
#define LKI_NUMERIC_EIGEN_H

/*
 * a: [n][n], symmetric, of which the lower half is read; it is used up. value: [n], descending. vector: [n][n], a row
 * for each value, of length 1, orthogonal to the others; of its largest component (the first of several) positive.
 * By Jacobi's method (Golub and Van Loan, Matrix Computations, 8.5), in a time of about 50 n^3 products.
 */
void lki_eigen_symmetric(double *a, double *value, double *vector, int n);

#endif
