#!/usr/bin/env bash
# From a clone to a translator whose attention you can look at: set-up, then at most 4 minutes of training and 2 of the rest on 2 CPU cores.
# Run it again and it reuses what is done; interrupt it and it goes on. Everything lands in runs/quickstart/.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "Setting up .venv (the first time this installs PyTorch and takes some minutes) …" >&2
./scripts/setup.sh
data=data/quickstart
run=runs/quickstart
nmt() { printf '\n$ nmt %s\n' "$*"; .venv/bin/nmt "$@"; }

nmt train experiment=quickstart
printf '\nOn 500 test sentences of the same grammar as the training text:\n'
nmt evaluate checkpoint=$run/best.pt split=test output=$run/test.json
printf '\nOn 200 sentences written by hand, outside of that grammar and with words that the model never saw:\n'
nmt evaluate checkpoint=$run/best.pt src=$data/handwritten.en ref=$data/handwritten.de output=$run/handwritten.json
printf '\nA file of your own is translated like this:\n'
head -n 5 $data/test.en >$run/five.en
nmt translate checkpoint=$run/best.pt input=$run/five.en output=$run/five.de
paste -d '\n' $run/five.en $run/five.de | sed 's/^/  /; n; s/^/    → /'
printf '\nWhere the model looks while it writes each word:\n'
.venv/bin/python scripts/quickstart_attention.py $run $data/test
cat <<END

Next:
  echo 'The old man reads a book.' | .venv/bin/nmt translate checkpoint=$run/best.pt
  .venv/bin/nmt translate --help
  .venv/bin/tensorboard --logdir runs                    training curves, translations and attention at each validation
  .venv/bin/nmt train data=files …                       your own text: see "Train on your own files" in README.md
END
