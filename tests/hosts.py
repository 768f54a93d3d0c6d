"""Hosts on one machine: network namespaces, every two joined by a pair of virtual Ethernet devices. No address outside of them is
used."""
import contextlib
import json
import os
import pathlib
import shlex
import subprocess
import time


def call(command):
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f'{command}: {done.stderr.strip()}')
    return done.stdout


def shape(name, device, mbit):
    """What leaves there goes at this rate. A burst is sent at once after a pause, which is time won by each pause: two frames,
    where the rate allows it."""
    call(f'ip netns exec {name} tc qdisc add dev {device} root tbf rate {mbit}mbit burst {max(4000, mbit * 1000 // 8)} limit 4000000')
    call(f'ip -n {name} link set {device} gso_max_segs {max(1, mbit // 16)} up')


class Hosts:
    """n namespaces, joined by links of `mbit` each way; gone at the end, with all that runs in them."""

    def __init__(self, n, mbit):
        self.names = [f'orrery-{os.getpid()}-{k}' for k in range(n)]
        self.mbit = mbit
        self.idle = []   # a process in each, whose /proc has the counters

    def __enter__(self):
        try:
            for name in self.names:
                call(f'ip netns add {name}')
                call(f'ip -n {name} link set lo up')
                # A slow link stands for a fast one: no slow start after a pause, and no more under way in the shaper than
                # a few frames, behind which the other connection's frames would wait for many milliseconds.
                for setting, value in {'tcp_slow_start_after_idle': 0, 'tcp_limit_output_bytes': self.mbit * 200}.items():
                    call(f"ip netns exec {name} sh -c 'echo {value} >/proc/sys/net/ipv4/{setting}'")
            self.connect()
            for name in self.names:
                self.idle.append(subprocess.Popen(['ip', 'netns', 'exec', name, 'sleep', 'infinity']))
            while len({i for i, _ in self.counters()}) < len(self.names):   # they have not yet moved in
                time.sleep(0.01)
        except (OSError, FileNotFoundError):
            self.__exit__()
            raise
        return self

    def connect(self):
        for i, name in enumerate(self.names):
            for k in range(i):
                call(f'ip -n {name} link add name to{k} type veth peer name to{i} netns {self.names[k]}')
        for i, name in enumerate(self.names):
            others = [k for k in range(len(self.names)) if k != i]
            call(f'ip -n {name} address add {address(i)}/32 dev to{others[0]}')
            for k in others:
                shape(name, f'to{k}', self.mbit)
                call(f'ip -n {name} route add {address(k)}/32 dev to{k} src {address(i)}')

    def __exit__(self, *_):
        for process in self.idle:
            process.kill()
            process.wait()
        for name in self.names:
            with contextlib.suppress(OSError):
                for pid in call(f'ip netns pids {name}').split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), 9)
                call(f'ip netns delete {name}')

    def cut(self, k):
        """No frame passes between host k and the others."""
        for i in range(len(self.names)):
            if i != k:
                call(f'ip -n {self.names[k]} link set to{i} down')

    def join(self, k):
        for i in range(len(self.names)):
            if i != k:
                call(f'ip -n {self.names[k]} link set to{i} up')
                call(f'ip -n {self.names[k]} route replace {address(i)}/32 dev to{i} src {address(k)}')

    def counters(self):
        """Bytes that each host has sent over each of its links: {(from, to): bytes}."""
        found = {}
        for i, process in enumerate(self.idle):
            for line in pathlib.Path(f'/proc/{process.pid}/net/dev').read_text(encoding='ascii').splitlines()[2:]:
                name, numbers = line.split(':')
                if name.strip().startswith('to'):
                    found[i, int(name.strip()[2:])] = int(numbers.split()[8])
        return found

    def losses(self):
        """Of all hosts: frames that shapers dropped, and TCP's segments sent again and timeouts."""
        found = {'dropped': 0, 'RetransSegs': 0, 'TCPTimeouts': 0}
        for name, process in zip(self.names, self.idle):
            found['dropped'] += sum(link.get('drops', 0) for link in json.loads(call(f'ip netns exec {name} tc -s -j qdisc')))
            for file in 'snmp', 'netstat':
                lines = pathlib.Path(f'/proc/{process.pid}/net/{file}').read_text(encoding='ascii').splitlines()
                for names, numbers in zip(lines[::2], lines[1::2]):
                    for key, number in zip(names.split(), numbers.split()):
                        if key in found:
                            found[key] += int(number)
        return found


