#include "client/wire.h"

#include <ctype.h>
#include <math.h>

void cl_add_duration_us(struct nf_buf *out, uint64_t us)
{
    if (us < 1000)
        nf_buf_addf(out, "%llu us", (unsigned long long)us);
    else if (us < 10000)
        nf_buf_addf(out, "%.1f ms", (double)us / 1e3);
    else if (us < 1000000)
        nf_buf_addf(out, "%.0f ms", (double)us / 1e3);
    else if (us < 100000000)
        nf_buf_addf(out, "%.1f s", (double)us / 1e6);
    else if (us < 3600000000ull)
        nf_buf_addf(out, "%llu min %llu s", (unsigned long long)(us / 60000000), (unsigned long long)(us / 1000000 % 60));
    else
        nf_buf_addf(out, "%llu h %llu min", (unsigned long long)(us / 3600000000ull), (unsigned long long)(us / 60000000 % 60));
}

void cl_add_bytes(struct nf_buf *out, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes / 1024;
    size_t u = 0;
    if (bytes < 1024) {
        nf_buf_addf(out, "%llu B", (unsigned long long)bytes);
        return;
    }
    while (v >= 1024 && u + 1 < NF_ARRAY_LEN(units)) {
        v /= 1024;
        u++;
    }
    nf_buf_addf(out, v < 10 ? "%.1f %s" : "%.0f %s", v, units[u]);
}

const char *cl_enum_word(const ProtobufCEnumDescriptor *descriptor, int value, char *out, size_t out_size)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(descriptor, value);
    if (!v) {
        (void)nf_format(out, out_size, "unspecified");
        return out;
    }
    /* The prefix is the enum's own name in capitals: HIT_LOCAL of OUTCOME_HIT_LOCAL, FX_PASSES of STAGE_FX_PASSES. */
    const char *word = v->name;
    for (const char *n = descriptor->short_name; *n; n++) {
        if (n != descriptor->short_name && isupper((unsigned char)*n) && *word == '_')
            word++;
        if (toupper((unsigned char)*n) != *word) {
            word = v->name;
            goto copy;
        }
        word++;
    }
    if (*word == '_')
        word++;
copy:
    (void)nf_format(out, out_size, "%s", word);
    for (char *c = out; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return out;
}

static void add_who(struct nf_buf *out, const Neffd__V1__ClientInfo *who)
{
    if (!who)
        return;
    if (who->rank[0])
        nf_buf_addf(out, "rank %s", who->rank);
    if (who->pid)
        nf_buf_addf(out, "%spid %u", who->rank[0] ? ", " : "", who->pid);
    if (who->host[0])
        nf_buf_addf(out, "%s%s", who->rank[0] || who->pid ? " on " : "", who->host);
}

static void add_done(const Neffd__V1__Done *done, struct nf_buf *out)
{
    uint64_t total = done->times ? done->times->total_us : 0;
    switch (done->outcome) {
    case NEFFD__V1__OUTCOME__OUTCOME_COMPILED: nf_buf_add_c(out, "compiled"); break;
    case NEFFD__V1__OUTCOME__OUTCOME_JOINED: nf_buf_add_c(out, "joined a compile that was running"); break;
    case NEFFD__V1__OUTCOME__OUTCOME_HIT_LOCAL: nf_buf_add_c(out, "hit (this host)"); break;
    case NEFFD__V1__OUTCOME__OUTCOME_HIT_SHARED: nf_buf_add_c(out, "hit (shared cache)"); break;
    case NEFFD__V1__OUTCOME__OUTCOME_MISS: nf_buf_add_c(out, "miss"); break;
    case NEFFD__V1__OUTCOME__OUTCOME_UNSPECIFIED:
    case _NEFFD__V1__OUTCOME_IS_INT_SIZE:
    default: nf_buf_add_c(out, "done"); break;
    }
    nf_buf_add_c(out, " in ");
    cl_add_duration_us(out, total);
}

