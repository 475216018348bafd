/* neffopt: the pipeline's tool: reads a program, checks it, prints it in any form, runs passes, and judges test files. */
#include "pipeline/tools/neffopt.h"

#include "base/clock.h"
#include "base/file.h"
#include "pipeline/codegen/codegen.h"
#include "pipeline/hlo/bytecode.h"
#include "pipeline/hlo/hlo_proto.h"
#include "pipeline/hlo/passes.h"
#include "pipeline/pipeline.h"

#include <getopt.h>
#include <sys/stat.h>
#include <unistd.h>

enum action { ACT_NONE, ACT_PRINT, ACT_GENERIC, ACT_CANONICAL, ACT_KEY, ACT_VERIFY, ACT_BYTECODE, ACT_HLO_PROTO, ACT_EVAL, ACT_STEPS, ACT_STAGE, ACT_CHECK, ACT_LIST_OPS, ACT_LIST_PASSES };

struct options {
    enum action action;
    const char *input, *output, *kind, *version, *passes, *print_after;
    bool json, debug_info, stats;
    struct check_options check;
    struct eval_options eval;
    const char *stage;          /* --native-stage */
    const char *stage_after;    /* --print-after, of the code generator */
};

static const char usage_text[] =
    "usage: neffopt FILE|- --print|--print-generic|--canonical|--key|--verify|--to-bytecode[=VERSION]|--to-hlo-proto [-o OUT] [--passes=a,b,c] [--print-after=PASS|all] [--stats] [--debug-info] [--input-kind K] [--json]\n"
    "       neffopt FILE|- --eval [--inputs DIR] [--expected DIR] [--output DIR] [--function NAME]\n"
    "       neffopt FILE|- --check-steps [--inputs DIR] | --native-stage=STAGE\n"
    "       neffopt --check PATH... [--target evaluator|cpu] [--list] [--json] [--jobs N] [--time-limit S]\n"
    "       neffopt --list-ops | --list-passes\n"
    "\n"
    "  --print            the program as StableHLO's tools print it\n"
    "  --print-generic    every operation in MLIR's generic form\n"
    "  --canonical        the canonical form, which the key covers\n"
    "  --key              64 hex digits that equal programs share: the component `structure` of a request's\n"
    "                     canonical key, which covers target, compiler and options too (neffctl explain).\n"
    "                     With --json the parts it is made of; front_key is SHA-256 of the input alone\n"
    "  --verify           nothing but the verdict\n"
    "  --eval             run it on the reference evaluator\n"
    "  --check-steps      compare what the native form stores with the evaluator, and name the first operation that differs\n"
    "  --native-stage S   print a stage of the native code generator: import, group, plan, assembly, or all;\n"
    "                     FILE may be what stage import or group printed, which is read and goes on from there\n"
    "  --inputs DIR       arguments: DIR/00.npy, 01.npy, ...\n"
    "  --expected DIR     compare the results with DIR/00.npy, ...; tolerances are those of manifest.json\n"
    "  --function NAME    run another function than the entry\n"
    "  --passes=a,b,c     change the program by these passes first, in this order\n"
    "  --print-after=P    print the program to stderr behind pass P, or behind each: all; or a stage of the native code generator\n"
    "  --debug-info       print locations\n"
    "  --stats            counts and times to stderr\n"
    "  -o, --output OUT   write there instead of to stdout (--eval: results to the folder OUT)\n"
    "  --input-kind K     text, bytecode, hlo; by default it is found from the bytes\n"
    "  --check PATH...    judge the cases in files and folders; exit 0 only if none fails\n"
    "  --jobs N           child processes for --check (2)\n"
    "  --time-limit S     seconds for one case (60)\n"
    "  --list             name the cases of --check instead of running them\n"
    "  --list-ops         the operations that neffopt knows\n"
    "  --list-passes      the passes, and what each requires, provides and breaks\n"
    "  --json             JSON on stdout\n"
    "  --help, --version\n";

