/* json.h: JSON on stdout (interface page): messages of the proto with their field names, every field printed, bytes as hex, enums
 * in lower case without prefix, absent messages null, 64-bit integers as numbers. Strings that are not UTF-8 are mended. */
#ifndef NEFFD_CLIENT_CTL_JSON_H
#define NEFFD_CLIENT_CTL_JSON_H

#include "proto/rpc.h"

#include <json-c/json.h>

/* Owned by the caller (json_object_put). message NULL gives NULL, which json-c prints as null. */
struct json_object *ctl_json_of_message(const ProtobufCMessage *message);
struct json_object *ctl_json_str(const char *text);
struct json_object *ctl_json_u64(uint64_t value);
/* Shortest text that reads back the same; infinity as 1e999, NaN as null. */
struct json_object *ctl_json_double(double value);
/* One line on stdout, flushed; takes the object. */
void ctl_json_print(struct json_object *object);

#endif