void cl_event_line(const Neffd__V1__CompileEvent *event, struct nf_buf *out)
{
    char word[64];
    switch (event->event_case) {
    case NEFFD__V1__COMPILE_EVENT__EVENT_QUEUED:
        nf_buf_addf(out, "queued");
        if (event->queued->position)
            nf_buf_addf(out, ", number %u", event->queued->position);
        if (event->queued->waiting_for[0])
            nf_buf_addf(out, ", waiting for %s", event->queued->waiting_for);
        break;
    case NEFFD__V1__COMPILE_EVENT__EVENT_JOINED:
        nf_buf_addf(out, "joined a compile that ");
        if (event->joined->leader && (event->joined->leader->pid || event->joined->leader->rank[0])) {
            add_who(out, event->joined->leader);
            nf_buf_add_c(out, " started ");
        } else {
            nf_buf_add_c(out, "started ");
        }
        cl_add_duration_us(out, event->joined->running_us);
        nf_buf_addf(out, " ago; %u wait for it", event->joined->waiters);
        break;
    case NEFFD__V1__COMPILE_EVENT__EVENT_STAGE:
        cl_enum_word(&neffd__v1__stage__descriptor, (int)event->stage->stage, word, sizeof(word));
        nf_buf_addf(out, "%s", word);
        if (event->stage->detail[0])
            nf_buf_addf(out, ": %s", event->stage->detail);
        break;
    case NEFFD__V1__COMPILE_EVENT__EVENT_PROGRESS:
        if (event->progress->fraction >= 0)
            nf_buf_addf(out, "%.0f %%", event->progress->fraction * 100);
        else
            nf_buf_add_c(out, "compiling");
        if (event->progress->eta_p50_ms) {
            nf_buf_add_c(out, ", about ");
            cl_add_duration_us(out, event->progress->eta_p50_ms * 1000);
            nf_buf_add_c(out, " left");
            if (event->progress->eta_p90_ms > event->progress->eta_p50_ms) {
                nf_buf_add_c(out, " (at most ");
                cl_add_duration_us(out, event->progress->eta_p90_ms * 1000);
                nf_buf_add_c(out, " nine times of ten)");
            }
        }
        break;
    case NEFFD__V1__COMPILE_EVENT__EVENT_LOG:
        if (event->log->source[0])
            nf_buf_addf(out, "%s: ", event->log->source);
        nf_buf_add_c(out, event->log->line);
        break;
    case NEFFD__V1__COMPILE_EVENT__EVENT_DONE:
        add_done(event->done, out);
        break;
    case NEFFD__V1__COMPILE_EVENT__EVENT_FAILED:
        nf_buf_addf(out, "failed: %s", event->failed->message[0] ? event->failed->message : event->failed->code);
        break;
    case NEFFD__V1__COMPILE_EVENT__EVENT_SEND_INPUT:
    case NEFFD__V1__COMPILE_EVENT__EVENT__NOT_SET:
    case _NEFFD__V1__COMPILE_EVENT__EVENT__CASE_IS_INT_SIZE:
    default: break;
    }
}

/* Long values (types of hundreds of dimensions, literals) would drown the line. */
static void add_short(struct nf_buf *out, const char *value)
{
    size_t len = strlen(value);
    if (len == 0) {
        nf_buf_add_c(out, "(none)");
    } else if (len <= 72) {
        nf_buf_add_c(out, value);
    } else {
        size_t cut = 68;
        while (cut > 60 && ((unsigned char)value[cut] & 0xC0) == 0x80)
            cut--;
        nf_buf_add(out, value, cut);
        nf_buf_add_c(out, "...");
    }
}

/* "option optlevel", "input 3", "structure: op 412": names that say their component already are not doubled. */
static void add_what(struct nf_buf *out, const Neffd__V1__Difference *d)
{
    size_t len = strlen(d->component);
    if (!d->name[0])
        nf_buf_add_c(out, d->component);
    else if (strncmp(d->name, d->component, len) == 0)
        nf_buf_add_c(out, d->name);
    else
        nf_buf_addf(out, "%s %s", d->component, d->name);
}

static void add_nearest(struct nf_buf *out, const Neffd__V1__Explanation *e)
{
    nf_buf_add_c(out, "nearest: ");
    if (e->nearest_name[0])
        nf_buf_addf(out, "\"%s\" ", e->nearest_name);
    nf_buf_add_c(out, "(");
    nf_buf_add_hex(out, e->nearest_key.data, NF_MIN(e->nearest_key.len, 6));
    nf_buf_add_c(out, ")");
}

void cl_explanation_line(const Neffd__V1__Explanation *e, size_t max_differences, struct nf_buf *out)
{
    if (!e || !e->found) {
        nf_buf_add_c(out, "no entry is near");
        return;
    }
    add_nearest(out, e);
    size_t n = max_differences ? NF_MIN(max_differences, e->n_differences) : e->n_differences;
    for (size_t i = 0; i < n; i++) {
        const Neffd__V1__Difference *d = e->differences[i];
        nf_buf_add_c(out, i ? "; " : ": ");
        add_what(out, d);
        nf_buf_add_c(out, ": ");
        add_short(out, d->cached);
        nf_buf_add_c(out, " -> ");
        add_short(out, d->requested);
        if (d->location[0])
            nf_buf_addf(out, " at %s", d->location);
    }
    if (n < e->n_differences)
        nf_buf_addf(out, "; and %zu more", e->n_differences - n);
}

void cl_explanation_text(const Neffd__V1__Explanation *e, struct nf_buf *out)
{
    if (!e || !e->found) {
        nf_buf_add_c(out, "no entry is near\n");
        return;
    }
    add_nearest(out, e);
    nf_buf_addf(out, ", %g %% alike\n", floor(e->similarity * 1000) / 10); /* 100 only if nothing differs */
    for (size_t i = 0; i < e->n_differences; i++) {
        const Neffd__V1__Difference *d = e->differences[i];
        nf_buf_add_c(out, "  ");
        add_what(out, d);
        if (d->location[0])
            nf_buf_addf(out, " at %s", d->location);
        nf_buf_addf(out, "\n    cached:    %s\n    requested: %s\n", d->cached[0] ? d->cached : "(none)", d->requested[0] ? d->requested : "(none)");
    }
}
