# StarPU, MPI and CUDA take a command up to a fifth of a second to load: train and profile alone do, in a program of their own
# beside it. Away from that program the command says so, and does the rest.
needs_training
! ldd "$orrery" | grep -E 'starpu|libmpi|dnnl|libcu' || exit 1
ldd "$(dirname "$orrery")/orrery-train" | grep -q starpu
cp "$orrery" orrery
./orrery simulate chain:4 -w 2 >out
if ./orrery train "$source/graphs/digits.dot" 2>err; then exit 1; else [ $? -eq 2 ]; fi
grep -x "orrery: /.*/orrery-train: cannot start it: No such file or directory: it runs what trains; install it beside this command" err
ln -s orrery orrery-train # itself
if ./orrery train "$source/graphs/digits.dot" 2>err; then exit 1; else [ $? -eq 2 ]; fi
grep "orrery-train: cannot start it: Too many levels of symbolic links" err
