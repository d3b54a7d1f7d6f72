# A cluster of our own: what it is built from, its processes, and its end. Sourced by ci/kubernetes, never run; the reasons for its
# shape stand there.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # Variables come from the file that sources this one, and go to the one that it sources.

net=${ASSAY_KUBERNETES_NET:-10.213}
cpus=${ASSAY_KUBERNETES_CPUS:-none}

# What the machine sees of it, the interface and the control group, is named by network: so two clusters can stand side by side.
seen=assay-${net//./-}
machine=$net.0.1
node=$net.0.2
pods=$net.1.0/24
services=$net.2.0/24
api_service=$net.2.1
dns_service=$net.2.10
api=https://$node:6443

# A claim takes one volume for good: nothing here wipes what somebody has written, so there are enough for many tests.
volumes=32

config=$run/config
keys=$run/keys
socket=$run/containerd.sock

# The longest that a component may take to come up, on a machine that is busy with a build.
patience_seconds=120

# What is built, by what it is built from.
bin=$cache/kubernetes-$(cat tests/kubernetes/go.{mod,sum} tests/kubernetes/{dns,pause}/*.go | sha256sum | cut -c 1-16)

# shellcheck source=files.sh
source tests/kubernetes/files.sh

own_up() {
    # A node that crashed has left its control groups and empty folders.
    own_down
    phase "programs" programs
    phase "binaries" binaries
    phase "files" files
    phase "node" start_node
    phase "control plane" start_control_plane
    phase "objects" create_objects
    phase "workers" start_workers
    phase "ready" until_ready
}

refuse() {
    [ "$(uname -s) $(id -u)" = "Linux 0" ] ||
        fail "a cluster of our own needs Linux and root" "install kind, or name a cluster's kubeconfig in ASSAY_KUBECONFIG_IN"
    [[ $net =~ ^[0-9]{1,3}\.[0-9]{1,3}$ ]] || fail "ASSAY_KUBERNETES_NET is \`$net\`, not two numbers such as 10.213"
    [[ $cpus =~ ^(none|static)$ ]] || fail "ASSAY_KUBERNETES_CPUS is \`$cpus\`, neither none nor static"
    # The kernel takes no longer path for a socket than 107 bytes, and the kubelet appends 44 to this one.
    [ "${#state}" -le 60 ] || fail "the path of the state folder is too long for sockets: $state" "set ASSAY_KUBERNETES_STATE"
    [[ $state != /run/* ]] || fail "the node has a /run of its own, so its state cannot be there: $state" "set ASSAY_KUBERNETES_STATE"
    local taken
    ! alive node || fail "a cluster is running that does not respond" "take it down first: ci/kubernetes down"
    taken=$(ip -o route show root "$net.0.0/16")
    [ -z "$taken" ] || fail "addresses below $net are taken here: $taken" "set ASSAY_KUBERNETES_NET to two other numbers"
}

programs() {
    need ip iproute2
    need nsenter util-linux
    need openssl openssl
    need python3 python3
    need iptables iptables
    need runc runc
    need containerd containerd
    # What they are called by is in no search path, so `have` installs them, and then misses them.
    [ -n "$(plugins)" ] || have host-local containernetworking-plugins || [ -n "$(plugins)" ] ||
        fail "the plugins of CNI are not installed" "install them with your package manager; on Debian: containernetworking-plugins"
}

# Debian's folder, and everybody else's.
plugins() {
    local folder
    for folder in /usr/lib/cni /opt/cni/bin; do
        [ -x "$folder/bridge" ] && echo "$folder" && return 0
    done
    return 0
}

# The mark comes last, so that an interrupted build is never taken for a whole one.
binaries() {
    [ -e "$bin/complete" ] && return 0
    need_go
    rm -rf "$bin"
    mkdir -p "$bin"
    build . "$bin/" tool ./dns ./pause
    mv "$bin/server" "$bin/etcd"
    touch "$bin/complete"
}

# ---- processes

# The first process makes the namespaces; whatever enters them ends with it.
start_node() {
    local group
    for group in $(control_groups); do mkdir -p "$group/$seen" && inherit_cpus "$group"; done
    empty_folders
    setsid unshare --mount --net --pid --fork --kill-child bash tests/kubernetes/node.sh "$run" \
        >"$logs/node.log" 2>&1 </dev/null &
    remember unshare $!
    wait_until "the node's namespaces" unshare [ -s "$run/node.pid" ]
    connect
    start containerd containerd --config "$config/containerd.toml"
    start etcd "$bin/etcd" --data-dir "$run/etcd" --unsafe-no-fsync --log-level warn \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380
    wait_until "the container engine" containerd containers version
    own_import "$run/pause.tar"
}

# Every hierarchy of version 1, or the only one of version 2.
control_groups() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then echo /sys/fs/cgroup; else dirname /sys/fs/cgroup/*/cgroup.procs; fi
}

# In version 1 a new group has no CPU to run on until it is told.
inherit_cpus() {
    local file
    for file in cpuset.cpus cpuset.mems; do
        [ ! -e "$1/cpuset.sched_load_balance" ] || cat "$1/$file" >"$1/$seen/$file"
    done
}

# These paths are compiled into the components; the node hides the machine's behind empty ones.
empty_folders() {
    local folder
    for folder in /var/lib/cni /var/lib/kubelet /var/log/containers; do
        [ -d "$folder" ] || { mkdir -p "$folder" && echo "$folder" >>"$run/made"; }
    done
}

# The machine reaches pods and Services by way of the node; the node has no way to anywhere else.
connect() {
    ip link add "$seen" type veth peer name eth0 netns "$(handle node)"
    ip address add "$machine/24" dev "$seen"
    ip link set "$seen" up
    inside ip link set lo up
    inside ip address add "$node/24" dev eth0
    inside ip link set eth0 up
    inside sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
    # Rules turn these addresses into a pod's, but what has no route at all never meets a rule.
    inside ip route add "$services" dev lo src "$node"
    ip route add "$pods" via "$node"
    ip route add "$services" via "$node"
}

start_control_plane() {
    start kube-apiserver "$bin/kube-apiserver" \
        --etcd-servers=http://127.0.0.1:2379 --bind-address="$node" --advertise-address="$node" \
        --tls-cert-file="$keys/apiserver.crt" --tls-private-key-file="$keys/apiserver.key" --client-ca-file="$keys/ca.crt" \
        --token-auth-file="$keys/tokens.csv" --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
        --allow-privileged --service-cluster-ip-range="$services" \
        --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --service-account-key-file="$keys/accounts.pub" --service-account-signing-key-file="$keys/accounts.key" \
        --kubelet-certificate-authority="$keys/ca.crt" --kubelet-client-certificate="$keys/apiserver-kubelet-client.crt" \
        --kubelet-client-key="$keys/apiserver-kubelet-client.key" --kubelet-preferred-address-types=InternalIP
    wait_until "the API" kube-apiserver is_up
}

# As after a crash of its own: everything else goes on meanwhile.
restart_api() {
    kill -KILL "$(process_of kube-apiserver)"
    while alive kube-apiserver; do sleep 0.05; done
    start_control_plane
}

# One of each, so nobody else could lead.
start_workers() {
    start kube-controller-manager "$bin/kube-controller-manager" --kubeconfig="$config/controller-manager.kubeconfig" \
        --bind-address=127.0.0.1 --leader-elect=false --use-service-account-credentials \
        --service-account-private-key-file="$keys/accounts.key" --root-ca-file="$keys/ca.crt"
    start kube-scheduler "$bin/kube-scheduler" --kubeconfig="$config/scheduler.kubeconfig" --bind-address=127.0.0.1 \
        --leader-elect=false
    start kubelet "$bin/kubelet" --config="$config/kubelet.yaml" --kubeconfig="$config/kubelet.kubeconfig" \
        --root-dir="$run/kubelet" --cert-dir="$run/kubelet/pki" --hostname-override=assay --node-ip="$node"
    start kube-proxy "$bin/kube-proxy" --config="$config/proxy.yaml"
    start dns "$bin/dns" -conf "$config/Corefile"
}

create_objects() {
    { sed -e "s|@dns_service@|$dns_service|" -e "s|@node@|$node|" tests/kubernetes/cluster.yaml && volume_objects; } |
        k apply --server-side -f - >/dev/null
}

# Everybody may write to them, because nobody sets the owner of a folder of the machine's.
volume_objects() {
    local number
    for number in $(seq "$volumes"); do
        mkdir -m 777 "$run/volumes/$number"
        cat <<END
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume-$number}
spec:
  storageClassName: assay
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce, ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: "$run/volumes/$number", type: Directory}
END
    done
}

