#include "pipeline/target.h"

#define TARGETS_MAX 16

/* Written before any thread is started (target_register), read afterwards. */
static const struct target_ops *targets[TARGETS_MAX];
static size_t target_count;

void target_register(const struct target_ops *ops)
{
    for (size_t i = 0; i < target_count; i++) {
        if (strcmp(targets[i]->name, ops->name) == 0) {
            targets[i] = ops;
            return;
        }
    }
    if (target_count < TARGETS_MAX)
        targets[target_count++] = ops;
}

const struct target_ops *target_find(struct nf_str name)
{
    for (size_t i = 0; i < target_count; i++)
        if (nf_str_eq_c(name, targets[i]->name))
            return targets[i];
    return NULL;
}

const struct target_ops *target_at(size_t i)
{
    return i < target_count ? targets[i] : NULL;
}

void sink_stage(struct compile_sink *s, int stage, const char *detail)
{
    if (s && s->stage)
        s->stage(s->user, stage, detail);
}

void sink_progress(struct compile_sink *s, double fraction)
{
    if (s && s->progress)
        s->progress(s->user, fraction);
}

void sink_log(struct compile_sink *s, int level, const char *source, struct nf_str line)
{
    if (s && s->log)
        s->log(s->user, level, source, line);
}

void sink_artifact(struct compile_sink *s, const char *kind, const char *path)
{
    if (s && s->artifact)
        s->artifact(s->user, kind, path);
}

bool sink_cancelled(struct compile_sink *s)
{
    return s && s->cancelled && s->cancelled(s->user);
}
