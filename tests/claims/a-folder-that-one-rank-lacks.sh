# --resume where one rank does not see the checkpoints, as on a host without the shared folder: the training ends and says so, and
# they stay as they are; once it sees them it goes on.
needs_training
command -v mpirun >/dev/null || { echo there is no mpirun && exit 77; }
unshare -m true 2>/dev/null || { echo no namespace may be made here && exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=$PWD orrery
cat >lacks <<'END'
[ "$OMPI_COMM_WORLD_RANK" != "$1" ] || { mount -t tmpfs tmpfs run; } || exit 9
shift
exec "$@"
END
train() { # RANK STEPS ...
	rank=$1 steps=$2
	shift 2
	timeout 120 mpirun --oversubscribe -n 2 unshare -m sh lacks "$rank" "$orrery" train "$source/graphs/digits.dot" -w 2 --steps "$steps" \
		--checkpoint run "$@" >out 2>err
}
train none 3
[ "$(ls run)" = step-00000003 ]
cp -r run before
code=0
train 1 5 --resume || code=$?
[ $code -eq 1 ]
grep '^orrery: rank 1: run: step 3 is there for the first rank and not for rank 1: all ranks read the same folder$' err
code=0
train 0 5 --resume || code=$?
[ $code -eq 2 ]
grep '^orrery: run: no checkpoint there is whole: ' err
diff -r run before
train none 5 --resume
[ -d run/step-00000005 ]
