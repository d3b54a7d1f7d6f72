# The keys and files of a cluster of our own, new for each bring-up. Sourced by own.sh, never run.
# shellcheck shell=bash
# shellcheck disable=SC2154 # Variables come from the files that source this one.

files() {
    rm -rf "$run" "$logs"
    mkdir -p "$run" "$logs" "$config/cni" "$run/volumes" "$run/kubelet"
    # Tokens and keys are in here; pods reach what they mount all the same.
    chmod 700 "$state"
    mkdir -m 700 "$keys"
    echo own >"$state/engine"
    authority
    certificate apiserver /CN=kube-apiserver \
        "IP:$node,IP:$api_service,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
    certificate kubelet /CN=system:node:assay "IP:$node,DNS:assay"
    # The API server shows this one to the kubelet, which asks the API server what it may do: everything, as a master's.
    certificate apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client "DNS:kube-apiserver"
    account_key
    identities
    pause_image
    containerd_config >"$config/containerd.toml"
    network_config >"$config/cni/10-assay.conflist"
    kubelet_config >"$config/kubelet.yaml"
    proxy_config >"$config/proxy.yaml"
    dns_config >"$config/Corefile"
}

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }

authority() {
    key "$keys/ca.key"
    openssl req -x509 -new -key "$keys/ca.key" -subj /CN=assay-kubernetes -days 30 -out "$keys/ca.crt"
}

# certificate NAME SUBJECT ALTERNATIVES: both for a server and for a client.
certificate() {
    key "$keys/$1.key"
    openssl req -new -key "$keys/$1.key" -subj "$2" -out "$keys/$1.csr"
    openssl x509 -req -in "$keys/$1.csr" -CA "$keys/ca.crt" -CAkey "$keys/ca.key" -CAcreateserial -days 30 -out "$keys/$1.crt" \
        -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$3") 2>/dev/null
}

# What signs the tokens of service accounts.
account_key() {
    key "$keys/accounts.key"
    openssl pkey -in "$keys/accounts.key" -pubout -out "$keys/accounts.pub"
}

# Everybody who calls the API has a token, in place of a client's certificate.
identities() {
    identity "$kubeconfig" assay-admin system:masters
    identity "$config/controller-manager.kubeconfig" system:kube-controller-manager
    identity "$config/scheduler.kubeconfig" system:kube-scheduler
    identity "$config/kubelet.kubeconfig" system:node:assay system:nodes
    identity "$config/proxy.kubeconfig" system:kube-proxy
    identity "$config/dns.kubeconfig" assay-dns
}

# identity FILE USER [GROUP]
identity() {
    local token
    token=$(openssl rand -hex 32)
    echo "$token,$2,$2,\"${3:-}\"" >>"$keys/tokens.csv"
    (umask 077 && cat >"$1") <<END
apiVersion: v1
kind: Config
clusters: [{name: assay, cluster: {server: "$api", certificate-authority-data: $(base64 -w 0 "$keys/ca.crt")}}]
users: [{name: "$2", user: {token: $token}}]
contexts: [{name: assay, context: {cluster: assay, user: "$2"}}]
current-context: assay
END
}

# The engine starts it in every pod, so it has to know its name beforehand.
pause_image() {
    ci/oci-image.py --repository assay.test/pause --output "$run/pause.tar" --entrypoint /pause "$bin/pause=pause" >"$run/pause.name"
}

# The scores of processes cannot be lowered where root lacks CAP_SYS_RESOURCE.
containerd_config() {
    cat <<END
version = 2
root = "$run/containerd/root"
state = "$run/containerd/state"

[grpc]
  address = "$socket"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$(cat "$run/pause.name")"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "$(plugins)"
  conf_dir = "$config/cni"
END
}

# No masquerade: pods reach each other and this machine, and nothing beyond, so no test can come to depend on what is.
network_config() {
    cat <<END
{
  "cniVersion": "0.4.0",
  "name": "assay",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "pods",
      "isGateway": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "dataDir": "$run/addresses",
        "ranges": [[{"subnet": "$pods"}]],
        "routes": [{"dst": "0.0.0.0/0"}]
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
END
}

# `failCgroupV1`: kernels of small machines still have version 1 of the control groups. Eviction and the collection of images are off
# but for the last percent: a full disk of a developer's is none of the tests' business, and a collected image comes back from nowhere.
kubelet_config() {
    cat <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $node
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: "$keys/ca.crt"}
authorization: {mode: Webhook}
tlsCertFile: "$keys/kubelet.crt"
tlsPrivateKeyFile: "$keys/kubelet.key"
containerRuntimeEndpoint: "unix://$socket"
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
cgroupRoot: "/$seen"
protectKernelDefaults: true
clusterDomain: cluster.local
clusterDNS: [$dns_service]
resolvConf: ""
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
oomScoreAdj: 0
maxOpenFiles: $(ulimit -H -n | sed 's/unlimited/1000000/')
podLogsDir: "$logs/pods"
volumePluginDir: "$run/plugins"
cpuManagerPolicy: $cpus
$([ "$cpus" = none ] || echo 'reservedSystemCPUs: "0"')
END
}

# A zero leaves the kernel's table of connections as it is: only the machine's own network could change it.
proxy_config() {
    cat <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
hostnameOverride: assay
bindAddress: $node
nodePortAddresses: [primary]
clusterCIDR: $pods
clientConnection: {kubeconfig: "$config/proxy.kubeconfig"}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
oomScoreAdj: 0
END
}

# What is not of the cluster does not exist, and is said not to exist at once.
dns_config() {
    cat <<END
. {
    bind $node
    ready 127.0.0.1:8181
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig $config/dns.kubeconfig
    }
    template ANY ANY . {
        rcode NXDOMAIN
    }
}
END
}
