#!/bin/sh
# Makes the authorities of the tests, and one timestamp by openssl: sh make.sh. The keys sign for nothing else.
set -eu
cd "$(dirname "$0")"
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
authority() { # NAME: a root and what signs timestamps under it
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$made/$1-root.key" -out "$made/$1-root.pem" \
        -days 36500 -subj "/CN=$1 root" -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" 2>/dev/null
    leaf "$1" "$1" "$2" "extendedKeyUsage=critical,timeStamping"
    cat "$made/$1-root.pem" >"$1.pem"
}
leaf() { # NAME ROOT KEY EXTENSION
    # shellcheck disable=SC2086
    openssl req -newkey $3 -nodes -keyout "$made/$1.key" -out "$made/$1.csr" -subj "/CN=$1" 2>/dev/null
    printf 'basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\n%s\n' "$4" >"$made/ext"
    openssl x509 -req -in "$made/$1.csr" -CA "$made/$2-root.pem" -CAkey "$made/$2-root.key" -CAcreateserial -days 36500 \
        -extfile "$made/ext" -out "$made/$1.crt" 2>/dev/null
    openssl x509 -in "$made/$1.crt" -outform DER -out "$1.crt.der"
    openssl pkcs8 -topk8 -nocrypt -in "$made/$1.key" -outform DER -out "$1.key.der"
}
authority ours "ec -pkeyopt ec_paramgen_curve:P-256"
authority other "ec -pkeyopt ec_paramgen_curve:P-256"
leaf web ours "ec -pkeyopt ec_paramgen_curve:P-256" "extendedKeyUsage=critical,serverAuth"
# What openssl itself stamps, with an RSA key: over the words `a signature`.
authority rsa "rsa:2048"
rm rsa.key.der
printf 'a signature' >"$made/signature"
echo 01 >"$made/serial"
cat >"$made/tsa.cnf" <<CNF
[tsa]
default_tsa = ours
[ours]
serial = $made/serial
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256, sha512
accuracy = secs:1
ordering = yes
tsa_name = yes
ess_cert_id_chain = no
ess_cert_id_alg = sha256
CNF
openssl ts -query -data "$made/signature" -sha512 -cert -out "$made/query" 2>/dev/null
openssl ts -reply -config "$made/tsa.cnf" -section ours -queryfile "$made/query" -signer "$made/rsa.crt" -inkey "$made/rsa.key" \
    -out openssl.tsr 2>/dev/null
rm rsa.crt.der
