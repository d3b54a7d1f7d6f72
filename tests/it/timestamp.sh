#!/bin/sh
# Stamps a signature with an authority made for it: sh timestamp.sh FOLDER
#
# FOLDER holds `sig.b64`, the signature in base64. Prints the TimeStampResponse in base64 and leaves `root.pem` there.
set -eu
cd "$1"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout root.key -out root.pem -days 2 -subj "/CN=root" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" 2>/dev/null
openssl req -newkey rsa:2048 -nodes -keyout tsa.key -out tsa.csr -subj "/CN=tsa" 2>/dev/null
printf 'basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=critical,timeStamping\n' >ext
openssl x509 -req -in tsa.csr -CA root.pem -CAkey root.key -CAcreateserial -days 2 -extfile ext -out tsa.pem 2>/dev/null
echo 01 >serial
cat >tsa.cnf <<CNF
[tsa]
default_tsa = ours
[ours]
serial = serial
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256
CNF
base64 -d sig.b64 >sig
openssl ts -query -data sig -sha256 -cert -out query 2>/dev/null
openssl ts -reply -config tsa.cnf -section ours -queryfile query -signer tsa.pem -inkey tsa.key -out reply 2>/dev/null
base64 reply