static bool json_errors;        /* --json stands somewhere in the command line */


int neffopt_fail(const struct nf_error *err)
{
    int code = err->code == NF_ENOTFOUND ? NF_EINVAL : err->code; /* a file or a function that is not there: a wrong argument, not a miss */
    if (json_errors) { /* neffd.v1.Error, every field */
        struct nf_buf b = NF_BUF_INIT;
        enum nf_class class = nf_status_class(code);
        nf_buf_addf(&b, "{\"error\":{\"code\":\"%s\",\"class\":\"%s\",\"message\":", nf_status_name(code), class == NF_CLASS_NONE ? "unspecified" : nf_class_name(class));
        json_string(nf_str_c(err->message), &b);
        nf_buf_add_c(&b, ",\"location\":");
        json_string(nf_str_c(err->location), &b);
        nf_buf_add_c(&b, ",\"hint\":");
        json_string(nf_str_c(err->hint), &b);
        nf_buf_addf(&b, ",\"retryable\":%s,\"retry_after_ms\":0,\"from_cache\":false,\"exit_code\":0,\"log_tail\":[],\"stage\":\"unspecified\",\"canonical_key\":\"\"}}\n",
            nf_status_retryable(code) ? "true" : "false");
        fwrite(b.data, 1, b.len, stdout);
        nf_buf_done(&b);
    } else {
        nf_error_print("neffopt", err);
    }
    return nf_status_exit(code);
}

static int usage(const char *fmt, const char *what)
{
    struct nf_error err = {0};
    nf_fail(&err, NF_EUSAGE, strcmp(fmt, "unknown") == 0 ? "usage: unknown option %s" : strcmp(fmt, "needs") == 0 ? "usage: %s needs a value" : "usage: %s", what);
    nf_error_hint(&err, "neffopt --help");
    return neffopt_fail(&err);
}

static int emit(const struct options *o, const struct nf_buf *b)
{
    struct nf_error err = {0};
    if (b->failed) {
        nf_fail(&err, NF_ENOMEM, "no memory for the output");
        return neffopt_fail(&err);
    }
    if (o->output && strcmp(o->output, "-") != 0) {
        return nf_output_write(o->output, nf_buf_str(b), 0644, &err) ? neffopt_fail(&err) : 0;
    }
    int rc = nf_fd_write_all(STDOUT_FILENO, b->data, b->len);
    if (rc) {
        nf_fail(&err, rc, "cannot write the output");
        return neffopt_fail(&err);
    }
    return 0;
}

static void component(struct nf_buf *b, const char **sep, const char *kind, size_t number, bool numbered, struct nf_str value)
{
    nf_buf_addf(b, "%s{\"component\":\"%s\",\"name\":\"", *sep, kind);
    *sep = ",";
    if (numbered)
        nf_buf_addf(b, "%zu", number);
    nf_buf_add_c(b, "\",\"value\":");
    json_string(value, b);
    nf_buf_add_char(b, '}');
}

