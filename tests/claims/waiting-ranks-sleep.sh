# What StarPU's thread for MPI looks for messages with is Orrery's function, which sleeps where others want the core, and not
# Open MPI's, which calls sched_yield for each message: threads that do starve whatever else the machine does.
needs_training
LD_BIND_NOW=1 LD_DEBUG=bindings "$orrery-train" --version 2>&1 | grep -a "/libstarpumpi.*\`MPI_Test'" >bound || exit 77 # no MPI
grep -q 'to [^ ]*orrery[^/ ]* \[0\]: ' bound
