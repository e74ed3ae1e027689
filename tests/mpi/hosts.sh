#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: hosts.sh <mpirun> <plug-in> <folder of the tests>: tests of several ranks as three ranks on
# three hosts, over TCP. The hosts are network namespaces of this machine, each with a host name, a
# loopback and an address, joined by a bridge. Skipped (77) outside of the nightly tier, and where
# they cannot be made.
set -u
mpirun=$1 plug_in=$2 tests=$3
skip() {
    echo "skipped: $1"
    exit 77
}
[ "${PH_TEST_TIER:-}" = nightly ] || skip "the nightly tier alone makes network namespaces"
[ -n "$mpirun" ] || skip "there is no MPI"
"$mpirun" --version | grep -q 'Open MPI' || skip "the options of the launcher are Open MPI's"
[ "$(id -u)" = 0 ] || skip "network namespaces need root"
command -v ip >/dev/null && command -v unshare >/dev/null || skip "ip (iproute2) or unshare is missing"

name=ph$$
folder=$(mktemp -d)
clean() {
    for i in 1 2 3; do ip netns del "$name-$i"; done
    for i in 1 2 3; do ip link del "$name.$i"; done
    ip link del "$name"
    rm -rf "$folder"
} 2>/dev/null
trap clean EXIT
trap 'exit 1' INT TERM HUP
make_hosts() {
    ip link add "$name" type bridge && ip link set "$name" up || return 1
    for i in 1 2 3; do
        ip netns add "$name-$i" && ip link add "$name.$i" type veth peer name eth0 netns "$name-$i" &&
            ip link set "$name.$i" master "$name" up && ip -n "$name-$i" link set lo up &&
            ip -n "$name-$i" addr add "10.213.77.$i/24" dev eth0 && ip -n "$name-$i" link set eth0 up || return 1
    done
}
make_hosts 2>"$folder/log" || skip "network namespaces cannot be made: $(head -1 "$folder/log")"
cat >"$folder/agent" <<END
#!/bin/sh
i=\${1##*.}
shift
exec ip netns exec $name-\$i unshare -u sh -c "hostname $name-\$i; \$*"
END
chmod +x "$folder/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PH_COMM_MPI="$plug_in" PH_TEST_RANKS=3 PH_TEST_RANK_FOLDER
failed=0
for test in captured agreement communicators data_parallel_options tensor_collectives; do
    PH_TEST_RANK_FOLDER=$folder/$test
    mkdir "$PH_TEST_RANK_FOLDER"
    "$folder/agent" 1 "$mpirun" -n 3 --host 10.213.77.1,10.213.77.2,10.213.77.3 \
        --mca plm_rsh_agent "$folder/agent" --mca btl tcp,self \
        --mca btl_tcp_if_include 10.213.77.0/24 --mca oob_tcp_if_include 10.213.77.0/24 \
        -x PH_COMM_MPI -x PH_TEST_RANKS -x PH_TEST_RANK_FOLDER "$tests/$test" >"$folder/log" 2>&1
    passed=$(find "$PH_TEST_RANK_FOLDER" -name 'passed.*' | wc -l)
    echo "mpi.$test: $passed of 3 ranks passed"
    [ "$passed" = 3 ] || { failed=1 && tail -40 "$folder/log"; }
done
exit $failed
