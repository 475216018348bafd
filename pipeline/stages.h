/* stages.h: numbers of neffd.v1.Stage, for code that does not see the messages (tests compare them). */
#ifndef NEFFD_PIPELINE_STAGES_H
#define NEFFD_PIPELINE_STAGES_H

enum pipe_stage {
    PIPE_STAGE_NONE = 0,
    PIPE_STAGE_IMPORT,
    PIPE_STAGE_FX_PASSES,
    PIPE_STAGE_AUTODIFF,
    PIPE_STAGE_STABLEHLO,
    PIPE_STAGE_COMPILE,
    PIPE_STAGE_PUBLISH,
    PIPE_STAGE_MAX,
};

#endif