static int print_key(const struct options *o, struct hlo_module *m, struct nf_str bytes)
{
    struct nf_error err = {0};
    struct nf_buf b = NF_BUF_INIT;
    char hex[NF_DIGEST_HEX], more[NF_DIGEST_HEX];
    int rc;
    if (!o->json) {
        struct nf_digest key;
        if ((rc = hlo_key(m, &key, &err)))
            return neffopt_fail(&err);
        nf_buf_addf(&b, "%s\n", nf_digest_hex(&key, hex));
    } else {
        struct hlo_components c;
        struct nf_digest key;
        if ((rc = hlo_key(m, &key, &err)))
            return neffopt_fail(&err);
        hlo_components(m, &c);
        struct nf_digest front = nf_digest_of(bytes.data, bytes.len);
        const char *sep = "";
        nf_buf_add_c(&b, "{\"file\":");
        json_string(nf_str_c(o->input), &b);
        nf_buf_addf(&b, ",\"front_key\":\"%s\",\"canonical_key\":\"%s\",\"components\":[", nf_digest_hex(&front, hex), nf_digest_hex(&key, more));
        for (size_t i = 0; i < c.num_inputs; i++)
            component(&b, &sep, "input", i, true, c.inputs[i].text);
        for (size_t i = 0; i < c.num_outputs; i++)
            component(&b, &sep, "output", i, true, c.outputs[i].text);
        for (size_t i = 0; i < c.num_constants; i++)
            component(&b, &sep, "constant", i, true, nf_str_c(nf_arena_printf(m->arena, "%.*s %s", (int)NF_MIN(c.constants[i].text.len, (size_t)200), c.constants[i].text.data,
                                                                               nf_digest_hex(&c.constants[i].digest, hex))));
        struct nf_digest structure = hlo_structure(m);
        component(&b, &sep, "structure", 0, false, nf_str_c(nf_digest_hex(&structure, hex)));
        nf_buf_add_c(&b, "]}\n");
    }
    rc = emit(o, &b);
    nf_buf_done(&b);
    return rc;
}

static void print_after(void *user, const struct hlo_pass *pass, const struct hlo_module *m)
{
    const struct options *o = user;
    struct nf_buf b = NF_BUF_INIT;
    if (!o->print_after || (strcmp(o->print_after, "all") != 0 && strcmp(o->print_after, pass->name) != 0))
        return;
    nf_buf_addf(&b, "// ----- after %s\n", pass->name);
    hlo_print(m, HLO_PRETTY, &b);
    fwrite(b.data, 1, b.len, stderr);
    nf_buf_done(&b);
}

