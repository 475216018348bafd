/* wire.h: what the wire's messages mean to the client: events and amounts as words for people. */
#ifndef NEFFD_CLIENT_WIRE_H
#define NEFFD_CLIENT_WIRE_H

#include "proto/rpc.h"

/* One line without a newline, e.g. "compile: 42 % (about 3 s left)". Empty when the event says nothing to people (send_input). */
void cl_event_line(const Neffd__V1__CompileEvent *event, struct nf_buf *out);

/* "1.4 s", "12 ms", "850 us"; "3 min 20 s"; for people. */
void cl_add_duration_us(struct nf_buf *out, uint64_t us);
/* "12.3 MiB"; for people. */
void cl_add_bytes(struct nf_buf *out, uint64_t bytes);

/* "nearest: \"bert\" (1a2b3c4d...): option optlevel: 2 -> 1; input 3: tensor<8xf32> -> tensor<16xf32>"; "no entry is near". At most
 * max_differences are written out (0: all), then "and 3 more". */
void cl_explanation_line(const Neffd__V1__Explanation *e, size_t max_differences, struct nf_buf *out);
/* The same over several lines, each difference with its location. */
void cl_explanation_text(const Neffd__V1__Explanation *e, struct nf_buf *out);

/* Lower case without the enum's prefix ("hit_local"); "unspecified" for an unknown number. */
const char *cl_enum_word(const ProtobufCEnumDescriptor *descriptor, int value, char *out, size_t out_size);

#endif
