/* llvm.c: the shared object that holds LLVM: row programs to relocatable objects, in modules of a few kernels each, by several
 * threads (own context and target machine). What comes out does not depend on how many. */
#include "pipeline/codegen/emit_internal.h"
#include "pipeline/codegen/vmath.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS_MAX = 64 };

static void fatal(const char *reason)
{
    fprintf(stderr, "neffd: LLVM: %s\n", reason);
    abort(); /* a worker process exists to be lost: its parent reports the crash */
}

static void initialise(void)
{
    static const char *const options[] = {"neffd", "-disable-lsr"};
    LLVMInstallFatalErrorHandler(fatal);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMParseCommandLineOptions(2, options, NULL);
}

struct job {
    const struct emit_request *q;
    const struct emit_target *t;
    uint32_t batches;
    LLVMMemoryBufferRef *object;          /* by batch */
    atomic_uint next;
    atomic_int rc;
    struct nf_error error;                /* of the first that failed; guarded by lock */
    pthread_mutex_t lock;                 /* guards error */
};

static void fail(struct job *j, const char *what, char *message)
{
    pthread_mutex_lock(&j->lock);
    if (!atomic_load(&j->rc)) {
        nf_fail(&j->error, NF_EINTERNAL, "LLVM: %s: %s", what, message ? message : "no reason given");
        atomic_store(&j->rc, NF_EINTERNAL);
    }
    pthread_mutex_unlock(&j->lock);
    if (message) LLVMDisposeMessage(message);
}

static LLVMTargetMachineRef machine(struct job *j)
{
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(j->t->triple, &target, &message)) {
        fail(j, "no such target", message);
        return NULL;
    }
    return LLVMCreateTargetMachine(target, j->t->triple, j->t->cpu, j->t->features, j->q->tier ? LLVMCodeGenLevelDefault : LLVMCodeGenLevelNone, LLVMRelocPIC,
                                   LLVMCodeModelSmall);
}

static void compile_batch(struct job *j, uint32_t batch, LLVMContextRef cx, LLVMTargetMachineRef tm)
{
    char name[32], *message = NULL;
    LLVMModuleRef m = LLVMModuleCreateWithNameInContext("kernels", cx);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
    LLVMSetTarget(m, j->t->triple);
    LLVMSetModuleDataLayout(m, layout);
    LLVMDisposeTargetData(layout);
    for (uint32_t i = batch * j->q->batch; i < NF_MIN((batch + 1) * j->q->batch, j->q->count); i++) {
        nf_format(name, sizeof name, "k%u", i);
        emit_kernel(m, name, j->q->prog[i], j->t);
    }
#ifndef NDEBUG
    if (LLVMVerifyModule(m, LLVMReturnStatusAction, &message)) {
        fail(j, "the module is not valid", message);
        message = NULL;
        LLVMDisposeModule(m);
        return;
    }
    if (message) LLVMDisposeMessage(message);
    message = NULL;
#endif
    if (j->q->tier) {
        LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
        LLVMErrorRef e = LLVMRunPasses(m, "function(sroa,early-cse)", tm, o);
        LLVMDisposePassBuilderOptions(o);
        if (e) {
            char *text = LLVMGetErrorMessage(e);
            pthread_mutex_lock(&j->lock);
            if (!atomic_load(&j->rc)) nf_fail(&j->error, NF_EINTERNAL, "LLVM: passes: %s", text);
            atomic_store(&j->rc, NF_EINTERNAL);
            pthread_mutex_unlock(&j->lock);
            LLVMDisposeErrorMessage(text);
        }
    }
    if (!atomic_load(&j->rc) && LLVMTargetMachineEmitToMemoryBuffer(tm, m, LLVMObjectFile, &message, &j->object[batch])) {
        fail(j, "no object", message);
        j->object[batch] = NULL;
    }
    LLVMDisposeModule(m);
}

