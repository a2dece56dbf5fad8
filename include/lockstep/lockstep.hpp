/*
 * Lockstep for C++11: what lockstep.h makes destroys itself. Every call gives its lks_status, as in C; with
 * LOCKSTEP_EXCEPTIONS defined in front of this file one that is not LKS_OK is thrown as lockstep::error instead. Objects
 * are destroyed in the opposite order of their declaration: context, graph, model.
 */
#ifndef LOCKSTEP_LOCKSTEP_HPP
#define LOCKSTEP_LOCKSTEP_HPP

#include <memory>
#include <vector>

#include <lockstep/lockstep.h>

#ifdef LOCKSTEP_EXCEPTIONS
#include <stdexcept>
#endif

namespace lockstep {

#ifdef LOCKSTEP_EXCEPTIONS
class error : public std::runtime_error {
public:
    explicit error(lks_status why) : std::runtime_error(lks_last_error()->message), status(why) {}
    const lks_status status;
};
inline lks_status check(lks_status status)
{
    if (status != LKS_OK) throw error(status);
    return status;
}
#else
inline lks_status check(lks_status status)
{
    return status;
}
#endif

/* Owns what a function of C destroys. */
template <typename T, void (*Destroy)(T *)> class owner {
public:
    T *get() const { return object_.get(); }
    operator T *() const { return object_.get(); }

protected:
    lks_status keep(lks_status status, T *made)
    {
        if (status == LKS_OK) object_.reset(made);
        return check(status);
    }

private:
    struct destroy {
        void operator()(T *object) const { Destroy(object); }
    };
    std::unique_ptr<T, destroy> object_;
};

class context : public owner<lks_context, lks_context_destroy> {
public:
    lks_status create(const lks_context_opts &opts = lks_context_opts())
    {
        lks_context *made = nullptr;
        const lks_status status = lks_context_create(&made, &opts);
        return keep(status, made);
    }
};

/* Its layers are added by the functions of graph.h, which take it as it is. */
class graph : public owner<lks_graph, lks_graph_destroy> {
public:
    lks_status create(lks_context *context)
    {
        lks_graph *made = nullptr;
        const lks_status status = lks_graph_create(&made, context);
        return keep(status, made);
    }
};

class model : public owner<lks_model, lks_model_destroy> {
public:
    lks_status compile(lks_graph *graph, const lks_model_opts &opts)
    {
        lks_model *made = nullptr;
        const lks_status status = lks_model_compile(&made, graph, &opts);
        return keep(status, made);
    }
    lks_status step(const lks_batch &batch, double lr, lks_metrics *metrics = nullptr)
    {
        return check(lks_model_step(get(), &batch, lr, metrics));
    }
    lks_status predict(const void *x, int64_t count, float *out)
    {
        return check(lks_model_predict(get(), x, count, out));
    }

    /* Layer by layer: lks_model_opts.layers. */
    lks_status zero_gradients() { return check(lks_model_zero_gradients(get())); }
    lks_status forward(const lks_batch &batch, bool training = true, lks_metrics *metrics = nullptr)
    {
        return check(lks_model_forward(get(), &batch, training, metrics));
    }
    lks_status backward_input(const float *output_gradient = nullptr)
    {
        return check(lks_model_backward_input(get(), output_gradient));
    }
    lks_status backward_params() { return check(lks_model_backward_params(get())); }
    lks_status update(double lr) { return check(lks_model_update(get(), lr)); }
    /* All numbers of an activation, a parameter or a gradient, by its name. */
    lks_status read(const char *name, std::vector<float> &out)
    {
        const int index = lks_model_value_find(get(), name);
        const size_t bytes = lks_model_value_info(get(), index).bytes;
        out.assign(bytes / sizeof(float) + (bytes == 0), 0);
        const lks_status status = lks_model_value_read(get(), index, out.data(), bytes);
        out.resize(bytes / sizeof(float));
        return check(status);
    }
};

} // namespace lockstep
#endif
