# The API of a cluster without any node: what is asked, refused, stored and tidied up is real, and no pod runs. Sourced by ci/kubernetes,
# never run. It needs neither root nor Linux's namespaces: three processes on ports of the loopback that nobody else has.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # Variables come from the files that source this one, and go to them.

api_up() {
    api_down
    need openssl openssl
    need python3 python3
    phase "binaries" binaries
    phase "control plane" api_start
}

api_start() {
    local ports
    rm -rf "$run" "$logs"
    mkdir -p "$run" "$logs" "$config"
    chmod 700 "$state"
    mkdir -m 700 "$keys"
    echo api >"$state/engine"
    read -r -a ports < <(free_ports 4)
    node=127.0.0.1
    api=https://$node:${ports[0]}
    authority
    certificate apiserver /CN=kube-apiserver "IP:$node"
    account_key
    identity "$kubeconfig" assay-admin system:masters
    identity "$config/controller-manager.kubeconfig" system:kube-controller-manager
    beside etcd "$bin/etcd" --data-dir "$run/etcd" --unsafe-no-fsync --log-level warn \
        --listen-client-urls "http://$node:${ports[1]}" --advertise-client-urls "http://$node:${ports[1]}" \
        --listen-peer-urls "http://$node:${ports[2]}" --initial-advertise-peer-urls "http://$node:${ports[2]}" \
        --initial-cluster "default=http://$node:${ports[2]}"
    beside kube-apiserver "$bin/kube-apiserver" --secure-port="${ports[0]}" \
        --etcd-servers="http://$node:${ports[1]}" --bind-address="$node" --advertise-address="$node" --endpoint-reconciler-type=none \
        --tls-cert-file="$keys/apiserver.crt" --tls-private-key-file="$keys/apiserver.key" \
        --token-auth-file="$keys/tokens.csv" --authorization-mode=RBAC --service-cluster-ip-range="$services" \
        --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --service-account-key-file="$keys/accounts.pub" --service-account-signing-key-file="$keys/accounts.key"
    wait_until "the API" kube-apiserver is_up
    beside kube-controller-manager "$bin/kube-controller-manager" --kubeconfig="$config/controller-manager.kubeconfig" \
        --bind-address="$node" --secure-port="${ports[3]}" --leader-elect=false --use-service-account-credentials \
        --service-account-private-key-file="$keys/accounts.key" --root-ca-file="$keys/ca.crt"
    wait_until "the default service account" kube-controller-manager k get serviceaccount default
}

# All of them are open at once, so that none is given twice.
free_ports() {
    python3 -c 'import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(one.getsockname()[1] for one in held))' "$1"
}

# beside NAME COMMAND...: starts a component with nothing of the caller's environment.
beside() {
    local component=$1
    shift
    setsid env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$run" "$@" >"$logs/$component.log" 2>&1 </dev/null &
    remember "$component" $!
}

api_down() {
    local component
    for component in $(components); do ! alive "$component" || kill -KILL "$(handle "$component")"; done
    until_gone
    rm -rf "$run" "$kubeconfig" "$state/engine"
}

api_status() { own_status; }

api_import() { fail "images cannot be given to an API without nodes" "ASSAY_KUBERNETES_ENGINE=own has one"; }
