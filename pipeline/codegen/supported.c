/* supported.c: which row programs there is machine code for. The rest is interpreted by the runtime. */
#include "pipeline/codegen/emit_internal.h"

int emit_class(enum cpu_dt t)
{
    if (t == CPU_PRED) return 1;
    if (cpu_dt_int(t)) return 2;
    if (t <= CPU_F32) return 3;
    return t == CPU_F64 ? 4 : 0;
}

bool emit_supported(const struct rp_prog *p, const struct emit_target *t, const char **ret_why)
{
    for (int i = 0; i < p->nins; i++) {
        const struct rp_ins *s = &p->ins[i];
        int c = emit_class((enum cpu_dt)s->dt), from = c;
        bool ok = true;
        *ret_why = rp_op_info[s->op].name;
        if (s->op == RP_PASS || s->op == RP_ONCE) continue;
        if (rp_op_info[s->op].nsrc) from = emit_class((enum cpu_dt)p->ins[s->src[0]].dt);
        if (c == 0 || from == 0) return false;
        if ((s->dt == CPU_F16 || (rp_op_info[s->op].nsrc && p->ins[s->src[0]].dt == CPU_F16)) && !t->f16) return false;
        switch ((int)s->op) {
        case RP_CBRT: case RP_ERF: case RP_ERFC: ok = c == 3; break;
        case RP_POW: case RP_REM: ok = c <= 3; break;
        case RP_SINH: case RP_COSH: case RP_ATAN2: ok = c == 3 || c == 4; break;
        case RP_PREC: ok = s->dt == CPU_F32 || s->dt == CPU_BF16; break;
        case RP_EXP: case RP_EXPM1: case RP_LOG: case RP_LOG1P: case RP_LOGISTIC: case RP_TANH: case RP_SIN: case RP_COS: ok = c == 3 || c == 4; break;
        case RP_TAN: ok = c == 3 || c == 4; break;
        case RP_ASIN: case RP_ACOS: case RP_ATAN: case RP_ASINH: case RP_ACOSH: case RP_ATANH: case RP_ERFINV: case RP_LGAMMA: case RP_DIGAMMA:
        case RP_I1E: case RP_COMPLEX: case RP_NEXTAFTER: case RP_MULHI: case RP_ZETA: case RP_POLYGAMMA: case RP_OP_MAX:
            ok = false;
            break;
        case RP_BITS: ok = s->dt != CPU_PRED && p->ins[s->src[0]].dt != CPU_PRED; break;
        default: break;
        }
        if (!ok) return false;
    }
    return true;
}

