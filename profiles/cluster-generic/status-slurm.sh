#!/bin/sh
# Prints running, success or failed for a job of SLURM: status-slurm.sh ID
if said=$(scontrol show job "$1" 2>&1); then
    state=$(printf %s "$said" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p')
else
    case $said in
    # Forgotten by the controller; the accounting database, if there is one, knows how it ended.
    *"Invalid job id"*) state=$(sacct -X -n -P -o State -j "$1" 2> /dev/null || true) ;;
    # The controller is busy or down, which says nothing about the job.
    *) state=RUNNING ;;
    esac
fi
case $state in
COMPLETED) echo success ;;
PENDING | CONFIGURING | RUNNING | SUSPENDED | STOPPED | COMPLETING | REQUEUED | REQUEUE_HOLD | RESIZING | SIGNALING | STAGE_OUT) echo running ;;
*) echo failed ;;
esac