class Racks(Hosts):
    """Hosts in two racks of as many each: a bridge joins those of a rack, and an uplink of `mbit` each way the two. A host's link
    to its bridge has FAST times the rate. The uplink's queue is first in, first out: connections share it by what each has under
    way, so that is the same for all, and little, since short messages wait behind it."""

    FAST = 8

    def __enter__(self):
        self.switch = f'orrery-{os.getpid()}-switch'
        call(f'ip netns add {self.switch}')
        return super().__enter__()

    def connect(self):
        n = len(self.names)
        call(f'ip -n {self.switch} link add name up0 type veth peer name up1')
        for rack in range(2):
            call(f'ip -n {self.switch} link add name rack{rack} type bridge')
            call(f'ip -n {self.switch} link set rack{rack} up')
            call(f'ip -n {self.switch} link set up{rack} master rack{rack}')
            shape(self.switch, f'up{rack}', self.mbit)
        for k, name in enumerate(self.names):
            call(f'ip -n {name} link add name to0 type veth peer name host{k} netns {self.switch}')
            call(f'ip -n {self.switch} link set host{k} master rack{k // (n // 2)}')
            call(f'ip -n {name} address add {address(k)}/24 dev to0')
            call(f"ip netns exec {name} sh -c 'echo 4096 16384 16384 >/proc/sys/net/ipv4/tcp_rmem'")
            shape(name, 'to0', self.FAST * self.mbit)
            shape(self.switch, f'host{k}', self.FAST * self.mbit)

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        with contextlib.suppress(OSError):
            call(f'ip netns delete {self.switch}')


class Memory:
    """A host's own memory: a tmpfs over the folder, in a mount namespace that a process keeps until the host is lost."""

    def __init__(self, folder):
        # pylint: disable-next=consider-using-with
        self.holder = subprocess.Popen(['unshare', '-m', 'sh', '-c', 'mount -t tmpfs none "$0" && echo && exec sleep infinity', str(folder)],
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if not self.holder.stdout.readline():
            raise OSError('no tmpfs in a mount namespace')
        self.space = os.readlink(f'/proc/{self.holder.pid}/ns/mnt')

    def processes(self):
        for process in pathlib.Path('/proc').glob('[0-9]*'):
            with contextlib.suppress(OSError):
                if os.readlink(process / 'ns/mnt') == self.space:
                    yield int(process.name)

    def lose(self):
        """With all that runs there."""
        while found := list(self.processes()):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            self.holder.poll()
            time.sleep(0.01)
        self.holder.wait()


def address(k):
    return f'10.91.7.{k + 1}'


def write_agent(path, hosts, work):
    """What mpirun calls as ssh: ADDRESS COMMAND. A host has its own folder for temporary files: two daemons that make one
    folder at once end the run."""
    n_cores = os.cpu_count()
    prefix = hosts.names[0].rpartition('-')[0]
    path.write_text('#!/bin/sh\nhost=$((${1##*.} - 1))\nshift\n'
                    f'export STARPU_HOSTNAME=host$host OMPI_MCA_orte_tmpdir_base={work}/$host\n'
                    'mkdir -p "$OMPI_MCA_orte_tmpdir_base"\n'
                    f'exec ip netns exec {prefix}-$host taskset -c $((host % {n_cores})) sh -c "$*"\n', encoding='ascii')
    path.chmod(0o755)


def mpirun(hosts, agent):
    """On the first of them: a process a host."""
    n = len(hosts.names)
    return ['mpirun', '--bind-to', 'none', '--mca', 'plm_rsh_agent', str(agent), '--mca', 'btl', 'tcp,self',
            '--mca', 'btl_tcp_if_include', address(0) + '/24', '--mca', 'oob_tcp_if_include', address(0) + '/24',
            '-n', str(n), '--host', ','.join(address(k) for k in range(n))]
