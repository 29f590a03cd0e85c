#!/bin/sh
# Prints running, success or failed for a job of PBS, which has to keep finished jobs
# (job_history_enable): status-pbs.sh ID
said=$(qstat -x -f "$1" 2>&1) || case $said in
*"Unknown Job Id"*) echo failed; exit ;;
*) echo running; exit ;;
esac
case $(printf %s "$said" | sed -n 's/.*job_state = //p') in
F) ;;
*) echo running; exit ;;
esac
case $(printf %s "$said" | sed -n 's/.*Exit_status = //p') in
0) echo success ;;
*) echo failed ;;
esac
