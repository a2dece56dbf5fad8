#include "numeric/rotary.h"

#include <math.h>

#include "numeric/real.h"

void lki_rotary(double base, int64_t positions, int64_t width, float *cosine, float *sine)
{
    const double turn =
        6.283185307179586; /* an angle errs by its unit roundoff, as everything here does */
    const int64_t half = width / 2;

    for (int64_t d = 0; d < half; d++) {
        const double angle = lki_exp(-2.0 * (double)d / (double)width * lki_log(base));

        for (int64_t t = 0; t < positions; t++) {
            const double turns = (double)t * angle / turn;
            const double part = turns - floor(turns);

            cosine[t * half + d] = (float)lki_cos_2pi(part);
            sine[t * half + d] = (float)lki_sin_2pi(part);
        }
    }
}
