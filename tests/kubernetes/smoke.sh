#!/usr/bin/env bash
# Tries in a cluster what Assay relies on, each thing by itself and within a deadline. `ci/kubernetes smoke` starts it, with the name
# of an image of tests/kubernetes/probe that the cluster has, and with KUBECTL and KUBECONFIG set.
set -euo pipefail
image=$1
deadline=90s
space=assay-smoke-$$
work=$(mktemp -d)

say() { printf '%s\n' "$*" >&2; }
k() { "${KUBECTL:-kubectl}" --namespace "$space" "$@"; }

clean() {
    k delete namespace "$space" --wait=false >/dev/null 2>&1 || true
    rm -rf "$work"
}

# pod WORDS [MORE]: what every pod here has, which is all that the policy `restricted` demands; WORDS are the probe's.
pod() {
    cat <<END
restartPolicy: Never
automountServiceAccountToken: false
securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
containers:
- name: probe
  image: "$image"
  imagePullPolicy: Never
  args: [$1]
  securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
END
    [ $# -lt 2 ] || printf '%s\n' "$2"
}

indent() { sed "s/^/$(printf '%*s' "$1" '')/"; }

# job NAME WORDS [MORE]: runs it to its end.
job() {
    k apply -f - <<END
apiVersion: batch/v1
kind: Job
metadata: {name: $1}
spec:
  backoffLimit: 0
  template:
    spec:
$(pod "$2" "${3:-}" | indent 6)
END
}

# single NAME WORDS [MORE]: a pod by itself.
single() {
    k apply -f - <<END
apiVersion: v1
kind: Pod
metadata: {name: $1, labels: {app: $1}}
spec:
$(pod "$2" "${3:-}" | indent 2)
END
}

completes() { k wait --for=condition=Complete --timeout="$deadline" "job/$1"; }
fails() { k wait --for=condition=Failed --timeout="$deadline" "job/$1"; }

# ended JOB FIELD: how the container of a Job's pod ended.
ended() { k get pod -l "job-name=$1" -o jsonpath="{.items[0].status.containerStatuses[0].state.terminated.$2}"; }

# is WHAT HAVE WANT
is() { [ "$2" = "$3" ] || { say "$1 is \`$2\`, not \`$3\`" && return 1; }; }

a_job_completes() {
    job no-op '"exit", "0"'
    completes no-op
}

a_failing_job_fails() {
    job failing '"exit", "3"'
    fails failing
    is "the status" "$(ended failing exitCode)" 3
}

an_indexed_job_completes() {
    k apply -f - <<END
apiVersion: batch/v1
kind: Job
metadata: {name: indexed}
spec:
  completionMode: Indexed
  completions: 3
  parallelism: 3
  backoffLimit: 0
  template:
    spec:
$(pod '"exit", "0"' | indent 6)
END
    completes indexed
    is "the indexes" "$(k get job indexed -o jsonpath='{.status.completedIndexes}')" 0-2
}

a_service_is_reached_by_name() {
    single server '"serve", ":8080", "hello from a Service"'
    k apply -f - <<END
apiVersion: v1
kind: Service
metadata: {name: greeter}
spec:
  selector: {app: server}
  ports: [{port: 80, targetPort: 8080}]
END
    k wait --for=condition=Ready --timeout="$deadline" pod/server
    job caller '"get", "http://greeter/"'
    completes caller
    is "the response" "$(k logs job/caller 2>/dev/null | tail -n 1)" "hello from a Service"
    job far-caller "\"get\", \"http://greeter.$space.svc.cluster.local/\""
    completes far-caller
}

a_claim_is_bound_and_written_to() {
    k apply -f - <<END
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: results}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 10Mi}}
END
    job writer '"write", "/results/a", "kept"' "$(mounts_claim)"
    completes writer
    is "the claim" "$(k get pvc results -o jsonpath='{.status.phase}')" Bound
}

# The container of `pod` ends with its last line, so a mount can follow it.
mounts_claim() {
    cat <<'END'
  volumeMounts: [{name: results, mountPath: /results}]
volumes: [{name: results, persistentVolumeClaim: {claimName: results}}]
END
}

a_hardened_pod_runs() {
    job hardened '"refuse-write", "/here"'
    completes hardened
}

an_unhardened_pod_is_refused() {
    local output
    output=$(k run unhardened --image "$image" --restart Never -- exit 0 2>&1) && say "it was accepted" && return 1
    grep -q 'violates PodSecurity "restricted' <<<"$output" || { say "$output" && return 1; }
}

too_much_memory_is_killed() {
    job greedy '"memory", "256"' "  resources: {limits: {memory: 48Mi, cpu: 500m}}"
    fails greedy
    is "the reason" "$(ended greedy reason)" OOMKilled
}

an_absent_image_is_seen() {
    image=assay.test/absent@sha256:$(printf '0%.0s' {1..64}) single absent '"exit", "0"'
    k wait --for=jsonpath='{.status.containerStatuses[0].state.waiting.reason}'=ErrImageNeverPull --timeout="$deadline" pod/absent
}

# A check that failed shows what the cluster saw of it.
check() {
    local begin=$SECONDS status
    set +e
    (set -e && "$1") >"$work/output" 2>&1
    status=$?
    set -e
    say "$(printf '%-36s %4d s  %s' "${1//_/ }" "$((SECONDS - begin))" "$([ "$status" -eq 0 ] && echo ok || echo FAILED)")"
    [ "$status" -eq 0 ] && return 0
    failed=true
    indent 4 <"$work/output" >&2
    {
        k get pods -o wide
        k logs --selector batch.kubernetes.io/job-name --prefix --tail 3 --ignore-errors
        k get events --sort-by=.lastTimestamp | tail -n 15
    } 2>&1 | indent 4 >&2
}

failed=false
trap clean EXIT
k create namespace "$space" >/dev/null
k label namespace "$space" pod-security.kubernetes.io/enforce=restricted >/dev/null
for each in a_job_completes a_failing_job_fails an_indexed_job_completes a_service_is_reached_by_name a_claim_is_bound_and_written_to \
    a_hardened_pod_runs an_unhardened_pod_is_refused too_much_memory_is_killed an_absent_image_is_seen; do
    check "$each"
done
[ "$failed" = false ]
