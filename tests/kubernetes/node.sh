#!/usr/bin/env bash
# The first process of a node: makes its namespaces fit for a kubelet, then buries the processes that nobody else waits for.
# ci/kubernetes starts it as `unshare --mount --net --pid --fork`, with the folder that it shall leave its number in.
set -euo pipefail
run=$1

# kernel_setting NAME VALUE: shows the kubelet the value that it insists on. The machine's own stays what it is: it is not the node's
# to say what happens when this kernel panics, or runs out of memory.
kernel_setting() {
    echo "$2" >"$run/settings/${1//\//.}"
    mount --bind "$run/settings/${1//\//.}" "/proc/sys/$1"
}

# The machine's /proc is still in sight: so this is the number by which it knows this process, and the time of birth beside it.
read -r stat </proc/self/stat
read -r -a fields <<<"${stat##*) }"
known="${stat%% *} ${fields[19]}"

# A pod may ask for mounts that spread; they spread to the end of this namespace.
mount --make-rshared /
mount -t proc proc /proc
# These paths are compiled into the components. What the machine has there is another cluster's.
for folder in /run /var/lib/cni /var/lib/kubelet /var/log/containers; do mount -t tmpfs -o mode=755 node "$folder"; done
mkdir -p "$run/settings"
kernel_setting vm/overcommit_memory 1
kernel_setting vm/panic_on_oom 0
kernel_setting kernel/panic 10
kernel_setting kernel/panic_on_oops 1
kernel_setting kernel/keys/root_maxkeys 1000000
kernel_setting kernel/keys/root_maxbytes 25000000

# Whoever waits for the file may rely on all that is above.
echo "$known" >"$run/node.new"
mv "$run/node.new" "$run/node.pid"
while true; do
    sleep infinity &
    wait
done
