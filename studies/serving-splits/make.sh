#!/usr/bin/env bash
# What the study reads and does not hold is made by the studies in smollm2/ and serving-first/: their make.sh first.
set -euo pipefail
cd "$(dirname "$0")"
rm -rf documents models maps
cp -r ../serving-first/documents ../serving-first/models ../serving-first/maps .
