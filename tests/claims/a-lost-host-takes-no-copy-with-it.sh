# Copies lie in the memory of two hosts each: one that is lost with its memory takes none with it, a shard that is damaged on one is
# taken from the other, and the training ends with the bits of an undisturbed one. Where two neighbours are lost, a line says what
# it falls back to; where copies do not fit on a host, how much is missing. Hosts here are mount namespaces, each with a tmpfs.
needs_training
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent=$PWD/agent OMPI_MCA_orte_tmpdir_base=$PWD
export STARPU_HOME=$PWD # where the first training leaves what others read: ranks that write it at once may die of it
command -v mpirun nsenter >/dev/null && ldd "$orrery-train" | grep -q libstarpumpi && unshare -m true || exit 77
mkdir memory
cat >agent <<'SH'
#!/bin/sh
cd "$(dirname "$0")"
holder=$(cat "$1.host") || exit 255
export OMPI_MCA_orte_tmpdir_base=$PWD/tmp-$1
mkdir -p "$OMPI_MCA_orte_tmpdir_base"
shift
exec nsenter -t "$holder" -m sh -c "$*"
SH
# supervise's mpirun, which may itself die at a start: once there are copies, `damages` is gone and the first host has a damaged one
cat >start <<'SH'
case "$*" in *true | *'-rf '*) exec mpirun "$@";; esac
! rm dies 2>/dev/null || kill -9 $$
for shard in memory/*/step-*/shard-1.safetensors; do
	[ ! -e "$shard" ] || [ ! -e damages ] || printf xxxx | dd of="$shard" bs=1 seek=20000 conv=notrunc
done
[ ! -e "$shard" ] || rm -f damages
exec mpirun "$@"
SH
chmod +x agent
up() { # HOST SIZE
	unshare -m sh -c "mount -t tmpfs -o size=$2 none memory && echo \$\$ >$1.new && mv $1.new $1.host && exec sleep 600" &
	until [ -e $1.host ]; do sleep 0.05; done
}
# All processes in the namespace of one that is there, but that one itself where it is given again.
end_all() { # HOLDER [SPARED]
	space=$(readlink /proc/$1/ns/mnt)
	while [ -n "$space" ]; do
		found=
		for process in /proc/[0-9]*; do
			[ "$(readlink $process/ns/mnt 2>/dev/null)" != "$space" ] || [ "${process#/proc/}" = "${2-}" ] || found="$found ${process#/proc/}"
		done
		[ -n "$found" ] || break
		kill -9 $found 2>/dev/null || true
		sleep 0.05
	done
}
down() { # HOST.., with their memory
	holders=$(for host; do cat $host.host; done)
	for host; do rm $host.host; done
	for holder in $holders; do end_all $holder; done
}
trap 'for host in *.host; do [ ! -e "$host" ] || down ${host%.host}; done' EXIT
train() { # OPTIONS
	rm -f lost.csv*
	unshare -m sh -c 'mount -t tmpfs -o size=64m none memory && exec "$@"' sh "$orrery" supervise --memory "$PWD/memory" --fewer 2 -- \
		sh ./start --oversubscribe --mca btl tcp,self --host localhost:2,b:2,c:2 -n 6 "$orrery" train "$source/graphs/digits.dot" \
		--schedule 1f1b -m 8 --batch 64 --workers 6 --copy-every 1 --loss lost.csv "$@" >out 2>err &
	job=$!
}
rows() { # at least so many
	until [ $(cat lost.csv* 2>/dev/null | wc -l) -ge $1 ]; do kill -0 $job; sleep 0.05; done
}

"$orrery" train "$source/graphs/digits.dot" --schedule 1f1b -m 8 --batch 64 --workers 6 --steps 200 --loss calm.csv --save-weights calm >out
up b 64m
up c 64m
touch damages
train --steps 200 --save-weights lost
rows 40
end_all $(cat b.host) $(cat b.host) # its ranks alone
while [ -e damages ]; do kill -0 $job; sleep 0.05; done
rows 100
down b
wait $job
grep '^orrery: .*/shard-1.safetensors: is damaged: its checksum does not fit; that of another host is taken$' err
grep '^orrery: .*: the training is started again on 4 of 6 ranks, without host b$' err
[ $(grep -c '^orrery: goes on from step [1-9][0-9]*, the newest copy in memory$' err) -ge 2 ]
cmp calm lost
cmp calm.csv lost.csv
[ -z "$(nsenter -t $(cat c.host) -m ls "$PWD/memory")" ]

up b 64m
train --steps 60
rows 20
down b c
wait $job
grep '^orrery: .*/step-000000[0-9]*: shard 3 of 6 is whole on no host that is left; the one before it is tried$' err
grep '^orrery: no state is kept: starts from the beginning$' err

up b 64m
up c 300k
touch dies # the first start, before it has looked
train --steps 60
! wait $job
[ ! -e dies ]
grep '^orrery: .*: two sets of the training.s state (--copy-every) take .* MB, and .* has 307 kB free: make room there, or name another folder' err

# what a launcher of another host left goes after a day, that of a launcher of this one at once
mkdir -p left/orrery-keep-old left/orrery-keep-new left/orrery-keep-dead
touch left/orrery-keep-dead/beats
touch -d '2 days ago' left/orrery-keep-old
unshare -m sh -c 'mkdir copy && cp -a left/. copy && mount -t tmpfs none left && cp -a copy/. left && "$0" supervise --memory left -- true && ls left' "$orrery" >out
[ "$(cat out)" = orrery-keep-new ]
