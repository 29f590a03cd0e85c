#!/bin/sh
# Prints running, success or failed for a job of LSF: status-lsf.sh ID
state=$(bjobs -noheader -o stat "$1" 2> /dev/null) || state=UNKWN
case $state in
DONE) echo success ;;
EXIT | ZOMBI | "") echo failed ;;
*) echo running ;;
esac