static void *compile_thread(void *arg)
{
    struct job *j = arg;
    LLVMContextRef cx = LLVMContextCreate();
    LLVMTargetMachineRef tm = machine(j);
    for (uint32_t b; tm && !atomic_load(&j->rc) && (b = atomic_fetch_add(&j->next, 1)) < j->batches;) compile_batch(j, b, cx, tm);
    if (tm) LLVMDisposeTargetMachine(tm);
    LLVMContextDispose(cx);
    return NULL;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static int compile(const struct emit_request *q, struct emit_objects *ret, struct nf_error *err)
{
    struct job j = {.q = q, .t = q->target, .batches = (q->count + q->batch - 1) / q->batch, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread[THREADS_MAX];
    int started = 0, wanted = NF_MIN(NF_MIN(q->threads, THREADS_MAX), (int)j.batches);
    pthread_once(&once, initialise);
    j.object = nf_alloc_array(j.batches + 1, sizeof *j.object);
    while (started + 1 < wanted && pthread_create(&thread[started], NULL, compile_thread, &j) == 0) started++;
    compile_thread(&j);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    int rc = atomic_load(&j.rc);
    if (rc && err) *err = j.error;
    struct emit_objects o = {.object = nf_alloc_array(j.batches + 1, sizeof *o.object)};
    for (uint32_t b = 0; b < j.batches; b++) {
        if (!j.object[b]) continue;
        size_t n = LLVMGetBufferSize(j.object[b]);
        char *copy = nf_alloc(n + 1);
        memcpy(copy, LLVMGetBufferStart(j.object[b]), n);
        o.object[o.count++] = nf_str_n(copy, n);
        LLVMDisposeMemoryBuffer(j.object[b]);
    }
    free(j.object);
    pthread_mutex_destroy(&j.lock);
    if (rc) {
        for (uint32_t b = 0; b < o.count; b++) free((void *)(uintptr_t)o.object[b].data);
        free(o.object);
        return rc;
    }
    *ret = o;
    return 0;
}

static int assembly(const struct emit_request *q, struct nf_buf *out, struct nf_error *err)
{
    struct job j = {.q = q, .t = q->target, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_once(&once, initialise);
    LLVMContextRef cx = LLVMContextCreate();
    LLVMTargetMachineRef tm = machine(&j);
    for (uint32_t i = 0; tm && i < q->count; i++) {
        char name[32], *message = NULL;
        LLVMMemoryBufferRef text = NULL;
        LLVMModuleRef m = LLVMModuleCreateWithNameInContext("kernel", cx);
        LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
        LLVMSetTarget(m, q->target->triple);
        LLVMSetModuleDataLayout(m, layout);
        LLVMDisposeTargetData(layout);
        nf_format(name, sizeof name, "k%u", i);
        emit_kernel(m, name, q->prog[i], q->target);
        LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
        LLVMErrorRef e = LLVMRunPasses(m, "function(sroa,early-cse)", tm, o);
        if (e) LLVMConsumeError(e);
        LLVMDisposePassBuilderOptions(o);
        if (LLVMTargetMachineEmitToMemoryBuffer(tm, m, LLVMAssemblyFile, &message, &text)) {
            fail(&j, "no assembly", message);
        } else {
            nf_buf_add(out, LLVMGetBufferStart(text), LLVMGetBufferSize(text));
            LLVMDisposeMemoryBuffer(text);
        }
        LLVMDisposeModule(m);
    }
    if (tm) LLVMDisposeTargetMachine(tm);
    LLVMContextDispose(cx);
    int rc = atomic_load(&j.rc);
    if (rc && err) *err = j.error;
    return rc;
}

static void llvm_version(unsigned *major, unsigned *minor, unsigned *patch) { LLVMGetVersion(major, minor, patch); }

extern const struct emit_module neffd_llvm_module;
__attribute__((visibility("default"))) const struct emit_module neffd_llvm_module = {EMIT_MODULE_VERSION, compile, llvm_version, assembly};
