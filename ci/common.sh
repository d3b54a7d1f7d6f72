# What the scripts of this folder share: timed phases, and programs that must be there. Sourced, never run.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# Programs carry their C library with them, so that the same ones run here and in an image that holds nothing else. That works only
# where the target is named: what cargo runs while it builds (macros of dependencies) must not be built so.
if [ "$(uname -s)" = Linux ] && command -v rustc >/dev/null && [ -z "${CARGO_BUILD_TARGET:-}" ]; then
    CARGO_BUILD_TARGET=$(rustc -vV | sed -n 's/^host: //p')
    export CARGO_BUILD_TARGET
    export RUSTFLAGS="${RUSTFLAGS:+$RUSTFLAGS }-C target-feature=+crt-static"
fi

# The folder of the built programs, which all scripts share so that nothing is compiled twice.
target=${CARGO_TARGET_DIR:-$root/target}
programs=$target${CARGO_BUILD_TARGET:+/$CARGO_BUILD_TARGET}/debug

# The programs that are released together: each starts others that lie beside it.
# shellcheck disable=SC2034
own_programs=(assay assay-{collect,execute,plan,provision,publish,reduce,serve,simulator,sql})

# Where scripts keep what tests need from elsewhere: outside of the repository, so that it survives `git clean`.
cache=${ASSAY_CI_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/assay-ci}

# The programs of other projects that Assay is compared with, by what the folder is made from, so that a change of it installs them
# anew.
foreign=$cache/foreign-$(cat "$root"/tests/foreign/* | cksum | cut -d ' ' -f 1)

in_ci() { [ "${CI:-}" = true ]; }

# What a later build would reuse is no use to one from nothing: without it, the workspace takes a fifth less time, and 20 GB less of the disk.
if in_ci; then export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}; fi

say() { printf '%s\n' "$*" >&2; }

# When the outermost script began, so that what may be left out is left out where it would take too long.
export ASSAY_CI_BEGUN=${ASSAY_CI_BEGUN:-$(date +%s)}
minutes_so_far() { echo $((($(date +%s) - ASSAY_CI_BEGUN) / 60)); }

# Phases go to a file, so that the table of a script that calls others has theirs too.
export ASSAY_CI_PHASES=${ASSAY_CI_PHASES:-}
if [ -z "$ASSAY_CI_PHASES" ]; then
    ASSAY_CI_PHASES=$(mktemp)
    trap 'finish $?' EXIT
fi

# phase NAME COMMAND...: runs a command and notes how long it took. The first that fails ends the script.
phase() {
    local name=$1 begin=$SECONDS status
    shift
    say "" && say "== $name"
    # In a subshell of its own, because bash ignores `set -e` in whatever stands before `||`.
    set +e
    (set -e && "$@")
    status=$?
    set -e
    printf '%s\t%s\t%s\n' "$name" "$((SECONDS - begin))" "$([ "$status" -eq 0 ] && echo ok || echo "failed ($status)")" \
        >>"$ASSAY_CI_PHASES"
    return "$status"
}

# Prints the table of phases; SECONDS counts from the start of the script.
finish() {
    local status=$1
    say ""
    awk -F '\t' 'BEGIN { printf "%-38s %8s  %s\n", "phase", "seconds", "result" } { printf "%-38s %8d  %s\n", $1, $2, $3 }' \
        "$ASSAY_CI_PHASES" >&2
    say "$(printf '%-38s %8d  %s' total "$SECONDS" "$([ "$status" -eq 0 ] && echo ok || echo failed)")"
    rm -f "$ASSAY_CI_PHASES"
}

# have PROGRAM PACKAGE...: whether a program is there, after an attempt to install it where that needs nobody's consent.
have() {
    local program=$1
    shift
    command -v "$program" >/dev/null && return 0
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 1
    say "installing $* for \`$program\`"
    # The lists of a fresh container are empty, and those of an old one stale.
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"; } >&2 || return 1
    command -v "$program" >/dev/null
}

# A virtual environment knows its own path, so it is made where it is used; the mark comes last, so that a broken installation is
# never taken for a whole one.
install_foreign() {
    [ -e "$foreign/complete" ] && return 0
    have openssl openssl && have python3 python3 python3-venv && have node nodejs && have npm npm || return 1
    rm -rf "$foreign"
    mkdir -p "$foreign"
    sh tests/foreign/install.sh "$foreign" >&2 && loads && touch "$foreign/complete"
}

# Whether this machine's Node is new enough for what was installed.
loads() { (cd "$foreign" && node --input-type=module --eval 'await import("@sigstore/verify")'); }

# The scripts that open pages in a browser, likewise by their content.
browser=$cache/browser-$({ cat "$root"/tests/browser/* 2>/dev/null || true; } | cksum | cut -d ' ' -f 1)

# The cache may outlive the container that the browser was installed in.
has_browser() { [ -e "$browser/complete" ] && [ -x /usr/bin/chromium ]; }

install_browser() {
    has_browser && return 0
    have node nodejs && have npm npm && have chromium chromium || return 1
    rm -rf "$browser"
    mkdir -p "$browser"
    sh tests/browser/install.sh "$browser" >&2 && touch "$browser/complete"
}

# need PROGRAM PACKAGE...: ends the script with words that help, where a program is neither there nor to be installed.
need() {
    have "$@" && return 0
    say "error: \`$1\` is not installed"
    say ""
    say "hint: install it with your package manager; on Debian and Ubuntu: apt-get install ${*:2}"
    exit 1
}

# What every build needs.
need_toolchain() {
    need cc gcc libc6-dev
    need git git
    local least found
    least=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    if ! command -v cargo >/dev/null; then
        say "error: \`cargo\` is not installed"
        say ""
        say "hint: install a Rust toolchain, $least or later: https://rustup.rs"
        exit 1
    fi
    found=$(rustc --version | cut -d' ' -f2)
    printf '%s\n' "$least" "$found" | sort --check=quiet --version-sort && return 0
    say "error: the Rust toolchain is $found, and Assay needs $least or later"
    say ""
    say "hint: update it: \`rustup update stable\`"
    exit 1
}
