/* mesh.h: device meshes, as sdy.mesh and #stablehlo.mesh spell them, and the groups of devices that their axes name.
 *
 * A mesh is a list of axes; a device's position is its coordinates in row-major order, and device_ids says which device stands there
 * (device i at position i without them). An axis, or a part of one, is a digit of the position. */
#ifndef NEFFD_PIPELINE_HLO_MESH_H
#define NEFFD_PIPELINE_HLO_MESH_H

#include "base/error.h"
#include "pipeline/hlo/ir.h"

#define HLO_MESH_AXES_MAX 16
#define HLO_MESH_DEVICES_MAX 65536

/* A digit: position / stride % size. */
struct hlo_mesh_part {
    int64_t size, stride;
};

struct hlo_mesh {
    unsigned n;
    struct nf_str name[HLO_MESH_AXES_MAX];  /* views of the attribute's text */
    int64_t size[HLO_MESH_AXES_MAX], stride[HLO_MESH_AXES_MAX];
    int64_t devices;
    int64_t *device_at;                     /* by position; a permutation of 0 .. devices - 1, or (maximal mesh) one device */
    unsigned n_manual;                      /* of a manual computation: its axes */
    struct hlo_mesh_part manual[HLO_MESH_AXES_MAX];
};

/* `mesh`: a symbol of the module's, or the attribute itself. False: there is none, or it is spelled otherwise or larger than the limits. */
bool hlo_mesh_of(const struct hlo_module *m, const struct hlo_attr *mesh, struct nf_arena *arena, struct hlo_mesh *ret);

/* The axis of that name, or its part (pre)size: the axis taken as digits pre, size, rest. size 0: the whole. False: no such part. */
bool hlo_mesh_part(const struct hlo_mesh *mesh, struct nf_str name, int64_t pre, int64_t size, struct hlo_mesh_part *ret);

/* One sharding: the parts that each dimension is cut by, the first one outermost. */
#define HLO_MESH_RANK_MAX 32
struct hlo_mesh_cut {
    int rank;
    struct hlo_mesh_part parts[HLO_MESH_RANK_MAX][8];
    unsigned n_parts[HLO_MESH_RANK_MAX];
};

/* Takes the next <@mesh, [{"x", "y"}, {"z":(1)2}, {?}] ...> of a list from the text. False at anything else. */
bool hlo_mesh_next_cut(const struct hlo_mesh *mesh, struct nf_str *text, struct hlo_mesh_cut *ret);

/* How many pieces dimension d is cut into. */
int64_t hlo_mesh_pieces(const struct hlo_mesh_cut *cut, int d);

/* sdy.manual_computation: its mesh, of at most HLO_MESH_MANUAL_MAX devices, and how its manual axes cut each operand and then each result. Every
 * device runs the region, on whole arrays as far as other axes are concerned. Where shapes are known, pieces have those of the region's arguments
 * and results. NF_EUNSUPPORTED without a place. */
#define HLO_MESH_MANUAL_MAX 1024
int hlo_mesh_manual(const struct hlo_module *m, const struct hlo_op *op, struct nf_arena *arena, struct hlo_mesh *ret_mesh, struct hlo_mesh_cut **ret_cuts,
                    struct nf_error *err);
/* None of them cuts anything. */
bool hlo_mesh_uncut(const struct hlo_mesh_cut *cuts, uint32_t n);

/* Where the piece of the device at a position starts, pieces having these dimensions. */
void hlo_mesh_start(const struct hlo_mesh_cut *cut, int64_t pos, const int64_t *piece, int64_t *ret_start);
/* The positions whose pieces make up the array that the device at `pos` has one of: they differ in the digits that it is cut by. By piece, in
 * row-major order; returns how many, at most the devices. */
int64_t hlo_mesh_pieces_of(const struct hlo_mesh_cut *cut, int64_t pos, int64_t *ret);
/* May a manual computation over `inner` that cuts arrays stand in one over `outer`? They have the same devices in the same places, and no axis of
 * one is an axis of the other. Then *outer has the axes of both. */
bool hlo_mesh_nest(struct hlo_mesh *outer, const struct hlo_mesh *inner);

/* Takes the next axis reference from the text: "x", "x":(1)2 or #stablehlo.axis_ref<name = "x", sub_axis_info = (1)2>, up to behind it.
 * False: there is no quote before `end`, or the mesh has no such part (*ret_bad). */
bool hlo_mesh_next_part(const struct hlo_mesh *mesh, struct nf_str *text, char end, struct hlo_mesh_part *ret, bool *ret_bad);

/* Replica groups given by mesh axes, as a matrix of device ids, one group a row: groups in order of the axes that are not named,
 * members in order of those that are. */
bool hlo_mesh_groups(const struct hlo_module *m, const struct hlo_mesh_axes *axes, struct nf_arena *arena, int64_t *ret_rows, int64_t *ret_cols, int64_t **ret_ids);

#endif