static int run(const struct options *o)
{
    struct nf_error err = {0};
    struct nf_buf text = NF_BUF_INIT, out = NF_BUF_INIT;
    struct nf_arena *arena = nf_arena_new(0);
    struct hlo_module *m = NULL;
    int rc;
    if (strcmp(o->input, "-") == 0) {
        rc = nf_fd_read_all(STDIN_FILENO, UINT32_MAX, &text);
        if (rc)
            nf_fail(&err, rc, "cannot read the standard input");
    } else {
        struct stat st;
        if (stat(o->input, &st) == 0 && S_ISDIR(st.st_mode))
            rc = nf_fail(&err, NF_EINVAL, "%s is a directory", o->input);
        else
            rc = nf_file_read(o->input, UINT32_MAX, &text, &err);
    }
    int64_t t0 = nf_now_ns(), t1 = t0, t2 = t0, t3 = t0;
    if (!rc && o->action == ACT_STAGE && nf_str_starts(nf_buf_str(&text), NF_STR("graph replicas="))) { /* what a stage printed */
        rc = neffopt_stage_text(nf_buf_str(&text), o->stage ? o->stage : o->stage_after, &err);
        nf_error_file(&err, o->input);
        rc = rc ? neffopt_fail(&err) : 0;
        goto out;
    }
    if (!rc) {
        enum pipe_kind kind = pipe_kind_sniff(nf_buf_str(&text));
        if (o->kind)
            kind = strcmp(o->kind, "text") == 0 ? PIPE_KIND_STABLEHLO_TEXT : strcmp(o->kind, "bytecode") == 0 ? PIPE_KIND_STABLEHLO_BYTECODE : strcmp(o->kind, "hlo") == 0 ? PIPE_KIND_HLO_PROTO : PIPE_KIND_UNKNOWN;
        if (nf_str_trim(nf_buf_str(&text)).len == 0)
            rc = nf_fail(&err, NF_EGRAPH, "the input is empty");
        else
            rc = pipe_read(nf_buf_str(&text), kind, NULL, arena, &m, &err);
    }
    t1 = nf_now_ns();
    if (!rc)
        rc = hlo_verify(m, &err);
    t2 = nf_now_ns();
    if (!rc && o->passes)
        rc = hlo_passes_run(m, nf_str_c(o->passes), print_after, (void *)(uintptr_t)o, &err);
    if (!rc && (o->action == ACT_CANONICAL || o->action == ACT_KEY)) { /* as pipe_import does */
        rc = hlo_pass_legalise(m, &err);
        if (!rc)
            rc = hlo_canonicalise(m, &err);
    }
    t3 = nf_now_ns();
    if (rc) {
        nf_error_file(&err, o->input);
        rc = neffopt_fail(&err);
    } else if (o->action == ACT_EVAL) {
        struct eval_options e = o->eval;
        e.output = o->output;
        e.stats = o->stats;
        if (neffopt_eval(m, &e, &err))
            rc = neffopt_fail(&err);
    } else if (o->action == ACT_STEPS) {
        if (neffopt_steps(m, o->eval.inputs, &err))
            rc = neffopt_fail(&err);
    } else if (o->action == ACT_STAGE) {
        if (o->stage && neffopt_stage(m, o->stage, false, &err))
            rc = neffopt_fail(&err);
    } else if (o->action == ACT_KEY) {
        rc = print_key(o, m, nf_buf_str(&text));
    } else if (o->action == ACT_VERIFY) {
        if (o->json) {
            nf_buf_add_c(&out, "{\"file\":");
            json_string(nf_str_c(o->input), &out);
            nf_buf_add_c(&out, ",\"valid\":true}\n");
            rc = emit(o, &out);
        }
    } else if (o->action == ACT_BYTECODE || o->action == ACT_HLO_PROTO) {
        rc = o->action == ACT_BYTECODE ? hlo_bytecode_write(m, o->version, o->debug_info, &out, &err) : hlo_proto_write(m, &out, &err);
        rc = rc ? neffopt_fail(&err) : emit(o, &out);
    } else {
        struct hlo_print_options p = {.style = o->action == ACT_PRINT ? HLO_PRETTY : o->action == ACT_GENERIC ? HLO_GENERIC : HLO_CANONICAL, .locations = o->debug_info};
        hlo_print_with(m, &p, &out);
        rc = emit(o, &out);
    }
    if (!rc && o->stage_after && neffopt_stage(m, o->stage_after, true, &err)) /* last: it changes the module */
        rc = neffopt_fail(&err);
    if (o->stats && m) {
        int64_t t4 = nf_now_ns();
        fprintf(stderr, "neffopt: %zu bytes, %u operations, %u values, %zu bytes of memory; parse %.2f ms, verify %.2f ms, canonical %.2f ms, print %.2f ms\n", text.len, m->num_ops,
                m->num_values, nf_arena_bytes(arena), (double)(t1 - t0) / 1e6, (double)(t2 - t1) / 1e6, (double)(t3 - t2) / 1e6, (double)(t4 - t3) / 1e6);
    }
out:
    nf_buf_done(&text);
    nf_buf_done(&out);
    nf_arena_free(arena);
    return rc;
}