until_ready() {
    wait_until "the node" kubelet node_is_ready
    wait_until "the default service account" kube-controller-manager k get serviceaccount default
    wait_until "the scheduler" kube-scheduler listens 10259
    wait_until "a DNS response, through a Service" dns dns_responds
}

node_is_ready() { k wait --for=condition=Ready node/assay --timeout=1s; }

listens() { inside bash -c "</dev/tcp/127.0.0.1/$1"; }

# Asks the Service for its own address, which is the end of the response.
dns_responds() {
    local head='\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00' type='\x00\x01\x00\x01'
    local labels='\x08kube-dns\x0bkube-system\x03svc\x07cluster\x05local\x00'
    timeout 2 bash -c "exec 3<>/dev/udp/$dns_service/53 && printf '$head$labels$type' >&3 && dd bs=512 count=1 <&3 2>/dev/null" |
        tail -c 4 | od -A n -t u1 | tr -s ' ' . | grep -qxF ".$dns_service"
}

# inside COMMAND...: runs it in the node, with nothing of the caller's environment: no proxy, no credentials.
inside() { nsenter --target "$(handle node)" --mount --net --pid -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$run" "$@"; }

containers() { inside ctr --address "$socket" --namespace k8s.io "$@"; }

# start NAME COMMAND...: starts a component in the node. `nsenter` stays its parent, and lives as long as it.
start() {
    local component=$1
    shift
    setsid nsenter --target "$(handle node)" --mount --net --pid -- \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$run" "$@" >"$logs/$component.log" 2>&1 </dev/null &
    remember "$component" $!
}

# A number may be given to another process later, so the time of birth stands beside it.
remember() { echo "$2 $(birth "$2")" >"$run/$1.pid"; }

# Nothing for a process that has ended, though its parent may not have asked yet.
birth() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" { print $20 }'; }

handle() { cut -d ' ' -f 1 "$run/$1.pid"; }

alive() {
    local pid born
    [ -e "$run/$1.pid" ] && read -r pid born <"$run/$1.pid" && [ "$(birth "$pid")" = "$born" ]
}

# Those that were ever started, by name.
components() { find "$run" -maxdepth 1 -name '*.pid' -printf '%f\n' 2>/dev/null | sed 's/\.pid$//' | sort; }

# wait_until WHAT COMPONENT COMMAND...: until the command succeeds. A component that is gone ends it, and so does the deadline.
wait_until() {
    local what=$1 component=$2 end=$((SECONDS + patience_seconds)) other
    shift 2
    until "$@" >/dev/null 2>&1; do
        for other in $(components); do alive "$other" || blame "$other" "\`$other\` has ended"; done
        [ "$SECONDS" -lt "$end" ] || blame "$component" "$what: not there after $patience_seconds s; \`$component\` should have seen to it"
        sleep 0.2
    done
}

blame() {
    say "the last lines of $logs/$1.log:"
    tail -n 20 "$logs/$1.log" >&2 || true
    fail "$2"
}

# ---- the end

# With the first process all others end, in whatever container they are, and with them the namespaces. The log is all that is kept:
# the next cluster begins from nothing.
own_down() {
    local group
    if alive node; then kill -KILL "$(handle node)"; fi
    until_gone
    ! ip link show "$seen" >/dev/null 2>&1 || ip link delete "$seen"
    for group in $(control_groups); do remove_groups "$group/$seen"; done
    [ ! -e "$run/made" ] || xargs -r rmdir --ignore-fail-on-non-empty <"$run/made"
    rm -rf "$run" "$kubeconfig" "$state/engine"
}

until_gone() {
    local component end=$((SECONDS + patience_seconds))
    for component in $(components); do
        while alive "$component"; do
            [ "$SECONDS" -lt "$end" ] || fail "\`$component\` does not end: process $(handle "$component")"
            sleep 0.05
        done
    done
}

# The kernel lets go of a group a moment after its last process.
remove_groups() {
    local end=$((SECONDS + 10))
    while [ -d "$1" ]; do
        find "$1" -depth -type d -exec rmdir {} \; 2>/dev/null || true
        [ -d "$1" ] || return 0
        [ "$SECONDS" -lt "$end" ] || { say "warning: the control group $1 cannot be removed" && return 0; }
        sleep 0.1
    done
}

# ---- the rest

own_import() { containers images import "$1" >&2; }

own_status() {
    local component status=0
    [ -d "$run" ] || { echo "down" && return 1; }
    for component in $(components); do
        if alive "$component"; then
            printf '%-24s running  pid %-8s %s\n' "$component" "$(process_of "$component")" "$(memory_of "$(process_of "$component")")"
        else
            printf '%-24s gone     see %s\n' "$component" "$logs/$component.log" && status=1
        fi
    done
    if is_up; then echo "the API is ready"; else echo "the API is not ready" && status=1; fi
    return "$status"
}

# The component itself, where what we started is only its parent.
process_of() {
    local pid
    pid=$(handle "$1")
    if [ "$1" = node ]; then echo "$pid" && return 0; fi
    { sed 's/ (.*) / /' /proc/[0-9]*/stat 2>/dev/null || true; } |
        awk -v parent="$pid" '$3 == parent { pid = $1 } END { print pid ? pid : parent }'
}

memory_of() { awk '$1 == "VmRSS:" { printf "%d MB", $2 / 1024 }' "/proc/$1/status"; }
