#include "core/sinusoid.h"

#include "numeric/real.h"

double lki_sinusoid(int64_t position, int64_t channel, int64_t channels)
{
    static const double whole_turn = 6.283185307179586476925;
    const int64_t even = channel - channel % 2;
    const double rate = even == 0 ? 1.0 : lki_real_power(1e-4, (double)even / (double)channels);
    const double turns = (double)position * rate / whole_turn;
    const double part = turns - (double)(int64_t)turns;

    return channel % 2 == 0 ? lki_sin_2pi(part) : lki_cos_2pi(part);
}
