/* evaluator_device.h: the evaluator as a device ("evaluator"): runs the canonical module that an artifact of target cpu carries.
 *
 * Programs of several replicas or ranks (world_size > 1) meet in collectives when they were loaded by one process with one group
 * name; without a group each runs alone. */
#ifndef NEFFD_PIPELINE_HLO_EVALUATOR_DEVICE_H
#define NEFFD_PIPELINE_HLO_EVALUATOR_DEVICE_H

#include "runtime/device.h"

extern const struct rt_device_ops hlo_evaluator_device;      /* "evaluator" */

#endif
