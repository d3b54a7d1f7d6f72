#!/bin/sh
# Started once per trial, in a directory that holds the prepared binary. Parameters come from the environment.
set -eu
exec ./bandwidth