static bool is_stage(const char *name)
{
    for (const struct cg_stage *s = cg_stages; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return true;
    return false;
}

static int list_passes(bool json)
{
    for (size_t i = 0; hlo_pass_at(i); i++) {
        const struct hlo_pass *p = hlo_pass_at(i);
        if (json)
            printf("{\"name\":\"%s\",\"requires\":\"%s\",\"provides\":\"%s\",\"breaks\":\"%s\",\"help\":\"%s\"}\n", p->name, p->needs, p->gives, p->breaks, p->help);
        else
            printf("%-14s %s\n               requires %s; provides %s; breaks %s\n", p->name, p->help, p->needs, p->gives, p->breaks);
    }
    if (!json)
        printf("\nstages of the native code generator, for --print-after and --native-stage:\n");
    for (const struct cg_stage *s = cg_stages; s->name && !json; s++)
        printf("%-14s requires %s; provides %s\n", s->name, s->needs, s->gives);
    return 0;
}

static int list_ops(bool json)
{
    for (int i = 0; i < HLO_OP_MAX; i++) {
        if (i == HLO_OP_UNKNOWN)
            continue;
        const struct hlo_op_info *info = hlo_op_info((enum hlo_op_id)i);
        if (json) {
            printf("{\"name\":\"%s\",\"tier\":%d,\"attributes\":[", info->name, info->tier);
            for (int a = 0; a < info->num_attrs; a++)
                printf("%s\"%s\"", a ? "," : "", info->attrs[a].name);
            printf("]}\n");
        } else {
            printf("%s\n", info->name);
        }
    }
    return 0;
}

static int tool(int argc, char **argv)
{
    enum { O_PRINT = 256, O_GENERIC, O_CANONICAL, O_KEY, O_VERIFY, O_CHECK, O_LIST_OPS, O_JSON, O_JOBS, O_TIME_LIMIT, O_LIST, O_TARGET, O_STATS, O_DEBUG, O_KIND, O_HELP, O_VERSION, O_BYTECODE, O_HLO_PROTO, O_EVAL, O_STEPS, O_STAGE, O_INPUTS, O_EXPECTED, O_FUNCTION, O_PASSES, O_PRINT_AFTER, O_LIST_PASSES };
    static const struct option longs[] = {
        {"print", no_argument, NULL, O_PRINT}, {"print-generic", no_argument, NULL, O_GENERIC}, {"canonical", no_argument, NULL, O_CANONICAL},
        {"key", no_argument, NULL, O_KEY}, {"verify", no_argument, NULL, O_VERIFY}, {"check", no_argument, NULL, O_CHECK},
        {"check-steps", no_argument, NULL, O_STEPS}, {"native-stage", required_argument, NULL, O_STAGE},
        {"eval", no_argument, NULL, O_EVAL}, {"inputs", required_argument, NULL, O_INPUTS}, {"expected", required_argument, NULL, O_EXPECTED},
        {"function", required_argument, NULL, O_FUNCTION},
        {"list-ops", no_argument, NULL, O_LIST_OPS}, {"list-passes", no_argument, NULL, O_LIST_PASSES}, {"passes", required_argument, NULL, O_PASSES},
        {"print-after", required_argument, NULL, O_PRINT_AFTER}, {"json", no_argument, NULL, O_JSON}, {"jobs", required_argument, NULL, O_JOBS},
        {"time-limit", required_argument, NULL, O_TIME_LIMIT}, {"list", no_argument, NULL, O_LIST}, {"target", required_argument, NULL, O_TARGET},
        {"stats", no_argument, NULL, O_STATS}, {"debug-info", no_argument, NULL, O_DEBUG}, {"input-kind", required_argument, NULL, O_KIND},
        {"to-bytecode", optional_argument, NULL, O_BYTECODE}, {"to-hlo-proto", no_argument, NULL, O_HLO_PROTO},
        {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, O_HELP}, {"version", no_argument, NULL, O_VERSION}, {NULL, 0, NULL, 0}};
    struct options o = {.check = {.jobs = 2, .time_limit_s = 60}};
    int64_t number;
    opterr = 0;
    for (int i = 1; i < argc; i++)
        json_errors = json_errors || strcmp(argv[i], "--json") == 0;
    for (int c; (c = getopt_long(argc, argv, ":o:", longs, NULL)) != -1;) {
        enum action act = ACT_NONE;
        switch (c) {
        case O_PRINT: act = ACT_PRINT; break;
        case O_GENERIC: act = ACT_GENERIC; break;
        case O_CANONICAL: act = ACT_CANONICAL; break;
        case O_KEY: act = ACT_KEY; break;
        case O_VERIFY: act = ACT_VERIFY; break;
        case O_BYTECODE:
            act = ACT_BYTECODE;
            o.version = optarg;
            break;
        case O_HLO_PROTO: act = ACT_HLO_PROTO; break;
        case O_EVAL: act = ACT_EVAL; break;
        case O_STEPS: act = ACT_STEPS; break;
        case O_STAGE:
            if (!is_stage(optarg) && strcmp(optarg, "all") != 0)
                return usage("", "--native-stage names no stage: see --list-passes");
            act = ACT_STAGE;
            o.stage = optarg;
            break;
        case O_INPUTS: o.eval.inputs = optarg; break;
        case O_EXPECTED: o.eval.expected = optarg; break;
        case O_FUNCTION: o.eval.function = optarg; break;
        case O_CHECK: act = ACT_CHECK; break;
        case O_LIST_OPS: act = ACT_LIST_OPS; break;
        case O_LIST_PASSES: act = ACT_LIST_PASSES; break;
        case O_PASSES: o.passes = optarg; break;
        case O_PRINT_AFTER:
            if (strcmp(optarg, "all") != 0 && !hlo_pass_find(nf_str_c(optarg)) && !is_stage(optarg))
                return usage("", "--print-after names no pass and no stage: see --list-passes");
            if (is_stage(optarg))
                o.stage_after = optarg;
            else
                o.print_after = optarg;
            break;
        case O_JSON: o.json = o.check.json = true; break;
        case O_LIST: o.check.list = true; break;
        case O_STATS: o.stats = true; break;
        case O_DEBUG: o.debug_info = true; break;
        case O_KIND:
            if (strcmp(optarg, "text") != 0 && strcmp(optarg, "bytecode") != 0 && strcmp(optarg, "hlo") != 0)
                return usage("", "--input-kind is text, bytecode or hlo");
            o.kind = optarg;
            break;
        case 'o': o.output = optarg; break;
        case O_JOBS:
            if (nf_str_to_i64(nf_str_c(optarg), &number) || number < 1 || number > 256)
                return usage("", "--jobs is a number from 1 to 256");
            o.check.jobs = (int)number;
            break;
        case O_TIME_LIMIT:
            if (nf_str_to_double(nf_str_c(optarg), &o.check.time_limit_s) || !(o.check.time_limit_s > 0) || o.check.time_limit_s > 86400)
                return usage("", "--time-limit is a number of seconds");
            break;
        case O_TARGET:
            if (strcmp(optarg, "evaluator") != 0 && strcmp(optarg, "cpu") != 0)
                return usage("", "--target is evaluator or cpu");
            o.check.cpu = strcmp(optarg, "cpu") == 0;
            break;
        case O_HELP:
            fputs(usage_text, stdout);
            return 0;
        case O_VERSION:
            printf("neffopt %s\n", NEFFD_VERSION);
            return 0;
        case ':':
            return usage("needs", argv[optind - 1]);
        default:
            return usage("unknown", argv[optind - 1]);
        }
        if (act != ACT_NONE && o.action != ACT_NONE && act != o.action)
            return usage("", "one action at a time");
        if (act != ACT_NONE)
            o.action = act;
    }
    if (o.action == ACT_LIST_OPS)
        return optind == argc ? list_ops(o.json) : usage("", "--list-ops takes no file");
    if (o.action == ACT_LIST_PASSES)
        return optind == argc ? list_passes(o.json) : usage("", "--list-passes takes no file");
    if (o.action == ACT_NONE && o.stage_after)
        o.action = ACT_STAGE;
    if (o.action == ACT_NONE && o.passes)
        o.action = ACT_PRINT;
    if (o.action == ACT_NONE)
        return usage("", "say what to do, e.g. --print");
    if (o.action == ACT_CHECK) {
        if (optind == argc)
            return usage("", "--check needs files or folders");
        o.check.paths = (const char *const *)argv + optind;
        o.check.num_paths = (size_t)(argc - optind);
        return neffopt_check(&o.check);
    }
    if (optind + 1 != argc)
        return usage("", "give one FILE, or - for the standard input");
    o.input = argv[optind];
    return run(&o);
}

int main(int argc, char **argv)
{
    int rc = tool(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && rc == 0) {
        fputs("neffopt: cannot write to standard output\n", stderr);
        rc = nf_status_exit(NF_EIO);
    }
    return rc;
}
