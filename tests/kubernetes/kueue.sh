# Kueue, which decides when what waits in a queue may start: its own controller, with the rights, webhooks and settings that its project
# gives it. Sourced by ci/kubernetes, never run.
# shellcheck shell=bash
# shellcheck disable=SC2154 # Variables come from the file that sources this one.

kueue=$cache/kueue-$(cat tests/kubernetes/kueue/go.{mod,sum} | sha256sum | cut -c 1-16)
kueue_space=kueue-system

# The longest that its pod may take to be ready: it makes certificates for its webhooks before it starts.
kueue_patience=180s

kueue_start() {
    is_up || fail "the cluster is not up" "ci/kubernetes up"
    [ "$(engine)" != api ] || fail "Kueue runs as a pod, and this cluster has no node"
    if kueue_is_there; then
        say "Kueue is there already"
        return 0
    fi
    [ "$(engine)" != given ] || fail "Kueue is not in the cluster that was given, and its owner's to install"
    phase "Kueue's program" kueue_program
    phase "Kueue" kueue_install
}

# A cluster that somebody gives may have it, too.
kueue_is_there() {
    [ -n "$(k get --ignore-not-found crd workloads.kueue.x-k8s.io --output name 2>/dev/null)" ] &&
        k --namespace "$kueue_space" wait --for=condition=Available deployment/kueue-controller-manager --timeout=1s >/dev/null 2>&1
}

kueue_is_built() { [ -e "$kueue/complete" ]; }

# The objects are those of the very version that is built. The mark comes last, so that an interrupted build is never taken for a whole
# one.
kueue_program() {
    kueue_is_built && return 0
    need_go
    rm -rf "$kueue"
    mkdir -p "$kueue"
    build kueue "$kueue/" tool
    cp -r "$(cd tests/kubernetes/kueue && GOWORK=off go list -m -f '{{.Dir}}' sigs.k8s.io/kueue)/config" "$kueue/objects"
    # Modules are kept such that nobody can write to them.
    chmod -R u+w "$kueue/objects"
    touch "$kueue/complete"
}

kueue_install() {
    local work image
    need python3 python3
    work=$(mktemp -d)
    image=$(ci/oci-image.py --repository assay.test/kueue --output "$work/kueue.tar" --user 65532:65532 --entrypoint /manager \
        "$kueue/kueue=manager")
    import "$work/kueue.tar"
    cp -r "$kueue/objects" "$work/objects"
    kueue_settings "$work/objects/components/manager/controller_manager_config.yaml"
    kueue_objects "$image" >"$work/kustomization.yaml"
    k kustomize "$work" >"$work/kueue.yaml"
    # A test may have had the cluster know a kind of this name before.
    k apply --server-side --force-conflicts -f "$work/kueue.yaml" >/dev/null
    if ! k --namespace "$kueue_space" wait --for=condition=Available deployment/kueue-controller-manager \
        --timeout="$kueue_patience" >&2; then
        k --namespace "$kueue_space" logs deployment/kueue-controller-manager --tail=20 >&2 || true
        # Without it, its webhooks would keep every pod from being made.
        k delete --ignore-not-found --wait=false -f "$work/kueue.yaml" >/dev/null
        rm -rf "$work"
        fail "Kueue does not start"
    fi
    rm -rf "$work"
}

# There is one of it, so nobody else could lead: and who leads ends when the API server is away for long, and with it its webhooks. Its
# interface for looking at queues is served by way of the API server, which our own node does not do; and a namespace goes only when all
# that the API server offers responds.
kueue_settings() {
    sed -i 's/^  leaderElect: true$/  leaderElect: false/' "$1"
    printf 'featureGates:\n  VisibilityOnDemand: false\n' >>"$1"
}

# Less than its project asks for: a small machine keeps its CPUs for what tests run.
kueue_objects() {
    cat <<END
resources: [objects/default]
patches:
- target: {kind: APIService}
  patch: '{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: any}, \$patch: delete}'
- target: {kind: Deployment, name: controller-manager}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/image, value: "$1"}
    - {op: replace, path: /spec/template/spec/containers/0/imagePullPolicy, value: IfNotPresent}
    - {op: replace, path: /spec/template/spec/containers/0/resources/requests, value: {cpu: 50m, memory: 128Mi}}
    - {op: replace, path: /spec/template/spec/containers/0/readinessProbe/initialDelaySeconds, value: 1}
    - {op: replace, path: /spec/template/spec/containers/0/readinessProbe/periodSeconds, value: 1}
END
}
