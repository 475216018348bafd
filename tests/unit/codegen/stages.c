/* stages.c: see stages.h. */
#include "tests/unit/codegen/stages.h"

void stages_done(struct stages *s)
{
    nf_buf_done(&s->import);
    nf_buf_done(&s->group);
    nf_buf_done(&s->plan);
}

void stages_keep(void *user, const char *stage, struct nf_str text)
{
    struct stages *s = user;
    struct nf_buf *b = strcmp(stage, "import") == 0 ? &s->import : strcmp(stage, "group") == 0 ? &s->group : strcmp(stage, "plan") == 0 ? &s->plan : NULL;
    if (!b) return;
    nf_buf_clear(b);
    nf_buf_add_str(b, text);
}

static bool same(const char *what, const struct nf_buf *got, const struct nf_buf *want, struct nf_buf *why)
{
    struct nf_str g = nf_buf_str(got), w = nf_buf_str(want);
    if (nf_str_eq(g, w)) return true;
    while (g.len && w.len) {
        struct nf_str a = nf_str_cut(&g, '\n'), b = nf_str_cut(&w, '\n');
        if (nf_str_eq(a, b)) continue;
        nf_buf_addf(why, "%s: \"%.*s\" was \"%.*s\"", what, (int)a.len, a.data, (int)b.len, b.data);
        return false;
    }
    nf_buf_addf(why, "%s: one is longer", what);
    return false;
}

static bool goes_on(const char *from, const struct nf_buf *text, const struct stages *s, const struct cg_request *request, struct nf_buf *why)
{
    struct stages again = {0};
    struct cg_request q = *request;
    struct cg_artifact a = {0};
    struct nf_error err = {0};
    char what[64];
    q.print = stages_keep;
    q.print_user = &again;
    q.ret_traces = NULL;
    int rc = cg_build_text(nf_buf_str(text), &q, &a, &err);
    if (rc) nf_buf_addf(why, "from %s: %s: %s", from, err.location, err.message);
    nf_format(what, sizeof what, "%s read and printed", from);
    bool ok = rc == 0 && same(what, &again.import, text, why);
    nf_format(what, sizeof what, "plan from %s", from);
    ok = ok && same(what, &again.plan, &s->plan, why);
    if (!rc) cg_artifact_done(&a);
    stages_done(&again);
    return ok;
}

int stages_read_back(const struct stages *s, const struct cg_request *request, struct nf_buf *why)
{
    return goes_on("import", &s->import, s, request, why) && goes_on("group", &s->group, s, request, why) ? 0 : -1;
}
